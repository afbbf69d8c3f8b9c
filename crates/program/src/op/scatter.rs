//! `scatter`: Out = X with the rows in Ids replaced by those of Updates.
//!
//! With `overwrite` the last row of a repeated id stays; without it they are added up, X's own row
//! not among them. Gradient as Fluid has it: dX = dOut everywhere, dUpdates[i] = dOut[Ids[i]].

use tensor::Shape;

use super::gather_rows::{BadId, check_ids, gather_rows, scatter_add_rows};
use super::sizes;
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_number, traits};
use crate::error::{Error, Result};

pub(super) struct Scatter;
pub(super) struct ScatterGrad;

const RULE: &str = "Updates must have a row like X's for each id";

impl Op for Scatter {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        let ids = infer.input("Ids")?;
        let updates = infer.input("Updates")?;
        if ids.dims.len() != 1 || x.dims.is_empty() || x.dims.len() != updates.dims.len() {
            return Err(infer.shapes(RULE, "Ids", "Updates"));
        }
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let overwrite = run.attrs().bool("overwrite", true)?;
        let mut out = run.take("Out");
        let (x, updates) = (run.input("X")?, run.input("Updates")?);
        let rows = sizes::integers(run.input("Ids")?, run.input_name("Ids"))?;
        let (height, width) = x.shape().flatten_2d(1);
        if updates.shape() != x.shape().with_dim(0, rows.len()) {
            return Err(run.shapes(RULE, "Updates", "X"));
        }
        check_ids(&rows, height, None).map_err(|bad| not_there(run, bad))?;
        out.copy_from(x);
        for_number!(x.dtype(), run.input_name("X"), T => {
            let (updates, out) = (run.data::<T>("Updates")?, out.data_mut::<T>()?);
            for (&row, update) in rows.iter().zip(updates.chunks_exact(width.max(1))) {
                let to = &mut out[row as usize * width..][..width];
                if overwrite { to.copy_from_slice(update) } else { to.fill(T::default()) }
            }
            if !overwrite {
                scatter_add_rows(out, width, &rows, None, updates)
                    .map_err(|bad| not_there(run, bad))?;
            }
            Ok(())
        })?;
        run.put("Out", out);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X", "Updates"]).inputs(&["Ids", "Updates"]))
    }
}

fn not_there(run: &Run<'_>, bad: BadId) -> Error {
    Error::BadValue {
        rule: "an id must be a row of X",
        var: run.input_name("Ids").to_string(),
        position: bad.position,
        value: bad.id as f64,
    }
}

impl Kernel for ScatterGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let rows = sizes::integers(run.input("Ids")?, run.input_name("Ids"))?;
        let shape = run.input("Out@GRAD")?.shape().with_dim(0, rows.len());
        give_back(run, &rows, shape, not_there)
    }
}

/// The gradients of an op that puts the rows of Updates into X: dX = dOut, and dUpdates are the rows
/// of dOut at those places. `shape` is that of Updates.
pub(super) fn give_back(
    run: &mut Run<'_>,
    rows: &[i64],
    shape: Shape,
    bad: impl Fn(&Run<'_>, BadId) -> Error,
) -> Result<()> {
    let (mut d_x, mut d_updates) = (run.take("X@GRAD"), run.take("Updates@GRAD"));
    let d_out = run.input("Out@GRAD")?;
    if run.wants("Updates@GRAD") {
        d_updates.resize_as(d_out.dtype(), shape);
        let row_bytes = d_updates.bytes().len() / rows.len().max(1);
        gather_rows(d_out.bytes(), row_bytes, rows, None, d_updates.bytes_mut())
            .map_err(|id| bad(run, id))?;
    }
    if run.wants("X@GRAD") {
        d_x.copy_from(d_out);
    }
    run.put("X@GRAD", d_x);
    run.put("Updates@GRAD", d_updates);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, ids, t};

    fn scatter(rows: &[i64], overwrite: bool) -> Check {
        check("scatter")
            .input("X", t(&[4, 1], &[1.0, 1.0, 1.0, 1.0]))
            .input("Ids", ids(&[rows.len()], rows))
            .input("Updates", t(&[3, 1], &[5.0, 6.0, 7.0]))
            .attr("overwrite", overwrite)
    }

    #[test]
    fn replaces_rows_by_the_last_or_the_sum() {
        scatter(&[1, 1, 3], true).gives("Out", t(&[4, 1], &[1.0, 6.0, 1.0, 7.0]));
        scatter(&[1, 1, 3], false).gives("Out", t(&[4, 1], &[1.0, 11.0, 1.0, 7.0]));
    }

    #[test]
    fn gradient_of_the_updates_matches_finite_differences() {
        scatter(&[1, 0, 3], true).output("Out").grad(&["Updates"]);
        scatter(&[1, 1, 3], false).output("Out").grad(&["Updates"]);
    }

    #[test]
    fn gradient_is_fluids() {
        let grad = || {
            check("scatter_grad")
                .input("Ids", ids(&[3], &[1, 1, 3]))
                .input("Updates", t(&[3, 1], &[0.0; 3]))
                .input("Out@GRAD", t(&[4, 1], &[1.0, 2.0, 3.0, 4.0]))
                .output("X@GRAD")
                .output("Updates@GRAD")
        };
        let d_x = t(&[4, 1], &[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(grad().run("X@GRAD").tensor(), Some(&d_x));
        let d_updates = t(&[3, 1], &[2.0, 2.0, 4.0]);
        assert_eq!(grad().run("Updates@GRAD").tensor(), Some(&d_updates));
    }

    #[test]
    fn refuses_rows_outside_of_x_and_other_shapes() {
        let error = scatter(&[1, 4, 3], true).output("Out").fails();
        assert!(matches!(error.root(), Error::BadValue { position: 1, .. }), "{error}");
        let error = scatter(&[1, 2], true).output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
