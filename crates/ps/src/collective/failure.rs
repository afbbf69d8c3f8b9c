//! Why trainers cannot go on together.

use crate::codec::{Reader, Writer};
use crate::error::{Error, Result};

/// Why trainers cannot go on together. All of them get the same one: who sees it first tells the others.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// A trainer is gone.
    #[error("trainer {trainer} ({endpoint}) is gone: {why}; the others cannot go on without it: start the job again, from its last checkpoint if it has one")]
    Lost {
        /// Which.
        trainer: u32,
        /// Where it was.
        endpoint: String,
        /// What was seen.
        why: String,
    },

    /// A trainer has ended its part, others have not.
    #[error("trainer {trainer} ({endpoint}) has ended its script, and {what} needs it: do all trainers have the same number of batches?")]
    Left {
        /// Which.
        trainer: u32,
        /// Where it was.
        endpoint: String,
        /// What was to be exchanged.
        what: String,
    },

    /// Some trainers did not come, or did not come in time.
    #[error("trainer {waiting} waited {waited_ms} ms for {what}: {missing} did not come; is each of them started, and its end point right?")]
    Missing {
        /// Who waited.
        waiting: u32,
        /// How long.
        waited_ms: u64,
        /// For what.
        what: String,
        /// For whom.
        missing: String,
    },

    /// Two trainers do not do the same.
    #[error("trainers {left} and {right} do not do the same: trainer {left} has {left_says}; trainer {right} has {right_says}; all trainers must run the same program, with the same list of trainers and the same mode")]
    Differ {
        /// One of them.
        left: u32,
        /// What it says.
        left_says: String,
        /// The other.
        right: u32,
        /// What it says.
        right_says: String,
    },

    /// A trainer could not begin.
    #[error("trainer {trainer} ({endpoint}) could not begin: {why}")]
    NotBegun {
        /// Which.
        trainer: u32,
        /// Where it should be.
        endpoint: String,
        /// Why.
        why: String,
    },
}

impl Failure {
    pub(super) fn encode(&self, out: &mut Writer<'_>) {
        let (kind, numbers, texts) = match self {
            Failure::Lost { trainer, endpoint, why } => (0, [u64::from(*trainer), 0], [endpoint, why]),
            Failure::Left { trainer, endpoint, what } => (1, [u64::from(*trainer), 0], [endpoint, what]),
            Failure::Missing { waiting, waited_ms, what, missing } => {
                (2, [u64::from(*waiting), *waited_ms], [what, missing])
            }
            Failure::Differ { left, left_says, right, right_says } => {
                (3, [u64::from(*left), u64::from(*right)], [left_says, right_says])
            }
            Failure::NotBegun { trainer, endpoint, why } => {
                (4, [u64::from(*trainer), 0], [endpoint, why])
            }
        };
        out.u8(kind);
        numbers.into_iter().for_each(|number| out.u64(number));
        texts.into_iter().for_each(|text| out.str(text));
    }

    pub(super) fn decode(input: &mut Reader<'_>) -> Result<Self> {
        let (kind, first, second) = (input.u8()?, input.u64()?, input.u64()?);
        let (one, two) = (input.str()?, input.str()?);
        let trainer = first as u32;
        Ok(match kind {
            0 => Failure::Lost { trainer, endpoint: one, why: two },
            1 => Failure::Left { trainer, endpoint: one, what: two },
            2 => Failure::Missing { waiting: trainer, waited_ms: second, what: one, missing: two },
            3 => Failure::Differ {
                left: trainer,
                left_says: one,
                right: second as u32,
                right_says: two,
            },
            4 => Failure::NotBegun { trainer, endpoint: one, why: two },
            _ => return Err(Error::Malformed("a failure of an unknown kind")),
        })
    }
}
