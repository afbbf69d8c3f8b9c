//! `lend`: memory of one process that the other may read. Between the two ends of a connection; the
//! server and the link never hear of it.

use super::Body;
use crate::codec::{Reader, Writer};
use crate::error::Result;

/// Answered by the same from the other side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lend {
    /// What the lent region is called; 0 if none is lent.
    pub id: u64,
    /// The lender's process.
    pub process: u32,
    /// The number of the region's file there.
    pub descriptor: u64,
    /// The number of the file in which the receiver counts what it has read.
    pub account: u64,
    /// The region of the receiver that the sender has opened; 0 for none.
    pub opened: u64,
}

impl Body for Lend {
    fn encode<'a>(&'a self, out: &mut Writer<'a>) {
        out.u64(self.id);
        out.u32(self.process);
        out.u64(self.descriptor);
        out.u64(self.account);
        out.u64(self.opened);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        let (id, process) = (input.u64()?, input.u32()?);
        let (descriptor, account) = (input.u64()?, input.u64()?);
        Ok(Self { id, process, descriptor, account, opened: input.u64()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::check::survives;

    #[test]
    fn survives_the_wire() {
        survives(Lend { id: u64::MAX, process: 9, descriptor: 7, account: 8, opened: 3 });
    }
}
