//! Ops on keyed rows.
//!
//! `merge_selected_rows`: Out = the rows of X with equal ids added up.
//! `get_tensor_from_selected_rows`: Out = the values of X as a tensor, one row per id.

use super::sum::{merge_rows, rows_at};
use super::{Infer, Op, Run, traits};
use crate::error::Result;
use crate::var::{Meta, VarKind};

pub(super) struct MergeSelectedRows;
pub(super) struct GetTensorFromSelectedRows;

impl Op for MergeSelectedRows {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        infer.set_output("Out", Meta { kind: VarKind::SelectedRows, ..x })
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        merge_rows(run, "X")
    }
}

impl Op for GetTensorFromSelectedRows {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let mut meta = Meta { kind: VarKind::LodTensor, ..infer.input("X")? };
        if let Some(n) = meta.dims.first_mut() {
            // How many rows there are only a run can tell: `X` says the rows of the table.
            *n = -1;
        }
        infer.set_output("Out", meta)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut out = run.take("Out");
        out.copy_from(&rows_at(run, "X", 0)?.value);
        run.put("Out", out);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{check, t};
    use tensor::Rows;

    fn rows(ids: &[i64], values: &[f64]) -> Rows {
        Rows { ids: ids.to_vec(), height: 9, value: t(&[ids.len(), 1], values) }
    }

    #[test]
    fn merges_rows_of_equal_ids() {
        let merged = check("merge_selected_rows")
            .input("X", rows(&[5, 1, 5], &[1.0, 2.0, 3.0]))
            .output("Out")
            .run("Out");
        assert_eq!(merged.rows(), Some(&rows(&[1, 5], &[2.0, 4.0])));
    }

    #[test]
    fn gives_the_values_alone() {
        check("get_tensor_from_selected_rows")
            .input("X", rows(&[5, 1, 5], &[1.0, 2.0, 3.0]))
            .gives("Out", t(&[3, 1], &[1.0, 2.0, 3.0]));
    }

    #[test]
    fn refuses_a_tensor() {
        for kind in ["merge_selected_rows", "get_tensor_from_selected_rows"] {
            let error = check(kind).input("X", t(&[1], &[0.0])).output("Out").fails();
            assert!(matches!(error.root(), Error::WrongKind { .. }), "{error}");
        }
    }
}
