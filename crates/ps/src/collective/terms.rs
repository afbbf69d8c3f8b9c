//! What an exchange is: all trainers must say the same.

use std::fmt;

use tensor::{Tensor, Value};

use super::reduce::ReduceOp;

/// What becomes of the values of all trainers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// Everybody gets what they come to.
    AllReduce(ReduceOp),
    /// Everybody gets the value of one trainer.
    Broadcast {
        /// Whose.
        root: u32,
    },
    /// Everybody gets all of them, in the order of ranks.
    AllGather,
    /// Each gets its part, along the first dimension, of what they come to.
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

/// An exchange in words that trainers compare: what, of which variable, of which shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// What becomes of the values.
    pub collective: Collective,
    /// The variable.
    pub var: String,
    /// The group of exchanges that it belongs to (Fluid: `ring_id`).
    pub ring: i64,
}

impl Terms {
    /// The words for this value.
    pub(super) fn words(&self, value: &Value) -> String {
        let Self { collective, var, ring } = self;
        let kind = match value {
            Value::Rows(rows) => {
                format!("rows {} of {}, {}", rows.width(), rows.height, rows.value.dtype())
            }
            other => other.tensor().map_or_else(|| other.kind().to_string(), shape_of),
        };
        format!("{collective} `{var}` ({kind}, ring {ring})")
    }
}

fn shape_of(tensor: &Tensor) -> String {
    format!("{} {:?}", tensor.dtype(), tensor.dims())
}
