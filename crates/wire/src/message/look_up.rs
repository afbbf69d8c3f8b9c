//! `look_up`: the rows of a table for a list of keys.

use super::Body;
use crate::codec::{Blobs, Reader, Writer, keys_blob};
use crate::error::Result;
use crate::ids::VarId;

/// Answered by a tensor with a row for each key, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookUp {
    /// Answered when this many rounds have been applied.
    pub after: u64,
    /// The table, or a block of one.
    pub table: VarId,
    /// Rows, counted from the first of the block.
    pub keys: Vec<i64>,
    /// Rows that do not exist yet read as zeros and are not made.
    pub peek: bool,
}

impl LookUp {
    /// Asks for rows of a table after `after` rounds. Rows that do not exist are created.
    pub fn new(after: u64, table: VarId, keys: Vec<i64>) -> Self {
        Self { after, table, keys, peek: false }
    }
}

impl Body for LookUp {
    fn encode<'a>(&'a self, out: &mut Writer<'a>) {
        out.u64(self.after);
        out.u32(self.table.0);
        out.keys(&self.keys);
        out.u8(self.peek.into());
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        let after = input.u64()?;
        let table = VarId(input.u32()?);
        let keys = input.keys()?;
        Ok(Self { after, table, keys, peek: input.u8()? != 0 })
    }

    fn blobs<'a>(&'a mut self, blobs: &mut Blobs<'a>) {
        keys_blob(&mut self.keys, blobs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::check::{answer_survives, survives};
    use tensor::Tensor;

    #[test]
    fn survives_the_wire() {
        for peek in [false, true] {
            let (table, keys) = (VarId(4), vec![3, -1, i64::MAX]);
            survives(LookUp { peek, ..LookUp::new(1, table, keys) });
        }
        answer_survives(Tensor::full([2, 4], 0.5f32));
    }
}
