//! All look-ups that read one table become one gather; a `concat` of nothing but them and dense
//! columns is written directly.

use program::distributed::route::is_remote_look_up;
use program::op::{Kernel, Run, for_float};
use program::{Error, OpDesc, Program, Result};
use tensor::{Element, KeyedTable, ReadRows, Shape, Tensor, Value, prefetch_row};

use super::only;
use crate::executor::plan::{BlockPlan, Planned, Replacement, Uses};

/// Out[k] = rows of W at Ids[k].
struct Gather;

/// Out = the columns of all of Parts side by side. A part is a look-up in W, or a dense tensor.
struct GatherConcat;

/// Rows ahead of the one being copied that are asked for.
const PREFETCH_ROWS: usize = 12;

impl Kernel for Gather {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let v2 = run.attrs().bool("v2", false)?;
        let padding = run.attrs().int("padding_idx", -1)?;
        for k in 0..run.n_inputs("Ids") {
            let mut out = run.take_at("Out", k);
            if let Value::Keyed(table) = run.value("W")? {
                let ids = run.input_at("Ids", k)?;
                let n_row_dims = if v2 { ids.shape().rank() } else { ids.shape().rank() - 1 };
                let shape = ids.shape().flattened_to(n_row_dims, table.width());
                let to = Columns { stride: table.width(), offset: 0 };
                gather_kept(run, table, k, out.resize::<f32>(shape), to)?;
                out.set_lod(ids.lod().clone());
                run.put_at("Out", k, out);
                continue;
            }
            let (w, ids) = (run.input("W")?, run.input_at("Ids", k)?);
            let table =
                GatherTable { height: w.dims()[0], width: w.shape().flatten_2d(1).1, padding };
            let n_row_dims = if v2 { ids.shape().rank() } else { ids.shape().rank() - 1 };
            let shape = ids.shape().flattened_to(n_row_dims, table.width);
            for_float!(w.dtype(), run.input_name("W"), T => {
                let ids = checked_ids(run, k, &table)?;
                let to = Columns { stride: table.width, offset: 0 };
                gather(run.data::<T>("W")?, &table, ids, out.resize::<T>(shape), to);
                Ok(())
            })?;
            out.set_lod(ids.lod().clone());
            run.put_at("Out", k, out);
        }
        Ok(())
    }
}

impl Kernel for GatherConcat {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let padding = run.attrs().int("padding_idx", -1)?;
        let n_ids = run.n_inputs("Ids");
        let mut out = run.take("Out");
        if let Value::Keyed(table) = run.value("W")? {
            concat_kept(run, table, &mut out)?;
            set_first_lod(run, &mut out)?;
            run.put("Out", out);
            return Ok(());
        }
        let w = run.input("W")?;
        let table = GatherTable { height: w.dims()[0], width: w.shape().flatten_2d(1).1, padding };
        let n_rows = run.input_at("Ids", 0)?.len();
        let order = run.attrs().longs("order")?;
        let columns = columns_of_parts(run, order, table.width, n_rows)?;
        for_float!(w.dtype(), run.input_name("W"), T => {
            ask_for_first(run, run.data::<T>("W")?, table.width)?;
            let out = out.resize::<T>(Shape::from([n_rows, columns]));
            let mut to = Columns { stride: columns, offset: 0 };
            for &part in order {
                let part = part as usize;
                if part < n_ids {
                    gather(run.data::<T>("W")?, &table, checked_ids(run, part, &table)?, out, to);
                    to.offset += table.width;
                } else {
                    let dense = run.input_at("Dense", part - n_ids)?;
                    copy_columns(dense.data::<T>()?, dense.shape().flatten_2d(1).1, out, to);
                    to.offset += dense.shape().flatten_2d(1).1;
                }
            }
            Ok(())
        })?;
        set_first_lod(run, &mut out)?;
        run.put("Out", out);
        Ok(())
    }
}

/// The result has the sequences of the first part.
fn set_first_lod(run: &Run<'_>, out: &mut Tensor) -> Result<()> {
    let n_ids = run.n_inputs("Ids");
    let first = run.attrs().longs("order")?.first().map_or(0, |&part| part as usize);
    let first: &Tensor = if first < n_ids {
        run.input_at("Ids", first)?
    } else {
        run.input_at("Dense", first - n_ids)?
    };
    out.set_lod(first.lod().clone());
    Ok(())
}

/// Columns of a table that is kept by rows, and dense ones.
fn concat_kept(run: &Run<'_>, table: &KeyedTable, out: &mut Tensor) -> Result<()> {
    let (n_ids, order) = (run.n_inputs("Ids"), run.attrs().longs("order")?);
    let n_rows = run.input_at("Ids", 0)?.len();
    let columns = columns_of_parts(run, order, table.width(), n_rows)?;
    let out = out.resize::<f32>(Shape::from([n_rows, columns]));
    let mut to = Columns { stride: columns, offset: 0 };
    for &part in order {
        let part = part as usize;
        if part < n_ids {
            gather_kept(run, table, part, out, to)?;
            to.offset += table.width();
        } else {
            let dense = run.input_at("Dense", part - n_ids)?;
            copy_columns(dense.data::<f32>()?, dense.shape().flatten_2d(1).1, out, to);
            to.offset += dense.shape().flatten_2d(1).1;
        }
    }
    Ok(())
}

/// Rows of a table that is kept by rows.
fn gather_kept(
    run: &Run<'_>,
    table: &KeyedTable,
    k: usize,
    out: &mut [f32],
    to: Columns,
) -> Result<()> {
    let padding = Some(run.attrs().int("padding_idx", -1)?).filter(|&id| id != -1);
    let is_test = run.attrs().bool("is_test", false)?;
    let read = ReadRows { padding, is_test, stride: to.stride, offset: to.offset };
    let ids = run.input_at("Ids", k)?.data::<i64>()?;
    table.gather(ids, read, out).map_err(|position| Error::IdOutOfRange {
        var: run.input_name_at("Ids", k).to_string(),
        position,
        id: ids[position],
        height: table.height(),
    })
}

/// How wide the result is; fails if a part is not as long as the others.
fn columns_of_parts(run: &Run<'_>, order: &[i64], width: usize, n_rows: usize) -> Result<usize> {
    let n_ids = run.n_inputs("Ids");
    let mut columns = 0;
    for &part in order {
        let part = part as usize;
        let rule = "all parts of a concat must have the same number of rows";
        let (tensor, port, at) = if part < n_ids {
            (run.input_at("Ids", part)?, "Ids", part)
        } else {
            (run.input_at("Dense", part - n_ids)?, "Dense", part - n_ids)
        };
        let rows = if part < n_ids { tensor.len() } else { tensor.dims()[0] };
        if rows != n_rows {
            let var = run.input_name_at(port, at).to_string();
            return Err(Error::Shape { rule, var, dims: tensor.shape().to_i64() });
        }
        columns += if part < n_ids { width } else { tensor.shape().flatten_2d(1).1 };
    }
    Ok(columns)
}

/// The facts that a gather needs of its table.
struct GatherTable {
    height: usize,
    width: usize,
    /// Rows of this id read as zeros; -1 for none.
    padding: i64,
}

/// Where rows go in the result.
#[derive(Clone, Copy)]
struct Columns {
    stride: usize,
    offset: usize,
}

fn checked_ids<'r>(run: &'r Run<'_>, k: usize, table: &GatherTable) -> Result<&'r [i64]> {
    let ids = run.input_at("Ids", k)?.data::<i64>()?;
    let outside = |&id: &i64| id < 0 || id as usize >= table.height;
    match ids.iter().position(outside) {
        None => Ok(ids),
        Some(position) => Err(Error::IdOutOfRange {
            var: run.input_name_at("Ids", k).to_string(),
            position,
            id: ids[position],
            height: table.height as i64,
        }),
    }
}

fn gather<T: Element>(data: &[T], table: &GatherTable, ids: &[i64], out: &mut [T], to: Columns) {
    let width = table.width;
    for (row, &id) in ids.iter().enumerate() {
        if let Some(&soon) = ids.get(row + PREFETCH_ROWS) {
            prefetch_row(data, soon as usize, width);
        }
        let at = to.offset + row * to.stride;
        let out = &mut out[at..at + width];
        if id == table.padding {
            out.fill(T::zeroed());
        } else {
            let from = id as usize * width;
            out.copy_from_slice(&data[from..from + width]);
        }
    }
}

/// Asks for the first rows of every part. With few rows in each, the copying would wait for one part
/// after the other.
fn ask_for_first<T: Element>(run: &Run<'_>, data: &[T], width: usize) -> Result<()> {
    for k in 0..run.n_inputs("Ids") {
        let ids = run.input_at("Ids", k)?.data::<i64>()?;
        ids.iter().take(2).for_each(|&id| prefetch_row(data, id as usize, width));
    }
    Ok(())
}

fn copy_columns<T: Element>(from: &[T], width: usize, out: &mut [T], to: Columns) {
    for (row, values) in from.chunks_exact(width.max(1)).enumerate() {
        let at = to.offset + row * to.stride;
        out[at..at + width].copy_from_slice(values);
    }
}

/// The look-ups that may run together with the one at `at`.
pub(super) fn find(plan: &BlockPlan, _: &Program, uses: &Uses, at: usize) -> Option<Replacement> {
    if !is_lookup(&plan.ops[at].desc) {
        return None;
    }
    let gone = group(plan, uses, at);
    (gone.len() > 1).then(|| Replacement { at, by: gathered(plan, &gone), gone })
}

fn is_lookup(op: &OpDesc) -> bool {
    let remote = op.attrs.bool("is_distributed", false).unwrap_or(true)
        || is_remote_look_up(op).unwrap_or(true);
    op.traits().looks_up && !remote
}

/// Whether rows that do not exist read as zeros.
fn is_test(op: &OpDesc) -> bool {
    op.attrs.bool("is_test", false).unwrap_or(false)
}

/// Look-ups like the one at `first` that may run in its place.
fn group(plan: &BlockPlan, uses: &Uses, first: usize) -> Vec<usize> {
    let like = &plan.ops[first].desc;
    let same = |op: &OpDesc| {
        op.kind == like.kind
            && op.input_names("W") == like.input_names("W")
            && op.attrs.int("padding_idx", -1).ok() == like.attrs.int("padding_idx", -1).ok()
            && is_test(op) == is_test(like)
    };
    let movable = |at: usize| {
        let op = &plan.ops[at].desc;
        // Its ids are there already, the table does not change before it, its result is new.
        op.reads().all(|var| uses.unwritten(var, first, at))
            && op.writes().all(|var| uses.writers(var) == [at])
    };
    let ops = plan.ops.iter().enumerate().skip(first);
    let group =
        ops.filter(|(at, planned)| is_lookup(&planned.desc) && same(&planned.desc) && movable(*at));
    group.map(|(at, _)| at).collect()
}

fn gathered(plan: &BlockPlan, group: &[usize]) -> Planned {
    let first = &plan.ops[group[0]];
    let names = |port: &dyn Fn(&OpDesc) -> Vec<String>| {
        group.iter().flat_map(|&at| port(&plan.ops[at].desc)).collect::<Vec<_>>()
    };
    let desc = OpDesc::new("fused gather")
        .input("W", first.desc.input_names("W"))
        .input("Ids", names(&|op| op.input_names("Ids").to_vec()))
        .output("Out", names(&|op| op.output_names("Out").to_vec()))
        .attr("padding_idx", first.desc.attrs.int("padding_idx", -1).unwrap_or(-1))
        .attr("is_test", is_test(&first.desc))
        .attr("v2", first.desc.kind == "lookup_table_v2");
    Planned { desc, op: &Gather, index: first.index, route: None }
}

/// If one `concat` along the columns is all that reads the gather at `at`: writes its result.
pub(super) fn find_concat(
    plan: &BlockPlan,
    program: &Program,
    uses: &Uses,
    at: usize,
) -> Option<Replacement> {
    let gather = &plan.ops[at].desc;
    if gather.kind != "fused gather" {
        return None;
    }
    let outs = gather.output_names("Out");
    let concat_at = *uses.readers(outs.first()?).first()?;
    let concat = &plan.ops[concat_at].desc;
    let private = |var: &String| {
        !plan.pinned.contains(var) && uses.readers(var) == [concat_at] && uses.writers(var) == [at]
    };
    let is_matrix =
        |var: &String| program.find_var(0, var).is_some_and(|desc| desc.meta.dims.len() == 2);
    let fits = concat.kind == "concat"
        && concat.attrs.int("axis", 0).ok()? == 1
        && concat.input_names("AxisTensor").is_empty()
        && !gather.attrs.bool("v2", false).ok()?
        && concat.input_names("X").iter().all(is_matrix)
        && outs.iter().all(private);
    // The gather moves down to the concat: what it reads must not change on the way.
    let steady = gather.reads().all(|var| uses.unwritten(var, at, concat_at));
    if !fits || !steady {
        return None;
    }
    let (mut dense, mut order): (Vec<String>, Vec<i64>) = (Vec::new(), Vec::new());
    for var in concat.input_names("X") {
        match outs.iter().position(|out| out == var) {
            Some(part) => order.push(part as i64),
            None => {
                order.push((outs.len() + dense.len()) as i64);
                dense.push(var.clone());
            }
        }
    }
    let desc = OpDesc::new("fused gather concat")
        .input("W", gather.input_names("W"))
        .input("Ids", gather.input_names("Ids"))
        .input("Dense", dense)
        .output("Out", only(concat.output_names("Out"))?)
        .attr("order", order)
        .attr("is_test", is_test(gather))
        .attr("padding_idx", gather.attrs.int("padding_idx", -1).ok()?);
    let by = Planned { desc, op: &GatherConcat, index: plan.ops[at].index, route: None };
    Some(Replacement { gone: vec![at, concat_at], at: concat_at, by })
}
