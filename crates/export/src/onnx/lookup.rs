//! Look-ups: a Gather of the table, or an input of the graph for what the look-up would find.

use tensor::DType;

use super::convert::{CUT, Convert, int};
use crate::contents::HeldForm;
use crate::error::Result;

/// A look-up of one slot.
struct SlotLookUp {
    table: String,
    ids: String,
    out: String,
    /// Whether the last dimension of the ids is 1 and is dropped.
    drops_last: bool,
}

pub(super) fn lookup_table(c: &mut Convert<'_>) -> Result<()> {
    one(c, true)
}

pub(super) fn lookup_table_v2(c: &mut Convert<'_>) -> Result<()> {
    one(c, false)
}

fn one(c: &mut Convert<'_>, drops_last: bool) -> Result<()> {
    let var = |names: &[String]| names.first().cloned().unwrap_or_default();
    let (table, ids) = (var(c.op.input_names("W")), var(c.op.input_names("Ids")));
    let out = var(c.op.output_names("Out"));
    look_up(c, &SlotLookUp { table, ids, out, drops_last })
}

pub(super) fn distributed_lookup_table(c: &mut Convert<'_>) -> Result<()> {
    let version = c.op.attrs.str("lookup_table_version", "lookup_table")?;
    let drops_last = version != "lookup_table_v2";
    let table = c.op.input_names("W").first().cloned().unwrap_or_default();
    let (ids, outs) = (c.op.input_names("Ids").to_vec(), c.op.output_names("Outputs").to_vec());
    for (ids, out) in ids.into_iter().zip(outs) {
        look_up(c, &SlotLookUp { table: table.clone(), ids, out, drops_last })?;
    }
    Ok(())
}

fn look_up(c: &mut Convert<'_>, look_up: &SlotLookUp) -> Result<()> {
    let SlotLookUp { table, ids, out, drops_last } = look_up;
    let held = c.held(table)?;
    let is_gather = held.form == HeldForm::Dense && held.n_bytes <= c.options.table_bytes_max;
    let padding = c.op.attrs.int("padding_idx", -1)?;
    if !is_gather {
        let zeros = match padding {
            -1 => String::new(),
            id => format!("; zeros for the id {id}"),
        };
        return c.make_input(out, format!("the rows of table {table} for the ids {ids}{zeros}"));
    }
    let dtype = c.meta_of(ids)?.dtype;
    if !matches!(dtype, DType::I32 | DType::I64) {
        return Err(c.refuse(format!("the ids `{ids}` are {}", dtype.name()), CUT));
    }
    let weights = c.input("W")?;
    let rank = c.meta_of(ids)?.dims.len();
    let mut index = c.value_of(ids)?;
    if *drops_last {
        let last = c.graph.ints(&[rank as i64 - 1]);
        index = c.node("Squeeze", &[&index, &last], Vec::new());
    }
    if padding == -1 {
        c.out_var(out, "Gather", &[&weights, &index], int("axis", 0));
        return Ok(());
    }
    // The id of the padding reads as zeros, whatever its row holds.
    let rows = c.node("Gather", &[&weights, &index], int("axis", 0));
    let padding = c.graph.scalar(dtype, padding as f64);
    let is_padding = c.node("Equal", &[&index, &padding], Vec::new());
    let last = c.graph.ints(&[-1]);
    let is_padding = c.node("Unsqueeze", &[&is_padding, &last], Vec::new());
    let table_dtype = c.meta_of(table)?.dtype;
    let zero = c.graph.scalar(table_dtype, 0.0);
    c.out_var(out, "Where", &[&is_padding, &zero, &rows], Vec::new());
    Ok(())
}
