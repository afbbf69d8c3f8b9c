//! `addmm`: Out = Beta Input + Alpha X Y; dimensions of 1 of Input stand for all rows or columns.

use tensor::Shape;
use tensor::gemm::{Matrix, gemm};

use super::{Grad, Infer, Keep, Kernel, Op, Run, dims, for_float, traits};
use crate::error::Result;

pub(super) struct Addmm;
pub(super) struct AddmmGrad;

const MATRICES: &str = "X must be a matrix with as many columns as the matrix Y has rows";
const INPUT: &str = "Input must be a matrix of the product's size, or with dimensions of 1";

/// Rows, inner size and columns of the product.
struct ProductSizes {
    m: usize,
    k: usize,
    n: usize,
}

impl ProductSizes {
    fn of(run: &Run<'_>) -> Result<Self> {
        let (&[m, k], &[rows, n]) = (run.input("X")?.dims(), run.input("Y")?.dims()) else {
            return Err(run.shapes(MATRICES, "X", "Y"));
        };
        if k != rows {
            return Err(run.shapes(MATRICES, "X", "Y"));
        }
        match run.input("Input")?.dims() {
            &[a, b] if (a == m || a == 1) && (b == n || b == 1) => Ok(Self { m, k, n }),
            _ => Err(run.shapes(INPUT, "Input", "X")),
        }
    }
}

/// Where the number of Input that meets a place of the product is.
fn place(input: Shape, row: usize, column: usize) -> usize {
    let within = |i: usize, size: usize| if size == 1 { 0 } else { i };
    within(row, input.dim(0)) * input.dim(1) + within(column, input.dim(1))
}

impl Op for Addmm {
    traits!(Never, "Input": [F32, F64], "X": [F32, F64], "Y": [F32, F64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let (x, y) = (infer.input("X")?, infer.input("Y")?);
        let input = infer.input("Input")?;
        let (&[m, k], &[rows, n]) = (&x.dims[..], &y.dims[..]) else {
            return Err(infer.shapes(MATRICES, "X", "Y"));
        };
        if !dims::agree(&[k], &[rows]) {
            return Err(infer.shapes(MATRICES, "X", "Y"));
        }
        let fits = |size: i64, of: i64| size == 1 || dims::agree(&[size], &[of]);
        if !matches!(input.dims[..], [a, b] if fits(a, m) && fits(b, n)) {
            return Err(infer.shapes(INPUT, "Input", "X"));
        }
        infer.set_output("Out", x.with_dims(vec![m, n]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (alpha, beta) = (run.attrs().float("Alpha", 1.0)?, run.attrs().float("Beta", 1.0)?);
        run.fill("Out", "X", |run, x, out| {
            let ProductSizes { m, k, n } = ProductSizes::of(run)?;
            let input = run.input("Input")?.shape();
            for_float!(x.dtype(), run.input_name("X"), T => {
                let out = out.try_resize::<T>(Shape::from([m, n]))?;
                let known = run.data::<T>("Input")?;
                for (at, out) in out.iter_mut().enumerate() {
                    *out = beta as T * known[place(input, at / n, at % n)];
                }
                let (x, y) = (x.data::<T>()?, run.data::<T>("Y")?);
                if k > 0 {
                    gemm(alpha as T, Matrix::new(x, m, k), Matrix::new(y, k, n), 1.0, out);
                }
                Ok(())
            })
        })
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let keep = Keep::grads(&["Out"], &["Input", "X", "Y"]);
        grad.emit_usual(keep.inputs(&["Input", "X", "Y"]))
    }
}

/// dInput = Beta dOut, summed where Input has a dimension of 1; dX = Alpha dOut Yᵀ; dY = Alpha Xᵀ dOut.
impl Kernel for AddmmGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (alpha, beta) = (run.attrs().float("Alpha", 1.0)?, run.attrs().float("Beta", 1.0)?);
        let [mut d_input, mut d_x, mut d_y] =
            ["Input@GRAD", "X@GRAD", "Y@GRAD"].map(|port| run.take(port));
        let ProductSizes { m, k, n } = ProductSizes::of(run)?;
        if run.input("Out@GRAD")?.dims() != [m, n] {
            return Err(run.shapes("the gradient must have the product's shape", "Out@GRAD", "X"));
        }
        let input = run.input("Input")?.shape();
        for_float!(run.input("X")?.dtype(), run.input_name("X"), T => {
            let d_out = run.data::<T>("Out@GRAD")?;
            let to = d_input.resize_zeroed::<T>(input);
            for (at, &d) in d_out.iter().enumerate() {
                to[place(input, at / n, at % n)] += beta as T * d;
            }
            let d_out = Matrix::new(d_out, m, n);
            let (x, y) = (run.data::<T>("X")?, run.data::<T>("Y")?);
            let (to_x, to_y) = (Shape::from([m, k]), Shape::from([k, n]));
            let y = Matrix::new(y, k, n);
            gemm(alpha as T, d_out, y.t(), 0.0, d_x.resize_zeroed::<T>(to_x));
            let x = Matrix::new(x, m, k);
            gemm(alpha as T, x.t(), d_out, 0.0, d_y.resize_zeroed::<T>(to_y));
            Ok(())
        })?;
        run.put("Input@GRAD", d_input);
        run.put("X@GRAD", d_x);
        run.put("Y@GRAD", d_y);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, some, t};

    fn op(input: &[usize]) -> Check {
        let op = check("addmm").input("Input", some(input)).input("X", some(&[2, 3]));
        op.input("Y", some(&[3, 4])).attr("Alpha", 0.5f32).attr("Beta", 2.0f32)
    }

    #[test]
    fn adds_a_product() {
        check("addmm")
            .input("Input", t(&[1, 2], &[1.0, 2.0]))
            .input("X", t(&[2, 1], &[3.0, 4.0]))
            .input("Y", t(&[1, 2], &[5.0, 6.0]))
            .attr("Beta", 10.0f32)
            .gives("Out", t(&[2, 2], &[25.0, 38.0, 30.0, 44.0]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        for input in [[2, 4], [1, 4], [2, 1], [1, 1]] {
            op(&input).output("Out").grad(&["Input", "X", "Y"]);
        }
    }

    #[test]
    fn refuses_sizes_that_do_not_fit() {
        let other = check("addmm").input("Input", some(&[2, 2])).input("X", some(&[2, 3]));
        for bad in [op(&[3, 4]), op(&[4]), other.input("Y", some(&[2, 2]))] {
            let error = bad.output("Out").fails();
            assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
        }
    }
}
