//! All exchanges of one trainer: what was begun here, what others have said already, what went wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tensor::{Collective, Pool, Tensor, Value};
use wire::{Failure, SharedMemory};

use super::exchange::{Exchanged, Finished, OpenExchange, Ranks, Reaction, Sent};
use super::message::Part;
use super::reduce::can_reduce;
use super::terms::Terms;

/// A part that must go to another trainer.
#[derive(Debug)]
pub struct Outgoing {
    /// To whom.
    pub to: u32,
    /// What.
    pub part: Part,
}

/// A part that came before its exchange began here.
#[derive(Debug)]
struct Early {
    from: u32,
    part: Part,
}

/// The exchanges of one trainer with all others.
#[derive(Debug)]
pub struct Exchanges {
    ranks: Ranks,
    endpoints: Vec<String>,
    /// The number of the next exchange.
    next: u64,
    open: BTreeMap<u64, OpenExchange>,
    early: BTreeMap<u64, Vec<Early>>,
    /// Bytes of these by sender, and their limit.
    early_bytes: BTreeMap<u32, u64>,
    early_bytes_max: u64,
    /// Trainers that have ended in order.
    left: BTreeSet<u32>,
    failed: Option<Failure>,
    /// Memory of values that others may still read.
    retired: Vec<Arc<Value>>,
    /// Memory of parts that were used.
    pool: Pool,
    /// Memory that trainers of this machine can read, once one was met.
    shared: SharedMemory,
}

/// An exchange that is done; what it gave is still to be put together.
#[derive(Debug)]
pub struct Done(OpenExchange);

impl Done {
    /// The result of the exchange. It may add up numbers; nothing is locked meanwhile.
    pub fn finish(self) -> Finished {
        self.0.finish()
    }
}

/// Nobody is so many exchanges ahead: all of them need everybody.
const AHEAD_MAX: u64 = 1 << 20;
/// Values whose memory is kept until others have read them.
const RETIRED_MAX: usize = 256;
/// Parts and results whose memory is kept.
const POOL: usize = 256;
const POOL_BYTES: usize = 256 << 20;

impl Exchanges {
    /// Trainer `me` among those at these end points, in the order of their ranks.
    pub fn new(me: u32, endpoints: Vec<String>) -> Self {
        Self {
            ranks: Ranks { me, n: endpoints.len() as u32 },
            endpoints,
            next: 0,
            open: BTreeMap::new(),
            early: BTreeMap::new(),
            early_bytes: BTreeMap::new(),
            early_bytes_max: u64::MAX,
            left: BTreeSet::new(),
            failed: None,
            retired: Vec::new(),
            pool: Pool::new(POOL, POOL_BYTES),
            shared: SharedMemory::default(),
        }
    }

    /// Puts what others of this machine read into this memory.
    pub fn with_memory(self, shared: SharedMemory) -> Self {
        Self { shared, ..self }
    }

    /// Holds no more than so many bytes, about, for exchanges that have not begun here.
    pub fn with_limit(self, n_bytes_max: u64) -> Self {
        Self { early_bytes_max: n_bytes_max, ..self }
    }

    /// Begins an exchange: its number, and what the others must be told.
    pub fn begin(&mut self, terms: &Terms, value: Value) -> (u64, Vec<Outgoing>) {
        let number = self.next;
        self.next += 1;
        let n_bytes = value.tensor().map_or(0, |tensor| tensor.bytes().len());
        let memory = self.memory(n_bytes);
        let exchange = OpenExchange::new(self.ranks, number, terms, value, memory);
        let mut exchange = exchange.with_memory(self.shared.clone());
        let mut outgoing = Vec::new();
        let begun = exchange.begin();
        self.react(begun, &mut outgoing);
        self.open.insert(number, exchange);
        for Early { from, part } in self.early.remove(&number).unwrap_or_default() {
            let held = self.early_bytes.entry(from).or_default();
            *held = held.saturating_sub(part.n_bytes());
            outgoing.extend(self.receive(from, part));
        }
        self.check_left();
        (number, outgoing)
    }

    /// Memory for a tensor: shared memory, where the next value of this size is written for other processes of this machine, or
    /// the memory of a tensor that is no longer needed.
    fn memory(&mut self, n_bytes: usize) -> Tensor {
        for value in std::mem::take(&mut self.retired) {
            match Arc::try_unwrap(value) {
                Ok(Value::Tensor(tensor)) => self.pool.keep(tensor),
                Ok(_) => {}
                Err(held) => self.retired.push(held),
            }
        }
        self.shared.tensor(n_bytes).unwrap_or_else(|| self.pool.take(n_bytes))
    }

    /// Memory for parts that arrive.
    pub fn pool_mut(&mut self) -> &mut Pool {
        &mut self.pool
    }

    /// Whether values of this type can be reduced.
    pub fn can_reduce(tensor: &Tensor) -> bool {
        can_reduce(tensor.dtype())
    }

    /// A part has come; what the others must be told.
    pub fn receive(&mut self, from: u32, part: Part) -> Vec<Outgoing> {
        let mut outgoing = Vec::new();
        let number = part.exchange;
        if number >= self.next && number < self.next + AHEAD_MAX {
            let overfull = self.hold_early(from, part.n_bytes());
            self.early.entry(number).or_default().push(Early { from, part });
            if let Some(failure) = overfull {
                self.fail(failure);
                // Nothing continues, so none of it is needed.
                self.early.clear();
                self.early_bytes.clear();
            }
            return outgoing;
        }
        let words = part.words.clone();
        let Some(exchange) = self.open.get_mut(&number) else {
            self.fail(self.differ(from, &words, "an exchange that is over"));
            return outgoing;
        };
        let own = exchange.words.clone();
        if own != words {
            self.fail(self.differ(from, &words, &own));
            return outgoing;
        }
        match exchange.receive(from, part) {
            Some(reaction) => self.react(reaction, &mut outgoing),
            None => self.fail(self.differ(from, "a part that does not fit", &own)),
        }
        outgoing
    }

    /// Counts values that came too early. If the total is over the limit, the failure names a sender that is over its share.
    fn hold_early(&mut self, from: u32, n_bytes: u64) -> Option<Failure> {
        let held = self.early_bytes.entry(from).or_default();
        *held += n_bytes;
        let own = *held;
        let together: u64 = self.early_bytes.values().sum();
        let share = self.early_bytes_max / u64::from(self.ranks.n.saturating_sub(1).max(1));
        if together <= self.early_bytes_max || own <= share {
            return None;
        }
        let why = format!(
            "it has sent {} MB for exchanges that have not begun here, and all others together may send {} MB: is it \
             far ahead? FLAGS_request_memory_mb allows more",
            own >> 20,
            self.early_bytes_max >> 20
        );
        Some(Failure::Lost { trainer: from, endpoint: self.endpoint(from), why })
    }

    fn react(&mut self, reaction: Reaction, outgoing: &mut Vec<Outgoing>) {
        outgoing.extend(reaction.sent.into_iter().map(|Sent { to, part }| Outgoing { to, part }));
        self.free(reaction.freed);
    }

    fn free(&mut self, values: Vec<Arc<Value>>) {
        for value in values {
            if let Ok(Value::Tensor(tensor)) = Arc::try_unwrap(value) {
                self.pool.keep(tensor);
            }
        }
    }

    fn differ(&self, other: u32, says: &str, own: &str) -> Failure {
        let (own, says) = ((self.ranks.me, own.to_string()), (other, says.to_string()));
        let (left, right) = if own.0 < says.0 { (own, says) } else { (says, own) };
        Failure::Differ { left: left.0, left_says: left.1, right: right.0, right_says: right.1 }
    }

    /// A trainer has ended in order.
    pub fn leave(&mut self, trainer: u32) {
        self.left.insert(trainer);
        self.check_left();
    }

    /// Checks that no open exchange needs a rank that has left.
    fn check_left(&mut self) {
        if self.left.is_empty() {
            return;
        }
        let needed = |exchange: &OpenExchange| {
            let gone = exchange.waits_for().into_iter().find(|rank| self.left.contains(rank))?;
            Some((gone, exchange.words.to_string()))
        };
        if let Some((trainer, what)) = self.open.values().find_map(needed) {
            let endpoint = self.endpoint(trainer);
            self.fail(Failure::Left { trainer, endpoint, what });
        }
    }

    /// Whether a trainer has ended in order.
    pub fn has_left(&self, trainer: u32) -> bool {
        self.left.contains(&trainer)
    }

    /// A trainer is gone.
    pub fn lose(&mut self, trainer: u32, why: String) {
        let endpoint = self.endpoint(trainer);
        self.fail(Failure::Lost { trainer, endpoint, why });
    }

    /// Ends all exchanges. The first reason counts.
    pub fn fail(&mut self, failure: Failure) {
        self.failed.get_or_insert(failure);
    }

    /// The reason why the exchanges ended.
    pub fn failure(&self) -> Option<&Failure> {
        self.failed.as_ref()
    }

    /// Where a trainer is.
    pub fn endpoint(&self, trainer: u32) -> String {
        self.endpoints.get(trainer as usize).cloned().unwrap_or_default()
    }

    /// The result of an exchange if it is done; an error if it will never be.
    pub fn take(&mut self, number: u64) -> Option<Result<Exchanged, Failure>> {
        let done = self.take_done(number)?;
        Some(done.map(|done| self.retire(done.finish())))
    }

    /// An exchange that is done, to be finished by the caller and given to [`Exchanges::retire`] then; an
    /// error if it never will be.
    pub fn take_done(&mut self, number: u64) -> Option<Result<Done, Failure>> {
        let is_done = self.open.get(&number).is_some_and(OpenExchange::is_done);
        if is_done && let Some(exchange) = self.open.remove(&number) {
            return Some(Ok(Done(exchange)));
        }
        self.failed.clone().map(Err)
    }

    /// The result of an exchange; keeps the memory that it does not need any more.
    pub fn retire(&mut self, finished: Finished) -> Exchanged {
        let Finished { outcome, own, freed } = finished;
        self.free(freed);
        if self.retired.len() < RETIRED_MAX {
            self.retired.push(own);
        }
        outcome
    }

    /// Gives an exchange up: the value that was to be exchanged.
    pub fn abandon(&mut self, number: u64) -> Option<Value> {
        let own = self.open.remove(&number)?.into_own();
        Some(Arc::try_unwrap(own).unwrap_or_else(|shared| Value::clone(&shared)))
    }

    /// The exchange in words, and the ranks whose parts are missing.
    pub fn waits_for(&self, number: u64) -> Option<(String, Vec<u32>)> {
        let exchange = self.open.get(&number)?;
        Some((exchange.words.to_string(), exchange.waits_for()))
    }

    /// How many there are.
    pub fn n_trainers(&self) -> u32 {
        self.ranks.n
    }

    /// How many have begun here.
    pub fn n_begun(&self) -> u64 {
        self.next
    }

    /// This trainer.
    pub fn me(&self) -> u32 {
        self.ranks.me
    }

    /// Checks whether a value can be exchanged like this; the error names the fault.
    pub fn check(&self, collective: Collective, value: &Value) -> Result<(), &'static str> {
        let tensor = value.tensor();
        match collective {
            Collective::AllGather if tensor.is_some() || value.rows().is_some() => Ok(()),
            Collective::AllGather => Err("it holds neither a tensor nor rows"),
            _ if tensor.is_none() => Err("it holds no tensor"),
            Collective::Broadcast { root } if root >= self.ranks.n => {
                Err("the root does not exist")
            }
            Collective::Broadcast { .. } => Ok(()),
            _ if !tensor.is_some_and(Self::can_reduce) => Err("its numbers cannot be added up"),
            Collective::AllReduce(_) => Ok(()),
            Collective::ReduceScatter(_) => {
                let n_rows = tensor.and_then(|tensor| tensor.dims().first().copied()).unwrap_or(0);
                let is_even = n_rows.is_multiple_of(self.ranks.n.max(1) as usize);
                is_even.then_some(()).ok_or("its rows cannot be dealt out evenly")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::ReduceOp;

    fn all(n: u32) -> Vec<Exchanges> {
        let endpoints: Vec<String> = (0..n).map(|rank| format!("h:{rank}")).collect();
        (0..n).map(|me| Exchanges::new(me, endpoints.clone())).collect()
    }

    fn terms(collective: Collective, var: &str) -> Terms {
        Terms { collective, var: var.to_string(), ring: 0 }
    }

    /// Delivers everything, the newest first.
    fn deliver(trainers: &mut [Exchanges], mut waiting: Vec<(u32, Outgoing)>) {
        while let Some((from, Outgoing { to, part })) = waiting.pop() {
            let more = trainers[to as usize].receive(from, part);
            waiting.extend(more.into_iter().map(|outgoing| (to, outgoing)));
        }
    }

    fn run(collective: Collective, values: Vec<Value>) -> Vec<Exchanged> {
        let mut trainers = all(values.len() as u32);
        let mut waiting = Vec::new();
        for (trainer, value) in trainers.iter_mut().zip(values) {
            let (number, outgoing) = trainer.begin(&terms(collective, "g"), value);
            assert_eq!(number, 0);
            waiting.extend(outgoing.into_iter().map(|outgoing| (trainer.me(), outgoing)));
        }
        deliver(&mut trainers, waiting);
        trainers.iter_mut().map(|trainer| trainer.take(0).expect("done").unwrap()).collect()
    }

    fn tensor(n: usize, value: f32) -> Value {
        Value::Tensor(Tensor::full([n], value))
    }

    #[test]
    fn everybody_gets_the_same_sum() {
        let sum = Collective::AllReduce(ReduceOp::Sum);
        for n_elements in [1, 3, 100, 30_001, 400_000] {
            for n in [1u32, 2, 3, 5] {
                let values = (0..n).map(|rank| tensor(n_elements, rank as f32 + 0.5)).collect();
                let total = (0..n).map(|rank| rank as f32 + 0.5).sum();
                for outcome in run(sum, values) {
                    let Exchanged::One(value) = outcome else { panic!("{outcome:?}") };
                    assert_eq!(value, tensor(n_elements, total), "{n} trainers, {n_elements}");
                }
            }
        }
    }

    #[test]
    fn values_are_passed_on_and_dealt_out() {
        let values = || vec![tensor(6, 1.0), tensor(6, 2.0), tensor(6, 4.0)];
        for outcome in run(Collective::Broadcast { root: 1 }, values()) {
            assert!(matches!(outcome, Exchanged::One(value) if value == tensor(6, 2.0)));
        }
        for outcome in run(Collective::ReduceScatter(ReduceOp::Sum), values()) {
            assert!(matches!(outcome, Exchanged::One(value) if value == tensor(2, 7.0)));
        }
        for outcome in run(Collective::AllGather, values()) {
            let Exchanged::All(got) = outcome else { panic!() };
            assert_eq!(got.iter().map(|value| Value::clone(value)).collect::<Vec<_>>(), values());
        }
    }

    #[test]
    fn who_sends_too_much_too_early_is_named() {
        let sum = Collective::AllReduce(ReduceOp::Sum);
        let limited = || Exchanges::new(0, all(3)[0].endpoints.clone()).with_limit(100_000);
        let send = |own: &mut Exchanges, other: &mut Exchanges| {
            let (_, outgoing) = other.begin(&terms(sum, "g"), tensor(3_000, 1.0));
            let from = other.me();
            for Outgoing { part, .. } in outgoing.into_iter().filter(|outgoing| outgoing.to == 0) {
                own.receive(from, part);
            }
        };
        let [_, mut one, mut other] = <[Exchanges; 3]>::try_from(all(3)).unwrap();
        let mut own = limited();
        send(&mut own, &mut other);
        for _ in 0..1000 {
            send(&mut own, &mut one);
        }
        let Some(Failure::Lost { trainer: 1, why, .. }) = own.failure() else {
            panic!("{:?}", own.failure())
        };
        assert!(why.contains("FLAGS_request_memory_mb"), "{why}");
        assert!(own.early.len() < 1000, "it is not held");
        // One that begins as well may be late as often as it likes.
        let [_, mut one, _] = <[Exchanges; 3]>::try_from(all(3)).unwrap();
        let mut own = limited();
        for _ in 0..1000 {
            send(&mut own, &mut one);
            own.begin(&terms(sum, "g"), tensor(3_000, 1.0));
        }
        assert_eq!(own.failure(), None);
    }

    #[test]
    fn trainers_that_do_not_do_the_same_are_named() {
        let mut trainers = all(2);
        let sum = Collective::AllReduce(ReduceOp::Sum);
        let (_, from_0) = trainers[0].begin(&terms(sum, "a"), tensor(3, 1.0));
        trainers[1].begin(&terms(sum, "b"), tensor(3, 1.0));
        deliver(&mut trainers, from_0.into_iter().map(|outgoing| (0, outgoing)).collect());
        let failure = trainers[1].take(0).expect("failed").unwrap_err();
        let Failure::Differ { left: 0, right: 1, left_says, right_says } = failure else {
            panic!()
        };
        assert!(
            left_says.contains("`a`") && right_says.contains("`b`"),
            "{left_says} {right_says}"
        );
    }

    #[test]
    fn who_is_late_and_who_has_left_is_known() {
        let mut trainers = all(3);
        let sum = Collective::AllReduce(ReduceOp::Sum);
        let mut waiting = Vec::new();
        for trainer in &mut trainers[..2] {
            let (_, outgoing) = trainer.begin(&terms(sum, "g"), tensor(30_000, 1.0));
            waiting.extend(outgoing.into_iter().map(|outgoing| (trainer.me(), outgoing)));
        }
        deliver(&mut trainers, waiting);
        let (words, late) = trainers[0].waits_for(0).unwrap();
        assert_eq!((words.as_str(), late), ("sum of `g` (float [30000], ring 0)", vec![2]));
        assert!(trainers[0].take(0).is_none());
        trainers[0].leave(2);
        assert!(matches!(trainers[0].take(0), Some(Err(Failure::Left { trainer: 2, .. }))));
        trainers[1].lose(2, "gone".into());
        assert!(matches!(trainers[1].take(0), Some(Err(Failure::Lost { trainer: 2, .. }))));
    }
}
