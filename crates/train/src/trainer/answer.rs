//! What a run of a trainer answers: for the journal, and for those who watch the job.

use tensor::{Tensor, Value};

use crate::counters;
use crate::executor::Fetched;
use crate::recover::{ByteWriter, WriteValues};

/// A fetched value of a run in a job.
pub(crate) trait RunAnswer: Fetched {
    /// Writes it, for a journal.
    fn write(&self, journal: &mut ByteWriter);

    /// Shows it where the job is watched.
    fn note(&self, name: &str);
}

impl RunAnswer for Tensor {
    fn write(&self, journal: &mut ByteWriter) {
        journal.dense(self);
    }

    fn note(&self, name: &str) {
        counters::fetched(name, self);
    }
}

impl RunAnswer for Value {
    fn write(&self, journal: &mut ByteWriter) {
        journal.value(self);
    }

    fn note(&self, name: &str) {
        counters::fetched_value(name, self);
    }
}
