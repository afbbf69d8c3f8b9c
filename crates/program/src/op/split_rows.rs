//! Cutting gradients into the pieces that servers hold: rows `sections[0]`, then `sections[1]`, …
//!
//! `split_byref`: Out₀, Out₁, … = consecutive rows of the dense X (`sections`, or `num` equal parts).
//! `split_selected_rows`: the same for keyed rows, by `height_sections`; ids count from the
//! beginning of their piece. A piece without rows is an empty set of rows, not nothing: the server
//! waits for it.

use tensor::{Rows, Shape, Value};

use super::sizes::bad_attr;
use super::{Infer, Op, Run, traits};
use crate::error::{Error, Result};
use crate::var::VarKind;

pub(super) struct SplitByref;
pub(super) struct SplitSelectedRows;

impl Op for SplitByref {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        let height = x.dims.first().copied().unwrap_or(0);
        let sections = sections(infer.attrs().ints("sections")?, height, infer.n_outputs("Out"))?;
        for (index, rows) in sections.into_iter().enumerate() {
            let mut dims = x.dims.clone();
            if let Some(first) = dims.first_mut() {
                *first = rows;
            }
            infer.set_output_at("Out", index, x.with_dims(dims))?;
        }
        Ok(())
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let shape = run.input("X")?.shape();
        let (height, width) = shape.flatten_2d(1);
        let given = run.attrs().ints("sections")?;
        let sections = sections(given, height as i64, run.n_outputs("Out"))?;
        let mut at = 0;
        for (index, rows) in sections.into_iter().enumerate() {
            let mut out = run.take_at("Out", index);
            let x = run.input("X")?;
            let row_bytes = width * x.dtype().size();
            out.resize_as(x.dtype(), shape.with_dim(0, rows as usize));
            let n_bytes = rows as usize * row_bytes;
            out.bytes_mut().copy_from_slice(&x.bytes()[at..at + n_bytes]);
            at += n_bytes;
            run.put_at("Out", index, out);
        }
        Ok(())
    }
}

/// The rows of each piece; they must fill the whole exactly.
fn sections(given: Vec<i64>, height: i64, n_outputs: usize) -> Result<Vec<i64>> {
    let n = n_outputs as i64;
    if given.is_empty() && n > 0 && height % n == 0 {
        return Ok(vec![height / n; n_outputs]);
    }
    let fills = given.iter().all(|&rows| rows >= 0) && given.iter().sum::<i64>() == height;
    if given.len() != n_outputs || !fills {
        return Err(bad_attr("sections", &format!("{n} pieces of {height} rows"), given));
    }
    Ok(given)
}

impl Op for SplitSelectedRows {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let mut x = infer.input("X")?;
        x.kind = VarKind::SelectedRows;
        for (index, rows) in infer.attrs().ints("height_sections")?.into_iter().enumerate() {
            let mut dims = x.dims.clone();
            if let Some(first) = dims.first_mut() {
                *first = rows;
            }
            infer.set_output_at("Out", index, x.with_dims(dims))?;
        }
        Ok(())
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let heights = run.attrs().ints("height_sections")?;
        if heights.len() != run.n_outputs("Out") {
            let expected = format!("{} numbers, one for each Out", run.n_outputs("Out"));
            return Err(bad_attr("height_sections", &expected, heights));
        }
        let mut start = 0;
        let mut pieces: Vec<Rows> = heights.iter().map(|_| run.spare().rows()).collect();
        let x = rows_at(run)?;
        for (rows, &height) in pieces.iter_mut().zip(&heights) {
            cut(x, start, height, rows);
            start += height;
        }
        let total: i64 = heights.iter().sum();
        // Ids of 2⁶³ - 1 and more are rows of one whole piece.
        let is_row =
            |id: i64| (0..total).contains(&id) || heights.len() == 1 && tensor::is_row(id, total);
        if let Some(&id) = x.ids.iter().find(|&&id| !is_row(id)) {
            return Err(tensor::Error::RowOutOfRange { row: id, height: total }.into());
        }
        for (index, rows) in pieces.into_iter().enumerate() {
            run.put_value_at("Out", index, Value::Rows(rows));
        }
        Ok(())
    }
}

/// The keyed rows at X.
fn rows_at<'r>(run: &'r Run<'_>) -> Result<&'r Rows> {
    let value = run.value("X")?;
    value.rows().ok_or_else(|| Error::WrongKind {
        port: "X".to_string(),
        var: run.input_name("X").to_string(),
        expected: "keyed rows",
        actual: value.kind(),
    })
}

/// Copies the rows whose ids are in `start .. start + height`, in their order.
fn cut(x: &Rows, start: i64, height: i64, rows: &mut Rows) {
    let inside =
        |id: i64| id >= start && id - start < height || start == 0 && tensor::is_row(id, height);
    let n = x.ids.iter().filter(|&&id| inside(id)).count();
    rows.height = height;
    rows.ids.clear();
    let width = x.width();
    rows.value.resize_as(x.value.dtype(), Shape::from([n, width]));
    let row_bytes = width * x.value.dtype().size();
    let mut to = rows.value.bytes_mut();
    for (at, &id) in x.ids.iter().enumerate().filter(|(_, id)| inside(**id)) {
        rows.ids.push(id - start);
        let (row, rest) = std::mem::take(&mut to).split_at_mut(row_bytes);
        row.copy_from_slice(&x.value.bytes()[at * row_bytes..][..row_bytes]);
        to = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::check::{check, t};
    use tensor::Tensor;

    fn piece(x: &Rows, start: i64, height: i64) -> Rows {
        let mut rows = Rows::default();
        cut(x, start, height, &mut rows);
        rows
    }

    #[test]
    fn cuts_dense_rows() {
        let x = t(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let pieces = vec![t(&[2, 2], &[1.0, 2.0, 3.0, 4.0]), t(&[1, 2], &[5.0, 6.0])];
        check("split_byref")
            .input("X", x.clone())
            .attr("sections", vec![2, 1])
            .gives_all("Out", pieces);
        let error = check("split_byref")
            .input("X", x)
            .attr("sections", vec![2, 2])
            .outputs("Out", 2)
            .fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
    }

    #[test]
    fn keyed_rows_count_from_their_piece() {
        let x = Rows { ids: vec![4, 0, 3, 0], height: 5, value: t(&[4, 1], &[1.0, 2.0, 3.0, 4.0]) };
        let first = piece(&x, 0, 3);
        assert_eq!((first.ids, first.height), (vec![0, 0], 3));
        assert_eq!(first.value, Tensor::new([2, 1], &[2.0, 4.0]).unwrap());
        let last = piece(&x, 3, 2);
        assert_eq!(last.ids, [1, 0]);
        let empty = piece(&x, 1, 1);
        assert_eq!((empty.ids.len(), empty.value.dims()), (0, &[0, 1][..]));
    }

    #[test]
    fn a_whole_table_has_all_ids_of_64_bits() {
        let x = Rows { ids: vec![-1, 5], height: i64::MAX, value: t(&[2, 1], &[1.0, 2.0]) };
        assert_eq!(piece(&x, 0, i64::MAX).ids, [-1, 5]);
        let cut = i64::MAX / 2;
        let error = check("split_selected_rows")
            .input("X", x)
            .attr("height_sections", vec![cut, i64::MAX - cut])
            .outputs("Out", 2)
            .fails();
        let row =
            matches!(error.root(), Error::Tensor(tensor::Error::RowOutOfRange { row: -1, .. }));
        assert!(row, "{error}");
    }

    #[test]
    fn a_row_beyond_all_pieces_is_refused() {
        let x = Rows { ids: vec![7], height: 9, value: t(&[1, 1], &[1.0]) };
        let error = check("split_selected_rows")
            .input("X", x)
            .attr("height_sections", vec![3i64, 3])
            .outputs("Out", 2)
            .fails();
        let row =
            matches!(error.root(), Error::Tensor(tensor::Error::RowOutOfRange { row: 7, .. }));
        assert!(row, "{error}");
    }
}
