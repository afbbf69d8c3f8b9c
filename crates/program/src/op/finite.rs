//! One truth about all elements, of shape [1]: `isfinite` (each is a finite number), `isinf` (some
//! is infinite), `isnan` (some is not a number). X may be keyed rows.

use tensor::{Bool, DType, Float, Shape, Tensor};

use super::{Infer, Op, Run, for_float, no_gradient, traits};
use crate::error::Result;

pub(super) struct Isfinite;
pub(super) struct Isinf;
pub(super) struct Isnan;

/// A question about numbers.
trait Question {
    fn ask<T: Float>(data: &[T]) -> bool;
    /// The answer for integers.
    const WHOLE: bool;
}

impl Question for Isfinite {
    const WHOLE: bool = true;

    fn ask<T: Float>(data: &[T]) -> bool {
        data.iter().all(|x| x.is_finite())
    }
}

impl Question for Isinf {
    const WHOLE: bool = false;

    fn ask<T: Float>(data: &[T]) -> bool {
        data.iter().any(|x| x.is_infinite())
    }
}

impl Question for Isnan {
    const WHOLE: bool = false;

    fn ask<T: Float>(data: &[T]) -> bool {
        data.iter().any(|x| x.is_nan())
    }
}

fn answer<Q: Question>(run: &mut Run<'_>) -> Result<()> {
    let mut out = run.take("Out");
    let x: &Tensor = match run.value("X")?.rows() {
        Some(rows) => &rows.value,
        None => run.input("X")?,
    };
    let truth = match x.dtype() {
        DType::I32 | DType::I64 => Ok(Q::WHOLE),
        dtype => for_float!(dtype, run.input_name("X"), T => Ok(Q::ask(x.data::<T>()?))),
    }?;
    out.resize::<Bool>(Shape::from([1]))[0] = Bool::from(truth);
    run.put("Out", out);
    Ok(())
}

macro_rules! ops {
    ($($op:ident $dtypes:tt;)*) => {$(
        impl Op for $op {
            traits!(Never, "X": $dtypes);

            fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
                infer.input("X")?;
                infer.set_output("Out", crate::var::Meta::dense(DType::Bool, &[1]))
            }

            fn run(&self, run: &mut Run<'_>) -> Result<()> {
                answer::<Self>(run)
            }

            no_gradient!();
        }
    )*};
}

ops! {
    Isfinite [F32, F64, I32, I64];
    Isinf [];
    Isnan [];
}

#[cfg(test)]
mod tests {
    use tensor::{Bool, Rows, Tensor};

    use crate::error::Error;
    use crate::op::check::{check, ids, t};

    #[test]
    fn look_at_every_element() {
        let is = |last: f64, answers: [bool; 3]| {
            for (name, answer) in ["isfinite", "isinf", "isnan"].into_iter().zip(answers) {
                let op = check(name).input("X", t(&[2], &[1.0, last]));
                op.gives("Out", Tensor::full([1], Bool::from(answer)));
            }
        };
        is(2.0, [true, false, false]);
        is(f64::NEG_INFINITY, [false, true, false]);
        is(f64::NAN, [false, false, true]);
    }

    #[test]
    fn integers_and_rows_are_asked_too() {
        let yes = || Tensor::full([1], Bool::from(true));
        check("isfinite").input("X", ids(&[1], &[1])).gives("Out", yes());
        let rows = Rows { ids: vec![0], height: 1, value: t(&[1, 1], &[f64::NAN]) };
        check("isnan").input("X", rows).gives("Out", yes());
    }

    #[test]
    fn refuse_truths() {
        let op = check("isnan").input("X", Tensor::full([1], Bool::from(true))).output("Out");
        let error = op.fails();
        assert!(matches!(error.root(), Error::DType { .. }), "{error}");
    }
}
