//! The server as a state machine: messages and the time in, answers out.
//!
//! There is no socket, thread, clock or data here. `tcp/` drives the machine, and so does the
//! simulator. It knows which trainers take part, which rounds are open and which requests wait for
//! what. The [`Store`] knows the variables and how gradients change them. What must be done there
//! is handed out as [`Work`], and [`Server::done`] takes the outcome.
//!
//! Changes of one trainer are served one after another. A change that arrives while another is
//! being served waits.

mod agreement;
mod all_gather;
mod all_to_all;
mod apply;
mod change;
mod cut;
mod cut_schedule;
mod cut_state;
mod handshake;
mod keys;
mod members;
mod memory;
mod question;
mod repartition;
mod returning;
mod round;
mod size;
mod staleness;
mod store;
mod term;
mod vars;
mod work;

#[cfg(test)]
mod tests;

pub use apply::Apply;
pub use cut_state::compacted;
pub use memory::ServerMemory;
pub use repartition::{KeptBytes, ServerShare, StateOfOthers, repartition};
pub use size::Size;
pub use store::{CutRecord, OnDisk, Store, TableGrads, Unit, WrittenCut};
pub use work::{Work, WorkDone};

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use tensor::Value;

use crate::budget::{Account, Budget, Held, THING_BYTES};
use crate::ids::{ConnId, Millis, TrainerId, VarId};
use crate::lines::Severity;
use crate::message::{Grad, LookUp, PIECE_BYTES, Pull, Reply, Request, Stats, VarInfo};
use crate::refusal::Refusal;
use all_gather::AllGathers;
use all_to_all::AllToAllState;
use cut::ServerCuts;
use cut_schedule::Schedule;
use keys::TrainerKeys;
use members::{Expired, Members};
use round::Rounds;
use staleness::Staleness;
use term::Terms;
use vars::VarNumbers;
use work::{Outcome, Task};

/// How a server behaves.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Trainers of another job are refused.
    pub job: String,
    /// How many trainers the job has.
    pub n_trainers: u32,
    /// When gradients are applied.
    pub apply: Apply,
    /// A trainer that is silent for this long is dead.
    pub lease_ms: u64,
    /// How long a trainer whose connection broke has to come back.
    pub grace_ms: u64,
    /// Rounds continue without a trainer that died.
    pub go_on: bool,
    /// Gradients that are not finite are refused.
    pub check_finite: bool,
    /// The store keeps cuts: the job waits for processes that die, and continues from a cut.
    pub recovers: bool,
    /// Whether this server decides when a cut is made. One server of the job does: the first.
    pub is_lead: bool,
    /// The time from the end of a cut to the notice of the next.
    pub cut_every_ms: u64,
    /// How long trainers that are ready for a cut wait for the others.
    pub ready_ms: u64,
    /// How long the job waits for a process that died.
    pub recover_ms: u64,
    /// Bytes of what a trainer gave to a cut that it gets back in one message.
    pub piece_bytes: usize,
    /// Bytes that are held at most of what all trainers send and ask for.
    pub request_bytes_max: u64,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            job: String::new(),
            n_trainers: 1,
            apply: Apply::ByRound { ahead: 0 },
            lease_ms: 20_000,
            grace_ms: 2_000,
            go_on: false,
            check_finite: false,
            recovers: false,
            is_lead: false,
            cut_every_ms: 10_000,
            ready_ms: 5_000,
            recover_ms: 300_000,
            piece_bytes: PIECE_BYTES,
            request_bytes_max: u64::MAX,
        }
    }
}

/// What must be done after an event.
#[derive(Debug)]
pub enum Action {
    /// Send an answer.
    Reply(ConnId, u64, Reply),
    /// Cut a connection.
    Close(ConnId),
    /// Write a line to the log.
    Log(Severity, String),
    /// Do something with the data, and give the outcome to [`Server::done`].
    Run(Work),
}

/// A question that waits for a round.
#[derive(Debug)]
struct Waiting {
    asker: Asker,
    after: u64,
    question: Question,
    _held: Held,
}

/// Who asked, where, and under which number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asker {
    conn: ConnId,
    trainer: TrainerId,
    id: u64,
}

#[derive(Debug)]
enum Question {
    Pull(Pull),
    LookUp(LookUp),
}

impl Question {
    fn n_bytes(&self) -> u64 {
        let n_bytes = match self {
            Question::Pull(pull) => size_of_val(pull.vars.as_slice()),
            Question::LookUp(look_up) => size_of_val(look_up.keys.as_slice()),
        };
        n_bytes as u64
    }
}

/// A change that is being served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Change {
    trainer: TrainerId,
    /// Which process of this rank sent it.
    incarnation: u64,
    seq: u64,
}

/// What work under way is for.
#[derive(Debug)]
enum Purpose {
    /// Gradients, so many.
    Push(Change, u64),
    /// A round. It ends with a change, if a change closed it.
    Round(Option<Change>),
    /// A unit of the round that is being applied.
    Unit,
    /// An answer.
    Answer(Asker),
    /// A table is being saved.
    Save(Asker),
    /// What a trainer gave to the cut that the term began from.
    Recall { asker: Asker, from: u64 },
    /// The cut whose parts are being collected.
    Mark(u64),
    /// A cut that is being written, since when.
    WriteCut(Millis),
    /// The base of this term.
    RollBack,
    /// Something of a term that is over.
    Stale,
    /// An answer that must not be lost: what others changed.
    News(NewsAsked),
}

/// A round of which several units are being applied.
#[derive(Debug)]
struct UnitsRunning {
    n_left: usize,
    /// What is served with the last of them.
    change: Option<Change>,
    /// Why one of them failed.
    refusal: Option<Refusal>,
}

/// A question for what others changed.
#[derive(Debug)]
struct NewsAsked {
    asker: Asker,
    /// Which process of this rank asks.
    incarnation: u64,
    vars: Vec<VarId>,
}

/// A message that waits for its turn.
#[derive(Debug)]
struct Queued {
    conn: ConnId,
    id: u64,
    request: Request,
}

/// A message that waits for its turn, and what it costs.
#[derive(Debug)]
struct Kept {
    message: Queued,
    _held: Held,
}

/// The state machine; see the module.
pub struct Server {
    config: ServerConfig,
    /// What the numbers of variables stand for.
    vars: VarNumbers,
    members: Members,
    rounds: Rounds,
    all_gathers: AllGathers,
    all_to_all: AllToAllState,
    /// Questions that wait for a round, by connection and number.
    waiting: BTreeMap<(ConnId, u64), Waiting>,
    units: Option<UnitsRunning>,
    /// Work under way, by its number.
    running: BTreeMap<u64, Purpose>,
    n_works: u64,
    /// Trainers one of whose messages is being served, and what came from them meanwhile.
    busy: BTreeMap<TrainerId, VecDeque<Kept>>,
    /// What all trainers may have here that waits, and what each of them has.
    budget: Budget,
    accounts: BTreeMap<TrainerId, Account>,
    /// Why the job cannot go on.
    failure: Option<Refusal>,
    last_refusal: Option<agreement::LastRefusal>,
    stats: Stats,
    staleness: Staleness,
    /// By trainer, and by what was asked for.
    news: BTreeMap<TrainerId, BTreeMap<Vec<VarId>, News>>,
    ticked: Millis,
    /// The time of what is being handled.
    now: Millis,
    /// What was said of refused connections.
    turned_away: BTreeSet<String>,
    actions: Vec<Action>,
    terms: Terms,
    cuts: ServerCuts,
    schedule: Schedule,
    keys: TrainerKeys,
}

/// What a trainer was last told about changed rows, in case the answer was lost: a store tells each
/// change only once.
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

impl Server {
    /// A server without connections; `vars` are the variables of its store, by number.
    pub fn new(config: ServerConfig, vars: Vec<VarInfo>) -> Self {
        let n = config.n_trainers;
        Self {
            vars: VarNumbers::new(vars),
            members: Members::new(n, config.recovers),
            rounds: Rounds::new(n, config.apply.ahead()),
            all_gathers: AllGathers::default(),
            all_to_all: AllToAllState::new(n),
            waiting: BTreeMap::new(),
            units: None,
            running: BTreeMap::new(),
            n_works: 0,
            busy: BTreeMap::new(),
            budget: Budget::new(config.request_bytes_max),
            accounts: BTreeMap::new(),
            failure: None,
            last_refusal: None,
            stats: Stats::default(),
            staleness: Staleness::default(),
            news: BTreeMap::new(),
            ticked: Millis(0),
            now: Millis(0),
            turned_away: BTreeSet::new(),
            actions: Vec::new(),
            terms: Terms::default(),
            cuts: ServerCuts::default(),
            schedule: Schedule::default(),
            keys: TrainerKeys::default(),
            config,
        }
    }

    /// Counters, without those of the store.
    pub fn stats(&self) -> Stats {
        Stats { rounds: self.rounds.applied(), ..self.stats.clone() }
    }

    /// What is shown while a job runs: all counters, and how many trainers are there.
    pub(crate) fn watched(&self, size: Size) -> (Stats, usize) {
        (self.stats_with(size), self.members.n_active())
    }

    fn stats_with(&self, size: Size) -> Stats {
        let Size { rows, bytes, table_rows, table_bytes, waiting, dropped } = size;
        Stats { rows, bytes, table_rows, table_bytes, waiting, dropped, ..self.stats() }
    }

    /// Whether and how the server's work is over.
    pub fn end(&self) -> Option<End> {
        if !self.running.is_empty() {
            return None;
        }
        match &self.failure {
            Some(failure) if self.members.all_told() && self.has_said_farewell() => {
                Some(End::Failed(failure.clone()))
            }
            Some(_) => None,
            None if self.terms.is_over() => Some(End::Completed),
            None if !self.members.all_gone() || !self.is_serving() => None,
            None if self.terms.awaits_anybody() => None,
            None => match self.members.lost() {
                Some(trainer) if !(self.config.go_on && self.members.anybody_completed()) => {
                    Some(End::Failed(self.members.loss(trainer, self.rounds.applied())))
                }
                _ => Some(End::Completed),
            },
        }
    }

    /// A message came; returns what to do, in order.
    pub fn handle(&mut self, now: Millis, conn: ConnId, id: u64, request: Request) -> Vec<Action> {
        self.now = now;
        match (request, self.members.who(conn)) {
            (Request::Hello(hello), _) => self.greet(now, conn, id, hello),
            (_, None) => self.turn_away(conn, id, Refusal::HelloFirst),
            (request, Some(trainer)) => {
                self.members.heard(trainer, now);
                self.take_turn(now, trainer, Queued { conn, id, request });
            }
        }
        std::mem::take(&mut self.actions)
    }

    /// Work is done; returns what to do, in order.
    pub fn done(&mut self, now: Millis, done: WorkDone) -> Vec<Action> {
        self.now = now;
        let WorkDone { id, outcome } = done;
        match (self.running.remove(&id), outcome) {
            (Some(Purpose::Push(change, _)), Outcome::Checked(Ok(grads))) => {
                let staged = match self.is_current(change) {
                    true => self.stage(change.trainer, grads),
                    false => Ok(()),
                };
                self.served(now, change, staged);
            }
            (Some(Purpose::Push(change, _)), Outcome::Checked(Err(refusal))) => {
                self.served(now, change, Err(refusal));
            }
            (Some(Purpose::Push(change, n)), Outcome::Served(served)) => {
                self.stats.pushes += if served.is_ok() { n } else { 0 };
                self.served(now, change, served);
            }
            (Some(Purpose::Round(change)), Outcome::Served(served)) => {
                self.round_done(now, change, served);
            }
            (Some(Purpose::Round(change)), Outcome::Begun(units)) => self.run_units(change, units),
            (Some(Purpose::Unit), Outcome::Served(served)) => self.unit_done(now, served),
            (Some(Purpose::Answer(asker) | Purpose::Save(asker)), outcome) => {
                self.answered(asker, outcome);
            }
            (Some(Purpose::Mark(cut)), Outcome::Served(marked)) => self.marked(now, cut, marked),
            (Some(Purpose::WriteCut(since)), Outcome::Written(written)) => {
                self.cut_written(now, now.since(since), written);
            }
            (Some(Purpose::RollBack), Outcome::Loaded(loaded)) => self.rolled_back(now, loaded),
            (Some(Purpose::Recall { asker, from }), Outcome::Recalled(journal)) => {
                self.recalled(now, asker, from, journal);
            }
            (Some(Purpose::Stale), _) => {}
            (Some(Purpose::News(NewsAsked { asker, incarnation, vars })), outcome) => {
                let is_current = self.members.incarnation(asker.trainer) == incarnation;
                if let (Outcome::Values(Ok(values)), true) = (&outcome, is_current) {
                    let news = News { id: asker.id, values: values.clone() };
                    self.news.entry(asker.trainer).or_default().insert(vars, news);
                }
                self.answered(asker, outcome);
                self.next_turn(now, asker.trainer);
            }
            (purpose, outcome) => unreachable!("{purpose:?} never has {outcome:?}"),
        }
        self.go_on_when_quiet();
        std::mem::take(&mut self.actions)
    }

    /// Hands out work.
    fn run(&mut self, purpose: Purpose, task: Task) {
        self.n_works += 1;
        let id = self.n_works;
        self.running.insert(id, purpose);
        self.actions.push(Action::Run(Work { id, task }));
    }

    /// Serves a message, unless one of the same trainer is being served. A ping is answered at any
    /// time.
    fn take_turn(&mut self, now: Millis, trainer: TrainerId, message: Queued) {
        let is_free = matches!(message.request, Request::Ping(_));
        if is_free || !self.busy.contains_key(&trainer) {
            return self.serve(now, trainer, message);
        }
        let Queued { conn, id, .. } = message;
        match (self.hold(trainer, message.request.n_bytes()), self.busy.get_mut(&trainer)) {
            (Ok(held), Some(queue)) => queue.push_back(Kept { message, _held: held }),
            (Ok(_), None) => {}
            (Err(refusal), _) => self.cut_off(conn, id, refusal),
        }
    }

    /// Counts something of a trainer that stays here for a while; an error if that is too much.
    fn hold(&mut self, trainer: TrainerId, n_bytes: u64) -> Result<Held, Refusal> {
        let budget = &self.budget;
        let account = self.accounts.entry(trainer).or_insert_with(|| budget.account());
        Ok(account.hold(n_bytes + THING_BYTES)?)
    }

    /// Gradients for a round.
    fn stage(&mut self, trainer: TrainerId, grads: Vec<Grad>) -> Result<(), Refusal> {
        let n_bytes = grads.iter().map(Grad::n_bytes).sum();
        let held = self.hold(trainer, n_bytes)?;
        self.rounds.stage(trainer, grads, held)
    }

    /// What connections and this server share a limit with.
    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Says no for the last time.
    fn cut_off(&mut self, conn: ConnId, id: u64, refusal: Refusal) {
        self.warn(format!("a connection was cut: {refusal}"));
        self.reply(conn, id, refusal);
        self.actions.push(Action::Close(conn));
    }

    fn serve(&mut self, now: Millis, trainer: TrainerId, message: Queued) {
        let Queued { conn, id, request } = message;
        let asker = Asker { conn, trainer, id };
        match request.is_change() {
            true => self.change(now, asker, request),
            false => self.answer(asker, request),
        }
    }

    /// A message of a trainer was served: what came meanwhile is next, unless its connection is gone.
    fn next_turn(&mut self, now: Millis, trainer: TrainerId) {
        let mut queue = self.busy.remove(&trainer).unwrap_or_default();
        self.members.heard(trainer, now);
        while let Some(Kept { message, .. }) = queue.pop_front() {
            if self.members.who(message.conn) == Some(trainer) {
                self.serve(now, trainer, message);
            }
            if let Some(busy) = self.busy.get_mut(&trainer) {
                // Nothing can have come in between.
                *busy = queue;
                return;
            }
        }
    }

    /// A connection broke.
    pub fn closed(&mut self, now: Millis, conn: ConnId) -> Vec<Action> {
        self.members.closed(conn, now);
        self.terms.closed(conn);
        self.keys.closed(conn);
        let ids = self.waiting.range((conn, 0)..=(conn, u64::MAX));
        let ids: Vec<(ConnId, u64)> = ids.map(|(&id, _)| id).collect();
        ids.iter().for_each(|id| drop(self.waiting.remove(id)));
        std::mem::take(&mut self.actions)
    }

    /// Time passed: finds trainers that are dead.
    pub fn tick(&mut self, now: Millis) -> Vec<Action> {
        let slept = now.since(self.ticked);
        (self.ticked, self.now) = (now, now);
        // What came while the server was busy or stopped has not been read yet.
        if slept > SLEPT_MS {
            self.members.forgive(now, slept);
            self.terms.forgive(now, slept);
        }
        // A trainer that is being served cannot send a sign of life.
        self.busy.keys().for_each(|&trainer| self.members.heard(trainer, now));
        let Expired { away, lost, left } = self.members.expire(now, &self.config);
        away.into_iter().for_each(|trainer| self.wait_for(trainer));
        lost.iter().for_each(|&trainer| self.excuse(trainer));
        lost.into_iter().for_each(|trainer| self.lose(trainer));
        left.into_iter().for_each(|trainer| self.leave_cuts(trainer));
        if self.config.recovers {
            self.check_term(now);
            self.check_schedule(now);
        }
        std::mem::take(&mut self.actions)
    }

    /// Others wait for this trainer from now on.
    fn expect(&mut self, trainer: TrainerId) {
        self.rounds.expect(trainer);
        self.all_gathers.expect(trainer);
    }

    /// No request waits for this trainer any more.
    fn excuse(&mut self, trainer: TrainerId) {
        self.rounds.excuse(trainer);
        self.all_gathers.excuse(trainer);
    }

    /// Tells all waiting trainers that the job cannot continue.
    pub fn fail(&mut self, refusal: Refusal) -> Vec<Action> {
        self.set_failure(refusal);
        std::mem::take(&mut self.actions)
    }

    fn reply(&mut self, conn: ConnId, id: u64, reply: impl Into<Reply>) {
        let reply = reply.into();
        if self.failure.is_some()
            && matches!(reply, Reply::Refused(_))
            && let Some(trainer) = self.members.who(conn)
        {
            self.members.told(trainer);
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
            Refusal::OtherKey { trainer, .. } => format!("other key {trainer}"),
            other => other.to_string(),
        };
        // A process that tries again and again is mentioned once.
        if self.turned_away.len() < TURNED_AWAY_MAX && self.turned_away.insert(kind) {
            let from = self.address_of(conn);
            self.warn(format!("refused a connection{from}: {refusal}"));
        }
        self.reply(conn, id, refusal);
        self.actions.push(Action::Close(conn));
    }
}
