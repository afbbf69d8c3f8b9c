//! `save`: the server writes its part of a table to its own disk.

use super::Body;
use crate::codec::{Reader, Writer};
use crate::error::Result;

/// Answered when the file is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Save {
    /// The table.
    pub table: String,
    /// The directory.
    pub dir: String,
}

impl Body for Save {
    fn encode<'a>(&'a self, out: &mut Writer<'a>) {
        out.str(&self.table);
        out.str(&self.dir);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        Ok(Self { table: input.str()?, dir: input.str()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Done;
    use crate::message::check::{answer_survives, survives};

    #[test]
    fn survives_the_wire() {
        survives(Save { table: "emb".to_string(), dir: "/tmp/model".to_string() });
        answer_survives(Done);
    }
}
