//! The rows of a table as a file has them: all, or those that somebody picks.

use std::collections::HashMap;

use super::file::FileReader;
use super::layout::VarLayout;
use super::names::RowNumbers;
use super::rows::{Places, RowsHead, read_picked, read_places, read_rows};
use crate::bad_snapshot::SnapshotResult;

/// Who goes on from snapshots of others says which rows are needed.
pub(in crate::serve) trait Picks {
    /// Whether a row is: by the number that its server gave it, and the layout of the table's weights there.
    fn has(&self, theirs: &VarLayout, number: u64) -> bool;
}

/// All rows.
pub(super) struct All;

impl Picks for All {
    fn has(&self, _: &VarLayout, _: u64) -> bool {
        true
    }
}

/// A place whose row is not picked.
const LEFT_OUT: u32 = u32::MAX;
/// A place whose row was picked and has been taken: its bytes are here again when it has changed.
const TAKEN: u32 = u32::MAX - 1;
/// Larger rows are none; they are tensors of a few thousand numbers at most.
const ROW_BYTES_MAX: u64 = 1 << 28;

/// The rows of a table.
#[derive(Debug, Default)]
pub(in crate::serve) struct RowsState {
    pub(in crate::serve) head: RowsHead,
    /// Their numbers, in the order of their places; none if all exist and each is at its number.
    pub(in crate::serve) numbers: RowNumbers,
    /// The bytes of those that are picked, by variable.
    pub(in crate::serve) values: Vec<Vec<u8>>,
    /// For each place, where its row is among those that are picked; none if all rows exist and all are here.
    slots: Vec<u32>,
    /// The places of those that are picked, in the order of `values`.
    picked: Vec<u32>,
    /// Rows that wait, and how often each was named; what changed, if the others were taken.
    pub(in crate::serve) waiting: HashMap<u64, u32>,
}

impl RowsState {
    fn n_places(&self) -> usize {
        self.head.n_rows.saturating_add(self.head.absent.is_some().into()) as usize
    }

    /// Where the row of a place is in `values`, if it was picked and not taken.
    pub(in crate::serve) fn slot(&self, place: usize) -> Option<usize> {
        slot_in(&self.slots, place)
    }

    /// The numbers of the rows in `values`, in their order; none for the one that stands for those that do not exist.
    pub(in crate::serve) fn picked(&self) -> impl Iterator<Item = Option<u64>> {
        self.picked.iter().map(|&place| self.numbers.get(self.row_at(place as usize)?))
    }

    /// Whether all rows that have a number have come.
    pub(in crate::serve) fn is_complete(&self) -> bool {
        self.is_whole() || self.slots.len() >= self.n_places()
    }

    /// Somebody has taken what was picked. It is read again if it changes.
    pub(in crate::serve) fn forget(&mut self) {
        if !self.is_whole() {
            std::mem::take(&mut self.picked)
                .into_iter()
                .for_each(|place| self.slots[place as usize] = TAKEN);
            self.values.iter_mut().for_each(|values| *values = Vec::new());
            self.waiting = HashMap::new();
        }
    }

    /// The row of the index that is at a place; none if the place stands for those that do not exist.
    fn row_at(&self, place: usize) -> Option<usize> {
        let absent = self.head.absent.map_or(usize::MAX, |absent| absent as usize);
        (place != absent).then(|| place - usize::from(place > absent))
    }

    /// Takes a head; the error is what is wrong with it. New rows are in the rest of the file, which has `n_left`
    /// bytes.
    pub(super) fn resize(&mut self, head: RowsHead, n_left: u64) -> Result<(), &'static str> {
        let n_places = head.n_rows.saturating_add(head.absent.is_some().into());
        if n_places >= u64::from(TAKEN) {
            return Err("a table has too many rows");
        }
        let n_new = head.n_rows.saturating_sub(self.head.n_rows);
        let row_bytes: u64 = head.vars.iter().map(|(_, row_bytes)| u64::from(*row_bytes)).sum();
        let one = row_bytes.saturating_add(if head.inits.is_empty() { 0 } else { 8 });
        // The row that stands for those that do not exist comes with the first file.
        if n_new.checked_mul(one).is_none_or(|n_bytes| n_bytes > n_left)
            || row_bytes > ROW_BYTES_MAX
        {
            return Err("a table has more rows than the file");
        }
        let is_moved = !self.slots.is_empty() && head.absent != self.head.absent;
        if is_moved || !self.values.is_empty() && self.values.len() != head.vars.len() {
            return Err("a table is another one than before");
        }
        if !head.inits.is_empty() {
            self.numbers.grow(head.n_rows as usize);
        }
        self.values.resize(head.vars.len(), Vec::new());
        self.head = head;
        if self.is_whole() {
            let n_places = self.n_places();
            for (values, (_, row_bytes)) in self.values.iter_mut().zip(&self.head.vars) {
                let n_bytes = n_places.checked_mul(*row_bytes as usize);
                values.resize(n_bytes.ok_or("a table has too many bytes")?, 0);
            }
        }
        Ok(())
    }

    /// All rows exist: they are a value that is put together from those of all servers.
    fn is_whole(&self) -> bool {
        self.head.inits.is_empty()
    }

    /// Reads rows. Their numbers have come before them.
    pub(super) fn take(
        &mut self,
        file: &mut FileReader,
        layout: &[VarLayout],
        picks: &dyn Picks,
    ) -> SnapshotResult<()> {
        let row_bytes = self.head.vars.iter().map(|(_, row_bytes)| *row_bytes as usize).sum();
        let places = read_places(file, row_bytes, self.n_places())?;
        if !self.is_whole() {
            if !self.numbers.is_complete() {
                return Err(file.damaged("a row has no number"));
            }
            self.pick(layout, picks);
            self.bring_back(&places);
        }
        let is_whole = self.is_whole();
        for (values, (_, row_bytes)) in self.values.iter_mut().zip(&self.head.vars) {
            let row_bytes = *row_bytes as usize;
            if is_whole {
                read_rows(file, &places, values, row_bytes)?
            } else {
                let slots = &self.slots;
                read_picked(file, &places, values, row_bytes, &|place| slot_in(slots, place))?;
            }
        }
        Ok(())
    }

    /// Decides which of the new rows are needed, and makes room for them.
    fn pick(&mut self, layout: &[VarLayout], picks: &dyn Picks) {
        let n_places = self.n_places();
        if self.slots.len() >= n_places {
            return;
        }
        let weights = self.head.vars.first();
        let weights = weights.and_then(|(name, _)| layout.iter().find(|var| var.name == *name));
        for place in self.slots.len()..n_places {
            let number = self.row_at(place).map(|row| self.numbers.get(row));
            let is_picked = match (number, weights) {
                // Every server needs to know what became of rows that do not exist.
                (None, _) => true,
                (Some(Some(number)), Some(weights)) => picks.has(weights, number),
                _ => true,
            };
            self.slots.push(if is_picked { self.picked.len() as u32 } else { LEFT_OUT });
            self.picked.extend(is_picked.then_some(place as u32));
        }
        self.make_room();
    }

    /// Makes room for rows that were taken and come again.
    fn bring_back(&mut self, places: &Places) {
        let n_before = self.picked.len();
        for at in 0..places.len() {
            let place = places.at(at);
            if self.slots.get(place) == Some(&TAKEN) {
                self.slots[place] = self.picked.len() as u32;
                self.picked.push(place as u32);
            }
        }
        if self.picked.len() > n_before {
            self.make_room();
        }
    }

    fn make_room(&mut self) {
        for (values, (_, row_bytes)) in self.values.iter_mut().zip(&self.head.vars) {
            values.resize(self.picked.len() * *row_bytes as usize, 0);
        }
    }
}

fn slot_in(slots: &[u32], place: usize) -> Option<usize> {
    slots.get(place).filter(|&&slot| slot < TAKEN).map(|&slot| slot as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(n_rows: u64, row_bytes: u32) -> RowsHead {
        RowsHead {
            n_rows,
            absent: Some(1),
            vars: vec![("t".to_string(), row_bytes)],
            inits: vec!["zeros".to_string()],
            ..RowsHead::default()
        }
    }

    #[test]
    fn a_head_takes_no_memory_for_rows_that_are_not_there() {
        let mut rows = RowsState::default();
        rows.resize(head(10, 12), 200).unwrap();
        assert_eq!((rows.numbers.len(), rows.values[0].len()), (10, 0));
        // An increment has the new ones.
        rows.resize(head(12, 12), 40).unwrap();
        for (n_rows, row_bytes) in [(13, 12), (1 << 31, 12), (12, u32::MAX), (u64::MAX, 1)] {
            assert!(rows.resize(head(n_rows, row_bytes), 19).is_err(), "{n_rows}");
        }
    }

    struct Even;

    impl Picks for Even {
        fn has(&self, _: &VarLayout, number: u64) -> bool {
            number.is_multiple_of(2)
        }
    }

    #[test]
    fn only_picked_rows_take_memory_and_more_may_come() {
        let (mut rows, layout) = (RowsState::default(), [VarLayout::whole("t", &[9, 3])]);
        rows.resize(head(3, 12), 200).unwrap();
        rows.numbers.set_all(0, [4, 5, 6]).unwrap();
        rows.pick(&layout, &Even);
        let slots = |rows: &RowsState| (0..6).map(|place| rows.slot(place)).collect::<Vec<_>>();
        // Place 1 stands for rows that do not exist.
        assert_eq!(slots(&rows), [Some(0), Some(1), None, Some(2), None, None]);
        rows.resize(head(5, 12), 200).unwrap();
        rows.numbers.set_all(3, [7, 8]).unwrap();
        rows.pick(&layout, &Even);
        assert_eq!(slots(&rows), [Some(0), Some(1), None, Some(2), None, Some(3)]);
        assert_eq!(rows.values[0].len(), 4 * 12);
        let moved = RowsHead { absent: Some(0), ..head(5, 12) };
        assert!(rows.resize(moved, 200).is_err());
    }

    #[test]
    fn what_was_taken_takes_memory_again_when_it_changes() {
        let (mut rows, layout) = (RowsState::default(), [VarLayout::whole("t", &[9, 3])]);
        rows.resize(head(3, 12), 200).unwrap();
        rows.numbers.set_all(0, [4, 5, 6]).unwrap();
        rows.pick(&layout, &Even);
        let picked = |rows: &RowsState| rows.picked().collect::<Vec<_>>();
        assert_eq!(picked(&rows), [Some(4), None, Some(6)]);
        rows.forget();
        assert_eq!((picked(&rows), rows.values[0].len()), (vec![], 0));
        rows.resize(head(4, 12), 200).unwrap();
        rows.numbers.set_all(3, [8]).unwrap();
        rows.pick(&layout, &Even);
        // Rows 5 and 6; the one that is new was picked already.
        rows.bring_back(&Places::Run(2..5));
        assert_eq!(picked(&rows), [Some(8), Some(6)]);
        assert_eq!(rows.values[0].len(), 2 * 12);
        assert_eq!(
            [0, 1, 2, 3, 4].map(|place| rows.slot(place)),
            [None, None, None, Some(1), Some(0)]
        );
    }
}
