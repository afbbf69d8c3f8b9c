//! `hello`: who speaks. The first message of every connection.

use super::Body;
use crate::codec::{Reader, Writer};
use crate::error::Result;

/// The protocol this build speaks.
pub const VERSION: u32 = 3;

/// Answered by [`Welcome`], or refused and cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// See [`VERSION`].
    pub version: u32,
    /// Which job: a digest of who holds what.
    pub job: String,
    /// The rank of the trainer.
    pub trainer: u32,
    /// Differs from process to process: a trainer that was started again is another one.
    pub incarnation: u64,
}

impl Body for Hello {
    fn encode<'a>(&'a self, out: &mut Writer<'a>) {
        out.u32(self.version);
        out.str(&self.job);
        out.u32(self.trainer);
        out.u64(self.incarnation);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            version: input.u32()?,
            job: input.str()?,
            trainer: input.u32()?,
            incarnation: input.u64()?,
        })
    }
}

/// Where the server stands with this trainer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The last of this incarnation's changes that was served.
    pub accepted: u64,
    /// Rounds that have been applied.
    pub round: u64,
}

impl Body for Welcome {
    fn encode<'a>(&'a self, out: &mut Writer<'a>) {
        out.u64(self.accepted);
        out.u64(self.round);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        Ok(Self { accepted: input.u64()?, round: input.u64()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::check::{answer_survives, survives};

    #[test]
    fn survives_the_wire() {
        let job = "a1b2".to_string();
        survives(Hello { version: VERSION, job, trainer: 3, incarnation: u64::MAX });
        answer_survives(Welcome { accepted: 9, round: 4 });
    }
}
