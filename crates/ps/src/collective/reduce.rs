//! Several values become one, in the order in which they are given.

use std::fmt;
use std::ops::Range;

use tensor::{DType, Number, Tensor};

/// What numbers at the same place become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceOp {
    /// Their sum.
    Sum,
    /// Their product.
    Product,
    /// The largest.
    Max,
    /// The smallest.
    Min,
}

impl fmt::Display for ReduceOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReduceOp::Sum => "sum",
            ReduceOp::Product => "product",
            ReduceOp::Max => "maximum",
            ReduceOp::Min => "minimum",
        })
    }
}

/// One trainer's numbers for a place: some elements of a tensor.
#[derive(Clone, Debug)]
pub(super) struct Contribution<'a> {
    pub(super) tensor: &'a Tensor,
    pub(super) elements: Range<usize>,
}

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
    for (at, share) in shares.iter().enumerate() {
        let Some(own) =
            share.tensor.data::<T>().ok().and_then(|all| all.get(share.elements.clone()))
        else {
            continue;
        };
        let pairs = out.iter_mut().zip(own);
        match (at, reduction) {
            (0, _) => pairs.for_each(|(out, own)| *out = *own),
            (_, ReduceOp::Sum) => pairs.for_each(|(out, own)| *out += *own),
            (_, ReduceOp::Product) => pairs.for_each(|(out, own)| *out *= *own),
            (_, ReduceOp::Max) => {
                pairs.filter(|(out, own)| *own > out).for_each(|(out, own)| *out = *own)
            }
            (_, ReduceOp::Min) => {
                pairs.filter(|(out, own)| *own < out).for_each(|(out, own)| *out = *own)
            }
        }
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
