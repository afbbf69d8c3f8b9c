//! Several values become one, in the order in which they are given.

use std::ops::Range;

use tensor::{DType, Number, ReduceOp, Tensor, wide};

/// One trainer's numbers for a place: some elements of a tensor.
#[derive(Clone, Debug)]
pub(super) struct Contribution<'a> {
    pub(super) tensor: &'a Tensor,
    pub(super) elements: Range<usize>,
}

impl<'a> Contribution<'a> {
    fn numbers<T: Number>(&self) -> Option<&'a [T]> {
        self.tensor.data::<T>().ok()?.get(self.elements.clone())
    }
}

/// So many numbers are added up at once: they stay in the nearest cache meanwhile.
const BLOCK: usize = 2048;

/// Whether numbers of a type can be reduced.
pub(super) fn can_reduce(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64 | DType::I32 | DType::I64)
}

/// Fills elements of `out` with what the shares come to: the first, then the second on it, and so on.
pub(super) fn reduce(
    reduction: ReduceOp,
    shares: &[Contribution<'_>],
    out: &mut Tensor,
    place: Range<usize>,
) {
    match out.dtype() {
        DType::F32 => reduce_as::<f32>(reduction, shares, out, place),
        DType::F64 => reduce_as::<f64>(reduction, shares, out, place),
        DType::I32 => reduce_as::<i32>(reduction, shares, out, place),
        DType::I64 => reduce_as::<i64>(reduction, shares, out, place),
        _ => {}
    }
}

fn reduce_as<T: Number>(
    reduction: ReduceOp,
    shares: &[Contribution<'_>],
    out: &mut Tensor,
    place: Range<usize>,
) {
    let Some(out) = out.data_mut::<T>().ok().and_then(|out| out.get_mut(place)) else { return };
    // Shares of another length were refused when they came.
    let shares: Vec<&[T]> = shares
        .iter()
        .filter_map(Contribution::numbers)
        .filter(|own: &&[T]| own.len() == out.len())
        .collect();
    wide(|| reduce_blocks(reduction, &shares, out));
}

#[inline(always)]
fn reduce_blocks<T: Number>(reduction: ReduceOp, shares: &[&[T]], out: &mut [T]) {
    let Some((first, others)) = shares.split_first() else { return };
    let starts = (0..).step_by(BLOCK);
    for (start, out) in starts.zip(out.chunks_mut(BLOCK)) {
        let end = start + out.len();
        let (first, mut others) =
            (&first[start..end], others.iter().map(|other| &other[start..end]));
        match (others.next(), reduction) {
            (None, _) => out.copy_from_slice(first),
            // One pass instead of two: there are mostly two.
            (Some(second), ReduceOp::Sum) => {
                for ((out, &first), &second) in out.iter_mut().zip(first).zip(second) {
                    let mut sum = first;
                    sum += second;
                    *out = sum;
                }
            }
            (Some(second), _) => {
                out.copy_from_slice(first);
                add(reduction, second, out);
            }
        }
        others.for_each(|other| add(reduction, other, out));
    }
}

#[inline(always)]
fn add<T: Number>(reduction: ReduceOp, own: &[T], out: &mut [T]) {
    let pairs = out.iter_mut().zip(own);
    match reduction {
        ReduceOp::Sum => pairs.for_each(|(out, own)| *out += *own),
        ReduceOp::Product => pairs.for_each(|(out, own)| *out *= *own),
        ReduceOp::Max => pairs.filter(|(out, own)| *own > out).for_each(|(out, own)| *out = *own),
        ReduceOp::Min => pairs.filter(|(out, own)| *own < out).for_each(|(out, own)| *out = *own),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_reduced_in_order() {
        let shares =
            [[1e8f32, 1.0], [1.0, 5.0], [-1e8, 3.0]].map(|x| Tensor::new([2], &x).unwrap());
        let shares: Vec<Contribution<'_>> =
            shares.iter().map(|tensor| Contribution { tensor, elements: 0..2 }).collect();
        let check = |reduction, expected: [f32; 2]| {
            let mut out = Tensor::full([4], 7.0f32);
            reduce(reduction, &shares, &mut out, 1..3);
            assert_eq!(out.data::<f32>().unwrap(), [7.0, expected[0], expected[1], 7.0]);
        };
        // In another order the first would be 1.
        check(ReduceOp::Sum, [0.0, 9.0]);
        check(ReduceOp::Product, [-1e16, 15.0]);
        check(ReduceOp::Max, [1e8, 5.0]);
        check(ReduceOp::Min, [-1e8, 1.0]);
    }
}
