//! `mul`: Out = X Y, both flattened to matrices.
//!
//! The first `x_num_col_dims` dimensions of X are rows, the rest columns; likewise Y.

use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::error::Result;
use tensor::gemm::{Matrix, gemm};
use tensor::{DType, Finish, Shape};

pub(super) struct Mul;
pub(super) struct MulGrad;

/// How many leading dimensions of X and Y are rows.
fn row_dims(attrs: &crate::attr::Attrs) -> Result<(usize, usize)> {
    Ok((attrs.int("x_num_col_dims", 1)? as usize, attrs.int("y_num_col_dims", 1)? as usize))
}

const RULE: &str = "the columns of X must equal the rows of Y";

impl Op for Mul {
    traits!(Rows("X"), "X": [F16, F32, F64], "Y": [F16, F32, F64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let (x, y) = (infer.input("X")?, infer.input("Y")?);
        let (x_rows, y_rows) = row_dims(infer.attrs())?;
        if x.dims.len() <= x_rows || y.dims.len() <= y_rows {
            return Err(infer.shapes("X and Y need columns beside their rows", "X", "Y"));
        }
        let columns = crate::var::n_elements(&x.dims[x_rows..]);
        let rows = crate::var::n_elements(&y.dims[..y_rows]);
        if columns >= 0 && rows >= 0 && columns != rows {
            return Err(infer.shapes(RULE, "X", "Y"));
        }
        let dims = [&x.dims[..x_rows], &y.dims[y_rows..]].concat();
        infer.set_output("Out", x.with_dims(dims))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut out = run.take("Out");
        let (x_rows, y_rows) = row_dims(run.attrs())?;
        let (x, y) = (run.input("X")?, run.input("Y")?);
        let [m, k, n] = sizes(run, x_rows, y_rows)?;
        let shape = product_shape(x.shape(), x_rows, y.shape(), y_rows)?;
        let packed = run.packed("Y").filter(|_| x.dtype() == DType::F32 && y_rows == 1);
        if let Some(packed) = packed {
            packed.multiply(x.data()?, Finish::default(), out.try_resize::<f32>(shape)?);
            out.set_lod(x.lod().clone());
            run.put("Out", out);
            return Ok(());
        }
        for_float!(x.dtype(), run.input_name("X"), T => {
            let (x, y) = (Matrix::new(x.data::<T>()?, m, k), Matrix::new(run.data::<T>("Y")?, k, n));
            gemm(1.0, x, y, 0.0, out.try_resize::<T>(shape)?);
            Ok(())
        })?;
        out.set_lod(x.lod().clone());
        run.put("Out", out);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X", "Y"]).inputs(&["X", "Y"]))
    }
}

/// Rows of X, its columns and the rows of Y, columns of Y.
fn sizes(run: &Run<'_>, x_rows: usize, y_rows: usize) -> Result<[usize; 3]> {
    let (x, y) = (run.input("X")?.shape(), run.input("Y")?.shape());
    let ((m, k), (k_y, n)) = (x.flatten_2d(x_rows), y.flatten_2d(y_rows));
    if x.rank() <= x_rows || y.rank() <= y_rows || k != k_y {
        return Err(run.shapes(RULE, "X", "Y"));
    }
    Ok([m, k, n])
}

/// The rows of X followed by the columns of Y.
fn product_shape(x: Shape, x_rows: usize, y: Shape, y_rows: usize) -> Result<Shape> {
    let dims = [&x.dims()[..x_rows], &y.dims()[y_rows..]].concat();
    if dims.len() > tensor::RANK_MAX {
        return Err(tensor::Error::RankTooHigh { rank: dims.len() }.into());
    }
    Ok(Shape::new(&dims))
}

/// dX = dOut Yᵀ, dY = Xᵀ dOut.
impl Kernel for MulGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (x_rows, y_rows) = row_dims(run.attrs())?;
        let (mut d_x, mut d_y) = (run.take("X@GRAD"), run.take("Y@GRAD"));
        let (x, y) = (run.input("X")?, run.input("Y")?);
        let [m, k, n] = sizes(run, x_rows, y_rows)?;
        if run.input("Out@GRAD")?.len() != m * n {
            return Err(run.shapes("the gradient must have the product's shape", "Out@GRAD", "X"));
        }
        for_float!(x.dtype(), run.input_name("X"), T => {
            let d_out = Matrix::new(run.data::<T>("Out@GRAD")?, m, n);
            if run.wants("X@GRAD") {
                let y = Matrix::new(run.data::<T>("Y")?, k, n);
                gemm(1.0, d_out, y.t(), 0.0, d_x.resize::<T>(x.shape()));
            }
            if run.wants("Y@GRAD") {
                let x = Matrix::new(x.data::<T>()?, m, k);
                gemm(1.0, x.t(), d_out, 0.0, d_y.resize::<T>(y.shape()));
            }
            Ok(())
        })?;
        d_x.set_lod(x.lod().clone());
        run.put("X@GRAD", d_x);
        run.put("Y@GRAD", d_y);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{check, t};

    #[test]
    fn multiplies_flattened_matrices() {
        check("mul")
            .input("X", t(&[1, 2, 2], &[1.0, 2.0, 3.0, 4.0]))
            .input("Y", t(&[2, 3], &[1.0, 0.0, 2.0, 0.0, 1.0, 3.0]))
            .attr("x_num_col_dims", 2)
            .gives("Out", t(&[1, 2, 3], &[1.0, 2.0, 8.0, 3.0, 4.0, 18.0]));
    }

    /// Found by `fuzz_ops`: programs from files do not pass the shape rule.
    #[test]
    fn refuses_gradients_of_another_shape() {
        let error = check("mul_grad")
            .input("X", t(&[1, 2], &[1.0, 2.0]))
            .input("Y", t(&[2, 1], &[1.0, 2.0]))
            .input("Out@GRAD", t(&[3, 1], &[1.0, 2.0, 3.0]))
            .output("X@GRAD")
            .fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }

    #[test]
    fn gradient_matches_finite_differences() {
        check("mul")
            .input("X", t(&[2, 2], &[1.0, 2.0, -3.0, 4.0]))
            .input("Y", t(&[2, 3], &[1.0, 0.5, 2.0, -1.0, 1.0, 3.0]))
            .output("Out")
            .grad(&["X", "Y"]);
    }

    #[test]
    fn refuses_sizes_that_do_not_meet() {
        let error = check("mul")
            .input("X", t(&[1, 2], &[1.0, 2.0]))
            .input("Y", t(&[3, 1], &[1.0, 0.0, 2.0]))
            .output("Out")
            .fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
