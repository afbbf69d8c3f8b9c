//! The beginning of a pass, or its going on.

use std::sync::Arc;

use super::Dataset;
use crate::error::{Error, Result};
use crate::memory;
use crate::pass::Pass;
use crate::position::{Facts, HeldSamples, Positions};
use crate::queue::{self, Stream};
use crate::reader::{BatchOrigin, Reader};
use crate::settings::{DatasetKind, Settings};

impl Dataset {
    /// Begins a pass: a reader for each of `n_threads` threads (0: as many as the settings say).
    ///
    /// A stream has at most as many readers as files, and the settings remember that number.
    pub fn start(&mut self, n_threads: usize) -> Result<Vec<Reader>> {
        let n = if n_threads == 0 { self.settings.n_threads } else { n_threads };
        if self.kind == DatasetKind::InMemory {
            return self.start_memory(n);
        }
        let pass = Arc::new(Pass::new(&self.settings, Default::default())?);
        let streams = queue::start(&pass, n);
        Ok(self.readers(&pass, streams))
    }

    /// Begins a pass whose readers know their positions, or resumes one: exactly the samples that
    /// follow, in the same batches. Also returns where the readers begin.
    ///
    /// Which thread reads which file depends only on their numbers. So a position is a few numbers,
    /// and each thread gets the same batches in every run. The price: a thread that is done with
    /// its files does not help the others.
    pub fn start_at(
        &mut self,
        n_threads: usize,
        from: Option<&Positions>,
    ) -> Result<(Vec<Reader>, Positions)> {
        let n = if n_threads == 0 { self.settings.n_threads } else { n_threads };
        if self.kind == DatasetKind::InMemory {
            return self.start_memory_at(n, from);
        }
        let before = from.map(|from| (from.n_samples(), from.skipped())).unwrap_or_default();
        let pass = Arc::new(Pass::new(&self.settings, before)?);
        let facts = self.facts();
        let positions = match from {
            Some(from) => {
                facts.check(&from.facts)?;
                self.check_files(from)?;
                from.clone()
            }
            None => Positions::new(facts, queue::beginnings(queue::n_readers(&pass, n))),
        };
        let streams = queue::start_at(&pass, positions.readers().to_vec());
        Ok((self.readers(&pass, streams), positions))
    }

    fn readers(&mut self, pass: &Pass, streams: Vec<Stream>) -> Vec<Reader> {
        self.settings.n_threads = streams.len();
        self.watch(pass);
        streams.into_iter().map(|stream| Reader(BatchOrigin::Stream(stream))).collect()
    }

    /// Refuses positions in files that another thread reads.
    fn check_files(&self, from: &Positions) -> Result<()> {
        let (n, n_files) = (from.len() as u64, self.settings.files.len() as u64);
        let mut files = (0..n).zip(from.readers().iter().map(|position| position.file));
        if n == 0 || n > n_files || files.any(|(at, file)| file < n_files && file % n != at) {
            let reason = format!("{n} readers of {n_files} files do not stand there");
            return Err(Error::BadPositions { reason });
        }
        Ok(())
    }

    fn start_memory_at(
        &mut self,
        n: usize,
        from: Option<&Positions>,
    ) -> Result<(Vec<Reader>, Positions)> {
        let mut readers = self.start_memory(from.map_or(n, Positions::len))?;
        let facts = self.facts();
        let Some(from) = from else {
            let begins = readers.iter().filter_map(Reader::position).cloned().collect();
            return Ok((readers, Positions::new(facts, begins)));
        };
        facts.check(&from.facts)?;
        for (reader, position) in readers.iter_mut().zip(from.readers()) {
            let is_there = match &mut reader.0 {
                BatchOrigin::Memory(range, _) => range.begin_at(position),
                BatchOrigin::Stream(_) => false,
            };
            if !is_there {
                let reason = format!("sample {} is in the range of another thread", position.at);
                return Err(Error::BadPositions { reason });
            }
        }
        Ok((readers, from.clone()))
    }

    /// A number that differs if a pass would read other samples, or in other batches.
    pub fn digest(&self) -> u64 {
        self.facts().digest()
    }

    /// The facts that determine the samples of a pass now.
    pub(super) fn facts(&self) -> Facts {
        let memory = HeldSamples { n_samples: self.len(), n_shuffles: self.n_shuffles };
        Facts::of(self.kind, &self.settings, memory)
    }

    fn start_memory(&mut self, n: usize) -> Result<Vec<Reader>> {
        let memory = self.loaded()?.clone();
        let Settings { batch_size, slots, .. } = &self.settings;
        let positive = [("batch_size", *batch_size), ("thread_num", n)];
        if let Some((setting, found)) = positive.into_iter().find(|(_, value)| *value == 0) {
            let (expected, found) = ("1 or more", found.to_string());
            return Err(Error::BadSetting { setting, expected, found });
        }
        let ranges = memory::ranges(&memory, n, *batch_size, slots);
        self.stop = Arc::default();
        let reader = |range| Reader(BatchOrigin::Memory(range, self.stop.clone()));
        Ok(ranges.into_iter().map(reader).collect())
    }
}

#[cfg(test)]
mod tests;
