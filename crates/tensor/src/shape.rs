//! The shape of a tensor that exists, kept inline so that copying one allocates nothing.

use std::fmt;

/// Most dimensions a tensor can have (as in Fluid).
pub const RANK_MAX: usize = 9;

/// Sizes of a tensor's dimensions, row-major. Rank 0 means "no tensor yet".
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Shape {
    dims: [usize; RANK_MAX],
    rank: u8,
}

impl Shape {
    /// A shape from its sizes; more than [`RANK_MAX`] of them is a bug of the caller.
    pub fn new(dims: &[usize]) -> Self {
        assert!(dims.len() <= RANK_MAX, "rank {} is beyond the limit", dims.len());
        let mut shape = Self { dims: [0; RANK_MAX], rank: dims.len() as u8 };
        shape.dims[..dims.len()].copy_from_slice(dims);
        shape
    }

    /// The sizes.
    pub fn dims(&self) -> &[usize] {
        &self.dims[..self.rank as usize]
    }

    /// The sizes as programs write them.
    pub fn to_i64(&self) -> Vec<i64> {
        self.dims().iter().map(|&dim| dim as i64).collect()
    }

    /// How many dimensions.
    pub fn rank(&self) -> usize {
        self.rank as usize
    }

    /// How many elements; 0 for rank 0, which holds nothing. More than can be counted are as many as
    /// can.
    pub fn n_elements(&self) -> usize {
        let n = self.dims().iter().fold(1usize, |n, &dim| n.saturating_mul(dim));
        if self.rank == 0 || self.dims().contains(&0) { 0 } else { n }
    }

    /// Size of dimension `axis`.
    pub fn dim(&self, axis: usize) -> usize {
        self.dims()[axis]
    }

    /// The size of the last dimension, 1 if there is none.
    pub fn last(&self) -> usize {
        self.dims().last().copied().unwrap_or(1)
    }

    /// The same shape with another size at `axis`.
    pub fn with_dim(mut self, axis: usize, size: usize) -> Self {
        assert!(axis < self.rank(), "axis {axis} of a shape of rank {}", self.rank);
        self.dims[axis] = size;
        self
    }

    /// Rows and columns when the first `n_row_dims` dimensions are flattened into rows.
    pub fn flatten_2d(&self, n_row_dims: usize) -> (usize, usize) {
        let (rows, columns) = self.dims().split_at(n_row_dims.min(self.rank()));
        (rows.iter().product(), columns.iter().product())
    }

    /// The first `n_row_dims` dimensions, then one of `columns`: the shape of a matrix product.
    pub fn flattened_to(&self, n_row_dims: usize, columns: usize) -> Self {
        let rows = n_row_dims.min(self.rank()).min(RANK_MAX - 1);
        let mut dims = self.dims;
        dims[rows] = columns;
        Self::new(&dims[..=rows])
    }

    /// The shape seen from one of its axes.
    pub fn around(&self, axis: usize) -> AxisSplit {
        let dims = self.dims();
        let outer = dims[..axis].iter().product();
        let inner = dims[axis + 1..].iter().product();
        AxisSplit { outer, size: dims[axis], inner }
    }
}

/// A shape seen from one of its axes: `outer` blocks of `size` slices of `inner` elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AxisSplit {
    /// The dimensions before the axis, multiplied.
    pub outer: usize,
    /// The axis itself.
    pub size: usize,
    /// The dimensions after the axis, multiplied: how far neighbours along the axis are apart.
    pub inner: usize,
}

impl AxisSplit {
    /// How many vectors lie along the axis.
    pub fn n_vectors(&self) -> usize {
        self.outer * self.inner
    }

    /// Where the vector of this number begins. Its elements are `inner` apart.
    pub fn start(&self, vector: usize) -> usize {
        vector / self.inner * self.size * self.inner + vector % self.inner
    }

    /// The places of the elements of a vector.
    pub fn places(&self, vector: usize) -> impl Iterator<Item = usize> + Clone + use<> {
        let (start, inner) = (self.start(vector), self.inner);
        (0..self.size).map(move |k| start + k * inner)
    }
}

impl From<&[usize]> for Shape {
    fn from(dims: &[usize]) -> Self {
        Self::new(dims)
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(dims: [usize; N]) -> Self {
        Self::new(&dims)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.dims())
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.dims())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_flattens() {
        let shape = Shape::from([2, 3, 4]);
        assert_eq!(shape.n_elements(), 24);
        assert_eq!(shape.flatten_2d(1), (2, 12));
        assert_eq!(Shape::default().n_elements(), 0);
    }

    #[test]
    fn vectors_lie_along_an_axis() {
        let around = Shape::from([2, 3, 4]).around(1);
        assert_eq!(around, AxisSplit { outer: 2, size: 3, inner: 4 });
        assert_eq!(around.n_vectors(), 8);
        assert_eq!(around.places(5).collect::<Vec<_>>(), [13, 17, 21]);
    }

    #[test]
    fn counts_as_many_as_can_be_counted() {
        assert_eq!(Shape::from([1 << 40, 1 << 40]).n_elements(), usize::MAX);
        assert_eq!(Shape::from([1 << 40, 1 << 40, 0]).n_elements(), 0);
    }
}
