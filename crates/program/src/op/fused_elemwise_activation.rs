//! `fused_elemwise_activation`: `functor_list` has two names. If the second is `elementwise_add` or `elementwise_mul`, Out = the
//! first (`scale`, `relu`, `tanh`, `sigmoid`) of their result; if the first is, Out = it of X and the second of Y.
//! IntermediateOut is what the inner one gives.

use tensor::{Float, Shape};

use super::broadcast::Broadcast;
use super::sizes::bad_attr;
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::attr::Attrs;
use crate::error::Result;

pub(super) struct FusedElemwiseActivation;
pub(super) struct FusedElemwiseActivationGrad;

const RULE: &str = "the dimensions of Y must be a run of those of X, or those of X a run of Y's";

/// A function of one number.
#[derive(Clone, Copy)]
enum Curve {
    Scale(f32),
    Relu,
    Tanh,
    Sigmoid,
}

impl Curve {
    fn of(name: &str, attrs: &Attrs) -> Result<Option<Self>> {
        Ok(match name {
            "scale" => Some(Curve::Scale(attrs.float("scale", 0.0)?)),
            "relu" => Some(Curve::Relu),
            "tanh" => Some(Curve::Tanh),
            "sigmoid" => Some(Curve::Sigmoid),
            _ => None,
        })
    }

    fn apply<T: Float>(self, x: T) -> T {
        match self {
            Curve::Scale(scale) => x * T::of(f64::from(scale)),
            Curve::Relu => x.max(T::zero()),
            Curve::Tanh => x.tanh(),
            Curve::Sigmoid => T::one() / (T::one() + (-x).exp()),
        }
    }

    /// The derivative where the function gives `y`.
    fn slope<T: Float>(self, y: T) -> T {
        match self {
            Curve::Scale(scale) => T::of(f64::from(scale)),
            Curve::Relu if y > T::zero() => T::one(),
            Curve::Relu => T::zero(),
            Curve::Tanh => T::one() - y * y,
            Curve::Sigmoid => y * (T::one() - y),
        }
    }
}

/// What is computed.
#[derive(Clone, Copy)]
struct Compound {
    curve: Curve,
    multiplies: bool,
    /// The curve is the outer function.
    curve_last: bool,
}

impl Compound {
    fn of(attrs: &Attrs) -> Result<Self> {
        let names = attrs.strs("functor_list")?;
        let bad = || {
            let expected = "elementwise_add or elementwise_mul, and scale, relu, tanh or sigmoid";
            bad_attr("functor_list", expected, names)
        };
        let [first, second] = names else { return Err(bad()) };
        let plain = |name: &str| name.trim_end_matches("_grad").to_string();
        let (first, second) = (plain(first), plain(second));
        let curve_last = second.starts_with("elementwise_");
        let (binary, curve) = if curve_last { (second, first) } else { (first, second) };
        let multiplies = match binary.as_str() {
            "elementwise_add" => false,
            "elementwise_mul" => true,
            _ => return Err(bad()),
        };
        let curve = Curve::of(&curve, attrs)?.ok_or_else(bad)?;
        Ok(Self { curve, multiplies, curve_last })
    }

    fn join<T: Float>(self, x: T, y: T) -> T {
        if self.multiplies { x * y } else { x + y }
    }
}

/// The longer shape, which the result has: X's unless Y is longer.
fn is_x_longer<D: PartialOrd>(x: &[D], y: &[D]) -> bool {
    x.len() > y.len() || (x.len() == y.len() && x.iter().zip(y).all(|(x, y)| x >= y))
}

fn plan(run: &Run<'_>) -> Result<Broadcast> {
    let (x, y) = (run.input("X")?.shape(), run.input("Y")?.shape());
    let axis = run.attrs().int("axis", -1)?;
    let fits = |shape: Shape| shape == x || shape == y;
    let plan = Broadcast::of(x, without_ones(x, y), axis).or_else(|| Broadcast::of(x, y, axis));
    plan.filter(|plan| fits(plan.shape())).ok_or_else(|| run.shapes(RULE, "X", "Y"))
}

/// Sizes of 1 at the end of the shorter shape do not count.
fn without_ones(x: Shape, y: Shape) -> Shape {
    let mut dims = y.dims();
    while let [head @ .., 1] = dims
        && !head.is_empty()
        && x.rank() >= y.rank()
        && x != y
    {
        dims = head;
    }
    Shape::new(dims)
}

impl Op for FusedElemwiseActivation {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let compound = Compound::of(infer.attrs())?;
        let (x, y) = (infer.input("X")?, infer.input("Y")?);
        let out = if is_x_longer(&x.dims, &y.dims) { x } else { y.clone() };
        if infer.attrs().bool("save_intermediate_out", false)? {
            let inner = if compound.curve_last { out.clone() } else { y };
            infer.set_output("IntermediateOut", inner)?;
        }
        infer.set_output("Out", out)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let compound = Compound::of(run.attrs())?;
        let plan = plan(run)?;
        let (mut out, mut inner) = (run.take("Out"), run.take("IntermediateOut"));
        let (x, y) = (run.input("X")?, run.input("Y")?);
        for_float!(x.dtype(), run.input_name("X"), T => {
            let (xs, ys) = (x.data::<T>()?, run.data::<T>("Y")?);
            let out = out.resize::<T>(plan.shape());
            if compound.curve_last {
                let inner = inner.resize::<T>(plan.shape());
                plan.zip(xs, ys, inner, |x, y| compound.join(x, y));
                out.iter_mut().zip(&*inner).for_each(|(out, &x)| *out = compound.curve.apply(x));
            } else {
                let inner = inner.resize::<T>(y.shape());
                inner.iter_mut().zip(ys).for_each(|(inner, &y)| *inner = compound.curve.apply(y));
                plan.zip(xs, inner, out, |x, y| compound.join(x, y));
            }
            Ok(())
        })?;
        let like = if plan.shape() == x.shape() { x } else { y };
        out.set_lod(like.lod().clone());
        inner.set_lod(if compound.curve_last { like.lod().clone() } else { y.lod().clone() });
        run.put("Out", out);
        if run.attrs().bool("save_intermediate_out", false)? {
            run.put("IntermediateOut", inner);
        } else {
            run.spare().keep(inner);
        }
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let saved = grad.op().attrs.bool("save_intermediate_out", false)?;
        let outputs: &[&str] = if saved { &["Out", "IntermediateOut"] } else { &["Out"] };
        grad.emit_usual(Keep::grads(&["Out"], &["X", "Y"]).inputs(&["X", "Y"]).outputs(outputs))
    }
}

impl Kernel for FusedElemwiseActivationGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let compound = Compound::of(run.attrs())?;
        let plan = plan(run)?;
        let (mut d_x, mut d_y) = (run.take("X@GRAD"), run.take("Y@GRAD"));
        let mut scratch = run.spare().tensor();
        let (x, y) = (run.input("X")?, run.input("Y")?);
        for port in ["Out", "Out@GRAD"] {
            if run.input(port)?.shape() != plan.shape() {
                return Err(run.shapes("the result has another shape", port, "X"));
            }
        }
        for_float!(x.dtype(), run.input_name("X"), T => {
            let (xs, ys) = (x.data::<T>()?, run.data::<T>("Y")?);
            let (out, d_out) = (run.data::<T>("Out")?, run.data::<T>("Out@GRAD")?);
            let Compound { curve, multiplies, curve_last } = compound;
            // What the binary function is given as Y, and the gradient of its result.
            let shape = if curve_last { plan.shape() } else { y.shape() };
            let scratch = scratch.resize::<T>(shape);
            let (right, d_joined): (&[T], &[T]) = if curve_last {
                let slopes = scratch.iter_mut().zip(out).zip(d_out);
                slopes.for_each(|((d, &out), &d_out)| *d = curve.slope(out) * d_out);
                (ys, scratch)
            } else {
                scratch.iter_mut().zip(ys).for_each(|(right, &y)| *right = curve.apply(y));
                (scratch, d_out)
            };
            if run.wants("X@GRAD") {
                let d_x = d_x.resize::<T>(x.shape());
                plan.sum_into_x([xs, right, out, d_joined], d_x, |_, y, _, d| {
                    if multiplies { y * d } else { d }
                });
            }
            if run.wants("Y@GRAD") {
                let d_y = d_y.resize::<T>(y.shape());
                plan.swapped().sum_into_x([right, xs, out, d_joined], d_y, |y, x, _, d| {
                    let d = if multiplies { x * d } else { d };
                    if curve_last { d } else { d * curve.slope(y) }
                });
            }
            Ok(())
        })?;
        d_x.set_lod(x.lod().clone());
        d_y.set_lod(y.lod().clone());
        run.put("X@GRAD", d_x);
        run.put("Y@GRAD", d_y);
        run.spare().keep(scratch);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, some, t};

    fn fused(first: &str, second: &str) -> Check {
        let names = vec![first.to_string(), second.to_string()];
        check("fused_elemwise_activation").attr("functor_list", names).attr("scale", 0.5f32)
    }

    #[test]
    fn composes_in_both_orders() {
        let (x, y) = (t(&[2, 2], &[1.0, -2.0, 3.0, -4.0]), t(&[2], &[-1.0, 3.0]));
        fused("relu", "elementwise_add")
            .input("X", x.clone())
            .input("Y", y.clone())
            .attr("save_intermediate_out", true)
            .gives("Out", t(&[2, 2], &[0.0, 1.0, 2.0, 0.0]))
            .gives("IntermediateOut", t(&[2, 2], &[0.0, 1.0, 2.0, -1.0]));
        fused("elementwise_mul", "scale")
            .input("X", x)
            .input("Y", y)
            .attr("save_intermediate_out", true)
            .gives("Out", t(&[2, 2], &[-0.5, -3.0, -1.5, -6.0]))
            .gives("IntermediateOut", t(&[2], &[-0.5, 1.5]));
    }

    #[test]
    fn gradients_match_finite_differences() {
        // None of the sums and products is 0, where relu has a corner.
        let x: Vec<f64> = (0..12).map(|at| f64::from(at * 7 % 11) / 4.0 - 1.1).collect();
        let x = t(&[2, 3, 2], &x);
        for curve in ["scale", "relu", "tanh", "sigmoid"] {
            for binary in ["elementwise_add", "elementwise_mul"] {
                for (first, second) in [(curve, binary), (binary, curve)] {
                    let y = t(&[3, 1], &[0.4, -0.3, 0.9]);
                    let check = fused(first, second).input("X", x.clone()).input("Y", y);
                    let check = check.attr("axis", 1).attr("save_intermediate_out", true);
                    check.output("Out").aux("IntermediateOut").grad(&["X", "Y"]);
                }
            }
        }
    }

    #[test]
    fn refuses_other_functions_and_shapes() {
        for (first, second) in
            [("relu", "tanh"), ("elementwise_sub", "relu"), ("exp", "elementwise_add")]
        {
            let check = fused(first, second).input("X", some(&[2])).input("Y", some(&[2]));
            let error = check.output("Out").fails();
            assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        }
        let check = fused("relu", "elementwise_add").input("X", some(&[2, 3]));
        let error = check.input("Y", some(&[2])).output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
