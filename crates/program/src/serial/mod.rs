//! Programs as bytes: Fluid's `ProgramDesc`, a protobuf message.
//!
//! The codec is written by hand. A generated one (prost) drops the fields it does not know, and
//! programs of other versions must pass through here unharmed; it would also cost every cold build
//! more than these few hundred lines do.
//!
//! Facts that the front end alone knows (which variable is a parameter, where gradients stop) are
//! not in the bytes, as in Fluid: a program that was read back runs, but does not remember them.

mod read;
#[cfg(test)]
mod tests;
pub(crate) mod wire;
mod write;

use crate::block::{Block, OpDesc};
use crate::error::Result;
use crate::program::Program;
use crate::var::VarDesc;

impl Program {
    /// The program as a serialized `ProgramDesc`.
    pub fn to_bytes(&self) -> Vec<u8> {
        write::program(self)
    }

    /// The program of a serialized `ProgramDesc`. Fields that are not known are kept.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let (program, offsets) = read::program(bytes)?;
        match program.bad_block() {
            Some(bad) => {
                let offset = offsets.get(bad.block).copied().unwrap_or(0);
                Err(wire::bad(offset, bad.problem))
            }
            None => Ok(program),
        }
    }
}

impl Block {
    /// The block as a serialized `BlockDesc`.
    pub fn to_bytes(&self) -> Vec<u8> {
        write::block(self)
    }
}

impl VarDesc {
    /// The variable as a serialized `VarDesc`.
    pub fn to_bytes(&self) -> Vec<u8> {
        write::var(self)
    }
}

impl OpDesc {
    /// The op as a serialized `OpDesc`.
    pub fn to_bytes(&self) -> Vec<u8> {
        write::op(self)
    }

    /// The op of a serialized `OpDesc`.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        read::op(wire::WireReader::new(bytes))
    }
}
