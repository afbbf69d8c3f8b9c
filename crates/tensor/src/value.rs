//! The values of variables.

use std::sync::Arc;

use crate::{KeyedTable, Rows, Tensor};

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
    /// What the variables of a block held after each of its runs (`step_scopes`).
    Steps(Vec<Vec<Value>>),
    /// Dense numbers that several hold at the same time, and therefore only read.
    Shared(Arc<Tensor>),
    /// A table of which only some rows exist. It is only read.
    Keyed(Arc<KeyedTable>),
}

impl Value {
    /// The tensor, if it is one and was written.
    pub fn tensor(&self) -> Option<&Tensor> {
        match self {
            Value::Tensor(tensor) if tensor.is_initialized() => Some(tensor),
            Value::Shared(tensor) if tensor.is_initialized() => Some(tensor),
            _ => None,
        }
    }

    /// Lets others read the tensor too, until [`Value::unshare`]; `None` if it is not a tensor.
    pub fn share(&mut self) -> Option<Arc<Tensor>> {
        if let Value::Tensor(tensor) = self {
            *self = Value::Shared(Arc::new(std::mem::take(tensor)));
        }
        match self {
            Value::Shared(tensor) => Some(tensor.clone()),
            _ => None,
        }
    }

    /// Makes the tensor this variable's own again; it is copied if others still hold it.
    pub fn unshare(&mut self) {
        if let Value::Shared(tensor) = self {
            let tensor = Arc::try_unwrap(std::mem::take(tensor));
            *self = Value::Tensor(tensor.unwrap_or_else(|held| Tensor::clone(&held)));
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
            Value::Shared(tensor) => !tensor.is_initialized(),
            Value::Rows(_) | Value::Array(_) | Value::Steps(_) | Value::Keyed(_) => false,
        }
    }

    /// A word for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Empty => "nothing",
            Value::Tensor(_) | Value::Shared(_) => "a tensor",
            Value::Rows(_) => "selected rows",
            Value::Array(_) => "a tensor array",
            Value::Steps(_) => "the steps of a loop",
            Value::Keyed(_) => "a table kept by rows, which can only be looked up",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_tensor_is_read_by_all_and_comes_back() {
        let mut value = Value::from(Tensor::full([2], 1.5f32));
        let other = Value::Shared(value.share().unwrap());
        assert_eq!(other.tensor(), value.tensor());
        drop(other);
        value.unshare();
        assert_eq!(value, Value::from(Tensor::full([2], 1.5f32)));
        assert_eq!(Value::Empty.share(), None);
    }

    #[test]
    fn a_tensor_that_others_still_hold_is_copied() {
        let mut value = Value::from(Tensor::full([2], 1.5f32));
        let held = value.share().unwrap();
        value.unshare();
        assert_eq!(value.tensor(), Some(&*held));
    }
}
