//! `bitwise_<op>`: Out = X op Y bit by bit, for integers, broadcast (see [`broadcast`]).

use std::ops::{BitAnd, BitOr, BitXor};

use super::broadcast::{self, Broadcast};
use super::{Infer, Op, Run, for_int, no_gradient, traits};
use crate::error::Result;

const RULE: &str = "X and Y must have equal sizes, or 1, in each dimension";

macro_rules! bitwise {
    ($($Op:ident $apply:path;)*) => {$(
        pub(super) struct $Op;

        impl Op for $Op {
            traits!(When(broadcast::is_by_sample), "X": [I32, I64], "Y": [I32, I64]);

            fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
                let (x, y) = (infer.input("X")?, infer.input("Y")?);
                let dims = broadcast::dims(&x.dims, &y.dims, -1);
                let dims = dims.ok_or_else(|| infer.shapes(RULE, "X", "Y"))?;
                infer.set_output("Out", x.with_dims(dims))
            }

            fn run(&self, run: &mut Run<'_>) -> Result<()> {
                let (x, y) = (run.input("X")?.shape(), run.input("Y")?.shape());
                let plan = Broadcast::of(x, y, -1).ok_or_else(|| run.shapes(RULE, "X", "Y"))?;
                run.fill("Out", "X", |run, x, out| {
                    for_int!(x.dtype(), run.input_name("X"), T => {
                        let y = run.data::<T>("Y")?;
                        plan.zip(x.data::<T>()?, y, out.try_resize::<T>(plan.shape())?, $apply);
                        Ok(())
                    })
                })
            }

            no_gradient!();
        }
    )*};
}

bitwise! {
    BitwiseAnd BitAnd::bitand;
    BitwiseOr BitOr::bitor;
    BitwiseXor BitXor::bitxor;
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, ids};

    fn of(op: &str, y: &[i64]) -> Check {
        check(op).input("X", ids(&[2, 1], &[6, 1])).input("Y", ids(&[y.len()], y))
    }

    #[test]
    fn combines_bits() {
        of("bitwise_and", &[2, 5]).gives("Out", ids(&[2, 2], &[2, 4, 0, 1]));
        of("bitwise_or", &[2, 5]).gives("Out", ids(&[2, 2], &[6, 7, 3, 5]));
        of("bitwise_xor", &[2, 5]).gives("Out", ids(&[2, 2], &[4, 3, 3, 4]));
    }

    #[test]
    fn refuses_sizes_that_do_not_meet() {
        let x = ids(&[2], &[1, 2]);
        let error = check("bitwise_and").input("X", x).input("Y", ids(&[3], &[1, 2, 3]));
        assert!(matches!(error.output("Out").fails().root(), Error::Shapes { .. }));
    }
}
