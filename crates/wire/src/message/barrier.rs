//! `barrier`: the trainer has sent everything of its part of a round. Numbered, served once.

use super::Body;
use crate::codec::{Reader, Writer};
use crate::error::Result;

/// Answered by an acknowledgement at once; pulls that name the round wait until it is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Barrier {
    /// The round that the part belongs to, from 1. It is the same on all servers, so a trainer that
    /// was restarted in the middle of a round does not repeat a part on servers where it was closed
    /// before.
    pub round: u64,
}

impl Barrier {
    /// The end of a part of this round.
    pub fn new(round: u64) -> Self {
        Self { round }
    }
}

impl Body for Barrier {
    const IS_CHANGE: bool = true;

    fn encode<'a>(&'a self, out: &mut Writer<'a>) {
        out.u64(self.round);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        Ok(Self { round: input.u64()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::check::survives;

    #[test]
    fn survives_the_wire() {
        survives(Barrier::new(u64::MAX));
    }
}
