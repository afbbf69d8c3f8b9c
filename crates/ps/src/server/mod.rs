//! The server as a state machine: messages and the time in, answers out.
//!
//! No socket, no thread and no clock live here; `tcp.rs` drives it, and so does the simulator.
//! What variables are and how gradients change them is the [`Store`]'s business.

mod agreement;
mod meeting;
mod roll;
mod round;
mod size;
mod staleness;
mod store;
mod trading;

#[cfg(test)]
mod tests;

pub use size::Size;
pub use store::Store;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tensor::{Tensor, Value};

pub use roll::State;

use crate::ids::{ConnId, Millis, TrainerId};
use crate::lines::Severity;
use crate::message::{
    Ack, Done, Hello, LookUp, Meet, Pong, Pull, Push, Reply, Request, Stats, VERSION, Values,
    Welcome,
};
use crate::refusal::Refusal;
use crate::shm::SharedMemory;
use meeting::Meetings;
use roll::Roll;
use round::Rounds;
use staleness::Staleness;
use trading::Trades;

/// How a server behaves.
#[derive(Clone, Debug)]
pub struct Config {
    /// Trainers of another job are refused.
    pub job: String,
    /// How many trainers the job has.
    pub n_trainers: u32,
    /// Gradients wait for the round's end; otherwise they are applied as they come.
    pub sync: bool,
    /// A trainer silent for so long is dead.
    pub lease_ms: u64,
    /// A trainer whose connection broke has so long to come back.
    pub grace_ms: u64,
    /// Rounds go on without a trainer that died.
    pub go_on: bool,
    /// Gradients that are not finite are refused.
    pub check_finite: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            job: String::new(),
            n_trainers: 1,
            sync: true,
            lease_ms: 20_000,
            grace_ms: 2_000,
            go_on: false,
            check_finite: false,
        }
    }
}

/// What must be done after an event.
#[derive(Debug)]
pub enum Action {
    /// Answer somebody.
    Reply(ConnId, u64, Reply),
    /// Cut a connection.
    Close(ConnId),
    /// Tell whoever watches.
    Log(Severity, String),
}

/// A question that waits for a round.
#[derive(Debug)]
struct Waiting {
    conn: ConnId,
    id: u64,
    trainer: TrainerId,
    after: u64,
    question: Question,
}

#[derive(Debug)]
enum Question {
    Pull(Pull),
    LookUp(LookUp),
}

/// The state machine; see the module.
pub struct Server<S> {
    config: Config,
    store: S,
    roll: Roll,
    rounds: Rounds,
    meetings: Meetings,
    trades: Trades,
    waiting: Vec<Waiting>,
    /// Why the job cannot go on.
    failure: Option<Refusal>,
    stats: Stats,
    staleness: Staleness,
    news: BTreeMap<(TrainerId, Vec<String>), News>,
    ticked: Millis,
    /// What was said of refused connections.
    turned_away: BTreeSet<String>,
    actions: Vec<Action>,
}

/// What a trainer was last told of changes, for when the answer was lost: a store tells them once.
struct News {
    id: u64,
    values: Vec<Arc<Value>>,
}

/// A longer time without a look at the clock was no silence of the trainers.
const SLEPT_MS: u64 = 1_000;

/// Kinds of refused connections that are mentioned.
const TURNED_AWAY_MAX: usize = 256;

/// How a server's work ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Every trainer has completed.
    Completed,
    /// The job failed and no trainer is left to be told.
    Failed(Refusal),
}

impl<S: Store> Server<S> {
    /// A server nobody has spoken to.
    pub fn new(config: Config, store: S) -> Self {
        let n = config.n_trainers;
        Self {
            store,
            roll: Roll::new(n),
            rounds: Rounds::new(n),
            meetings: Meetings::default(),
            trades: Trades::new(n),
            waiting: Vec::new(),
            failure: None,
            stats: Stats::default(),
            staleness: Staleness::default(),
            news: BTreeMap::new(),
            ticked: Millis(0),
            turned_away: BTreeSet::new(),
            actions: Vec::new(),
            config,
        }
    }

    /// What it holds.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Memory for values that are asked for.
    pub fn set_room(&mut self, room: &SharedMemory) {
        self.store.set_room(room);
    }

    /// Memory of gradients that were applied, for those to come.
    pub fn spare(&mut self) -> Vec<Tensor> {
        self.store.spare()
    }

    /// What it holds, at the end.
    pub fn into_store(self) -> S {
        self.store
    }

    /// Counters.
    pub fn stats(&self) -> Stats {
        let Size { rows, bytes, table_rows, table_bytes, waiting, dropped } = self.store.size();
        let sizes = Stats { rows, bytes, table_rows, table_bytes, ..self.stats.clone() };
        Stats { rounds: self.rounds.applied(), waiting, dropped, ..sizes }
    }

    /// Whether and how the server's work is over.
    pub fn end(&self) -> Option<End> {
        match &self.failure {
            Some(failure) if self.roll.all_told() => Some(End::Failed(failure.clone())),
            Some(_) => None,
            None => match self.roll.lost() {
                _ if !self.roll.all_gone() => None,
                Some(trainer) if !(self.config.go_on && self.roll.anybody_completed()) => {
                    Some(End::Failed(self.roll.obituary(trainer, self.rounds.applied())))
                }
                _ => Some(End::Completed),
            },
        }
    }

    /// A message came; returns what to do, in order.
    pub fn handle(&mut self, now: Millis, conn: ConnId, id: u64, request: Request) -> Vec<Action> {
        match (request, self.roll.who(conn)) {
            (Request::Hello(hello), _) => self.greet(now, conn, id, hello),
            (_, None) => self.turn_away(conn, id, Refusal::HelloFirst),
            (request, Some(trainer)) => {
                self.roll.heard(trainer, now);
                if request.is_change() {
                    self.change(now, (conn, trainer), id, request);
                } else {
                    self.answer((conn, trainer), id, request);
                }
            }
        }
        std::mem::take(&mut self.actions)
    }

    /// A connection broke.
    pub fn closed(&mut self, now: Millis, conn: ConnId) -> Vec<Action> {
        self.roll.closed(conn, now);
        self.waiting.retain(|waiting| waiting.conn != conn);
        std::mem::take(&mut self.actions)
    }

    /// Time passed: finds the dead.
    pub fn tick(&mut self, now: Millis) -> Vec<Action> {
        let slept = now.since(self.ticked);
        self.ticked = now;
        // What came while the server was busy or stopped has not been read yet.
        if slept > SLEPT_MS {
            self.roll.forgive(now, slept);
        }
        for trainer in self.roll.expire(now, &self.config) {
            self.bury(trainer);
        }
        std::mem::take(&mut self.actions)
    }

    /// Tells everybody who waits that the job cannot go on.
    pub fn fail(&mut self, refusal: Refusal) -> Vec<Action> {
        self.set_failure(refusal);
        std::mem::take(&mut self.actions)
    }

    fn reply(&mut self, conn: ConnId, id: u64, reply: impl Into<Reply>) {
        let reply = reply.into();
        if let (Some(trainer), Reply::Refused(_), Some(_)) =
            (self.roll.who(conn), &reply, &self.failure)
        {
            self.roll.told(trainer);
        }
        self.actions.push(Action::Reply(conn, id, reply));
    }

    /// Something that needs attention.
    fn warn(&mut self, line: String) {
        self.actions.push(Action::Log(Severity::Warning, line));
    }

    /// Something that is as it should be.
    fn inform(&mut self, line: String) {
        self.actions.push(Action::Log(Severity::Info, line));
    }

    fn turn_away(&mut self, conn: ConnId, id: u64, refusal: Refusal) {
        let kind = match &refusal {
            Refusal::DuplicateTrainer { trainer, .. } => format!("duplicate {trainer}"),
            other => other.to_string(),
        };
        // Who tries again and again is mentioned once.
        if self.turned_away.len() < TURNED_AWAY_MAX && self.turned_away.insert(kind) {
            self.warn(format!("refused a connection: {refusal}"));
        }
        self.reply(conn, id, refusal);
        self.actions.push(Action::Close(conn));
    }

    fn greet(&mut self, now: Millis, conn: ConnId, id: u64, hello: Hello) {
        let n_trainers = self.config.n_trainers;
        if hello.version != VERSION {
            let refusal = Refusal::Version { ours: VERSION, theirs: hello.version };
            return self.turn_away(conn, id, refusal);
        }
        if hello.job != self.config.job {
            let theirs = hello.job.clone();
            let refusal = Refusal::OtherJob { ours: self.config.job.clone(), theirs };
            return self.turn_away(conn, id, refusal);
        }
        if hello.trainer >= n_trainers {
            let refusal = Refusal::TrainerOutOfRange { trainer: hello.trainer, n_trainers };
            return self.turn_away(conn, id, refusal);
        }
        if let Some(refusal) = self.other_model(&hello.vars) {
            return self.turn_away(conn, id, refusal);
        }
        let trainer = TrainerId(hello.trainer);
        if self.roll.who(conn).is_some_and(|who| who != trainer) {
            let refusal = Refusal::Malformed("two trainers on one connection".to_string());
            return self.turn_away(conn, id, refusal);
        }
        match self.roll.admit(trainer, hello.incarnation, conn, now) {
            Err(refusal) => self.turn_away(conn, id, refusal),
            Ok(admitted) => {
                if let Some(old) = admitted.replaced {
                    self.actions.push(Action::Close(old));
                }
                if admitted.is_new {
                    // What an earlier process of this rank began and did not end is not a part of a round.
                    self.rounds.forget_open(trainer);
                    self.news.retain(|(who, _), _| *who != trainer);
                    self.staleness.forget(trainer);
                    if self.roll.is_alone(trainer) {
                        self.meetings.forget();
                        self.trades.forget();
                    }
                    self.inform(format!("{trainer} joined"));
                    self.mention_differences(trainer, &hello.vars);
                }
                let (accepted, round) = (self.roll.accepted(trainer), self.rounds.reached(trainer));
                self.reply(conn, id, Welcome { accepted, round });
                if let Some((seq, refusal)) = self.roll.refused(trainer) {
                    self.reply(conn, seq, refusal);
                }
            }
        }
    }

    /// Serves a change once, in order; a repeated one is acknowledged and not served.
    fn change(&mut self, now: Millis, from: (ConnId, TrainerId), seq: u64, request: Request) {
        let (conn, trainer) = from;
        let accepted = self.roll.accepted(trainer);
        if seq != accepted + 1 {
            self.stats.repeated += u64::from(seq <= accepted);
            if let Some((seq, refusal)) = self.roll.refused(trainer) {
                return self.reply(conn, seq, refusal);
            }
            // After a gap the trainer learns what is missing, and sends again from there.
            return self.reply(conn, accepted, Ack);
        }
        self.roll.accept(trainer, seq);
        let served = match request {
            Request::Push(push) => self.push(trainer, push),
            Request::Barrier(barrier) => self.barrier(trainer, barrier.round),
            Request::Complete(_) => {
                self.inform(format!("{trainer} completed"));
                self.go(now, trainer, State::Completed)
            }
            _ => {
                self.warn(format!("{trainer} left without completing its job"));
                self.go(now, trainer, State::Left)
            }
        };
        match served {
            Ok(()) => self.reply(conn, seq, Ack),
            Err(refusal) => {
                self.warn(format!("{trainer}: {refusal}"));
                self.roll.refuse(trainer, seq, refusal.clone());
                self.reply(conn, seq, refusal);
            }
        }
    }

    fn push(&mut self, trainer: TrainerId, push: Push) -> Result<(), Refusal> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        for grad in &push.grads {
            self.store.check(grad)?;
            if self.config.check_finite && !grad.is_finite() {
                let (var, trainer) = (grad.name.clone(), trainer.0);
                return Err(Refusal::NotFinite { var, trainer });
            }
        }
        if self.config.sync {
            return self.rounds.stage(trainer, push.grads);
        }
        self.staleness.push(trainer, &push, &mut self.stats);
        self.stats.pushes += push.grads.len() as u64;
        for grad in push.grads {
            let name = grad.name.clone();
            let applied = self.store.apply(trainer, grad);
            applied.map_err(|detail| Refusal::BadValue { var: name, detail })?;
        }
        Ok(())
    }

    fn barrier(&mut self, trainer: TrainerId, round: u64) -> Result<(), Refusal> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        if !self.config.sync {
            return Ok(());
        }
        if !self.rounds.close(trainer, round)? {
            self.inform(format!(
                "{trainer} was started again: its part of round {round} is here already and stays as it is"
            ));
        }
        self.end_rounds()
    }

    /// Applies every round that all active trainers have closed, and answers who waited for it.
    fn end_rounds(&mut self) -> Result<(), Refusal> {
        while let Some(grads) = self.rounds.complete(|trainer| self.roll.is_active(trainer)) {
            self.stats.pushes += grads.iter().map(|(_, grads)| grads.len() as u64).sum::<u64>();
            if let Err(error) = self.store.round(grads) {
                let refusal = Refusal::Failed(error);
                self.set_failure(refusal.clone());
                return Err(refusal);
            }
        }
        let ready = |waiting: &Waiting| waiting.after <= self.rounds.applied();
        let (now, later) = std::mem::take(&mut self.waiting).into_iter().partition(ready);
        self.waiting = later;
        for waiting in now {
            self.give((waiting.conn, waiting.trainer), waiting.id, waiting.question);
        }
        Ok(())
    }

    /// A trainer is no longer waited for.
    fn go(&mut self, now: Millis, trainer: TrainerId, state: State) -> Result<(), Refusal> {
        self.roll.go(trainer, state, now);
        self.rounds.forget_open(trainer);
        self.settle()
    }

    /// After somebody is gone: what waited only for them goes on.
    fn settle(&mut self) -> Result<(), Refusal> {
        for (conn, id, met) in self.meetings.settle(&self.roll.active()) {
            self.reply(conn, id, met);
        }
        self.settle_trades();
        match self.failure {
            None => self.end_rounds(),
            Some(_) => Ok(()),
        }
    }

    /// A trainer is dead: the job fails, or goes on without it.
    fn bury(&mut self, trainer: TrainerId) {
        let refusal = self.roll.obituary(trainer, self.rounds.applied());
        let goes_on = !self.config.sync || self.config.go_on;
        match &refusal {
            Refusal::TrainerLost { trainer, how, silent_ms, round } if goes_on => self.warn(format!(
                "trainer {trainer} died: {how} {silent_ms} ms ago, in round {round}; the others go on without it"
            )),
            other => self.warn(other.to_string()),
        }
        if let Some(conn) = self.roll.conn(trainer) {
            self.actions.push(Action::Close(conn));
        }
        if self.failure.is_some() {
            return;
        }
        if !goes_on {
            return self.set_failure(refusal);
        }
        self.rounds.forget_open(trainer);
        // An error here is in `failure` and has been told.
        let _ = self.settle();
    }

    fn set_failure(&mut self, refusal: Refusal) {
        self.warn(format!("the job cannot go on: {refusal}"));
        self.failure.get_or_insert_with(|| refusal.clone());
        for waiting in std::mem::take(&mut self.waiting) {
            self.reply(waiting.conn, waiting.id, refusal.clone());
        }
        for (conn, id) in self.meetings.dissolve() {
            self.reply(conn, id, refusal.clone());
        }
        self.dissolve_trades(&refusal);
    }

    fn answer(&mut self, from: (ConnId, TrainerId), id: u64, request: Request) {
        let (conn, _) = from;
        match request {
            Request::Ping(_) => {
                let missing = self.missing();
                self.reply(conn, id, Pong { round: self.rounds.applied(), missing });
            }
            Request::AskStats(_) => {
                let stats = self.stats();
                self.reply(conn, id, stats);
            }
            Request::Pull(pull) => self.ask(from, id, pull.after, Question::Pull(pull)),
            Request::LookUp(keys) => self.ask(from, id, keys.after, Question::LookUp(keys)),
            Request::Meet(meet) => self.meet(from, id, meet),
            Request::Trade(trade) => self.trade(from, id, trade),
            Request::Save(save) => match self.store.save(&save) {
                Ok(()) => self.reply(conn, id, Done),
                Err(refusal) => self.reply(conn, id, refusal),
            },
            _ => self.turn_away(conn, id, Refusal::Malformed("out of place".to_string())),
        }
    }

    /// Trainers without which nothing goes on, if anybody waits.
    fn missing(&self) -> Vec<u32> {
        if self.waiting.is_empty() && self.meetings.is_empty() && self.trades.is_empty() {
            return Vec::new();
        }
        let active = |trainer| self.roll.is_active(trainer);
        let mut missing = self.rounds.missing(active);
        missing.extend(self.meetings.missing(&self.roll.active()));
        missing.extend(self.trades.missing());
        missing.sort_unstable();
        missing.dedup();
        missing
    }

    fn ask(&mut self, from: (ConnId, TrainerId), id: u64, after: u64, question: Question) {
        if after <= self.rounds.applied() || !self.config.sync {
            return self.give(from, id, question);
        }
        let (conn, trainer) = from;
        if let Some(failure) = self.failure.clone() {
            return self.reply(conn, id, failure);
        }
        // Asked again: it waits already.
        if !self.waiting.iter().any(|waiting| (waiting.conn, waiting.id) == (conn, id)) {
            self.waiting.push(Waiting { conn, id, trainer, after, question });
            self.check_stuck();
        }
    }

    fn give(&mut self, (conn, trainer): (ConnId, TrainerId), id: u64, question: Question) {
        let answer = match question {
            Question::Pull(pull) => {
                self.staleness.pull(trainer);
                self.read(trainer, id, &pull).map(|values| Values(values).into())
            }
            Question::LookUp(keys) => self.store.look_up(&keys).map(Reply::Rows),
        };
        self.reply(conn, id, answer.unwrap_or_else(Reply::Refused));
    }

    fn read(
        &mut self,
        trainer: TrainerId,
        id: u64,
        pull: &Pull,
    ) -> Result<Vec<Arc<Value>>, Refusal> {
        if !pull.changed {
            return self.store.read(trainer, pull);
        }
        let key = (trainer, pull.names.clone());
        // An older question is one that came late: what it would be told must not be lost with it.
        if let Some(news) = self.news.get(&key).filter(|news| news.id >= id) {
            return Ok(news.values.clone());
        }
        let values = self.store.read(trainer, pull)?;
        self.news.insert(key, News { id, values: values.clone() });
        Ok(values)
    }

    fn meet(&mut self, (conn, trainer): (ConnId, TrainerId), id: u64, meet: Meet) {
        if let Some(failure) = self.failure.clone() {
            return self.reply(conn, id, failure);
        }
        if let Some(met) = self.meetings.arrive(trainer, (conn, id), meet) {
            return self.reply(conn, id, met);
        }
        for (conn, id, met) in self.meetings.settle(&self.roll.active()) {
            self.reply(conn, id, met);
        }
        self.check_stuck();
    }
}
