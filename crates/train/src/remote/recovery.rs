//! The data that a trainer needs to go back, and the keepers of its cuts.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::ThreadId;

use base::EvenIfPoisoned;
use data::FileRead;

use super::cuts::TrainerCuts;
use super::exchange::Exchanges;
use super::links::{Arrival, Links};
use super::locks::{Ordered, OrderedGuard, Rank};
use super::{Timeline, recovery_lines};
use crate::error::{Error, Result};
use crate::recover::{Former, Left, LocalState, Passes};

/// The obstacle of a trainer that repeats its script.
pub(super) const REPLAY: &str = "replay";

/// Gives the state inside of an event, for a cut; nothing between two events.
pub(super) type EventState<'a> = dyn FnMut() -> Result<Option<Vec<u8>>> + 'a;

/// How cuts of a job are made and come back: servers keep them, or the trainers do.
pub(super) trait CutProtocol {
    /// Joins the others, after all were left; what they have kept of this trainer.
    fn arrive(&self) -> Result<Arrival>;

    /// Whether a cut is due at this boundary between two steps. Cheap: called at every step.
    fn is_due(&self) -> bool;

    /// A boundary between two events or two steps: takes part in a cut, if there is one here.
    fn boundary(&self, inside: &mut EventState<'_>) -> Result<()>;

    /// Whether a cut was kept since the script began.
    fn has_kept(&self) -> bool;

    /// Much memory is held to do events again, and `limit` bytes are the most.
    fn make_room(&self, limit: usize) -> Result<()>;
}

/// The data that a trainer needs to go back.
pub(crate) struct Recovery {
    /// The events of this trainer's script.
    timeline: Ordered<Timeline>,
    cuts: Ordered<TrainerCuts>,
    /// The thread that performs an event; cleared at its end.
    acting: Mutex<Option<ThreadId>>,
    acted: Condvar,
    passes: Ordered<PassNotes>,
    /// Passes that the script has made.
    n_passes: AtomicU64,
    /// Global shuffles that the script has asked for.
    n_shuffles: AtomicU64,
}

/// How far passes are, and those of trainers before.
#[derive(Debug, Default)]
struct PassNotes {
    own: Passes,
    former: Former,
}

/// The right to perform an event: one after the other.
pub(super) struct Turn<'a>(&'a Recovery);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.acting.lock().even_if_poisoned() = None;
        self.0.acted.notify_one();
    }
}

impl Default for Recovery {
    fn default() -> Self {
        Self {
            timeline: Ordered::new(Rank::Timeline, Timeline::default()),
            cuts: Ordered::new(Rank::Cuts, TrainerCuts::default()),
            acting: Mutex::default(),
            acted: Condvar::default(),
            passes: Ordered::new(Rank::Passes, PassNotes::default()),
            n_passes: AtomicU64::default(),
            n_shuffles: AtomicU64::default(),
        }
    }
}

impl Recovery {
    pub(super) fn timeline(&self) -> OrderedGuard<'_, Timeline> {
        self.timeline.lock()
    }

    pub(super) fn cuts(&self) -> OrderedGuard<'_, TrainerCuts> {
        self.cuts.lock()
    }

    fn passes(&self) -> OrderedGuard<'_, PassNotes> {
        self.passes.lock()
    }

    /// Waits for its turn to perform an event; none if this thread performs one already.
    pub(super) fn turn(&self, own: ThreadId) -> Option<Turn<'_>> {
        let mut acting = self.acting.lock().even_if_poisoned();
        if *acting == Some(own) {
            return None;
        }
        while acting.is_some() {
            acting = self.acted.wait(acting).even_if_poisoned();
        }
        *acting = Some(own);
        Some(Turn(self))
    }

    /// The job is over for this trainer. `is_kept`: a cut says so.
    pub(super) fn end(&self, is_kept: bool) {
        let mut timeline = std::mem::take(&mut *self.timeline());
        if is_kept {
            timeline.end();
        }
    }

    /// Another job begins.
    pub(super) fn reset(&self) {
        *self.timeline() = Timeline::default();
        *self.cuts() = TrainerCuts::default();
        self.n_passes.store(0, Ordering::Relaxed);
        *self.passes() = PassNotes::default();
    }

    /// The number of the next global shuffle, from 1: the same in every process of a trainer.
    pub(crate) fn next_shuffle(&self) -> u64 {
        self.n_shuffles.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A dataset holds samples that are in this file as well, for a process that is started again.
    pub(crate) fn shares(&self, file: Arc<Path>) {
        self.timeline().shares(file);
    }

    /// The number of the script's next pass that trains.
    pub(crate) fn n_passes(&self) -> u64 {
        self.n_passes.load(Ordering::Relaxed)
    }

    /// The script has made a pass.
    pub(crate) fn next_pass(&self) {
        self.n_passes.fetch_add(1, Ordering::Relaxed);
    }

    /// A pass is this far; `is_done`: it is over.
    pub(crate) fn note_pass(&self, number: u64, files: Option<Vec<FileRead>>, is_done: bool) {
        self.passes().own.note(number, files, is_done);
    }

    /// The part of a pass that former trainers have left; logs it, if it is not everything.
    pub(crate) fn left_of_pass(&self, number: u64, links: &Links) -> Left {
        let left = self.passes().former.left(number);
        recovery_lines::left(number, &left).into_iter().for_each(|line| (links.log())(&line));
        left
    }

    /// Takes note of the passes of trainers before.
    pub(super) fn set_former(&self, former: Former) {
        self.passes().former = former;
    }

    /// Goes back to the passes of a state.
    pub(super) fn restore_passes(&self, state: &LocalState) {
        self.passes().own = state.passes.clone();
    }

    /// The addition to this trainer's journal; logs a line if it is the last.
    pub(super) fn journal_part(&self, timeline: &mut Timeline, links: &Links) -> Vec<u8> {
        let limit = links.settings().journal_bytes;
        let part = timeline.journal_part(limit);
        if part.is_last {
            (links.log())(&recovery_lines::journal_is_full(limit));
        }
        part.bytes
    }

    /// Adds what is not in scopes to a state of this trainer.
    pub(super) fn add_own(
        &self,
        state: &mut LocalState,
        timeline: &Timeline,
        links: &Links,
        exchanges: &Exchanges,
    ) {
        let turns = links.state().turns;
        (state.n_all_gathers, state.n_exchanges) = (turns.n_all_gathers, turns.n_exchanges);
        state.is_over = self.cuts().has_completed;
        {
            let passes = self.passes();
            (state.passes, state.former) = (passes.own.clone(), passes.former.clone());
        }
        let scopes = timeline.of_job().map(|(_, scopes)| scopes).unwrap_or_default();
        exchanges.save(state, scopes.first());
    }

    /// No memory is left to repeat events. If the others wait for this trainer at a barrier, no cut is made before it reaches
    /// them: it drops the events, because ending now would bring it here again.
    pub(super) fn free_room(&self, links: &Links, limit: usize) -> Result<()> {
        let (is_cancelled, cut) = {
            let cuts = self.cuts();
            (cuts.is_cancelled, cuts.complete)
        };
        let n_bytes = {
            let mut timeline = self.timeline();
            if is_cancelled {
                timeline.forget_redo();
            }
            timeline.n_bytes()
        };
        if n_bytes >= limit {
            return Err(Error::NoCutIsKept { n_bytes, cut });
        }
        (links.log())(&recovery_lines::forgets(cut));
        Ok(())
    }
}

/// This process ends, in order; the job can go on from a cut. Servers are not told: they wait for it to be started
/// again.
pub(super) fn ended(links: &Links, cut: Option<u64>) -> Result<()> {
    (links.log())(&recovery_lines::ends(cut));
    links.close();
    Err(Error::Ended)
}
