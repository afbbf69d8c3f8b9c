//! `prelu`: Out = X where X > 0, else Alpha X.
//!
//! Alpha is one number (`mode` all), one per channel, the second dimension (channel), or one per
//! element of an example (element).

use tensor::{Shape, Tensor};

use super::broadcast::Broadcast;
use super::{Grad, Infer, Keep, Kernel, Op, OpOnRows, Run, for_float, traits};
use crate::error::{Error, Result};

pub(super) struct Prelu;
pub(super) struct PreluGrad;

/// How Alpha, whatever its shape, spreads over X.
fn spread(run: &Run<'_>, x: &Tensor, alpha: &Tensor) -> Result<Broadcast> {
    let dims = x.dims();
    let (shape, axis) = match (run.attrs().str("mode", "all")?, dims) {
        ("all", _) => (Shape::from([1]), -1),
        ("channel", &[_, channels, ..]) => (Shape::from([channels]), 1),
        ("element", &[_, _, ..]) => (Shape::new(&dims[1..]), 1),
        ("channel" | "element", _) => {
            return Err(run.shape("this mode needs two dimensions or more", "X"));
        }
        (other, _) => {
            let (attr, expected) = ("mode".to_string(), "all, channel or element".to_string());
            return Err(Error::BadAttr { attr, expected, actual: other.to_string() });
        }
    };
    let fits = shape.n_elements() == alpha.len();
    let plan = Broadcast::of(x.shape(), shape, axis).filter(|_| fits);
    plan.ok_or_else(|| run.shapes("Alpha must have as many numbers as its mode asks", "Alpha", "X"))
}

/// Whether Alpha is the same for all samples, however X is fed.
fn is_by_sample(op: &OpOnRows<'_>) -> bool {
    op.only_rows("X") && op.attrs().str("mode", "all").is_ok_and(|mode| mode != "element")
}

impl Op for Prelu {
    traits!(When(is_by_sample), "X": [F32, F64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        infer.input("Alpha")?;
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut out = run.take("Out");
        let (x, alpha) = (run.input("X")?, run.input("Alpha")?);
        let plan = spread(run, x, alpha)?;
        for_float!(x.dtype(), run.input_name("X"), T => {
            let (data, alpha) = (x.data::<T>()?, run.data::<T>("Alpha")?);
            let bend = |x, alpha| if x > 0.0 { x } else { alpha * x };
            plan.zip(data, alpha, out.resize::<T>(x.shape()), bend);
            Ok(())
        })?;
        out.set_lod(x.lod().clone());
        run.put("Out", out);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X", "Alpha"]).inputs(&["X", "Alpha"]))
    }
}

/// dX = dOut where X > 0, else Alpha dOut; dAlpha = sum of X dOut where X <= 0.
impl Kernel for PreluGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (mut d_x, mut d_alpha) = (run.take("X@GRAD"), run.take("Alpha@GRAD"));
        super::dims::run_same(run, "X", "Out@GRAD")?;
        let (x, alpha) = (run.input("X")?, run.input("Alpha")?);
        let plan = spread(run, x, alpha)?;
        for_float!(x.dtype(), run.input_name("X"), T => {
            let (xs, alphas) = (x.data::<T>()?, run.data::<T>("Alpha")?);
            let d_out = run.data::<T>("Out@GRAD")?;
            if run.wants("X@GRAD") {
                let slope = |x, alpha, _, d| if x > 0.0 { d } else { alpha * d };
                plan.sum_into_x([xs, alphas, d_out, d_out], d_x.resize(x.shape()), slope);
            }
            if run.wants("Alpha@GRAD") {
                let slope = |_, x, _, d| if x > 0.0 { 0.0 } else { x * d };
                let (plan, d_alpha) = (plan.swapped(), d_alpha.resize(alpha.shape()));
                plan.sum_into_x([alphas, xs, d_out, d_out], d_alpha, slope);
            }
            Ok(())
        })?;
        d_x.set_lod(x.lod().clone());
        run.put("X@GRAD", d_x);
        run.put("Alpha@GRAD", d_alpha);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tensor::Tensor;

    use crate::error::Error;
    use crate::op::check::{Check, check, t};

    fn prelu(mode: &str, alpha: Tensor) -> Check {
        let x = t(&[2, 2, 2], &[-4.0, 3.0, -2.0, 1.0, 5.0, -6.0, 7.0, -8.0]);
        check("prelu").input("X", x).input("Alpha", alpha).attr("mode", mode)
    }

    #[test]
    fn bends_by_mode() {
        let is = |op: Check, out: &[f64]| op.gives("Out", t(&[2, 2, 2], out));
        let all = [-2.0, 3.0, -1.0, 1.0, 5.0, -3.0, 7.0, -4.0];
        is(prelu("all", t(&[1], &[0.5])), &all);
        let channel = [-2.0, 3.0, -0.5, 1.0, 5.0, -3.0, 7.0, -2.0];
        is(prelu("channel", t(&[1, 2, 1, 1], &[0.5, 0.25])), &channel);
        let element = [-2.0, 3.0, -0.5, 1.0, 5.0, -1.0, 7.0, -0.0];
        is(prelu("element", t(&[1, 2, 2], &[0.5, 1.0 / 6.0, 0.25, 0.0])), &element);
    }

    #[test]
    fn gradient_matches_finite_differences() {
        prelu("all", t(&[1], &[0.5])).output("Out").grad(&["X", "Alpha"]);
        prelu("channel", t(&[1, 2, 1, 1], &[0.5, 0.25])).output("Out").grad(&["X", "Alpha"]);
        let alpha = t(&[1, 2, 2], &[0.5, 0.1, 0.25, 0.0]);
        prelu("element", alpha).output("Out").grad(&["X", "Alpha"]);
    }

    #[test]
    fn refuses_alphas_that_do_not_fit_the_mode() {
        for mode in ["all", "channel", "element"] {
            let error = prelu(mode, t(&[3], &[0.5, 0.25, 1.0])).output("Out").fails();
            assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
        }
        let error = prelu("some", t(&[1], &[0.5])).output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        let op = check("prelu").input("X", t(&[2], &[1.0, 2.0])).input("Alpha", t(&[1], &[0.5]));
        let error = op.attr("mode", "channel").output("Out").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
    }
}
