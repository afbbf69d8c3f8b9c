//! Comparisons of numbers (`less_than`, …) and logic of truth values (`logical_and`, …): Out is
//! true or false at each place. Comparisons broadcast Y along `axis`; logic takes equal shapes.

use tensor::{Bool, DType, Element, Tensor};

use super::broadcast::{self, Broadcast};
use super::map::{apply, map};
use super::{Infer, Op, Run, for_number, no_gradient, traits};
use crate::error::Result;

const RULE: &str = "X and Y must have equal sizes, or 1, in each dimension from axis on";

fn infer_shape(infer: &mut Infer<'_>) -> Result<()> {
    let (x, y) = (infer.input("X")?, infer.input("Y")?);
    let dims = broadcast::dims(&x.dims, &y.dims, infer.attrs().int("axis", -1)?);
    let dims = dims.ok_or_else(|| infer.shapes(RULE, "X", "Y"))?;
    infer.set_output("Out", x.with_dims(dims).with_dtype(DType::Bool))
}

/// A relation between two things of one type.
trait Relation {
    fn holds<T: PartialOrd>(x: T, y: T) -> bool;
}

fn compare<R: Relation>(run: &mut Run<'_>) -> Result<()> {
    map(run, |run, x, out| match x.dtype() {
        DType::Bool => fill::<Bool>(run, x, out, |x, y| R::holds(x.get(), y.get())),
        dtype => for_number!(dtype, run.input_name("X"), T => fill::<T>(run, x, out, R::holds)),
    })
}

fn logic(run: &mut Run<'_>, join: fn(bool, bool) -> bool) -> Result<()> {
    map(run, |run, x, out| {
        if x.len() != run.input("Y")?.len() {
            return Err(run.shapes("X and Y must have equally many elements", "X", "Y"));
        }
        fill::<Bool>(run, x, out, |x, y| join(x.get(), y.get()))
    })
}

fn fill<T: Element>(
    run: &Run<'_>,
    x: &Tensor,
    out: &mut Tensor,
    holds: impl Fn(T, T) -> bool,
) -> Result<()> {
    let axis = run.attrs().int("axis", -1)?;
    let plan = Broadcast::of(x.shape(), run.input("Y")?.shape(), axis);
    let plan = plan.ok_or_else(|| run.shapes(RULE, "X", "Y"))?;
    let x = x.data::<T>().map_err(|source| run.in_var("X", source.into()))?;
    let (y, out) = (run.data::<T>("Y")?, out.resize::<Bool>(plan.shape()));
    plan.zip(x, y, out, |x, y| Bool::from(holds(x, y)));
    Ok(())
}

fn not(run: &mut Run<'_>) -> Result<()> {
    map(run, |run, x, out| {
        let truths = x.data::<Bool>().map_err(|source| run.in_var("X", source.into()))?;
        apply(truths, out.resize::<Bool>(x.shape()), |x| Bool::from(!x.get()));
        Ok(())
    })
}

/// Makes ops: name, which rows they make, the types that layers take, shape rule, kernel. Truth values carry no gradient.
macro_rules! ops {
    ($($op:ident, $by_sample:expr, [$($port:literal),*] $dtypes:tt, $infer:expr, $run:expr;)*) => {$(
        pub(super) struct $op;

        impl Op for $op {
            traits!($by_sample $(, $port: $dtypes)*);

            fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
                $infer(infer)
            }

            fn run(&self, run: &mut Run<'_>) -> Result<()> {
                $run(run)
            }

            no_gradient!();
        }
    )*};
}

/// A relation by its operator.
macro_rules! relations {
    ($($op:ident: $operator:tt;)*) => {$(
        impl Relation for $op {
            fn holds<T: PartialOrd>(x: T, y: T) -> bool {
                x $operator y
            }
        }
    )*};
}

fn infer_same(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.input("X")?;
    infer.set_output("Out", x.with_dtype(DType::Bool))
}

ops! {
    Equal, When(broadcast::is_by_sample), ["X", "Y"] [F32, F64, I32, I64], infer_shape, compare::<Self>;
    GreaterEqual, When(broadcast::is_by_sample), ["X", "Y"] [F32, F64, I32, I64], infer_shape, compare::<Self>;
    GreaterThan, When(broadcast::is_by_sample), ["X", "Y"] [F32, F64, I32, I64], infer_shape, compare::<Self>;
    LessEqual, When(broadcast::is_by_sample), ["X", "Y"] [F32, F64, I32, I64], infer_shape, compare::<Self>;
    LessThan, When(broadcast::is_by_sample), ["X", "Y"] [F32, F64, I32, I64], infer_shape, compare::<Self>;
    LogicalAnd, When(broadcast::is_by_sample), ["X", "Y"] [Bool], infer_shape, |run| logic(run, |x, y| x && y);
    LogicalNot, Rows("X"), ["X"] [Bool], infer_same, not;
    LogicalOr, When(broadcast::is_by_sample), ["X", "Y"] [Bool], infer_shape, |run| logic(run, |x, y| x || y);
    LogicalXor, When(broadcast::is_by_sample), ["X", "Y"] [Bool], infer_shape, |run| logic(run, |x, y| x != y);
    NotEqual, When(broadcast::is_by_sample), ["X", "Y"] [F32, F64, I32, I64], infer_shape, compare::<Self>;
}

relations! {
    Equal: ==;
    GreaterEqual: >=;
    GreaterThan: >;
    LessEqual: <=;
    LessThan: <;
    NotEqual: !=;
}

#[cfg(test)]
mod tests {
    use tensor::{Bool, Tensor};

    use crate::error::Error;
    use crate::op::check::{check, ids, t};

    fn truths(dims: &[usize], list: &[u8]) -> Tensor {
        let list: Vec<Bool> = list.iter().map(|&truth| Bool(truth)).collect();
        Tensor::new(dims, &list).unwrap()
    }

    const EXPECTED: &[(&str, [u8; 3])] = &[
        ("less_than", [1, 0, 0]),
        ("less_equal", [1, 1, 0]),
        ("greater_than", [0, 0, 1]),
        ("greater_equal", [0, 1, 1]),
        ("equal", [0, 1, 0]),
        ("not_equal", [1, 0, 1]),
    ];

    #[test]
    fn compares_floats_and_integers() {
        for (name, out) in EXPECTED {
            let op = check(name).input("X", t(&[3], &[1.0, 2.0, 3.0]));
            op.input("Y", t(&[1], &[2.0])).gives("Out", truths(&[3], out));
            let op = check(name).input("X", ids(&[3], &[1, 2, 3]));
            op.input("Y", ids(&[3], &[2, 2, 2])).gives("Out", truths(&[3], out));
        }
    }

    #[test]
    fn broadcasts_along_an_axis() {
        let op = check("less_than").input("X", t(&[2, 2], &[1.0, 5.0, 1.0, 5.0]));
        let op = op.input("Y", t(&[2], &[2.0, 9.0])).attr("axis", 0);
        op.gives("Out", truths(&[2, 2], &[1, 0, 1, 1]));
    }

    #[test]
    fn joins_truths() {
        let (x, y) = (|| truths(&[4], &[0, 0, 1, 1]), || truths(&[4], &[0, 1, 0, 1]));
        let is = |name, out| {
            check(name).input("X", x()).input("Y", y()).gives("Out", truths(&[4], out));
        };
        is("logical_and", &[0, 0, 0, 1]);
        is("logical_or", &[0, 1, 1, 1]);
        is("logical_xor", &[0, 1, 1, 0]);
        is("equal", &[1, 0, 0, 1]);
        check("logical_not").input("X", x()).gives("Out", truths(&[4], &[1, 1, 0, 0]));
    }

    #[test]
    fn refuses_types_and_shapes_that_do_not_meet() {
        let op = check("equal").input("X", t(&[1], &[1.0])).input("Y", ids(&[1], &[1]));
        let error = op.output("Out").fails();
        assert!(matches!(error.root(), Error::Tensor(_)), "{error}");
        let op = check("equal").input("X", t(&[2], &[1.0, 2.0]));
        let error = op.input("Y", t(&[3], &[1.0, 2.0, 3.0])).output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
        let op = check("logical_and").input("X", truths(&[2], &[1, 0]));
        let error = op.input("Y", truths(&[1], &[1])).output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
        for op in ["logical_and", "logical_not"] {
            let op = check(op).input("X", t(&[1], &[1.0])).input("Y", t(&[1], &[1.0]));
            let error = op.output("Out").fails();
            assert!(matches!(error.root(), Error::Tensor(_)), "{error}");
        }
    }
}
