//! The results of a run: temporaries change places with the caller's old ones, other values are copied.

use tensor::{Tensor, Value};

/// Something that the value of a variable can be handed over to.
pub(crate) trait Fetched: Default {
    /// Takes a value that holds something; false if it is of a kind that does not fit in here.
    fn take(&mut self, value: &mut Value, moves: bool) -> bool;
}

impl Fetched for Tensor {
    fn take(&mut self, value: &mut Value, moves: bool) -> bool {
        match value {
            Value::Tensor(tensor) if moves => std::mem::swap(tensor, self),
            Value::Tensor(tensor) => self.copy_from(tensor),
            Value::Shared(tensor) => self.copy_from(tensor),
            _ => return false,
        }
        true
    }
}

/// A list of tensors may be handed over too.
impl Fetched for Value {
    fn take(&mut self, value: &mut Value, moves: bool) -> bool {
        if let Value::Array(list) = value {
            *self = Value::Array(list.clone());
            return true;
        }
        if !matches!(self, Value::Tensor(_)) {
            *self = Value::Tensor(Tensor::default());
        }
        let Value::Tensor(tensor) = self else { return false };
        tensor.take(value, moves)
    }
}
