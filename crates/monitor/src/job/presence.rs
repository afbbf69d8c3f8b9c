//! Whether a process answers, and the kernel's view of one that does not.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Instant;

use super::judge::Presence;
use super::member::{SILENT_SECONDS, WatchedMember};
use super::members::Condition;
use super::processors::ProcessorUse;
use crate::kernel::{KernelState, RunDelays};
use crate::process::host;

/// Looks that are kept.
const LOOKS_MAX: usize = 6;

/// A process of this machine that does not answer, as the kernel sees it.
#[derive(Clone, Debug, Default)]
pub(super) struct Unheard {
    is_stopped: bool,
    pid: Option<u32>,
    delays: RunDelays,
    looks: VecDeque<Look>,
}

/// The times of a process at one moment.
#[derive(Clone, Copy, Debug)]
struct Look {
    at: Instant,
    cpu: f64,
    delay: f64,
}

impl Unheard {
    /// Looks at a process, if it is of this machine.
    pub(super) fn look(&mut self, pid: Option<u32>, now: Instant) {
        if self.pid != pid {
            *self = Self { pid, ..Self::default() };
        }
        let Some(process) = pid.map(|pid| pid.to_string()) else { return };
        let Some(state) = KernelState::of(&process) else { return };
        self.is_stopped = state.is_stopped;
        let delay = self.delays.look(&process).unwrap_or(0.0);
        if self.looks.len() == LOOKS_MAX {
            self.looks.pop_front();
        }
        self.looks.push_back(Look { at: now, cpu: state.cpu_seconds, delay });
    }

    fn processors(&self) -> Option<ProcessorUse> {
        let (first, last) = (self.looks.front()?, self.looks.back()?);
        let seconds = last.at.saturating_duration_since(first.at).as_secs_f64();
        (seconds > 0.0).then(|| ProcessorUse {
            host: host(),
            used: (last.cpu - first.cpu) / seconds,
            delayed: (last.delay - first.delay) / seconds,
            available: 0.0,
        })
    }
}

impl WatchedMember {
    /// Its number, if it runs on this machine.
    pub(super) fn pid(&self) -> Option<u32> {
        let is_here = || {
            let address = self.told.address.parse::<SocketAddr>();
            address.is_ok_and(|address| address.ip().is_loopback())
        };
        let said = || self.states.state().and_then(|state| u32::try_from(state.pid).ok());
        self.told.pid.or_else(|| said().filter(|_| is_here()))
    }

    /// How it can be heard.
    pub(super) fn presence(&self, now: Instant) -> Presence {
        if self.told.condition != Condition::Running {
            return Presence::Heard;
        }
        if let (true, Some(pid)) = (self.unheard.is_stopped, self.pid()) {
            return Presence::Stopped { pid: pid.into() };
        }
        let state = self.states.state();
        let is_of_former =
            state.is_some_and(|state| state.n_restarts < self.told.n_restarts as u64);
        if self.told.n_restarts > 0 && (is_of_former || state.is_none()) {
            return Presence::StartsAgain;
        }
        let is_of_launcher = self.told.name.is_some();
        let seconds = self.states.age(now).or_else(|| {
            let since = self.first.filter(|_| !is_of_launcher)?;
            Some(now.saturating_duration_since(since).as_secs_f64())
        });
        match (seconds, state) {
            (Some(seconds), _) if seconds >= SILENT_SECONDS => {
                let why =
                    self.problem.clone().unwrap_or_else(|| "the reason is not known".to_string());
                Presence::Silent { seconds, why }
            }
            (_, Some(state)) if state.n_restarts > 0 && !state.is_ready => Presence::StartsAgain,
            (_, Some(_)) => Presence::Heard,
            (_, None) => Presence::Begins,
        }
    }

    /// How much of its processors it had in the last seconds.
    pub(super) fn processors(&self, is_heard: bool) -> Option<ProcessorUse> {
        if self.told.condition != Condition::Running {
            return None;
        }
        if !is_heard || self.problem.is_some() {
            return self.unheard.processors();
        }
        let state = self.states.state()?;
        self.states.seconds()?;
        let used = self.states.rate("process_cpu_seconds");
        let delayed = if state.numbers.contains_key("process_run_delay_seconds") {
            self.states.rate("process_run_delay_seconds")
        } else {
            // The time that its work wanted, without the time that it got.
            let wanted = self.states.rate("trainer_computing_seconds")
                + self.states.rate("server_busy_seconds");
            (wanted - used).max(0.0)
        };
        let available = self.states.number("process_available_processors");
        Some(ProcessorUse { host: state.host.clone(), used, delayed, available })
    }
}
