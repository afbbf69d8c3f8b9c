//! Moving data without looking at it: blocks of bytes at regular distances.
//!
//! Joining, splitting, stacking and cutting are such moves for every element type alike.

use std::ops::Range;

use tensor::{DType, RANK_MAX, Shape, Tensor};

use crate::error::Result;

/// Where a tensor's bytes lie in one that it is a section of: strips at regular distances.
#[derive(Clone, Copy, Debug)]
pub(super) struct Section {
    n_strips: usize,
    /// Bytes of a strip.
    len: usize,
    /// Where the first strip begins in the joined tensor.
    offset: usize,
    /// How far strips are apart there.
    stride: usize,
}

impl Section {
    /// A tensor of this shape, `at` steps after the beginning of `total` along `axis`.
    pub(super) fn new(dtype: DType, shape: Shape, axis: usize, total: usize, at: usize) -> Self {
        let around = shape.around(axis);
        let step = around.inner * dtype.size();
        Self {
            n_strips: around.outer,
            len: around.size * step,
            offset: at * step,
            stride: total * step,
        }
    }

    /// Copies the tensor into the joined one.
    pub(super) fn join(self, tensor: &[u8], joined: &mut [u8]) {
        for (strip, at) in self.strips() {
            joined[at].copy_from_slice(&tensor[strip]);
        }
    }

    /// Copies the tensor out of the joined one.
    pub(super) fn cut(self, joined: &[u8], tensor: &mut [u8]) {
        for (strip, at) in self.strips() {
            tensor[strip].copy_from_slice(&joined[at]);
        }
    }

    /// Each strip: its place in the tensor, and in the joined one.
    fn strips(self) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
        let n = if self.len == 0 { 0 } else { self.n_strips };
        (0..n).map(move |i| {
            let (alone, joined) = (i * self.len, self.offset + i * self.stride);
            (alone..alone + self.len, joined..joined + self.len)
        })
    }
}

/// One dimension of a box inside of a tensor.
#[derive(Clone, Copy, Debug)]
pub(super) struct BoxDim {
    /// The size of the tensor.
    pub(super) size: usize,
    /// Where the box starts.
    pub(super) start: usize,
    /// How long the box is.
    pub(super) len: usize,
}

/// Calls `f(place in the tensor, place in the box, run)` for each run of elements that lies
/// together in both.
pub(super) fn for_each_run(region: &[BoxDim], mut f: impl FnMut(usize, usize, usize)) {
    let Some((&BoxDim { size, start, len: run }, outer)) = region.split_last() else { return };
    if region.iter().any(|dim| dim.len == 0) {
        return;
    }
    let mut at = [0; RANK_MAX];
    let mut in_box = 0;
    loop {
        let row = outer.iter().zip(&at).fold(0, |row, (dim, i)| row * dim.size + dim.start + i);
        f(row * size + start, in_box, run);
        in_box += run;
        if !advance(&mut at[..outer.len()], |axis| outer[axis].len) {
            return;
        }
    }
}

/// Counts `at` up by one, its last place first; false when it starts over.
pub(super) fn advance(at: &mut [usize], size: impl Fn(usize) -> usize) -> bool {
    for axis in (0..at.len()).rev() {
        at[axis] += 1;
        if at[axis] < size(axis) {
            return true;
        }
        at[axis] = 0;
    }
    false
}

/// A shape with one dimension more, of this size, before `axis`.
pub(super) fn insert(shape: Shape, axis: usize, size: usize) -> Result<Shape> {
    let mut dims = shape.to_i64();
    dims.insert(axis, size as i64);
    Ok(Shape::from_dims(&dims)?)
}

/// A shape without one of its dimensions; [1] if none is left.
pub(super) fn remove(shape: Shape, axis: usize) -> Shape {
    let mut dims = shape.dims().to_vec();
    dims.remove(axis);
    if dims.is_empty() { Shape::from([1]) } else { Shape::new(&dims) }
}

/// Copies a tensor's bytes under another shape of as many elements.
pub(super) fn copy_as(from: &Tensor, shape: Shape, to: &mut Tensor) {
    debug_assert_eq!(from.len(), shape.n_elements(), "the caller has checked it");
    to.resize_as(from.dtype(), shape);
    to.bytes_mut().copy_from_slice(from.bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_joined_and_cut_out_again() {
        let section = Section::new(DType::U8, Shape::from([2, 2]), 1, 3, 1);
        let (mut joined, mut alone) = ([0; 6], [0; 4]);
        section.join(&[1, 2, 3, 4], &mut joined);
        assert_eq!(joined, [0, 1, 2, 0, 3, 4]);
        section.cut(&joined, &mut alone);
        assert_eq!(alone, [1, 2, 3, 4]);
    }

    #[test]
    fn a_box_is_walked_run_by_run() {
        let mut runs = Vec::new();
        let dim = |size, start, len| BoxDim { size, start, len };
        let region = [dim(2, 0, 2), dim(3, 1, 2), dim(4, 2, 2)];
        for_each_run(&region, |x, b, n| runs.push((x, b, n)));
        assert_eq!(runs, [(6, 0, 2), (10, 2, 2), (18, 4, 2), (22, 6, 2)]);
        runs.clear();
        for_each_run(&[dim(2, 0, 0), dim(3, 1, 2)], |x, b, n| runs.push((x, b, n)));
        assert!(runs.is_empty());
        for_each_run(&[dim(5, 2, 2)], |x, b, n| runs.push((x, b, n)));
        assert_eq!(runs, [(2, 0, 2)]);
    }
}
