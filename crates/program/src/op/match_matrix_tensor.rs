//! `match_matrix_tensor`: Out = for each pair of sequences, x of X and y of Y, and each of the `dim_t` channels t of W, the matrix x W\[:, t, :\] yᵀ; all
//! numbers below each other, a pair is a sequence. Tmp = X W.

use tensor::gemm::{Matrix, gemm};
use tensor::{Float, Lod, Shape};

use super::ragged;
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::error::Result;
use crate::var::Meta;

pub(super) struct MatchMatrixTensor;
pub(super) struct MatchMatrixTensorGrad;

const OP: &str = "MatchMatrixTensorOp";
const RULE: &str = "W is [width of X, `dim_t`, width of Y]";
const PAIRS: &str = "X and Y are rows of as many sequences";

/// Sequences that are compared.
struct SequencePairs<'r> {
    x: &'r [usize],
    y: &'r [usize],
    x_width: usize,
    y_width: usize,
    n_channels: usize,
}

impl<'r> SequencePairs<'r> {
    fn of(run: &'r Run<'_>) -> Result<Self> {
        let (x, y) = (ragged::offsets(run, OP, "X")?, ragged::offsets(run, OP, "Y")?);
        let (&[_, x_width], &[_, y_width]) = (run.input("X")?.dims(), run.input("Y")?.dims())
        else {
            return Err(run.shapes(PAIRS, "X", "Y"));
        };
        if x.len() != y.len() {
            return Err(run.shapes(PAIRS, "X", "Y"));
        }
        let dim_t = run.attrs().int("dim_t", 1)?;
        match *run.input("W")?.dims() {
            [rows, n_channels, columns]
                if rows == x_width && columns == y_width && n_channels as i64 == dim_t =>
            {
                Ok(Self { x, y, x_width, y_width, n_channels })
            }
            _ => Err(run.shapes(RULE, "X", "W")),
        }
    }

    /// How many numbers each pair has.
    fn lengths(&self) -> impl Iterator<Item = usize> {
        let pairs = self.x.windows(2).zip(self.y.windows(2));
        pairs.map(|(x, y)| self.n_channels * (x[1] - x[0]) * (y[1] - y[0]))
    }

    /// Calls with each row of Tmp and of Y that belong together, and the place of their product.
    fn each(&self, mut call: impl FnMut(RowPair)) {
        let mut out = 0;
        for (x, y) in self.x.windows(2).zip(self.y.windows(2)) {
            for channel in 0..self.n_channels {
                for row in x[0]..x[1] {
                    for other in y[0]..y[1] {
                        let product = (row * self.n_channels + channel) * self.y_width;
                        call(RowPair { out, product, y: other * self.y_width });
                        out += 1;
                    }
                }
            }
        }
    }
}

/// Where things that are multiplied begin.
#[derive(Clone, Copy)]
struct RowPair {
    out: usize,
    product: usize,
    y: usize,
}

impl Op for MatchMatrixTensor {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let (x, y) = (infer.input("X")?, infer.input("Y")?);
        if x.dims.len() != 2 || y.dims.len() != 2 {
            return Err(infer.shapes(PAIRS, "X", "Y"));
        }
        if infer.input("W")?.dims.len() != 3 {
            return Err(infer.shapes(RULE, "X", "W"));
        }
        infer.set_output("Tmp", Meta::dense(x.dtype, &[-1, 1]))?;
        infer.set_output("Out", x.with_dims(vec![-1, 1]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (mut out, mut tmp) = (run.take("Out"), run.take("Tmp"));
        let pairs = SequencePairs::of(run)?;
        let x = run.input("X")?;
        for_float!(x.dtype(), run.input_name("X"), T => {
            let (n_rows, columns) = (x.shape().dim(0), pairs.n_channels * pairs.y_width);
            let tmp = tmp.try_resize::<T>(Shape::from([n_rows * columns, 1]))?;
            let rows = Matrix::new(x.data::<T>()?, n_rows, pairs.x_width);
            gemm(1.0, rows, Matrix::new(run.data::<T>("W")?, pairs.x_width, columns), 0.0, tmp);
            let y = run.data::<T>("Y")?;
            let out = out.try_resize::<T>(Shape::from([pairs.lengths().sum(), 1]))?;
            pairs.each(|at| {
                let products = tmp[at.product..at.product + pairs.y_width].iter().zip(&y[at.y..]);
                out[at.out] = products.map(|(&a, &b)| a * b).sum();
            });
            Ok(())
        })?;
        out.set_lod(Lod::from_lengths(pairs.lengths()));
        run.put("Out", out);
        run.put("Tmp", tmp);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let keep = Keep::grads(&["Out"], &["X", "Y", "W"]).inputs(&["X", "Y", "W"]);
        grad.emit_usual(keep.outputs(&["Tmp"]))
    }
}

/// dTmp = dOut Y, dY = dOutᵀ Tmp; dX = dTmp Wᵀ, dW = Xᵀ dTmp.
impl Kernel for MatchMatrixTensorGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (mut d_x, mut d_y) = (run.take("X@GRAD"), run.take("Y@GRAD"));
        let (mut d_w, mut d_tmp) = (run.take("W@GRAD"), run.spare().tensor());
        let pairs = SequencePairs::of(run)?;
        let (x, y) = (run.input("X")?, run.input("Y")?);
        for_float!(x.dtype(), run.input_name("X"), T => {
            let (n_rows, columns) = (x.shape().dim(0), pairs.n_channels * pairs.y_width);
            let d_tmp = d_tmp.resize_zeroed::<T>(Shape::from([n_rows, columns]));
            pairs_grad(run, &pairs, d_tmp, d_y.resize_zeroed::<T>(y.shape()))?;
            let w = Matrix::new(run.data::<T>("W")?, pairs.x_width, columns);
            let d_tmp = Matrix::new(&*d_tmp, n_rows, columns);
            gemm(1.0, d_tmp, w.t(), 0.0, d_x.resize::<T>(x.shape()));
            let rows = Matrix::new(x.data::<T>()?, n_rows, pairs.x_width);
            gemm(1.0, rows.t(), d_tmp, 0.0, d_w.resize::<T>(run.input("W")?.shape()));
            Ok(())
        })?;
        d_x.set_lod(x.lod().clone());
        d_y.set_lod(y.lod().clone());
        run.put("X@GRAD", d_x);
        run.put("Y@GRAD", d_y);
        run.put("W@GRAD", d_w);
        run.spare().keep(d_tmp);
        Ok(())
    }
}

fn pairs_grad<T: Float>(
    run: &Run<'_>,
    pairs: &SequencePairs<'_>,
    d_tmp: &mut [T],
    d_y: &mut [T],
) -> Result<()> {
    let tmp = ragged::data_of_len::<T>(run, "Tmp", d_tmp.len())?;
    let d_out = ragged::data_of_len::<T>(run, "Out@GRAD", pairs.lengths().sum())?;
    let y = run.data::<T>("Y")?;
    pairs.each(|at| {
        for column in 0..pairs.y_width {
            d_tmp[at.product + column] += d_out[at.out] * y[at.y + column];
            d_y[at.y + column] += d_out[at.out] * tmp[at.product + column];
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, seq, some, t};

    fn matched() -> Check {
        check("match_matrix_tensor")
            .input("X", seq(some(&[3, 2]), &[1, 2]))
            .input("Y", seq(some(&[4, 2]), &[3, 1]))
            .input("W", some(&[2, 3, 2]))
            .attr("dim_t", 3)
    }

    #[test]
    fn multiplies_each_row_with_each() {
        check("match_matrix_tensor")
            .input("X", seq(t(&[1, 1], &[2.0]), &[1]))
            .input("Y", seq(t(&[2, 1], &[3.0, 5.0]), &[2]))
            .input("W", t(&[1, 2, 1], &[1.0, 10.0]))
            .attr("dim_t", 2)
            .output("Tmp")
            .gives("Out", seq(t(&[4, 1], &[6.0, 10.0, 60.0, 100.0]), &[4]));
    }

    #[test]
    fn gradients_match_finite_differences() {
        matched().output("Out").aux("Tmp").grad(&["X", "Y", "W"]);
    }

    #[test]
    fn refuses_sizes_that_do_not_fit() {
        let error = matched().attr("dim_t", 2).output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
        let check = check("match_matrix_tensor").input("X", some(&[3, 2]));
        let check = check.input("Y", some(&[4, 2])).input("W", some(&[2, 1, 2]));
        let error = check.output("Out").fails();
        assert!(matches!(error.root(), Error::NoLod { .. }), "{error}");
    }
}
