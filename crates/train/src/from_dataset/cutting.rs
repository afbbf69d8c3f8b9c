//! Where the threads of a pass stop, so that a cut of the job finds nothing under way.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use base::EvenIfPoisoned;
use base::bytes::{ByteReader, ByteWriter};
use base::formats::PASS;
use data::{Position, Positions};

use super::TICK;
use super::shared::Shared;
use crate::error::{Error, Result};
use crate::remote::TrainerJob;

/// Makes cuts of the job.
pub(super) trait CutMaker: Sync {
    /// Whether a cut is due now.
    fn is_due(&self) -> bool;

    /// Makes it; `inside` says how far the pass is.
    fn cut(&self, inside: &mut dyn FnMut() -> Result<Vec<u8>>) -> Result<()>;
}

impl CutMaker for TrainerJob {
    fn is_due(&self) -> bool {
        self.is_cut_due()
    }

    fn cut(&self, inside: &mut dyn FnMut() -> Result<Vec<u8>>) -> Result<()> {
        TrainerJob::cut(self, inside)
    }
}

/// How far a pass is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Inside {
    pub(super) positions: Positions,
    /// Since it began.
    pub(super) elapsed: Duration,
    /// How long its threads waited for data, all together.
    pub(super) waited: Duration,
}

impl Inside {
    pub(super) fn beginning(positions: Positions) -> Self {
        Self { positions, elapsed: Duration::ZERO, waited: Duration::ZERO }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut to = ByteWriter::default();
        to.u8(PASS.byte()).u64(self.elapsed.as_micros() as u64).u64(self.waited.as_micros() as u64);
        to.raw(&self.positions.to_bytes());
        to.0
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let from = &mut ByteReader::new(bytes);
        if !PASS.can_read(from.u8()?) {
            return Err(Error::BadState("the progress of the pass was written by another release"));
        }
        let (elapsed, waited) = (from.u64()?, from.u64()?);
        let positions = Positions::from_bytes(from.rest())?;
        let (elapsed, waited) = (Duration::from_micros(elapsed), Duration::from_micros(waited));
        Ok(Self { positions, elapsed, waited })
    }
}

/// The threads of a pass, as far as cuts are concerned.
pub(super) struct Cutting<'a> {
    /// None: no cuts are made.
    cuts: Option<&'a dyn CutMaker>,
    shared: &'a Shared,
    start: Instant,
    state: Mutex<CutState>,
    moved: Condvar,
    /// A thread has seen that a cut is due: all threads stop at their next boundary.
    is_wanted: AtomicBool,
    n_cuts: AtomicU64,
}

struct CutState {
    /// For each thread, the position behind the batch that it runs or has run last. None if no cuts
    /// are made.
    inside: Option<Inside>,
    /// Where threads stood at the cut before the last one, and at the last one.
    cuts: [Option<Positions>; 2],
    n_active: usize,
    n_waiting: usize,
    is_cutting: bool,
    /// Cuts that were tried.
    n_tried: u64,
}

impl<'a> Cutting<'a> {
    /// Threads that begin there.
    pub(super) fn new(
        cuts: Option<&'a dyn CutMaker>,
        shared: &'a Shared,
        inside: Option<Inside>,
        n_threads: usize,
    ) -> Self {
        let state = CutState {
            cuts: [inside.as_ref().map(|inside| inside.positions.clone()), None],
            inside,
            n_active: n_threads,
            n_waiting: 0,
            is_cutting: false,
            n_tried: 0,
        };
        Self {
            cuts,
            shared,
            start: Instant::now(),
            state: Mutex::new(state),
            moved: Condvar::new(),
            is_wanted: AtomicBool::new(false),
            n_cuts: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, CutState> {
        self.state.lock().even_if_poisoned()
    }

    /// A thread runs the batch before this position.
    pub(super) fn moves_to(&self, thread: usize, position: &Position) {
        if let Some(inside) = &mut self.lock().inside {
            inside.positions.set(thread, position.clone());
        }
    }

    /// Whether a cut is due, where all threads are known to wait.
    pub(super) fn is_due(&self) -> bool {
        self.cuts.is_some_and(CutMaker::is_due)
    }

    /// Makes a cut; all threads wait meanwhile.
    pub(super) fn cut(&self) -> Result<()> {
        let (Some(cuts), Some(mut inside)) = (self.cuts, self.lock().inside.clone()) else {
            return Ok(());
        };
        inside.elapsed += self.start.elapsed();
        inside.waited = self.shared.waited();
        let mut is_made = false;
        cuts.cut(&mut || {
            is_made = true;
            Ok(inside.to_bytes())
        })?;
        if !is_made {
            return Ok(());
        }
        let mut state = self.lock();
        state.cuts.swap(0, 1);
        state.cuts[1] = Some(inside.positions);
        self.n_cuts.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// How many cuts were made.
    pub(super) fn n_cuts(&self) -> u64 {
        self.n_cuts.load(Ordering::Relaxed)
    }

    /// Batches of a thread before the last cut but one. The job should not go back further. If it
    /// must, files are read again.
    pub(super) fn n_old(&self, thread: usize) -> u64 {
        let state = self.lock();
        let old = state.cuts[0].as_ref().and_then(|old| old.readers().get(thread));
        old.map_or(0, |position| position.n_batches)
    }

    /// A thread is between two batches. If a cut is due, it waits for the others, and the last one
    /// makes the cut. Threads that are done are not waited for.
    pub(super) fn at_boundary(&self, stops: &dyn Fn() -> bool) -> Result<()> {
        if !self.is_wanted.load(Ordering::Relaxed) && !self.is_due() {
            return Ok(());
        }
        let mut state = self.lock();
        self.is_wanted.store(true, Ordering::Relaxed);
        state.n_waiting += 1;
        let n_tried = state.n_tried;
        loop {
            if state.n_tried != n_tried {
                return Ok(());
            }
            if state.n_waiting == state.n_active && !state.is_cutting {
                state.is_cutting = true;
                drop(state);
                let made = self.cut();
                let mut state = self.lock();
                self.is_wanted.store(false, Ordering::Relaxed);
                (state.is_cutting, state.n_waiting) = (false, 0);
                state.n_tried += 1;
                self.moved.notify_all();
                return made;
            }
            if stops() {
                state.n_waiting -= 1;
                return Err(Error::PassStopped);
            }
            let waited = self.moved.wait_timeout(state, TICK);
            state = waited.even_if_poisoned().0;
        }
    }

    /// A thread has no more batches, or failed.
    pub(super) fn leave(&self) {
        self.lock().n_active -= 1;
        self.moved.notify_all();
    }
}
