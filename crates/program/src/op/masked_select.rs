//! `masked_select`: Y = the numbers of X where Mask is true, in a row.
//!
//! X and Mask have one shape. How many numbers there are is known only when it runs.

use tensor::{Bool, Shape};

use super::{Grad, Infer, Keep, Kernel, Op, Run, dims, for_float, for_number, traits};
use crate::error::Result;

pub(super) struct MaskedSelect;
pub(super) struct MaskedSelectGrad;

const RULE: &str = "X and Mask must have the same shape";

impl Op for MaskedSelect {
    traits!(Never, "X": [F32, F64, I32, I64], "Mask": [Bool]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let (x, mask) = (infer.input("X")?, infer.input("Mask")?);
        if !dims::agree(&x.dims, &mask.dims) {
            return Err(infer.shapes(RULE, "X", "Mask"));
        }
        infer.set_output("Y", x.with_dims(vec![-1]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut y = run.take("Y");
        dims::run_same(run, "X", "Mask")?;
        let (x, mask) = (run.input("X")?, run.data::<Bool>("Mask")?);
        let n_chosen = mask.iter().filter(|chosen| chosen.get()).count();
        for_number!(x.dtype(), run.input_name("X"), T => {
            let y = y.try_resize::<T>(Shape::new(&[n_chosen]))?;
            let chosen = x.data::<T>()?.iter().zip(mask).filter(|(_, chosen)| chosen.get());
            y.iter_mut().zip(chosen).for_each(|(y, (&x, _))| *y = x);
            Ok(())
        })?;
        run.put("Y", y);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Y"], &["X"]).inputs(&["X", "Mask"]))
    }
}

/// dX = dY at the places where Mask is true, 0 elsewhere.
impl Kernel for MaskedSelectGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut d_x = run.take("X@GRAD");
        dims::run_same(run, "X", "Mask")?;
        let (x, mask) = (run.input("X")?, run.data::<Bool>("Mask")?);
        let n_chosen = mask.iter().filter(|chosen| chosen.get()).count();
        if run.input("Y@GRAD")?.len() != n_chosen {
            return Err(run.shapes(
                "a gradient for each chosen number is needed",
                "Y@GRAD",
                "Mask",
            ));
        }
        for_float!(x.dtype(), run.input_name("X"), T => {
            let d_y = run.data::<T>("Y@GRAD")?;
            let d_x = d_x.resize_zeroed::<T>(x.shape());
            let chosen = d_x.iter_mut().zip(mask).filter(|(_, chosen)| chosen.get());
            chosen.zip(d_y).for_each(|((d_x, _), &d_y)| *d_x = d_y);
            Ok(())
        })?;
        d_x.set_lod(x.lod().clone());
        run.put("X@GRAD", d_x);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tensor::{Bool, Tensor};

    use crate::error::Error;
    use crate::op::check::{Check, check, t};

    fn select(mask: &[bool]) -> Check {
        let mask: Vec<Bool> = mask.iter().map(|&chosen| Bool::from(chosen)).collect();
        let mask = Tensor::new([mask.len()], &mask).expect("as many as said");
        check("masked_select").input("X", t(&[3], &[1.0, 2.0, 3.0])).input("Mask", mask)
    }

    #[test]
    fn gives_the_chosen_numbers_in_a_row() {
        select(&[true, false, true]).gives("Y", t(&[2], &[1.0, 3.0]));
        select(&[false; 3]).gives("Y", t(&[0], &[]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        select(&[true, false, true]).output("Y").grad(&["X"]);
    }

    #[test]
    fn refuses_another_shape() {
        let error = select(&[true, false]).output("Y").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
