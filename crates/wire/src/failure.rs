//! Why trainers cannot go on together.

/// The reason why the trainers cannot continue together. All of them get the same one: the first to see it tells the others.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// A trainer is gone.
    #[error(
        "trainer {trainer} ({endpoint}) is gone: {why}; the others cannot go on without it: start the job again, from its last checkpoint if it has one"
    )]
    Lost {
        /// Which.
        trainer: u32,
        /// Where it was.
        endpoint: String,
        /// The reason.
        why: String,
    },

    /// A trainer has ended its part, others have not.
    #[error(
        "trainer {trainer} ({endpoint}) has ended its script, and {what} needs it: do all trainers have the same number of batches?"
    )]
    Left {
        /// Which.
        trainer: u32,
        /// Where it was.
        endpoint: String,
        /// The exchange.
        what: String,
    },

    /// Some trainers did not come, or did not come in time.
    #[error(
        "trainer {waiting} waited {waited_ms} ms for {what}: {missing} did not come; is each of them started, and its end point right?"
    )]
    Missing {
        /// The trainer that waited.
        waiting: u32,
        /// How long.
        waited_ms: u64,
        /// For what.
        what: String,
        /// For whom.
        missing: String,
    },

    /// Two trainers do not do the same.
    #[error(
        "trainers {left} and {right} do not do the same: trainer {left} has {left_says}; trainer {right} has {right_says}; all trainers must run the same program, with the same list of trainers and the same mode"
    )]
    Differ {
        /// One of them.
        left: u32,
        /// Its own account.
        left_says: String,
        /// The other.
        right: u32,
        /// Its own account.
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
