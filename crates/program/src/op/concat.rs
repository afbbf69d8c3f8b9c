//! `concat`: Out = the X's one after another along `axis`.
//!
//! Along axis 0 the sequences of the X's follow each other too; else Out has those of the first.
//! Gradient: each dXᵢ is its part of dOut.

use tensor::{Lod, Shape, Tensor};

use super::sizes;
use super::strips::Section;
use super::{Grad, Infer, Keep, Kernel, Op, Run, traits};
use crate::error::{Error, Result};

pub(super) struct Concat;
pub(super) struct ConcatGrad;

const RULE: &str = "the inputs of concat must agree in all dimensions but the axis";

impl Op for Concat {
    traits!(Inner("X", "axis", 0), "X": [F16, F32, F64, I32, I64, Bool]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let inputs = infer.inputs("X")?;
        let mut out = infer.input("X")?;
        if infer.opt_input("AxisTensor")?.is_some() {
            // Any axis, so any size.
            out.dims.fill(-1);
            return infer.set_output("Out", out);
        }
        let axis = sizes::axis("axis", infer.attrs().int("axis", 0)?, out.dims.len())?;
        for (index, x) in inputs.iter().enumerate().skip(1) {
            if !join(&mut out.dims, &x.dims, axis) {
                return Err(infer.shapes_at(RULE, "X", index));
            }
        }
        infer.set_output("Out", out)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut out = run.take("Out");
        let first = run.input("X")?;
        let axis = axis_of(run, first.shape().rank())?;
        let mut total = 0;
        for index in 0..run.n_inputs("X") {
            let x = run.input_at("X", index)?;
            if x.dtype() != first.dtype() || !alike(first.shape(), x.shape(), axis) {
                return Err(mismatch(run, first, index));
            }
            total += x.shape().dim(axis);
        }
        out.resize_as(first.dtype(), first.shape().with_dim(axis, total));
        let mut at = 0;
        for index in 0..run.n_inputs("X") {
            let x = run.input_at("X", index)?;
            let section = Section::new(x.dtype(), x.shape(), axis, total, at);
            section.join(x.bytes(), out.bytes_mut());
            at += x.shape().dim(axis);
        }
        out.set_lod(joined_lod(run, axis)?);
        run.put("Out", out);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let computed = !grad.op().input_names("AxisTensor").is_empty();
        grad.emit_usual(Keep {
            inputs: if computed { &["X", "AxisTensor"] } else { &["X"] },
            out_grads: &["Out"],
            in_grads: &["X"],
            ..Keep::default()
        })
    }
}

/// Adds `x` to the dims joined so far; false if they do not fit.
fn join(out: &mut [i64], x: &[i64], axis: usize) -> bool {
    if out.len() != x.len() {
        return false;
    }
    out.iter_mut().zip(x).enumerate().all(|(at, (out, &x))| {
        if at == axis {
            *out = if *out < 0 || x < 0 { -1 } else { *out + x };
            return true;
        }
        if *out < 0 {
            *out = x;
        }
        x < 0 || *out == x
    })
}

/// The sequences of the joined tensor. Those of an input without any are not there, as in Fluid.
fn joined_lod(run: &Run<'_>, axis: usize) -> Result<Lod> {
    let first = run.input("X")?.lod();
    if axis > 0 || first.is_empty() || run.n_inputs("X") == 1 {
        return Ok(first.clone());
    }
    let mut levels = first.levels().to_vec();
    for index in 1..run.n_inputs("X") {
        let lod = run.input_at("X", index)?.lod();
        if lod.is_empty() {
            continue;
        }
        if lod.n_levels() != levels.len() {
            return Err(differ_in_levels(run, index, levels.len(), lod.n_levels()));
        }
        for (joined, offsets) in levels.iter_mut().zip(lod.levels()) {
            let end = joined.last().copied().unwrap_or(0);
            joined.extend(offsets.iter().skip(1).map(|offset| end + offset));
        }
    }
    Ok(Lod::from_offsets(levels))
}

fn differ_in_levels(run: &Run<'_>, index: usize, first: usize, other: usize) -> Error {
    let (name, first_name) = (run.input_name_at("X", index), run.input_name("X"));
    let text = format!(
        "concat along axis 0 joins sequences: `{name}` has {other} levels of them, but \
         `{first_name}` has {first}"
    );
    tensor::Error::BadLod(text).into()
}

fn alike(a: Shape, b: Shape, axis: usize) -> bool {
    a.rank() == b.rank() && a.with_dim(axis, 0) == b.with_dim(axis, 0)
}

fn axis_of(run: &Run<'_>, rank: usize) -> Result<usize> {
    let axis = match run.n_inputs("AxisTensor") {
        0 => run.attrs().int("axis", 0)?,
        _ => run.scalar("AxisTensor")? as i64,
    };
    sizes::axis("axis", axis, rank)
}

fn mismatch(run: &Run<'_>, first: &Tensor, index: usize) -> Error {
    let name = run.input_name_at("X", index);
    match run.input_at("X", index) {
        Ok(x) if x.dtype() != first.dtype() => {
            let expected = first.dtype();
            let source = tensor::Error::DTypeMismatch { expected, actual: x.dtype() };
            Error::InVar { var: name.to_string(), source: Box::new(source.into()) }
        }
        Ok(_) => run.shapes_at(RULE, "X", index),
        Err(error) => error,
    }
}

impl Kernel for ConcatGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let axis = axis_of(run, run.input("X")?.shape().rank())?;
        let mut at = 0;
        for index in 0..run.n_inputs("X") {
            let Some(&size) = run.input_at("X", index)?.dims().get(axis) else {
                return Err(mismatch(run, run.input("X")?, index));
            };
            if run.wants_at("X@GRAD", index) {
                let mut d_x = run.take_at("X@GRAD", index);
                cut(run, index, axis, at, &mut d_x)?;
                run.put_at("X@GRAD", index, d_x);
            }
            at += size;
        }
        Ok(())
    }
}

fn cut(run: &Run<'_>, index: usize, axis: usize, at: usize, d_x: &mut Tensor) -> Result<()> {
    let (x, d_out) = (run.input_at("X", index)?, run.input("Out@GRAD")?);
    let fits = d_out.shape().rank() == x.shape().rank()
        && alike(d_out.shape(), x.shape(), axis)
        && at + x.shape().dim(axis) <= d_out.shape().dim(axis);
    if !fits {
        return Err(run.shapes("the gradient must be as long as the inputs", "Out@GRAD", "X"));
    }
    let total = d_out.shape().dim(axis);
    d_x.resize_as(d_out.dtype(), x.shape());
    let section = Section::new(d_out.dtype(), x.shape(), axis, total, at);
    section.cut(d_out.bytes(), d_x.bytes_mut());
    d_x.set_lod(x.lod().clone());
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::backward::grad_ops;
    use crate::block::OpDesc;
    use crate::error::Error;
    use crate::op::check::{check, ids, seq, t};
    use crate::program::Program;
    use tensor::{Lod, Tensor, Value};

    #[test]
    fn joins_columns_and_rows() {
        let inputs = || vec![seq(t(&[2, 1], &[1.0, 2.0]), &[2]), t(&[2, 2], &[3.0, 4.0, 5.0, 6.0])];
        let joined = || seq(t(&[2, 3], &[1.0, 3.0, 4.0, 2.0, 5.0, 6.0]), &[2]);
        check("concat").inputs("X", inputs()).attr("axis", 1).gives("Out", joined());
        check("concat").inputs("X", inputs()).attr("axis", -1).gives("Out", joined());
        check("concat")
            .inputs("X", vec![ids(&[1, 2], &[1, 2]), ids(&[2, 2], &[3, 4, 5, 6])])
            .gives("Out", ids(&[3, 2], &[1, 2, 3, 4, 5, 6]));
    }

    /// The offsets are what Fluid 1.8.5 gives.
    #[test]
    fn sequences_follow_each_other_along_axis_0() {
        let x = |rows: usize, levels: &[&[usize]]| {
            let mut x = t(&[rows, 1], &vec![1.0; rows]);
            x.set_lod(Lod::from_offsets(levels.iter().map(|level| level.to_vec()).collect()));
            x
        };
        let joins = |a: Tensor, b: Tensor, axis: i32, expected: &[&[usize]]| {
            let out = check("concat").inputs("X", vec![a, b]).attr("axis", axis).output("Out");
            let out = out.run("Out");
            assert_eq!(out.tensor().unwrap().lod().levels(), expected);
        };
        joins(x(3, &[&[0, 1, 3]]), x(4, &[&[0, 2, 4]]), 0, &[&[0, 1, 3, 5, 7]]);
        joins(x(3, &[&[0, 1, 3]]), x(4, &[&[0, 2, 4]]), -2, &[&[0, 1, 3, 5, 7]]);
        joins(x(3, &[&[0, 1, 3]]), x(3, &[&[0, 2, 3]]), 1, &[&[0, 1, 3]]);
        joins(x(3, &[&[0, 1, 3]]), x(4, &[]), 0, &[&[0, 1, 3]]);
        joins(x(3, &[]), x(4, &[&[0, 2, 4]]), 0, &[]);
        joins(x(0, &[&[0, 0]]), x(4, &[&[0, 2, 4]]), 0, &[&[0, 0, 2, 4]]);
        let two = x(3, &[&[0, 1, 2], &[0, 1, 3]]);
        let joined: &[&[usize]] = &[&[0, 1, 2, 4], &[0, 1, 3, 5, 7]];
        joins(two.clone(), x(4, &[&[0, 2], &[0, 2, 4]]), 0, joined);
        let error = check("concat").inputs("X", vec![two, x(4, &[&[0, 2, 4]])]);
        let error = error.output("Out").fails();
        assert!(matches!(error.root(), Error::Tensor(tensor::Error::BadLod(_))), "{error}");
    }

    #[test]
    fn gradient_matches_finite_differences() {
        for axis in [0, 1, 2] {
            let mut dims = [2, 2, 2];
            let a = t(&dims, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
            dims[axis] = 1;
            let b = t(&dims, &[9.0, 8.0, 7.0, 6.0]);
            check("concat")
                .inputs("X", vec![a, b])
                .attr("axis", axis as i32)
                .output("Out")
                .grad(&["X"]);
        }
    }

    #[test]
    fn the_axis_may_come_as_a_tensor() {
        let join = || {
            let inputs = vec![t(&[2, 1], &[1.0, 2.0]), t(&[2, 2], &[3.0, 4.0, 5.0, 6.0])];
            check("concat").inputs("X", inputs).input("AxisTensor", ids(&[1], &[1]))
        };
        join().gives("Out", t(&[2, 3], &[1.0, 3.0, 4.0, 2.0, 5.0, 6.0]));
        join().output("Out").grad(&["X"]);
    }

    /// Found by `fuzz_ops`.
    #[test]
    fn refuses_to_give_back_to_an_input_without_the_axis() {
        let inputs = vec![t(&[1, 1], &[1.0]), t(&[1], &[2.0])];
        let op = check("concat_grad").inputs("X", inputs).attr("axis", 1);
        let error = op.input("Out@GRAD", t(&[1, 2], &[1.0, 2.0])).outputs("X@GRAD", 2).fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }

    #[test]
    fn an_input_without_gradient_leaves_its_place_empty() {
        let op = OpDesc::new("concat").input("X", vec!["a".to_string(), "b".into()]);
        let ops = grad_ops(&Program::default(), 0, &op.output("Out", "o"), &|var| var == "b");
        assert_eq!(ops.unwrap()[0].output_names("X@GRAD"), ["a@GRAD", "@EMPTY@"]);
    }

    #[test]
    fn refuses_what_does_not_line_up() {
        let fails = |other: Value, axis: i32| {
            let first = Value::Tensor(t(&[2, 1], &[1.0, 2.0]));
            let op = check("concat").inputs("X", vec![first, other]).attr("axis", axis);
            op.output("Out").fails()
        };
        let error = fails(t(&[1, 1], &[1.0]).into(), 1);
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
        let error = fails(ids(&[2, 1], &[1, 2]).into(), 1);
        assert!(matches!(error.root(), Error::Tensor(_)), "{error}");
        let error = fails(t(&[2, 1], &[1.0, 2.0]).into(), 2);
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
    }
}
