//! The server as a state machine: messages and the time in, answers out.
//!
//! There is no socket, thread, clock or data here. `net` drives the machine, and so does the
//! simulator. It knows which trainers take part, which rounds are open and which requests wait for
//! which events. The [`Store`] knows the variables and how gradients change them. Work on the store is
//! handed out as [`Work`], and [`Server::done`] takes the outcome.
//!
//! The file of each message (`push.rs`, `pull.rs`, ..) holds everything that a server does with it, also when
//! work for it is done; [`turn`] calls them. The state of a term is one struct, [`in_term::InTerm`].

mod all_gather;
mod all_to_all;
mod apply;
mod ask_stats;
mod barrier;
mod change;
mod config;
mod cut;
mod cut_schedule;
mod cut_state;
mod failure;
mod hello;
mod in_term;
mod keys;
mod leave;
mod look_up;
mod loss;
mod members;
mod memory;
mod notice;
mod ping;
mod pull;
mod purpose;
mod push;
mod question;
mod ready;
mod recall;
mod repartition;
mod returning;
mod round;
mod save;
mod size;
mod staleness;
mod store;
mod stuck;
mod term;
mod turn;
mod vars;
mod want_cut;
mod work;

#[cfg(test)]
mod tests;

pub use apply::Apply;
pub use config::ServerConfig;
pub use cut_state::compacted;
pub use memory::ServerMemory;
pub use repartition::{KeptBytes, ServerShare, StateOfOthers, repartition};
pub use size::Size;
pub use store::{CutRecord, OnDisk, Store, TableGrads, Unit, WrittenCut};
pub use work::{Work, WorkDone};

use std::collections::BTreeMap;

use wire::budget::{Account, Budget, Held, THING_BYTES};
use wire::message::{Reply, Request, Stats, VarInfo};
use wire::{ConnId, Millis, Refusal, TrainerId};

use crate::Severity;
use cut::DurableCuts;
use hello::UnknownPeers;
use in_term::InTerm;
use members::Expired;
use purpose::{Asker, Purpose, Works};
use term::Terms;
use turn::Queued;
use vars::VarNumbers;
use work::{Outcome, Task};

/// An action after an event.
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

/// The limits on waiting data: of all trainers together, and of each.
#[derive(Debug)]
struct HeldLimits {
    budget: Budget,
    accounts: BTreeMap<TrainerId, Account>,
}

impl HeldLimits {
    fn new(n_bytes_max: u64) -> Self {
        Self { budget: Budget::new(n_bytes_max), accounts: BTreeMap::new() }
    }
}

#[derive(Debug, Default)]
struct ServerClock {
    /// The time of what is being handled.
    now: Millis,
    /// The last look at the clock.
    ticked: Millis,
}

/// The state machine; see the module.
pub struct Server {
    config: ServerConfig,
    /// The variables behind the numbers.
    vars: VarNumbers,
    /// The state of the term.
    term: InTerm,
    terms: Terms,
    cuts: DurableCuts,
    works: Works,
    limits: HeldLimits,
    peers: UnknownPeers,
    /// Why the job cannot go on.
    failure: Option<Refusal>,
    stats: Stats,
    clock: ServerClock,
    actions: Vec<Action>,
}

/// A longer time without a look at the clock was no silence of the trainers.
const SLEPT_MS: u64 = 1_000;

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
        Self {
            vars: VarNumbers::new(vars),
            term: InTerm::new(&config),
            terms: Terms::default(),
            cuts: DurableCuts::default(),
            works: Works::default(),
            limits: HeldLimits::new(config.request_bytes_max),
            peers: UnknownPeers::default(),
            failure: None,
            stats: Stats::default(),
            clock: ServerClock::default(),
            actions: Vec::new(),
            config,
        }
    }

    /// Counters, without those of the store.
    pub fn stats(&self) -> Stats {
        Stats { rounds: self.term.rounds.applied(), ..self.stats.clone() }
    }

    /// The figures shown while a job runs: all counters, and the number of trainers present.
    pub fn watched(&self, size: Size) -> (Stats, usize) {
        (self.stats_with(size), self.term.members.n_active())
    }

    fn stats_with(&self, size: Size) -> Stats {
        let Size { rows, bytes, table_rows, table_bytes, waiting, dropped } = size;
        Stats { rows, bytes, table_rows, table_bytes, waiting, dropped, ..self.stats() }
    }

    /// Whether and how the server's work is over.
    pub fn end(&self) -> Option<End> {
        if !self.works.running.is_empty() {
            return None;
        }
        match &self.failure {
            Some(failure) if self.term.members.all_told() && hello::has_said_farewell(self) => {
                Some(End::Failed(failure.clone()))
            }
            Some(_) => None,
            None if self.terms.is_over() => Some(End::Completed),
            None if !self.term.members.all_gone() || !self.is_serving() => None,
            None if self.terms.awaits_anybody() => None,
            None => match self.term.members.lost() {
                Some(trainer) if !(self.config.go_on && self.term.members.anybody_completed()) => {
                    Some(End::Failed(
                        self.term.members.of(trainer).loss(self.term.rounds.applied()),
                    ))
                }
                _ => Some(End::Completed),
            },
        }
    }

    /// A message came; returns what to do, in order.
    pub fn handle(&mut self, now: Millis, conn: ConnId, id: u64, request: Request) -> Vec<Action> {
        self.clock.now = now;
        match (request, self.term.members.who(conn)) {
            (Request::Hello(hello), _) => hello::serve(self, now, conn, id, hello),
            (_, None) => hello::refuse_peer(self, conn, id, Refusal::HelloFirst),
            (request, Some(trainer)) => {
                self.term.members.heard(trainer, now);
                turn::take(self, now, trainer, Queued { conn, id, request });
            }
        }
        std::mem::take(&mut self.actions)
    }

    /// Work is done; returns what to do, in order.
    pub fn done(&mut self, now: Millis, done: WorkDone) -> Vec<Action> {
        self.clock.now = now;
        let WorkDone { id, outcome } = done;
        match (self.works.running.remove(&id), outcome) {
            (Some(Purpose::Push(change, _)), Outcome::Checked(checked)) => {
                push::checked(self, now, change, checked);
            }
            (Some(Purpose::Push(change, n_grads)), Outcome::Served(applied)) => {
                push::applied(self, now, change, n_grads, applied);
            }
            (Some(Purpose::Round(change)), Outcome::Served(applied)) => {
                barrier::round_done(self, now, change, applied);
            }
            (Some(Purpose::Round(change)), Outcome::Begun(units)) => {
                barrier::run_units(self, change, units);
            }
            (Some(Purpose::Unit), Outcome::Served(applied)) => {
                barrier::unit_done(self, now, applied);
            }
            (Some(Purpose::Answer(asker) | Purpose::Save(asker)), outcome) => {
                question::answered(self, asker, outcome);
            }
            (Some(Purpose::News(asked)), outcome) => pull::news_read(self, now, asked, outcome),
            (Some(Purpose::Mark(cut)), Outcome::Served(marked)) => {
                cut::marked(self, now, cut, marked);
            }
            (Some(Purpose::WriteCut(since)), Outcome::Written(written)) => {
                cut::written(self, now, now.since(since), written);
            }
            (Some(Purpose::RollBack), Outcome::Loaded(loaded)) => {
                term::rolled_back(self, now, loaded);
            }
            (Some(Purpose::Recall { asker, from }), Outcome::Recalled(journal)) => {
                recall::recalled(self, now, asker, from, journal);
            }
            (Some(Purpose::Stale), _) => {}
            (purpose, outcome) => unreachable!("{purpose:?} never has {outcome:?}"),
        }
        term::go_on_when_quiet(self);
        std::mem::take(&mut self.actions)
    }

    /// A connection broke.
    pub fn closed(&mut self, now: Millis, conn: ConnId) -> Vec<Action> {
        self.term.members.closed(conn, now);
        self.terms.closed(conn);
        self.peers.keys.closed(conn);
        let ids = self.term.waiting.range((conn, 0)..=(conn, u64::MAX));
        let ids: Vec<(ConnId, u64)> = ids.map(|(&id, _)| id).collect();
        ids.iter().for_each(|id| drop(self.term.waiting.remove(id)));
        std::mem::take(&mut self.actions)
    }

    /// Time passed: finds trainers that are dead.
    pub fn tick(&mut self, now: Millis) -> Vec<Action> {
        let slept = now.since(self.clock.ticked);
        (self.clock.ticked, self.clock.now) = (now, now);
        // Messages that came while the server was busy or stopped have not been read yet.
        if slept > SLEPT_MS {
            self.term.members.forgive(now, slept);
            self.terms.forgive(now, slept);
        }
        // A trainer that is being served cannot send a sign of life.
        self.term.busy.keys().for_each(|&trainer| self.term.members.heard(trainer, now));
        let Expired { away, lost, left } = self.term.members.expire(now, &self.config);
        away.into_iter().for_each(|trainer| loss::wait_for(self, trainer));
        lost.iter().for_each(|&trainer| self.term.excuse(trainer));
        lost.into_iter().for_each(|trainer| loss::lose(self, trainer));
        left.into_iter().for_each(|trainer| leave::leave_cuts(self, trainer));
        if self.config.recovers {
            term::check(self, now);
            cut_schedule::check(self, now);
        }
        std::mem::take(&mut self.actions)
    }

    /// Tells all waiting trainers that the job cannot continue.
    pub fn fail(&mut self, refusal: Refusal) -> Vec<Action> {
        failure::set(self, refusal);
        std::mem::take(&mut self.actions)
    }

    /// The limit that connections and this server share.
    pub fn budget(&self) -> &Budget {
        &self.limits.budget
    }

    /// Hands out work.
    fn run(&mut self, purpose: Purpose, task: Task) {
        let id = self.works.begin(purpose);
        self.actions.push(Action::Run(Work { id, task }));
    }

    /// Counts something of a trainer that stays here for a while; an error if that is too much.
    fn hold(&mut self, trainer: TrainerId, n_bytes: u64) -> Result<Held, Refusal> {
        let budget = &self.limits.budget;
        let account = self.limits.accounts.entry(trainer).or_insert_with(|| budget.account());
        Ok(account.hold(n_bytes + THING_BYTES)?)
    }

    fn reply(&mut self, conn: ConnId, id: u64, reply: impl Into<Reply>) {
        let reply = reply.into();
        if self.failure.is_some()
            && matches!(reply, Reply::Refused(_))
            && let Some(trainer) = self.term.members.who(conn)
        {
            self.term.members.told(trainer);
        }
        self.actions.push(Action::Reply(conn, id, reply));
    }

    /// Says no for the last time.
    fn refuse_and_close(&mut self, conn: ConnId, id: u64, refusal: Refusal) {
        self.warn(format!("a connection was cut: {refusal}"));
        self.reply(conn, id, refusal);
        self.actions.push(Action::Close(conn));
    }

    /// Something that needs attention.
    fn warn(&mut self, line: String) {
        self.actions.push(Action::Log(Severity::Warning, line));
    }

    /// Something that is as it should be.
    fn inform(&mut self, line: String) {
        self.actions.push(Action::Log(Severity::Info, line));
    }
}
