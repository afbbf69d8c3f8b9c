//! Fluid's broadcasting: the shorter shape lines up with a run of the longer one's dimensions,
//! starting at `axis` (-1: on the right), and a size of 1 meets any other size.
//!
//! A [`Broadcast`] merges neighbouring dimensions in which the same sides move: both, only X, or
//! only Y. The remaining dimensions are walked in segments, so that kernels are loops over slices:
//! equal shapes are one segment, a bias along the last dimension is one segment per row.

use std::ops::AddAssign;

use tensor::{Element, RANK_MAX, Shape};

use super::OpOnRows;

/// Whether an op on X and Y computes each sample alone: Y has a row for each of them, too, or is the same for all.
pub(super) fn is_by_sample(op: &OpOnRows<'_>) -> bool {
    let (Some(x), Some(y)) = (op.rank("X"), op.rank("Y")) else { return false };
    let axis = op.attrs().int("axis", -1).unwrap_or(-1);
    let axis = if axis == -1 { x - y } else { axis };
    if op.all_rows("Y") {
        return op.all_rows("X") && axis == 0;
    }
    let first = op.dims("Y").and_then(|dims| dims.first());
    op.all_rows("X") && (axis > 0 || first.is_some_and(|&size| size == 1))
}

/// How the elements of X and Y meet in the result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Broadcast {
    shape: Shape,
    x: Shape,
    y: Shape,
    /// Outermost first; sizes of 1 are left out.
    dims: [Dim; RANK_MAX],
    n_dims: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Dim {
    size: usize,
    x_moves: bool,
    y_moves: bool,
}

/// A stretch of the result, and where its operands begin.
#[derive(Clone, Copy, Debug, Default)]
struct Segment {
    out: usize,
    x: usize,
    y: usize,
    len: usize,
}

/// An operand's part of a segment: a number per place, or one for all.
enum SegmentOperand<'a, T> {
    Many(&'a [T]),
    One(T),
}

impl Broadcast {
    /// How X and Y meet, or `None` if they do not fit.
    pub(super) fn of(x: Shape, y: Shape, axis: i64) -> Option<Self> {
        let dims = [Dim::default(); RANK_MAX];
        let mut plan = Self { shape: x, x, y, dims, n_dims: 0 };
        if x == y {
            plan.push(Dim { size: x.n_elements(), x_moves: true, y_moves: true });
            return Some(plan);
        }
        let pairs = Pairs::line_up(x.dims(), y.dims(), axis)?;
        let mut sizes = [0; RANK_MAX];
        for (size, &(x, y)) in sizes.iter_mut().zip(pairs.list()) {
            *size = usize::try_from(meet(x, y)?).ok()?;
            plan.push(Dim { size: *size, x_moves: x != 1, y_moves: y != 1 });
        }
        plan.shape = Shape::new(&sizes[..pairs.rank]);
        Some(plan)
    }

    fn push(&mut self, dim: Dim) {
        if dim.size == 1 {
            return;
        }
        match self.dims[..self.n_dims].last_mut() {
            Some(last) if (last.x_moves, last.y_moves) == (dim.x_moves, dim.y_moves) => {
                last.size *= dim.size;
            }
            _ => {
                self.dims[self.n_dims] = dim;
                self.n_dims += 1;
            }
        }
    }

    /// The shape of the result.
    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    /// The plan with X and Y in each other's place.
    pub(super) fn swapped(mut self) -> Self {
        std::mem::swap(&mut self.x, &mut self.y);
        for dim in &mut self.dims {
            std::mem::swap(&mut dim.x_moves, &mut dim.y_moves);
        }
        self
    }

    /// `out = f(x, y)` wherever they meet. Slices are as long as the planned shapes.
    pub(super) fn zip<T: Element, U>(
        &self,
        x: &[T],
        y: &[T],
        out: &mut [U],
        f: impl Fn(T, T) -> U,
    ) {
        self.zip_3([x, y, y], out, |x, y, _| f(x, y));
    }

    /// `out = f(x, y, z)` wherever they meet; the third operand lies as Y does.
    pub(super) fn zip_3<T: Element, U>(
        &self,
        [x, y, z]: [&[T]; 3],
        out: &mut [U],
        f: impl Fn(T, T, T) -> U,
    ) {
        self.for_each(|at| {
            let out = out[at.out..at.out + at.len].iter_mut();
            match (self.x_part(x, at), self.y_part(y, at), self.y_part(z, at)) {
                (SegmentOperand::Many(x), SegmentOperand::Many(y), SegmentOperand::Many(z)) => {
                    out.zip(x).zip(y).zip(z).for_each(|(((o, &x), &y), &z)| *o = f(x, y, z));
                }
                (SegmentOperand::One(x), SegmentOperand::Many(y), SegmentOperand::Many(z)) => {
                    out.zip(y).zip(z).for_each(|((o, &y), &z)| *o = f(x, y, z));
                }
                (SegmentOperand::Many(x), SegmentOperand::One(y), SegmentOperand::One(z)) => {
                    out.zip(x).for_each(|(o, &x)| *o = f(x, y, z));
                }
                (x, y, z) => {
                    let x = x.first();
                    let y = y.first();
                    let z = z.first();
                    out.for_each(|o| *o = f(x, y, z));
                }
            }
        });
    }

    /// Sums `f(x, y, a, b)` into the element of X it came from; `a` and `b` lie as the result does.
    pub(super) fn sum_into_x<T: Element + AddAssign>(
        &self,
        [x, y, a, b]: [&[T]; 4],
        target: &mut [T],
        f: impl Fn(T, T, T, T) -> T,
    ) {
        if self.x == self.shape {
            return self.join_x([x, y, a, b], target, &f, |old, new| *old = new);
        }
        target.fill(T::zeroed());
        self.join_x([x, y, a, b], target, &f, |old, new| *old += new);
    }

    fn join_x<T: Element>(
        &self,
        [x, y, a, b]: [&[T]; 4],
        target: &mut [T],
        f: &impl Fn(T, T, T, T) -> T,
        join: impl Fn(&mut T, T),
    ) {
        self.for_each(|at| {
            let target = &mut target[at.x..];
            let whole = at.out..at.out + at.len;
            let ab = a[whole.clone()].iter().zip(&b[whole]);
            match (self.x_part(x, at), self.y_part(y, at)) {
                (SegmentOperand::Many(x), SegmentOperand::Many(y)) => {
                    let values = x.iter().zip(y).zip(ab).map(|((&x, &y), (&a, &b))| f(x, y, a, b));
                    target.iter_mut().zip(values).for_each(|(old, new)| join(old, new));
                }
                (SegmentOperand::Many(x), SegmentOperand::One(y)) => {
                    let values = x.iter().zip(ab).map(|(&x, (&a, &b))| f(x, y, a, b));
                    target.iter_mut().zip(values).for_each(|(old, new)| join(old, new));
                }
                (SegmentOperand::One(x), SegmentOperand::Many(y)) => {
                    let values = y.iter().zip(ab).map(|(&y, (&a, &b))| f(x, y, a, b));
                    values.for_each(|new| join(&mut target[0], new));
                }
                (SegmentOperand::One(x), SegmentOperand::One(y)) => {
                    ab.for_each(|(&a, &b)| join(&mut target[0], f(x, y, a, b)));
                }
            }
        });
    }

    /// Joins `values`, which lie as the result does, into the element of Y they meet.
    pub(super) fn reduce_to_y<T: Element>(
        &self,
        values: &[T],
        target: &mut [T],
        join: impl Fn(T, T) -> T,
    ) {
        self.for_each(|at| {
            let (values, target) = (&values[at.out..at.out + at.len], &mut target[at.y..]);
            if self.inner().y_moves {
                target.iter_mut().zip(values).for_each(|(old, &new)| *old = join(*old, new));
            } else {
                target[0] = values.iter().fold(target[0], |old, &new| join(old, new));
            }
        });
    }

    /// The dimension that segments run along.
    fn inner(&self) -> Dim {
        match self.dims[..self.n_dims].last() {
            Some(&dim) => dim,
            None => Dim { size: 1, x_moves: false, y_moves: false },
        }
    }

    fn x_part<'a, T: Copy>(&self, x: &'a [T], at: Segment) -> SegmentOperand<'a, T> {
        SegmentOperand::of(x, at.x, self.inner().x_moves.then_some(at.len))
    }

    fn y_part<'a, T: Copy>(&self, y: &'a [T], at: Segment) -> SegmentOperand<'a, T> {
        SegmentOperand::of(y, at.y, self.inner().y_moves.then_some(at.len))
    }

    /// Calls `f` for each segment, in the order of the result.
    fn for_each(&self, mut f: impl FnMut(Segment)) {
        if self.shape.n_elements() == 0 {
            return;
        }
        let outer = &self.dims[..self.n_dims.saturating_sub(1)];
        let inner = self.inner();
        let step = |moves: bool, size: usize| if moves { size } else { 1 };
        // How far one step along each outer dimension goes.
        let mut strides = [(0, 0); RANK_MAX];
        let (mut x, mut y) = (step(inner.x_moves, inner.size), step(inner.y_moves, inner.size));
        for (stride, dim) in strides.iter_mut().zip(outer).rev() {
            *stride = (if dim.x_moves { x } else { 0 }, if dim.y_moves { y } else { 0 });
            x *= step(dim.x_moves, dim.size);
            y *= step(dim.y_moves, dim.size);
        }
        let mut index = [0; RANK_MAX];
        let mut at = Segment { len: inner.size, ..Segment::default() };
        loop {
            f(at);
            at.out += at.len;
            // Counts up like an odometer: the last outer dimension turns fastest.
            let mut turning = outer.len();
            loop {
                let Some(k) = turning.checked_sub(1) else { return };
                let (x, y) = strides[k];
                index[k] += 1;
                (at.x, at.y) = (at.x + x, at.y + y);
                if index[k] < outer[k].size {
                    break;
                }
                (at.x, at.y) = (at.x - x * outer[k].size, at.y - y * outer[k].size);
                index[k] = 0;
                turning = k;
            }
        }
    }
}

impl<'a, T: Copy> SegmentOperand<'a, T> {
    fn of(data: &'a [T], start: usize, len: Option<usize>) -> Self {
        match len {
            Some(len) => SegmentOperand::Many(&data[start..start + len]),
            None => SegmentOperand::One(data[start]),
        }
    }

    fn first(&self) -> T {
        match self {
            SegmentOperand::Many(data) => data[0],
            SegmentOperand::One(value) => *value,
        }
    }
}

/// The shape of the result when some sizes (-1) are not known yet; `None` if X and Y cannot fit.
pub(super) fn dims(x: &[i64], y: &[i64], axis: i64) -> Option<Vec<i64>> {
    if x == y {
        return Some(x.to_vec());
    }
    let pairs = Pairs::line_up(x, y, axis)?;
    pairs.list().iter().map(|&(x, y)| meet(x, y)).collect()
}

/// The size that two sizes give together; a known one wins over an unknown one.
fn meet(x: i64, y: i64) -> Option<i64> {
    match (x, y) {
        _ if x == y => Some(x),
        (1, other) | (other, 1) => Some(other),
        (-1, known) | (known, -1) => Some(known),
        _ => None,
    }
}

/// The sizes of X and Y in each dimension of the result.
struct Pairs {
    sizes: [(i64, i64); RANK_MAX],
    rank: usize,
}

impl Pairs {
    fn line_up<D: Copy + TryInto<i64>>(x: &[D], y: &[D], axis: i64) -> Option<Self> {
        let y_is_short = y.len() <= x.len();
        let (long, short) = if y_is_short { (x, y) } else { (y, x) };
        let rank = long.len();
        if rank > RANK_MAX {
            return None;
        }
        let start = if axis == -1 { rank - short.len() } else { usize::try_from(axis).ok()? };
        let mut sizes = [(1, 1); RANK_MAX];
        for (pair, &size) in sizes.iter_mut().zip(long) {
            pair.0 = size.try_into().ok()?;
        }
        for (k, &size) in short.iter().enumerate() {
            let size = size.try_into().ok()?;
            match sizes[..rank].get_mut(start.checked_add(k)?) {
                Some(pair) => pair.1 = size,
                // Sizes of 1 may hang over the end.
                None if size == 1 => {}
                None => return None,
            }
        }
        if !y_is_short {
            sizes.iter_mut().for_each(|pair| *pair = (pair.1, pair.0));
        }
        Some(Self { sizes, rank })
    }

    fn list(&self) -> &[(i64, i64)] {
        &self.sizes[..self.rank]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds 0, 1, 2, … and 0, 10, 20, … in these shapes.
    #[track_caller]
    fn check(x: &[usize], y: &[usize], axis: i64, expected: Option<(&[usize], &[i64])>) {
        let plan = Broadcast::of(Shape::new(x), Shape::new(y), axis);
        let numbers = |dims: &[usize], by: i64| -> Vec<i64> {
            (0..dims.iter().product::<usize>() as i64).map(|i| i * by).collect()
        };
        let sum = plan.map(|plan| {
            let mut out = vec![-1; plan.shape().n_elements()];
            plan.zip(&numbers(x, 1), &numbers(y, 10), &mut out, |x, y| x + y);
            (plan.shape(), out)
        });
        let expected = expected.map(|(dims, sum)| (Shape::new(dims), sum.to_vec()));
        assert_eq!(sum, expected);
        let signed = |dims: &[usize]| Shape::new(dims).to_i64();
        let known = dims(&signed(x), &signed(y), axis);
        assert_eq!(known, expected.map(|(shape, _)| shape.to_i64()), "the shape rule agrees");
    }

    #[test]
    fn lines_up_as_fluid_does() {
        let bias: &[i64] = &[0, 11, 22, 3, 14, 25];
        let column: &[i64] = &[0, 1, 2, 13, 14, 15];
        check(&[2, 3], &[2, 3], 5, Some((&[2, 3], &[0, 11, 22, 33, 44, 55])));
        check(&[2, 3], &[3], -1, Some((&[2, 3], bias)));
        check(&[2, 3], &[3, 1], 1, Some((&[2, 3], bias)));
        check(&[2, 3], &[2], 0, Some((&[2, 3], column)));
        check(&[2, 3], &[2, 1], -1, Some((&[2, 3], column)));
        check(&[2, 3], &[1], -1, Some((&[2, 3], &[0, 1, 2, 3, 4, 5])));
        check(&[1], &[1, 1], -1, Some((&[1, 1], &[0])));
        check(&[2, 2, 2], &[2], 1, Some((&[2, 2, 2], &[0, 1, 12, 13, 4, 5, 16, 17])));
        check(&[2, 3], &[0, 3], -1, None);
        check(&[2, 3], &[2], -1, None);
        check(&[2, 3], &[3], 0, None);
        check(&[2, 3], &[3], 2, None);
        check(&[2, 3], &[3], -2, None);
    }

    #[test]
    fn either_side_may_be_the_short_one() {
        check(&[3], &[2, 3], -1, Some((&[2, 3], &[0, 11, 22, 30, 41, 52])));
        check(&[2], &[2, 3], 0, Some((&[2, 3], &[0, 10, 20, 31, 41, 51])));
        check(&[2, 1], &[1, 3], -1, Some((&[2, 3], &[0, 10, 20, 1, 11, 21])));
        let middle: &[i64] = &[0, 11, 2, 13, 24, 35, 26, 37];
        check(&[2, 2, 2], &[2, 1, 2], -1, Some((&[2, 2, 2], middle)));
        check(&[0, 3], &[3], -1, Some((&[0, 3], &[])));
        check(&[0, 3], &[1, 3], -1, Some((&[0, 3], &[])));
    }

    #[test]
    fn unknown_sizes_fit_anything() {
        assert_eq!(dims(&[-1, 3], &[3], -1), Some(vec![-1, 3]));
        assert_eq!(dims(&[-1, 3], &[4, 3], -1), Some(vec![4, 3]));
        assert_eq!(dims(&[-1, 3], &[1, 1], -1), Some(vec![-1, 3]));
        assert_eq!(dims(&[-1, 3], &[-1, 4], -1), None);
        assert_eq!(dims(&[1; 10], &[1], -1), None);
    }

    #[test]
    fn sums_over_what_was_repeated() {
        let plan = Broadcast::of(Shape::from([2, 1]), Shape::from([1, 3]), -1).unwrap();
        let x = [1i64, 2];
        let y = [10i64, 20, 30];
        let d = [1i64, 2, 3, 4, 5, 6];
        let mut d_x = [9; 2];
        plan.sum_into_x([&x, &y, &d, &d], &mut d_x, |_, y, _, d| y * d);
        assert_eq!(d_x, [140, 320]);
        let mut d_y = [9; 3];
        plan.swapped().sum_into_x([&y, &x, &d, &d], &mut d_y, |_, x, _, d| x * d);
        assert_eq!(d_y, [9, 12, 15]);
        let mut max = [0; 3];
        plan.reduce_to_y(&d, &mut max, i64::max);
        assert_eq!(max, [4, 5, 6]);
    }
}
