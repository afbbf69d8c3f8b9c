//! Fluid's broadcasting: Y's dimensions line up with a run of X's, starting at `axis`.
//!
//! X is then `outer` blocks of `Y.len()` groups of `inner` elements, and element (o, j, i) of X
//! meets element j of Y. Trailing sizes of 1 in Y do not count; `axis` -1 lines up on the right.

use tensor::Shape;

/// The three factors of X around Y.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) outer: usize,
    pub(super) middle: usize,
    pub(super) inner: usize,
}

impl Span {
    /// How Y lies in X, or `None` if it does not fit.
    pub(super) fn of(x: Shape, y: Shape, axis: i64) -> Option<Self> {
        if x == y {
            return Some(Self { outer: 1, middle: x.n_elements(), inner: 1 });
        }
        let axis = start(x.rank(), y.rank(), axis)?;
        let y_dims = y.dims();
        let n_ones = y_dims.iter().rev().take_while(|&&dim| dim == 1).count();
        let y_dims = &y_dims[..y_dims.len() - n_ones];
        let x_dims = x.dims();
        if x_dims.get(axis..axis + y_dims.len())? != y_dims {
            return None;
        }
        let outer = x_dims[..axis].iter().product();
        let inner = x_dims[axis + y_dims.len()..].iter().product();
        Some(Self { outer, middle: y.n_elements(), inner })
    }

    /// Calls `f(position in X, position in Y)` in the order of X.
    pub(super) fn for_each(self, mut f: impl FnMut(usize, usize)) {
        let mut at = 0;
        for _ in 0..self.outer {
            for j in 0..self.middle {
                for _ in 0..self.inner {
                    f(at, j);
                    at += 1;
                }
            }
        }
    }
}

/// Whether Y can line up with X when some sizes are not known yet.
pub(super) fn fits(x: &[i64], y: &[i64], axis: i64) -> bool {
    let Some(axis) = start(x.len(), y.len(), axis) else { return false };
    let n_ones = y.iter().rev().take_while(|&&dim| dim == 1).count();
    let y = if x.len() == y.len() { y } else { &y[..y.len() - n_ones] };
    match x.get(axis..axis + y.len()) {
        Some(run) => run.iter().zip(y).all(|(&x, &y)| x == y || x < 0 || y < 0 || y == 1),
        None => false,
    }
}

fn start(x_rank: usize, y_rank: usize, axis: i64) -> Option<usize> {
    if axis < 0 { x_rank.checked_sub(y_rank) } else { usize::try_from(axis).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(x: &[usize], y: &[usize], axis: i64, expected: Option<(usize, usize, usize)>) {
        let span = Span::of(Shape::new(x), Shape::new(y), axis);
        assert_eq!(span.map(|s| (s.outer, s.middle, s.inner)), expected);
    }

    #[test]
    fn lines_up_as_fluid_does() {
        check(&[2, 3], &[2, 3], -1, Some((1, 6, 1)));
        check(&[2, 3], &[3], -1, Some((2, 3, 1)));
        check(&[2, 3, 4], &[3], 1, Some((2, 3, 4)));
        check(&[2, 3, 4], &[2, 3], 0, Some((1, 6, 4)));
        check(&[2, 3], &[2, 1], 0, Some((1, 2, 3)));
        check(&[2, 3], &[1], -1, Some((2, 1, 3)));
        check(&[2, 3], &[2], -1, None);
        check(&[3], &[2, 3], -1, None);
    }
}
