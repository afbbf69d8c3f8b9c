//! `sequence_scatter`: Out = X with Updates added: sequence i of Ids names columns of row i.
//!
//! Gradient: dX = dOut, dUpdates = dOut at those places.

use tensor::Tensor;

use super::ragged;
use super::sizes;
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, for_number, traits};
use crate::error::{Error, Result};

pub(super) struct SequenceScatter;
pub(super) struct SequenceScatterGrad;

const OP: &str = "SequenceScatterOp";
const RULE: &str = "X must have a row for each sequence of Ids, and Updates a number for each id";

impl Op for SequenceScatter {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let (x, ids) = (infer.input("X")?, infer.input("Ids")?);
        if x.dims.len() != 2 || ids.dims.is_empty() {
            return Err(infer.shapes(RULE, "X", "Ids"));
        }
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut out = run.take("Out");
        let x = run.input("X")?;
        let places = places(run, x)?;
        if run.input("Updates")?.len() != places.len() {
            return Err(run.shapes(RULE, "Updates", "Ids"));
        }
        out.copy_from(x);
        for_number!(x.dtype(), run.input_name("X"), T => {
            let (updates, out) = (run.data::<T>("Updates")?, out.data_mut::<T>()?);
            places.iter().zip(updates).for_each(|(&at, &update)| out[at] += update);
            Ok(())
        })?;
        run.put("Out", out);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X", "Updates"]).inputs(&["Ids", "Updates"]))
    }
}

/// Where in X, or in something of its shape, each id of each sequence is.
fn places(run: &Run<'_>, x: &Tensor) -> Result<Vec<usize>> {
    let offsets = ragged::only_offsets(run, OP, "Ids")?;
    let ids = sizes::integers(run.input("Ids")?, run.input_name("Ids"))?;
    let &[height, width] = x.dims() else { return Err(run.shapes(RULE, "X", "Ids")) };
    if offsets.len() - 1 != height || offsets.last() != Some(&ids.len()) {
        return Err(run.shapes(RULE, "X", "Ids"));
    }
    let mut places = Vec::with_capacity(ids.len());
    for (row, ends) in offsets.windows(2).enumerate() {
        for (at, &id) in ids[ends[0]..ends[1]].iter().enumerate() {
            match usize::try_from(id) {
                Ok(column) if column < width => places.push(row * width + column),
                _ => return Err(not_there(run, ends[0] + at, id)),
            }
        }
    }
    Ok(places)
}

fn not_there(run: &Run<'_>, position: usize, id: i64) -> Error {
    let (rule, var) = ("an id must be a column of X", run.input_name("Ids").to_string());
    Error::BadValue { rule, var, position, value: id as f64 }
}

impl Kernel for SequenceScatterGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (mut d_x, mut d_updates) = (run.take("X@GRAD"), run.take("Updates@GRAD"));
        let (d_out, updates) = (run.input("Out@GRAD")?, run.input("Updates")?);
        let places = places(run, d_out)?;
        if updates.len() != places.len() {
            return Err(run.shapes(RULE, "Updates", "Ids"));
        }
        for_float!(d_out.dtype(), run.input_name("Out@GRAD"), T => {
            let d_out = d_out.data::<T>()?;
            let d_updates = d_updates.resize::<T>(updates.shape());
            d_updates.iter_mut().zip(&places).for_each(|(d, &at)| *d = d_out[at]);
            Ok(())
        })?;
        d_updates.set_lod(updates.lod().clone());
        d_x.copy_from(d_out);
        run.put("X@GRAD", d_x);
        run.put("Updates@GRAD", d_updates);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, ids, seq, t};

    fn scatter(places: &[i64], lengths: &[usize]) -> Check {
        check("sequence_scatter")
            .input("X", t(&[2, 3], &[1.0; 6]))
            .input("Ids", seq(ids(&[4, 1], places), lengths))
            .input("Updates", seq(t(&[4, 1], &[0.1, 0.2, 0.3, 0.4]), lengths))
    }

    #[test]
    fn adds_to_the_row_of_the_sequence() {
        let sum = [1.0, 1.3, 1.0, 1.4, 1.0, 1.3];
        scatter(&[1, 1, 2, 0], &[2, 2]).gives("Out", t(&[2, 3], &sum));
        let sum = [1.0, 1.0, 1.0, 1.4, 1.3, 1.3];
        scatter(&[1, 1, 2, 0], &[0, 4]).gives("Out", t(&[2, 3], &sum));
    }

    #[test]
    fn gradients_match_finite_differences() {
        scatter(&[1, 1, 2, 0], &[3, 1]).output("Out").grad(&["X", "Updates"]);
    }

    #[test]
    fn refuses_columns_and_sequences_that_are_not_there() {
        let error = scatter(&[1, 3, 2, 0], &[2, 2]).output("Out").fails();
        assert!(matches!(error.root(), Error::BadValue { position: 1, .. }), "{error}");
        let error = scatter(&[1, 1, 2, 0], &[1, 1, 2]).output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
