//! `reduce_<op>`: joins the elements of X along the dimensions `dim`, or all of them (`reduce_all`).
//!
//! | op | Out | dX for d = dOut |
//! |---|---|---|
//! | sum, mean | the sum; divided by the count n | d; d / n |
//! | max, min | the greatest, smallest | d where X equals Out |
//! | prod | the product | d Out / X |
//! | all, any | and, or of truth values | none |
//!
//! Reduced dimensions leave a size of 1 if `keep_dim`, else nothing; a shape never becomes empty,
//! but [1].

use tensor::{Bool, Float, Shape, Tensor};

use super::arith::Arith;
use super::broadcast::Broadcast;
use super::{Grad, Infer, Keep, Kernel, Op, OpOnRows, Run, for_float, for_number, traits};
use crate::attr::Attrs;
use crate::error::{Error, Result};

/// Most dimensions X can have (as in Fluid).
const X_RANK_MAX: usize = 6;

/// Which dimensions of X are joined; the rest of the array is false.
type Joined = [bool; X_RANK_MAX];

/// A way to join numbers.
trait Reduction {
    /// Whether the result exists for no elements at all, in integers or not.
    fn of_nothing(_whole: bool) -> bool {
        true
    }

    fn start<T: Arith>() -> T;
    fn join<T: Arith>(left: T, right: T) -> T;

    fn finish<T: Arith>(joined: T, _n: usize) -> T {
        joined
    }
}

/// A differentiable way.
trait Slope: Reduction {
    /// Whether the gradient op is given Out.
    const READS_OUT: bool;

    /// The gradient at one element of X; `n` elements were joined.
    fn d_x<T: Float>(x: T, out: T, d: T, n: usize) -> T;
}

/// Reads the attributes for an X of this rank; `None` if a dimension is not one of X's.
fn joined(attrs: &Attrs, rank: usize) -> Result<Option<Joined>> {
    if rank > X_RANK_MAX {
        return Ok(None);
    }
    let mut joined = [false; X_RANK_MAX];
    if attrs.bool("reduce_all", false)? {
        joined[..rank].fill(true);
        return Ok(Some(joined));
    }
    let dims = match attrs.get("dim") {
        Some(_) => attrs.ints("dim")?,
        None => vec![0],
    };
    for &dim in &dims {
        let from_left = if dim < 0 { dim + rank as i64 } else { dim };
        match usize::try_from(from_left).ok().and_then(|dim| joined[..rank].get_mut(dim)) {
            Some(flag) => *flag = true,
            None => return Ok(None),
        }
    }
    Ok((!dims.is_empty()).then_some(joined))
}

const RULE: &str = "the dimensions to reduce must be some of X's, which are 6 at most";

fn infer_shape(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.input("X")?;
    let joined = joined(infer.attrs(), x.dims.len())?;
    let joined = joined.ok_or_else(|| infer.shape(RULE, "X"))?;
    let keep = infer.attrs().bool("keep_dim", false)?;
    let pairs = x.dims.iter().zip(joined);
    let mut dims: Vec<i64> = pairs
        .filter(|&(_, joined)| keep || !joined)
        .map(|(&dim, joined)| if joined { 1 } else { dim })
        .collect();
    if dims.is_empty() {
        dims.push(1);
    }
    let lod_level = if joined[0] { 0 } else { x.lod_level };
    infer.set_output("Out", x.with_dims(dims).with_lod_level(lod_level))
}

/// How X and Out lie to each other.
struct ReduceLayout {
    /// X, with Out in the place of Y.
    spread: Broadcast,
    /// Out as the attributes ask.
    shape: Shape,
    /// How many elements make one.
    n: usize,
    /// Whether Out has X's rows, and so its sequences.
    keeps_rows: bool,
}

impl ReduceLayout {
    fn new(run: &Run<'_>, x: &Tensor) -> Result<Self> {
        let joined = joined(run.attrs(), x.shape().rank())?;
        let joined = joined.ok_or_else(|| run.shape(RULE, "X"))?;
        let keep = run.attrs().bool("keep_dim", false)?;
        let (mut ones, mut n) = (x.shape(), 1);
        let (mut kept, mut rank) = ([1; X_RANK_MAX], 0);
        for (axis, (&size, joined)) in x.dims().iter().zip(joined).enumerate() {
            if joined {
                ones = ones.with_dim(axis, 1);
                n *= size;
            }
            if keep || !joined {
                kept[rank] = if joined { 1 } else { size };
                rank += 1;
            }
        }
        let spread = Broadcast::of(x.shape(), ones, -1);
        let spread = spread.ok_or_else(|| run.shape(RULE, "X"))?;
        Ok(Self { spread, shape: Shape::new(&kept[..rank.max(1)]), n, keeps_rows: !joined[0] })
    }
}

fn forward<R: Reduction>(run: &mut Run<'_>) -> Result<()> {
    let mut out = run.take("Out");
    let x = run.input("X")?;
    check_out_dtype(run, x)?;
    let plan = ReduceLayout::new(run, x)?;
    for_number!(x.dtype(), run.input_name("X"), T => {
        if plan.n == 0 && !R::of_nothing(T::WHOLE) {
            return Err(run.shape("there must be elements to reduce", "X"));
        }
        let out = out.resize::<T>(plan.shape);
        out.fill(R::start());
        plan.spread.reduce_to_y(x.data::<T>()?, out, R::join);
        out.iter_mut().for_each(|out| *out = R::finish(*out, plan.n));
        Ok(())
    })?;
    put(run, plan.keeps_rows, out)
}

/// Reduces truth values with `join`.
fn forward_bool(run: &mut Run<'_>, start: bool, join: fn(bool, bool) -> bool) -> Result<()> {
    let mut out = run.take("Out");
    let x = run.input("X")?;
    let plan = ReduceLayout::new(run, x)?;
    let truths = run.data::<Bool>("X")?;
    let target = out.resize::<Bool>(plan.shape);
    target.fill(Bool::from(start));
    plan.spread.reduce_to_y(truths, target, |a, b| Bool::from(join(a.get(), b.get())));
    put(run, plan.keeps_rows, out)
}

fn put(run: &mut Run<'_>, keeps_rows: bool, mut out: Tensor) -> Result<()> {
    if keeps_rows {
        out.set_lod(run.input("X")?.lod().clone());
    }
    run.put("Out", out);
    Ok(())
}

/// Fluid can cast while it reduces; here `cast` does that.
fn check_out_dtype(run: &Run<'_>, x: &Tensor) -> Result<()> {
    let asked = run.attrs().int("out_dtype", -1)?;
    if asked < 0 || asked == i64::from(x.dtype().code()) {
        return Ok(());
    }
    let (attr, expected) = ("out_dtype".to_string(), "-1 or the type of X".to_string());
    Err(Error::BadAttr { attr, expected, actual: asked.to_string() })
}

fn backward<R: Slope>(run: &mut Run<'_>) -> Result<()> {
    let mut d_x = run.take("X@GRAD");
    let (x, d_out) = (run.input("X")?, run.input("Out@GRAD")?);
    let out = if R::READS_OUT { run.input("Out")? } else { d_out };
    let plan = ReduceLayout::new(run, x)?;
    for (port, tensor) in [("Out@GRAD", d_out), ("Out", out)] {
        if tensor.len() != plan.shape.n_elements() {
            return Err(run.shapes("the result has another shape", port, "X"));
        }
    }
    for_float!(x.dtype(), run.input_name("X"), T => {
        let operands = [x.data::<T>()?, out.data::<T>()?, run.data::<T>("Out@GRAD")?];
        let slope = |x, out, d| R::d_x(x, out, d, plan.n);
        plan.spread.zip_3(operands, d_x.resize::<T>(x.shape()), slope);
        Ok(())
    })?;
    d_x.set_lod(x.lod().clone());
    run.put("X@GRAD", d_x);
    Ok(())
}

fn emit<R: Slope>(grad: &mut Grad<'_>) -> Result<()> {
    grad.emit_usual(Keep {
        inputs: &["X"],
        outputs: if R::READS_OUT { &["Out"] } else { &[] },
        out_grads: &["Out"],
        in_grads: &["X"],
    })
}

/// Makes ops: the types that layers take (none: all), how to run, how to differentiate, and the gradient op if there is one.
macro_rules! ops {
    ($($op:ident $dtypes:tt, $run:expr, $emit:expr $(, $grad:ident)?;)*) => {$(
        pub(super) struct $op;

        impl Op for $op {
            traits!(When(samples_stay), "X": $dtypes);

            fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
                infer_shape(infer)
            }

            fn run(&self, run: &mut Run<'_>) -> Result<()> {
                $run(run)
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

/// Whether the dimension of the samples is not reduced.
fn samples_stay(op: &OpOnRows<'_>) -> bool {
    !op.is_true("reduce_all") && op.axes_are_inner("X", "dim") && op.only_rows("X")
}

/// Truth values carry no gradient.
fn no_gradient(_grad: &mut Grad<'_>) -> Result<()> {
    Ok(())
}

ops! {
    ReduceAll [Bool], |run| forward_bool(run, true, |a, b| a && b), no_gradient;
    ReduceAny [Bool], |run| forward_bool(run, false, |a, b| a || b), no_gradient;
    ReduceMax [], forward::<Self>, emit::<Self>, ReduceMaxGrad;
    ReduceMean [F32, F64, I32, I64], forward::<Self>, emit::<Self>, ReduceMeanGrad;
    ReduceMin [], forward::<Self>, emit::<Self>, ReduceMinGrad;
    ReduceProd [], forward::<Self>, emit::<Self>, ReduceProdGrad;
    ReduceSum [F32, F64, I32, I64], forward::<Self>, emit::<Self>, ReduceSumGrad;
}

impl Reduction for ReduceSum {
    fn start<T: Arith>() -> T {
        T::zero()
    }

    fn join<T: Arith>(left: T, right: T) -> T {
        left.plus(right)
    }
}

impl Slope for ReduceSum {
    const READS_OUT: bool = false;

    fn d_x<T: Float>(_x: T, _out: T, d: T, _n: usize) -> T {
        d
    }
}

impl Reduction for ReduceMean {
    fn of_nothing(whole: bool) -> bool {
        !whole
    }

    fn start<T: Arith>() -> T {
        T::zero()
    }

    fn join<T: Arith>(left: T, right: T) -> T {
        left.plus(right)
    }

    fn finish<T: Arith>(joined: T, n: usize) -> T {
        joined.over(T::of(n as f64))
    }
}

impl Slope for ReduceMean {
    const READS_OUT: bool = false;

    fn d_x<T: Float>(_x: T, _out: T, d: T, n: usize) -> T {
        d / T::of(n as f64)
    }
}

impl Reduction for ReduceMax {
    fn of_nothing(_whole: bool) -> bool {
        false
    }

    fn start<T: Arith>() -> T {
        T::LOWEST
    }

    fn join<T: Arith>(left: T, right: T) -> T {
        if right > left { right } else { left }
    }
}

impl Slope for ReduceMax {
    const READS_OUT: bool = true;

    fn d_x<T: Float>(x: T, out: T, d: T, _n: usize) -> T {
        if x == out { d } else { T::zero() }
    }
}

impl Reduction for ReduceMin {
    fn of_nothing(_whole: bool) -> bool {
        false
    }

    fn start<T: Arith>() -> T {
        T::HIGHEST
    }

    fn join<T: Arith>(left: T, right: T) -> T {
        if right < left { right } else { left }
    }
}

impl Slope for ReduceMin {
    const READS_OUT: bool = true;

    fn d_x<T: Float>(x: T, out: T, d: T, _n: usize) -> T {
        if x == out { d } else { T::zero() }
    }
}

impl Reduction for ReduceProd {
    fn start<T: Arith>() -> T {
        T::one()
    }

    fn join<T: Arith>(left: T, right: T) -> T {
        left.times(right)
    }
}

impl Slope for ReduceProd {
    const READS_OUT: bool = true;

    /// A zero in X gives NaN, as in Fluid.
    fn d_x<T: Float>(x: T, out: T, d: T, _n: usize) -> T {
        d * out / x
    }
}

#[cfg(test)]
mod tests {
    use tensor::{Bool, Tensor};

    use crate::error::Error;
    use crate::op::check::{Check, check, ids, seq, t};

    fn reduce(name: &str, dim: &[i32]) -> Check {
        let x = t(&[2, 3], &[1.0, 2.0, 2.0, 3.0, 0.5, 3.0]);
        check(&format!("reduce_{name}")).input("X", x).attr("dim", dim.to_vec())
    }

    #[test]
    fn joins_along_one_dimension() {
        let rows = |name, out: &[f64]| reduce(name, &[1]).gives("Out", t(&[2], out));
        rows("sum", &[5.0, 6.5]);
        rows("mean", &[5.0 / 3.0, 6.5 / 3.0]);
        rows("max", &[2.0, 3.0]);
        rows("min", &[1.0, 0.5]);
        rows("prod", &[4.0, 4.5]);
        let columns = |name, out: &[f64]| reduce(name, &[-2]).gives("Out", t(&[3], out));
        columns("sum", &[4.0, 2.5, 5.0]);
        columns("max", &[3.0, 2.0, 3.0]);
    }

    #[test]
    fn shapes_follow_the_attributes() {
        reduce("sum", &[1]).attr("keep_dim", true).gives("Out", t(&[2, 1], &[5.0, 6.5]));
        reduce("sum", &[0, -1]).gives("Out", t(&[1], &[11.5]));
        reduce("sum", &[0]).attr("reduce_all", true).gives("Out", t(&[1], &[11.5]));
        let op = reduce("sum", &[0]).attr("reduce_all", true).attr("keep_dim", true);
        op.gives("Out", t(&[1, 1], &[11.5]));
        let x = t(&[2, 1, 2, 1, 2, 1], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        let op = check("reduce_sum").input("X", x).attr("dim", vec![0, 4]);
        op.gives("Out", t(&[1, 2, 1, 1], &[14.0, 22.0]));
    }

    #[test]
    fn sequences_stay_if_rows_do() {
        let x = || seq(t(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), &[1, 2]);
        let op = check("reduce_sum").input("X", x()).attr("dim", vec![1]);
        op.gives("Out", seq(t(&[3], &[3.0, 7.0, 11.0]), &[1, 2]));
        let op = check("reduce_sum").input("X", x()).attr("dim", vec![0]);
        op.gives("Out", t(&[2], &[9.0, 12.0]));
    }

    #[test]
    fn integers_and_truths_are_reduced_too() {
        let x = || ids(&[2, 2], &[1, 2, 4, -4]);
        let is = |name: &str, out: &[i64]| {
            let op = check(name).input("X", x()).attr("dim", vec![1]);
            op.gives("Out", ids(&[2], out));
        };
        is("reduce_sum", &[3, 0]);
        is("reduce_mean", &[1, 0]);
        is("reduce_max", &[2, 4]);
        is("reduce_min", &[1, -4]);
        is("reduce_prod", &[2, -16]);
        let truths = |list: &[bool]| list.iter().map(|&b| Bool::from(b)).collect::<Vec<_>>();
        let x = || Tensor::new([2, 2], &truths(&[true, false, true, true])).unwrap();
        let is = |name: &str, out: &[bool]| {
            let op = check(name).input("X", x()).attr("dim", vec![0]);
            op.gives("Out", Tensor::new([2], &truths(out)).unwrap());
        };
        is("reduce_all", &[true, false]);
        is("reduce_any", &[true, true]);
    }

    #[test]
    fn nothing_has_a_sum_but_no_maximum() {
        let op = |name: &str| check(name).input("X", t(&[0, 2], &[])).attr("dim", vec![0]);
        op("reduce_sum").gives("Out", t(&[2], &[0.0, 0.0]));
        op("reduce_mean").gives("Out", t(&[2], &[f64::NAN, f64::NAN]));
        let error = op("reduce_max").output("Out").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
        let op = check("reduce_mean").input("X", ids(&[0, 2], &[])).output("Out");
        let error = op.fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
    }

    #[test]
    fn gradients_match_finite_differences() {
        for name in ["sum", "mean", "max", "min", "prod"] {
            let data: Vec<f64> = (0..12).map(|i| f64::from(i * 5 % 12) * 0.25 + 0.5).collect();
            let op = || check(&format!("reduce_{name}")).input("X", t(&[2, 3, 2], &data));
            op().attr("dim", vec![1]).output("Out").grad(&["X"]);
            op().attr("dim", vec![0, 2]).attr("keep_dim", true).output("Out").grad(&["X"]);
            op().attr("reduce_all", true).output("Out").grad(&["X"]);
        }
    }

    #[test]
    fn refuses_dimensions_that_are_not_there() {
        for dim in [&[2][..], &[-3], &[]] {
            let error = reduce("sum", dim).output("Out").fails();
            assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
        }
        let op = check("reduce_sum").input("X", t(&[1; 7], &[1.0])).output("Out");
        let error = op.fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
    }

    #[test]
    fn refuses_other_types() {
        let error = reduce("sum", &[0]).attr("out_dtype", 3).output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        let error = reduce("all", &[0]).output("Out").fails();
        assert!(matches!(error.root(), Error::Tensor(_)), "{error}");
    }
}
