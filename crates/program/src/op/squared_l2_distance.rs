//! `squared_l2_distance`: Out = |X - Y|², row by row; one row of Y does for all of X.
//!
//! sub_result keeps X - Y as a matrix for the gradient: dX = 2 dOut (X - Y), dY = -dX, added up
//! where Y has one row.

use tensor::{Float, Shape};

use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::error::Result;

pub(super) struct SquaredL2Distance;
pub(super) struct SquaredL2DistanceGrad;

const RULE: &str = "Y must have rows like X's, one or as many";
const GRAD_RULE: &str = "a gradient needs what the op computed";

impl Op for SquaredL2Distance {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let (x, y) = (infer.input("X")?, infer.input("Y")?);
        if x.dims.len() < 2 || x.dims.len() != y.dims.len() {
            return Err(infer.shapes(RULE, "X", "Y"));
        }
        let width = match &x.dims[1..] {
            known if known.iter().all(|&dim| dim >= 0) => {
                known.iter().fold(1i64, |n, &dim| n.saturating_mul(dim))
            }
            _ => -1,
        };
        let out = x.with_dims(vec![x.dims[0], 1]);
        infer.set_output("sub_result", x.with_dims(vec![x.dims[0], width]).with_lod_level(0))?;
        infer.set_output("Out", out)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (mut sub, mut out) = (run.take("sub_result"), run.take("Out"));
        let (x, y) = (run.input("X")?, run.input("Y")?);
        let (n, width) = x.shape().flatten_2d(1);
        let (y_rows, y_width) = y.shape().flatten_2d(1);
        let fits = x.shape().rank() >= 2 && width == y_width && (y_rows == 1 || y_rows == n);
        if !fits {
            return Err(run.shapes(RULE, "X", "Y"));
        }
        for_float!(x.dtype(), run.input_name("X"), T => {
            let (x, y) = (x.data::<T>()?, run.data::<T>("Y")?);
            let sub = sub.resize::<T>(Shape::from([n, width]));
            for (at, (sub, &x)) in sub.iter_mut().zip(x).enumerate() {
                *sub = x - y[if y_rows == 1 { at % width } else { at }];
            }
            for (row, out) in out.resize::<T>(Shape::from([n, 1])).iter_mut().enumerate() {
                let row = &sub[row * width..(row + 1) * width];
                *out = row.iter().fold(0.0, |sum, &d| sum + d * d);
            }
            Ok(())
        })?;
        out.set_lod(x.lod().clone());
        run.put("sub_result", sub);
        run.put("Out", out);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(
            Keep::grads(&["Out"], &["X", "Y"]).inputs(&["X", "Y"]).outputs(&["sub_result"]),
        )
    }
}

impl Kernel for SquaredL2DistanceGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (mut d_x, mut d_y) = (run.take("X@GRAD"), run.take("Y@GRAD"));
        let x = run.input("X")?;
        let y = run.input("Y")?;
        let sub = run.input("sub_result")?;
        let (n, width) = x.shape().flatten_2d(1);
        let y_rows = y.shape().flatten_2d(1).0;
        let fits = sub.len() == x.len() && run.input("Out@GRAD")?.len() == n;
        if !fits || (y_rows != 1 && y_rows != n) || y.len() != y_rows * width {
            return Err(run.shapes(GRAD_RULE, "sub_result", "X"));
        }
        for_float!(sub.dtype(), run.input_name("sub_result"), T => {
            let (sub, d_out) = (sub.data::<T>()?, run.data::<T>("Out@GRAD")?);
            let slope = |at: usize| (sub[at] + sub[at]) * d_out[at / width];
            write(d_x.resize_zeroed::<T>(x.shape()), x.len(), slope);
            write(d_y.resize_zeroed::<T>(y.shape()), x.len(), |at| -slope(at));
            Ok(())
        })?;
        d_x.set_lod(x.lod().clone());
        d_y.set_lod(y.lod().clone());
        run.put("X@GRAD", d_x);
        run.put("Y@GRAD", d_y);
        Ok(())
    }
}

/// Adds up what belongs to the same number, which a single row has more of.
fn write<T: Float>(d: &mut [T], n: usize, slope: impl Fn(usize) -> T) {
    for at in 0..n {
        let to = at % d.len();
        d[to] += slope(at);
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, t};

    fn distance(y: &[usize]) -> Check {
        let n = y.iter().product::<usize>();
        check("squared_l2_distance")
            .input("X", t(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
            .input("Y", t(y, &[0.5, 1.0, 1.0, 4.0, 3.0, 6.5][..n]))
    }

    #[test]
    fn measures_rows() {
        distance(&[2, 3]).aux("sub_result").gives("Out", t(&[2, 1], &[5.25, 4.25]));
        distance(&[1, 3]).aux("sub_result").gives("Out", t(&[2, 1], &[5.25, 53.25]));
        let sub = t(&[2, 3], &[0.5, 1.0, 2.0, 0.0, 2.0, -0.5]);
        distance(&[2, 3]).output("Out").gives("sub_result", sub);
    }

    #[test]
    fn gradients_match_finite_differences() {
        for y in [&[2, 3], &[1, 3]] {
            distance(y).aux("sub_result").output("Out").grad(&["X", "Y"]);
        }
    }

    #[test]
    fn refuses_rows_of_another_kind() {
        let error = distance(&[3, 2]).aux("sub_result").output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
