//! What a user may say about how a program is distributed.

use program::distributed::{BadSwitch, Mode, Split, Switches};

use super::split::MIN_BLOCK_SIZE;
use crate::error::{Error, Result};

/// Fluid's `DistributeTranspilerConfig`, as far as programs depend on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Splits variables into blocks; otherwise each is on one server.
    pub slice_var_up: bool,
    /// Smallest block, in elements.
    pub min_block_size: i64,
    /// Corrects gradients for their staleness (async only).
    pub enable_dc_asgd: bool,
    /// How trainers and servers keep step.
    pub mode: Mode,
    /// Gradients leave the program whole, and are split and queued outside of it.
    pub via_communicator: bool,
    /// Starts the random numbers of every block from the beginning, as Fluid does. Otherwise a
    /// block holds what the whole variable would hold at its place, for any number of servers.
    pub fluid_block_init: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            slice_var_up: true,
            min_block_size: MIN_BLOCK_SIZE,
            enable_dc_asgd: false,
            mode: Mode::default(),
            via_communicator: false,
            fluid_block_init: false,
        }
    }
}

impl Config {
    /// What Fluid's strategy of a mode asks for.
    pub fn of(mode: Mode) -> Self {
        Self { mode, via_communicator: true, ..Self::default() }
    }

    /// This configuration with the mode that Fluid's switches say; `argument` is `sync_mode` as
    /// given to `transpile`.
    pub fn switched(self, switches: &Switches, argument: bool) -> Result<Self> {
        let bad = |bad: BadSwitch| Error::BadConfig {
            field: bad.switch,
            rule: bad.rule,
            actual: bad.actual.to_string(),
        };
        let Split { mode, via_communicator } = Mode::from_fluid(switches, argument).map_err(bad)?;
        Ok(Self { mode, via_communicator, ..self })
    }

    /// Refuses settings that contradict each other.
    pub fn check(&self) -> Result<()> {
        let bad = |field, rule, actual: String| Err(Error::BadConfig { field, rule, actual });
        if self.min_block_size < MIN_BLOCK_SIZE {
            let actual = self.min_block_size.to_string();
            return bad("min_block_size", "must be 8192 or more", actual);
        }
        if self.enable_dc_asgd && !self.mode.updates_on_arrival() {
            let rule = "needs asynchronous training (sync_mode False)";
            return bad("enable_dc_asgd", rule, "True".to_string());
        }
        Ok(())
    }
}

/// A job, and the role of this process in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// This trainer, from 0.
    pub trainer_id: usize,
    /// How many there are.
    pub n_trainers: usize,
    /// The servers, `ip:port`.
    pub endpoints: Vec<String>,
    /// The server this process is, if it is one.
    pub current_endpoint: Option<String>,
}

impl Job {
    /// A job of these servers, `ip:port,ip:port`.
    pub fn new(trainer_id: usize, pservers: &str, n_trainers: usize) -> Self {
        let endpoints = pservers.split(',').map(|endpoint| endpoint.trim().to_string());
        let endpoints = endpoints.filter(|endpoint| !endpoint.is_empty()).collect();
        Self { trainer_id, n_trainers, endpoints, current_endpoint: None }
    }

    /// Refuses impossible numbers.
    pub fn check(&self) -> Result<()> {
        if self.endpoints.is_empty() {
            return Err(Error::NoEndpoints);
        }
        for (at, text) in self.endpoints.iter().enumerate() {
            let parsed = text.parse::<base::Endpoint>();
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
