//! Keyed rows (`SelectedRows`): the gradient of a table of which a batch touched a few rows.

use crate::{Element, Error, Result, Shape, Tensor, resize_or_give_up, room_or_give_up};

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
    /// Ids with their positions in `unique`, while they are sorted.
    pairs: Vec<(i64, u32)>,
    /// The other half of a sort.
    others: Vec<(i64, u32)>,
}

/// Whether an id is a row of a table of `height` rows. The highest table, of 2⁶³ - 1, has a row for each number of 64 bits:
/// ids of 2⁶³ and more have the bits of negative ones.
pub fn is_row(id: i64, height: i64) -> bool {
    (0..height).contains(&id) || height == i64::MAX
}

impl Rows {
    /// Checks that every id is a row of the table.
    pub fn check_ids(&self) -> Result<()> {
        let height = self.height;
        match self.ids.iter().find(|&&row| !is_row(row, height)) {
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
    add_up(inputs.map(|(ids, values)| whole(ids, values, width)), width, scratch, out);
}

/// Adds up rows as [`merge`] does, with ascending ids, for code that walks along a table.
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
    add_up(inputs.map(|(ids, values)| whole(ids, values, width)), width, scratch, out);
}

/// Adds up rows as [`merge`] does, for rows that lie inside of a wider matrix. A reader that takes each row
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
fn whole<'a, T>(ids: &'a [i64], values: &'a [T], width: usize) -> Source<'a, T> {
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
    room_or_give_up(&mut out.ids, n_unique);
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
    /// The distinct ids in order of first sight, and for each id its position among them.
    pub fn distinct<'a>(&mut self, ids: impl Iterator<Item = &'a i64> + Clone) -> (&[i64], &[u32]) {
        self.index(ids);
        (&self.unique, &self.target)
    }

    /// Numbers the distinct ids in order of first sight.
    fn index<'a>(&mut self, ids: impl Iterator<Item = &'a i64> + Clone) {
        let n = ids.clone().count();
        let n_slots = (n * 2).next_power_of_two().max(16);
        self.slots.clear();
        resize_or_give_up(&mut self.slots, n_slots, 0);
        self.unique.clear();
        self.target.clear();
        room_or_give_up(&mut self.target, n);
        for &id in ids {
            let mut at = mix(id) as usize & (n_slots - 1);
            let position = loop {
                match self.slots[at] {
                    0 => {
                        room_or_give_up(&mut self.unique, 1);
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
        room_or_give_up(&mut self.place, self.unique.len());
        self.place.extend(0..self.unique.len() as u32);
        if sorted {
            self.pairs.clear();
            room_or_give_up(&mut self.pairs, self.unique.len());
            self.pairs.extend(self.unique.iter().copied().zip(0..));
            sort_by_id(&mut self.pairs, &mut self.others);
            for (place, &(id, position)) in self.pairs.iter().enumerate() {
                self.place[position as usize] = place as u32;
                self.unique[place] = id;
            }
        }
    }
}

/// Bits of an id that one round of [`sort_by_id`] looks at.
const DIGIT_BITS: u32 = 11;
/// With so few, or with ids of more digits, comparing is cheaper.
const PAIRS_MIN: usize = 128;
const DIGITS_MAX: u32 = 4;

/// Sorts by distinct ids, digit by digit, the lowest first: a batch's ids are numbers of a few
/// digits, and this takes a fraction of the time of comparing them.
fn sort_by_id(pairs: &mut Vec<(i64, u32)>, others: &mut Vec<(i64, u32)>) {
    let all_bits = pairs.iter().fold(0, |bits, (id, _)| bits | *id as u64);
    let n_digits = (u64::BITS - all_bits.leading_zeros()).div_ceil(DIGIT_BITS);
    if pairs.len() < PAIRS_MIN || n_digits > DIGITS_MAX {
        return pairs.sort_unstable();
    }
    resize_or_give_up(others, pairs.len(), (0, 0));
    for digit in 0..n_digits {
        const N: usize = 1 << DIGIT_BITS;
        let digit = |id: i64| (id >> (digit * DIGIT_BITS)) as usize & (N - 1);
        let mut starts = [0u32; N];
        pairs.iter().for_each(|(id, _)| starts[digit(*id)] += 1);
        let mut n = 0;
        starts.iter_mut().for_each(|start| n += std::mem::replace(start, n));
        for &pair in &*pairs {
            let start = &mut starts[digit(pair.0)];
            others[*start as usize] = pair;
            *start += 1;
        }
        std::mem::swap(pairs, others);
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
    fn many_ids_are_sorted_whatever_their_size() {
        for shift in [0, 9, 20, 33, 40, 62] {
            let ids: Vec<i64> =
                (0..500u64).map(|k| (mix(k as i64) >> (63 - shift)) as i64).collect();
            let ids: Vec<i64> = [&ids[..], &ids[..100], &[0, i64::MAX >> (62 - shift)]].concat();
            let values: Vec<f32> = (0..ids.len()).map(|k| k as f32).collect();
            let mut expected = std::collections::BTreeMap::new();
            for (&id, &value) in ids.iter().zip(&values) {
                *expected.entry(id).or_insert(0.0) += value;
            }
            let mut out = Rows::default();
            let input = [(&ids[..], &values[..])].into_iter();
            merge_sorted(input, 1, &mut MergeScratch::default(), &mut out);
            assert_eq!(out.ids, expected.keys().copied().collect::<Vec<_>>());
            let sums: Vec<f32> = expected.into_values().collect();
            assert_eq!(out.value.data::<f32>().unwrap(), sums);
        }
    }

    #[test]
    fn distinct_ids_are_numbered_as_they_come() {
        let mut scratch = MergeScratch::default();
        let (unique, positions) = scratch.distinct([7, 2, 7, -1, 2].iter());
        assert_eq!((unique, positions), (&[7, 2, -1][..], &[0, 1, 0, 2, 1][..]));
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
