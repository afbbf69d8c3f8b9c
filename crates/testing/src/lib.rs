//! Not shipped: the numbers of the real Fluid, tiny models, and the comparisons tests speak through.
//!
//! **Invariant:** nothing depends on this crate. It may panic: whatever it finds wrong is a failed
//! test.

pub mod close;
pub mod cluster;
pub mod crowd;
pub mod fleets;
pub mod golden;
pub mod job;
pub mod linear;
pub mod models;
pub mod modules;
pub mod nets;
pub mod reference;
pub mod saver;
pub mod session;
pub mod sim;
pub mod soak;
pub mod turns;
