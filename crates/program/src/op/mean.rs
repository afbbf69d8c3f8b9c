//! `mean`: Out = sum(X) / number of elements, a tensor of shape [1].

use super::{Grad, Infer, Keep, Op, Run, for_float};
use crate::error::Result;
use tensor::{Number, Shape};

pub(super) struct Mean;
pub(super) struct MeanGrad;

impl Op for Mean {
    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        infer.set_output("Out", x.with_dims(vec![1]).with_lod_level(0))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut out = run.take("Out");
        let x = run.input("X")?;
        for_float!(x.dtype(), run.input_name("X"), T => {
            let x = x.data::<T>()?;
            out.resize::<T>(Shape::from([1]))[0] = x.iter().sum::<T>() / T::of(x.len() as f64);
            Ok(())
        })?;
        run.put("Out", out);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X"]).inputs(&["X"]))
    }
}

/// dX = dOut / number of elements, everywhere.
impl Op for MeanGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run.fill("X@GRAD", "X", |run, x, d_x| {
            for_float!(x.dtype(), run.input_name("X"), T => {
                let d_out = run.scalar("Out@GRAD")? as T;
                d_x.resize::<T>(x.shape()).fill(d_out / T::of(x.len() as f64));
                Ok(())
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::op::check::{check, t};

    #[test]
    fn averages_all_elements() {
        check("mean").input("X", t(&[2, 2], &[1.0, 2.0, 3.0, 6.0])).gives("Out", t(&[1], &[3.0]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        check("mean").input("X", t(&[2, 2], &[1.0, 2.0, 3.0, 6.0])).output("Out").grad(&["X"]);
    }
}
