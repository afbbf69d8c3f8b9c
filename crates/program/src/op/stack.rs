//! `stack`: Y = the X's side by side along a new dimension `axis`; `unstack`: the reverse.
//!
//! Each is the other's gradient.

use tensor::Shape;

use super::sizes::{self, bad_attr};
use super::strips::{Section, insert, remove};
use super::{Grad, Infer, Keep, Kernel, Op, Run, traits};
use crate::error::Result;
use crate::var::Meta;

pub(super) struct Stack;
pub(super) struct StackGrad;
pub(super) struct Unstack;
pub(super) struct UnstackGrad;

const RULE: &str = "what is stacked must have one shape and type";

impl Op for Stack {
    traits!(Inner("X", "axis", 0), "X": [F16, F32, F64, I32, I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let first = infer.input("X")?;
        let inputs = infer.inputs("X")?;
        let agrees = |dims: &[i64]| {
            let near = |(&a, &b): (&i64, &i64)| a == b || a < 0 || b < 0;
            dims.len() == first.dims.len() && dims.iter().zip(&first.dims).all(near)
        };
        let differs = |x: &Meta| !agrees(&x.dims) || x.dtype != first.dtype;
        if let Some(index) = inputs.iter().position(differs) {
            return Err(infer.shapes_at(RULE, "X", index));
        }
        let mut dims = first.dims.clone();
        let axis = sizes::axis("axis", infer.attrs().int("axis", 0)?, dims.len() + 1)?;
        dims.insert(axis, inputs.len() as i64);
        infer.set_output("Y", first.with_dims(dims).with_lod_level(0))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        join(run, "X", "Y")
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Y"], &["X"]))
    }
}

/// Puts all tensors at `from` side by side.
fn join(run: &mut Run<'_>, from: &str, to: &str) -> Result<()> {
    let mut out = run.take(to);
    let first = run.input(from)?;
    let n = run.n_inputs(from);
    let axis = run.attrs().int("axis", 0)?;
    let axis = sizes::axis("axis", axis, first.shape().rank() + 1)?;
    out.resize_as(first.dtype(), insert(first.shape(), axis, n)?);
    for index in 0..n {
        let x = run.input_at(from, index)?;
        if x.shape() != first.shape() || x.dtype() != first.dtype() {
            return Err(run.shapes_at(RULE, from, index));
        }
        let section = Section::new(x.dtype(), insert(x.shape(), axis, 1)?, axis, n, index);
        section.join(x.bytes(), out.bytes_mut());
    }
    run.put(to, out);
    Ok(())
}

/// Gives each slice along `axis` to one output.
fn take_apart(run: &mut Run<'_>, from: &str, to: &str) -> Result<()> {
    let shape = run.input(from)?.shape();
    let axis = sizes::axis("axis", run.attrs().int("axis", 0)?, shape.rank())?;
    let n = shape.dim(axis);
    if run.n_outputs(to) != n {
        let expected = format!("{n}, the size of that dimension");
        return Err(bad_attr("num", &expected, run.n_outputs(to)));
    }
    for index in (0..n).filter(|&index| run.wants_at(to, index)).collect::<Vec<_>>() {
        let mut out = run.take_at(to, index);
        let x = run.input(from)?;
        out.resize_as(x.dtype(), remove(shape, axis));
        let section = Section::new(x.dtype(), shape.with_dim(axis, 1), axis, n, index);
        section.cut(x.bytes(), out.bytes_mut());
        run.put_at(to, index, out);
    }
    Ok(())
}

impl Kernel for StackGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        take_apart(run, "Y@GRAD", "X@GRAD")
    }
}

impl Op for Unstack {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        let axis = sizes::axis("axis", infer.attrs().int("axis", 0)?, x.dims.len())?;
        let n = infer.n_outputs("Y");
        if x.dims[axis] >= 0 && x.dims[axis] != n as i64 {
            let expected = format!("{}, the size of that dimension", x.dims[axis]);
            return Err(bad_attr("num", &expected, n));
        }
        let mut dims = x.dims.clone();
        dims.remove(axis);
        if dims.is_empty() {
            dims = Shape::from([1]).to_i64();
        }
        for index in 0..n {
            infer.set_output_at("Y", index, x.with_dims(dims.clone()).with_lod_level(0))?;
        }
        Ok(())
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        take_apart(run, "X", "Y")
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Y"], &["X"]))
    }
}

impl Kernel for UnstackGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        join(run, "Y@GRAD", "X@GRAD")
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{check, t};
    use tensor::Tensor;

    fn pair() -> Vec<Tensor> {
        vec![t(&[2, 2], &[1.0, 2.0, 3.0, 4.0]), t(&[2, 2], &[5.0, 6.0, 7.0, 8.0])]
    }

    fn stacked(axis: i32) -> Tensor {
        match axis {
            0 => t(&[2, 2, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]),
            1 => t(&[2, 2, 2], &[1.0, 2.0, 5.0, 6.0, 3.0, 4.0, 7.0, 8.0]),
            _ => t(&[2, 2, 2], &[1.0, 5.0, 2.0, 6.0, 3.0, 7.0, 4.0, 8.0]),
        }
    }

    #[test]
    fn stacks_and_unstacks_along_each_axis() {
        for axis in [0, 1, -1] {
            check("stack").inputs("X", pair()).attr("axis", axis).gives("Y", stacked(axis));
            check("unstack").input("X", stacked(axis)).attr("axis", axis).gives_all("Y", pair());
        }
    }

    #[test]
    fn gradient_matches_finite_differences() {
        check("stack").inputs("X", pair()).attr("axis", 1).output("Y").grad(&["X"]);
        check("unstack").input("X", stacked(1)).attr("axis", 1).outputs("Y", 2).grad(&["X"]);
    }

    #[test]
    fn refuses_other_shapes_axes_and_counts() {
        let other = vec![t(&[1], &[1.0]), t(&[2], &[1.0, 2.0])];
        let error = check("stack").inputs("X", other).output("Y").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
        let error = check("stack").inputs("X", pair()).attr("axis", 3).output("Y").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        let error = check("unstack").input("X", stacked(0)).outputs("Y", 3).fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
    }
}
