//! `label_smooth`: Out = (1 - epsilon) X + epsilon PriorDist; without one, 1 / number of classes.

use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::error::Result;

pub(super) struct LabelSmooth;
pub(super) struct LabelSmoothGrad;

const PRIOR: &str = "the prior must have one number per class";

impl Op for LabelSmooth {
    traits!(Rows("X"));

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        if let Some(prior) = infer.opt_input("PriorDist")? {
            let n = crate::var::n_elements(&prior.dims);
            let n_classes = x.dims.last().copied().unwrap_or(1);
            if n >= 0 && n_classes >= 0 && n != n_classes {
                return Err(infer.shapes(PRIOR, "X", "PriorDist"));
            }
        }
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let epsilon = run.attrs().float("epsilon", 0.0)?;
        let mut out = run.take("Out");
        let x = run.input("X")?;
        let n = x.shape().last();
        if run.opt_input("PriorDist").is_some_and(|prior| prior.len() != n) {
            return Err(run.shapes(PRIOR, "X", "PriorDist"));
        }
        for_float!(x.dtype(), run.input_name("X"), T => {
            let epsilon = T::from(epsilon);
            let prior = run.opt_data::<T>("PriorDist")?;
            let elements = out.resize::<T>(x.shape()).iter_mut().zip(x.data::<T>()?).enumerate();
            for (at, (out, &x)) in elements {
                let prior = prior.map_or(1.0 / n as T, |prior| prior[at % n]);
                *out = (1.0 - epsilon) * x + epsilon * prior;
            }
            Ok(())
        })?;
        out.set_lod(x.lod().clone());
        run.put("Out", out);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X"]))
    }
}

/// dX = (1 - epsilon) dOut.
impl Kernel for LabelSmoothGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let epsilon = run.attrs().float("epsilon", 0.0)?;
        run.fill("X@GRAD", "Out@GRAD", |run, d_out, d_x| {
            for_float!(d_out.dtype(), run.input_name("Out@GRAD"), T => {
                let scale = 1.0 - T::from(epsilon);
                let elements = d_x.resize::<T>(d_out.shape()).iter_mut().zip(d_out.data::<T>()?);
                elements.for_each(|(d_x, &d_out)| *d_x = scale * d_out);
                Ok(())
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, t};

    fn smooth() -> Check {
        check("label_smooth").input("X", t(&[1, 2], &[1.0, 0.0])).attr("epsilon", 0.25f32)
    }

    #[test]
    fn moves_labels_towards_the_prior() {
        smooth().gives("Out", t(&[1, 2], &[0.875, 0.125]));
        let prior = smooth().input("PriorDist", t(&[1, 2], &[0.0, 1.0]));
        prior.gives("Out", t(&[1, 2], &[0.75, 0.25]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        smooth().output("Out").grad(&["X"]);
    }

    #[test]
    fn refuses_a_prior_of_other_classes() {
        let error = smooth().input("PriorDist", t(&[1, 3], &[1.0; 3])).output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
