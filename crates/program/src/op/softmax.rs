//! `softmax`: Out = exp(X - max) / sum of exp(X - max) along `axis`.
//!
//! X - max is bounded below by -64 before it is raised, as in Fluid: no class becomes impossible.

use std::iter::StepBy;
use std::ops::Range;

use tensor::{AxisSplit, Float};

use super::{Grad, Infer, Keep, Kernel, Op, Run, dims, for_float, traits};
use crate::error::Result;

pub(super) struct Softmax;
pub(super) struct SoftmaxGrad;

const NEEDS_AXIS: &str = "softmax needs a dimension of classes";

impl Op for Softmax {
    traits!(Inner("X", "axis", -1), "X": [F16, F32, F64]; knows_is_test);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        if x.dims.is_empty() {
            return Err(infer.shape(NEEDS_AXIS, "X"));
        }
        dims::axis(infer.attrs(), "axis", -1, x.dims.len())?;
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run.fill("Out", "X", |run, x, out| {
            let axis = dims::axis(run.attrs(), "axis", -1, x.shape().rank())?;
            let around = x.shape().around(axis);
            for_float!(x.dtype(), run.input_name("X"), T => {
                softmax(x.data::<T>()?, out.resize::<T>(x.shape()), around);
                Ok(())
            })
        })
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X"]).outputs(&["Out"]))
    }
}

/// dX = (dOut - sum(dOut Out)) Out.
impl Kernel for SoftmaxGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        dims::run_same(run, "Out", "Out@GRAD")?;
        run.fill("X@GRAD", "Out", |run, out, d_x| {
            let axis = dims::axis(run.attrs(), "axis", -1, out.shape().rank())?;
            let around = out.shape().around(axis);
            for_float!(out.dtype(), run.input_name("Out"), T => {
                let d_out = run.data::<T>("Out@GRAD")?;
                softmax_grad(out.data::<T>()?, d_out, d_x.resize::<T>(out.shape()), around);
                Ok(())
            })
        })
    }
}

/// The positions of the classes of each example, `size` of them `inner` apart.
fn examples(around: AxisSplit) -> impl Iterator<Item = StepBy<Range<usize>>> {
    let AxisSplit { outer, size, inner } = around;
    let starts = (0..outer).flat_map(move |o| (0..inner).map(move |i| o * size * inner + i));
    // The span ends at the last class itself, so a step beyond it is never taken.
    let span = (size * inner + 1).saturating_sub(inner);
    starts.map(move |start| (start..start + span).step_by(inner.max(1)))
}

/// Softmax along the middle one of three dimensions.
pub(super) fn softmax<T: Float>(x: &[T], out: &mut [T], around: AxisSplit) {
    if around.inner == 1 {
        let size = around.size.max(1);
        x.chunks_exact(size).zip(out.chunks_exact_mut(size)).for_each(|(x, out)| row(x, out));
        return;
    }
    for at in examples(around) {
        let max = at.clone().fold(T::neg_infinity(), |max, i| max.max(x[i]));
        let mut sum = T::zero();
        for i in at.clone() {
            out[i] = shifted(x[i], max);
            sum += out[i];
        }
        let scale = T::one() / sum;
        at.for_each(|i| out[i] *= scale);
    }
}

fn row<T: Float>(x: &[T], out: &mut [T]) {
    let max = x.iter().fold(T::neg_infinity(), |max, &x| max.max(x));
    let mut sum = T::zero();
    for (out, &x) in out.iter_mut().zip(x) {
        *out = shifted(x, max);
        sum += *out;
    }
    let scale = T::one() / sum;
    out.iter_mut().for_each(|out| *out *= scale);
}

/// exp(x - max), bounded. A NaN stays one: `max` would swallow it.
fn shifted<T: Float>(x: T, max: T) -> T {
    let bound = T::of(-64.0);
    let x = x - max;
    if x < bound { bound.exp() } else { x.exp() }
}

fn softmax_grad<T: Float>(out: &[T], d_out: &[T], d_x: &mut [T], around: AxisSplit) {
    for at in examples(around) {
        let dot = at.clone().fold(T::zero(), |sum, i| sum + d_out[i] * out[i]);
        at.for_each(|i| d_x[i] = (d_out[i] - dot) * out[i]);
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{check, t};

    #[test]
    fn normalises_each_row() {
        let (a, b) = (1.0 / 3.0, 1.0 / (1.0 + 1f64.exp()));
        check("softmax")
            .input("X", t(&[2, 2], &[0.0, 2f64.ln(), 5.0, 6.0]))
            .gives("Out", t(&[2, 2], &[a, 2.0 * a, b, 1.0 - b]));
    }

    #[test]
    fn bounds_what_is_far_below_the_largest() {
        let low = (-64f64).exp();
        check("softmax")
            .input("X", t(&[1, 2], &[0.0, -1000.0]))
            .within(1e-30)
            .gives("Out", t(&[1, 2], &[1.0 / (1.0 + low), low / (1.0 + low)]));
    }

    #[test]
    fn works_along_another_axis() {
        let a = 1.0 / 3.0;
        check("softmax")
            .input("X", t(&[2, 2], &[0.0, 1.0, 2f64.ln(), 1.0]))
            .attr("axis", 0)
            .gives("Out", t(&[2, 2], &[a, 0.5, 2.0 * a, 0.5]));
    }

    #[test]
    fn an_empty_batch_stays_empty() {
        check("softmax").input("X", t(&[0, 2], &[])).gives("Out", t(&[0, 2], &[]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        let x = [0.1, -0.4, 0.3, 1.2, -0.7, 0.5, 0.2, -1.1];
        check("softmax").input("X", t(&[2, 4], &x)).output("Out").grad(&["X"]);
        let middle = check("softmax").input("X", t(&[2, 2, 2], &x)).attr("axis", 1);
        middle.output("Out").grad(&["X"]);
    }

    #[test]
    fn refuses_an_axis_that_is_not_there() {
        let x = t(&[1, 2], &[0.0, 1.0]);
        let error = check("softmax").input("X", x).attr("axis", 2).output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
    }
}
