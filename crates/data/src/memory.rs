//! All samples in memory, in the order of the files unless they were shuffled.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use metrics::Phase;
use tensor::within_memory;

use crate::batch::Batcher;
use crate::error::{Error, Result};
use crate::feed::Feed;
use crate::files::read_bytes;
use crate::pass::{Before, Pass, Seen, Sink, Skipped};
use crate::position::Position;
use crate::random::{self, Random};
use crate::records::{Records, fields};
use crate::shuffle::{self, Exchange, PIECE_WORDS, ScatterOptions};
use crate::slot::Slot;

/// Samples, and the order in which they are read.
#[derive(Clone, Debug, Default)]
pub(crate) struct SampleMemory {
    pieces: Vec<Arc<Records>>,
    /// Piece and place in it.
    order: Vec<(u32, u32)>,
}

impl SampleMemory {
    pub(crate) fn new(pieces: impl IntoIterator<Item = Records>) -> Self {
        let pieces: Vec<Arc<Records>> = pieces.into_iter().map(Arc::new).collect();
        let places = |(piece, records): (usize, &Arc<Records>)| {
            (0..records.len() as u32).map(move |at| (piece as u32, at))
        };
        let order = pieces.iter().enumerate().flat_map(places).collect();
        Self { pieces, order }
    }

    /// Reads all files with `n_threads` threads. The order is that of the files,
    /// whichever thread read them.
    pub(crate) fn load(pass: &Pass, n_threads: usize) -> Result<Self> {
        let n = n_threads.min(pass.files.paths().len()).max(1);
        let shown = ShownLoad::new(pass);
        let mut loaded = thread::scope(|scope| {
            let threads: Vec<_> = (0..n).map(|_| scope.spawn(|| load_some(pass, &shown))).collect();
            let mut loaded = Vec::new();
            let mut failed = None;
            for thread in threads {
                match thread.join().unwrap_or(Err(Error::ReaderLost)) {
                    Ok(some) => loaded.extend(some),
                    // That others were stopped is the consequence of the error, not the error.
                    Err(Error::Stopped) if failed.is_some() => {}
                    Err(error) => match failed {
                        None | Some(Error::Stopped) => failed = Some(error),
                        Some(_) => {}
                    },
                }
            }
            failed.map_or(Ok(loaded), Err)
        })?;
        loaded.sort_by_key(|(file, _)| *file);
        let memory = Self::new(loaded.into_iter().flat_map(|(_, pieces)| pieces));
        if memory.len() == 0 { Err(pass.no_rows()) } else { Ok(memory) }
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        let pieces: usize = self.pieces.iter().map(|piece| piece.bytes()).sum();
        pieces + size_of_val(self.order.as_slice())
    }

    fn get(&self, at: usize) -> &[u32] {
        let (piece, place) = self.order[at];
        self.pieces[piece as usize].get(place as usize)
    }

    /// A sample as bytes.
    pub(crate) fn write_bytes(&self, at: usize, out: &mut Vec<u8>) {
        let (piece, place) = self.order[at];
        self.pieces[piece as usize].write_bytes(place as usize, out);
    }

    pub(crate) fn shuffle(&mut self, seed: u64, phase: &Phase) {
        random::shuffle_in(&mut self.order, seed, phase);
    }

    /// Exchanges samples with the other trainers: each goes to one of them by chance.
    pub(crate) fn scatter(
        &self,
        exchange: &dyn Exchange,
        slots: &[Slot],
        seed: u64,
        n_round: usize,
    ) -> Result<Self> {
        let mut order = self.order.iter();
        let own = ScatterOptions { seed, n_round: n_round.max(1), n_own: self.len() };
        let received = shuffle::scatter(exchange, slots, own, |give| {
            let Some(&(piece, place)) = order.next() else { return false };
            give(&self.pieces[piece as usize], place as usize);
            true
        })?;
        Ok(Self::new(received))
    }

    /// The same samples, with the values of some slots replaced by those of random other samples.
    /// How much worse a model gets shows what those slots are worth. `n_candidates` samples are
    /// drawn from.
    pub(crate) fn mixed(
        &self,
        slots: &[Slot],
        wanted: &[bool],
        seed: u64,
        n_candidates: usize,
    ) -> Self {
        let mut random = Random::new(seed);
        let mut candidates: Vec<usize> = (0..self.len()).collect();
        random::shuffle(&mut candidates, random.next());
        candidates.truncate(n_candidates.max(1));
        let used: Vec<Slot> = slots.iter().filter(|slot| slot.used).cloned().collect();
        let (mut pieces, mut piece) = (Vec::new(), Records::default());
        for at in 0..self.len() {
            let (own, other) = (self.get(at), candidates[random.below(candidates.len())]);
            piece.begin(0);
            let pairs = fields(own, &used).zip(fields(self.get(other), &used));
            for (((slot, own), (_, other)), &wanted) in pairs.zip(wanted) {
                let values = if wanted { other } else { own };
                piece.push((values.len() / slot.width()) as u32);
                piece.extend(values);
            }
            piece.commit();
            if piece.n_words() > PIECE_WORDS || at + 1 == self.len() {
                piece.shrink();
                pieces.push(std::mem::take(&mut piece));
            }
        }
        Self::new(pieces)
    }

    /// Samples of one name become one: their lists one behind the other, in the order of reading.
    ///
    /// A name that has not `size` samples (0: any number) is dropped, and one whose dense slots do
    /// not agree. Says how many samples were dropped.
    pub(crate) fn merged(&self, slots: &[Slot], size: usize) -> (Self, usize) {
        let key = |place: &(u32, u32)| self.pieces[place.0 as usize].key(place.1 as usize);
        let mut order = self.order.clone();
        order.sort_by_key(key);
        let used: Vec<Slot> = slots.iter().filter(|slot| slot.used).cloned().collect();
        let mut pieces = Vec::new();
        let mut piece = Records::default();
        let mut n_dropped = 0;
        for group in order.chunk_by(|a, b| key(a) == key(b)) {
            let records: Vec<&[u32]> = group
                .iter()
                .map(|&(piece, place)| self.pieces[piece as usize].get(place as usize))
                .collect();
            let sized = size == 0 || records.len() == size;
            if sized && merge(&records, &used, key(&group[0]), &mut piece) {
                piece.commit();
            } else {
                n_dropped += records.len();
            }
            if piece.n_words() > PIECE_WORDS {
                pieces.push(std::mem::take(&mut piece));
            }
        }
        piece.shrink();
        pieces.push(piece);
        (Self::new(pieces), n_dropped)
    }
}

/// Begins a sample made of several; whether they agree on what is dense.
fn merge(records: &[&[u32]], slots: &[Slot], key: u64, out: &mut Records) -> bool {
    out.begin(key);
    let all: Vec<Vec<&[u32]>> = records
        .iter()
        .map(|record| fields(record, slots).map(|(_, values)| values).collect())
        .collect();
    for (at, slot) in slots.iter().enumerate() {
        let first = all[0][at];
        if slot.dense.is_some() {
            if all.iter().any(|values| values[at] != first) {
                return false;
            }
            out.push((first.len() / slot.width()) as u32);
            out.extend(first);
            continue;
        }
        let n_words: usize = all.iter().map(|values| values[at].len()).sum();
        out.push((n_words / slot.width()) as u32);
        all.iter().for_each(|values| out.extend(values[at]));
    }
    true
}

/// Samples between two reports of progress.
const TOLD_EVERY: u64 = 64;

/// The progress of a load, as monitors see it.
struct ShownLoad {
    phase: Phase,
    /// Bytes of all files; 0: not known.
    n_bytes: u64,
    read_before: u64,
}

impl ShownLoad {
    fn new(pass: &Pass) -> Self {
        let phase = Phase::begin("loading", "samples");
        let size = |file: &String| std::fs::metadata(file).map_or(0, |about| about.len());
        let n_bytes = if phase.is_seen() { pass.files.paths().iter().map(size).sum() } else { 0 };
        Self { phase, n_bytes, read_before: read_bytes() }
    }

    /// So many more samples.
    fn add(&self, n: u64) {
        self.phase.add(n);
        if self.n_bytes > 0 {
            let n_read = read_bytes().saturating_sub(self.read_before);
            self.phase.set_share((n_read as f64 / self.n_bytes as f64).min(1.0));
        }
    }
}

fn load_some(pass: &Pass, shown: &ShownLoad) -> Result<Vec<(usize, Vec<Records>)>> {
    let loaded = within_memory(|| load_files(pass, shown)).unwrap_or_else(|error| {
        let n_bytes = if let tensor::Error::NoMemory { n_bytes } = error { n_bytes } else { 0 };
        Err(Error::NoMemory { what: "the samples of the dataset", n_bytes })
    });
    if loaded.is_err() {
        pass.stop();
    }
    loaded
}

fn load_files(pass: &Pass, shown: &ShownLoad) -> Result<Vec<(usize, Vec<Records>)>> {
    let mut parser = pass.parser()?;
    let slots = pass.settings.slots.iter();
    let used: Vec<Slot> = slots.filter(|slot| slot.used).cloned().collect();
    let mut loaded = Vec::new();
    while let Some((at, file)) = pass.files.take() {
        let (mut pieces, mut records) = (Vec::new(), Records::default());
        let mut n_untold = 0;
        let mut taken = |records: &mut Records, _: Seen<'_>| {
            // As Fluid's MultiSlotInMemoryDataFeed, and unlike what it does with a queue.
            records.drop_zeros(&used);
            n_untold += 1;
            if n_untold == TOLD_EVERY {
                shown.add(std::mem::take(&mut n_untold));
            }
            if records.n_words() > PIECE_WORDS {
                records.shrink();
                pieces.push(std::mem::take(records));
            }
            Ok(())
        };
        let (parser, skipped) = (&mut parser, &mut Skipped::default());
        let (records_mut, taken) = (&mut records, &mut taken);
        let before = Before::default();
        pass.read(file, &mut Sink { parser, records: records_mut, before, skipped, taken })?;
        shown.add(n_untold);
        records.shrink();
        pieces.push(records);
        let n_rows: usize = pieces.iter().map(Records::len).sum();
        tracing::debug!(target: "paddlewheel::data", file, n_rows, "a file is loaded");
        pass.n_rows.fetch_add(n_rows as u64, Ordering::Relaxed);
        loaded.push((at, pieces));
    }
    Ok(loaded)
}

/// Batches of a range of samples.
pub(crate) struct Range {
    memory: Arc<SampleMemory>,
    /// The next sample, and the lines that were left out before it.
    position: Position,
    end: usize,
    batch_size: usize,
    batcher: Batcher,
    used: Vec<Feed>,
}

/// Splits the samples into `n` ranges; the first ones are longer by one if they must be.
pub(crate) fn ranges(
    memory: &Arc<SampleMemory>,
    n: usize,
    batch_size: usize,
    slots: &[Slot],
) -> Vec<Range> {
    let (each, extra) = (memory.len() / n, memory.len() % n);
    let mut next = 0;
    let mut range = |at: usize| {
        let position = Position { at: next as u64, ..Position::default() };
        next += each + usize::from(at < extra);
        let memory = memory.clone();
        let batcher = Batcher::new(slots);
        let used = Vec::new();
        Range { memory, position, end: next, batch_size, batcher, used }
    };
    (0..n).map(&mut range).collect()
}

impl Range {
    pub(crate) fn next(&mut self) -> Result<Option<Feed>> {
        let next = self.position.at as usize;
        let end = self.end.min(next + self.batch_size);
        if next == end {
            return Ok(None);
        }
        let records: Vec<&[u32]> = (next..end).map(|at| self.memory.get(at)).collect();
        let mut batch = self.used.pop().unwrap_or_default();
        self.batcher.fill(&records, &mut batch)?;
        self.position.at = end as u64;
        self.position.n_batches += 1;
        self.position.n_samples += (end - next) as u64;
        Ok(Some(batch))
    }

    pub(crate) fn position(&self) -> &Position {
        &self.position
    }

    /// Continues behind a position; returns whether it is in this range.
    pub(crate) fn begin_at(&mut self, position: &Position) -> bool {
        let is_here = (self.position.at..=self.end as u64).contains(&position.at);
        if is_here {
            self.position = position.clone();
        }
        is_here
    }

    pub(crate) fn recycle(&mut self, batch: Feed) {
        if self.used.len() < 2 {
            self.used.push(batch);
        }
    }
}
