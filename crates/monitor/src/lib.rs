//! The view of a running job: the HTTP server that every process can have, and the collector that asks all
//! of them and shows the answers on one page.
//!
//! **Invariant:** a job never waits for, and never fails because of, this crate.

pub mod http;
pub mod job;
mod kernel;
mod process;
mod text;

pub use process::{ProcessName, ProcessServer, state_json};
pub use text::open_metrics;
