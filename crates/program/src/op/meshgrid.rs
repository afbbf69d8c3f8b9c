//! `meshgrid`: Out[i] = the list X[i] along dimension i of a grid, repeated along the others.
//!
//! Gradient: dX[i] = the sums of dOut[i] over the other dimensions.

use tensor::{Shape, Tensor};

use super::moves::for_each_place;
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_number, traits};
use crate::error::Result;

pub(super) struct Meshgrid;
pub(super) struct MeshgridGrad;

const LIST: &str = "lists, or single numbers, are needed";

fn shape(run: &Run<'_>) -> Result<Shape> {
    let lists = run.inputs("X")?;
    if let Some(bad) = lists.iter().position(|list| list.shape().rank() > 1) {
        return Err(run.shapes_at(LIST, "X", bad));
    }
    let dims: Vec<i64> = lists.iter().map(|list| list.len() as i64).collect();
    Ok(Shape::from_dims(&dims)?)
}

impl Op for Meshgrid {
    traits!(Never, "X": [F16, F32, F64, I32, I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let lists = infer.inputs("X")?;
        let mut dims = Vec::with_capacity(lists.len());
        for (index, list) in lists.iter().enumerate() {
            match list.dims[..] {
                [] => dims.push(1),
                [n] => dims.push(n),
                _ => return Err(infer.shapes_at(LIST, "X", index)),
            }
        }
        for (index, list) in lists.into_iter().enumerate() {
            infer.set_output_at("Out", index, list.with_dims(dims.clone()).with_lod_level(0))?;
        }
        Ok(())
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let shape = shape(run)?;
        for index in 0..run.n_inputs("X") {
            let mut out = run.take_at("Out", index);
            let x = run.input_at("X", index)?;
            for_number!(x.dtype(), run.input_name_at("X", index), T => {
                let (x, out) = (x.data::<T>()?, out.try_resize::<T>(shape)?);
                for_each_place(shape, |place, at| out[place] = x[at[index]]);
                Ok(())
            })?;
            run.put_at("Out", index, out);
        }
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X"]).inputs(&["X"]))
    }
}

impl Kernel for MeshgridGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let shape = shape(run)?;
        for index in 0..run.n_inputs("X") {
            if !run.wants_at("X@GRAD", index) {
                continue;
            }
            let mut d_x: Tensor = run.take_at("X@GRAD", index);
            let x = run.input_at("X", index)?;
            // A result that nobody uses has no gradient.
            let d_out = run.input_at("Out@GRAD", index).ok();
            if d_out.is_some_and(|d_out| d_out.shape() != shape) {
                return Err(run.shapes("the gradient must have the grid's shape", "Out@GRAD", "X"));
            }
            for_number!(x.dtype(), run.input_name_at("X", index), T => {
                let d_x = d_x.resize_zeroed::<T>(x.shape());
                if let Some(d_out) = d_out {
                    let d_out = d_out.data::<T>()?;
                    for_each_place(shape, |place, at| d_x[at[index]] += d_out[place]);
                }
                Ok(())
            })?;
            run.put_at("X@GRAD", index, d_x);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{check, some, t};

    #[test]
    fn lists_become_a_grid() {
        let op =
            check("meshgrid").inputs("X", vec![t(&[2], &[1.0, 2.0]), t(&[3], &[4.0, 5.0, 6.0])]);
        let first = t(&[2, 3], &[1.0, 1.0, 1.0, 2.0, 2.0, 2.0]);
        let second = t(&[2, 3], &[4.0, 5.0, 6.0, 4.0, 5.0, 6.0]);
        op.gives_all("Out", vec![first, second]);
        let op = check("meshgrid").inputs("X", vec![some(&[2]), some(&[3]), some(&[1])]);
        op.outputs("Out", 3).grad(&["X"]);
    }

    #[test]
    fn refuses_a_matrix() {
        let op = check("meshgrid").inputs("X", vec![some(&[2]), some(&[2, 2])]).outputs("Out", 2);
        let error = op.fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
