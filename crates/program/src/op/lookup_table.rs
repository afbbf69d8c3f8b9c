//! `lookup_table`, `lookup_table_v2`: Out = the rows of W that Ids name.
//!
//! Ids of `lookup_table` end in a dimension of 1, which Out replaces by the width of W; those of
//! `lookup_table_v2` have no such dimension. The id `padding_idx` reads as zeros (-1: none does).
//!
//! W may be keyed rows: then Ids are keys, and each must be there. Or it may be a table kept by rows:
//! then ids that are not there read as its rule says, or as zeros with `is_test`.
//!
//! A table that lives on servers (attributes `epmap`, `table_names`) is asked there.
//!
//! Gradient: with `is_sparse` keyed rows, the ids as they stand (repeats and padding too) with their
//! rows of dOut; otherwise dense, dW[ids[i]] += dOut[i] except for the padding id.

use std::collections::HashMap;

use tensor::{DType, KeyedTable, ReadRows, Rows, Shape, Tensor, Value, room_or_give_up};

use super::gather_rows::{BadId, check_ids, gather_rows, scatter_add_rows};
use super::remote_table;
use super::sizes;
use super::{Grad, Infer, Keep, Kernel, Op, Run, Traits, for_float, for_int, traits};
use crate::attr::Attrs;
use crate::distributed::route::Route;
use crate::error::{Error, Result};
use crate::var::{Meta, VarKind};

pub(super) struct LookupTable;
pub(super) struct LookupTableV2;
/// The gradient of both.
pub(super) struct LookupTableGrad;

const TABLE_RULE: &str = "a table has two dimensions";
const IDS_RULE: &str = "the last dimension of the ids must be 1";

impl Op for LookupTable {
    traits!(Rows("Ids"), "Ids": [I64]; looks_up);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        match infer.input("Ids")?.dims.split_last() {
            Some((1 | -1, outer)) => infer_out(infer, outer),
            _ => Err(infer.shape(IDS_RULE, "Ids")),
        }
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        match (run.input("Ids")?.shape().dims().split_last(), run.route()) {
            (Some((1, _)), Some(Route::LookUp(route))) => remote_table::look_up(run, route, "Out"),
            (Some((1, outer)), _) => look_up(run, Shape::new(outer)),
            _ => Err(run.shape(IDS_RULE, "Ids")),
        }
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(KEEP)
    }
}

impl Op for LookupTableV2 {
    traits!(Rows("Ids"); looks_up);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let ids = infer.input("Ids")?;
        infer_out(infer, &ids.dims)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        if let Some(Route::LookUp(route)) = run.route() {
            return remote_table::look_up(run, route, "Out");
        }
        let outer = run.input("Ids")?.shape();
        look_up(run, outer)
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(KEEP)
    }
}

const KEEP: Keep<'static> = Keep::grads(&["Out"], &["W"]).inputs(&["W", "Ids"]);

/// The id that reads as zeros, if one does.
fn padding(attrs: &crate::attr::Attrs) -> Result<Option<i64>> {
    Ok(Some(attrs.int("padding_idx", -1)?).filter(|&id| id != -1))
}

fn infer_out(infer: &mut Infer<'_>, outer: &[i64]) -> Result<()> {
    infer.check_dtype("Ids", &[DType::I64, DType::I32], "int64 or int32")?;
    let (w, ids) = (infer.input("W")?, infer.input("Ids")?);
    let [_, width] = *w.dims else { return Err(infer.shape(TABLE_RULE, "W")) };
    let dims = [outer, &[width]].concat();
    let meta = Meta { kind: VarKind::LodTensor, dtype: w.dtype, dims, lod_level: ids.lod_level };
    infer.set_output("Out", meta)
}

fn look_up(run: &mut Run<'_>, outer: Shape) -> Result<()> {
    let padding = padding(run.attrs())?;
    let mut out = run.take("Out");
    match run.value("W")? {
        Value::Rows(rows) => look_up_keys(run, rows, outer, padding, &mut out)?,
        Value::Keyed(table) => look_up_kept(run, table, outer, padding, &mut out)?,
        _ => look_up_rows(run, outer, padding, &mut out)?,
    }
    out.set_lod(run.input("Ids")?.lod().clone());
    run.put("Out", out);
    Ok(())
}

/// Rows of a dense table.
fn look_up_rows(run: &Run<'_>, outer: Shape, padding: Option<i64>, out: &mut Tensor) -> Result<()> {
    let (w, ids) = (run.input("W")?, run.input("Ids")?);
    let &[_, width] = w.dims() else { return Err(run.shape(TABLE_RULE, "W")) };
    let shape = with_width(outer, width)?;
    if !w.dtype().is_float() {
        // A table of bytes, say: rows are copied, whatever is in them.
        out.try_resize_as(w.dtype(), shape)?;
        let row_bytes = width * w.dtype().size();
        let ids = sizes::integers(ids, run.input_name("Ids"))?;
        return gather_rows(w.bytes(), row_bytes, &ids, padding, out.bytes_mut())
            .map_err(|bad| out_of_range(run, bad));
    }
    for_float!(w.dtype(), run.input_name("W"), T => {
        let (table, out) = (w.data::<T>()?, out.try_resize::<T>(shape)?);
        for_int!(ids.dtype(), run.input_name("Ids"), I => {
            gather_rows(table, width, ids.data::<I>()?, padding, out)
                .map_err(|bad| out_of_range(run, bad))
        })
    })
}

/// Rows of a table that is keyed rows: each id must be one of its keys.
fn look_up_keys(
    run: &Run<'_>,
    rows: &Rows,
    outer: Shape,
    padding: Option<i64>,
    out: &mut Tensor,
) -> Result<()> {
    /// Stands for the padding id, which reads as zeros.
    const PADDING: i64 = -1;
    let &[n_rows, width] = rows.value.dims() else { return Err(run.shape(TABLE_RULE, "W")) };
    let keys = rows.ids.iter().take(n_rows).zip(0i64..);
    let index: HashMap<i64, i64> = keys.map(|(&key, row)| (key, row)).collect();
    let ids = sizes::integers(run.input("Ids")?, run.input_name("Ids"))?;
    let place = |(position, id): (usize, &i64)| match index.get(id) {
        _ if Some(*id) == padding => Ok(PADDING),
        Some(&row) => Ok(row),
        None => {
            let (rule, var) = ("an id must be a key of the table", run.input_name("Ids"));
            Err(Error::BadValue { rule, var: var.to_string(), position, value: *id as f64 })
        }
    };
    let mut places = Vec::new();
    room_or_give_up(&mut places, ids.len());
    for id in ids.iter().enumerate() {
        places.push(place(id)?);
    }
    out.try_resize_as(rows.value.dtype(), with_width(outer, width)?)?;
    let row_bytes = width * rows.value.dtype().size();
    gather_rows(rows.value.bytes(), row_bytes, &places, Some(PADDING), out.bytes_mut())
        .map_err(|bad| out_of_range(run, bad))
}

/// Rows of a table that is kept by rows.
fn look_up_kept(
    run: &Run<'_>,
    table: &KeyedTable,
    outer: Shape,
    padding: Option<i64>,
    out: &mut Tensor,
) -> Result<()> {
    let is_test = run.attrs().bool("is_test", false)?;
    let read = ReadRows { padding, is_test, stride: table.width(), offset: 0 };
    let out = out.try_resize::<f32>(with_width(outer, table.width())?)?;
    let ids = run.input("Ids")?;
    for_int!(ids.dtype(), run.input_name("Ids"), I => {
        let ids = ids.data::<I>()?;
        table.gather(ids, read, out).map_err(|position| Error::IdOutOfRange {
            var: run.input_name("Ids").to_string(),
            position,
            id: i64::from(ids[position]),
            height: table.height(),
        })
    })
}

/// A shape with one more dimension at the end.
fn with_width(outer: Shape, width: usize) -> Result<Shape> {
    let mut dims = [0; tensor::RANK_MAX + 1];
    dims[..outer.rank()].copy_from_slice(outer.dims());
    dims[outer.rank()] = width;
    match &dims[..=outer.rank()] {
        dims if dims.len() > tensor::RANK_MAX => {
            Err(tensor::Error::RankTooHigh { rank: dims.len() }.into())
        }
        dims => Ok(Shape::new(dims)),
    }
}

fn out_of_range(run: &Run<'_>, bad: BadId) -> Error {
    beyond(run, bad, run.opt_input("W").map_or(0, |w| w.shape().dim(0)))
}

fn beyond(run: &Run<'_>, bad: BadId, height: usize) -> Error {
    let height = height as i64;
    let var = run.input_name("Ids").to_string();
    Error::IdOutOfRange { var, position: bad.position, id: bad.id, height }
}

impl Kernel for LookupTableGrad {
    fn traits(&self, _attrs: &Attrs) -> Traits {
        Traits { is_lookup_grad: true, ..Traits::of_kernel() }
    }

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let w = infer.input("W")?;
        let sparse = infer.attrs().bool("is_sparse", false)?;
        let kind = if sparse { VarKind::SelectedRows } else { VarKind::LodTensor };
        infer.set_output("W@GRAD", Meta { kind, ..w })
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (ids, d_out) = (run.input("Ids")?, run.input("Out@GRAD")?);
        let (_, width) = table_size(run)?;
        if d_out.len() != ids.len() * width {
            return Err(run.shapes("the gradient must have a row for each id", "Out@GRAD", "Ids"));
        }
        if run.attrs().bool("is_sparse", false)? {
            sparse_grad(run, width)
        } else {
            dense_grad(run, width)
        }
    }
}

/// Rows and columns of the table. One that lives on servers has no memory here: its height is in
/// `height_sections`, and its width is that of the gradient.
fn table_size(run: &Run<'_>) -> Result<(usize, usize)> {
    if let Ok(Value::Keyed(table)) = run.value("W") {
        return Ok((table.height().max(0) as usize, table.width()));
    }
    let sections = run.attrs().ints("height_sections")?;
    if run.opt_input("W").is_some() || sections.is_empty() {
        let &[height, width] = run.input("W")?.dims() else {
            return Err(run.shape(TABLE_RULE, "W"));
        };
        return Ok((height, width));
    }
    let height = usize::try_from(sections.iter().sum::<i64>()).unwrap_or(0);
    let width = run.input("Out@GRAD")?.dims().last().copied();
    Ok((height, width.unwrap_or(0)))
}

fn dense_grad(run: &mut Run<'_>, width: usize) -> Result<()> {
    let padding = padding(run.attrs())?;
    let mut d_w = run.take("W@GRAD");
    let (w, ids) = (run.input("W")?, run.input("Ids")?);
    for_float!(w.dtype(), run.input_name("W"), T => {
        let (table, d_out) = (d_w.resize_zeroed::<T>(w.shape()), run.data::<T>("Out@GRAD")?);
        for_int!(ids.dtype(), run.input_name("Ids"), I => {
            scatter_add_rows(table, width, ids.data::<I>()?, padding, d_out)
                .map_err(|bad| out_of_range(run, bad))
        })
    })?;
    run.put("W@GRAD", d_w);
    Ok(())
}

fn sparse_grad(run: &mut Run<'_>, width: usize) -> Result<()> {
    let padding = padding(run.attrs())?;
    let mut rows = run.take_rows("W@GRAD");
    let (height, _) = table_size(run)?;
    let (ids, d_out) = (run.input("Ids")?, run.input("Out@GRAD")?);
    rows.ids.clear();
    for_int!(ids.dtype(), run.input_name("Ids"), I => {
        let ids = ids.data::<I>()?;
        check_ids(ids, height, padding).map_err(|bad| beyond(run, bad, height))?;
        room_or_give_up(&mut rows.ids, ids.len());
        rows.ids.extend(ids.iter().map(|&id| i64::from(id)));
        Ok(())
    })?;
    rows.height = height as i64;
    copy_rows(d_out, width, &mut rows.value);
    run.put_rows("W@GRAD", rows);
    Ok(())
}

/// Copies a tensor as a matrix of `width` columns.
fn copy_rows(from: &Tensor, width: usize, to: &mut Tensor) {
    let n = from.len().checked_div(width).unwrap_or(0);
    to.resize_as(from.dtype(), Shape::from([n, width]));
    to.bytes_mut().copy_from_slice(from.bytes());
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, ids, seq, t};
    use std::sync::Arc;
    use tensor::{
        Dealt, KeyedTable, OtherRow, OtherRows, RowInit, RowStart, Rows, TakenIn, Tensor, Value,
    };

    fn table() -> Tensor {
        t(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    }

    fn lookup(picked: &[i64]) -> Check {
        check("lookup_table").input("W", table()).input("Ids", ids(&[picked.len(), 1], picked))
    }

    /// As Fluid 1.8.5 looks up: by key, and in tables of any type.
    #[test]
    fn tables_may_be_keyed_rows_or_bytes() {
        let value = Tensor::new([2, 2], &[1.0f32, 2.0, 3.0, 4.0]).unwrap();
        let keyed = |asked: &[i64]| {
            let rows = Rows { ids: vec![7, 5], height: 10, value: value.clone() };
            let table = check("lookup_table").input("W", Value::Rows(rows));
            table.input("Ids", ids(&[asked.len(), 1], asked)).attr("padding_idx", 9i64)
        };
        let out = keyed(&[5, 9, 7]).output("Out").run("Out");
        let expected = Tensor::new([3, 2], &[3.0f32, 4.0, 0.0, 0.0, 1.0, 2.0]).unwrap();
        assert_eq!(out.tensor(), Some(&expected));
        let error = keyed(&[6]).output("Out").fails();
        assert!(matches!(error.root(), Error::BadValue { position: 0, .. }), "{error}");
        let rows = Rows { ids: vec![7, 5], height: 10, value: value.clone() };
        let half = OtherRow {
            start: RowStart::Init(RowInit::Constant(0.5)),
            first: 0,
            taken_in: TakenIn::All,
        };
        let others = OtherRows { parts: vec![half], dealt: Dealt::Hash };
        let kept = Arc::new(KeyedTable::new(rows, others).unwrap());
        let kept = |asked: &[i64]| {
            let table = check("lookup_table").input("W", Value::Keyed(kept.clone()));
            table.input("Ids", ids(&[asked.len(), 1], asked)).attr("padding_idx", 9i64)
        };
        let out = kept(&[5, 9, 6]).output("Out").run("Out");
        let expected = Tensor::new([3, 2], &[3.0f32, 4.0, 0.0, 0.0, 0.5, 0.5]).unwrap();
        assert_eq!(out.tensor(), Some(&expected));
        let out = kept(&[6, 7]).attr("is_test", true).output("Out").run("Out");
        let expected = Tensor::new([2, 2], &[0.0f32, 0.0, 1.0, 2.0]).unwrap();
        assert_eq!(out.tensor(), Some(&expected));
        let error = kept(&[6, 10]).output("Out").fails();
        assert!(matches!(error.root(), Error::IdOutOfRange { position: 1, .. }), "{error}");
        let bytes = Tensor::new([2, 2], &[1i8, 2, 3, 4]).unwrap();
        let out = check("lookup_table").input("W", bytes).input("Ids", ids(&[1, 1], &[1]));
        let out = out.output("Out").run("Out");
        assert_eq!(out.tensor(), Some(&Tensor::new([1, 2], &[3i8, 4]).unwrap()));
    }

    #[test]
    fn copies_rows_and_keeps_the_ids_sequences() {
        check("lookup_table")
            .input("W", table())
            .input("Ids", seq(ids(&[3, 1], &[2, 0, 2]), &[1, 2]))
            .gives("Out", seq(t(&[3, 2], &[5.0, 6.0, 1.0, 2.0, 5.0, 6.0]), &[1, 2]));
        check("lookup_table_v2")
            .input("W", table())
            .input("Ids", ids(&[1, 2], &[1, 0]))
            .gives("Out", t(&[1, 2, 2], &[3.0, 4.0, 1.0, 2.0]));
        lookup(&[]).gives("Out", t(&[0, 2], &[]));
    }

    #[test]
    fn the_padding_id_reads_as_zeros() {
        lookup(&[1, 2]).attr("padding_idx", 1i64).gives("Out", t(&[2, 2], &[0.0, 0.0, 5.0, 6.0]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        for sparse in [false, true] {
            lookup(&[2, 0, 2]).attr("is_sparse", sparse).output("Out").grad(&["W"]);
        }
        lookup(&[2, 1, 2]).attr("padding_idx", 1i64).output("Out").grad(&["W"]);
        let v2 = check("lookup_table_v2").input("W", table()).input("Ids", ids(&[3], &[2, 0, 2]));
        v2.attr("is_sparse", true).output("Out").grad(&["W"]);
    }

    #[test]
    fn the_sparse_gradient_lists_ids_as_they_stand() {
        let d_out = t(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let grad = check("lookup_table_grad")
            .input("W", table())
            .input("Ids", ids(&[3, 1], &[2, 1, 2]))
            .input("Out@GRAD", d_out.clone())
            .attr("is_sparse", true)
            .attr("padding_idx", 1i64)
            .output("W@GRAD");
        let value = grad.run("W@GRAD");
        let rows = value.rows().expect("keyed rows");
        assert_eq!((&*rows.ids, rows.height, &rows.value), (&[2, 1, 2][..], 3, &d_out));
        assert_eq!(grad.inferred("W@GRAD").kind, crate::VarKind::SelectedRows);
    }

    #[test]
    fn refuses_ids_outside_of_the_table() {
        for bad in [3, -1, i64::MIN] {
            let error = lookup(&[0, bad]).output("Out").fails();
            let known = matches!(error.root(), Error::IdOutOfRange { position: 1, height: 3, id, .. } if *id == bad);
            assert!(known, "{error}");
        }
    }

    #[test]
    fn refuses_shapes_and_types_that_are_no_ids_or_table() {
        let error = check("lookup_table")
            .input("W", table())
            .input("Ids", ids(&[2], &[0, 1]))
            .output("Out")
            .fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
        let error = check("lookup_table_v2")
            .input("W", t(&[2], &[0.0, 1.0]))
            .input("Ids", ids(&[2], &[0, 1]))
            .output("Out")
            .fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
        let error = check("lookup_table_v2")
            .input("W", table())
            .input("Ids", t(&[2], &[0.0, 1.0]))
            .output("Out")
            .fails();
        assert!(matches!(error.root(), Error::DType { .. }), "{error}");
    }
}
