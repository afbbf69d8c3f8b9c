//! `pull`: the current values of variables.

use std::sync::Arc;

use tensor::Value;

use super::Body;
use crate::codec::{Blobs, Reader, Writer, value_blobs};
use crate::error::Result;
use crate::ids::VarId;

/// The most rows in an answer about changes, so that a server holds few of them at a time.
pub const CHANGED_MAX: usize = 1 << 13;

/// Answered by [`Values`], in the order of `vars`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pull {
    /// Answered when this many rounds have been applied.
    pub after: u64,
    /// Only the rows that changed since this trainer asked last (GEO), at most [`CHANGED_MAX`] of
    /// them. A trainer that gets that many asks again.
    pub changed: bool,
    /// The variables.
    pub vars: Vec<VarId>,
}

impl Pull {
    /// Whole variables, when `after` rounds have been applied.
    pub fn new(after: u64, vars: Vec<VarId>) -> Self {
        Self { after, changed: false, vars }
    }
}

impl Body for Pull {
    fn encode<'a>(&'a self, out: &mut Writer<'a>) {
        out.u64(self.after);
        out.u8(self.changed.into());
        out.count(self.vars.len());
        self.vars.iter().for_each(|var| out.u32(var.0));
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        let after = input.u64()?;
        let changed = input.u8()? != 0;
        let n = input.count()?;
        let vars: Result<Vec<_>> = (0..n).map(|_| input.u32().map(VarId)).collect();
        Ok(Self { after, changed, vars: vars? })
    }
}

/// Values, shared with other answers that have the same contents.
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
        // A value that was just read is not shared yet.
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
        survives(Pull { changed: true, ..Pull::new(3, vec![VarId(0), VarId(u32::MAX)]) });
        let one = Value::Tensor(Tensor::full([3], 2i64));
        answer_survives(Values(vec![Arc::new(one), Arc::new(Value::Empty)]));
    }
}
