//! `elementwise_<op>`: Out = X op Y, broadcast along `axis` (see [`broadcast`](super::broadcast)).
//!
//! | op | Out | dX, dY for d = dOut (summed over what was broadcast) |
//! |---|---|---|
//! | add | X + Y | d, d |
//! | sub | X - Y | d, -d |
//! | mul | X Y | d Y, d X |
//! | div | X / Y | d / Y, -d Out / Y |
//! | max | the greater | d where X > Y, d where X <= Y |
//! | min | the smaller | d where X < Y, d where X >= Y |
//! | pow | X^Y | d Y X^(Y-1), d ln(X) X^Y |
//! | mod | the remainder | none |
//! | floordiv | the integer quotient, cut off towards zero | none |
//!
//! X may be keyed rows if Y is one number.

use tensor::{Float, Tensor};

use super::arith::Arith;
use super::broadcast::{self, Broadcast};
use super::map::map;
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, for_int, for_number, traits};
use crate::error::{Error, Result};
use crate::var::VarKind;

const RULE: &str = "X and Y must have equal sizes, or 1, in each dimension from axis on";

/// An operation on two numbers.
trait Binary {
    /// Whether integers refuse a Y of zero.
    const DIVIDES: bool = false;
    /// Whether only integers are computed.
    const WHOLE_ONLY: bool = false;

    fn apply<T: Arith>(x: T, y: T) -> T;
}

/// The inputs of a derivative: `d` is the gradient of Out.
struct Point<T> {
    x: T,
    y: T,
    out: T,
    d: T,
}

/// A differentiable operation.
trait Slopes: Binary {
    /// Whether the gradient op is given Out.
    const READS_OUT: bool = false;

    fn d_x<T: Float>(at: Point<T>) -> T;
    fn d_y<T: Float>(at: Point<T>) -> T;
}

fn infer_shape(infer: &mut Infer<'_>) -> Result<()> {
    let (x, y) = (infer.input("X")?, infer.input("Y")?);
    if x.kind == VarKind::SelectedRows {
        return infer.set_output("Out", x);
    }
    let dims = broadcast::dims(&x.dims, &y.dims, infer.attrs().int("axis", -1)?);
    let dims = dims.ok_or_else(|| infer.shapes(RULE, "X", "Y"))?;
    infer.set_output("Out", x.with_dims(dims))
}

fn forward<B: Binary>(run: &mut Run<'_>) -> Result<()> {
    let axis = run.attrs().int("axis", -1)?;
    map(run, |run, x, out| {
        let y = run.input("Y")?;
        if run.value("X")?.rows().is_some() && y.len() != 1 {
            return Err(run.shape("rows are combined with one number", "Y"));
        }
        let plan = Broadcast::of(x.shape(), y.shape(), axis);
        let plan = plan.ok_or_else(|| run.shapes(RULE, "X", "Y"))?;
        let name = run.input_name("X");
        if B::WHOLE_ONLY {
            for_int!(x.dtype(), name, T => compute::<B, T>(run, plan, x, out))
        } else {
            for_number!(x.dtype(), name, T => compute::<B, T>(run, plan, x, out))
        }
    })
}

fn compute<B: Binary, T: Arith>(
    run: &Run<'_>,
    plan: Broadcast,
    x: &Tensor,
    out: &mut Tensor,
) -> Result<()> {
    let y = run.data::<T>("Y")?;
    let zero = y.iter().position(|&y| B::DIVIDES && T::WHOLE && y == T::zero());
    if let Some(position) = zero {
        let (rule, var) = ("integers cannot be divided by 0", run.input_name("Y").to_string());
        return Err(Error::BadValue { rule, var, position, value: 0.0 });
    }
    plan.zip(x.data::<T>()?, y, out.resize::<T>(plan.shape()), B::apply);
    Ok(())
}

fn backward<B: Slopes>(run: &mut Run<'_>) -> Result<()> {
    let axis = run.attrs().int("axis", -1)?;
    let (mut d_x, mut d_y) = (run.take("X@GRAD"), run.take("Y@GRAD"));
    let x = run.input("X")?;
    let y = run.input("Y")?;
    let d_out = run.input("Out@GRAD")?;
    let plan = Broadcast::of(x.shape(), y.shape(), axis);
    let plan = plan.ok_or_else(|| run.shapes(RULE, "X", "Y"))?;
    let out = if B::READS_OUT { run.input("Out")? } else { d_out };
    for (port, tensor) in [("Out@GRAD", d_out), ("Out", out)] {
        if tensor.shape() != plan.shape() {
            return Err(run.shapes("the result has another shape", port, "X"));
        }
    }
    for_float!(x.dtype(), run.input_name("X"), T => {
        let (xs, ys) = (x.data::<T>()?, run.data::<T>("Y")?);
        let (out, d) = (out.data::<T>()?, run.data::<T>("Out@GRAD")?);
        if run.wants("X@GRAD") {
            let d_x = d_x.resize::<T>(x.shape());
            plan.sum_into_x([xs, ys, out, d], d_x, |x, y, out, d| B::d_x(Point { x, y, out, d }));
        }
        if run.wants("Y@GRAD") {
            let (plan, d_y) = (plan.swapped(), d_y.resize::<T>(y.shape()));
            plan.sum_into_x([ys, xs, out, d], d_y, |y, x, out, d| B::d_y(Point { x, y, out, d }));
        }
        Ok(())
    })?;
    d_x.set_lod(x.lod().clone());
    d_y.set_lod(y.lod().clone());
    run.put("X@GRAD", d_x);
    run.put("Y@GRAD", d_y);
    Ok(())
}

fn emit<B: Slopes>(grad: &mut Grad<'_>) -> Result<()> {
    grad.emit_usual(Keep {
        inputs: &["X", "Y"],
        outputs: if B::READS_OUT { &["Out"] } else { &[] },
        out_grads: &["Out"],
        in_grads: &["X", "Y"],
    })
}

/// Makes ops of operations.
macro_rules! ops {
    ($($op:ident, $emit:expr $(, $grad:ident)?;)*) => {$(
        pub(super) struct $op;

        impl Op for $op {
            traits!(
                When(broadcast::is_by_sample),
                "X": [F16, F32, F64, I32, I64],
                "Y": [F16, F32, F64, I32, I64]
            );

            fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
                infer_shape(infer)
            }

            fn run(&self, run: &mut Run<'_>) -> Result<()> {
                forward::<$op>(run)
            }

            fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
                $emit(grad)
            }
        }

        $(
            pub(super) struct $grad;

            impl Kernel for $grad {
                fn run(&self, run: &mut Run<'_>) -> Result<()> {
                    backward::<$op>(run)
                }
            }
        )?
    )*};
}

/// For ops that are flat wherever they are smooth.
fn no_gradient(_grad: &mut Grad<'_>) -> Result<()> {
    Ok(())
}

ops! {
    ElementwiseAdd, emit::<Self>, ElementwiseAddGrad;
    ElementwiseSub, emit::<Self>, ElementwiseSubGrad;
    ElementwiseMul, emit::<Self>, ElementwiseMulGrad;
    ElementwiseDiv, emit::<Self>, ElementwiseDivGrad;
    ElementwiseMax, emit::<Self>, ElementwiseMaxGrad;
    ElementwiseMin, emit::<Self>, ElementwiseMinGrad;
    ElementwisePow, emit::<Self>, ElementwisePowGrad;
    ElementwiseMod, no_gradient;
    ElementwiseFloordiv, no_gradient;
}

impl Binary for ElementwiseAdd {
    fn apply<T: Arith>(x: T, y: T) -> T {
        x.plus(y)
    }
}

impl Slopes for ElementwiseAdd {
    fn d_x<T: Float>(at: Point<T>) -> T {
        at.d
    }

    fn d_y<T: Float>(at: Point<T>) -> T {
        at.d
    }
}

impl Binary for ElementwiseSub {
    fn apply<T: Arith>(x: T, y: T) -> T {
        x.minus(y)
    }
}

impl Slopes for ElementwiseSub {
    fn d_x<T: Float>(at: Point<T>) -> T {
        at.d
    }

    fn d_y<T: Float>(at: Point<T>) -> T {
        -at.d
    }
}

impl Binary for ElementwiseMul {
    fn apply<T: Arith>(x: T, y: T) -> T {
        x.times(y)
    }
}

impl Slopes for ElementwiseMul {
    fn d_x<T: Float>(at: Point<T>) -> T {
        at.d * at.y
    }

    fn d_y<T: Float>(at: Point<T>) -> T {
        at.d * at.x
    }
}

impl Binary for ElementwiseDiv {
    const DIVIDES: bool = true;

    fn apply<T: Arith>(x: T, y: T) -> T {
        x.over(y)
    }
}

impl Slopes for ElementwiseDiv {
    const READS_OUT: bool = true;

    fn d_x<T: Float>(at: Point<T>) -> T {
        at.d / at.y
    }

    fn d_y<T: Float>(at: Point<T>) -> T {
        -at.d * at.out / at.y
    }
}

impl Binary for ElementwiseMax {
    fn apply<T: Arith>(x: T, y: T) -> T {
        if x > y { x } else { y }
    }
}

impl Slopes for ElementwiseMax {
    fn d_x<T: Float>(at: Point<T>) -> T {
        if at.x > at.y { at.d } else { T::zero() }
    }

    fn d_y<T: Float>(at: Point<T>) -> T {
        if at.x <= at.y { at.d } else { T::zero() }
    }
}

impl Binary for ElementwiseMin {
    fn apply<T: Arith>(x: T, y: T) -> T {
        if x < y { x } else { y }
    }
}

impl Slopes for ElementwiseMin {
    fn d_x<T: Float>(at: Point<T>) -> T {
        if at.x < at.y { at.d } else { T::zero() }
    }

    fn d_y<T: Float>(at: Point<T>) -> T {
        if at.x >= at.y { at.d } else { T::zero() }
    }
}

impl Binary for ElementwisePow {
    fn apply<T: Arith>(x: T, y: T) -> T {
        x.power(y)
    }
}

impl Slopes for ElementwisePow {
    fn d_x<T: Float>(at: Point<T>) -> T {
        at.d * at.y * at.x.powf(at.y - T::one())
    }

    fn d_y<T: Float>(at: Point<T>) -> T {
        at.d * at.x.ln() * at.x.powf(at.y)
    }
}

impl Binary for ElementwiseMod {
    const DIVIDES: bool = true;

    fn apply<T: Arith>(x: T, y: T) -> T {
        x.modulo(y)
    }
}

impl Binary for ElementwiseFloordiv {
    const DIVIDES: bool = true;
    const WHOLE_ONLY: bool = true;

    fn apply<T: Arith>(x: T, y: T) -> T {
        x.over(y)
    }
}

#[cfg(test)]
mod tests {
    use tensor::{Rows, Tensor, Value};

    use crate::error::Error;
    use crate::op::check::{Check, check, ids, seq, t};

    fn op(name: &str, x: Tensor, y: Tensor) -> Check {
        check(&format!("elementwise_{name}")).input("X", x).input("Y", y)
    }

    #[test]
    fn computes_each_operation() {
        let (x, y) = (|| t(&[3], &[7.5, -7.5, 2.0]), || t(&[3], &[2.0, 2.0, -2.0]));
        let is = |name, out: &[f64]| op(name, x(), y()).gives("Out", t(&[3], out));
        is("add", &[9.5, -5.5, 0.0]);
        is("sub", &[5.5, -9.5, 4.0]);
        is("mul", &[15.0, -15.0, -4.0]);
        is("div", &[3.75, -3.75, -1.0]);
        is("max", &[7.5, 2.0, 2.0]);
        is("min", &[2.0, -7.5, -2.0]);
        is("pow", &[56.25, 56.25, 0.25]);
        is("mod", &[1.5, 0.5, 0.0]);
    }

    #[test]
    fn integers_are_cut_off_towards_zero() {
        let (x, y) = (|| ids(&[4], &[7, -7, 7, -7]), || ids(&[4], &[2, 2, -2, -2]));
        let is = |name, out: &[i64]| op(name, x(), y()).gives("Out", ids(&[4], out));
        is("add", &[9, -5, 5, -9]);
        is("div", &[3, -3, -3, 3]);
        is("floordiv", &[3, -3, -3, 3]);
        is("mod", &[1, -1, 1, -1]);
        is("pow", &[49, 49, 0, 0]);
        is("max", &[7, 2, 7, -2]);
    }

    #[test]
    fn adds_a_bias_to_each_row_and_keeps_sequences() {
        let x = seq(t(&[2, 2], &[1.0, 2.0, 3.0, 4.0]), &[2, 0]);
        let out = seq(t(&[2, 2], &[11.0, 22.0, 13.0, 24.0]), &[2, 0]);
        op("add", x, t(&[2], &[10.0, 20.0])).attr("axis", 1).gives("Out", out);
    }

    #[test]
    fn the_smaller_operand_may_come_first() {
        let op = op("sub", t(&[1, 2], &[1.0, 2.0]), t(&[2, 1], &[10.0, 20.0]));
        op.gives("Out", t(&[2, 2], &[-9.0, -8.0, -19.0, -18.0]));
    }

    #[test]
    fn scales_rows_by_one_number() {
        let rows = Rows { ids: vec![3, 1, 3], height: 5, value: t(&[3, 1], &[1.0, 2.0, 3.0]) };
        let mul = |y| check("elementwise_mul").input("X", rows.clone()).input("Y", y).output("Out");
        let expected = Rows { value: t(&[3, 1], &[2.0, 4.0, 6.0]), ..rows.clone() };
        assert_eq!(mul(t(&[1], &[2.0])).run("Out"), Value::Rows(expected));
        let error = mul(t(&[3], &[2.0, 1.0, 1.0])).fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
    }

    #[test]
    fn gradients_match_finite_differences() {
        for name in ["add", "sub", "mul", "div", "max", "min", "pow"] {
            // No two numbers that meet are equal, where max and min have no derivative.
            let x = || t(&[2, 2, 2], &[1.0, 2.0, 3.0, 4.0, 0.25, 1.5, 5.0, 6.0]);
            let y = || t(&[2, 2, 2], &[2.5, 1.5, 0.5, 4.5, 2.0, 0.75, 3.5, 1.25]);
            op(name, x(), y()).output("Out").grad(&["X", "Y"]);
            op(name, x(), t(&[2], &[1.75, 2.5])).attr("axis", 1).output("Out").grad(&["X", "Y"]);
            op(name, x(), t(&[2], &[1.75, 2.5])).output("Out").grad(&["X", "Y"]);
            op(name, t(&[2], &[1.75, 2.5]), x()).output("Out").grad(&["X", "Y"]);
            let y = t(&[2, 1, 2], &[1.75, 2.5, 0.75, 3.5]);
            op(name, x(), y).output("Out").grad(&["Y"]);
        }
    }

    #[test]
    fn an_equal_pair_sends_its_gradient_to_y() {
        let grad = |kind| {
            let same = || t(&[1], &[2.0]);
            let op = check(kind).input("X", same()).input("Y", same());
            let op = op.input("Out@GRAD", t(&[1], &[5.0])).output("X@GRAD").output("Y@GRAD");
            (op.run("X@GRAD"), op.run("Y@GRAD"))
        };
        let expected = (Value::Tensor(t(&[1], &[0.0])), Value::Tensor(t(&[1], &[5.0])));
        assert_eq!(grad("elementwise_max_grad"), expected);
        assert_eq!(grad("elementwise_min_grad"), expected);
    }

    #[test]
    fn refuses_integer_division_by_zero() {
        for name in ["div", "mod", "floordiv"] {
            let error = op(name, ids(&[2], &[1, 2]), ids(&[2], &[1, 0])).output("Out").fails();
            let named = matches!(error.root(), Error::BadValue { position: 1, .. });
            assert!(named, "{error}");
        }
    }

    #[test]
    fn refuses_shapes_and_types_that_do_not_meet() {
        let x = || t(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        let error = op("add", x(), t(&[3], &[1.0, 2.0, 3.0])).output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
        let error = op("add", x(), ids(&[2], &[1, 2])).output("Out").fails();
        assert!(matches!(error.root(), Error::Tensor(_)), "{error}");
        let error = op("floordiv", x(), x()).output("Out").fails();
        assert!(matches!(error.root(), Error::DType { .. }), "{error}");
    }
}
