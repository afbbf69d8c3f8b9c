//! Products with a matrix that was arranged beforehand.
//!
//! A model predicts with the same weights again and again. They are arranged once, so that a product reads them
//! from one end to the other, as wide as the processor's registers are. A number of the result is always the sum
//! of the same products in the same order: a row comes out with the same bits, however many rows are
//! multiplied at once.

use std::array::from_fn;

use bytemuck::{Pod, Zeroable, cast_slice, cast_slice_mut};
use pulp::{Arch, Simd, WithSimd};

/// Rows that are multiplied before the next columns: their numbers stay in the second cache.
const BLOCK_ROWS: usize = 120;

/// A matrix of f32, arranged for products from the left.
#[derive(Clone, Debug)]
pub struct PackedMatrix {
    rows: usize,
    columns: usize,
    /// Floats of a register when it was arranged.
    floats: usize,
    panels: Vec<Panel>,
    /// The numbers of all panels; a panel has those of its columns, row by row.
    data: Vec<CacheLine>,
}

/// The contents of the widest register. It is loaded from one line of the cache, and not from two.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, align(64))]
struct CacheLine([f32; 16]);

/// Some columns next to each other.
#[derive(Clone, Copy, Debug)]
struct Panel {
    first_column: usize,
    columns: usize,
    /// Registers of a row; the last one is filled up with zeros.
    registers: usize,
    /// Where its numbers begin.
    from: usize,
}

/// The last operations on each sum.
#[derive(Clone, Copy, Debug, Default)]
pub struct Finish<'a> {
    /// Added to each row.
    pub bias: Option<&'a [f32]>,
    /// Whether negative results become 0.
    pub relu: bool,
}

impl PackedMatrix {
    /// Arranges a matrix that is row-major.
    pub fn new(data: &[f32], rows: usize, columns: usize) -> Self {
        assert_eq!(data.len(), rows * columns, "a {rows} x {columns} matrix");
        Arch::new().dispatch(Pack { data, rows, columns })
    }

    /// How long the rows are that it multiplies.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How long the rows of a product are.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Bytes of its numbers.
    pub fn n_bytes(&self) -> usize {
        size_of_val(&*self.data)
    }

    /// `out = x * self`, then the operations of `finish`; `x` and `out` are row-major.
    pub fn multiply(&self, x: &[f32], finish: Finish<'_>, out: &mut [f32]) {
        let (n_rows, rest) = match self.rows {
            0 => (out.len() / self.columns.max(1), 0),
            rows => (x.len() / rows, x.len() % rows),
        };
        assert_eq!(rest, 0, "rows of {} numbers", self.rows);
        assert_eq!(out.len(), n_rows * self.columns, "a {n_rows} x {} result", self.columns);
        assert!(
            finish.bias.is_none_or(|bias| bias.len() == self.columns),
            "a bias for each column"
        );
        Arch::new().dispatch(Multiply { matrix: self, x, finish, out, n_rows });
    }
}

/// Registers of a panel, at most: the sums of five rows fit into the registers there are.
const fn registers_max<S: Simd>() -> usize {
    if S::REGISTER_COUNT >= 32 { 5 } else { 2 }
}

struct Pack<'a> {
    data: &'a [f32],
    rows: usize,
    columns: usize,
}

impl WithSimd for Pack<'_> {
    type Output = PackedMatrix;

    fn with_simd<S: Simd>(self, _: S) -> PackedMatrix {
        let Self { data, rows, columns } = self;
        let floats = S::F32_LANES;
        let n_registers = columns.div_ceil(floats);
        let n_panels = n_registers.div_ceil(registers_max::<S>());
        let (mut panels, mut arranged) = (Vec::new(), Vec::new());
        let mut first_column = 0;
        for panel in 0..n_panels {
            // As equal as can be, so that no panel is slow because it is narrow.
            let registers = n_registers / n_panels + usize::from(panel < n_registers % n_panels);
            let width = (registers * floats).min(columns - first_column);
            let from = arranged.len();
            panels.push(Panel { first_column, columns: width, registers, from });
            for row in 0..rows {
                let at = row * columns + first_column;
                arranged.extend_from_slice(&data[at..at + width]);
                arranged.resize(from + (row + 1) * registers * floats, 0.0);
            }
            first_column += width;
        }
        let mut data = vec![CacheLine([0.0; 16]); arranged.len().div_ceil(16)];
        let place: &mut [f32] = cast_slice_mut(&mut data);
        place[..arranged.len()].copy_from_slice(&arranged);
        PackedMatrix { rows, columns, floats, panels, data }
    }
}

struct Multiply<'a> {
    matrix: &'a PackedMatrix,
    x: &'a [f32],
    finish: Finish<'a>,
    out: &'a mut [f32],
    n_rows: usize,
}

impl WithSimd for Multiply<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        assert_eq!(self.matrix.floats, S::F32_LANES, "arranged on this machine");
        let Self { matrix, x, finish, out, n_rows } = self;
        let data: &[f32] = cast_slice(&matrix.data);
        let mut first = 0;
        while first < n_rows {
            let n = BLOCK_ROWS.min(n_rows - first);
            for panel in &matrix.panels {
                let size = matrix.rows * panel.registers * matrix.floats;
                let weights = S::as_simd_f32s(&data[panel.from..panel.from + size]).0;
                let (depth, stride) = (matrix.rows, matrix.columns);
                let mut part = Part { simd, weights, panel, finish, x, out, depth, stride };
                match panel.registers {
                    1 => part.rows::<1>(first, n),
                    2 => part.rows::<2>(first, n),
                    3 => part.rows::<3>(first, n),
                    4 => part.rows::<4>(first, n),
                    _ => part.rows::<5>(first, n),
                }
            }
            first += n;
        }
    }
}

/// One panel of a product.
struct Part<'a, S: Simd> {
    simd: S,
    weights: &'a [S::f32s],
    panel: &'a Panel,
    finish: Finish<'a>,
    x: &'a [f32],
    out: &'a mut [f32],
    /// Length of a row of `x`.
    depth: usize,
    /// Length of a row of `out`.
    stride: usize,
}

impl<S: Simd> Part<'_, S> {
    /// `n` rows from `first` on.
    #[inline(always)]
    fn rows<const V: usize>(&mut self, first: usize, n: usize) {
        let (mut at, end) = (first, first + n);
        while end - at >= 5 {
            self.some::<5, V>(at);
            at += 5;
        }
        match end - at {
            4 => self.some::<4, V>(at),
            3 => self.some::<3, V>(at),
            2 => self.some::<2, V>(at),
            1 => self.some::<1, V>(at),
            _ => {}
        }
    }

    /// `M` rows from `first` on; all sums are in registers.
    #[inline(always)]
    fn some<const M: usize, const V: usize>(&mut self, first: usize) {
        let simd = self.simd;
        let depth = self.depth;
        let rows: [&[f32]; M] = from_fn(|m| &self.x[(first + m) * depth..][..depth]);
        let (steps, _) = pulp::as_arrays::<V, _>(self.weights);
        let steps = &steps[..depth];
        let mut sums = [[simd.splat_f32s(0.0); V]; M];
        for k in 0..depth {
            let weights = steps[k];
            for m in 0..M {
                let x = simd.splat_f32s(rows[m][k]);
                for v in 0..V {
                    sums[m][v] = simd.mul_add_e_f32s(x, weights[v], sums[m][v]);
                }
            }
        }
        for (m, sums) in sums.iter().enumerate() {
            self.store(first + m, cast_slice(sums));
        }
    }

    #[inline(always)]
    fn store(&mut self, row: usize, sums: &[f32]) {
        let Panel { first_column, columns, .. } = *self.panel;
        let out = &mut self.out[row * self.stride + first_column..][..columns];
        match self.finish.bias {
            Some(bias) => {
                let bias = &bias[first_column..first_column + columns];
                out.iter_mut().zip(sums).zip(bias).for_each(|((out, sum), bias)| *out = sum + bias);
            }
            None => out.copy_from_slice(&sums[..columns]),
        }
        if self.finish.relu {
            out.iter_mut().for_each(|out| *out = out.max(0.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mix;

    fn numbers(seed: u64, n: usize) -> Vec<f32> {
        (0..n as u64).map(|at| (mix(seed * 1_000_003 + at) % 2001) as f32 / 1000.0 - 1.0).collect()
    }

    /// The sums as f64 has them.
    fn expected(x: &[f32], w: &[f32], depth: usize, columns: usize) -> Vec<f64> {
        let mut out = Vec::new();
        for row in x.chunks_exact(depth) {
            for column in 0..columns {
                let products = row
                    .iter()
                    .enumerate()
                    .map(|(k, &x)| f64::from(x) * f64::from(w[k * columns + column]));
                out.push(products.sum());
            }
        }
        out
    }

    #[test]
    fn products_of_all_sizes_are_right() {
        for (depth, columns) in [(1, 1), (3, 2), (17, 16), (40, 33), (9, 80), (31, 81), (5, 200)] {
            let w = numbers(7, depth * columns);
            let matrix = PackedMatrix::new(&w, depth, columns);
            assert_eq!((matrix.rows(), matrix.columns()), (depth, columns));
            for n in [1, 2, 3, 4, 5, 6, 11, 250] {
                let x = numbers(n as u64, n * depth);
                let mut out = vec![f32::NAN; n * columns];
                matrix.multiply(&x, Finish::default(), &mut out);
                for (out, sum) in out.iter().zip(expected(&x, &w, depth, columns)) {
                    assert!((f64::from(*out) - sum).abs() < 1e-5, "{out} is {sum}");
                }
            }
        }
    }

    #[test]
    fn a_row_has_the_same_bits_among_others() {
        let depth = 273;
        let columns = 400;
        let n = 137;
        let matrix = PackedMatrix::new(&numbers(1, depth * columns), depth, columns);
        let (x, bias) = (numbers(2, n * depth), numbers(3, columns));
        let finish = Finish { bias: Some(&bias), relu: true };
        let mut all = vec![0.0; n * columns];
        matrix.multiply(&x, finish, &mut all);
        let mut one = vec![0.0; columns];
        for row in [0, 4, 119, 120, 136] {
            matrix.multiply(&x[row * depth..][..depth], finish, &mut one);
            assert_eq!(one, all[row * columns..][..columns]);
        }
        assert!(all.iter().all(|&x| x >= 0.0) && all.contains(&0.0));
    }

    #[test]
    fn nothing_is_a_product_too() {
        let matrix = PackedMatrix::new(&[], 0, 3);
        let mut out = [f32::NAN; 6];
        let finish = Finish { bias: Some(&[1.0, 2.0, -3.0]), relu: false };
        matrix.multiply(&[], finish, &mut out);
        assert_eq!(out, [1.0, 2.0, -3.0, 1.0, 2.0, -3.0]);
        matrix.multiply(&[], Finish::default(), &mut []);
    }
}
