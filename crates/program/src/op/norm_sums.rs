//! Sums of a term per element, of shape [1]: `l1_norm` = sum |X|, `squared_l2_norm` = sum X².

use tensor::{Float, Shape};

use super::map::apply;
use super::sign::sign;
use super::{Grad, Infer, Keep, Op, Run, for_float};
use crate::error::{Error, Result};

pub(super) struct L1Norm;
pub(super) struct L1NormGrad;
pub(super) struct SquaredL2Norm;
pub(super) struct SquaredL2NormGrad;

/// What an element adds to the sum, and the derivative of that.
trait Term {
    fn term<T: Float>(x: T) -> T;
    fn slope<T: Float>(x: T) -> T;
}

impl Term for L1Norm {
    fn term<T: Float>(x: T) -> T {
        x.abs()
    }

    fn slope<T: Float>(x: T) -> T {
        sign(x)
    }
}

impl Term for SquaredL2Norm {
    fn term<T: Float>(x: T) -> T {
        x * x
    }

    fn slope<T: Float>(x: T) -> T {
        x + x
    }
}

fn sum<S: Term>(run: &mut Run<'_>) -> Result<()> {
    let mut out = run.take("Out");
    let x = run.input("X")?;
    for_float!(x.dtype(), run.input_name("X"), T => {
        let total = x.data::<T>()?.iter().map(|&x| S::term(x)).sum::<T>();
        out.resize::<T>(Shape::from([1]))[0] = total;
        Ok(())
    })?;
    run.put("Out", out);
    Ok(())
}

/// dX = dOut times the derivative of the term.
fn sum_grad<S: Term>(run: &mut Run<'_>) -> Result<()> {
    let mut d_x = run.take("X@GRAD");
    let x = run.input("X")?;
    for_float!(x.dtype(), run.input_name("X"), T => {
        let d_out = match run.data::<T>("Out@GRAD")? {
            &[d_out] => d_out,
            _ => return Err(run.shape("one element is needed", "Out@GRAD")),
        };
        apply(x.data::<T>()?, d_x.resize::<T>(x.shape()), |x| d_out * S::slope(x));
        Ok::<(), Error>(())
    })?;
    d_x.set_lod(x.lod().clone());
    run.put("X@GRAD", d_x);
    Ok(())
}

macro_rules! norm {
    ($op:ident, $grad:ident) => {
        impl Op for $op {
            fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
                let x = infer.input("X")?;
                infer.set_output("Out", x.with_dims(vec![1]).with_lod_level(0))
            }

            fn run(&self, run: &mut Run<'_>) -> Result<()> {
                sum::<$op>(run)
            }

            fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
                grad.emit_usual(Keep::grads(&["Out"], &["X"]).inputs(&["X"]))
            }
        }

        impl Op for $grad {
            fn run(&self, run: &mut Run<'_>) -> Result<()> {
                sum_grad::<$op>(run)
            }
        }
    };
}

norm!(L1Norm, L1NormGrad);
norm!(SquaredL2Norm, SquaredL2NormGrad);

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{check, ids, t};

    #[test]
    fn sum_over_all_elements() {
        let x = || t(&[1, 3], &[1.0, -2.0, 3.0]);
        check("l1_norm").input("X", x()).gives("Out", t(&[1], &[6.0]));
        check("squared_l2_norm").input("X", x()).gives("Out", t(&[1], &[14.0]));
    }

    #[test]
    fn gradients_match_finite_differences() {
        for op in ["l1_norm", "squared_l2_norm"] {
            check(op).input("X", t(&[3], &[1.0, -2.0, 3.0])).output("Out").grad(&["X"]);
        }
    }

    #[test]
    fn refuse_integers() {
        let error = check("l1_norm").input("X", ids(&[1], &[1])).output("Out").fails();
        assert!(matches!(error.root(), Error::DType { .. }), "{error}");
    }
}
