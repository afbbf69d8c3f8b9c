//! One number of a whole tensor, of shape [1]: `mean`, `l1_norm`, `squared_l2_norm`.
//!
//! Out is made from the sum of a term per element. The table holds the terms and the derivatives.

use tensor::{Number, Shape};

use super::map::apply;
use super::sign::sign;
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::error::{Error, Result};

/// `Op [types], OpGrad = |x| term, |sum, n| Out, |x, d, n| dX;` where `n` is the number of elements and `d`
/// is the gradient of Out.
macro_rules! totals {
    ($(
        $op:ident $dtypes:tt, $grad:ident =
        |$x:ident| $term:expr, |$sum:ident, $n:ident| $total:expr,
        |$at:ident, $d:ident, $count:ident| $slope:expr;
    )*) => {$(
        pub(super) struct $op;
        pub(super) struct $grad;

        impl Op for $op {
            traits!(Never, "X": $dtypes);

            fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
                let x = infer.input("X")?;
                infer.set_output("Out", x.with_dims(vec![1]).with_lod_level(0))
            }

            fn run(&self, run: &mut Run<'_>) -> Result<()> {
                let mut out = run.take("Out");
                let x = run.input("X")?;
                for_float!(x.dtype(), run.input_name("X"), T => {
                    let $sum = x.data::<T>()?.iter().map(|&$x| $term).sum::<T>();
                    let $n = T::of(x.len() as f64);
                    out.resize::<T>(Shape::from([1]))[0] = $total;
                    Ok(())
                })?;
                run.put("Out", out);
                Ok(())
            }

            fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
                grad.emit_usual(Keep::grads(&["Out"], &["X"]).inputs(&["X"]))
            }
        }

        impl Kernel for $grad {
            fn run(&self, run: &mut Run<'_>) -> Result<()> {
                run.fill("X@GRAD", "X", |run, x, d_x| {
                    for_float!(x.dtype(), run.input_name("X"), T => {
                        if run.input("Out@GRAD")?.len() != 1 {
                            return Err(run.shape("one element is needed", "Out@GRAD"));
                        }
                        let $d = T::of(run.scalar("Out@GRAD")?);
                        let $count = T::of(x.len() as f64);
                        apply(x.data::<T>()?, d_x.resize::<T>(x.shape()), |$at: T| $slope);
                        Ok::<(), Error>(())
                    })
                })
            }
        }
    )*};
}

totals! {
    L1Norm [], L1NormGrad = |x| x.abs(), |sum, _n| sum, |x, d, _n| d * sign(x);
    Mean [F16, F32, F64], MeanGrad = |x| x, |sum, n| sum / n, |_x, d, n| d / n;
    SquaredL2Norm [], SquaredL2NormGrad = |x| x * x, |sum, _n| sum, |x, d, _n| d * (x + x);
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{check, ids, t};

    #[test]
    fn sum_over_all_elements() {
        let x = || t(&[1, 3], &[1.0, -2.0, 4.0]);
        check("mean").input("X", x()).gives("Out", t(&[1], &[1.0]));
        check("l1_norm").input("X", x()).gives("Out", t(&[1], &[7.0]));
        check("squared_l2_norm").input("X", x()).gives("Out", t(&[1], &[21.0]));
    }

    #[test]
    fn gradients_match_finite_differences() {
        for op in ["l1_norm", "mean", "squared_l2_norm"] {
            check(op).input("X", t(&[3], &[1.0, -2.0, 3.0])).output("Out").grad(&["X"]);
        }
    }

    #[test]
    fn refuse_integers() {
        let error = check("l1_norm").input("X", ids(&[1], &[1])).output("Out").fails();
        assert!(matches!(error.root(), Error::DType { .. }), "{error}");
    }
}
