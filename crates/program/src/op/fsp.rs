//! `fsp`: Out = for each sample the products of the channels of X with those of Y, X Yᵀ / (height x width), both with four dimensions.

use tensor::Shape;
use tensor::gemm::{Matrix, gemm};

use super::{Grad, Infer, Keep, Kernel, Op, Run, dims, for_float, traits};
use crate::error::Result;

pub(super) struct Fsp;
pub(super) struct FspGrad;

const RULE: &str = "X and Y have four dimensions, the same but for channels";

/// Sizes of one run.
#[derive(Clone, Copy)]
struct FspSizes {
    n_samples: usize,
    x_channels: usize,
    y_channels: usize,
    area: usize,
}

impl FspSizes {
    fn of(run: &Run<'_>) -> Result<Self> {
        let (x, y) = (run.input("X")?, run.input("Y")?);
        let (&[n_samples, x_channels, ref x_area @ ..], &[n, y_channels, ref y_area @ ..]) =
            (x.dims(), y.dims())
        else {
            return Err(run.shapes(RULE, "X", "Y"));
        };
        if n != n_samples || x_area != y_area || x_area.len() != 2 {
            return Err(run.shapes(RULE, "X", "Y"));
        }
        Ok(Self { n_samples, x_channels, y_channels, area: x_area.iter().product() })
    }
}

impl Op for Fsp {
    traits!(All(&["X", "Y"]), "X": [F32, F64], "Y": [F32, F64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let (x, y) = (infer.input("X")?, infer.input("Y")?);
        let fits =
            x.dims.len() == 4 && y.dims.len() == 4 && dims::agree(&x.dims[2..], &y.dims[2..]);
        if !fits || !dims::agree(&x.dims[..1], &y.dims[..1]) {
            return Err(infer.shapes(RULE, "X", "Y"));
        }
        let dims = vec![x.dims[0], x.dims[1], y.dims[1]];
        infer.set_output("Out", x.with_dims(dims))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run.fill("Out", "X", |run, x, out| {
            let FspSizes { n_samples, x_channels, y_channels, area } = FspSizes::of(run)?;
            for_float!(x.dtype(), run.input_name("X"), T => {
                let (xs, ys) = (x.data::<T>()?, run.data::<T>("Y")?);
                let shape = Shape::from([n_samples, x_channels, y_channels]);
                let out = out.try_resize::<T>(shape)?;
                for sample in 0..n_samples {
                    let x = &xs[sample * x_channels * area..][..x_channels * area];
                    let y = &ys[sample * y_channels * area..][..y_channels * area];
                    let out = &mut out[sample * x_channels * y_channels..][..x_channels * y_channels];
                    let y = Matrix::new(y, y_channels, area).t();
                    gemm(1.0 / area as T, Matrix::new(x, x_channels, area), y, 0.0, out);
                }
                Ok(())
            })
        })
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X", "Y"]).inputs(&["X", "Y"]))
    }
}

/// dX = dOut Y / area, dY = dOutᵀ X / area.
impl Kernel for FspGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (mut d_x, mut d_y) = (run.take("X@GRAD"), run.take("Y@GRAD"));
        let FspSizes { n_samples, x_channels, y_channels, area } = FspSizes::of(run)?;
        let (x, y) = (run.input("X")?, run.input("Y")?);
        if run.input("Out@GRAD")?.shape() != Shape::from([n_samples, x_channels, y_channels]) {
            return Err(run.shapes("the result has another shape", "Out@GRAD", "X"));
        }
        for_float!(x.dtype(), run.input_name("X"), T => {
            let (xs, ys) = (x.data::<T>()?, run.data::<T>("Y")?);
            let d_out = run.data::<T>("Out@GRAD")?;
            let (d_x, d_y) = (d_x.resize::<T>(x.shape()), d_y.resize::<T>(y.shape()));
            let scale = 1.0 / area as T;
            for sample in 0..n_samples {
                let x_part = sample * x_channels * area..(sample + 1) * x_channels * area;
                let y_part = sample * y_channels * area..(sample + 1) * y_channels * area;
                let d_out = &d_out[sample * x_channels * y_channels..][..x_channels * y_channels];
                let d_out = Matrix::new(d_out, x_channels, y_channels);
                let y = Matrix::new(&ys[y_part.clone()], y_channels, area);
                let x = Matrix::new(&xs[x_part.clone()], x_channels, area);
                gemm(scale, d_out, y, 0.0, &mut d_x[x_part]);
                gemm(scale, d_out.t(), x, 0.0, &mut d_y[y_part]);
            }
            Ok(())
        })?;
        run.put("X@GRAD", d_x);
        run.put("Y@GRAD", d_y);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{check, some, t};

    #[test]
    fn multiplies_channels() {
        check("fsp")
            .input("X", t(&[1, 2, 1, 2], &[1.0, 2.0, 3.0, 4.0]))
            .input("Y", t(&[1, 1, 1, 2], &[1.0, -1.0]))
            .gives("Out", t(&[1, 2, 1], &[-0.5, -0.5]));
    }

    #[test]
    fn gradients_match_finite_differences() {
        let check = check("fsp").input("X", some(&[2, 3, 2, 2])).input("Y", some(&[2, 2, 2, 2]));
        check.output("Out").grad(&["X", "Y"]);
    }

    #[test]
    fn refuses_areas_that_differ() {
        let check = check("fsp").input("X", some(&[1, 1, 2, 2])).input("Y", some(&[1, 1, 2, 3]));
        let error = check.output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
