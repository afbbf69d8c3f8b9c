//! Rows of an encoded table, as feeds.

use data::{DataFrame, Feed};
use tensor::{Shape, Tensor, mix};

use crate::encode::{Encoded, Encoding};
use crate::error::Result;

/// Feeds rows of an encoded table; memory is used again.
pub(crate) struct Batches<'a> {
    encoded: &'a Encoded,
    labels: Option<Labels<'a>>,
    names: Vec<String>,
    numbers: Option<String>,
    feed: Feed,
}

/// The target, and the variable it goes to.
pub(crate) struct Labels<'a> {
    pub(crate) name: &'a str,
    pub(crate) values: &'a [f32],
}

impl<'a> Batches<'a> {
    pub(crate) fn new(
        encoding: &Encoding,
        encoded: &'a Encoded,
        labels: Option<Labels<'a>>,
    ) -> Self {
        let names: Vec<String> =
            encoding.categories().map(|feature| feature.name.clone()).collect();
        let numbers = (encoding.n_numbers() > 0).then(|| encoding.numbers_name());
        let mut feed = Feed::new();
        let label = labels.as_ref().map(|labels| labels.name);
        let all = names.iter().chain(&numbers).map(String::as_str).chain(label);
        all.for_each(|name| feed.set(name, Tensor::default()));
        Self { encoded, labels, names, numbers, feed }
    }

    /// The feed of these rows.
    pub(crate) fn of(&mut self, rows: &[usize]) -> Result<&mut Feed> {
        let one = Shape::from([rows.len(), 1]);
        for (name, ids) in self.names.iter().zip(&self.encoded.ids) {
            let tensor = self.feed.get_mut(name).expect("laid out in new");
            let out = tensor.try_resize::<i64>(one)?;
            out.iter_mut().zip(rows).for_each(|(out, &row)| *out = ids[row]);
        }
        if let Some(name) = &self.numbers {
            let width = self.encoded.numbers.len() / self.encoded.n_rows.max(1);
            let tensor = self.feed.get_mut(name).expect("laid out in new");
            let out = tensor.try_resize::<f32>(Shape::from([rows.len(), width]))?;
            for (out, &row) in out.chunks_exact_mut(width).zip(rows) {
                out.copy_from_slice(&self.encoded.numbers[row * width..][..width]);
            }
        }
        if let Some(Labels { name, values }) = &self.labels {
            let tensor = self.feed.get_mut(name).expect("laid out in new");
            let out = tensor.try_resize::<f32>(one)?;
            out.iter_mut().zip(rows).for_each(|(out, &row)| *out = values[row]);
        }
        Ok(&mut self.feed)
    }
}

impl Encoding {
    /// A table as the program is fed it, all rows at once. The target may be there and is not read.
    pub fn feed(&self, frame: &DataFrame) -> Result<Feed> {
        let encoded = self.apply(frame)?;
        let rows: Vec<usize> = (0..encoded.n_rows).collect();
        let mut batches = Batches::new(self, &encoded, None);
        batches.of(&rows)?;
        Ok(batches.feed)
    }
}

/// Puts rows in an order that depends on the seed alone.
pub(crate) fn shuffle(rows: &mut [usize], seed: u64) {
    let mut state = mix(seed);
    for at in (1..rows.len()).rev() {
        state = state.wrapping_add(1);
        rows.swap(at, (mix(state) % (at as u64 + 1)) as usize);
    }
}

/// This worker's part of the rows. All parts are equally long, so that workers take equally many
/// steps: a row more of some is a row twice of others.
pub(crate) fn share(rows: &[usize], worker: usize, n_workers: usize) -> Vec<usize> {
    let each = rows.len().div_ceil(n_workers);
    (0..each).map(|at| rows[(at * n_workers + worker) % rows.len()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_get_all_rows_in_equal_parts() {
        let rows: Vec<usize> = (0..10).collect();
        let parts: Vec<Vec<usize>> = (0..3).map(|worker| share(&rows, worker, 3)).collect();
        assert!(parts.iter().all(|part| part.len() == 4));
        let mut all: Vec<usize> = parts.concat();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all, rows);
    }

    #[test]
    fn an_order_depends_on_the_seed() {
        let order = |seed| {
            let mut rows: Vec<usize> = (0..100).collect();
            shuffle(&mut rows, seed);
            rows
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        let mut sorted = order(3);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<_>>());
    }
}
