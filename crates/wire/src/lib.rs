//! The bytes between the processes of a job: messages, frames, the memory that processes of one machine share, and the
//! errors that both ends tell each other.
//!
//! **Invariant:** bytes and values only. No socket is opened, and nothing here decides what a message does.

pub mod budget;
pub mod codec;
pub mod counters;
mod error;
mod failure;
pub mod frame;
mod ids;
pub mod message;
pub mod recovery;
mod refusal;
pub mod shm;
mod tls_failure;
pub mod unproved;

pub use error::{Error, Interruption, Missing, Result, trainers_have};
pub use failure::Failure;
pub use ids::{ConnId, Millis, TrainerId, VarId};
pub use refusal::Refusal;
pub use shm::SharedMemory;
pub use tls_failure::{CertificateFault, TlsFailure};
