//! `add_position_encoding`: Out = `alpha` X + `beta` P, where P of step t is sin(t / 10000^(k / (h - 1))) in column k of the first half h of the
//! columns, and the cosine in the second half. Steps are the rows of a sequence, or the second of three dimensions.

use super::ragged;
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::error::Result;

pub(super) struct AddPositionEncoding;
pub(super) struct AddPositionEncodingGrad;

const OP: &str = "AddPositionEncodingOp";
const RANK: &str = "X is sequences of rows, or has three dimensions";
const EVEN: &str = "X has an even number of columns";

impl Op for AddPositionEncoding {
    traits!(Rows("X"), "X": [F32, F64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        match x.dims.last() {
            Some(width) if *width < 0 || width % 2 == 0 => infer.set_output("Out", x),
            _ => Err(infer.shape(EVEN, "X")),
        }
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (alpha, beta) = (run.attrs().float("alpha", 1.0)?, run.attrs().float("beta", 1.0)?);
        run.fill("Out", "X", |run, x, out| {
            let steps = steps(run)?;
            let width = x.shape().last();
            if width % 2 != 0 {
                return Err(run.shape(EVEN, "X"));
            }
            let half = width / 2;
            for_float!(x.dtype(), run.input_name("X"), T => {
                let (data, out) = (x.data::<T>()?, out.resize::<T>(x.shape()));
                let rows = out.chunks_exact_mut(width.max(1)).zip(data.chunks_exact(width.max(1)));
                for ((out, x), &step) in rows.zip(&steps) {
                    for k in 0..half {
                        let exponent = if half > 1 { k as f64 / (half - 1) as f64 } else { 1.0 };
                        let angle = step as f64 / 10000f64.powf(exponent);
                        let (sin, cos) = (angle.sin() * f64::from(beta), angle.cos() * f64::from(beta));
                        out[k] = (f64::from(x[k] * T::from(alpha)) + sin) as T;
                        out[half + k] = (f64::from(x[half + k] * T::from(alpha)) + cos) as T;
                    }
                }
                Ok(())
            })
        })
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X"]))
    }
}

/// Which step of its sequence each row is.
fn steps(run: &Run<'_>) -> Result<Vec<usize>> {
    let x = run.input("X")?;
    if x.lod().is_empty() {
        let &[n_samples, n_steps, _] = x.dims() else { return Err(run.shape(RANK, "X")) };
        return Ok((0..n_samples * n_steps).map(|row| row % n_steps).collect());
    }
    if x.shape().rank() != 2 {
        return Err(run.shape(RANK, "X"));
    }
    let offsets = ragged::only_offsets(run, OP, "X")?;
    Ok(offsets.windows(2).flat_map(|pair| 0..pair[1] - pair[0]).collect())
}

impl Kernel for AddPositionEncodingGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let alpha = run.attrs().float("alpha", 1.0)?;
        run.fill("X@GRAD", "Out@GRAD", |run, d_out, d_x| {
            for_float!(d_out.dtype(), run.input_name("Out@GRAD"), T => {
                let d_x = d_x.resize::<T>(d_out.shape()).iter_mut();
                d_x.zip(d_out.data::<T>()?).for_each(|(d_x, &d)| *d_x = d * T::from(alpha));
                Ok(())
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{check, seq, some, t};

    #[test]
    fn adds_sines_and_cosines() {
        let (x, y) = (t(&[1, 2, 4], &[1.0; 8]), [0.0, 0.0, 1.0, 1.0]);
        let second = [1f64.sin(), 1e-4f64.sin(), 1f64.cos(), 1e-4f64.cos()];
        let expected: Vec<f64> = y.iter().chain(&second).map(|p| 2.0 + 0.5 * p).collect();
        let check = || check("add_position_encoding").attr("alpha", 2.0f32).attr("beta", 0.5f32);
        check().input("X", x).gives("Out", t(&[1, 2, 4], &expected));
        let ragged = seq(t(&[2, 4], &[1.0; 8]), &[2]);
        check().input("X", ragged).gives("Out", seq(t(&[2, 4], &expected), &[2]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        let check = check("add_position_encoding").input("X", some(&[2, 2, 2]));
        check.attr("alpha", 0.3f32).output("Out").grad(&["X"]);
    }

    #[test]
    fn refuses_odd_widths_and_plain_matrices() {
        let check = |x| check("add_position_encoding").input("X", x).output("Out").fails();
        for x in [some(&[1, 2, 3]), some(&[2, 2])] {
            let error = check(x);
            assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
        }
    }
}
