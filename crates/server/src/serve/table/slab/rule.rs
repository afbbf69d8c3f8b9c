//! What a process without servers reads of rows that do not exist.

use tensor::{OtherRow, RowStart, TakenIn, Value};
use train::Scope;

use crate::table::EntryFilter;

use super::Slab;

/// What updates do to rows that no gradient lists.
#[derive(Debug, Default)]
pub(in crate::serve::table) struct UpdateFacts {
    /// They compute weights from state alone.
    pub(in crate::serve::table) forgets: bool,
    /// They change rows that no gradient lists.
    pub(in crate::serve::table) changes_all: bool,
    /// An update was run.
    pub(in crate::serve::table) has_stepped: bool,
}

impl UpdateFacts {
    /// Whether a new row of a variable is what its init says, or what became of those not listed.
    pub(super) fn starts_fresh(&self, var: usize) -> bool {
        var == 0 && !(self.forgets && self.has_stepped)
    }
}

impl Slab {
    /// What rows of a variable read as that do not exist.
    pub(super) fn rule(&self, scope: &Scope, at: usize) -> OtherRow {
        let var = &self.plan.vars[at];
        let absent = |value: &Value| {
            let row = self.absent * self.plan.width()..(self.absent + 1) * self.plan.width();
            Some(value.tensor()?.data::<f32>().ok()?.get(row)?.to_vec())
        };
        let start = if self.updates.starts_fresh(at) {
            RowStart::Init(var.init)
        } else {
            RowStart::Row(scope.read(&var.name, absent).flatten().unwrap_or_default())
        };
        let taken_in = self.filter.as_ref().map_or(TakenIn::All, EntryFilter::taken_in);
        OtherRow { start, first: self.plan.extent.share.first(), taken_in }
    }
}
