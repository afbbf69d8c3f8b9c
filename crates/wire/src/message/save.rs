//! `save`: the server writes its part of a table to its own disk.

use super::Body;
use crate::codec::{Reader, Writer};
use crate::error::{Error, Result};

/// One step of a save. All servers finish a step before the first one starts the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Write the part into the stage of the save.
    Write,
    /// The save was committed: what is on a disk of its own is put in its place.
    Place,
    /// Give up what was written and is not in its place.
    GiveUp,
}

/// Answered when it is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Save {
    /// The table.
    pub table: String,
    /// The stage of the save, below the directory that is saved into.
    pub dir: String,
    /// The action.
    pub phase: Phase,
    /// Only what a look-up reads: no state of the optimizer.
    pub weights_only: bool,
}

impl Body for Save {
    fn encode<'a>(&'a self, out: &mut Writer<'a>) {
        out.str(&self.table);
        out.str(&self.dir);
        out.u8(self.phase as u8);
        out.u8(self.weights_only.into());
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        let (table, dir) = (input.str()?, input.str()?);
        let phase = match input.u8()? {
            0 => Phase::Write,
            1 => Phase::Place,
            2 => Phase::GiveUp,
            _ => return Err(Error::Malformed("an unknown way of saving")),
        };
        let weights_only = input.u8()? != 0;
        Ok(Self { table, dir, phase, weights_only })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Done;
    use crate::message::check::{answer_survives, survives};

    #[test]
    fn survives_the_wire() {
        for phase in [Phase::Write, Phase::Place, Phase::GiveUp] {
            let (table, dir) = ("emb".to_string(), "/tmp/model".to_string());
            survives(Save { table, dir, phase, weights_only: phase == Phase::Write });
        }
        answer_survives(Done);
    }
}
