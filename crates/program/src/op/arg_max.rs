//! `arg_max` and `arg_min`: where along `axis` the largest (smallest) element is.
//!
//! The first of equal ones wins. `keepdims` leaves the axis in, with size 1.

use tensor::{AxisSplit, DType, Number, RANK_MAX, Shape};

use super::{Infer, Op, Run, dims, for_int, for_number, no_gradient, traits};
use crate::attr::Attrs;
use crate::error::Result;

pub(super) struct ArgMax;
pub(super) struct ArgMin;

/// int64 unless the attribute says otherwise; -1 says nothing.
fn out_dtype(attrs: &Attrs) -> Result<DType> {
    match attrs.int("dtype", -1)? {
        -1 => Ok(DType::I64),
        code => Ok(DType::from_code(code)?),
    }
}

fn infer(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.input("X")?;
    let axis = dims::axis(infer.attrs(), "axis", 0, x.dims.len())?;
    let mut out = x.dims.clone();
    if infer.attrs().bool("keepdims", false)? || out.len() == 1 {
        out[axis] = 1;
    } else {
        out.remove(axis);
    }
    let dtype = out_dtype(infer.attrs())?;
    infer.set_output("Out", x.with_dims(out).with_dtype(dtype).with_lod_level(0))
}

fn run(run: &mut Run<'_>, largest: bool) -> Result<()> {
    let mut out = run.take("Out");
    let x = run.input("X")?;
    let axis = dims::axis(run.attrs(), "axis", 0, x.shape().rank())?;
    let keep = run.attrs().bool("keepdims", false)? || x.shape().rank() == 1;
    let around = x.shape().around(axis);
    let shape = if keep { x.shape().with_dim(axis, 1) } else { without(x.shape(), axis) };
    if around.size == 0 && shape.n_elements() > 0 {
        return Err(run.shape("there is nothing to choose from", "X"));
    }
    for_number!(x.dtype(), run.input_name("X"), T => {
        for_int!(out_dtype(run.attrs())?, "Out", I => {
            let x = x.data::<T>()?;
            for (at, out) in out.resize::<I>(shape).iter_mut().enumerate() {
                *out = find(x, at, around, largest) as I;
            }
            Ok(())
        })
    })?;
    run.put("Out", out);
    Ok(())
}

fn without(shape: Shape, axis: usize) -> Shape {
    let mut out = [0; RANK_MAX];
    let rank = shape.rank() - 1;
    out[..axis].copy_from_slice(&shape.dims()[..axis]);
    out[axis..rank].copy_from_slice(&shape.dims()[axis + 1..]);
    Shape::new(&out[..rank])
}

/// The place of the extreme among the elements that result `at` stands for.
fn find<T: Number>(x: &[T], at: usize, around: AxisSplit, largest: bool) -> usize {
    let (start, step) = (around.start(at), around.inner);
    let mut best = 0;
    for k in 1..around.size {
        let (new, old) = (x[start + k * step], x[start + best * step]);
        if if largest { new > old } else { new < old } {
            best = k;
        }
    }
    best
}

impl Op for ArgMax {
    traits!(Inner("X", "axis", 0), "X": [F32, F64, I16, I32, I64, U8]);

    fn infer(&self, i: &mut Infer<'_>) -> Result<()> {
        infer(i)
    }

    fn run(&self, r: &mut Run<'_>) -> Result<()> {
        run(r, true)
    }

    no_gradient!();
}

impl Op for ArgMin {
    traits!(Inner("X", "axis", 0), "X": [F32, F64, I16, I32, I64, U8]);

    fn infer(&self, i: &mut Infer<'_>) -> Result<()> {
        infer(i)
    }

    fn run(&self, r: &mut Run<'_>) -> Result<()> {
        run(r, false)
    }

    no_gradient!();
}

#[cfg(test)]
mod tests {
    use tensor::Tensor;

    use crate::error::Error;
    use crate::op::check::{Check, check, ids, t};

    fn arg(kind: &str) -> Check {
        check(kind).input("X", t(&[2, 3], &[1.0, 5.0, 5.0, 4.0, 2.0, 2.0]))
    }

    #[test]
    fn finds_the_first_extreme() {
        arg("arg_max").attr("axis", 1).gives("Out", ids(&[2], &[1, 0]));
        arg("arg_min").attr("axis", -1).gives("Out", ids(&[2], &[0, 1]));
        arg("arg_max").gives("Out", ids(&[3], &[1, 0, 0]));
    }

    #[test]
    fn keeps_the_axis_and_takes_a_type() {
        let out = Tensor::new([2, 1], &[1i32, 0]).unwrap();
        arg("arg_max").attr("axis", 1).attr("keepdims", true).attr("dtype", 2).gives("Out", out);
        let line = check("arg_max").input("X", t(&[2], &[1.0, 2.0]));
        line.gives("Out", ids(&[1], &[1]));
    }

    #[test]
    fn refuses_an_axis_that_is_not_there_and_nothing_to_choose_from() {
        let error = arg("arg_max").attr("axis", 2).output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        let error = check("arg_max").input("X", t(&[0, 2], &[])).output("Out").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
    }
}
