//! `norm`: Norm = sqrt(sum of X² along `axis` + epsilon), Out = X / Norm.

use super::{Grad, Infer, Keep, Kernel, Op, Run, dims, for_float, traits};
use crate::error::Result;

pub(super) struct Norm;
pub(super) struct NormGrad;

impl Op for Norm {
    traits!(Inner("X", "axis", -1), "X": [F32, F64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?.with_lod_level(0);
        let axis = dims::axis(infer.attrs(), "axis", -1, x.dims.len())?;
        let mut norm = x.dims.clone();
        norm[axis] = 1;
        infer.set_output("Norm", x.with_dims(norm))?;
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let epsilon = run.attrs().float("epsilon", 1e-10)?;
        let (mut out, mut norm) = (run.take("Out"), run.take("Norm"));
        let x = run.input("X")?;
        let axis = dims::axis(run.attrs(), "axis", -1, x.shape().rank())?;
        let around = x.shape().around(axis);
        for_float!(x.dtype(), run.input_name("X"), T => {
            let (data, out) = (x.data::<T>()?, out.resize::<T>(x.shape()));
            let norms = norm.resize::<T>(x.shape().with_dim(axis, 1)).iter_mut();
            for (at, norm) in norms.enumerate() {
                let places = around.places(at);
                let sum: T = places.clone().map(|i| data[i] * data[i]).sum();
                *norm = (sum + T::from(epsilon)).sqrt();
                places.for_each(|i| out[i] = data[i] / *norm);
            }
            Ok(())
        })?;
        run.put("Out", out);
        run.put("Norm", norm);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X"]).inputs(&["X"]).outputs(&["Norm"]))
    }
}

/// dX = (dOut - X sum(X dOut) / Norm²) / Norm.
impl Kernel for NormGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut d_x = run.take("X@GRAD");
        dims::run_same(run, "X", "Out@GRAD")?;
        let (x, norm) = (run.input("X")?, run.input("Norm")?);
        let axis = dims::axis(run.attrs(), "axis", -1, x.shape().rank())?;
        if norm.shape() != x.shape().with_dim(axis, 1) {
            return Err(run.shapes("a norm for each vector is needed", "X", "Norm"));
        }
        let around = x.shape().around(axis);
        for_float!(x.dtype(), run.input_name("X"), T => {
            let (data, d_out) = (x.data::<T>()?, run.data::<T>("Out@GRAD")?);
            let d_x = d_x.resize::<T>(x.shape());
            for (at, &norm) in run.data::<T>("Norm")?.iter().enumerate() {
                let places = around.places(at);
                let dot: T = places.clone().map(|i| data[i] * d_out[i]).sum();
                places.for_each(|i| d_x[i] = (d_out[i] - data[i] * dot / (norm * norm)) / norm);
            }
            Ok(())
        })?;
        run.put("X@GRAD", d_x);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{check, t};

    #[test]
    fn divides_by_the_length() {
        check("norm")
            .input("X", t(&[2, 2], &[3.0, 4.0, 0.0, 2.0]))
            .attr("axis", 1)
            .gives("Out", t(&[2, 2], &[0.6, 0.8, 0.0, 1.0]))
            .gives("Norm", t(&[2, 1], &[5.0, 2.0]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        let x = [0.5, -0.3, 0.8, 0.2, -0.6, 0.1, 0.4, 0.9];
        for axis in 0..3 {
            let check = check("norm").input("X", t(&[2, 2, 2], &x)).attr("axis", axis);
            check.attr("epsilon", 0.1f32).output("Out").aux("Norm").grad(&["X"]);
        }
    }

    #[test]
    fn refuses_an_axis_that_is_not_there() {
        let error = check("norm").input("X", t(&[1], &[1.0])).attr("axis", 1).output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
    }
}
