//! Samples in memory: ids as good as random over the table, so that rows miss the caches as they
//! would in a real table.

use tensor::{Lod, Tensor};
use train::Feed;

pub(crate) const N_SLOTS: usize = 26;
pub(crate) const N_DENSE: usize = 13;

pub(crate) struct Samples {
    pub(crate) ids: Vec<i64>,
    pub(crate) dense: Vec<f32>,
    pub(crate) labels: Vec<i64>,
}

impl Samples {
    pub(crate) fn new(n: usize, n_rows: usize) -> Self {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let ids = (0..n * N_SLOTS).map(|_| (next() % n_rows as u64) as i64).collect();
        let dense = (0..n * N_DENSE).map(|_| (next() >> 40) as f32 / (1u64 << 24) as f32).collect();
        let labels = (0..n).map(|_| (next() >> 33) as i64 & 1).collect();
        Self { ids, dense, labels }
    }

    pub(crate) fn len(&self) -> usize {
        self.labels.len()
    }

    /// The feeds of one batch after another, slot by slot as a Fluid program takes them.
    pub(crate) fn feeds(&self, batch: usize) -> Vec<Feed> {
        (0..self.len() / batch).map(|k| self.feed(k * batch, batch)).collect()
    }

    fn feed(&self, at: usize, batch: usize) -> Feed {
        let mut feed = Feed::new();
        for slot in 0..N_SLOTS {
            let ids: Vec<i64> =
                (at..at + batch).map(|row| self.ids[row * N_SLOTS + slot]).collect();
            let mut tensor = Tensor::new([batch, 1], &ids).expect("one id a row");
            tensor.set_lod(Lod::from_lengths(std::iter::repeat_n(1, batch)));
            feed.set(&format!("C{}", slot + 1), tensor);
        }
        let dense = &self.dense[at * N_DENSE..(at + batch) * N_DENSE];
        feed.set("dense_input", Tensor::new([batch, N_DENSE], dense).expect("13 a row"));
        let labels = &self.labels[at..at + batch];
        feed.set("label", Tensor::new([batch, 1], labels).expect("one label a row"));
        feed
    }
}
