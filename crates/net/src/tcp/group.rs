//! The shared state of one trainer's clients.

use std::sync::{Arc, Mutex};

use base::{Endpoint, EvenIfPoisoned};
use wire::{Error, Refusal, Result, SharedMemory};

use crate::access::Access;

/// Called by waiting threads from time to time: whether to stop waiting.
pub type Stops = Arc<dyn Fn() -> bool + Send + Sync>;

/// A process whose loss ends the job, as the first client has learnt of it. Shared by the clients of all
/// servers, so that no thread waits for one server while another client knows of the loss, and so that the
/// first loss is named, not one that followed from it.
#[derive(Clone, Debug, Default)]
pub struct LostProcess(Arc<Mutex<Option<LostKind>>>);

#[derive(Clone, Debug)]
enum LostKind {
    /// A server has said that a trainer is lost.
    Trainer { endpoint: Endpoint, refusal: Refusal },
    /// A server cannot be reached any more.
    Server { endpoint: Endpoint, silent_ms: u64, last: String },
}

impl LostProcess {
    pub(super) fn note_trainer(&self, endpoint: &Endpoint, refusal: &Refusal) {
        self.note(LostKind::Trainer { endpoint: endpoint.clone(), refusal: refusal.clone() });
    }

    /// Other errors are not about a lost server.
    pub(super) fn note_server(&self, error: Error) {
        if let Error::ServerLost { endpoint, silent_ms, last } = error {
            self.note(LostKind::Server { endpoint, silent_ms, last });
        }
    }

    fn note(&self, loss: LostKind) {
        self.0.lock().even_if_poisoned().get_or_insert(loss);
    }

    pub(super) fn check(&self) -> Result<()> {
        let lost = self.0.lock().even_if_poisoned().clone();
        match lost {
            None => Ok(()),
            Some(LostKind::Trainer { endpoint, refusal }) => {
                Err(Error::Refused { endpoint, refusal })
            }
            Some(LostKind::Server { endpoint, silent_ms, last }) => {
                Err(Error::ServerLost { endpoint, silent_ms, last })
            }
        }
    }
}

/// The state that the clients of one trainer share.
#[derive(Clone)]
pub struct ClientGroup {
    /// Waiting threads give up when this returns true.
    pub stops: Stops,
    /// Whether this process was asked to end: then no thread waits for a server that has ended.
    pub ends: Stops,
    /// A lost process that any of the clients has learnt of.
    pub lost: LostProcess,
    /// Memory for tensors that servers of this machine read.
    pub memory: SharedMemory,
    /// The credentials that this process shows to servers, and asks them to show.
    pub access: Access,
}

impl Default for ClientGroup {
    fn default() -> Self {
        Self {
            stops: Arc::new(|| false),
            ends: Arc::new(|| false),
            lost: LostProcess::default(),
            memory: SharedMemory::default(),
            access: Access::default(),
        }
    }
}
