//! `bilinear_tensor_product`: Out\[n, k\] = X\[n\] Weight\[k\] Y\[n\]ᵀ + Bias\[k\].

use tensor::gemm::{Matrix, gemm};
use tensor::{Float, Shape};

use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::error::Result;

pub(super) struct BilinearTensorProduct;
pub(super) struct BilinearTensorProductGrad;

const RULE: &str = "X and Y are matrices of as many rows";
const WEIGHT: &str = "Weight has the widths of X and Y as second and third dimension";

/// Sizes of one run.
#[derive(Clone, Copy)]
struct BilinearSizes {
    n_rows: usize,
    x_width: usize,
    y_width: usize,
    width: usize,
}

impl BilinearSizes {
    fn of(run: &Run<'_>) -> Result<Self> {
        let (x, y) = (run.input("X")?, run.input("Y")?);
        let (&[n_rows, x_width], &[n, y_width]) = (x.dims(), y.dims()) else {
            return Err(run.shapes(RULE, "X", "Y"));
        };
        if n != n_rows {
            return Err(run.shapes(RULE, "X", "Y"));
        }
        let width = match *run.input("Weight")?.dims() {
            [width, a, b] if a == x_width && b == y_width => width,
            _ => return Err(run.shapes(WEIGHT, "X", "Weight")),
        };
        if run.opt_input("Bias").is_some_and(|bias| bias.len() != width) {
            return Err(run.shapes(
                "Bias has a number for each matrix of Weight",
                "Bias",
                "Weight",
            ));
        }
        Ok(Self { n_rows, x_width, y_width, width })
    }
}

impl Op for BilinearTensorProduct {
    traits!(All(&["X", "Y"]));

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let (x, y) = (infer.input("X")?, infer.input("Y")?);
        let weight = infer.input("Weight")?;
        let ([n_rows, x_width], [_, y_width]) = (&x.dims[..], &y.dims[..]) else {
            return Err(infer.shapes(RULE, "X", "Y"));
        };
        let [width, a, b] = *weight.dims else { return Err(infer.shapes(WEIGHT, "X", "Weight")) };
        if !super::dims::agree(&[a, b], &[*x_width, *y_width]) {
            return Err(infer.shapes(WEIGHT, "X", "Weight"));
        }
        infer.set_output("Out", x.with_dims(vec![*n_rows, width]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (mut out, mut product) = (run.take("Out"), run.spare().tensor());
        let sizes = BilinearSizes::of(run)?;
        let x = run.input("X")?;
        for_float!(x.dtype(), run.input_name("X"), T => {
            let product = product.resize::<T>(Shape::from([sizes.n_rows, sizes.y_width]));
            forward(run, sizes, product, out.try_resize::<T>(Shape::from([sizes.n_rows, sizes.width]))?)
        })?;
        out.set_lod(x.lod().clone());
        run.put("Out", out);
        run.spare().keep(product);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let keep = Keep::grads(&["Out"], &["X", "Y", "Weight", "Bias"]);
        grad.emit_usual(keep.inputs(&["X", "Y", "Weight", "Bias"]))
    }
}

fn forward<T: Float>(
    run: &Run<'_>,
    sizes: BilinearSizes,
    product: &mut [T],
    out: &mut [T],
) -> Result<()> {
    let BilinearSizes { n_rows, x_width, y_width, width } = sizes;
    let x = Matrix::new(run.data::<T>("X")?, n_rows, x_width);
    let (y, weight) = (run.data::<T>("Y")?, run.data::<T>("Weight")?);
    let bias = run.opt_data::<T>("Bias")?;
    for k in 0..width {
        let weight = &weight[k * x_width * y_width..(k + 1) * x_width * y_width];
        gemm(T::one(), x, Matrix::new(weight, x_width, y_width), T::zero(), product);
        let start = bias.map_or(T::zero(), |bias| bias[k]);
        for row in 0..n_rows {
            let places = row * y_width..(row + 1) * y_width;
            let pairs = product[places.clone()].iter().zip(&y[places]);
            out[row * width + k] = pairs.fold(start, |sum, (&p, &y)| sum + p * y);
        }
    }
    Ok(())
}

/// dX = sum of dOut\[k\] Y Weight\[k\]ᵀ, dY = sum of dOut\[k\] X Weight\[k\], dWeight\[k\] = (dOut\[k\] X)ᵀ Y.
impl Kernel for BilinearTensorProductGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (mut d_x, mut d_y) = (run.take("X@GRAD"), run.take("Y@GRAD"));
        let (mut d_weight, mut d_bias) = (run.take("Weight@GRAD"), run.take("Bias@GRAD"));
        let mut scaled = run.spare().tensor();
        let sizes = BilinearSizes::of(run)?;
        let BilinearSizes { n_rows, x_width, y_width, width } = sizes;
        if run.input("Out@GRAD")?.shape() != Shape::from([n_rows, width]) {
            return Err(run.shapes("the result has another shape", "Out@GRAD", "X"));
        }
        let (x, y) = (run.input("X")?, run.input("Y")?);
        for_float!(x.dtype(), run.input_name("X"), T => {
            let (d_out, weight) = (run.data::<T>("Out@GRAD")?, run.data::<T>("Weight")?);
            let (xs, ys) = (x.data::<T>()?, run.data::<T>("Y")?);
            let d_x = d_x.resize_zeroed::<T>(x.shape());
            let d_y = d_y.resize_zeroed::<T>(y.shape());
            let d_weight = d_weight.resize_zeroed::<T>(run.input("Weight")?.shape());
            for k in 0..width {
                let part = k * x_width * y_width..(k + 1) * x_width * y_width;
                let weight = Matrix::new(&weight[part.clone()], x_width, y_width);
                let by_row = |from: &[T], columns: usize, to: &mut [T]| {
                    let pairs = to.iter_mut().zip(from).enumerate();
                    pairs.for_each(|(at, (to, &x))| *to = x * d_out[at / columns * width + k]);
                };
                let times_y = scaled.resize::<T>(y.shape());
                by_row(ys, y_width, times_y);
                gemm(1.0, Matrix::new(times_y, n_rows, y_width), weight.t(), 1.0, d_x);
                let times_x = scaled.resize::<T>(x.shape());
                by_row(xs, x_width, times_x);
                let times_x = Matrix::new(&*times_x, n_rows, x_width);
                gemm(1.0, times_x, weight, 1.0, d_y);
                gemm(1.0, times_x.t(), Matrix::new(ys, n_rows, y_width), 0.0, &mut d_weight[part]);
            }
            if let Some(bias) = run.opt_input("Bias") {
                let d_bias = d_bias.resize_zeroed::<T>(bias.shape());
                d_out.iter().enumerate().for_each(|(at, &d)| d_bias[at % width] += d);
            }
            Ok(())
        })?;
        d_x.set_lod(x.lod().clone());
        d_y.set_lod(y.lod().clone());
        run.put("X@GRAD", d_x);
        run.put("Y@GRAD", d_y);
        run.put("Weight@GRAD", d_weight);
        run.put("Bias@GRAD", d_bias);
        run.spare().keep(scaled);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, some, t};

    fn product() -> Check {
        check("bilinear_tensor_product")
            .input("X", some(&[2, 3]))
            .input("Y", some(&[2, 2]))
            .input("Weight", some(&[4, 3, 2]))
    }

    #[test]
    fn multiplies_both_sides() {
        check("bilinear_tensor_product")
            .input("X", t(&[1, 2], &[1.0, 2.0]))
            .input("Y", t(&[1, 2], &[3.0, 4.0]))
            .input("Weight", t(&[2, 2, 2], &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0]))
            .input("Bias", t(&[1, 2], &[0.5, -0.5]))
            .gives("Out", t(&[1, 2], &[11.5, 6.5]));
    }

    #[test]
    fn gradients_match_finite_differences() {
        product().output("Out").grad(&["X", "Y", "Weight"]);
        product().input("Bias", some(&[1, 4])).output("Out").grad(&["X", "Y", "Weight", "Bias"]);
    }

    #[test]
    fn refuses_widths_that_do_not_fit() {
        for check in [
            product().input("Y", some(&[3, 2])),
            product().input("Weight", some(&[4, 2, 2])),
            product().input("Bias", some(&[1, 3])),
        ] {
            let error = check.output("Out").fails();
            assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
        }
    }
}
