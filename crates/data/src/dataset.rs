//! A dataset: files and slots, read in a stream or from memory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tensor::EvenIfPoisoned;

use crate::error::{Error, Result};
use crate::feed::Feed;
use crate::memory::{self, Memory, Range};
use crate::pass::{Pass, Skipped};
use crate::queue::{self, Stream};
use crate::random::Random;
use crate::settings::Settings;
use crate::shuffle::{self, Exchange};

/// Whether samples pass through or stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Files are read while they are trained on, each pass anew, in little memory.
    Queue,
    /// Files are loaded once, can be shuffled, and are trained on as often as wanted.
    InMemory,
}

/// Files and slots.
pub struct Dataset {
    kind: Kind,
    settings: Settings,
    memory: Option<Arc<Memory>>,
    /// What was there before values of slots were mixed.
    original: Option<Arc<Memory>>,
    loading: Option<Loading>,
    /// Samples that a name must have to become one; `None`: samples stay as they are.
    merge_size: Option<usize>,
    /// Samples that mixed values are drawn from; `None`: values are not mixed.
    n_candidates: Option<usize>,
    n_shuffles: u64,
    n_shuffled: u64,
    n_unmerged: u64,
    /// What the last pass left out, and what would end it. Not the pass itself: with its readers it
    /// ends, and its processes with it.
    skipped: Arc<Mutex<Skipped>>,
    stop: Arc<AtomicBool>,
}

/// A load that goes on beside.
type Loading = JoinHandle<Result<Memory>>;

impl Dataset {
    /// A dataset without files or slots.
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            settings: Settings::default(),
            memory: None,
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
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What it was told.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What it is told; what was loaded before stays.
    pub fn settings_mut(&mut self) -> &mut Settings {
        &mut self.settings
    }

    /// Begins a pass: a reader for each of `n_threads` threads (0: as many as the settings say).
    ///
    /// A stream has at most as many readers as files, and the settings remember that number.
    pub fn start(&mut self, n_threads: usize) -> Result<Vec<Reader>> {
        let n = if n_threads == 0 { self.settings.n_threads } else { n_threads };
        if self.kind == Kind::InMemory {
            return self.start_memory(n);
        }
        let pass = Arc::new(Pass::new(&self.settings)?);
        let streams = queue::start(&pass, n);
        self.settings.n_threads = streams.len();
        self.watch(&pass);
        Ok(streams.into_iter().map(|stream| Reader(Source::Stream(stream))).collect())
    }

    fn start_memory(&mut self, n: usize) -> Result<Vec<Reader>> {
        self.wait_loaded()?;
        let memory = self.memory.as_ref().ok_or(Error::NotLoaded)?;
        let Settings { batch_size, slots, .. } = &self.settings;
        let positive = [("batch_size", *batch_size), ("thread_num", n)];
        if let Some((setting, found)) = positive.into_iter().find(|(_, value)| *value == 0) {
            let (expected, found) = ("1 or more", found.to_string());
            return Err(Error::BadSetting { setting, expected, found });
        }
        let ranges = memory::ranges(memory, n, *batch_size, slots);
        self.stop = Arc::default();
        let reader = |range| Reader(Source::Memory(range, self.stop.clone()));
        Ok(ranges.into_iter().map(reader).collect())
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
        let pass = Pass::new(&self.settings)?;
        self.watch(&pass);
        self.loading = Some(thread::spawn(move || Memory::load(&pass, n)));
        Ok(())
    }

    /// Waits for a load that was begun.
    pub fn wait_loaded(&mut self) -> Result<()> {
        let Some(thread) = self.loading.take() else { return Ok(()) };
        let memory = thread.join().unwrap_or(Err(Error::ReaderLost))?;
        (self.memory, self.original) = (Some(Arc::new(memory)), None);
        Ok(())
    }

    /// Waits for a load for so long; whether none goes on any more.
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

    /// What ends a load or a pass early, from any thread.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.clone())
    }

    fn watch(&mut self, pass: &Pass) {
        (self.skipped, self.stop) = (pass.skipped.clone(), pass.stop.clone());
    }

    /// Puts the samples of this trainer in random order.
    pub fn local_shuffle(&mut self) -> Result<()> {
        self.only_in_memory("local shuffle", "local_shuffle")?;
        let seed = self.next_seed();
        Arc::make_mut(self.loaded()?).shuffle(seed);
        self.n_shuffled = memory_len(self.memory.as_ref());
        Ok(())
    }

    /// Puts the samples of all trainers in random order; each ends up at any of them. Without an
    /// exchange this trainer is the only one. Afterwards samples of one name become one, if wanted.
    pub fn global_shuffle(&mut self, exchange: Option<&dyn Exchange>) -> Result<()> {
        self.only_in_memory("global shuffle", "global_shuffle")?;
        let (seed, n_trade) = (self.next_seed(), self.settings.n_trade);
        let (slots, merge_size) = (self.settings.slots.clone(), self.merge_size);
        let memory = self.loaded()?;
        if let Some(exchange) = exchange {
            *memory = Arc::new(memory.scatter(exchange, &slots, seed, n_trade)?);
        }
        let n_unmerged = merge_size.map_or(0, |size| {
            let (merged, n_unmerged) = memory.merged(&slots, size);
            *memory = Arc::new(merged);
            n_unmerged
        });
        Arc::make_mut(memory).shuffle(seed);
        self.n_unmerged = n_unmerged as u64;
        self.n_shuffled = memory_len(self.memory.as_ref());
        self.original = None;
        Ok(())
    }

    /// Samples that the last global shuffle left out: their names had not as many as they should.
    pub fn n_unmerged(&self) -> u64 {
        self.n_unmerged
    }

    /// Forgets the samples.
    pub fn release(&mut self) {
        self.stop_loading();
        (self.memory, self.original, self.n_shuffled) = (None, None, 0);
    }

    /// Samples in memory; with an exchange, those of all trainers.
    pub fn n_rows(&self, exchange: Option<&dyn Exchange>) -> Result<u64> {
        let own = memory_len(self.memory.as_ref());
        exchange.map_or(Ok(own), |exchange| shuffle::sum(exchange, own))
    }

    /// Samples in memory after the last shuffle; with an exchange, those of all trainers.
    pub fn n_shuffled(&self, exchange: Option<&dyn Exchange>) -> Result<u64> {
        exchange.map_or(Ok(self.n_shuffled), |exchange| shuffle::sum(exchange, self.n_shuffled))
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

    /// Gives some slots the values of other samples; those mixed before get their own back.
    pub fn mix_slots(&mut self, names: &[String]) -> Result<()> {
        self.only_in_memory("slots shuffle", "slots_shuffle")?;
        let n_candidates = self.n_candidates.ok_or(Error::NoFeatureEval)?;
        let slots = self.settings.slots.clone();
        let used: Vec<&str> =
            slots.iter().filter(|slot| slot.used).map(|slot| slot.name.as_str()).collect();
        if let Some(slot) = names.iter().find(|name| !used.contains(&name.as_str())) {
            let slot = slot.clone();
            return Err(Error::NoSuchSlot { slot, slots: used.join(", ") });
        }
        let wanted: Vec<bool> =
            used.iter().map(|&name| names.iter().any(|wanted| wanted == name)).collect();
        let seed = self.next_seed();
        let now = self.loaded()?.clone();
        let original = self.original.get_or_insert(now).clone();
        let mixed = original.mixed(&slots, &wanted, seed, n_candidates);
        self.memory = Some(Arc::new(mixed));
        Ok(())
    }

    /// Bad lines and files that the last load or pass left out.
    pub fn skipped(&self) -> Skipped {
        self.skipped.lock().even_if_poisoned().clone()
    }

    fn only_in_memory(&self, what: &'static str, method: &'static str) -> Result<()> {
        match self.kind {
            Kind::InMemory => Ok(()),
            Kind::Queue => Err(Error::OnlyInMemory { what, method }),
        }
    }

    fn loaded(&mut self) -> Result<&mut Arc<Memory>> {
        self.wait_loaded()?;
        self.memory.as_mut().ok_or(Error::NotLoaded)
    }

    /// Every shuffle has an order of its own.
    fn next_seed(&mut self) -> u64 {
        self.n_shuffles += 1;
        Random::new(self.settings.seed ^ (self.n_shuffles << 32)).next()
    }

    fn stop_loading(&mut self) {
        if let Some(thread) = self.loading.take() {
            self.stopper().stop();
            let _ = thread.join();
        }
    }
}

fn memory_len(memory: Option<&Arc<Memory>>) -> u64 {
    memory.map_or(0, |memory| memory.len() as u64)
}

impl Drop for Dataset {
    fn drop(&mut self) {
        self.stop_loading();
    }
}

/// Ends a load or a pass early.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<AtomicBool>);

impl Stopper {
    /// Ends it: readers give no more batches, commands are ended.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The batches of one thread.
pub struct Reader(Source);

enum Source {
    Stream(Stream),
    Memory(Range, Arc<AtomicBool>),
}

impl Reader {
    /// The next batch; `None` after the last. An error is the end.
    #[allow(clippy::should_implement_trait)] // Batches come back: an iterator could not take them.
    pub fn next(&mut self) -> Result<Option<Feed>> {
        match &mut self.0 {
            Source::Stream(stream) => stream.next(),
            Source::Memory(_, stop) if stop.load(Ordering::Relaxed) => Ok(None),
            Source::Memory(range, _) => range.next(),
        }
    }

    /// Waits for so long; whether [`Reader::next`] would answer at once. For those who must look after
    /// something else meanwhile.
    pub fn ready(&mut self, max: Duration) -> bool {
        match &mut self.0 {
            Source::Stream(stream) => stream.ready(max),
            Source::Memory(..) => true,
        }
    }

    /// Puts the next batch in the place of one that was used, whose memory is used again; whether
    /// there was one.
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

    /// Gives back a batch for its memory.
    pub fn recycle(&mut self, batch: Feed) {
        match &mut self.0 {
            Source::Stream(stream) => stream.recycle(batch),
            Source::Memory(range, _) => range.recycle(batch),
        }
    }

    /// How long [`Reader::next`] waited for data in all.
    pub fn waited(&self) -> Duration {
        match &self.0 {
            Source::Stream(stream) => stream.waited(),
            Source::Memory(..) => Duration::ZERO,
        }
    }

    /// What ends this pass early, for all its readers and from any thread.
    pub fn stopper(&self) -> Stopper {
        match &self.0 {
            Source::Stream(stream) => Stopper(stream.pass().stop.clone()),
            Source::Memory(_, stop) => Stopper(stop.clone()),
        }
    }
}

#[cfg(test)]
mod tests;
