//! Matrix products on row-major slices.
#![allow(unsafe_code)]

use gemm_common::Parallelism;

use crate::Float;

/// A matrix in a slice: its size, and whether it is read transposed.
///
/// `rows` and `columns` are those of the matrix as the product sees it.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a, T> {
    data: &'a [T],
    rows: usize,
    columns: usize,
    transposed: bool,
}

impl<'a, T> Matrix<'a, T> {
    /// `rows` x `columns`, row-major.
    pub fn new(data: &'a [T], rows: usize, columns: usize) -> Self {
        assert_eq!(data.len(), rows * columns, "a {rows} x {columns} matrix");
        Self { data, rows, columns, transposed: false }
    }

    /// The transpose of this matrix; nothing moves.
    pub fn t(self) -> Self {
        Self { rows: self.columns, columns: self.rows, transposed: !self.transposed, ..self }
    }

    /// (row stride, column stride) in elements.
    fn strides(&self) -> (isize, isize) {
        if self.transposed { (1, self.rows as isize) } else { (self.columns as isize, 1) }
    }
}

/// `out = alpha * a b + beta * out`, row-major. `out` is not read when `beta` is 0.
pub fn gemm<T: Float>(alpha: T, a: Matrix<'_, T>, b: Matrix<'_, T>, beta: T, out: &mut [T]) {
    let m = a.rows;
    let k = a.columns;
    let n_columns = b.columns;
    assert_eq!(k, b.rows, "inner sizes of a matrix product");
    assert_eq!(out.len(), m * n_columns, "a {m} x {n_columns} result");
    let read_out = beta != T::zero();
    let kernel = T::kernel();
    // Kernels prefer results by columns: out' = b' a'. A result of one column is both.
    let (left, right) = if n_columns > 1 { (b.t(), a.t()) } else { (a, b) };
    let (m, n) = (left.rows, right.columns);
    let (left_row, left_column) = left.strides();
    let (right_row, right_column) = right.strides();
    // SAFETY: the asserts above (and in `Matrix::new`) keep every stride inside its slice, and
    // `out` is borrowed exclusively, so it overlaps neither input.
    unsafe {
        kernel(
            m,
            n,
            k,
            out.as_mut_ptr(),
            if n_columns > 1 { n_columns as isize } else { 1 },
            1,
            read_out,
            left.data.as_ptr(),
            left_column,
            left_row,
            right.data.as_ptr(),
            right_column,
            right_row,
            beta,
            alpha,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiplies_with_transposes_and_accumulates() {
        let a = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0];
        let b = [1.0f32, 0.0, 2.0, 1.0, 0.0, 1.0];
        let mut out = [1.0f32; 4];
        gemm(1.0, Matrix::new(&a, 2, 3), Matrix::new(&b, 3, 2), 0.0, &mut out);
        assert_eq!(out, [5.0, 5.0, 14.0, 11.0]);
        gemm(2.0, Matrix::new(&a, 3, 2).t(), Matrix::new(&b, 2, 3).t(), 1.0, &mut out);
        // a' = [[1,3,5],[2,4,6]], b' = [[1,1],[0,0],[2,1]].
        assert_eq!(out, [5.0 + 22.0, 5.0 + 12.0, 14.0 + 28.0, 11.0 + 16.0]);
    }

    #[test]
    fn does_not_read_the_result_when_beta_is_zero() {
        let mut out = [f64::NAN];
        gemm(1.0, Matrix::new(&[2.0], 1, 1), Matrix::new(&[3.0], 1, 1), 0.0, &mut out);
        assert_eq!(out, [6.0]);
    }
}
