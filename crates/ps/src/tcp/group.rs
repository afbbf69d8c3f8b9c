//! What the clients of one trainer have together.

use std::sync::{Arc, Mutex};

use tensor::EvenIfPoisoned;

use crate::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::refusal::Refusal;
use crate::shm::SharedMemory;

/// Asked now and then by threads that wait, whether to stop waiting.
pub type Stops = Arc<dyn Fn() -> bool + Send + Sync>;

/// What a server said of a trainer whose loss ends the job: for the clients of all servers, so that
/// nobody waits for one server while another knows better.
#[derive(Clone, Debug, Default)]
pub struct LostTrainer(Arc<Mutex<Option<(Endpoint, Refusal)>>>);

impl LostTrainer {
    pub(super) fn note(&self, endpoint: &Endpoint, refusal: &Refusal) {
        let mut lost = self.0.lock().even_if_poisoned();
        lost.get_or_insert_with(|| (endpoint.clone(), refusal.clone()));
    }

    pub(super) fn check(&self) -> Result<()> {
        let lost = self.0.lock().even_if_poisoned().clone();
        lost.map_or(Ok(()), |(endpoint, refusal)| Err(Error::Refused { endpoint, refusal }))
    }
}

/// What the clients of one trainer have together.
#[derive(Clone)]
pub struct ClientGroup {
    /// Threads that wait give up when this says so.
    pub stops: Stops,
    /// What one server knows, the clients of the others hear of.
    pub lost: LostTrainer,
    /// Where tensors lie that servers of this machine read.
    pub memory: SharedMemory,
}

impl Default for ClientGroup {
    fn default() -> Self {
        let stops: Stops = Arc::new(|| false);
        Self { stops, lost: LostTrainer::default(), memory: SharedMemory::default() }
    }
}
