//! `matmul`: Out = alpha X Y over the last two dimensions, each transposed first if asked.
//!
//! Leading dimensions are a batch; they must be equal, or one side has none and meets every matrix
//! of the other. A vector X is a row and a vector Y a column; a dimension of 1 that stems from a
//! vector is dropped from the result.
//!
//! `matmul_v2` is version 2's: no alpha, vectors are never transposed, and a batch dimension of 1
//! meets all matrices of the other side's.

use tensor::gemm::{Matrix, gemm};
use tensor::{Float, Shape};

use super::{Grad, Infer, Keep, Kernel, Op, OpOnRows, Run, dims, for_float, traits};
use crate::attr::Attrs;
use crate::error::Result;

pub(super) struct Matmul(MatmulForm);
pub(super) struct MatmulGrad(MatmulForm);

impl Matmul {
    pub(super) const V1: Self = Self(MatmulForm::V1);
    pub(super) const V2: Self = Self(MatmulForm::V2);
}

impl MatmulGrad {
    pub(super) const V1: Self = Self(MatmulForm::V1);
    pub(super) const V2: Self = Self(MatmulForm::V2);
}

/// What differs between the versions.
#[derive(Clone, Copy)]
enum MatmulForm {
    V1,
    V2,
}

impl MatmulForm {
    /// Whether X, or Y, is transposed.
    fn transposes(self, attrs: &Attrs, side: Factor, rank: usize) -> Result<bool> {
        let name = match (self, side) {
            (MatmulForm::V1, Factor::X) => "transpose_X",
            (MatmulForm::V1, Factor::Y) => "transpose_Y",
            (MatmulForm::V2, Factor::X) => "trans_x",
            (MatmulForm::V2, Factor::Y) => "trans_y",
        };
        let is_vector = matches!(self, MatmulForm::V2) && rank == 1;
        Ok(!is_vector && attrs.bool(name, false)?)
    }

    /// The batch of the result, if the batches of X and Y fit.
    fn batch(self, x: &[i64], y: &[i64]) -> Option<Vec<i64>> {
        match self {
            _ if y.is_empty() => Some(x.to_vec()),
            _ if x.is_empty() => Some(y.to_vec()),
            MatmulForm::V1 => dims::agree(x, y).then(|| x.to_vec()),
            MatmulForm::V2 => {
                let rank = x.len().max(y.len());
                let size = |dims: &[i64], at: usize| {
                    (at + dims.len()).checked_sub(rank).map_or(1, |at| dims[at])
                };
                let sizes = (0..rank).map(|at| (size(x, at), size(y, at)));
                let joined = |(x, y): (i64, i64)| match (x, y) {
                    (1, size) | (size, 1) => Some(size),
                    (-1, size) | (size, -1) => Some(size),
                    (x, y) => (x == y).then_some(x),
                };
                sizes.map(joined).collect()
            }
        }
    }
}

/// A side of the product.
#[derive(Clone, Copy)]
enum Factor {
    X,
    Y,
}

const RULE: &str = "X and Y must have equal batch dimensions, and X as many columns as Y has rows";

/// How two tensors multiply: matrices of m x k by matrices of k x n.
#[derive(Debug)]
struct MatmulShape {
    /// Sizes of the result.
    dims: Vec<i64>,
    n_batches: i64,
    x: Side,
    y: Side,
    n: i64,
}

/// Which matrix of a factor each product of a batch reads.
#[derive(Clone, Copy, Debug)]
enum MatmulBatch {
    /// One for all.
    One,
    /// Its own.
    Each,
    /// Dimensions of 1 (of `own`, behind those of `all`) are repeated.
    Repeated { own: Shape, all: Shape },
}

impl MatmulBatch {
    fn new(own: &[i64], all: &[i64]) -> Result<Self> {
        if own.is_empty() {
            return Ok(MatmulBatch::One);
        }
        let is_known = own.iter().chain(all).all(|&dim| dim >= 0);
        if own == all || !is_known {
            return Ok(MatmulBatch::Each);
        }
        Ok(MatmulBatch::Repeated { own: Shape::from_dims(own)?, all: Shape::from_dims(all)? })
    }

    fn index(self, batch: usize) -> usize {
        match self {
            MatmulBatch::One => 0,
            MatmulBatch::Each => batch,
            MatmulBatch::Repeated { own, all } => {
                let mut rest = batch;
                let (mut index, mut step) = (0, 1);
                for (at, &size) in all.dims().iter().rev().enumerate() {
                    let own = own.rank().checked_sub(at + 1).map_or(1, |at| own.dim(at));
                    if own > 1 {
                        index += rest % size * step;
                        step *= own;
                    }
                    rest /= size;
                }
                index
            }
        }
    }
}

/// One factor: its matrices as they lie in memory.
#[derive(Clone, Copy, Debug)]
struct Side {
    batch: MatmulBatch,
    rows: i64,
    columns: i64,
    transposed: bool,
}

impl Side {
    /// Rows and columns as the product sees them.
    fn seen(&self) -> (i64, i64) {
        if self.transposed { (self.columns, self.rows) } else { (self.rows, self.columns) }
    }
}

impl MatmulShape {
    fn new(form: MatmulForm, attrs: &Attrs, x: &[i64], y: &[i64]) -> Result<Option<Self>> {
        let (x_batch, x_matrix) = match x {
            [] => return Ok(None),
            [k] => (&[][..], (1, *k)),
            [batch @ .., rows, columns] => (batch, (*rows, *columns)),
        };
        let (y_batch, y_matrix) = match y {
            [] => return Ok(None),
            [k] => (&[][..], (*k, 1)),
            [batch @ .., rows, columns] => (batch, (*rows, *columns)),
        };
        let Some(batch) = form.batch(x_batch, y_batch) else { return Ok(None) };
        let side = |own: &[i64], (rows, columns), transposed| {
            Ok::<_, crate::error::Error>(Side {
                batch: MatmulBatch::new(own, &batch)?,
                rows,
                columns,
                transposed,
            })
        };
        let x_side = side(x_batch, x_matrix, form.transposes(attrs, Factor::X, x.len())?)?;
        let y_side = side(y_batch, y_matrix, form.transposes(attrs, Factor::Y, y.len())?)?;
        let ((m, k), (k_y, n)) = (x_side.seen(), y_side.seen());
        if !dims::agree(&[k], &[k_y]) {
            return Ok(None);
        }
        let n_batches = batch.iter().product();
        let mut out = batch;
        if x.len() > 1 || m != 1 {
            out.push(m);
        }
        if y.len() > 1 || n != 1 {
            out.push(n);
        }
        if out.is_empty() {
            out.push(1);
        }
        Ok(Some(Self { dims: out, n_batches, x: x_side, y: y_side, n }.folded()))
    }

    /// A batch that meets one matrix is one tall matrix.
    fn folded(mut self) -> Self {
        let is_tall = matches!((self.x.batch, self.y.batch), (MatmulBatch::Each, MatmulBatch::One));
        if is_tall && !self.x.transposed {
            self.x.rows *= self.n_batches;
            self.x.batch = MatmulBatch::One;
            self.n_batches = 1;
        }
        self
    }

    fn of_run(form: MatmulForm, run: &Run<'_>) -> Result<Self> {
        let (x, y) = (run.input("X")?.shape().to_i64(), run.input("Y")?.shape().to_i64());
        Self::new(form, run.attrs(), &x, &y)?.ok_or_else(|| run.shapes(RULE, "X", "Y"))
    }
}

/// Matrices in a slice, one per batch or one for all.
#[derive(Clone, Copy)]
struct Matrices<'a, T> {
    data: &'a [T],
    side: Side,
}

impl<'a, T> Matrices<'a, T> {
    fn t(mut self) -> Self {
        self.side.transposed = !self.side.transposed;
        self
    }

    fn matrix(&self, batch: usize) -> Matrix<'a, T> {
        let (rows, columns) = (self.side.rows as usize, self.side.columns as usize);
        let start = self.side.batch.index(batch) * rows * columns;
        let matrix = Matrix::new(&self.data[start..start + rows * columns], rows, columns);
        if self.side.transposed { matrix.t() } else { matrix }
    }
}

/// Where products go: a matrix for each of a batch, or sums over some of it.
struct Product<'a, T> {
    data: &'a mut [T],
    batch: MatmulBatch,
}

/// `out = alpha a b` for each of a batch; summed over those that share a matrix of `out`.
fn multiply<T: Float>(
    alpha: T,
    a: Matrices<'_, T>,
    b: Matrices<'_, T>,
    n_batches: usize,
    out: Product<'_, T>,
) {
    let ((m, k), (_, n)) = (a.side.seen(), b.side.seen());
    let size = (m * n) as usize;
    if k == 0 || n_batches == 0 {
        out.data.fill(T::zero());
        return;
    }
    if matches!(out.batch, MatmulBatch::Repeated { .. }) {
        out.data.fill(T::zero());
    }
    for batch in 0..n_batches {
        let start = out.batch.index(batch) * size;
        let beta = match out.batch {
            MatmulBatch::Each => T::zero(),
            MatmulBatch::One if batch == 0 => T::zero(),
            MatmulBatch::One | MatmulBatch::Repeated { .. } => T::one(),
        };
        gemm(alpha, a.matrix(batch), b.matrix(batch), beta, &mut out.data[start..start + size]);
    }
}

/// Whether each sample is a row of X, or a matrix of X and perhaps of Y.
fn is_by_sample(op: &OpOnRows<'_>) -> bool {
    let (Some(x), Some(y)) = (op.rank("X"), op.rank("Y")) else { return false };
    if op.all_rows("Y") {
        op.all_rows("X") && x == y && x > 2
    } else {
        op.all_rows("X")
            && y == 2
            && (x > 2 || x == 2 && !op.is_true("transpose_X") && !op.is_true("trans_x"))
    }
}

impl Op for Matmul {
    traits!(When(is_by_sample), "X": [F16, F32, F64], "Y": [F16, F32, F64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let (x, y) = (infer.input("X")?, infer.input("Y")?);
        let plan = MatmulShape::new(self.0, infer.attrs(), &x.dims, &y.dims)?;
        let plan = plan.ok_or_else(|| infer.shapes(RULE, "X", "Y"))?;
        infer.set_output("Out", x.with_dims(plan.dims))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let alpha = run.attrs().float("alpha", 1.0)?;
        let plan = MatmulShape::of_run(self.0, run)?;
        let shape = Shape::from_dims(&plan.dims)?;
        run.fill("Out", "X", |run, x, out| {
            for_float!(x.dtype(), run.input_name("X"), T => {
                let x = Matrices { data: x.data::<T>()?, side: plan.x };
                let y = Matrices { data: run.data::<T>("Y")?, side: plan.y };
                let out = Product { data: out.try_resize::<T>(shape)?, batch: MatmulBatch::Each };
                multiply(T::from(alpha), x, y, plan.n_batches as usize, out);
                Ok(())
            })
        })
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X", "Y"]).inputs(&["X", "Y"]))
    }
}

/// dX = alpha dOut Yᵀ, dY = alpha Xᵀ dOut, each transposed back; summed over a batch that the
/// other side had alone.
impl Kernel for MatmulGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let alpha = run.attrs().float("alpha", 1.0)?;
        let (mut d_x, mut d_y) = (run.take("X@GRAD"), run.take("Y@GRAD"));
        let plan = MatmulShape::of_run(self.0, run)?;
        let (x, y) = (run.input("X")?, run.input("Y")?);
        if run.input("Out@GRAD")?.shape().to_i64() != plan.dims {
            return Err(run.shapes("the gradient must have the shape of X Y", "Out@GRAD", "X"));
        }
        let m = plan.x.seen().0;
        let out_side =
            Side { batch: MatmulBatch::Each, rows: m, columns: plan.n, transposed: false };
        let n_batches = plan.n_batches as usize;
        for_float!(x.dtype(), run.input_name("X"), T => {
            let alpha = T::from(alpha);
            let d_out = Matrices { data: run.data::<T>("Out@GRAD")?, side: out_side };
            if run.wants("X@GRAD") {
                let y = Matrices { data: run.data::<T>("Y")?, side: plan.y };
                let (a, b) = if plan.x.transposed { (y, d_out.t()) } else { (d_out, y.t()) };
                let d_x = Product { data: d_x.resize::<T>(x.shape()), batch: plan.x.batch };
                multiply(alpha, a, b, n_batches, d_x);
            }
            if run.wants("Y@GRAD") {
                let x = Matrices { data: x.data::<T>()?, side: plan.x };
                let (a, b) = if plan.y.transposed { (d_out.t(), x) } else { (x.t(), d_out) };
                let d_y = Product { data: d_y.resize::<T>(y.shape()), batch: plan.y.batch };
                multiply(alpha, a, b, n_batches, d_y);
            }
            Ok(())
        })?;
        d_x.set_lod(x.lod().clone());
        d_y.set_lod(y.lod().clone());
        run.put("X@GRAD", d_x);
        run.put("Y@GRAD", d_y);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, some, t};

    fn matmul(x: &[usize], y: &[usize]) -> Check {
        check("matmul").input("X", some(x)).input("Y", some(y))
    }

    #[test]
    fn multiplies_with_transposes_and_alpha() {
        check("matmul")
            .input("X", t(&[2, 2], &[1.0, 2.0, 3.0, 4.0]))
            .input("Y", t(&[2, 2], &[1.0, 0.0, 1.0, 2.0]))
            .attr("transpose_X", true)
            .attr("transpose_Y", true)
            .attr("alpha", 2.0f32)
            .gives("Out", t(&[2, 2], &[2.0, 14.0, 4.0, 20.0]));
    }

    #[test]
    fn vectors_are_rows_and_columns() {
        let v = || t(&[2], &[1.0, 2.0]);
        let m = || t(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        let of = |x, y| check("matmul").input("X", x).input("Y", y);
        of(v(), v()).gives("Out", t(&[1], &[5.0]));
        of(v(), m()).gives("Out", t(&[2], &[7.0, 10.0]));
        of(m(), v()).gives("Out", t(&[2], &[5.0, 11.0]));
        let outer = of(v(), v()).attr("transpose_X", true).attr("transpose_Y", true);
        outer.gives("Out", t(&[2, 2], &[1.0, 2.0, 2.0, 4.0]));
    }

    #[test]
    fn a_batch_meets_one_matrix() {
        check("matmul")
            .input("X", t(&[2, 1, 2], &[1.0, 2.0, 3.0, 4.0]))
            .input("Y", t(&[2, 1], &[1.0, 10.0]))
            .gives("Out", t(&[2, 1, 1], &[21.0, 43.0]));
        check("matmul")
            .input("X", t(&[1, 2], &[1.0, 10.0]))
            .input("Y", t(&[2, 2, 1], &[1.0, 2.0, 3.0, 4.0]))
            .gives("Out", t(&[2, 1, 1], &[21.0, 43.0]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        let pairs: [(&[usize], &[usize]); 8] = [
            (&[2, 3], &[3, 2]),
            (&[3], &[3]),
            (&[3], &[3, 2]),
            (&[2, 3], &[3]),
            (&[2, 2, 3], &[2, 3, 2]),
            (&[2, 2, 3], &[3, 2]),
            (&[2, 3], &[2, 3, 2]),
            (&[2, 2, 3], &[3]),
        ];
        for (x, y) in pairs {
            matmul(x, y).attr("alpha", 0.5f32).output("Out").grad(&["X", "Y"]);
        }
        let both = matmul(&[2, 3, 2], &[2, 2, 3]).attr("transpose_X", true);
        both.attr("transpose_Y", true).output("Out").grad(&["X", "Y"]);
        let left = matmul(&[2, 3, 2], &[3, 2]).attr("transpose_X", true);
        left.output("Out").grad(&["X", "Y"]);
    }

    fn v2(x: &[usize], y: &[usize]) -> Check {
        check("matmul_v2").input("X", some(x)).input("Y", some(y))
    }

    #[test]
    fn version_2_repeats_batches_of_one() {
        check("matmul_v2")
            .input("X", t(&[2, 1, 1, 2], &[1.0, 2.0, 3.0, 4.0]))
            .input("Y", t(&[2, 2, 1], &[1.0, 0.0, 0.0, 1.0]))
            .gives("Out", t(&[2, 2, 1, 1], &[1.0, 2.0, 3.0, 4.0]));
    }

    #[test]
    fn version_2_transposes_no_vectors() {
        let v = || t(&[2], &[1.0, 2.0]);
        let both = check("matmul_v2").input("X", v()).input("Y", v()).attr("trans_x", true);
        both.attr("trans_y", true).gives("Out", t(&[1], &[5.0]));
        let m = t(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        let turned = check("matmul_v2").input("X", m).input("Y", v()).attr("trans_x", true);
        turned.gives("Out", t(&[2], &[7.0, 10.0]));
    }

    #[test]
    fn gradient_of_version_2_matches_finite_differences() {
        let pairs: [(&[usize], &[usize]); 5] = [
            (&[2, 3], &[3, 2]),
            (&[2, 1, 2, 3], &[2, 3, 2]),
            (&[2, 2, 3], &[3]),
            (&[1, 2, 3], &[3, 3, 2]),
            (&[3, 2, 2, 3], &[1, 3, 2]),
        ];
        for (x, y) in pairs {
            v2(x, y).output("Out").grad(&["X", "Y"]);
        }
        let both = v2(&[2, 3, 2], &[1, 2, 3]).attr("trans_x", true).attr("trans_y", true);
        both.output("Out").grad(&["X", "Y"]);
    }

    #[test]
    fn refuses_sizes_that_do_not_meet() {
        for (x, y) in [(&[2, 3][..], &[2, 3][..]), (&[2, 2, 3], &[3, 3, 2]), (&[3], &[2])] {
            for check in [matmul(x, y), v2(x, y)] {
                let error = check.output("Out").fails();
                assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
            }
        }
    }
}
