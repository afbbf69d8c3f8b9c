//! How long a trainer waits for a server, and when it gives up.

use std::sync::atomic::Ordering;

use protocol::link::Broken;
use wire::{Error, Millis, Missing, Result};

use super::{ASK_MS, Client};
use crate::lines;

/// How long a trainer waits.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For the first connection.
    pub connect_ms: u64,
    /// For a new connection to a server whose connection broke.
    pub grace_ms: u64,
    /// For a sign of life on an open connection.
    pub lease_ms: u64,
    /// For an answer (`FLAGS_rpc_deadline`).
    pub answer_ms: u64,
    /// For a process that died, if the job recovers.
    pub recover_ms: u64,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            connect_ms: 60_000,
            grace_ms: 2_500,
            lease_ms: 20_000,
            answer_ms: 180_000,
            recover_ms: 300_000,
        }
    }
}

/// A server without a connection for so long is mentioned, and again after [`LINE_MS`].
const AWAY_MS: u64 = 1_000;
/// One with a connection is asked every second whether it is there. For so long it must be silent.
const SILENT_MS: u64 = 4_000;
/// Trainers that have not joined are mentioned when they were waited for for so long.
const ABSENT_MS: u64 = 5_000;
const LINE_MS: u64 = 10_000;

impl Client {
    pub(super) fn in_time(&self, start: Millis, what: &'static str) -> Result<()> {
        let waited_ms = self.clock.now().since(start);
        if waited_ms < self.patience.answer_ms {
            return Ok(());
        }
        let state = self.state();
        // The server may itself wait for a process that died first.
        if state.recovers && waited_ms < self.patience.answer_ms + self.patience.recover_ms {
            return Ok(());
        }
        let pong = state.link.pong();
        let missing = Missing { trainers: pong.missing.clone(), absent: pong.absent.clone() };
        Err(Error::Deadline { endpoint: self.endpoint.clone(), what, waited_ms, missing })
    }

    /// Whether there is hope for an answer.
    pub(super) fn check(&self, start: Millis) -> Result<()> {
        let now = self.clock.now();
        let endpoint = || self.endpoint.clone();
        let due = now.since(Millis(self.asked.load(Ordering::Relaxed))) >= ASK_MS;
        if due && now.since(start) >= ASK_MS {
            self.asked.store(now.0, Ordering::Relaxed);
            if (self.stops)() {
                return Err(Error::Interrupted { endpoint: endpoint() });
            }
        }
        let mut state = self.state();
        match state.link.broken() {
            Some(Broken::Refused(refusal)) => {
                return Err(Error::Refused { endpoint: endpoint(), refusal: refusal.clone() });
            }
            Some(Broken::NotEncrypted(why)) => {
                return Err(Error::NotEncrypted { endpoint: endpoint(), why: why.clone() });
            }
            Some(Broken::Unproved(why)) => {
                return Err(Error::Unproved { endpoint: endpoint(), why: *why });
            }
            Some(Broken::OtherTerm(term_state)) => {
                return Err(Error::OtherTerm {
                    endpoint: endpoint(),
                    term_state: term_state.clone(),
                });
            }
            Some(Broken::Restarted) => {
                let last = "it was started again and has lost what it held".to_string();
                return Err(Error::ServerLost { endpoint: endpoint(), silent_ms: 0, last });
            }
            None => {}
        }
        if state.is_closed {
            let last = "this trainer ended the conversation".to_string();
            return Err(Error::ServerLost { endpoint: endpoint(), silent_ms: 0, last });
        }
        let recovers = state.recovers;
        let limit = match (state.was_up, &state.stream) {
            _ if recovers => self.patience.recover_ms,
            (false, _) => self.patience.connect_ms,
            (true, None) if !state.is_proving => self.patience.grace_ms,
            (true, _) => self.patience.lease_ms,
        };
        let since = match (state.was_up, state.down) {
            (false, _) => start,
            (true, Some(down)) => down,
            (true, None) => state.link.heard(),
        };
        let silent_ms = now.since(since);
        let is_open = state.was_up && state.down.is_none();
        let away_ms = if is_open { SILENT_MS } else { AWAY_MS };
        // It may have been asked to end as well, and has: nothing starts it again while this process waits.
        let has_ended = recovers && !is_open && silent_ms >= away_ms && (self.ends)();
        if recovers && silent_ms >= away_ms && silent_ms < limit && !has_ended {
            if now >= *state.next_line.get_or_insert(now) {
                state.next_line = Some(now + LINE_MS);
                lines::server_away(&self.endpoint, silent_ms, limit - silent_ms, &state.last).say();
            }
            // Its machine may be gone, so that the end of the connection is never reported.
            if silent_ms >= self.patience.lease_ms && now.since(start) >= self.patience.lease_ms {
                let generation = state.generation;
                drop(state);
                self.broke(generation, "it fell silent");
            }
            return Ok(());
        }
        state.next_line = None;
        let waited_ms = now.since(start);
        let absent = &state.link.pong().absent;
        if waited_ms >= ABSENT_MS && !absent.is_empty() && is_open {
            let line = lines::trainers_absent(absent, waited_ms, &self.endpoint);
            if now >= *state.next_absent_line.get_or_insert(now) {
                state.next_absent_line = Some(now + LINE_MS);
                line.say();
            }
        }
        // A process that slept wakes with old news: what came meanwhile is read first.
        let is_there = state.stream.is_some() || state.is_proving;
        if !has_ended && (silent_ms < limit || (is_there && now.since(start) < limit)) {
            return Ok(());
        }
        Err(Error::ServerLost { endpoint: endpoint(), silent_ms, last: state.last.clone() })
    }
}
