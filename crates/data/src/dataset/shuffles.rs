//! Another order of the samples in memory.

use std::path::Path;
use std::sync::Arc;

use metrics::Phase;

use super::Dataset;
use crate::error::{Error, Result};
use crate::memory::SampleMemory;
use crate::random::Random;
use crate::share::{self, Head};
use crate::shuffle::{self, Exchange};

/// How many samples a trainer holds after a global shuffle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleCounts {
    /// Samples in memory.
    pub n_samples: u64,
    /// Samples that were left out because their name had too few or too many of them.
    pub n_unmerged: u64,
}

/// How many trainers lack the file of a global shuffle that this one has: the others are in the middle
/// of [`Dataset::global_shuffle_kept`], because the job has gone back, and this one is beyond.
pub fn n_lacking(exchange: &dyn Exchange) -> Result<u64> {
    n_missing(exchange, 0)
}

fn n_missing(exchange: &dyn Exchange, own: u64) -> Result<u64> {
    shuffle::sum(exchange, "kept", own)
}

impl Dataset {
    /// Puts the samples of this trainer in random order.
    pub fn local_shuffle(&mut self) -> Result<()> {
        self.only_in_memory("local shuffle", "local_shuffle")?;
        let seed = self.next_seed();
        let phase = Phase::begin("shuffling", "samples");
        phase.set_total(self.len());
        match self.loaded() {
            Ok(memory) => Arc::make_mut(memory).shuffle(seed, &phase),
            // It is only counted: the samples come with a later shuffle.
            Err(Error::ShareGone) => {}
            Err(error) => return Err(error),
        }
        self.n_shuffled = self.len();
        Ok(())
    }

    /// Shuffles the samples of all trainers among all trainers. Without an exchange this trainer is
    /// the only one. Afterwards samples with the same name are merged, if wanted.
    pub fn global_shuffle(&mut self, exchange: Option<&dyn Exchange>) -> Result<()> {
        let (memory, n_unmerged) = self.shuffled(exchange)?;
        self.hold(memory, n_unmerged);
        Ok(())
    }

    /// Like [`Dataset::global_shuffle`], and keeps the samples of this trainer in a file, so that a
    /// new process can read them ([`Dataset::take_kept`]).
    ///
    /// Returns when all trainers have their files. Trainers that do it again, because one of them
    /// died meanwhile, exchange again if a file is missing, and use their files if none is.
    pub fn global_shuffle_kept(
        &mut self,
        exchange: Option<&dyn Exchange>,
        path: &Path,
    ) -> Result<()> {
        self.only_in_memory("global shuffle", "global_shuffle")?;
        self.loaded()?;
        let (facts, slots) = (self.facts(), self.settings.slots.clone());
        loop {
            // A file that is damaged is made again.
            let kept = share::read(path, &facts, &slots).ok().flatten();
            let missing = u64::from(kept.is_none());
            let n_missing = exchange.map_or(Ok(missing), |all| n_missing(all, missing))?;
            if let (0, Some((head, memory))) = (n_missing, kept) {
                self.hold(memory, head.n_unmerged);
                self.share = Some(path.into());
                return Ok(());
            }
            let (memory, n_unmerged) = self.shuffled(exchange)?;
            let head = Head { facts, n_samples: memory.len() as u64, n_unmerged };
            share::write(path, head, &memory)?;
        }
    }

    /// Loads the samples that [`Dataset::global_shuffle_kept`] wrote to a file, without an exchange.
    /// Before it the dataset must hold the samples that it held before that shuffle.
    ///
    /// A file that is not there was removed because a later one took its place. Then the dataset only
    /// counts its samples ([`SampleCounts`]), until it takes that one.
    pub fn take_kept(&mut self, path: &Path, held: SampleCounts) -> Result<()> {
        self.only_in_memory("global shuffle", "global_shuffle")?;
        self.wait_loaded()?;
        match share::read(path, &self.facts(), &self.settings.slots)? {
            Some((head, memory)) => self.hold(memory, head.n_unmerged),
            None => {
                self.n_shuffles += 1;
                self.set_memory(None);
                self.n_gone = Some(held.n_samples);
                (self.n_shuffled, self.n_unmerged) = (held.n_samples, held.n_unmerged);
            }
        }
        self.share = Some(path.into());
        Ok(())
    }

    /// The file with the samples of the last global shuffle. When the caller has the only handle left,
    /// the dataset is gone or holds other samples; then only a process that goes back behind that
    /// needs the file.
    pub fn share(&self) -> Option<Arc<Path>> {
        self.share.clone()
    }

    /// The samples after a global shuffle.
    pub fn held(&self) -> SampleCounts {
        SampleCounts { n_samples: self.len(), n_unmerged: self.n_unmerged }
    }

    /// The samples after a global shuffle, and how many it left out; those here stay as they are.
    fn shuffled(&mut self, exchange: Option<&dyn Exchange>) -> Result<(SampleMemory, u64)> {
        self.only_in_memory("global shuffle", "global_shuffle")?;
        let (seed, n_per_exchange) =
            (self.seed_of(self.n_shuffles + 1), self.settings.n_per_exchange);
        let (slots, merge_size) = (self.settings.slots.clone(), self.merge_size);
        let memory = self.loaded()?;
        let mut shuffled = match exchange {
            Some(exchange) => memory.scatter(exchange, &slots, seed, n_per_exchange)?,
            None => SampleMemory::clone(memory),
        };
        let mut n_unmerged = 0;
        if let Some(size) = merge_size {
            (shuffled, n_unmerged) = shuffled.merged(&slots, size);
        }
        let phase = Phase::begin("shuffling", "samples");
        phase.set_total(shuffled.len() as u64);
        shuffled.shuffle(seed, &phase);
        Ok((shuffled, n_unmerged as u64))
    }

    /// A global shuffle is done.
    fn hold(&mut self, memory: SampleMemory, n_unmerged: u64) {
        self.n_shuffles += 1;
        self.set_memory(Some(memory));
        (self.n_unmerged, self.n_shuffled) = (n_unmerged, self.len());
    }

    /// Replaces the values of some slots by those of other samples. Slots that were mixed before
    /// get their own values back.
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
        let now = match self.loaded() {
            Err(Error::ShareGone) => return Ok(()),
            loaded => loaded?.clone(),
        };
        let original = self.original.get_or_insert(now).clone();
        let mixed = original.mixed(&slots, &wanted, seed, n_candidates);
        self.memory = Some(Arc::new(mixed));
        Ok(())
    }

    /// Every shuffle has an order of its own.
    fn next_seed(&mut self) -> u64 {
        self.n_shuffles += 1;
        self.seed_of(self.n_shuffles)
    }

    fn seed_of(&self, shuffle: u64) -> u64 {
        Random::new(self.settings.seed ^ (shuffle << 32)).next()
    }
}

#[cfg(test)]
mod tests;
