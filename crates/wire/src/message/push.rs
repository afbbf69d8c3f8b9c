//! `push`: gradients (or differences) for variables of a server. Numbered, served once.

use tensor::Value;

use super::Body;
use crate::budget::THING_BYTES;
use crate::codec::{Blobs, Reader, Writer, value_blobs};
use crate::error::Result;
use crate::ids::VarId;

/// A gradient, or a difference, and the variable it is for.
#[derive(Clone, Debug, PartialEq)]
pub struct Grad {
    /// The variable.
    pub var: VarId,
    /// A tensor or keyed rows.
    pub value: Value,
}

impl Grad {
    /// Bytes of its memory.
    pub fn n_bytes(&self) -> u64 {
        let n_bytes = match &self.value {
            Value::Rows(rows) => rows.value.bytes().len() + size_of_val(rows.ids.as_slice()),
            value => value.tensor().map_or(0, |tensor| tensor.bytes().len()),
        };
        n_bytes as u64 + THING_BYTES
    }

    /// Whether all its numbers are finite. A value without floats always is.
    pub fn is_finite(&self) -> bool {
        let tensor = match &self.value {
            Value::Tensor(tensor) => tensor,
            Value::Shared(tensor) => tensor,
            Value::Rows(rows) => &rows.value,
            Value::Array(_) | Value::Steps(_) | Value::Keyed(_) | Value::Empty => return true,
        };
        match (tensor.data::<f32>(), tensor.data::<f64>()) {
            (Ok(data), _) => data.iter().all(|x| x.is_finite()),
            (_, Ok(data)) => data.iter().all(|x| x.is_finite()),
            _ => true,
        }
    }
}

/// Answered by an acknowledgement.
#[derive(Clone, Debug, PartialEq)]
pub struct Push {
    /// In the order in which they are applied.
    pub grads: Vec<Grad>,
    /// The number of the sender's own updates that were missing when the gradients were computed.
    pub behind: u64,
}

impl Push {
    /// Gradients that were computed with all of the sender's own updates.
    pub fn new(grads: Vec<Grad>) -> Self {
        Self { grads, behind: 0 }
    }
}

impl Body for Push {
    const IS_CHANGE: bool = true;

    fn encode<'a>(&'a self, out: &mut Writer<'a>) {
        out.u64(self.behind);
        out.count(self.grads.len());
        for grad in &self.grads {
            out.u32(grad.var.0);
            out.value(&grad.value);
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        let (behind, n) = (input.u64()?, input.count()?);
        let grads: Result<Vec<_>> =
            (0..n).map(|_| Ok(Grad { var: VarId(input.u32()?), value: input.value()? })).collect();
        Ok(Self { grads: grads?, behind })
    }

    fn blobs<'a>(&'a mut self, blobs: &mut Blobs<'a>) {
        self.grads.iter_mut().for_each(|grad| value_blobs(&mut grad.value, blobs));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::check::survives;
    use tensor::{Rows, Tensor};

    #[test]
    fn survives_the_wire() {
        let dense = Tensor::new([2, 1], &[1.5f32, -2.0]).unwrap();
        let value = Tensor::new([2, 3], &[1.0f64; 6]).unwrap();
        let rows = Rows { ids: vec![7, i64::MAX], height: 10, value };
        let grad = |var, value| Grad { var: VarId(var), value };
        survives(Push {
            behind: 3,
            ..Push::new(vec![
                grad(0, Value::Tensor(dense)),
                grad(7, Value::Rows(rows)),
                grad(u32::MAX, Value::Empty),
            ])
        });
        survives(Push::new(Vec::new()));
    }
}
