//! The parameter server: knows tables and keys, never a program.

mod endpoint;
mod error;
pub mod lines;
pub mod tcp;

pub use endpoint::Endpoint;
pub use error::{Error, Result};
