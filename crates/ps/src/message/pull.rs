//! `pull`: the current values of variables.

use std::sync::Arc;

use tensor::Value;

use super::Body;
use crate::codec::{Blobs, Reader, Writer, value_blobs};
use crate::error::Result;

/// Rows in an answer about changes: what a server holds of them at a time.
pub const CHANGED_MAX: usize = 1 << 13;

/// Answered by [`Values`], in the order of `names`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pull {
    /// Answered when this many rounds have been applied.
    pub after: u64,
    /// Only the rows that somebody changed since this trainer asked last (GEO), at most
    /// [`CHANGED_MAX`] of them: who gets as many asks again.
    pub changed: bool,
    /// The variables.
    pub names: Vec<String>,
}

impl Body for Pull {
    fn encode<'a>(&'a self, out: &mut Writer<'a>) {
        out.u64(self.after);
        out.u8(self.changed.into());
        out.count(self.names.len());
        for name in &self.names {
            out.str(name);
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        let (after, changed, n) = (input.u64()?, input.u8()? != 0, input.count()?);
        let names: Result<Vec<_>> = (0..n).map(|_| input.str()).collect();
        Ok(Self { after, changed, names: names? })
    }
}

/// Values, shared with other answers that say the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Values(pub Vec<Arc<Value>>);

impl Body for Values {
    fn encode<'a>(&'a self, out: &mut Writer<'a>) {
        out.count(self.0.len());
        for value in &self.0 {
            out.value(value);
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        let n = input.count()?;
        let values: Result<Vec<_>> = (0..n).map(|_| input.value().map(Arc::new)).collect();
        values.map(Self)
    }

    fn blobs<'a>(&'a mut self, blobs: &mut Blobs<'a>) {
        // What was just read nobody shares yet.
        let values = self.0.iter_mut().filter_map(Arc::get_mut);
        values.for_each(|value| value_blobs(value, blobs));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::check::{answer_survives, survives};
    use tensor::Tensor;

    #[test]
    fn survives_the_wire() {
        let names = vec!["a".to_string(), "b.block1".to_string()];
        survives(Pull { after: 3, changed: true, names });
        let one = Value::Tensor(Tensor::full([3], 2i64));
        answer_survives(Values(vec![Arc::new(one), Arc::new(Value::Empty)]));
    }
}
