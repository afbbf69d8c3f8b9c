//! A dataset: files and slots, read in a stream or from memory.

mod shuffles;
mod starts;

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use base::EvenIfPoisoned;

use crate::error::{Error, Result};
use crate::memory::SampleMemory;
use crate::pass::{Pass, Skipped};
use crate::reader::Stopper;
use crate::reads::{FileRead, PassFiles};
use crate::settings::{DatasetKind, Settings};
use crate::shuffle::{self, Exchange};
use crate::source;

pub use shuffles::{SampleCounts, n_lacking};

/// Files and slots.
pub struct Dataset {
    kind: DatasetKind,
    settings: Settings,
    memory: Option<Arc<SampleMemory>>,
    /// Samples that an earlier process held here and that are not needed since.
    n_gone: Option<u64>,
    /// Where the last global shuffle has kept its samples.
    share: Option<Arc<Path>>,
    /// The samples before values of slots were mixed.
    original: Option<Arc<SampleMemory>>,
    loading: Option<LoadThread>,
    /// Samples that a name must have to become one; `None`: samples stay as they are.
    merge_size: Option<usize>,
    /// Samples that mixed values are drawn from; `None`: values are not mixed.
    n_candidates: Option<usize>,
    n_shuffles: u64,
    n_shuffled: u64,
    n_unmerged: u64,
    /// The lines that the last pass left out, and the flag that ends it. Not the pass itself: with
    /// its readers it ends, and its processes with it.
    skipped: Arc<Mutex<Skipped>>,
    stop: Arc<AtomicBool>,
}

/// A load in the background.
type LoadThread = JoinHandle<Result<SampleMemory>>;

impl Dataset {
    /// A dataset without files or slots.
    pub fn new(kind: DatasetKind) -> Self {
        Self {
            kind,
            settings: Settings::default(),
            memory: None,
            n_gone: None,
            share: None,
            original: None,
            loading: None,
            merge_size: None,
            n_candidates: None,
            n_shuffles: 0,
            n_shuffled: 0,
            n_unmerged: 0,
            skipped: Arc::default(),
            stop: Arc::default(),
        }
    }

    /// Its kind.
    pub fn kind(&self) -> DatasetKind {
        self.kind
    }

    /// Its settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Its settings, to change. Samples that were loaded before stay.
    pub fn settings_mut(&mut self) -> &mut Settings {
        &mut self.settings
    }

    /// Sets the files. The matches of a pattern in the list take its place, sorted: so a pass has a
    /// list that does not change.
    pub fn set_files(&mut self, list: &[String]) -> Result<()> {
        self.settings.files = source::expand(list, &self.settings.stores)?;
        Ok(())
    }

    /// Reads all files into memory.
    pub fn load(&mut self) -> Result<()> {
        self.preload(0)?;
        self.wait_loaded()
    }

    /// Begins to read all files into memory with `n_threads` threads (0: as the settings say).
    pub fn preload(&mut self, n_threads: usize) -> Result<()> {
        self.only_in_memory("loading", "load_into_memory")?;
        self.wait_loaded()?;
        let n = if n_threads == 0 { self.settings.n_threads } else { n_threads };
        let pass = Pass::new(&self.settings, Default::default())?;
        self.watch(&pass);
        self.loading = Some(thread::spawn(move || SampleMemory::load(&pass, n)));
        Ok(())
    }

    /// Waits for a load that was begun.
    pub fn wait_loaded(&mut self) -> Result<()> {
        let Some(thread) = self.loading.take() else { return Ok(()) };
        let memory = thread.join().unwrap_or(Err(Error::ReaderLost))?;
        self.set_memory(Some(memory));
        Ok(())
    }

    fn set_memory(&mut self, memory: Option<SampleMemory>) {
        (self.memory, self.original, self.n_gone) = (memory.map(Arc::new), None, None);
    }

    /// Samples in memory, or those that would be if they were needed.
    fn len(&self) -> u64 {
        self.memory.as_ref().map_or(self.n_gone.unwrap_or(0), |memory| memory.len() as u64)
    }

    /// Waits up to `max` for a load. Returns whether it is over.
    pub fn loaded_within(&mut self, max: Duration) -> Result<bool> {
        let start = Instant::now();
        while self.loading.as_ref().is_some_and(|thread| !thread.is_finished()) {
            if start.elapsed() >= max {
                return Ok(false);
            }
            thread::sleep(Duration::from_millis(1).min(max));
        }
        self.wait_loaded().map(|()| true)
    }

    /// A handle that ends a load or a pass early, from any thread.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.clone())
    }

    fn watch(&mut self, pass: &Pass) {
        (self.skipped, self.stop) = (pass.skipped.clone(), pass.stop.clone());
    }

    /// Samples that the last global shuffle left out because their name had too few or too many of
    /// them.
    pub fn n_unmerged(&self) -> u64 {
        self.n_unmerged
    }

    /// Forgets the samples.
    pub fn release(&mut self) {
        self.stop_loading();
        self.set_memory(None);
        self.n_shuffled = 0;
    }

    /// Samples in memory; with an exchange, those of all trainers.
    pub fn n_rows(&self, exchange: Option<&dyn Exchange>) -> Result<u64> {
        let own = self.len();
        exchange.map_or(Ok(own), |exchange| shuffle::sum(exchange, "count", own))
    }

    /// Samples in memory after the last shuffle; with an exchange, those of all trainers.
    pub fn n_shuffled(&self, exchange: Option<&dyn Exchange>) -> Result<u64> {
        exchange.map_or(Ok(self.n_shuffled), |exchange| {
            shuffle::sum(exchange, "count", self.n_shuffled)
        })
    }

    /// Bytes that the samples in memory take.
    pub fn bytes(&self) -> usize {
        self.memory.as_ref().map_or(0, |memory| memory.bytes())
    }

    /// With the next global shuffle, samples of one name become one if there are `size` (0: any
    /// number).
    pub fn set_merge_by_name(&mut self, size: Option<usize>) {
        self.merge_size = size;
        self.settings.ins_id |= size.is_some();
    }

    /// Allows [`Dataset::mix_slots`], with values drawn from that many samples.
    pub fn set_mix_candidates(&mut self, n_candidates: Option<usize>) {
        self.n_candidates = n_candidates;
    }

    /// Bad lines and files that the last load or pass left out.
    pub fn skipped(&self) -> Skipped {
        self.skipped.lock().even_if_poisoned().clone()
    }

    /// Sets the lines that an earlier process left out, in a pass that is not run again.
    pub fn set_skipped(&mut self, skipped: Skipped) {
        self.skipped = Arc::new(Mutex::new(skipped));
    }

    /// The files of its passes; none if its samples are in memory.
    pub fn pass_files(&self) -> Option<PassFiles> {
        let Settings { files, left_out, .. } = &self.settings;
        let stream = PassFiles { files: files.clone(), left_out: left_out.clone() };
        (self.kind == DatasetKind::Queue).then_some(stream)
    }

    /// From now on passes leave out the parts that others have read.
    pub fn leave_out(&mut self, read: &[FileRead]) {
        let lines = |read: &FileRead| (read.file.clone(), read.n_lines);
        self.settings.left_out = read.iter().map(lines).collect();
    }

    /// Another dataset with the same samples. It does not change with this one.
    pub fn twin(&self) -> Self {
        let mut twin = Self::new(self.kind);
        twin.settings = self.settings.clone();
        (twin.memory, twin.original) = (self.memory.clone(), self.original.clone());
        twin.n_gone = self.n_gone;
        (twin.merge_size, twin.n_candidates) = (self.merge_size, self.n_candidates);
        (twin.n_shuffles, twin.n_shuffled) = (self.n_shuffles, self.n_shuffled);
        twin.n_unmerged = self.n_unmerged;
        twin
    }

    fn only_in_memory(&self, what: &'static str, method: &'static str) -> Result<()> {
        match self.kind {
            DatasetKind::InMemory => Ok(()),
            DatasetKind::Queue => Err(Error::OnlyInMemory { what, method }),
        }
    }

    fn loaded(&mut self) -> Result<&mut Arc<SampleMemory>> {
        self.wait_loaded()?;
        let missing = if self.n_gone.is_some() { Error::ShareGone } else { Error::NotLoaded };
        self.memory.as_mut().ok_or(missing)
    }

    fn stop_loading(&mut self) {
        if let Some(thread) = self.loading.take() {
            self.stopper().stop();
            let _ = thread.join();
        }
    }
}

impl Drop for Dataset {
    fn drop(&mut self) {
        self.stop_loading();
    }
}

#[cfg(test)]
mod tests;
