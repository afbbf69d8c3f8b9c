//! `clip`: Out = X, but not below `min` and not above `max`.
//!
//! Tensors at Min and Max stand in for the attributes. Rows with equal ids are added up first.

use tensor::Number;

use super::map::{apply, apply_2, map_grad, map_merged, needed_float};
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::error::{Error, Result};

pub(super) struct Clip;
pub(super) struct ClipGrad;

/// The smallest and the greatest number allowed.
fn bounds(run: &Run<'_>) -> Result<(f64, f64)> {
    let bound = |port, attr| match run.n_inputs(port) {
        0 => needed_float(run, attr).map(f64::from),
        _ => run.scalar(port),
    };
    let (min, max) = (bound("Min", "min")?, bound("Max", "max")?);
    if min < max {
        return Ok((min, max));
    }
    let expected = format!("greater than min, which is {min}");
    Err(Error::BadAttr { attr: "max".to_string(), expected, actual: max.to_string() })
}

impl Op for Clip {
    traits!(Rows("X"), "X": [F16, F32, F64]; keeps_to_gradients);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (min, max) = bounds(run)?;
        map_merged(run, |run, x, out| {
            for_float!(x.dtype(), run.input_name("X"), T => {
                let (min, max) = (T::of(min), T::of(max));
                let values = out.resize::<T>(x.shape());
                // Written so that a NaN stays one.
                apply(x.data::<T>()?, values, |x| {
                    if x < min { min } else if x > max { max } else { x }
                });
                Ok(())
            })
        })
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X"]).inputs(&["X", "Min", "Max"]))
    }
}

/// dX = dOut where min < X < max, else 0.
impl Kernel for ClipGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (min, max) = bounds(run)?;
        map_grad(run, "X", |x, d_out, d_x| {
            for_float!(x.dtype(), "X", T => {
                let (min, max) = (T::of(min), T::of(max));
                let d_x = d_x.resize::<T>(x.shape());
                apply_2(x.data::<T>()?, d_out.data::<T>()?, d_x, |x, d| {
                    if min < x && x < max { d } else { 0.0 }
                });
                Ok(())
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use tensor::{Rows, Value};

    use crate::error::Error;
    use crate::op::check::{Check, check, ids, t};

    fn clip(min: f32, max: f32) -> Check {
        check("clip").attr("min", min).attr("max", max)
    }

    #[test]
    fn bounds_on_both_sides() {
        let x = t(&[5], &[-1.0, -0.5, 0.2, 0.5, 3.0]);
        clip(-0.5, 0.5).input("X", x).gives("Out", t(&[5], &[-0.5, -0.5, 0.2, 0.5, 0.5]));
    }

    #[test]
    fn takes_a_bound_from_a_tensor() {
        let op = clip(-0.5, 0.5).input("X", t(&[3], &[-1.0, 0.2, 0.5]));
        op.input("Max", t(&[1], &[0.25])).gives("Out", t(&[3], &[-0.5, 0.2, 0.25]));
    }

    #[test]
    fn adds_up_equal_rows_first() {
        let value = t(&[3, 2], &[1.0, 2.0, 3.0, -4.0, 0.5, 5.0]);
        let rows = Rows { ids: vec![3, 1, 3], height: 5, value };
        let out = clip(-1.0, 2.0).input("X", rows).output("Out").run("Out");
        let value = t(&[2, 2], &[2.0, -1.0, 1.5, 2.0]);
        assert_eq!(out, Value::Rows(Rows { ids: vec![1, 3], height: 5, value }));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        let x = t(&[4], &[-1.0, -0.2, 0.2, 3.0]);
        clip(-0.5, 0.5).input("X", x).output("Out").grad(&["X"]);
    }

    #[test]
    fn refuses_bounds_in_the_wrong_order_and_integers() {
        let error = clip(1.0, 1.0).input("X", t(&[1], &[1.0])).output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { attr, .. } if attr == "max"), "{error}");
        let error = clip(0.0, 1.0).input("X", ids(&[1], &[1])).output("Out").fails();
        assert!(matches!(error.root(), Error::DType { .. }), "{error}");
        let error = check("clip").input("X", t(&[1], &[1.0])).output("Out").fails();
        assert!(matches!(error.root(), Error::MissingAttr { .. }), "{error}");
    }
}
