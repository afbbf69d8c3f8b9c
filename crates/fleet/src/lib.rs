//! Who am I, start, stop: roles, strategies, flags, waiting, launching.
//!
//! **Invariant:** the only crate that reads environment variables and starts processes. Functions
//! that read variables take them as a function, so that a test needs no environment.

pub mod access;
pub mod bug;
pub mod engine;
pub mod env;
mod error;
pub mod flags;
mod given;
pub mod launch;
pub mod lifecycle;
pub mod lines;
pub mod logging;
pub mod metrics;
pub mod pipes;
pub mod ready;
mod recovery;
pub mod render;
pub mod role;
mod signals;
pub mod stores;
pub mod strategy;
mod together;
pub mod watching;

pub use engine::{Identity, JobMembers};
pub use error::{Error, Result, ScaleError, SnapshotError, Usage};
pub use flags::Flags;
pub use lifecycle::{Fleet, ServerPrograms};
pub use recovery::Recovery;
pub use role::{Role, RoleKind};
pub use signals::wants_end;
pub use strategy::Strategy;
