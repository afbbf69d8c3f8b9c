//! `cos_sim`: Out = X · Y / (XNorm YNorm) row by row; Y may be one row for all.

use tensor::{Float, Shape};

use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::error::Result;

pub(super) struct CosSim;
pub(super) struct CosSimGrad;

const RULE: &str = "X and Y must have equal shapes, except that Y may have one row";

/// Rows of X and of Y, and columns of both.
struct RowSizes {
    n_x: usize,
    n_y: usize,
    width: usize,
}

fn sizes(run: &Run<'_>) -> Result<RowSizes> {
    let (x, y) = (run.input("X")?.shape(), run.input("Y")?.shape());
    let fits = x.rank() == y.rank() && x.dims()[1..] == y.dims()[1..];
    let (n_x, n_y) = (x.dim(0), y.dim(0));
    if !fits || (n_y != 1 && n_x != n_y) {
        return Err(run.shapes(RULE, "X", "Y"));
    }
    Ok(RowSizes { n_x, n_y, width: x.flatten_2d(1).1 })
}

impl Op for CosSim {
    traits!(All(&["X", "Y"]), "X": [F32], "Y": [F32]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let (x, y) = (infer.input("X")?, infer.input("Y")?);
        let fits = match (&x.dims[..], &y.dims[..]) {
            ([n_x, x @ ..], [n_y, y @ ..]) => {
                super::dims::agree(x, y) && (*n_y == 1 || super::dims::agree(&[*n_x], &[*n_y]))
            }
            _ => false,
        };
        if !fits {
            return Err(infer.shapes(RULE, "X", "Y"));
        }
        infer.set_output("XNorm", x.with_dims(vec![x.dims[0], 1]).with_lod_level(0))?;
        infer.set_output("YNorm", y.with_dims(vec![y.dims[0], 1]).with_lod_level(0))?;
        infer.set_output("Out", x.with_dims(vec![x.dims[0], 1]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut out = run.take("Out");
        let mut x_norm = run.take("XNorm");
        let mut y_norm = run.take("YNorm");
        let RowSizes { n_x, n_y, width } = sizes(run)?;
        let x = run.input("X")?;
        for_float!(x.dtype(), run.input_name("X"), T => {
            let (data, y) = (x.data::<T>()?, run.data::<T>("Y")?);
            let x_norm = x_norm.resize::<T>(Shape::from([n_x, 1]));
            let y_norm = y_norm.resize::<T>(Shape::from([n_y, 1]));
            norms(data, width, x_norm);
            norms(y, width, y_norm);
            for (row, out) in out.resize::<T>(Shape::from([n_x, 1])).iter_mut().enumerate() {
                let y_row = if n_y == 1 { 0 } else { row };
                let dot = dot(&data[row * width..][..width], &y[y_row * width..][..width]);
                *out = dot / x_norm[row] / y_norm[y_row];
            }
            Ok(())
        })?;
        out.set_lod(x.lod().clone());
        run.put("Out", out);
        run.put("XNorm", x_norm);
        run.put("YNorm", y_norm);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(
            Keep::grads(&["Out"], &["X", "Y"])
                .inputs(&["X", "Y"])
                .outputs(&["Out", "XNorm", "YNorm"]),
        )
    }
}

fn dot<T: Float>(x: &[T], y: &[T]) -> T {
    x.iter().zip(y).fold(T::zero(), |sum, (&x, &y)| sum + x * y)
}

fn norms<T: Float>(x: &[T], width: usize, out: &mut [T]) {
    for (row, out) in out.iter_mut().enumerate() {
        let x = &x[row * width..][..width];
        *out = dot(x, x).sqrt();
    }
}

/// dX = dOut (Y / (XNorm YNorm) - Out X / XNorm²), and the same for Y with both exchanged.
impl Kernel for CosSimGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let RowSizes { n_x, n_y, width } = sizes(run)?;
        for (port, n) in [("Out", n_x), ("Out@GRAD", n_x), ("XNorm", n_x), ("YNorm", n_y)] {
            if run.input(port)?.len() != n {
                return Err(run.shapes("one number per row is needed", "X", port));
            }
        }
        let row_of_y = |row: usize| if n_y == 1 { 0 } else { row };
        for (this, other, swap) in [("X", "Y", false), ("Y", "X", true)] {
            let port = if swap { "Y@GRAD" } else { "X@GRAD" };
            if !run.wants(port) {
                continue;
            }
            let mut d = run.take(port);
            let x = run.input(this)?;
            for_float!(x.dtype(), run.input_name(this), T => {
                let (this, other) = (x.data::<T>()?, run.data::<T>(other)?);
                let (x_norm, y_norm) = (run.data::<T>("XNorm")?, run.data::<T>("YNorm")?);
                let (out, d_out) = (run.data::<T>("Out")?, run.data::<T>("Out@GRAD")?);
                let d = d.resize_zeroed::<T>(x.shape());
                for row in 0..n_x {
                    let norms = (x_norm[row], y_norm[row_of_y(row)]);
                    let (mine, yours) = if swap { (row_of_y(row), row) } else { (row, row_of_y(row)) };
                    let own = if swap { norms.1 } else { norms.0 };
                    let (this, other) = (&this[mine * width..], &other[yours * width..]);
                    for (k, d) in d[mine * width..][..width].iter_mut().enumerate() {
                        let slope = other[k] / (norms.0 * norms.1) - out[row] * this[k] / (own * own);
                        *d += d_out[row] * slope;
                    }
                }
                Ok(())
            })?;
            d.set_lod(x.lod().clone());
            run.put(port, d);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, t};

    fn sim(y: &[f64]) -> Check {
        check("cos_sim")
            .input("X", t(&[2, 2], &[3.0, 4.0, 1.0, 0.0]))
            .input("Y", t(&[y.len() / 2, 2], y))
    }

    #[test]
    fn measures_the_angle_of_rows() {
        sim(&[0.0, 2.0, -3.0, 0.0])
            .gives("Out", t(&[2, 1], &[0.8, -1.0]))
            .gives("XNorm", t(&[2, 1], &[5.0, 1.0]))
            .gives("YNorm", t(&[2, 1], &[2.0, 3.0]));
        sim(&[0.0, 2.0]).gives("Out", t(&[2, 1], &[0.8, 0.0]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        let of = |y: &[f64]| sim(y).output("Out").aux("XNorm").aux("YNorm").grad(&["X", "Y"]);
        of(&[0.5, 2.0, -3.0, 0.3]);
        of(&[0.5, 2.0]);
    }

    #[test]
    fn refuses_another_number_of_rows() {
        let error = sim(&[1.0; 6]).output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
