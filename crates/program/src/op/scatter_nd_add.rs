//! `scatter_nd_add`: Out = X with Updates added where Index says: its last dimension holds places in
//! the first dimensions of X.
//!
//! Gradient: dX = dOut, dUpdates = dOut at those places.

use tensor::{Shape, Tensor};

use super::gather::places;
use super::gather_rows::scatter_add_rows;
use super::scatter::give_back;
use super::{Grad, Infer, Keep, Kernel, Op, Run, dims, for_number, traits};
use crate::error::Result;

pub(super) struct ScatterNdAdd;
pub(super) struct ScatterNdAddGrad;

const RULE: &str = "Updates must have the places of Index, then the rest of X";

impl Op for ScatterNdAdd {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        let index = infer.input("Index")?;
        let updates = infer.input("Updates")?;
        let Some((&depth, outer)) = index.dims.split_last() else {
            return Err(infer.shapes(RULE, "Index", "X"));
        };
        let Some(inner) = usize::try_from(depth).ok().and_then(|depth| x.dims.get(depth..)) else {
            return Err(infer.shapes(RULE, "Index", "X"));
        };
        if !dims::agree(&[outer, inner].concat(), &updates.dims) {
            return Err(infer.shapes(RULE, "Updates", "X"));
        }
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut out = run.take("Out");
        let (x, updates) = (run.input("X")?, run.input("Updates")?);
        let (rows, width) = targets(run, x.shape(), updates)?;
        out.copy_from(x);
        for_number!(x.dtype(), run.input_name("X"), T => {
            let out = out.data_mut::<T>()?;
            // The places were checked.
            scatter_add_rows(out, width, &rows, None, run.data::<T>("Updates")?)
                .map_err(|_| run.shapes(RULE, "Index", "X"))
        })?;
        run.put("Out", out);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X", "Updates"]).inputs(&["Index", "Updates"]))
    }
}

/// Where the rows of Updates go in a tensor of shape `x`, and how many numbers a row has.
fn targets(run: &Run<'_>, x: Shape, updates: &Tensor) -> Result<(Vec<i64>, usize)> {
    let index = run.input("Index")?.shape();
    let depth = index.last();
    let (outer, Some(inner)) = (index.dims().split_last(), x.dims().get(depth..)) else {
        return Err(run.shapes(RULE, "Index", "Updates"));
    };
    let outer = outer.map_or(&[][..], |(_, outer)| outer);
    if updates.dims() != [outer, inner].concat() {
        return Err(run.shapes(RULE, "Updates", "Index"));
    }
    Ok((places(run, x, depth)?, x.flatten_2d(depth).1))
}

impl Kernel for ScatterNdAddGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (d_out, updates) = (run.input("Out@GRAD")?, run.input("Updates")?);
        let (rows, _) = targets(run, d_out.shape(), updates)?;
        let shape = updates.shape();
        give_back(run, &rows, shape, |run, _| run.shapes(RULE, "Index", "Updates"))
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, ids, t};

    fn scatter(index: &[usize], places: &[i64], updates: &[usize]) -> Check {
        let n: usize = updates.iter().product();
        check("scatter_nd_add")
            .input("X", t(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
            .input("Index", ids(index, places))
            .input("Updates", t(updates, &[10.0, 20.0, 30.0, 40.0, 50.0, 60.0][..n]))
    }

    #[test]
    fn adds_rows_or_numbers() {
        let rows = scatter(&[2, 1], &[1, 1], &[2, 3]);
        rows.gives("Out", t(&[2, 3], &[1.0, 2.0, 3.0, 54.0, 75.0, 96.0]));
        let numbers = scatter(&[2, 2], &[0, 2, 0, 2], &[2]);
        numbers.gives("Out", t(&[2, 3], &[1.0, 2.0, 33.0, 4.0, 5.0, 6.0]));
    }

    #[test]
    fn gradients_match_finite_differences() {
        scatter(&[2, 1], &[1, 1], &[2, 3]).output("Out").grad(&["X", "Updates"]);
        scatter(&[2, 2], &[0, 2, 1, 0], &[2]).output("Out").grad(&["X", "Updates"]);
    }

    #[test]
    fn refuses_places_and_shapes_that_do_not_fit() {
        let error = scatter(&[2, 1], &[1, 2], &[2, 3]).output("Out").fails();
        assert!(matches!(error.root(), Error::BadValue { .. }), "{error}");
        let error = scatter(&[2, 1], &[1, 1], &[3, 2]).output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
