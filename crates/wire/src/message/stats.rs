//! `stats`: counters of a server, among them how stale gradients were.

use super::{Body, empty};
use crate::codec::{Reader, Writer};
use crate::error::Result;

/// Answered by [`Stats`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskStats;

empty!(AskStats);

/// Counters since the server started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Rounds applied (sync).
    pub rounds: u64,
    /// Pushes applied.
    pub pushes: u64,
    /// Pushes that came a second time and were not applied again.
    pub repeated: u64,
    /// Steps that were applied when they arrived. Steps that a trainer merged count as one.
    pub updates: u64,
    /// The sum of the staleness of all updates: the updates that were applied since the pull it was
    /// computed with.
    pub staleness_sum: u64,
    /// The largest of these.
    pub staleness_max: u64,
    /// Rows of all parameters and tables.
    pub rows: u64,
    /// Bytes of all parameters and tables, with the states of their optimizers.
    pub bytes: u64,
    /// Rows of sparse tables.
    pub table_rows: u64,
    /// Bytes of sparse tables, with their index.
    pub table_bytes: u64,
    /// Rows that gradients named, and that entry rules have not admitted.
    pub waiting: u64,
    /// Rows of gradients that were dropped because their table had not admitted them.
    pub dropped: u64,
    /// Cuts that were kept.
    pub cuts: u64,
    /// Bytes that were written for them.
    pub cut_bytes: u64,
    /// Milliseconds that writing the last one took.
    pub cut_ms: u64,
}

impl Stats {
    fn fields(&self) -> [u64; 15] {
        let Stats { rounds, pushes, repeated, updates, .. } = *self;
        let Stats { staleness_sum, staleness_max, rows, bytes, .. } = *self;
        let Stats { table_rows, table_bytes, waiting, dropped, .. } = *self;
        let Stats { cuts, cut_bytes, cut_ms, .. } = *self;
        [
            rounds,
            pushes,
            repeated,
            updates,
            staleness_sum,
            staleness_max,
            rows,
            bytes,
            table_rows,
            table_bytes,
            waiting,
            dropped,
            cuts,
            cut_bytes,
            cut_ms,
        ]
    }

    /// Mean staleness of an update.
    pub fn staleness_mean(&self) -> f64 {
        self.staleness_sum as f64 / self.updates.max(1) as f64
    }
}

impl Body for Stats {
    fn encode<'a>(&'a self, out: &mut Writer<'a>) {
        for field in self.fields() {
            out.u64(field);
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            rounds: input.u64()?,
            pushes: input.u64()?,
            repeated: input.u64()?,
            updates: input.u64()?,
            staleness_sum: input.u64()?,
            staleness_max: input.u64()?,
            rows: input.u64()?,
            bytes: input.u64()?,
            table_rows: input.u64()?,
            table_bytes: input.u64()?,
            waiting: input.u64()?,
            dropped: input.u64()?,
            cuts: input.u64()?,
            cut_bytes: input.u64()?,
            cut_ms: input.u64()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::check::{answer_survives, survives};

    #[test]
    fn survives_the_wire() {
        survives(AskStats);
        answer_survives(Stats {
            rounds: 1,
            pushes: 2,
            repeated: 3,
            updates: 12,
            staleness_sum: 4,
            staleness_max: 5,
            rows: 6,
            bytes: 7,
            table_rows: 8,
            table_bytes: 9,
            waiting: 10,
            dropped: 11,
            cuts: 13,
            cut_bytes: 14,
            cut_ms: 15,
        });
    }
}
