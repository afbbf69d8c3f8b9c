//! Another order of samples, here or among all trainers; always the same for the same seed.

use metrics::Phase;

use crate::error::{Error, ExchangeError, Result};
use crate::random::{mix, shuffle};
use crate::records::Records;
use crate::slot::Slot;

/// How trainers exchange; the code that connects them implements it.
pub trait Exchange {
    /// Which trainer this is.
    fn rank(&self) -> usize;

    /// How many there are.
    fn n_trainers(&self) -> usize;

    /// Gives `parts[i]` to trainer `i` and returns the parts that this one got, by rank.
    ///
    /// All trainers call it equally often and for the same purpose; it returns when all have.
    fn all_to_all(
        &self,
        purpose: &str,
        parts: Vec<Vec<u8>>,
    ) -> std::result::Result<Vec<Vec<u8>>, ExchangeError>;
}

/// Exchanges, and checks that every trainer gave something.
fn all_to_all(exchange: &dyn Exchange, purpose: &str, parts: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
    let got = exchange.all_to_all(purpose, parts).map_err(|source| Error::Exchange { source })?;
    if got.len() != exchange.n_trainers() {
        let text = format!("{} parts of {} trainers", got.len(), exchange.n_trainers());
        return Err(Error::Exchange { source: text.into() });
    }
    Ok(got)
}

/// The sum of a number over all trainers.
pub(crate) fn sum(exchange: &dyn Exchange, purpose: &str, number: u64) -> Result<u64> {
    let parts = vec![number.to_le_bytes().to_vec(); exchange.n_trainers()];
    let mut sum = 0;
    for (from, part) in all_to_all(exchange, purpose, parts)?.into_iter().enumerate() {
        let part = part.try_into().map_err(|_| Error::ForeignSamples { from })?;
        sum += u64::from_le_bytes(part);
    }
    Ok(sum)
}

/// Says that this trainer has more to give than this part; so all know when all are done.
const MORE: u8 = 1;
/// Bytes after which a round ends, whatever its number of samples.
const ROUND_BYTES: usize = 16 << 20;
/// Words of a piece; a new one begins behind it, so that growing never copies all.
pub(crate) const PIECE_WORDS: usize = 4 << 20;

/// How samples are sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScatterOptions {
    /// Decides which trainer gets which sample. The seed of the first trainer is used.
    pub(crate) seed: u64,
    /// Samples of a round: no more than a round lies about twice.
    pub(crate) n_round: usize,
    /// How many samples there are here.
    pub(crate) n_own: usize,
}

/// Decides which trainer gets which sample. Samples are counted over all trainers. Of every group
/// of n samples, with n trainers, each trainer gets one. So shares differ by at most one.
struct Assigner {
    seed: u64,
    /// Samples before the next one.
    n_assigned: usize,
    /// The trainers that get the samples of the current group.
    order: Vec<usize>,
}

impl Assigner {
    /// Trainers tell each other how much they have.
    fn new(exchange: &dyn Exchange, own: &ScatterOptions) -> Result<Self> {
        let n_trainers = exchange.n_trainers();
        let part = [own.seed.to_le_bytes(), (own.n_own as u64).to_le_bytes()].concat();
        let (mut seed, mut n_before) = (0, 0);
        let all = all_to_all(exchange, "shuffle", vec![part; n_trainers])?;
        for (from, part) in all.into_iter().enumerate() {
            let (&[theirs, n], []) = part.as_chunks::<8>() else {
                return Err(Error::ForeignSamples { from });
            };
            if from == 0 {
                seed = u64::from_le_bytes(theirs);
            }
            if from < exchange.rank() {
                n_before += u64::from_le_bytes(n) as usize;
            }
        }
        let mut assigner = Self { seed, n_assigned: n_before, order: (0..n_trainers).collect() };
        assigner.shuffle();
        Ok(assigner)
    }

    fn shuffle(&mut self) {
        let group = self.n_assigned / self.order.len();
        self.order.sort_unstable();
        shuffle(&mut self.order, mix(self.seed ^ mix(group as u64)));
    }

    fn next(&mut self) -> usize {
        let place = self.n_assigned % self.order.len();
        if place == 0 {
            self.shuffle();
        }
        self.n_assigned += 1;
        self.order[place]
    }
}

/// Sends each sample to a random trainer and returns those that came here, in an order that depends
/// on nothing but what was sent. `next` takes samples out one after the other.
pub(crate) fn scatter(
    exchange: &dyn Exchange,
    slots: &[Slot],
    own: ScatterOptions,
    mut next: impl FnMut(&mut dyn FnMut(&Records, usize)) -> bool,
) -> Result<Vec<Records>> {
    let n_trainers = exchange.n_trainers();
    let mut assigner = Assigner::new(exchange, &own)?;
    let mut receiver = |records: &Records, at| match records.key(at) {
        0 => assigner.next(),
        // Samples of one name meet at one trainer, where they can be merged.
        key => (mix(key) % n_trainers as u64) as usize,
    };
    let mut received = Received::default();
    let phase = Phase::begin("shuffling", "samples");
    phase.set_total(own.n_own as u64);
    loop {
        let mut parts = vec![vec![0]; n_trainers];
        let mut more = true;
        let mut n_samples = 0;
        let mut n_bytes = 0;
        while more && n_samples < own.n_round && n_bytes < ROUND_BYTES {
            more = next(&mut |records, at| {
                let part = &mut parts[receiver(records, at)];
                let before = part.len();
                records.write_bytes(at, part);
                n_bytes += part.len() - before;
            });
            n_samples += 1;
        }
        phase.add(n_samples as u64 - u64::from(!more));
        parts.iter_mut().for_each(|part| part[0] = if more { MORE } else { 0 });
        let mut anybody = false;
        for (from, part) in all_to_all(exchange, "shuffle", parts)?.into_iter().enumerate() {
            let (&flag, bytes) = part.split_first().ok_or(Error::ForeignSamples { from })?;
            anybody |= flag == MORE;
            received.add(bytes, slots).ok_or(Error::ForeignSamples { from })?;
        }
        if !anybody {
            return Ok(received.finish());
        }
    }
}

/// Samples that came, in pieces.
#[derive(Default)]
struct Received {
    pieces: Vec<Records>,
    piece: Records,
}

impl Received {
    fn add(&mut self, bytes: &[u8], slots: &[Slot]) -> Option<()> {
        self.piece.read_bytes(bytes, slots)?;
        if self.piece.n_words() > PIECE_WORDS {
            self.close();
        }
        Some(())
    }

    fn close(&mut self) {
        self.piece.shrink();
        self.pieces.push(std::mem::take(&mut self.piece));
    }

    fn finish(mut self) -> Vec<Records> {
        if !self.piece.is_empty() {
            self.close();
        }
        self.pieces
    }
}
