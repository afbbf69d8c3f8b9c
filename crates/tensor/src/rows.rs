//! Keyed rows (`SelectedRows`): the gradient of a table of which a batch touched a few rows.

use crate::{Element, Error, Result, Shape, Tensor};

/// Row ids with one row of values each; ids may repeat until the rows are merged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// The row of the table each value row belongs to.
    pub ids: Vec<i64>,
    /// Rows of the whole table.
    pub height: i64,
    /// `[ids.len(), width]`.
    pub value: Tensor,
}

/// Memory that merging needs, kept between steps.
#[derive(Debug, Default)]
pub struct MergeScratch {
    /// Open-addressing table: position of an id in `unique`, plus one.
    slots: Vec<u32>,
    unique: Vec<i64>,
    /// For each input row, its position in `unique`.
    target: Vec<u32>,
    /// For each position in `unique`, its place in the output.
    place: Vec<u32>,
}

impl Rows {
    /// Checks that every id is a row of the table.
    pub fn check_ids(&self) -> Result<()> {
        let height = self.height;
        match self.ids.iter().find(|&&row| row < 0 || row >= height) {
            Some(&row) => Err(Error::RowOutOfRange { row, height }),
            None => Ok(()),
        }
    }

    /// How many numbers in a row.
    pub fn width(&self) -> usize {
        self.value.shape().flatten_2d(1).1
    }

    /// Keeps the rows for which `keep` says so, in their order; it is asked with each row's place.
    pub fn retain(&mut self, keep: impl Fn(usize) -> bool) {
        let row_bytes = self.value.bytes().len().checked_div(self.ids.len()).unwrap_or(0);
        let mut n = 0;
        for from in (0..self.ids.len()).filter(|&at| keep(at)) {
            if from != n {
                self.ids[n] = self.ids[from];
                let bytes = self.value.bytes_mut();
                bytes.copy_within(from * row_bytes..(from + 1) * row_bytes, n * row_bytes);
            }
            n += 1;
        }
        self.ids.truncate(n);
        if self.value.is_initialized() {
            self.value.truncate_rows(n);
        }
    }

    /// Makes room for `n` rows like those of `like`, values unspecified; keeps memory.
    pub fn resize_like(&mut self, like: &Rows, n: usize) {
        self.height = like.height;
        let shape = like.value.shape();
        let shape = if shape.rank() == 0 { Shape::from([n, 0]) } else { shape.with_dim(0, n) };
        self.value.resize_as(like.value.dtype(), shape);
    }
}

/// Rows to be merged: row `r` belongs to `ids[r]` and begins at `values[offset + r * stride]`.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a, T> {
    /// The row of the table each row belongs to.
    pub ids: &'a [i64],
    /// Where the rows are.
    pub values: &'a [T],
    /// Elements from one row to the next.
    pub stride: usize,
    /// Elements before the first row.
    pub offset: usize,
}

/// Adds up rows with equal ids over several inputs, in the order listed.
///
/// Ids come out unique: ascending if any id occurred twice, in input order otherwise, as Fluid
/// does it.
pub fn merge<'a, T>(
    inputs: impl Iterator<Item = (&'a [i64], &'a [T])> + Clone,
    width: usize,
    scratch: &mut MergeScratch,
    out: &mut Rows,
) where
    T: Element + std::ops::AddAssign,
{
    scratch.index(inputs.clone().flat_map(|(ids, _)| ids));
    scratch.order(scratch.unique.len() < scratch.target.len());
    add_up(inputs.map(|input| whole(input, width)), width, scratch, out);
}

/// The same with ids always ascending, for who walks a table along with them.
pub fn merge_sorted<'a, T>(
    inputs: impl Iterator<Item = (&'a [i64], &'a [T])> + Clone,
    width: usize,
    scratch: &mut MergeScratch,
    out: &mut Rows,
) where
    T: Element + std::ops::AddAssign,
{
    scratch.index(inputs.clone().flat_map(|(ids, _)| ids));
    scratch.order(true);
    add_up(inputs.map(|input| whole(input, width)), width, scratch, out);
}

/// The same as [`merge`] for rows that lie inside of a wider matrix. A reader that takes each row
/// by itself does without sorted ids: `ordered` is false for it.
pub fn merge_sources<'a, T>(
    inputs: impl Iterator<Item = Source<'a, T>> + Clone,
    width: usize,
    ordered: bool,
    scratch: &mut MergeScratch,
    out: &mut Rows,
) where
    T: Element + std::ops::AddAssign,
{
    scratch.index(inputs.clone().flat_map(|source| source.ids));
    scratch.order(ordered && scratch.unique.len() < scratch.target.len());
    add_up(inputs, width, scratch, out);
}

/// Rows that fill their matrix.
fn whole<'a, T>((ids, values): (&'a [i64], &'a [T]), width: usize) -> Source<'a, T> {
    Source { ids, values, stride: width, offset: 0 }
}

/// Adds each row to its place.
fn add_up<'a, T>(
    inputs: impl Iterator<Item = Source<'a, T>>,
    width: usize,
    scratch: &MergeScratch,
    out: &mut Rows,
) where
    T: Element + std::ops::AddAssign,
{
    let n_unique = scratch.unique.len();
    out.ids.clear();
    out.ids.extend_from_slice(&scratch.unique);
    let data = out.value.resize_zeroed::<T>(Shape::from([n_unique, width]));
    let targets = &mut scratch.target.iter();
    for Source { ids, values, stride, offset } in inputs {
        for (row, &target) in (0..ids.len()).zip(&mut *targets) {
            let start = scratch.place[target as usize] as usize * width;
            let from = offset + row * stride;
            let value = &values[from..from + width];
            for (sum, &v) in data[start..start + width].iter_mut().zip(value) {
                *sum += v;
            }
        }
    }
}

impl MergeScratch {
    /// Numbers the distinct ids in order of first sight.
    fn index<'a>(&mut self, ids: impl Iterator<Item = &'a i64> + Clone) {
        let n = ids.clone().count();
        let n_slots = (n * 2).next_power_of_two().max(16);
        self.slots.clear();
        self.slots.resize(n_slots, 0);
        self.unique.clear();
        self.target.clear();
        for &id in ids {
            let mut at = mix(id) as usize & (n_slots - 1);
            let position = loop {
                match self.slots[at] {
                    0 => {
                        self.unique.push(id);
                        self.slots[at] = self.unique.len() as u32;
                        break self.unique.len() as u32 - 1;
                    }
                    found if self.unique[found as usize - 1] == id => break found - 1,
                    _ => at = (at + 1) & (n_slots - 1),
                }
            };
            self.target.push(position);
        }
    }

    /// Decides where each distinct id goes, and puts `unique` in that order.
    fn order(&mut self, sorted: bool) {
        self.place.clear();
        self.place.extend(0..self.unique.len() as u32);
        if sorted {
            // `slots` has done its duty and becomes the memory of the sort.
            self.slots.clear();
            self.slots.extend(0..self.unique.len() as u32);
            let unique = &self.unique;
            self.slots.sort_unstable_by_key(|&position| unique[position as usize]);
            for (place, &position) in self.slots.iter().enumerate() {
                self.place[position as usize] = place as u32;
            }
            self.unique.sort_unstable();
        }
    }
}

/// Spreads ids over slots; any fixed mixing does, results do not depend on it.
fn mix(id: i64) -> u64 {
    let x = (id as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^ (x >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(inputs: &[(&[i64], &[f32])], ids: &[i64], values: &[f32]) {
        let mut out = Rows::default();
        merge(inputs.iter().copied(), 2, &mut MergeScratch::default(), &mut out);
        assert_eq!(out.ids, ids);
        assert_eq!(out.value.data::<f32>().unwrap(), values);
    }

    #[test]
    fn some_rows_are_kept_in_their_order() {
        let value = Tensor::new([4, 2], &[0.0f32, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5]).unwrap();
        let mut rows = Rows { ids: vec![9, 4, 6, 4], height: 10, value };
        rows.retain(|at| at % 2 == 1);
        assert_eq!(rows.ids, [4, 4]);
        assert_eq!(rows.value, Tensor::new([2, 2], &[1.0f32, 1.5, 3.0, 3.5]).unwrap());
        rows.retain(|_| false);
        assert_eq!((rows.ids.len(), rows.value.dims()), (0, &[0, 2][..]));
    }

    #[test]
    fn adds_duplicates_in_listed_order_and_sorts() {
        let first: (&[i64], &[f32]) = (&[7, 2, 7], &[1.0, 1.0, 2.0, 2.0, 3.0, 3.0]);
        check(&[first, (&[2], &[10.0, 20.0])], &[2, 7], &[12.0, 22.0, 4.0, 4.0]);
    }

    #[test]
    fn keeps_the_order_of_distinct_ids() {
        check(&[(&[7, 2], &[1.0, 1.0, 2.0, 2.0])], &[7, 2], &[1.0, 1.0, 2.0, 2.0]);
    }

    #[test]
    fn sorts_distinct_ids_when_asked() {
        let (ids, values): (&[i64], &[f32]) = (&[7, 2], &[1.0, 1.0, 2.0, 2.0]);
        let mut out = Rows::default();
        merge_sorted([(ids, values)].into_iter(), 2, &mut MergeScratch::default(), &mut out);
        assert_eq!(out.ids, [2, 7]);
        assert_eq!(out.value.data::<f32>().unwrap(), [2.0, 2.0, 1.0, 1.0]);
    }

    #[test]
    fn merges_nothing_to_nothing() {
        check(&[], &[], &[]);
    }

    #[test]
    fn names_an_id_outside_of_the_table() {
        let rows = Rows { ids: vec![1, 9], height: 9, ..Rows::default() };
        assert_eq!(rows.check_ids(), Err(Error::RowOutOfRange { row: 9, height: 9 }));
    }
}
