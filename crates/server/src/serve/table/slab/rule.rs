//! What a process without servers reads of rows that do not exist.

use tensor::{OtherRow, RowStart, TakenIn, Value};
use train::Scope;

use crate::table::EntryFilter;

use super::Slab;

impl Slab {
    /// What rows of a variable read as that do not exist.
    pub(super) fn rule(&self, scope: &Scope, at: usize) -> OtherRow {
        let var = &self.vars[at];
        let absent = |value: &Value| {
            let row = self.absent * self.width()..(self.absent + 1) * self.width();
            Some(value.tensor()?.data::<f32>().ok()?.get(row)?.to_vec())
        };
        let start = if self.starts_fresh(at) {
            RowStart::Init(var.init)
        } else {
            RowStart::Row(scope.read(&var.name, absent).flatten().unwrap_or_default())
        };
        let taken_in = self.filter.as_ref().map_or(TakenIn::All, EntryFilter::taken_in);
        OtherRow { start, first: self.extent.share.first(), taken_in }
    }
}
