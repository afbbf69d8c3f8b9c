//! Fluid's recorded jobs with servers: the net, the batches of each trainer, and what came of them.

use serde_json::Value as Json;
use tensor::{Lod, Tensor};
use train::Feed;

use crate::golden::{self, Golden};
use crate::job::Plan;

/// One of them.
#[derive(Debug)]
pub struct RecordedJob {
    /// Its numbers.
    pub golden: Golden,
    /// How it was built.
    pub case: Json,
}

impl RecordedJob {
    /// The job of this name.
    ///
    /// # Panics
    /// If there is none.
    pub fn load(name: &str) -> Self {
        let config = golden::json("config.json");
        let cases = config["ps"].as_array().expect("a list");
        let case = cases.iter().find(|case| case["name"] == name);
        let mut case = case.expect("a job of this name").clone();
        case["net"]["tanh"] = true.into();
        case["net"]["mean"] = true.into();
        Self { golden: Golden::load(&format!("ps_{name}.npz")), case }
    }

    /// A number of it: `servers`, `trainers`, `steps`.
    ///
    /// # Panics
    /// If it does not say.
    pub fn n(&self, key: &str) -> usize {
        self.case[key].as_u64().expect("a number") as usize
    }

    /// A job like it, whose servers begin as Fluid's do.
    pub fn plan(&self) -> Plan {
        let mut plan = Plan::sync(self.n("servers"), self.n("trainers"));
        plan.config.fluid_block_init = true;
        plan
    }

    /// The initial values of parameters, as far as they were recorded.
    pub fn init(&self) -> impl Iterator<Item = (String, Tensor)> {
        let init = self.golden.under("init/");
        init.map(|(name, tensor)| (name.to_string(), tensor.clone()))
    }

    /// The batch of a step.
    pub fn feed(&self, trainer: usize, step: usize) -> Feed {
        let prefix = format!("trainer{trainer}/batch/");
        let names = self.golden.under(&prefix).map(|(name, _)| name.to_string());
        let names: Vec<String> = names.collect();
        names.iter().fold(Feed::new(), |feed, name| {
            let mut batch = self.golden.part(&format!("{prefix}{name}"), step);
            if name.starts_with('C') {
                batch.set_lod(Lod::from_lengths(vec![1; batch.dims()[0]]));
            }
            feed.with(name, batch)
        })
    }
}
