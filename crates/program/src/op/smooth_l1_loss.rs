//! `smooth_l1_loss`: with Diff d = (X - Y) InsideWeight and s = sigma², each element costs
//! s d²/2 where |d| < 1/s, else |d| - 1/(2 s), times OutsideWeight; Out sums a row's elements.

use tensor::{Float, Shape};

use super::{Grad, Infer, Keep, Kernel, Op, Run, dims, for_float, traits};
use crate::error::Result;

pub(super) struct SmoothL1Loss;
pub(super) struct SmoothL1LossGrad;

impl Op for SmoothL1Loss {
    traits!(Never, "X": [F32, F64], "Y": [F32, F64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        for port in ["Y", "InsideWeight", "OutsideWeight"] {
            if port == "Y" || infer.opt_input(port)?.is_some() {
                dims::infer_same(infer, "X", port)?;
            }
        }
        let x = infer.input("X")?.with_lod_level(0);
        if x.dims.len() < 2 {
            return Err(infer.shape("X needs rows and columns", "X"));
        }
        infer.set_output("Out", x.with_dims(vec![x.dims[0], 1]))?;
        infer.set_output("Diff", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let sigma = run.attrs().float("sigma", 1.0)?;
        let (mut diff, mut out) = (run.take("Diff"), run.take("Out"));
        dims::run_same(run, "X", "Y")?;
        check_weights(run, "X")?;
        let x = run.input("X")?;
        let (n_rows, n_columns) = x.shape().flatten_2d(1);
        for_float!(x.dtype(), run.input_name("X"), T => {
            let (inside, outside) = weights::<T>(run)?;
            let data = x.data::<T>()?;
            let y = run.data::<T>("Y")?;
            let diff = diff.resize::<T>(x.shape());
            let out = out.resize_zeroed::<T>(Shape::from([n_rows, 1]));
            let s = T::from(sigma) * T::from(sigma);
            for at in 0..diff.len() {
                diff[at] = (data[at] - y[at]) * inside.map_or(1.0, |w| w[at]);
                out[at / n_columns] += cost(diff[at], s) * outside.map_or(1.0, |w| w[at]);
            }
            Ok(())
        })?;
        run.put("Diff", diff);
        run.put("Out", out);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(
            Keep::grads(&["Out"], &["X", "Y"])
                .inputs(&["InsideWeight", "OutsideWeight"])
                .outputs(&["Diff"]),
        )
    }
}

fn check_weights(run: &Run<'_>, like: &str) -> Result<()> {
    for port in ["InsideWeight", "OutsideWeight"] {
        if run.opt_input(port).is_some() {
            dims::run_same(run, like, port)?;
        }
    }
    Ok(())
}

type Weights<'a, T> = (Option<&'a [T]>, Option<&'a [T]>);

fn weights<'a, T: Float>(run: &'a Run<'_>) -> Result<Weights<'a, T>> {
    Ok((run.opt_data("InsideWeight")?, run.opt_data("OutsideWeight")?))
}

fn cost<T: Float>(d: T, s: T) -> T {
    let (size, half) = (d.abs(), T::of(0.5));
    if size < T::one() / s { half * s * d * d } else { size - half / s }
}

/// The derivative of `cost`.
fn slope<T: Float>(d: T, s: T) -> T {
    if d.abs() < T::one() / s { s * d } else { d.signum() }
}

/// dX = dOut slope(Diff) InsideWeight OutsideWeight, dY = -dX.
impl Kernel for SmoothL1LossGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let sigma = run.attrs().float("sigma", 1.0)?;
        check_weights(run, "Diff")?;
        let (n_rows, n_columns) = run.input("Diff")?.shape().flatten_2d(1);
        if run.input("Out@GRAD")?.len() != n_rows {
            return Err(run.shapes(dims::LOSS, "Diff", "Out@GRAD"));
        }
        for (port, sign) in [("X@GRAD", 1.0f32), ("Y@GRAD", -1.0)] {
            if !run.wants(port) {
                continue;
            }
            let mut d = run.take(port);
            let diff = run.input("Diff")?;
            for_float!(diff.dtype(), run.input_name("Diff"), T => {
                let (inside, outside) = weights::<T>(run)?;
                let (data, d_out) = (diff.data::<T>()?, run.data::<T>("Out@GRAD")?);
                let s = T::from(sigma) * T::from(sigma);
                for (at, d) in d.resize::<T>(diff.shape()).iter_mut().enumerate() {
                    let weight = |w: Option<&[T]>| w.map_or(1.0, |w| w[at]);
                    let d_loss = d_out[at / n_columns] * weight(inside) * weight(outside);
                    *d = T::from(sign) * d_loss * slope(data[at], s);
                }
                Ok(())
            })?;
            run.put(port, d);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, t};

    fn loss() -> Check {
        check("smooth_l1_loss")
            .input("X", t(&[1, 3], &[0.2, 0.3, 0.5]))
            .input("Y", t(&[1, 3], &[0.1, 1.3, -0.5]))
            .attr("sigma", 2.0f32)
    }

    fn weighted() -> Check {
        loss()
            .input("InsideWeight", t(&[1, 3], &[2.0, 0.3, 0.5]))
            .input("OutsideWeight", t(&[1, 3], &[3.0, 0.3, 0.5]))
    }

    #[test]
    fn sums_the_costs_of_a_row() {
        // 4 * 0.01 / 2 + (1 - 0.125) + (1 - 0.125).
        loss().gives("Out", t(&[1, 1], &[1.77])).gives("Diff", t(&[1, 3], &[0.1, -1.0, 1.0]));
    }

    #[test]
    fn weights_apply_inside_and_outside() {
        // The value that Fluid 1.8.5 gives.
        weighted().gives("Out", t(&[1, 1], &[0.48]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        loss().aux("Diff").output("Out").grad(&["X", "Y"]);
        weighted().aux("Diff").output("Out").grad(&["X", "Y"]);
    }

    #[test]
    fn refuses_a_weight_of_another_shape() {
        let error = loss().input("InsideWeight", t(&[1], &[1.0])).output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
