//! A process that is watched: its launcher's view of it, and its answers.

use std::collections::BTreeMap;
use std::time::Instant;

use super::members::{Condition, Told};
use super::presence::Unheard;
use super::shares::{self, ProcessShares};
use super::state::{State, States};

/// A process that answers nothing for so many seconds is mentioned.
pub(super) const SILENT_SECONDS: f64 = 3.0;

/// A process that is watched.
#[derive(Clone, Debug, Default)]
pub(super) struct WatchedMember {
    pub(super) told: Told,
    pub(super) states: States,
    /// Why it did not answer the last time.
    pub(super) problem: Option<String>,
    pub(super) n_restarts: usize,
    pub(super) n_replayed: f64,
    /// When it was first told of.
    pub(super) first: Option<Instant>,
    /// The kernel's view of it while it does not answer.
    pub(super) unheard: Unheard,
}

impl WatchedMember {
    pub(super) fn is_running(&self) -> bool {
        self.told.condition == Condition::Running
    }

    pub(super) fn is_server(&self) -> bool {
        match (&self.told.name, self.states.state()) {
            (Some(name), _) => name.starts_with("server"),
            (None, Some(state)) => state.role == "server",
            (None, None) => false,
        }
    }

    /// Launchers say worker, as Fluid does.
    pub(super) fn name(&self) -> String {
        match (&self.told.name, self.states.state()) {
            (Some(name), _) => name.replacen("worker", "trainer", 1),
            (None, Some(state)) => format!("{} {}", state.role, state.id),
            (None, None) => self.told.address.clone(),
        }
    }

    /// Takes in what is known now; returns what has happened.
    pub(super) fn take(
        &mut self,
        told: Told,
        answer: Option<Result<State, String>>,
        now: Instant,
    ) -> Vec<String> {
        let mut happened = Vec::new();
        self.first.get_or_insert(now);
        // A process may be started again before the next look.
        let is_death = told.condition != Condition::Ended && told.end != self.told.end;
        happened.extend(told.end.clone().filter(|_| is_death));
        self.told = told;
        let n_restarts = match &answer {
            Some(Ok(state)) => self.told.n_restarts.max(state.n_restarts as usize),
            _ => self.told.n_restarts,
        };
        if n_restarts > self.n_restarts {
            self.n_restarts = n_restarts;
            happened.push(format!("{} was started again", self.name()));
        }
        match answer {
            Some(Ok(state)) => {
                self.problem = None;
                self.states.add(now, state);
                self.unheard = Unheard::default();
            }
            Some(Err(problem)) => {
                self.problem = Some(problem);
                let pid = self.pid();
                self.unheard.look(pid, now);
            }
            None => {}
        }
        let n_replayed = self.states.total("trainer_replayed_events");
        if n_replayed > self.n_replayed {
            let n = n_replayed - std::mem::replace(&mut self.n_replayed, n_replayed);
            let time = metrics::words::time(self.states.number("trainer_last_rollback_seconds"));
            happened.push(format!(
                "{} went back to the last cut and did {n} events of its script again, in {time}",
                self.name()
            ));
        }
        happened
    }

    pub(super) fn shares(&self, names: &BTreeMap<String, String>, now: Instant) -> ProcessShares {
        let (is_server, condition) = (self.is_server(), self.told.condition);
        let is_heard = self.states.age(now).is_some_and(|age| age < SILENT_SECONDS);
        let parts = match (is_heard && condition == Condition::Running, is_server) {
            (false, _) => Vec::new(),
            (true, true) => shares::of_server(&self.states),
            (true, false) => shares::of_trainer(&self.states, names),
        };
        ProcessShares {
            name: self.name(),
            is_server,
            parts,
            rows_per_second: self.states.rate("server_looked_up_rows"),
            condition,
            end: self.told.end.clone(),
            presence: self.presence(now),
            obstacles: self.states.state().map_or(Vec::new(), |state| state.obstacles.clone()),
            held_up: self.states.held_up(),
            processors: self.processors(is_heard),
        }
    }
}
