//! `lend`: memory of one process that the other may read. Between the two ends of a connection; the
//! server and the link never hear of it.

use super::Body;
use crate::codec::{Reader, Writer};
use crate::error::Result;
use crate::shm::Offer;

/// Answered by the same from the other side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lend {
    /// The region that the receiver may open.
    pub offer: Offer,
    /// The region of the receiver that the sender has opened; 0 for none.
    pub opened: u64,
}

impl Body for Lend {
    fn encode<'a>(&'a self, out: &mut Writer<'a>) {
        let Offer { id, process, descriptor, account } = self.offer;
        out.u64(id);
        out.u32(process);
        out.u64(descriptor);
        out.u64(account);
        out.u64(self.opened);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        let (id, process) = (input.u64()?, input.u32()?);
        let (descriptor, account) = (input.u64()?, input.u64()?);
        let offer = Offer { id, process, descriptor, account };
        Ok(Self { offer, opened: input.u64()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::check::survives;

    #[test]
    fn survives_the_wire() {
        let offer = Offer { id: u64::MAX, process: 9, descriptor: 7, account: 8 };
        survives(Lend { offer, opened: 3 });
    }
}
