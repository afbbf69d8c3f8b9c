//! Lists of tensors.
//!
//! `write_to_array`: Out[I] = X, growing the list if need be. `read_from_array`: Out = X[I].
//! `lod_array_length`: Out = how many tensors X holds. `tensor_array_to_tensor`: Out = the tensors of
//! X joined along `axis` (or stacked, with `use_stack`), OutIndex = the size of each along it.

use tensor::{DType, Shape, Tensor, Value};

use super::sizes;
use super::step_values::zeros;
use super::strips::{Section, insert};
use super::sum::add_to;
use super::{Grad, Infer, Kernel, Op, Run, for_number, no_gradient, traits};
use crate::block::OpDesc;
use crate::error::{Error, Result};
use crate::var::{Meta, VarKind};

pub(super) struct WriteToArray;
pub(super) struct WriteToArrayGrad;
pub(super) struct ReadFromArray;
pub(super) struct ReadFromArrayGrad;
pub(super) struct LodArrayLength;
pub(super) struct TensorArrayToTensor;
pub(super) struct TensorArrayToTensorGrad;

/// Longest list; a place beyond it is a mistake, not a wish for memory.
const LENGTH_MAX: usize = 1 << 20;

/// The place in port `I`.
fn place(run: &Run<'_>, limit: usize) -> Result<usize> {
    let at = run.scalar("I")?;
    if at >= 0.0 && at < limit as f64 {
        return Ok(at as usize);
    }
    let (rule, var) = ("the place must be in the list", run.input_name("I").to_string());
    Err(Error::BadValue { rule, var, position: 0, value: at })
}

/// The list at port `X`.
fn list<'a>(run: &'a Run<'_>) -> Result<&'a [Tensor]> {
    array_at(run, "X")
}

/// Adds a tensor to the one at a place of the list at an output port.
pub(super) fn add_element(run: &mut Run<'_>, port: &str, at: usize, part: &Tensor) -> Result<()> {
    let mut list = match run.take_output_value(port) {
        Value::Array(list) => list,
        _ => Vec::new(),
    };
    if list.len() <= at {
        list.resize_with(at + 1, Tensor::default);
    }
    let sum = &mut list[at];
    let added = if !sum.is_initialized() || sum.shape() != part.shape() {
        let is_new = !sum.is_initialized();
        sum.copy_from(part);
        if is_new { Ok(()) } else { Err(run.shape("gradients of an element have one shape", port)) }
    } else {
        for_number!(part.dtype(), "a gradient", T => {
            add_to(sum.data_mut::<T>()?, part.data::<T>()?);
            Ok(())
        })
    };
    run.put_value_at(port, 0, Value::Array(list));
    added
}

/// The list at an input port.
pub(super) fn array_at<'a>(run: &'a Run<'_>, port: &str) -> Result<&'a [Tensor]> {
    let value = run.value(port)?;
    let (port, var) = (port.to_string(), run.input_name(port).to_string());
    match value {
        Value::Array(list) => Ok(list),
        value if value.is_empty() => Err(Error::NotInitialized { port, var }),
        value => {
            Err(Error::WrongKind { port, var, expected: "a tensor array", actual: value.kind() })
        }
    }
}

impl Op for WriteToArray {
    traits!(Never, "I": [I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        infer.set_output("Out", Meta { kind: VarKind::LodTensorArray, ..x })
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let at = place(run, LENGTH_MAX)?;
        run.input("X")?;
        let mut list = match run.take_output_value("Out") {
            Value::Array(list) => list,
            _ => Vec::new(),
        };
        if list.len() <= at {
            list.resize_with(at + 1, Tensor::default);
        }
        list[at].copy_from(run.input("X")?);
        run.put_value_at("Out", 0, Value::Array(list));
        Ok(())
    }

    /// dX = dOut[I]; what stood there before has none.
    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let d_out = grad.output_grad("Out");
        let op = OpDesc::new("write_to_array_grad").input("X", grad.input("X"));
        let op = op.input("I", grad.input("I")).input("Out@GRAD", d_out.clone());
        grad.emit(op.output("X@GRAD", grad.input_grad("X")).output("Out@GRAD", d_out))
    }
}

impl Kernel for WriteToArrayGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let at = place(run, LENGTH_MAX)?;
        let mut list = match run.take_output_value("Out@GRAD") {
            Value::Array(list) => list,
            _ => Vec::new(),
        };
        let part = list.get_mut(at).map(std::mem::take).unwrap_or_default();
        run.put_value_at("Out@GRAD", 0, Value::Array(list));
        let x = run.input("X")?;
        let mut part = if part.is_initialized() { part } else { zeros(x) };
        part.set_lod(x.lod().clone());
        run.put("X@GRAD", part);
        Ok(())
    }
}

impl Op for ReadFromArray {
    traits!(Never, "I": [I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        infer.set_output("Out", Meta { kind: VarKind::LodTensor, ..x })
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut out = run.take("Out");
        let list = list(run)?;
        let element = &list[place(run, list.len())?];
        if !element.is_initialized() {
            let (port, var) = ("X".to_string(), run.input_name("X").to_string());
            return Err(Error::NotInitialized { port, var });
        }
        out.copy_from(element);
        run.put("Out", out);
        Ok(())
    }

    /// dX[I] += dOut.
    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let d_x = grad.input_grad("X");
        let op = OpDesc::new("read_from_array_grad").input("I", grad.input("I"));
        let op = op.input("Out@GRAD", grad.output_grad("Out")).input("X@GRAD", d_x.clone());
        grad.emit(op.output("X@GRAD", d_x))
    }
}

impl Kernel for ReadFromArrayGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let at = place(run, LENGTH_MAX)?;
        let mut part = run.spare().tensor();
        part.copy_from(run.input("Out@GRAD")?);
        let added = add_element(run, "X@GRAD", at, &part);
        run.spare().keep(part);
        added
    }
}

impl Op for LodArrayLength {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        infer.set_output("Out", Meta::dense(DType::I64, &[1]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut out = run.take("Out");
        // Nothing was written yet: the list is there, and empty.
        let n = if run.value("X")?.is_empty() { 0 } else { list(run)?.len() };
        out.resize::<i64>(Shape::from([1]))[0] = n as i64;
        run.put("Out", out);
        Ok(())
    }

    no_gradient!();
}

impl Op for TensorArrayToTensor {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        let stack = infer.attrs().bool("use_stack", false)?;
        let mut dims = x.dims.clone();
        let axis = infer.attrs().int("axis", 0)?;
        let axis = sizes::axis("axis", axis, dims.len() + usize::from(stack))?;
        if stack {
            dims.insert(axis, -1);
        } else {
            dims[axis] = -1;
        }
        infer.set_output("Out", Meta { kind: VarKind::LodTensor, dims, ..x })?;
        infer.set_output("OutIndex", Meta::dense(DType::I32, &[-1]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let stack = run.attrs().bool("use_stack", false)?;
        let (mut out, mut index) = (run.take("Out"), run.take("OutIndex"));
        let list = list(run)?;
        let rule = "the tensors of the list must agree in all dimensions but the axis";
        let bad = |x: &Tensor| Error::Shape {
            rule,
            var: run.input_name("X").to_string(),
            dims: x.shape().to_i64(),
        };
        let first = list.first().filter(|first| first.is_initialized());
        let first = first.ok_or_else(|| bad(&Tensor::default()))?;
        let rank = first.shape().rank() + usize::from(stack);
        let axis = sizes::axis("axis", run.attrs().int("axis", 0)?, rank)?;
        let shape = |x: &Tensor| if stack { insert(x.shape(), axis, 1) } else { Ok(x.shape()) };
        let mut total = 0;
        for x in list {
            let dims = shape(x)?;
            let alike = dims.rank() == rank
                && x.dtype() == first.dtype()
                && dims.with_dim(axis, 0) == shape(first)?.with_dim(axis, 0);
            if !alike {
                return Err(bad(x));
            }
            total += dims.dim(axis);
        }
        out.resize_as(first.dtype(), shape(first)?.with_dim(axis, total));
        let counts = index.resize::<i32>(Shape::from([list.len()]));
        let mut at = 0;
        for (x, count) in list.iter().zip(counts) {
            let section = Section::new(x.dtype(), shape(x)?, axis, total, at);
            section.join(x.bytes(), out.bytes_mut());
            *count = shape(x)?.dim(axis) as i32;
            at += shape(x)?.dim(axis);
        }
        run.put("Out", out);
        run.put("OutIndex", index);
        Ok(())
    }

    /// dX[i] += its part of dOut.
    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let d_x = grad.input_grad("X");
        let mut op = OpDesc::new("tensor_array_to_tensor_grad").input("X", grad.input("X"));
        op.attrs = grad.op().attrs.clone();
        let op = op.input("Out@GRAD", grad.output_grad("Out")).input("X@GRAD", d_x.clone());
        grad.emit(op.output("X@GRAD", d_x))
    }
}

impl Kernel for TensorArrayToTensorGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let stack = run.attrs().bool("use_stack", false)?;
        let (list, d_out) = (list(run)?, run.input("Out@GRAD")?);
        let rank = d_out.shape().rank();
        let axis = sizes::axis("axis", run.attrs().int("axis", 0)?, rank)?;
        if list.iter().any(|x| x.shape().rank() + usize::from(stack) != rank) {
            return Err(run.shape("the gradient must be like the joined tensors", "Out@GRAD"));
        }
        let shape = |x: &Tensor| if stack { insert(x.shape(), axis, 1) } else { Ok(x.shape()) };
        let shapes: Vec<Shape> = list.iter().map(shape).collect::<Result<_>>()?;
        let total: usize = shapes.iter().map(|shape| shape.dim(axis)).sum();
        let fits = shapes.iter().all(|shape| shape.with_dim(axis, total) == d_out.shape());
        if !fits || list.iter().any(|x| x.dtype() != d_out.dtype()) {
            return Err(run.shape("the gradient must be like the joined tensors", "Out@GRAD"));
        }
        let (mut at, mut parts) = (0, Vec::new());
        for (x, shape) in list.iter().zip(shapes) {
            let mut part = zeros(x);
            let section = Section::new(x.dtype(), shape, axis, total, at);
            section.cut(d_out.bytes(), part.bytes_mut());
            at += shape.dim(axis);
            parts.push(part);
        }
        parts.iter().enumerate().try_for_each(|(k, part)| add_element(run, "X@GRAD", k, part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::check::{check, ids, t};

    fn array(tensors: Vec<Tensor>) -> Value {
        Value::Array(tensors)
    }

    #[test]
    fn a_gradient_of_another_type_is_refused() {
        let op = check("tensor_array_to_tensor_grad").input("X", array(vec![t(&[1], &[1.0])]));
        let op = op.input("Out@GRAD", Tensor::new([1], &[1.0f32]).unwrap());
        let error = op.output("X@GRAD").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
    }

    #[test]
    fn writes_grow_the_list() {
        let write = |before: Value, at: i64| {
            let op =
                check("write_to_array").input("X", t(&[1], &[5.0])).input("I", ids(&[1], &[at]));
            op.input("Before", before).writes("Out", "Before0")
        };
        let list = write(array(vec![t(&[1], &[1.0])]), 2).run("Out");
        let expected = vec![t(&[1], &[1.0]), Tensor::default(), t(&[1], &[5.0])];
        assert_eq!(list, array(expected));
        let error = write(array(vec![t(&[1], &[1.0])]), -1).fails();
        assert!(matches!(error.root(), Error::BadValue { .. }), "{error}");
    }

    #[test]
    fn reads_what_was_written() {
        let read = |at: i64| {
            let list = array(vec![t(&[1], &[1.0]), t(&[2], &[5.0, 6.0])]);
            check("read_from_array").input("X", list).input("I", ids(&[1], &[at])).output("Out")
        };
        assert_eq!(read(1).run("Out").tensor(), Some(&t(&[2], &[5.0, 6.0])));
        for at in [2, -1] {
            let error = read(at).fails();
            assert!(matches!(error.root(), Error::BadValue { .. }), "{error}");
        }
        let wrong =
            check("read_from_array").input("X", t(&[1], &[0.0])).input("I", ids(&[1], &[0]));
        assert!(matches!(wrong.output("Out").fails().root(), Error::WrongKind { .. }));
    }

    #[test]
    fn counts_the_tensors() {
        let list = array(vec![t(&[1], &[1.0]), t(&[1], &[5.0])]);
        check("lod_array_length").input("X", list).gives("Out", ids(&[1], &[2]));
        check("lod_array_length").input("X", Value::Empty).gives("Out", ids(&[1], &[0]));
    }

    #[test]
    fn joins_or_stacks_the_tensors() {
        let list = || array(vec![t(&[1, 2], &[1.0, 2.0]), t(&[1, 2], &[3.0, 4.0])]);
        let sizes = |a, b| Tensor::new([2], &[a, b]).unwrap();
        check("tensor_array_to_tensor")
            .input("X", list())
            .attr("axis", 1)
            .gives("Out", t(&[1, 4], &[1.0, 2.0, 3.0, 4.0]))
            .gives("OutIndex", sizes(2i32, 2));
        check("tensor_array_to_tensor")
            .input("X", list())
            .attr("axis", 0)
            .attr("use_stack", true)
            .gives("Out", t(&[2, 1, 2], &[1.0, 2.0, 3.0, 4.0]))
            .gives("OutIndex", sizes(1i32, 1));
        let uneven = array(vec![t(&[1, 2], &[1.0, 2.0]), t(&[2], &[3.0, 4.0])]);
        let error = check("tensor_array_to_tensor").input("X", uneven).output("Out").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
    }
}
