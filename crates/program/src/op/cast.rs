//! `cast`: Out = X in the element type `out_dtype`. Fractions are cut off; numbers other than 0 are
//! true.

use num_traits::AsPrimitive;
use tensor::{Bool, DType, Number, Tensor};

use super::map::map;
use super::{Grad, Infer, Op, Run, traits};
use crate::block::OpDesc;
use crate::error::{Error, Result};

pub(super) struct Cast;

impl Op for Cast {
    traits!(Rows("X"), "X": [F16, F32, F64, I32, I64, U8, Bool]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        let dtype = DType::from_code(infer.attrs().int("out_dtype", 5)?)?;
        infer.set_output("Out", x.with_dtype(dtype))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let dtype = DType::from_code(run.attrs().int("out_dtype", 5)?)?;
        map(run, |run, x, out| convert(x, dtype, out).map_err(|source| run.in_var("X", source)))
    }

    /// dX = dOut in the type of X.
    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let attrs = &grad.op().attrs;
        let (from, to) = (attrs.int("in_dtype", 5)?, attrs.int("out_dtype", 5)?);
        let op = OpDesc::new("cast").input("X", grad.output_grad("Out"));
        let op = op.output("Out", grad.input_grad("X"));
        grad.emit(op.attr("in_dtype", to as i32).attr("out_dtype", from as i32))
    }
}

/// Number types that turn into each other: integers as Rust's `as` does, floats as [`Number::of`] says.
trait CastNumber:
    Number
    + AsPrimitive<u8>
    + AsPrimitive<i8>
    + AsPrimitive<i16>
    + AsPrimitive<i32>
    + AsPrimitive<i64>
    + AsPrimitive<f32>
    + AsPrimitive<f64>
{
}

macro_rules! source {
    ($($t:ty),*) => {$(impl CastNumber for $t {})*};
}

source!(u8, i8, i16, i32, i64, f32, f64);

/// Makes `out` the tensor `x` in another type.
fn convert(x: &Tensor, dtype: DType, out: &mut Tensor) -> Result<()> {
    fn from<T: CastNumber>(x: &Tensor, dtype: DType, out: &mut Tensor) -> Result<()> {
        fill(x, x.data::<T>()?.iter().copied(), dtype, out)
    }
    match x.dtype() {
        from if from == dtype => {
            out.copy_from(x);
            Ok(())
        }
        DType::Bool => {
            let truths = x.data::<Bool>()?.iter().map(|truth| u8::from(truth.get()));
            fill(x, truths, dtype, out)
        }
        DType::U8 => from::<u8>(x, dtype, out),
        DType::I8 => from::<i8>(x, dtype, out),
        DType::I16 => from::<i16>(x, dtype, out),
        DType::I32 => from::<i32>(x, dtype, out),
        DType::I64 => from::<i64>(x, dtype, out),
        DType::F32 => from::<f32>(x, dtype, out),
        DType::F64 => from::<f64>(x, dtype, out),
        DType::F16 => Err(half("X")),
    }
}

fn fill<S: CastNumber>(
    like: &Tensor,
    values: impl Iterator<Item = S>,
    dtype: DType,
    out: &mut Tensor,
) -> Result<()> {
    macro_rules! to {
        ($t:ty) => {
            for (out, value) in out.resize::<$t>(like.shape()).iter_mut().zip(values) {
                *out = if S::DTYPE.is_float() { Number::of(value.f64()) } else { value.as_() };
            }
        };
    }
    match dtype {
        DType::Bool => {
            for (out, value) in out.resize::<Bool>(like.shape()).iter_mut().zip(values) {
                *out = Bool::from(value != S::zero());
            }
        }
        DType::U8 => to!(u8),
        DType::I8 => to!(i8),
        DType::I16 => to!(i16),
        DType::I32 => to!(i32),
        DType::I64 => to!(i64),
        DType::F32 => to!(f32),
        DType::F64 => to!(f64),
        DType::F16 => return Err(half("Out")),
    }
    Ok(())
}

/// Half precision is stored and copied, never computed with.
fn half(var: &str) -> Error {
    Error::DType { var: var.to_string(), expected: "any type but float16", actual: DType::F16 }
}

#[cfg(test)]
mod tests {
    use tensor::{Bool, DType, Tensor};

    use crate::error::Error;
    use crate::op::check::{check, ids, seq, t};

    fn to(x: Tensor, dtype: DType) -> crate::op::check::Check {
        check("cast").input("X", x).attr("in_dtype", 6).attr("out_dtype", dtype.code())
    }

    #[test]
    fn cuts_fractions_off_and_keeps_sequences() {
        let x = seq(t(&[3], &[-1.7, 2.9, 300.0]), &[1, 2]);
        to(x, DType::I64).gives("Out", seq(ids(&[3], &[-1, 2, 300]), &[1, 2]));
    }

    #[test]
    fn converts_between_all_types() {
        let all =
            [DType::U8, DType::I8, DType::I16, DType::I32, DType::I64, DType::F32, DType::F64];
        for from in all {
            for into in all {
                let there = to(t(&[2], &[0.0, 7.0]), from).output("Out").run("Out");
                let there = there.tensor().unwrap().clone();
                let back = to(there, into).output("Out").run("Out");
                let back = back.tensor().unwrap();
                assert_eq!((back.dtype(), back.get_f64(0), back.get_f64(1)), (into, 0.0, 7.0));
            }
        }
    }

    #[test]
    fn truth_is_what_is_not_zero() {
        let truths = Tensor::new([3], &[true, false, true].map(Bool::from)).unwrap();
        to(t(&[3], &[0.3, 0.0, -1.0]), DType::Bool).gives("Out", truths.clone());
        to(truths, DType::I64).gives("Out", ids(&[3], &[1, 0, 1]));
    }

    #[test]
    fn large_integers_stay_exact() {
        let x = ids(&[1], &[(1 << 60) + 1]);
        to(x.clone(), DType::I64).gives("Out", x);
    }

    #[test]
    fn gradient_matches_finite_differences() {
        to(t(&[2], &[1.0, -2.0]), DType::F64).output("Out").grad(&["X"]);
    }

    #[test]
    fn refuses_half_precision_and_unknown_types() {
        let error = to(t(&[1], &[1.0]), DType::F16).output("Out").fails();
        assert!(matches!(error.root(), Error::DType { .. }), "{error}");
        let op = check("cast").input("X", t(&[1], &[1.0])).attr("out_dtype", 99).output("Out");
        let error = op.fails();
        assert!(matches!(error.root(), Error::Tensor(_)), "{error}");
    }
}
