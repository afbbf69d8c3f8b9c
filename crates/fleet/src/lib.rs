//! Roles, strategies, flags, waiting, launching: the place of a process in a job, its start and its
//! end.
//!
//! **Invariant:** the only crate that reads environment variables and starts processes. Functions
//! that read variables take them as a function, so that a test needs no environment.

pub mod access;
pub mod bug;
pub mod engine;
pub mod env;
mod error;
pub mod flags;
mod interpreter;
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
mod safety;
mod script;
mod signals;
pub mod stores;
pub mod strategy;
mod together;
mod tool;
mod trainer_job;
pub mod watching;

pub use engine::{Identity, JobMembers};
pub use error::{Error, Result, ScaleError, SnapshotError, Usage};
pub use flags::Flags;
pub use interpreter::Interpreter;
pub use lifecycle::{Fleet, ServerPrograms};
pub use recovery::Recovery;
pub use role::{Role, RoleKind};
pub use script::ScriptCommand;
pub use signals::{ENDED_EARLY, Signals, UNFINISHED, wants_end};
pub use strategy::Strategy;
pub use trainer_job::job_of_process;
