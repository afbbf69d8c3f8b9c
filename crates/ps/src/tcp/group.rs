//! What the clients of one trainer have together.

use std::sync::{Arc, Mutex};

use tensor::EvenIfPoisoned;

use crate::access::Access;
use crate::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::refusal::Refusal;
use crate::shm::SharedMemory;

/// Called by waiting threads from time to time: whether to stop waiting.
pub type Stops = Arc<dyn Fn() -> bool + Send + Sync>;

/// What a server said about a lost trainer whose loss ends the job. Shared by the clients of all
/// servers, so that no thread waits for one server while another server knows of the loss.
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

/// What the clients of one trainer share.
#[derive(Clone)]
pub struct ClientGroup {
    /// Waiting threads give up when this returns true.
    pub stops: Stops,
    /// A lost trainer that any of the servers has reported.
    pub lost: LostTrainer,
    /// Memory for tensors that servers of this machine read.
    pub memory: SharedMemory,
    /// What this process shows to servers, and asks them to show.
    pub access: Access,
}

impl Default for ClientGroup {
    fn default() -> Self {
        let (stops, access): (Stops, _) = (Arc::new(|| false), Access::default());
        Self { stops, lost: LostTrainer::default(), memory: SharedMemory::default(), access }
    }
}
