//! `ping`: still there. The answer names the trainers that the server waits for.

use super::{Body, Notice, empty};
use crate::codec::{Reader, Writer};
use crate::error::Result;

/// Answered by [`Pong`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ping;

empty!(Ping);

/// Trainers that an answer names: its length does not grow with their number.
pub const MISSING_MAX: usize = 64;

/// How far the server is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pong {
    /// Rounds applied.
    pub round: u64,
    /// Trainers that this round waits for, if other trainers wait for it: the first of them.
    pub missing: Vec<u32>,
    /// Those of them that have not joined the job.
    pub absent: Vec<u32>,
    /// News about cuts.
    pub notice: Notice,
}

impl Body for Pong {
    fn encode<'a>(&'a self, out: &mut Writer<'a>) {
        out.u64(self.round);
        for list in [&self.missing, &self.absent] {
            out.count(list.len());
            list.iter().for_each(|&trainer| out.u32(trainer));
        }
        self.notice.encode(out);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        let round = input.u64()?;
        let (missing, absent) = (trainers(input)?, trainers(input)?);
        Ok(Self { round, missing, absent, notice: Notice::decode(input)? })
    }
}

fn trainers(input: &mut Reader<'_>) -> Result<Vec<u32>> {
    let n = input.count()?;
    (0..n).map(|_| input.u32()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::check::{answer_survives, survives};

    #[test]
    fn survives_the_wire() {
        survives(Ping);
        let (missing, absent) = (vec![1, 3], vec![3]);
        answer_survives(Pong { round: 5, missing, absent, notice: Notice::default() });
    }
}
