//! The terms of an exchange, which must be equal at all trainers.

use tensor::{Collective, Tensor, Value};

/// An exchange in words that trainers compare: what, of which variable, of which shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The operation on the values.
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
