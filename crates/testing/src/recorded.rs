//! Jobs with servers that the real Fluid ran, as they were recorded; and batches of a net with a sparse table.

use serde_json::Value as Json;
use tensor::{Lod, Tensor};
use train::Feed;

use crate::close::{Tolerance, assert_close};
use crate::golden::{self, Golden};

/// A job that the real Fluid ran.
#[derive(Debug)]
pub struct RecordedJob {
    /// What it had and what came of it.
    pub golden: Golden,
    /// What it was.
    pub case: Json,
}

impl RecordedJob {
    /// The job of this name.
    pub fn load(name: &str) -> Self {
        let golden = Golden::load(&format!("ps_{name}.npz"));
        let config = golden::json("config.json");
        let mut cases = config["ps"].as_array().into_iter().flatten();
        let case = cases.find(|case| case["name"] == name).cloned();
        let mut case = case.unwrap_or_else(|| panic!("no job `{name}` was recorded"));
        case["net"]["tanh"] = true.into();
        case["net"]["mean"] = true.into();
        Self { golden, case }
    }

    /// A number of the case.
    pub fn n(&self, key: &str) -> usize {
        self.case[key].as_u64().unwrap_or_else(|| panic!("`{key}` is no number")) as usize
    }

    /// What variables began with.
    pub fn init(&self) -> impl Iterator<Item = (String, Tensor)> {
        self.golden.under("init/").map(|(name, tensor)| (name.to_string(), tensor.clone()))
    }

    /// A batch of a trainer.
    pub fn feed(&self, trainer: usize, step: usize) -> Feed {
        let prefix = format!("trainer{trainer}/batch/");
        let names: Vec<String> =
            self.golden.under(&prefix).map(|(name, _)| name.to_string()).collect();
        names.iter().fold(Feed::new(), |feed, name| {
            let mut batch = self.golden.part(&format!("{prefix}{name}"), step);
            if name.starts_with('C') {
                batch.set_lod(Lod::from_lengths(vec![1; batch.dims()[0]]));
            }
            feed.with(name, batch)
        })
    }

    /// Compares the losses of a trainer.
    #[track_caller]
    pub fn assert_losses(&self, trainer: usize, losses: &[f64]) {
        let key = format!("trainer{trainer}/losses");
        assert_close(&key, losses, &self.golden.numbers(&key), Tolerance::of(1e-5));
    }
}

/// A batch for a net with a table of 10001 rows and three slots; `n_ids` is how many ids a slot has.
pub fn sparse_feed(trainer: usize, step: usize, n_ids: impl Fn(i64) -> i64) -> Feed {
    let n = 8;
    let at = |k: usize, row: usize| (trainer * 7919 + step * 104_729 + row * 31 + k * 5) as i64;
    let column =
        |numbers: Vec<i64>| Tensor::new([n, 1], &numbers).unwrap_or_else(|error| panic!("{error}"));
    let mut feed = Feed::new();
    for k in 0..3 {
        let ids = (0..n).map(|row| at(k, row) * 2503 % 10001 % n_ids(k as i64)).collect();
        let mut ids = column(ids);
        ids.set_lod(Lod::from_lengths(vec![1; n]));
        feed = feed.with(&format!("C{}", k + 1), ids);
    }
    feed.with("label", column((0..n).map(|row| at(0, row) / 3 % 2).collect()))
}
