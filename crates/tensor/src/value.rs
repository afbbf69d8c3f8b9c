//! What a variable can hold.

use crate::{Rows, Tensor};

/// The contents of a variable.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// Nothing yet.
    #[default]
    Empty,
    /// Dense numbers.
    Tensor(Tensor),
    /// Keyed rows: a sparse gradient.
    Rows(Rows),
    /// A list of tensors (`LoDTensorArray`).
    Array(Vec<Tensor>),
}

impl Value {
    /// The tensor, if it is one and was written.
    pub fn tensor(&self) -> Option<&Tensor> {
        match self {
            Value::Tensor(tensor) if tensor.is_initialized() => Some(tensor),
            _ => None,
        }
    }

    /// The rows, if they are.
    pub fn rows(&self) -> Option<&Rows> {
        match self {
            Value::Rows(rows) => Some(rows),
            _ => None,
        }
    }

    /// Whether a reader would find nothing.
    pub fn is_empty(&self) -> bool {
        match self {
            Value::Empty => true,
            Value::Tensor(tensor) => !tensor.is_initialized(),
            Value::Rows(_) | Value::Array(_) => false,
        }
    }

    /// A word for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Empty => "nothing",
            Value::Tensor(_) => "a tensor",
            Value::Rows(_) => "selected rows",
            Value::Array(_) => "a tensor array",
        }
    }
}

impl From<Tensor> for Value {
    fn from(tensor: Tensor) -> Self {
        Value::Tensor(tensor)
    }
}

impl From<Rows> for Value {
    fn from(rows: Rows) -> Self {
        Value::Rows(rows)
    }
}
