//! `diag`: Out = a matrix of zeros with Diagonal on its diagonal.
//!
//! `diag_embed`: the last dimension of Input on the diagonals, `offset` above the main one, of matrices in the
//! dimensions `dim1` and `dim2` of Out. Fluid has no gradient of either.

use tensor::Shape;

use super::moves::{MovePorts, Moves, run_moves};
use super::sizes::{self, bad_attr};
use super::{Infer, Op, Run, no_gradient, traits};
use crate::attr::Attrs;
use crate::error::Result;

pub(super) struct Diag;
pub(super) struct DiagEmbed;

const LIST: &str = "a list is needed";

struct DiagonalPlan {
    out: Shape,
    /// The dimensions of rows and columns.
    rows: usize,
    columns: usize,
    offset: i64,
    length: usize,
}

impl Moves for DiagonalPlan {
    fn shape(&self) -> Shape {
        self.out
    }

    fn source(&self, at: &[usize]) -> Option<usize> {
        let (row, column) = (at[self.rows], at[self.columns]);
        if column as i64 - row as i64 != self.offset {
            return None;
        }
        let others =
            at.iter().enumerate().filter(|(axis, _)| ![self.rows, self.columns].contains(axis));
        let outer = others.fold(0, |place, (axis, &i)| place * self.out.dim(axis) + i);
        Some(outer * self.length + row.min(column))
    }
}

const PORTS: MovePorts =
    MovePorts { from: "Input", to: "Out", d_from: "Input@GRAD", d_to: "Out@GRAD" };

impl Op for Diag {
    traits!(Never, "Diagonal": [F32, F64, I32, I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("Diagonal")?;
        let &[n] = &x.dims[..] else { return Err(infer.shape(LIST, "Diagonal")) };
        infer.set_output("Out", x.with_dims(vec![n, n]).with_lod_level(0))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run_moves(run, MovePorts { from: "Diagonal", ..PORTS }, |run| {
            let &[n] = run.input("Diagonal")?.dims() else {
                return Err(run.shape(LIST, "Diagonal"));
            };
            Ok(DiagonalPlan { out: Shape::from([n, n]), rows: 0, columns: 1, offset: 0, length: n })
        })
    }

    no_gradient!();
}

/// The dimensions of rows and columns in a result of this rank.
fn planes(attrs: &Attrs, rank: usize) -> Result<[usize; 2]> {
    let rows = sizes::axis("dim1", attrs.int("dim1", -2)?, rank)?;
    let columns = sizes::axis("dim2", attrs.int("dim2", -1)?, rank)?;
    if rows == columns {
        return Err(bad_attr("dim2", "another dimension than dim1", columns));
    }
    Ok([rows, columns])
}

/// The sizes of the result.
fn embedded(attrs: &Attrs, input: &[i64]) -> Result<Vec<i64>> {
    let rank = input.len() + 1;
    let [rows, columns] = planes(attrs, rank)?;
    let Some((&length, outer)) = input.split_last() else {
        return Err(bad_attr("dim1", "of an input with one dimension at least", rank));
    };
    let offset = attrs.int("offset", 0)?;
    let size = match length {
        0.. => length.saturating_add(offset.saturating_abs()),
        _ => -1,
    };
    let mut outer = outer.iter();
    let dim = |axis| match axis {
        _ if axis == rows || axis == columns => size,
        _ => *outer.next().expect("two dimensions of the result are not of the input"),
    };
    Ok((0..rank).map(dim).collect())
}

impl Op for DiagEmbed {
    traits!(Never, "Input": [F16, F32, F64, I32, I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("Input")?;
        let dims = embedded(infer.attrs(), &x.dims)?;
        infer.set_output("Out", x.with_dims(dims).with_lod_level(0))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run_moves(run, PORTS, |run| {
            let (attrs, x) = (run.attrs(), run.input("Input")?.shape());
            let out = Shape::from_dims(&embedded(attrs, &x.to_i64())?)?;
            let [rows, columns] = planes(attrs, out.rank())?;
            let offset = attrs.int("offset", 0)?;
            Ok(DiagonalPlan { out, rows, columns, offset, length: x.last() })
        })
    }

    no_gradient!();
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{check, some, t};

    #[test]
    fn a_list_becomes_a_diagonal() {
        let op = check("diag").input("Diagonal", t(&[2], &[3.0, 4.0]));
        op.gives("Out", t(&[2, 2], &[3.0, 0.0, 0.0, 4.0]));
    }

    #[test]
    fn rows_become_diagonals() {
        let op = || check("diag_embed").input("Input", t(&[2, 1], &[3.0, 4.0]));
        op().gives("Out", t(&[2, 1, 1], &[3.0, 4.0]));
        let above = [0.0, 3.0, 0.0, 0.0, 0.0, 4.0, 0.0, 0.0];
        op().attr("offset", 1).gives("Out", t(&[2, 2, 2], &above));
        let below = [0.0, 0.0, 0.0, 0.0, 3.0, 4.0, 0.0, 0.0];
        let op = op().attr("offset", -1).attr("dim1", 0).attr("dim2", 1);
        op.gives("Out", t(&[2, 2, 2], &below));
    }

    #[test]
    fn refuses_a_matrix_and_equal_dimensions() {
        let error = check("diag").input("Diagonal", some(&[2, 2])).output("Out").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
        let bad = check("diag_embed").input("Input", some(&[2])).attr("dim1", 1).attr("dim2", -1);
        let error = bad.output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
    }
}
