//! The batches of one thread of a pass, and the handle that ends a pass early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::error::Result;
use crate::feed::Feed;
use crate::memory::Range;
use crate::position::Position;
use crate::queue::Stream;

/// Ends a load or a pass early.
#[derive(Clone, Debug)]
pub struct Stopper(pub(crate) Arc<AtomicBool>);

impl Stopper {
    /// Ends it: readers give no more batches, commands are ended.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The batches of one thread.
pub struct Reader(pub(crate) BatchOrigin);

/// Where they come from.
pub(crate) enum BatchOrigin {
    Stream(Stream),
    Memory(Range, Arc<AtomicBool>),
}

impl Reader {
    /// The next batch; `None` after the last. An error is the end.
    #[allow(clippy::should_implement_trait)] // Batches come back: an iterator could not take them.
    pub fn next(&mut self) -> Result<Option<Feed>> {
        match &mut self.0 {
            BatchOrigin::Stream(stream) => stream.next(),
            BatchOrigin::Memory(_, stop) if stop.load(Ordering::Relaxed) => Ok(None),
            BatchOrigin::Memory(range, _) => range.next(),
        }
    }

    /// Waits up to `max`. Returns whether [`Reader::next`] would answer at once. For callers that
    /// must do something else meanwhile.
    pub fn ready(&mut self, max: Duration) -> bool {
        match &mut self.0 {
            BatchOrigin::Stream(stream) => stream.ready(max),
            BatchOrigin::Memory(..) => true,
        }
    }

    /// Replaces a used batch by the next one and uses its memory again. Returns whether there was
    /// one.
    pub fn next_into(&mut self, batch: &mut Feed) -> Result<bool> {
        if !batch.is_empty() {
            self.recycle(std::mem::take(batch));
        }
        match self.next()? {
            Some(next) => *batch = next,
            None => return Ok(false),
        }
        Ok(true)
    }

    /// Gives a batch back, so that its memory is used again.
    pub fn recycle(&mut self, batch: Feed) {
        match &mut self.0 {
            BatchOrigin::Stream(stream) => stream.recycle(batch),
            BatchOrigin::Memory(range, _) => range.recycle(batch),
        }
    }

    /// The position behind the last batch that it gave out. None if files are taken in any order:
    /// the pass was not begun with [`Dataset::start_at`].
    pub fn position(&self) -> Option<&Position> {
        match &self.0 {
            BatchOrigin::Stream(stream) => stream.position(),
            BatchOrigin::Memory(range, _) => Some(range.position()),
        }
    }

    /// How long [`Reader::next`] waited for data in all.
    pub fn waited(&self) -> Duration {
        match &self.0 {
            BatchOrigin::Stream(stream) => stream.waited(),
            BatchOrigin::Memory(..) => Duration::ZERO,
        }
    }

    /// A handle that ends this pass early, for all its readers and from any thread.
    pub fn stopper(&self) -> Stopper {
        match &self.0 {
            BatchOrigin::Stream(stream) => Stopper(stream.pass().stop.clone()),
            BatchOrigin::Memory(_, stop) => Stopper(stop.clone()),
        }
    }
}
