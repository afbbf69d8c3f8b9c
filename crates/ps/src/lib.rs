//! The parameter server: knows tables and keys, never a program.

pub mod access;
mod budget;
mod chunks;
pub mod codec;
pub mod collective;
pub mod counters;
mod error;
mod failure;
pub mod frame;
mod hot_keys;
mod ids;
pub mod lines;
pub mod link;
pub mod message;
pub mod recovery;
mod refusal;
pub mod rendezvous;
pub mod server;
pub mod shm;
pub mod tcp;
mod tls_failure;
mod unproved;

pub use access::{Access, Secret};
pub use chunks::Chunks;
pub use error::{Error, Interruption, Missing, Result};
pub use ids::{ConnId, Millis, TrainerId, VarId};
pub use refusal::Refusal;
pub use shm::SharedMemory;
pub use tls_failure::{CertificateFault, TlsFailure};
