//! `argsort`: Out = X sorted along `axis`, Indices = where each element was.
//!
//! Equal elements keep their order; NaN counts as the largest.

use std::cmp::Ordering;

use tensor::{AxisSplit, DType, Number, room_or_give_up};

use super::{Grad, Infer, Keep, Kernel, Op, Run, dims, for_float, for_number, traits};
use crate::error::{Error, Result};

pub(super) struct Argsort;
pub(super) struct ArgsortGrad;

impl Op for Argsort {
    traits!(Inner("X", "axis", -1), "X": [F32, F64, I16, I32, I64, U8]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        dims::axis(infer.attrs(), "axis", -1, x.dims.len())?;
        infer.set_output("Indices", x.with_dtype(DType::I64))?;
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (mut out, mut indices) = (run.take("Out"), run.take("Indices"));
        let descending = run.attrs().bool("descending", false)?;
        let x = run.input("X")?;
        let axis = dims::axis(run.attrs(), "axis", -1, x.shape().rank())?;
        let around = x.shape().around(axis);
        for_number!(x.dtype(), run.input_name("X"), T => {
            let (out, indices) = (out.resize::<T>(x.shape()), indices.resize::<i64>(x.shape()));
            sort(x.data::<T>()?, out, indices, around, descending);
            Ok(())
        })?;
        out.set_lod(x.lod().clone());
        indices.set_lod(x.lod().clone());
        run.put("Out", out);
        run.put("Indices", indices);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X"]).inputs(&["X"]).outputs(&["Indices"]))
    }
}

fn sort<T: Number>(
    x: &[T],
    out: &mut [T],
    indices: &mut [i64],
    around: AxisSplit,
    descending: bool,
) {
    let mut places: Vec<usize> = Vec::new();
    let inner = around.inner;
    for start in (0..around.n_vectors()).map(|vector| around.start(vector)) {
        places.clear();
        room_or_give_up(&mut places, around.size);
        places.extend(0..around.size);
        // A stable sort would need memory.
        places.sort_unstable_by(|&a, &b| {
            let order = order(x[start + a * inner], x[start + b * inner]);
            if descending { order.reverse().then(a.cmp(&b)) } else { order.then(a.cmp(&b)) }
        });
        for (k, &place) in places.iter().enumerate() {
            out[start + k * inner] = x[start + place * inner];
            indices[start + k * inner] = place as i64;
        }
    }
}

/// A total order: sorting must not meet contradictions.
fn order<T: Number>(a: T, b: T) -> Ordering {
    let is_nan = |x: T| x.partial_cmp(&x).is_none();
    a.partial_cmp(&b).unwrap_or_else(|| is_nan(a).cmp(&is_nan(b)))
}

/// dX = dOut, each element back at its place.
impl Kernel for ArgsortGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        dims::run_same(run, "X", "Indices")?;
        dims::run_same(run, "X", "Out@GRAD")?;
        run.fill("X@GRAD", "X", |run, x, d_x| {
            let axis = dims::axis(run.attrs(), "axis", -1, x.shape().rank())?;
            let AxisSplit { size, inner, .. } = x.shape().around(axis);
            for_float!(x.dtype(), run.input_name("X"), T => {
                let (indices, d_out) = (run.data::<i64>("Indices")?, run.data::<T>("Out@GRAD")?);
                let d_x = d_x.resize_zeroed::<T>(x.shape());
                for (at, (&index, &d_out)) in indices.iter().zip(d_out).enumerate() {
                    let start = at / (size * inner) * size * inner + at % inner;
                    let index = super::top_k::check_index(run, at, index, size)?;
                    d_x[start + index * inner] = d_out;
                }
                Ok::<(), Error>(())
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, ids, t};

    fn sorted() -> Check {
        check("argsort").input("X", t(&[2, 3], &[0.5, 0.2, 0.5, 1.0, 3.0, 2.0]))
    }

    #[test]
    fn sorts_rows_and_columns() {
        sorted()
            .gives("Out", t(&[2, 3], &[0.2, 0.5, 0.5, 1.0, 2.0, 3.0]))
            .gives("Indices", ids(&[2, 3], &[1, 0, 2, 0, 2, 1]));
        sorted()
            .attr("axis", 0)
            .attr("descending", true)
            .gives("Out", t(&[2, 3], &[1.0, 3.0, 2.0, 0.5, 0.2, 0.5]))
            .gives("Indices", ids(&[2, 3], &[1, 1, 1, 0, 0, 0]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        let x = [0.5, 0.2, 0.7, 1.0, 3.0, 2.0];
        let op = || check("argsort").input("X", t(&[2, 3], &x)).output("Out").output("Indices");
        op().grad(&["X"]);
        op().attr("axis", 0).grad(&["X"]);
    }

    #[test]
    fn refuses_an_axis_that_is_not_there() {
        let error = sorted().attr("axis", 2).output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
    }
}
