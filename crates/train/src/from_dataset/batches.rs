//! The batches of one thread of a pass. The last ones are kept, to be run again after a death.

use std::collections::VecDeque;
use std::time::Duration;

use data::{Position, Reader};
use tensor::Tensor;

use super::TICK;
use crate::error::Result;
use crate::executor::Feed;

/// Memory for batches that are kept, of all threads of a pass. Dropped batches are read again from the files, which takes longer.
const KEPT_BYTES_MAX: usize = 128 << 20;

/// The batches of one thread.
pub(super) struct Batches {
    reader: Reader,
    /// Memory for those that were run; 0: they are not kept.
    bytes_max: usize,
    n_bytes: usize,
    /// Those that were read and not forgotten, the oldest first.
    kept: VecDeque<Batch>,
    /// How many of them were given out; the last one is the present one.
    n_out: usize,
    /// Where the first of them begins.
    start: Position,
}

struct Batch {
    feed: Feed,
    after: Position,
}

impl Batches {
    /// Those of a reader; they are not kept.
    pub(super) fn new(reader: Reader) -> Self {
        let start = reader.position().cloned().unwrap_or_default();
        Self { reader, bytes_max: 0, n_bytes: 0, kept: VecDeque::new(), n_out: 0, start }
    }

    /// Like [`Batches::new`], with batches kept for a rollback. This thread is one of `n_threads`.
    pub(super) fn kept(reader: Reader, n_threads: usize) -> Self {
        Self { bytes_max: KEPT_BYTES_MAX / n_threads.max(1), ..Self::new(reader) }
    }

    /// Moves on to the next batch; whether there is one. `wait` is called now and then while it is
    /// not there yet.
    pub(super) fn next(&mut self, wait: &mut dyn FnMut() -> Result<()>) -> Result<bool> {
        while self.n_bytes > self.bytes_max && self.n_out > 0 {
            self.forget_first();
        }
        if self.n_out == self.kept.len() {
            while !self.reader.ready(TICK) {
                wait()?;
            }
            if !self.read()? {
                return Ok(false);
            }
        }
        self.n_out += 1;
        Ok(true)
    }

    /// Reads one more.
    fn read(&mut self) -> Result<bool> {
        let Some(feed) = self.reader.next()? else { return Ok(false) };
        let counted = || {
            let mut after = self.kept.back().map_or(&self.start, |batch| &batch.after).clone();
            after.n_batches += 1;
            after.n_samples += feed.n_samples();
            after
        };
        let after = self.reader.position().cloned().unwrap_or_else(counted);
        self.n_bytes += n_bytes(&feed);
        self.kept.push_back(Batch { feed, after });
        Ok(true)
    }

    /// The current batch, and the position behind it.
    pub(super) fn present(&mut self) -> Option<(&mut Feed, &Position)> {
        let batch = self.kept.get_mut(self.n_out.checked_sub(1)?)?;
        Some((&mut batch.feed, &batch.after))
    }

    /// The batch that comes next, if it is there already.
    pub(super) fn following(&mut self) -> Result<Option<&Feed>> {
        if self.n_out == self.kept.len() && self.reader.ready(Duration::ZERO) {
            self.read()?;
        }
        Ok(self.kept.get(self.n_out).map(|batch| &batch.feed))
    }

    /// Behind which batch this thread stands.
    pub(super) fn position(&self) -> &Position {
        match self.n_out.checked_sub(1) {
            Some(last) => &self.kept[last].after,
            None => &self.start,
        }
    }

    /// How long the reader was waited for in all.
    pub(super) fn waited(&self) -> Duration {
        self.reader.waited()
    }

    /// Goes back, or forward, to a position; `false` if batches that follow it were forgotten.
    pub(super) fn rewind(&mut self, to: &Position) -> bool {
        let n_out = to.n_batches.checked_sub(self.start.n_batches).map(|n| n as usize);
        let Some(n_out) = n_out.filter(|&n_out| n_out <= self.kept.len()) else { return false };
        self.n_out = n_out;
        self.position() == to
    }

    /// The pass never goes back further than this.
    pub(super) fn forget_before(&mut self, n_batches: u64) {
        while self.start.n_batches < n_batches && self.n_out > 1 {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some(Batch { feed, after }) = self.kept.pop_front() {
            self.n_bytes -= n_bytes(&feed);
            self.n_out -= 1;
            self.start = after;
            self.reader.recycle(feed);
        }
    }

    /// Memory of what is kept.
    pub(super) fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    pub(super) fn reader(&self) -> &Reader {
        &self.reader
    }
}

fn n_bytes(feed: &Feed) -> usize {
    let lod = |tensor: &Tensor| -> usize {
        tensor.lod().levels().iter().map(|level| size_of_val(level.as_slice())).sum()
    };
    feed.tensors().map(|tensor| tensor.bytes().len() + lod(tensor)).sum()
}
