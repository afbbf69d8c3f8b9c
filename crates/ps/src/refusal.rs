//! Why a server says no. Refusals travel: a trainer sees the same type the server made.

use crate::codec::{LIST_MAX, Reader, Writer};
use crate::error::{Error, Result};

/// Why a server says no.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Another version of the protocol.
    #[error(
        "protocol version {theirs} is spoken, {ours} is needed: install the same release on all machines"
    )]
    Version {
        /// What the server speaks.
        ours: u32,
        /// What it was spoken to in.
        theirs: u32,
    },

    /// The trainer belongs to another job.
    #[error(
        "this trainer belongs to another job ({theirs}, not {ours}): do all processes run the same script with the same servers and number of trainers?"
    )]
    OtherJob {
        /// The job of the server.
        ours: String,
        /// The job of the trainer.
        theirs: String,
    },

    /// The trainer's script builds other parameters than the server's.
    #[error(
        "this trainer belongs to another job, or its script builds another model: it looks for `{var}` of shape {theirs} on this server, which has {ours}; names, shapes and the order of parameters must be the same in both scripts"
    )]
    OtherModel {
        /// The first parameter that differs.
        var: String,
        /// What the server has.
        ours: String,
        /// What the trainer looks for.
        theirs: String,
    },

    /// A rank that does not exist.
    #[error("trainer id {trainer} is out of range: the job has {n_trainers} trainers, 0 to {}", n_trainers.saturating_sub(1))]
    TrainerOutOfRange {
        /// The rank.
        trainer: u32,
        /// How many there are.
        n_trainers: u32,
    },

    /// Two live processes claim one rank.
    #[error(
        "two trainers have id {trainer}: the other one was heard {heard_ms} ms ago; give each its own PADDLE_TRAINER_ID"
    )]
    DuplicateTrainer {
        /// The rank.
        trainer: u32,
        /// When the first one was heard.
        heard_ms: u64,
    },

    /// Something else came before the greeting.
    #[error("a connection begins with a greeting")]
    HelloFirst,

    /// No such variable or table on this server.
    #[error("no variable `{0}` on this server")]
    UnknownVar(String),

    /// A gradient that does not fit its variable.
    #[error("`{var}`: {detail}")]
    BadValue {
        /// The variable.
        var: String,
        /// What does not fit.
        detail: String,
    },

    /// A number that is not finite in a gradient, with the check on.
    #[error("`{var}` from trainer {trainer} has a number that is not finite")]
    NotFinite {
        /// The variable.
        var: String,
        /// Who sent it.
        trainer: u32,
    },

    /// More rounds than the others have done.
    #[error("trainer {trainer} is {n} rounds ahead of the others")]
    Ahead {
        /// Who.
        trainer: u32,
        /// How far.
        n: u32,
    },

    /// A part of a round between this one and the last is not here.
    #[error(
        "trainer {trainer} closes its part of round {round}, but this server has no part of it for round {expected}: start the job again from its last saved model"
    )]
    MissingPart {
        /// Who.
        trainer: u32,
        /// The round it closes.
        round: u64,
        /// The round that would be next.
        expected: u64,
    },

    /// Everybody waits for everybody: some at a meeting, some for a round.
    #[error(
        "the trainers wait for each other: {meeting:?} for all others at a meeting, {round_of:?} for round {round}, which the first have not sent. A trainer that is started again begins its script anew and sends more rounds than the others: start all trainers again, from the last saved model"
    )]
    Stuck {
        /// Trainers at a meeting.
        meeting: Vec<u32>,
        /// Trainers that wait for a round.
        round_of: Vec<u32>,
        /// The round.
        round: u64,
    },

    /// Bytes that are no message.
    #[error("not a message of this protocol: {0}")]
    Malformed(String),

    /// A trainer died in a job that needs all of them.
    #[error(
        "trainer {trainer} died: {how} {silent_ms} ms ago, in round {round}; the job needs all trainers"
    )]
    TrainerLost {
        /// Who.
        trainer: u32,
        /// What was seen.
        how: String,
        /// Since when.
        silent_ms: u64,
        /// The round that could not be finished.
        round: u64,
    },

    /// A trade that no server holds.
    #[error("cannot be traded: {0}")]
    BadTrade(String),

    /// A trainer trades something else than the others.
    #[error(
        "trainer {trainer} is out of step: it is at {ours}, the others at {theirs}; all trainers must trade in the same order, and one that was started again cannot join in between"
    )]
    OutOfStep {
        /// Who.
        trainer: u32,
        /// What it came for.
        ours: String,
        /// What the others came for.
        theirs: String,
    },

    /// A trade needs everybody, and somebody is gone.
    #[error(
        "trainer {trainer} takes no part in the job any more, so nothing can be traded with it; all trainers must trade before any of them ends"
    )]
    Absent {
        /// Who.
        trainer: u32,
    },

    /// An error of the server's own.
    #[error("{0}")]
    Failed(String),
}

impl Refusal {
    pub(crate) fn encode(&self, out: &mut Writer<'_>) {
        match self {
            Refusal::Version { ours, theirs } => {
                out.u8(1);
                out.u32(*ours);
                out.u32(*theirs);
            }
            Refusal::OtherJob { ours, theirs } => texts(out, 2, &[ours, theirs]),
            Refusal::TrainerOutOfRange { trainer, n_trainers } => {
                out.u8(3);
                out.u32(*trainer);
                out.u32(*n_trainers);
            }
            Refusal::DuplicateTrainer { trainer, heard_ms } => {
                out.u8(4);
                out.u32(*trainer);
                out.u64(*heard_ms);
            }
            Refusal::HelloFirst => out.u8(5),
            Refusal::UnknownVar(var) => texts(out, 6, &[var]),
            Refusal::BadValue { var, detail } => texts(out, 7, &[var, detail]),
            Refusal::NotFinite { var, trainer } => {
                texts(out, 8, &[var]);
                out.u32(*trainer);
            }
            Refusal::Ahead { trainer, n } => {
                out.u8(9);
                out.u32(*trainer);
                out.u32(*n);
            }
            Refusal::Malformed(what) => texts(out, 10, &[what]),
            Refusal::TrainerLost { trainer, how, silent_ms, round } => {
                texts(out, 11, &[how]);
                out.u32(*trainer);
                out.u64(*silent_ms);
                out.u64(*round);
            }
            Refusal::Failed(what) => texts(out, 12, &[what]),
            Refusal::BadTrade(what) => texts(out, 13, &[what]),
            Refusal::OutOfStep { trainer, ours, theirs } => {
                texts(out, 14, &[ours, theirs]);
                out.u32(*trainer);
            }
            Refusal::Absent { trainer } => {
                out.u8(15);
                out.u32(*trainer);
            }
            Refusal::OtherModel { var, ours, theirs } => texts(out, 16, &[var, ours, theirs]),
            Refusal::MissingPart { trainer, round, expected } => {
                out.u8(17);
                out.u32(*trainer);
                out.u64(*round);
                out.u64(*expected);
            }
            Refusal::Stuck { meeting, round_of, round } => {
                out.u8(18);
                ranks(out, meeting);
                ranks(out, round_of);
                out.u64(*round);
            }
        }
    }

    pub(crate) fn decode(input: &mut Reader<'_>) -> Result<Self> {
        Ok(match input.u8()? {
            1 => Refusal::Version { ours: input.u32()?, theirs: input.u32()? },
            2 => Refusal::OtherJob { ours: input.str()?, theirs: input.str()? },
            3 => Refusal::TrainerOutOfRange { trainer: input.u32()?, n_trainers: input.u32()? },
            4 => Refusal::DuplicateTrainer { trainer: input.u32()?, heard_ms: input.u64()? },
            5 => Refusal::HelloFirst,
            6 => Refusal::UnknownVar(input.str()?),
            7 => Refusal::BadValue { var: input.str()?, detail: input.str()? },
            8 => Refusal::NotFinite { var: input.str()?, trainer: input.u32()? },
            9 => Refusal::Ahead { trainer: input.u32()?, n: input.u32()? },
            10 => Refusal::Malformed(input.str()?),
            11 => {
                let how = input.str()?;
                let (trainer, silent_ms, round) = (input.u32()?, input.u64()?, input.u64()?);
                Refusal::TrainerLost { trainer, how, silent_ms, round }
            }
            12 => Refusal::Failed(input.str()?),
            13 => Refusal::BadTrade(input.str()?),
            14 => {
                let (ours, theirs) = (input.str()?, input.str()?);
                Refusal::OutOfStep { trainer: input.u32()?, ours, theirs }
            }
            15 => Refusal::Absent { trainer: input.u32()? },
            16 => {
                let (var, ours, theirs) = (input.str()?, input.str()?, input.str()?);
                Refusal::OtherModel { var, ours, theirs }
            }
            17 => {
                let (trainer, round, expected) = (input.u32()?, input.u64()?, input.u64()?);
                Refusal::MissingPart { trainer, round, expected }
            }
            18 => {
                let list = |input: &mut Reader<'_>| -> Result<Vec<u32>> {
                    (0..input.count()?).map(|_| input.u32()).collect()
                };
                let (meeting, round_of) = (list(input)?, list(input)?);
                Refusal::Stuck { meeting, round_of, round: input.u64()? }
            }
            _ => return Err(Error::Malformed("an unknown refusal")),
        })
    }
}

fn texts(out: &mut Writer<'_>, code: u8, texts: &[&str]) {
    out.u8(code);
    for text in texts {
        out.str(text);
    }
}

fn ranks(out: &mut Writer<'_>, ranks: &[u32]) {
    let ranks = &ranks[..ranks.len().min(LIST_MAX)];
    out.count(ranks.len());
    ranks.iter().for_each(|&rank| out.u32(rank));
}
