//! Operations on the values of several trainers, where there are no servers.

use std::fmt;

/// The reduction of numbers at the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceOp {
    /// Their sum.
    Sum,
    /// Their product.
    Product,
    /// The largest.
    Max,
    /// The smallest.
    Min,
}

impl fmt::Display for ReduceOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReduceOp::Sum => "sum",
            ReduceOp::Product => "product",
            ReduceOp::Max => "maximum",
            ReduceOp::Min => "minimum",
        })
    }
}

/// An operation on the values of all trainers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// All get the reduced value; of keyed rows, the rows of all.
    AllReduce(ReduceOp),
    /// All get the value of one trainer.
    Broadcast {
        /// Whose.
        root: u32,
    },
    /// All get all of them, in the order of ranks.
    AllGather,
    /// Each gets its part, along the first dimension, of the reduced value.
    ReduceScatter(ReduceOp),
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Collective::AllReduce(reduction) => write!(f, "{reduction} of"),
            Collective::Broadcast { root } => write!(f, "value of trainer {root} of"),
            Collective::AllGather => write!(f, "all of"),
            Collective::ReduceScatter(reduction) => write!(f, "parts of the {reduction} of"),
        }
    }
}
