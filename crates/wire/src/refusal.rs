//! Why a server says no. Refusals travel: a trainer sees the same type the server made.

use crate::budget::Overfull;
use crate::recovery::TermState;

/// Why a server refuses a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Another version of the protocol.
    #[error(
        "protocol version {theirs} is spoken, {ours} is needed: install the same release on all machines"
    )]
    Version {
        /// The version of the server.
        ours: u32,
        /// The version of the peer.
        theirs: u32,
    },

    /// The two ends do not know the same secret.
    #[error(
        "secret: it is another one here, or only one of the two sides has one; give all processes of a job the same PADDLEWHEEL_SECRET_FILE"
    )]
    Secret,

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
        /// The server's value.
        ours: String,
        /// The trainer's value.
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

    /// The rank belongs to the process that came first, and this one has another key.
    #[error(
        "the number of trainer {trainer} is taken by another key, for {} s now, from {from}: this job has no secret, so the \
         first process with a number keeps it. If the process at {from} is none of yours, end the job and give all its \
         processes the same PADDLEWHEEL_SECRET_FILE; if this trainer was started again and its key is lost, start the \
         whole job again, from its last saved model, or, with snapshots, after `keys` in their folder was removed", .since_ms / 1000
    )]
    OtherKey {
        /// The rank.
        trainer: u32,
        /// Where the first one came from.
        from: String,
        /// How long ago.
        since_ms: u64,
    },

    /// Something else came before the greeting.
    #[error("a connection begins with a greeting")]
    HelloFirst,

    /// No such variable or table on this server.
    #[error("no variable `{0}` on this server")]
    UnknownVar(String),

    /// A number that no variable of the greeting has.
    #[error("variable number {number} was asked for, but the greeting named {n_vars} variables")]
    UnknownNumber {
        /// The number.
        number: u32,
        /// How many variables there were.
        n_vars: u32,
    },

    /// A gradient that does not fit its variable.
    #[error("`{var}`: {detail}")]
    BadValue {
        /// The variable.
        var: String,
        /// The mismatch.
        detail: String,
    },

    /// A number that is not finite in a gradient, with the check on.
    #[error("`{var}` from trainer {trainer} has a number that is not finite")]
    NotFinite {
        /// The variable.
        var: String,
        /// The trainer that sent it.
        trainer: u32,
    },

    /// More rounds than the others have done.
    #[error("trainer {trainer} is {n} rounds ahead of the others")]
    Ahead {
        /// The trainer.
        trainer: u32,
        /// How far.
        n: u32,
    },

    /// A part of a round between this one and the last is not here.
    #[error(
        "trainer {trainer} closes its part of round {round}, but this server has no part of it for round {expected}: start the job again from its last saved model"
    )]
    MissingPart {
        /// The trainer.
        trainer: u32,
        /// The round it closes.
        round: u64,
        /// The round that would be next.
        expected: u64,
    },

    /// Deadlock: some trainers wait in an all-gather, the others wait for a round.
    #[error(
        "the trainers wait for each other: {gathering:?} for all others at a barrier or a reduction, {round_of:?} for round {round}, which the first have not sent. A trainer that is started again begins its script anew and sends more rounds than the others: start all trainers again, from the last saved model"
    )]
    Stuck {
        /// Trainers that wait in an all-gather.
        gathering: Vec<u32>,
        /// Trainers that wait for a round.
        round_of: Vec<u32>,
        /// The round.
        round: u64,
    },

    /// Bytes that are not a message.
    #[error("not a message of this protocol: {0}")]
    Malformed(String),

    /// A trainer died in a job that needs all of them.
    #[error(
        "trainer {trainer} died: {how} {silent_ms} ms ago, in round {round}; the job needs all trainers"
    )]
    TrainerLost {
        /// The trainer.
        trainer: u32,
        /// The observation.
        how: String,
        /// Since when.
        silent_ms: u64,
        /// The round that could not be finished.
        round: u64,
    },

    /// An exchange that no server holds.
    #[error("cannot be exchanged: {0}")]
    BadExchange(String),

    /// A trainer exchanges something else than the others.
    #[error(
        "trainer {trainer} is out of step: it is at {ours}, the others at {theirs}; all trainers must exchange in the same order, and one that was started again cannot join in between"
    )]
    OutOfStep {
        /// The trainer.
        trainer: u32,
        /// Its own purpose.
        ours: String,
        /// The purpose of the others.
        theirs: String,
    },

    /// An exchange needs all trainers, and one of them is gone.
    #[error(
        "trainer {trainer} takes no part in the job any more, so nothing can be exchanged with it; all trainers must exchange before any of them ends"
    )]
    Absent {
        /// The trainer.
        trainer: u32,
    },

    /// The trainer is not in the server's term: a process died, and the job continues from a cut.
    #[error(
        "this server is at {0}: it went back, or was started again, and its trainers go back with it"
    )]
    OtherTerm(TermState),

    /// A folder that this server does not write to.
    #[error(
        "this server does not save to `{dir}`: it writes below {roots} only; start it with --save_root (FLAGS_save_root) for other folders"
    )]
    Elsewhere {
        /// The requested folder.
        dir: String,
        /// Where it writes.
        roots: String,
    },

    /// More than the server holds.
    #[error(
        "this server holds {n_bytes} bytes of what this trainer sends or asks for, and at most {n_bytes_max} for all \
         trainers: send less at a time, or start servers with a larger FLAGS_request_memory_mb"
    )]
    TooMuch {
        /// Bytes held for the trainer.
        n_bytes: u64,
        /// Limit of the bytes held for all.
        n_bytes_max: u64,
    },

    /// More questions than a server remembers.
    #[error("this trainer has asked {n} questions that are not answered yet, which no script does")]
    TooManyQuestions {
        /// How many.
        n: u32,
    },

    /// A cut that the term did not begin from.
    #[error("cut {cut} cannot be recalled: this term began from cut {base}")]
    NoSuchCut {
        /// The requested cut.
        cut: u64,
        /// The cut that the term began from.
        base: u64,
    },

    /// An error of the server's own.
    #[error("{0}")]
    Failed(String),
}

impl From<Overfull> for Refusal {
    fn from(Overfull { n_bytes, n_bytes_max }: Overfull) -> Self {
        Refusal::TooMuch { n_bytes, n_bytes_max }
    }
}
