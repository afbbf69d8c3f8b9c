//! How a server ends when it is asked to: if it keeps cuts, after one more cut.

use std::time::{Duration, Instant};

use net::lines::Line;
use net::tcp::Stop;
use protocol::Severity;

use super::{BlockStore, Serving};

/// How often it is looked whether the server was asked to end, and whether it can.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const LOOK_EVERY_AT_END: Duration = Duration::from_millis(5);

/// For so long a server without trainers waits for them.
const ALONE: Duration = Duration::from_secs(1);

/// Watches a server that may be asked to end.
pub(super) struct Shutdown<'a> {
    serving: &'a Serving,
    store: &'a BlockStore,
    stop: &'a Stop,
    asked: Option<EndRequest>,
}

/// It was asked to end.
struct EndRequest {
    at: Instant,
    /// So many cuts will have been written when it ends.
    n_cuts: u64,
    alone_since: Option<Instant>,
}

impl<'a> Shutdown<'a> {
    pub(super) fn new(serving: &'a Serving, store: &'a BlockStore, stop: &'a Stop) -> Self {
        Self { serving, store, stop, asked: None }
    }

    /// When to look again. Trainers wait while a server ends: others may take its place.
    pub(super) fn look_every(&self) -> Duration {
        let is_ending = self.asked.is_some() && !self.stop.is_set();
        if is_ending { LOOK_EVERY_AT_END } else { LOOK_EVERY }
    }

    /// Looks again; `is_wanted` is true once for each request to end.
    pub(super) fn look(&mut self, is_wanted: bool) {
        let now = Instant::now();
        let Some(keeping) = &self.serving.keeping else {
            if is_wanted {
                self.stop.set();
            }
            return;
        };
        match &mut self.asked {
            Some(_) if is_wanted => self.stop.set(),
            Some(asked) => {
                let since = self.stop.is_alone().then(|| asked.alone_since.unwrap_or(now));
                asked.alone_since = since;
                let is_alone = since.is_some_and(|since| now.duration_since(since) >= ALONE);
                let is_late = now.duration_since(asked.at) >= keeping.grace;
                let is_kept = self.store.n_cuts() >= asked.n_cuts;
                if is_late && !is_kept {
                    self.say(Severity::Warning, "no cut was made in time; the last one counts");
                }
                if is_kept || is_alone || is_late {
                    self.stop.set();
                }
            }
            None if is_wanted => {
                self.say(Severity::Info, "asked to end: waits for a cut first");
                // One that is under way may not have what was done until now.
                let n_cuts = self.store.n_cuts() + 1 + u64::from(self.store.makes_cut());
                self.asked = Some(EndRequest { at: now, n_cuts, alone_since: None });
                self.stop.want_cut();
            }
            None => {}
        }
    }

    fn say(&self, severity: Severity, text: &str) {
        (self.serving.log)(&Line { severity, site: "server", text: text.to_string() });
    }
}
