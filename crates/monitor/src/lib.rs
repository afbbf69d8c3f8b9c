//! What a job does while it runs: the HTTP server that every process can have, and the collector that asks
//! all of them and shows what it finds on one page.
//!
//! **Invariant:** a job never waits for, and never fails because of, what is here.

pub mod http;
pub mod job;
mod kernel;
mod process;
mod text;

pub use process::{ProcessName, ProcessServer, state_json};
pub use text::open_metrics;
