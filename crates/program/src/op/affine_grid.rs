//! `affine_grid`: Output[n, y, x] = Theta[n] applied to (x, y, 1), with x and y from -1 to 1 over an image of the
//! size in `output_shape` (or OutputShape): [images, channels, height, width].

use tensor::Shape;

use super::sizes::{self, bad_attr};
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::error::Result;

pub(super) struct AffineGrid;
pub(super) struct AffineGridGrad;

const THETA: &str = "a matrix of 2 x 3 for each image is needed";

fn size(said: &[i64]) -> Result<[i64; 2]> {
    match *said {
        [_, _, h, w] if h > 0 && w > 0 => Ok([h, w]),
        _ => {
            Err(bad_attr("output_shape", "images, channels, and a positive height and width", said))
        }
    }
}

fn shape(run: &Run<'_>) -> Result<Shape> {
    let &[n, 2, 3] = run.input("Theta")?.dims() else { return Err(run.shape(THETA, "Theta")) };
    let attr = run.attrs().ints("output_shape")?;
    let said = if attr.is_empty() { sizes::integers_at(run, "OutputShape")? } else { None };
    let [h, w] = size(&said.unwrap_or(attr))?;
    Ok(Shape::from_dims(&[n as i64, h, w, 2])?)
}

/// The coordinates of a place of the grid.
fn point(shape: Shape, place: usize) -> [f64; 3] {
    let along = |i: usize, size: usize| {
        if size < 2 { -1.0 } else { -1.0 + 2.0 / (size - 1) as f64 * i as f64 }
    };
    let (h, w) = (shape.dim(1), shape.dim(2));
    [along(place % w, w), along(place / w % h, h), 1.0]
}

impl Op for AffineGrid {
    traits!(Never, "Theta": [F32, F64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let theta = infer.input("Theta")?;
        let &[n, 2, 3] = &theta.dims[..] else { return Err(infer.shape(THETA, "Theta")) };
        let said = infer.attrs().ints("output_shape")?;
        let [h, w] = if said.is_empty() { [-1, -1] } else { size(&said)? };
        infer.set_output("Output", theta.with_dims(vec![n, h, w, 2]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run.make("Output", |run, out| {
            let shape = shape(run)?;
            let theta = run.input("Theta")?;
            let pixels = shape.dim(1) * shape.dim(2);
            for_float!(theta.dtype(), run.input_name("Theta"), T => {
                let theta = theta.data::<T>()?;
                for (at, out) in out.try_resize::<T>(shape)?.iter_mut().enumerate() {
                    let row = &theta[at / (2 * pixels) * 6 + at % 2 * 3..][..3];
                    let sum = row.iter().zip(point(shape, at / 2));
                    *out = sum.map(|(&theta, at)| theta * at as T).sum();
                }
                Ok(())
            })
        })
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let has = |port: &&str| !grad.op().input_names(port).is_empty();
        let read: Vec<&str> = ["Theta", "OutputShape"].into_iter().filter(has).collect();
        grad.emit_usual(Keep::grads(&["Output"], &["Theta"]).inputs(&read))
    }
}

impl Kernel for AffineGridGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run.make("Theta@GRAD", |run, d_theta| {
            let shape = shape(run)?;
            if run.input("Output@GRAD")?.shape() != shape {
                return Err(run.shapes(
                    "the gradient must have the grid's shape",
                    "Output@GRAD",
                    "Theta",
                ));
            }
            let theta = run.input("Theta")?;
            let pixels = shape.dim(1) * shape.dim(2);
            for_float!(theta.dtype(), run.input_name("Theta"), T => {
                let d_theta = d_theta.resize_zeroed::<T>(theta.shape());
                for (at, &d) in run.data::<T>("Output@GRAD")?.iter().enumerate() {
                    let row = &mut d_theta[at / (2 * pixels) * 6 + at % 2 * 3..][..3];
                    let sum = row.iter_mut().zip(point(shape, at / 2));
                    sum.for_each(|(theta, at)| *theta += d * at as T);
                }
                Ok(())
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{check, ids, some, t};

    #[test]
    fn moves_a_grid() {
        let op =
            check("affine_grid").input("Theta", t(&[1, 2, 3], &[1.0, 0.0, 0.5, 0.0, 2.0, 0.0]));
        let out = [-0.5, -2.0, 1.5, -2.0, -0.5, 2.0, 1.5, 2.0];
        op.attr("output_shape", vec![1, 1, 2, 2]).gives("Output", t(&[1, 2, 2, 2], &out));
        let op = check("affine_grid").input("Theta", some(&[2, 2, 3]));
        op.input("OutputShape", ids(&[4], &[2, 1, 3, 2])).output("Output").grad(&["Theta"]);
    }

    #[test]
    fn refuses_other_matrices_and_sizes() {
        let op = check("affine_grid").input("Theta", some(&[1, 3, 3]));
        let error = op.attr("output_shape", vec![1, 1, 2, 2]).output("Output").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
        let op = check("affine_grid").input("Theta", some(&[1, 2, 3]));
        let error = op.attr("output_shape", vec![2, 2]).output("Output").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
    }
}
