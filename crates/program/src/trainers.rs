//! The requests of ops that exchange values with other trainers, where there are no servers.
//!
//! A program is data and knows no sockets: `c_allreduce_sum`, `c_broadcast` and their like hand their
//! values to what runs the program. `train` answers with connections to the other trainers.

use tensor::Value;
pub use tensor::{Collective, ReduceOp};

use crate::error::Result;

/// An exchange that an op asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The operation on the values.
    pub collective: Collective,
    /// The variable.
    pub var: String,
    /// The group of exchanges that it belongs to.
    pub ring: i64,
}

/// All trainers, and which of them runs the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrainerGroup {
    /// This trainer.
    pub rank: usize,
    /// All, in the order of ranks, as `host:port`.
    pub endpoints: Vec<String>,
    /// How they exchange: the name of the mode.
    pub mode: &'static str,
}

/// How many trainers an op expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// This trainer, if the op says it.
    pub rank: Option<i64>,
    /// How many there are.
    pub n_trainers: i64,
}

/// The other trainers, as ops see them.
pub trait Trainers {
    /// Meets all trainers.
    fn join(&mut self, members: &TrainerGroup) -> Result<()>;

    /// An error unless the trainers that were met are those that an op expects.
    fn check(&mut self, expected: Expected) -> Result<()>;

    /// Exchanges a value and waits for what it comes to. If that fails, the value is what it was.
    fn exchange(&mut self, asked: &Asked, value: &mut Value) -> Result<()>;

    /// Begins to exchange a value; [`Trainers::finish`] gives what it comes to.
    fn begin(&mut self, asked: &Asked, value: Value) -> Result<()>;

    /// The result of the exchange of a variable, or its value as it was if that fails.
    fn finish(&mut self, var: &str, value: &mut Value) -> Result<()>;
}
