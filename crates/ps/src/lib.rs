//! The parameter server: knows tables and keys, never a program.

pub mod codec;
mod endpoint;
mod error;
pub mod frame;
mod ids;
pub mod lines;
pub mod link;
pub mod message;
mod refusal;
mod region;
mod room;
pub mod server;
pub mod table;
pub mod tcp;

pub use endpoint::Endpoint;
pub use error::{Error, Missing, Result};
pub use ids::{ConnId, Millis, TrainerId};
pub use refusal::Refusal;
pub use room::Room;
