//! What a user may say about how a program is distributed.

use super::split::MIN_BLOCK_SIZE;
use crate::error::{Error, Result};

/// Fluid's `DistributeTranspilerConfig`, as far as programs depend on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Cuts variables into blocks; otherwise each is on one server.
    pub slice_var_up: bool,
    /// Smallest block, in elements.
    pub min_block_size: i64,
    /// Corrects gradients for how old they are (async only).
    pub enable_dc_asgd: bool,
    /// Gradients pass through queues in the background.
    pub runtime_split_send_recv: bool,
    /// Trainers wait for each other.
    pub sync_mode: bool,
    /// The threads of a trainer wait for each other.
    pub half_async: bool,
    /// With `half_async`: trainers wait for each other as well.
    pub completely_not_async: bool,
    /// Trainers train alone and exchange differences.
    pub geo_sgd_mode: bool,
    /// Batches between two exchanges.
    pub geo_sgd_need_push_nums: u32,
    /// Starts the random numbers of every block anew, as Fluid does. Without it a block holds what
    /// the whole variable would hold at its place, however many servers there are.
    pub fluid_block_init: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            slice_var_up: true,
            min_block_size: MIN_BLOCK_SIZE,
            enable_dc_asgd: false,
            runtime_split_send_recv: false,
            sync_mode: true,
            half_async: false,
            completely_not_async: false,
            geo_sgd_mode: false,
            geo_sgd_need_push_nums: 100,
            fluid_block_init: false,
        }
    }
}

impl Config {
    /// Refuses what cannot be.
    pub fn check(&self) -> Result<()> {
        let bad = |field, rule, actual: String| Err(Error::BadConfig { field, rule, actual });
        if self.min_block_size < MIN_BLOCK_SIZE {
            let actual = self.min_block_size.to_string();
            return bad("min_block_size", "must be 8192 or more", actual);
        }
        if self.geo_sgd_mode && self.geo_sgd_need_push_nums == 0 {
            return bad("geo_sgd_need_push_nums", "must be 1 or more", "0".to_string());
        }
        if self.runtime_split_send_recv && self.sync_mode {
            let rule = "needs sync_mode to be False; set that first";
            return bad("runtime_split_send_recv", rule, "True".to_string());
        }
        if self.completely_not_async && !self.half_async {
            let rule = "is a kind of half_async; set that too";
            return bad("completely_not_async", rule, "True".to_string());
        }
        Ok(())
    }
}

/// The job: who this process is and who else there is.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// This trainer, from 0.
    pub trainer_id: usize,
    /// How many there are.
    pub n_trainers: usize,
    /// The servers, `ip:port`.
    pub endpoints: Vec<String>,
    /// The argument of `transpile`; asynchronous if either this or the configuration says so.
    pub sync_mode: bool,
    /// The server this process is, if it is one.
    pub current_endpoint: Option<String>,
}

impl Job {
    /// A synchronous job of these servers, `ip:port,ip:port`.
    pub fn new(trainer_id: usize, pservers: &str, n_trainers: usize) -> Self {
        let endpoints = pservers.split(',').map(|endpoint| endpoint.trim().to_string());
        let endpoints = endpoints.filter(|endpoint| !endpoint.is_empty()).collect();
        Self { trainer_id, n_trainers, endpoints, sync_mode: true, current_endpoint: None }
    }

    /// Refuses what cannot be.
    pub fn check(&self) -> Result<()> {
        if self.endpoints.is_empty() {
            return Err(Error::NoEndpoints);
        }
        for (at, text) in self.endpoints.iter().enumerate() {
            let parsed = text.parse::<ps::Endpoint>();
            parsed.map_err(|source| Error::Endpoint { text: text.clone(), source })?;
            if self.endpoints[..at].contains(text) {
                return Err(Error::EndpointTwice { endpoint: text.clone() });
            }
        }
        let (trainer_id, n_trainers) = (self.trainer_id, self.n_trainers);
        if n_trainers == 0 || trainer_id >= n_trainers {
            return Err(Error::TrainerId { trainer_id, n_trainers });
        }
        Ok(())
    }
}
