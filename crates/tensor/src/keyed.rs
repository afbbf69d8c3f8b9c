//! A table of which only some rows exist: the form, in a process without servers, of a table that
//! servers kept by rows, or that no memory holds.

use crate::mix::mix;
use crate::prefetch::prefetch;
use crate::{Element, Error, OtherRows, Result, Rows, Shape, Tensor, is_row};
use crate::{list_or_give_up, room_or_give_up, within_memory};

/// Rows by their numbers in the whole table, and the values of all other rows.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyedTable {
    height: i64,
    /// Numbers of the rows, in the order of their places.
    ids: Vec<i64>,
    /// `[ids.len(), width]`.
    value: Tensor,
    /// Open addressing: the place of a row plus one.
    slots: Vec<u32>,
    others: OtherRows,
}

/// Ids ahead of the one being copied whose rows are asked for.
const AHEAD: usize = 8;

impl KeyedTable {
    /// A table of these rows, which must be distinct rows of float32.
    pub fn new(rows: Rows, others: OtherRows) -> Result<Self> {
        let Rows { ids, height, value } = rows;
        value.data::<f32>()?;
        let n = ids.len();
        let &[_, width] = value.dims() else {
            let expected = Shape::from([n, 1]);
            return Err(Error::ShapeMismatch { expected, actual: value.shape() });
        };
        if value.dims()[0] != n || u32::try_from(n).is_err() {
            let expected = Shape::from([n, width]);
            return Err(Error::ShapeMismatch { expected, actual: value.shape() });
        }
        let n_slots = (n * 2).next_power_of_two().max(16);
        let slots = list_or_give_up(std::iter::repeat_n(0, n_slots));
        let mut table = Self { height, ids, value, slots, others };
        for place in 0..n {
            let row = table.ids[place];
            let slot = table.slot(row);
            if table.slots[slot] != 0 || !is_row(row, height) {
                return Err(Error::RowOutOfRange { row, height });
            }
            table.slots[slot] = place as u32 + 1;
        }
        Ok(table)
    }

    /// A table of which no row exists.
    pub fn empty(height: i64, width: usize, others: OtherRows) -> Result<Self> {
        let value = Tensor::new::<f32>([0, width], &[])?;
        Self::new(Rows { ids: Vec::new(), height, value }, others)
    }

    /// Where rows are among those that exist. Those that do not exist are made, by the rule of the table. The
    /// error is an id without a row in the table.
    pub fn make(&mut self, ids: &[i64]) -> Result<Vec<i64>> {
        let height = self.height;
        if let Some(&row) = ids.iter().find(|&&row| !is_row(row, height)) {
            return Err(Error::RowOutOfRange { row, height });
        }
        if u32::try_from(self.ids.len().saturating_add(ids.len())).is_err() {
            return Err(Error::TooManyElements(vec![self.ids.len() as i64, ids.len() as i64]));
        }
        let n_before = self.ids.len();
        let made = within_memory(|| self.make_rows(ids));
        made.and_then(|made| made).inspect_err(|_| self.forget_from(n_before))
    }

    /// Forgets the rows that are not complete for want of memory.
    fn forget_from(&mut self, n: usize) {
        self.ids.truncate(n);
        self.slots.fill(0);
        for place in 0..n {
            let slot = self.slot(self.ids[place]);
            self.slots[slot] = place as u32 + 1;
        }
    }

    fn make_rows(&mut self, ids: &[i64]) -> Result<Vec<i64>> {
        let (n_before, width) = (self.ids.len(), self.width());
        let mut places = Vec::new();
        room_or_give_up(&mut places, ids.len());
        for &row in ids {
            let slot = self.slot(row);
            if self.slots[slot] == 0 {
                room_or_give_up(&mut self.ids, 1);
                self.ids.push(row);
                self.slots[slot] = self.ids.len() as u32;
                places.push(self.ids.len() as i64 - 1);
                self.settle();
            } else {
                places.push(i64::from(self.slots[slot]) - 1);
            }
        }
        self.value.grow_rows(self.ids.len());
        let new = &mut self.value.data_mut::<f32>()?[n_before * width..];
        for (&row, values) in self.ids[n_before..].iter().zip(new.chunks_exact_mut(width.max(1))) {
            self.others.fill(row, values);
        }
        Ok(places)
    }

    /// Keeps half of the slots empty.
    fn settle(&mut self) {
        if self.ids.len() * 2 <= self.slots.len() {
            return;
        }
        self.slots = list_or_give_up(std::iter::repeat_n(0, self.slots.len() * 2));
        for place in 0..self.ids.len() {
            let slot = self.slot(self.ids[place]);
            self.slots[slot] = place as u32 + 1;
        }
    }

    /// The same table with these rows first, in this order; those that do not exist are made.
    pub fn in_order(&self, ids: &[i64]) -> Result<Self> {
        let mut old = self.clone();
        let places = old.make(ids)?;
        let mut sorted = Self::empty(self.height, self.width(), self.others.clone())?;
        sorted.make(ids)?;
        sorted.make(&old.ids)?;
        let places = places.into_iter().map(|place| place as usize);
        let others = sorted.ids[ids.len()..].iter().filter_map(|&row| old.find(row));
        let row_bytes = self.width() * size_of::<f32>();
        let to = sorted.value.bytes_mut().chunks_exact_mut(row_bytes.max(1));
        for (to, from) in to.zip(places.chain(others)) {
            to.copy_from_slice(&old.value.bytes()[from * row_bytes..][..row_bytes]);
        }
        Ok(sorted)
    }

    /// The rows that exist, to be changed: as many as there are.
    pub fn value_mut(&mut self) -> &mut Tensor {
        &mut self.value
    }

    /// Where a row is, or could be.
    fn slot(&self, row: i64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = mix(row as u64) as usize & mask;
        loop {
            match self.slots[at] {
                0 => return at,
                place if self.ids[place as usize - 1] == row => return at,
                _ => at = (at + 1) & mask,
            }
        }
    }

    /// Rows of the whole table.
    pub fn height(&self) -> i64 {
        self.height
    }

    /// Numbers in a row.
    pub fn width(&self) -> usize {
        self.value.shape().flatten_2d(1).1
    }

    /// The numbers of the rows that exist.
    pub fn ids(&self) -> &[i64] {
        &self.ids
    }

    /// The rows that exist, in the order of [`KeyedTable::ids`].
    pub fn value(&self) -> &Tensor {
        &self.value
    }

    /// The values of all other rows.
    pub fn others(&self) -> &OtherRows {
        &self.others
    }

    /// Bytes in use.
    pub fn n_bytes(&self) -> usize {
        self.value.bytes().len() + self.ids.len() * 8 + self.slots.len() * 4
    }

    /// The place of a row among those that exist.
    pub fn find(&self, row: i64) -> Option<usize> {
        (self.slots[self.slot(row)] as usize).checked_sub(1)
    }

    /// Copies rows to `out`, each `to.stride` numbers after the one before.
    ///
    /// The padding id reads as zeros, and so do rows that do not exist if `is_test`. An id without a
    /// row in the table is the error, with its position.
    pub fn gather<I>(
        &self,
        ids: &[I],
        read: ReadRows,
        out: &mut [f32],
    ) -> std::result::Result<(), usize>
    where
        I: Element + Into<i64>,
    {
        let ReadRows { padding, is_test, stride, offset } = read;
        let is_known = |id: i64| is_row(id, self.height) || Some(id) == padding;
        if let Some(position) = ids.iter().position(|&id| !is_known(id.into())) {
            return Err(position);
        }
        let width = self.width();
        let data = self.value.data::<f32>().unwrap_or(&[]);
        let mask = self.slots.len() - 1;
        for (at, &id) in ids.iter().enumerate() {
            if let Some(&soon) = ids.get(at + AHEAD) {
                prefetch(&self.slots, mix(soon.into() as u64) as usize & mask);
            }
            let id = id.into();
            let out = &mut out[offset + at * stride..][..width];
            if Some(id) == padding {
                out.fill(0.0);
                continue;
            }
            match self.find(id) {
                Some(place) => out.copy_from_slice(&data[place * width..][..width]),
                None if is_test => out.fill(0.0),
                None => self.others.fill(id, out),
            }
        }
        Ok(())
    }

    /// The whole table, if there is memory for it.
    pub fn to_dense(&self) -> Result<Tensor> {
        let (height, width) = (self.height.max(0) as usize, self.width());
        let mut whole = Tensor::default();
        let out = whole.try_resize::<f32>(Shape::from([height, width]))?;
        if width > 0 {
            let data = self.value.data::<f32>()?;
            for (row, out) in (0..self.height).zip(out.chunks_exact_mut(width)) {
                match self.find(row) {
                    Some(place) => out.copy_from_slice(&data[place * width..][..width]),
                    None => self.others.fill(row, out),
                }
            }
        }
        Ok(whole)
    }
}

/// How rows of a [`KeyedTable`] are read.
#[derive(Clone, Copy, Debug)]
pub struct ReadRows {
    /// This id reads as zeros.
    pub padding: Option<i64>,
    /// Rows that do not exist read as zeros, whatever the rule of the table.
    pub is_test: bool,
    /// Numbers from one row of the result to the next.
    pub stride: usize,
    /// Numbers before the first.
    pub offset: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dealt, Distribution, OtherRow, RowInit, RowStart, TakenIn};

    const HEIGHT: i64 = 1 << 40;

    fn rows(ids: &[i64]) -> Rows {
        let values: Vec<f32> = ids.iter().flat_map(|&id| [id as f32, 0.5]).collect();
        Rows {
            ids: ids.to_vec(),
            height: HEIGHT,
            value: Tensor::new([ids.len(), 2], &values).unwrap(),
        }
    }

    fn other(start: RowStart, taken_in: TakenIn) -> OtherRow {
        OtherRow { start, first: 0, taken_in }
    }

    fn read(table: &KeyedTable, ids: &[i64], is_test: bool) -> Vec<f32> {
        let mut out = vec![-1.0; ids.len() * 2];
        let read = ReadRows { padding: Some(7), is_test, stride: 2, offset: 0 };
        table.gather(ids, read, &mut out).unwrap();
        out
    }

    #[test]
    fn rows_are_made_once_by_the_rule() {
        let shape = Distribution::Uniform(-1.0, 1.0);
        let init = RowInit::Drawn { shape, seed: 9, offset: 0 };
        let others = vec![other(RowStart::Init(init), TakenIn::All)];
        let others = OtherRows { parts: others, dealt: Dealt::Hash };
        let mut table = KeyedTable::empty(i64::MAX, 2, others).unwrap();
        let ids: Vec<i64> =
            (0..1000).map(|k: i64| k.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64)).collect();
        let before = read(&table, &ids, false);
        assert_eq!(table.make(&ids[..3]).unwrap(), [0, 1, 2]);
        assert_eq!(table.make(&[-1, ids[1], -1]).unwrap(), [3, 1, 3]);
        table.make(&ids).unwrap();
        assert_eq!((table.ids().len(), read(&table, &ids, false)), (1001, before));
        table.value_mut().data_mut::<f32>().unwrap()[2..4].copy_from_slice(&[5.0, 6.0]);
        let turned: Vec<i64> = ids.iter().rev().take(999).copied().collect();
        let again = table.in_order(&turned).unwrap();
        assert_eq!((&again.ids()[..999], again.ids().len()), (&turned[..], 1001));
        assert_eq!(read(&again, &ids, false), read(&table, &ids, false));
        assert_eq!(read(&again, &[ids[1]], false), [5.0, 6.0]);
        let mut low = KeyedTable::new(rows(&[3]), OtherRows::default()).unwrap();
        assert_eq!(low.make(&[5, -1]), Err(Error::RowOutOfRange { row: -1, height: HEIGHT }));
        assert_eq!(low.ids(), [3]);
    }

    #[test]
    fn rows_that_exist_are_found_and_others_follow_the_rule() {
        let many: Vec<i64> = (0..1000).map(|k| k * 1_000_003).collect();
        let half = other(RowStart::Init(RowInit::Constant(0.25)), TakenIn::All);
        let others = OtherRows { parts: vec![half], dealt: Dealt::Hash };
        let table = KeyedTable::new(rows(&many), others).unwrap();
        for &id in &many {
            assert_eq!(read(&table, &[id], false), [id as f32, 0.5]);
        }
        assert_eq!(read(&table, &[1, 7, HEIGHT - 1], false), [0.25, 0.25, 0.0, 0.0, 0.25, 0.25]);
        assert_eq!(read(&table, &[1, 0], true), [0.0, 0.0, 0.0, 0.5]);
        assert!(table.n_bytes() < 40_000);
        for bad in [-1, HEIGHT, i64::MIN] {
            let read = ReadRows { padding: None, is_test: false, stride: 2, offset: 0 };
            assert_eq!(table.gather(&[0, bad], read, &mut [0.0; 4]), Err(1));
        }
        assert!(table.to_dense().is_err(), "nobody has so much memory");
    }

    #[test]
    fn each_part_has_its_own_rule() {
        let row = |x: f32| other(RowStart::Row(vec![x, -x]), TakenIn::All);
        let dealt = Dealt::Ranges(vec![0, 100]);
        let others = OtherRows { parts: vec![row(1.0), row(2.0)], dealt };
        let table = KeyedTable::new(rows(&[5]), others).unwrap();
        assert_eq!(read(&table, &[99, 100, 5], false), [1.0, -1.0, 2.0, -2.0, 5.0, 0.5]);
        let others = OtherRows { parts: vec![row(1.0), row(2.0)], dealt: Dealt::Hash };
        let table = KeyedTable::new(rows(&[5]), others).unwrap();
        let by_hash = |id: i64| 1.0 + (mix(id as u64) % 2) as f32;
        (10..40).for_each(|id| assert_eq!(read(&table, &[id], false)[0], by_hash(id)));
    }

    #[test]
    fn drawn_rows_are_what_a_part_of_the_whole_has() {
        let shape = Distribution::Uniform(-1.0, 1.0);
        let part = |first: i64| OtherRow {
            start: RowStart::Init(RowInit::Drawn { shape, seed: 9, offset: 2 * first as u64 }),
            first,
            taken_in: TakenIn::Drawn { salt: 3, share: 0.5 },
        };
        let others =
            OtherRows { parts: vec![part(0), part(50)], dealt: Dealt::Ranges(vec![0, 50]) };
        let small = Rows { height: 100, ..rows(&[5]) };
        let dense = KeyedTable::new(small, others).unwrap().to_dense().unwrap();
        let mut whole = [0.0f32; 200];
        crate::rng::uniform(&mut crate::rng::Rng::new(9), -1.0, 1.0, &mut whole);
        let got = dense.data::<f32>().unwrap();
        let n_drawn = (0..100).filter(|&row| got[row * 2..][..2] == whole[row * 2..][..2]).count();
        let n_zero = (0..100).filter(|&row| got[row * 2..][..2] == [0.0, 0.0]).count();
        assert!(n_drawn > 30 && n_zero > 30 && n_drawn + n_zero == 99, "{n_drawn} {n_zero}");
    }

    #[test]
    fn rows_that_are_no_table_are_refused() {
        for ids in [&[3i64, 3][..], &[-1], &[HEIGHT]] {
            let error = KeyedTable::new(rows(ids), OtherRows::default()).unwrap_err();
            assert!(matches!(error, Error::RowOutOfRange { .. }), "{error}");
        }
        let wide = Rows { ids: vec![1], ..rows(&[1, 2]) };
        assert!(KeyedTable::new(wide, OtherRows::default()).is_err());
    }
}
