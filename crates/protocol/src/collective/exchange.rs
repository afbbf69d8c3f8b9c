//! One exchange, as one trainer sees it.

use std::ops::Range;
use std::sync::Arc;

use tensor::{Collective, ReduceOp, Tensor, Value};
use wire::SharedMemory;

use super::chunk::{Chunk, ValueSize, chunks, segment};
use super::message::{Part, PartKind, Payload};
use super::reduce::{self, Contribution};
use super::terms::Terms;

/// The result of an exchange for this trainer.
#[derive(Debug)]
pub enum Exchanged {
    /// One value.
    One(Value),
    /// The values of all trainers, in the order of ranks.
    All(Vec<Arc<Value>>),
}

/// The result of an exchange, and memory that it does not need any more.
#[derive(Debug)]
pub struct Finished {
    /// The result.
    pub outcome: Exchanged,
    /// The own value, which others may still read.
    pub(super) own: Arc<Value>,
    pub(super) freed: Vec<Arc<Value>>,
}

/// The ranks that take part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ranks {
    pub(super) me: u32,
    pub(super) n: u32,
}

impl Ranks {
    pub(super) fn others(self) -> impl Iterator<Item = u32> {
        (0..self.n).filter(move |&rank| rank != self.me)
    }
}

/// A part and the trainer that gets it.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) to: u32,
    pub(super) part: Part,
}

/// The effects of a part.
#[derive(Debug, Default)]
pub(super) struct Reaction {
    pub(super) sent: Vec<Sent>,
    /// Memory that is not needed any more.
    pub(super) freed: Vec<Arc<Value>>,
}

/// An exchange that has begun here.
#[derive(Debug)]
pub(super) struct OpenExchange {
    ranks: Ranks,
    number: u64,
    pub(super) words: Arc<str>,
    collective: Collective,
    own: Arc<Value>,
    result: Tensor,
    /// Where others of this machine can read.
    memory: SharedMemory,
    chunks: Vec<Chunk>,
    /// For each chunk that is added up here, what has come of it, by rank.
    shares: Vec<Vec<Option<Payload>>>,
    is_filled: Vec<bool>,
    /// Chunks of the result that are not there yet.
    n_left: usize,
    /// Chunks whose shares are all there. The first reader of the result adds them up.
    later: Vec<usize>,
    /// All values, if everybody gets all of them.
    gathered: Vec<Option<Arc<Value>>>,
}

impl OpenExchange {
    /// An exchange of `value`; `result` is memory for what it gives.
    pub(super) fn new(
        ranks: Ranks,
        number: u64,
        terms: &Terms,
        value: Value,
        result: Tensor,
    ) -> Self {
        let words = terms.words(&value).into();
        let (collective, own) = (terms.collective, Arc::new(value));
        let mut exchange = Self {
            ranks,
            number,
            words,
            collective,
            own,
            result,
            memory: SharedMemory::default(),
            chunks: Vec::new(),
            shares: Vec::new(),
            is_filled: Vec::new(),
            n_left: 0,
            later: Vec::new(),
            gathered: Vec::new(),
        };
        exchange.plan();
        exchange
    }

    /// With memory for what others of this machine read.
    pub(super) fn with_memory(self, memory: SharedMemory) -> Self {
        Self { memory, ..self }
    }

    /// Finds out what must come from whom.
    fn plan(&mut self) {
        let Ranks { me, n } = self.ranks;
        if self.collective == Collective::AllGather {
            self.gathered = vec![None; n as usize];
            self.gathered[me as usize] = Some(self.own.clone());
            return;
        }
        let Some(tensor) = self.own.tensor() else { return };
        self.result.resize_as(tensor.dtype(), tensor.shape());
        let extent = ValueSize { n_elements: tensor.len(), element_bytes: tensor.dtype().size() };
        self.chunks = chunks(self.collective, n, extent);
        let is_mine = |chunk: &Chunk| chunk.owner.is_none_or(|owner| owner == me);
        let adds = self.reduction().is_some();
        let shares = |chunk: &Chunk| {
            if adds && is_mine(chunk) { vec![None; n as usize] } else { Vec::new() }
        };
        self.shares = self.chunks.iter().map(shares).collect();
        self.is_filled = vec![false; self.chunks.len()];
        let needs = |chunk: &&Chunk| match self.collective {
            Collective::Broadcast { root } => root != me,
            Collective::ReduceScatter(_) => is_mine(chunk),
            _ => true,
        };
        self.n_left = self.chunks.iter().filter(needs).count();
    }

    fn reduction(&self) -> Option<ReduceOp> {
        match self.collective {
            Collective::AllReduce(reduction) | Collective::ReduceScatter(reduction) => {
                Some(reduction)
            }
            Collective::Broadcast { .. } | Collective::AllGather => None,
        }
    }

    /// The first messages of this trainer.
    pub(super) fn begin(&mut self) -> Reaction {
        let mut reaction = Reaction::default();
        if self.collective == Collective::AllGather {
            let payload = Payload::Value(self.own.clone());
            let all =
                self.ranks.others().map(|to| self.sent(to, PartKind::Share, 0, payload.clone()));
            reaction.sent = all.collect();
            return reaction;
        }
        for (at, chunk) in self.chunks.iter().enumerate() {
            let payload =
                || Payload::Slice { whole: self.own.clone(), elements: chunk.elements.clone() };
            let (kind, to): (PartKind, Vec<u32>) = match (self.collective, chunk.owner) {
                (Collective::Broadcast { root }, _) if root == self.ranks.me => {
                    (PartKind::Result, self.ranks.others().collect())
                }
                (Collective::Broadcast { .. }, _) => continue,
                (_, None) => (PartKind::Share, self.ranks.others().collect()),
                (_, Some(owner)) if owner == self.ranks.me => continue,
                (_, Some(owner)) => (PartKind::Share, vec![owner]),
            };
            let all = to.into_iter().map(|to| self.sent(to, kind, at, payload()));
            reaction.sent.extend(all);
        }
        if self.ranks.n == 1 {
            (0..self.chunks.len()).for_each(|at| self.complete(at, &mut reaction));
        }
        reaction
    }

    fn sent(&self, to: u32, kind: PartKind, chunk: usize, payload: Payload) -> Sent {
        let (exchange, words) = (self.number, self.words.clone());
        Sent { to, part: Part { exchange, words, kind, chunk: chunk as u32, payload } }
    }

    /// Takes a part of another trainer; None if it does not fit.
    pub(super) fn receive(&mut self, from: u32, part: Part) -> Option<Reaction> {
        let mut reaction = Reaction::default();
        let at = part.chunk as usize;
        if self.collective == Collective::AllGather {
            let Payload::Value(value) = part.payload else { return None };
            let place = self.gathered.get_mut(from as usize).filter(|place| place.is_none())?;
            *place = Some(value);
            return Some(reaction);
        }
        let chunk = self.chunks.get(at)?;
        let (tensor, elements) = part.payload.elements()?;
        let fits = tensor.dtype() == self.result.dtype() && elements.len() == chunk.elements.len();
        if !fits {
            return None;
        }
        match part.kind {
            PartKind::Share => {
                let shares = self.shares.get_mut(at)?;
                let place = shares.get_mut(from as usize).filter(|place| place.is_none())?;
                *place = Some(part.payload);
                let n_missing =
                    self.ranks.others().filter(|&rank| self.shares[at][rank as usize].is_none());
                if n_missing.count() == 0 {
                    self.complete(at, &mut reaction);
                }
            }
            PartKind::Result => {
                let is_owner = chunk.owner == Some(from);
                let is_told = !matches!(self.collective, Collective::ReduceScatter(_));
                if !is_owner || !is_told || self.is_filled[at] {
                    return None;
                }
                let size = tensor.dtype().size();
                let from = tensor.bytes().get(elements.start * size..elements.end * size)?;
                let place = chunk.elements.start * size..chunk.elements.end * size;
                self.result.bytes_mut().get_mut(place)?.copy_from_slice(from);
                self.fill(at);
                free(part.payload, &mut reaction);
            }
        }
        Some(reaction)
    }

    fn fill(&mut self, at: usize) {
        self.is_filled[at] = true;
        self.n_left -= 1;
    }

    /// All shares of a chunk are there.
    fn complete(&mut self, at: usize, reaction: &mut Reaction) {
        if self.reduction().is_none() {
            return;
        }
        // Waiting with memory of this machine costs nothing, and the next reader of the sum has it in its cache if it computed
        // it.
        let is_near = self.shares[at].iter().flatten().any(Payload::is_lent);
        if is_near && self.chunks[at].owner.is_none() {
            self.later.push(at);
            return self.fill(at);
        }
        self.add_up(at, reaction);
        self.fill(at);
        let tells =
            self.chunks[at].owner.is_some() && matches!(self.collective, Collective::AllReduce(_));
        if tells {
            let place = self.chunks[at].elements.clone();
            let sum = Arc::new(Value::Tensor(self.copy_of_result(place)));
            let payload = Payload::Value(sum);
            let told =
                self.ranks.others().map(|to| self.sent(to, PartKind::Result, at, payload.clone()));
            reaction.sent.extend(told);
        }
    }

    /// A part of the result as a tensor, where others of this machine can read it.
    fn copy_of_result(&self, elements: Range<usize>) -> Tensor {
        let n_bytes = elements.len() * self.result.dtype().size();
        copy_into(self.memory.tensor(n_bytes).unwrap_or_default(), &self.result, elements)
    }

    /// Adds up a chunk.
    fn add_up(&mut self, at: usize, reaction: &mut Reaction) {
        let Some(reduction) = self.reduction() else { return };
        let place = self.chunks[at].elements.clone();
        let others = std::mem::take(&mut self.shares[at]);
        let Some(own) = self.own.tensor() else { return };
        let mut shares = Vec::with_capacity(self.ranks.n as usize);
        for rank in 0..self.ranks.n {
            let other =
                others.get(rank as usize).and_then(Option::as_ref).and_then(Payload::elements);
            shares.push(match other {
                Some((tensor, elements)) => Contribution { tensor, elements },
                None => Contribution { tensor: own, elements: place.clone() },
            });
        }
        reduce::reduce(reduction, &shares, &mut self.result, place);
        others.into_iter().flatten().for_each(|payload| free(payload, reaction));
    }

    pub(super) fn is_done(&self) -> bool {
        self.n_left == 0 && self.gathered.iter().all(Option::is_some)
    }

    /// The ranks whose parts are missing.
    pub(super) fn waits_for(&self) -> Vec<u32> {
        let open = |at: &usize| !self.is_filled[*at];
        let no_share = |rank: &u32| {
            let not_gathered = self.gathered.get(*rank as usize).is_some_and(Option::is_none);
            let mut mine = (0..self.chunks.len()).filter(open);
            let missing =
                mine.any(|at| self.shares[at].get(*rank as usize).is_some_and(Option::is_none));
            not_gathered || missing
        };
        let late: Vec<u32> = self.ranks.others().filter(no_share).collect();
        if !late.is_empty() || self.n_left == 0 {
            return late;
        }
        let owes = |rank: &u32| {
            let mut chunks = self.chunks.iter().zip(&self.is_filled);
            chunks.any(|(chunk, filled)| !filled && chunk.owner == Some(*rank))
        };
        self.ranks.others().filter(owes).collect()
    }

    /// The own value, of an exchange that is given up.
    pub(super) fn into_own(self) -> Arc<Value> {
        self.own
    }

    /// The result of a finished exchange.
    pub(super) fn finish(mut self) -> Finished {
        let mut reaction = Reaction::default();
        let later = std::mem::take(&mut self.later);
        later.into_iter().for_each(|at| self.add_up(at, &mut reaction));
        let Self { ranks, collective, own, result, gathered, .. } = self;
        let outcome = match collective {
            Collective::AllGather => Exchanged::All(gathered.into_iter().flatten().collect()),
            Collective::Broadcast { root } if root == ranks.me => {
                let mut copy = result;
                if let Some(tensor) = own.tensor() {
                    copy.copy_from(tensor);
                }
                Exchanged::One(Value::Tensor(copy))
            }
            Collective::ReduceScatter(_) => {
                let part = segment(ranks.me, ranks.n, result.len());
                let n_rows = result.dims().first().copied().unwrap_or(0) / ranks.n.max(1) as usize;
                let shape = result.shape().with_dim(0, n_rows);
                let mut own = copy_into(Tensor::default(), &result, part);
                // The caller has checked that the rows can be dealt out evenly.
                let _ = own.reshape(shape);
                Exchanged::One(Value::Tensor(own))
            }
            Collective::AllReduce(_) | Collective::Broadcast { .. } => {
                Exchanged::One(Value::Tensor(result))
            }
        };
        Finished { outcome, own, freed: reaction.freed }
    }
}

fn free(payload: Payload, reaction: &mut Reaction) {
    if let Payload::Value(value) = payload {
        reaction.freed.push(value);
    }
}

/// Some elements as a tensor of their own, in this memory.
fn copy_into(mut copy: Tensor, tensor: &Tensor, elements: Range<usize>) -> Tensor {
    let size = tensor.dtype().size();
    copy.resize_as(tensor.dtype(), [elements.len()].into());
    let bytes = tensor.bytes().get(elements.start * size..elements.end * size);
    copy.bytes_mut().copy_from_slice(bytes.unwrap_or_default());
    copy
}
