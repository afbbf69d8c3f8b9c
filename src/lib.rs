//! Paddlewheel: training of sparse models, Fluid programs on a Rust core.
//!
//! This package only gathers the crates a Rust user needs under one name: [`program`] to say what
//! to compute, [`train`] to run it, [`tensor`] for the numbers that go in and out, [`fleet`] to do so
//! on several machines, [`predict`] to use the result. The examples beside it are the place to start: `examples/fit_a_line.rs`,
//! `examples/ctr_dnn.rs`, `examples/distributed_ctr.rs`.

pub use fleet;
pub use predict;
pub use program;
pub use tensor;
pub use train;
