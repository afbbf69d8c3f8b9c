//! The sparse gradients of all look-ups of one table, summed: one merge by row id. A `concat_grad`
//! that only feeds them vanishes too: rows are read where they lie in the wider gradient.

use program::op::{Kernel, Run, for_float};
use program::{Error, OpDesc, Program, Result};
use tensor::Element;
use tensor::rows::{Source, merge_sources};

use super::only;
use crate::executor::plan::{BlockPlan, Planned, Replacement, Uses};

/// W@GRAD = rows of Out@GRAD[k] keyed by Ids[k], equal keys added in the order listed.
struct FusedScatter;

/// Like [`FusedScatter`], with the rows of the k-th look-up starting at column `offsets[k]` of one
/// matrix.
struct ScatterColumns;

impl Kernel for FusedScatter {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        scatter(run, None)
    }
}

impl Kernel for ScatterColumns {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let offsets = run.attrs().longs("offsets")?;
        scatter(run, Some(offsets))
    }
}

fn scatter(run: &mut Run<'_>, offsets: Option<&[i64]>) -> Result<()> {
    let ordered = run.attrs().bool("ordered", true)?;
    let mut out = run.take_rows("W@GRAD");
    let mut scratch = std::mem::take(&mut run.spare().merge);
    let (height, width) = table_size(run)?;
    let dtype = run.input("Out@GRAD")?.dtype();
    let result = for_float!(dtype, run.input_name("W"), T => {
        let n = run.n_inputs("Ids");
        let sources = (0..n).map(|k| source::<T>(run, k, offsets, width));
        for checked in sources.clone() {
            checked?;
        }
        let sources = sources.map_while(Result::ok);
        merge_sources(sources, width, ordered, &mut scratch, &mut out);
        Ok(())
    });
    run.spare().merge = scratch;
    result?;
    out.height = height as i64;
    run.put_rows("W@GRAD", out);
    Ok(())
}

/// Rows and columns of the table, also of one that lives on servers and has no memory here.
fn table_size(run: &Run<'_>) -> Result<(usize, usize)> {
    if let Some(w) = run.opt_input("W") {
        return Ok((w.dims()[0], w.shape().flatten_2d(1).1));
    }
    match run.attrs().longs("table_size")? {
        &[height, width] => Ok((height as usize, width as usize)),
        _ => run.input("W").map(|_| (0, 0)),
    }
}

/// The rows of the `k`-th look-up.
fn source<'r, T: Element>(
    run: &'r Run<'_>,
    k: usize,
    offsets: Option<&[i64]>,
    width: usize,
) -> Result<Source<'r, T>> {
    let ids = run.input_at("Ids", k)?.data::<i64>()?;
    let grad = run.input_at("Out@GRAD", if offsets.is_some() { 0 } else { k })?;
    let stride = if offsets.is_some() { grad.shape().flatten_2d(1).1 } else { width };
    let offset = offsets.map_or(0, |offsets| offsets[k] as usize);
    if grad.len() != ids.len() * stride || offset + width > stride {
        let rule = "the gradient of a look-up must have a row for each id";
        let var = run.input_name_at("Ids", k).to_string();
        return Err(Error::Shape { rule, var, dims: grad.shape().to_i64() });
    }
    Ok(Source { ids, values: grad.data::<T>()?, stride, offset })
}

/// The sparse look-up gradients that the `sum` at `at` adds up, if it adds nothing else.
pub(super) fn find(
    plan: &BlockPlan,
    program: &Program,
    uses: &Uses,
    at: usize,
) -> Option<Replacement> {
    let sum = &plan.ops[at].desc;
    if sum.kind != "sum" {
        return None;
    }
    let mut gone = vec![at];
    let mut ids = Vec::new();
    let mut grads = Vec::new();
    let mut table = None;
    for part in sum.input_names("X") {
        let &[writer] = uses.writers(part) else { return None };
        let op = &plan.ops[writer].desc;
        let w = only(op.input_names("W"))?;
        let sparse = op.traits().is_lookup_grad && op.attrs.bool("is_sparse", false).ok()?;
        let private = !plan.pinned.contains(part) && uses.readers(part) == [at];
        let steady = op.reads().all(|var| uses.unwritten(var, writer, at));
        if !sparse || !private || !steady || *table.get_or_insert(w) != w {
            return None;
        }
        gone.push(writer);
        ids.push(only(op.input_names("Ids"))?.to_string());
        grads.push(only(op.input_names("Out@GRAD"))?.to_string());
    }
    let size = table_dims(program, table?);
    let desc = OpDesc::new("fused scatter")
        .attr("table_size", size)
        .input("W", table?)
        .input("Ids", ids)
        .input("Out@GRAD", grads)
        .output("W@GRAD", only(sum.output_names("Out"))?)
        .attr("ordered", !is_read_by_row(plan, uses, only(sum.output_names("Out"))?));
    let by = Planned { desc, op: &FusedScatter, index: plan.ops[at].index, route: None };
    Some(Replacement { gone, at, by })
}

/// The size of a table as its program declares it; nothing if it is not known.
fn table_dims(program: &Program, table: &str) -> Vec<i64> {
    match program.find_var(0, table).map(|var| var.meta.dims.as_slice()) {
        Some(&[height, width]) if height > 0 && width > 0 => vec![height, width],
        _ => Vec::new(),
    }
}

/// Whether nobody can tell in which order the rows stand: `sgd` takes each by itself.
fn is_read_by_row(plan: &BlockPlan, uses: &Uses, rows: &str) -> bool {
    let by_row = |&reader: &usize| plan.ops[reader].desc.kind == "sgd";
    !plan.pinned.contains(rows) && uses.readers(rows).iter().all(by_row)
}

/// If the rows of the scatter at `at` all come out of one `concat_grad` that nobody else reads:
/// takes its place.
pub(super) fn find_concat_grad(
    plan: &BlockPlan,
    program: &Program,
    uses: &Uses,
    at: usize,
) -> Option<Replacement> {
    let scatter = &plan.ops[at].desc;
    if scatter.kind != "fused scatter" {
        return None;
    }
    let grads = scatter.input_names("Out@GRAD");
    let &[split_at] = uses.writers(grads.first()?) else { return None };
    let split = &plan.ops[split_at].desc;
    if split.kind != "concat_grad" || split.attrs.int("axis", 0).ok()? != 1 {
        return None;
    }
    let private = |var: &str| !plan.pinned.contains(var) && uses.readers(var) == [at];
    let d_out = only(split.input_names("Out@GRAD"))?;
    if !split.writes().all(private) || !uses.unwritten(d_out, split_at, at) {
        return None;
    }
    let columns = split.input_names("X");
    let parts = split.output_names("X@GRAD");
    let offset_of = |grad: &String| parts.iter().position(|part| part == grad);
    let places: Option<Vec<usize>> = grads.iter().map(offset_of).collect();
    let offsets = column_offsets(program, columns)?;
    let offsets: Vec<i64> = places?.into_iter().map(|place| offsets[place]).collect();
    let desc = OpDesc::new("fused scatter columns")
        .input("W", scatter.input_names("W"))
        .input("Ids", scatter.input_names("Ids"))
        .input("Out@GRAD", d_out)
        .output("W@GRAD", scatter.output_names("W@GRAD"))
        .attr("offsets", offsets)
        .attr("table_size", scatter.attrs.longs("table_size").ok()?.to_vec())
        .attr("ordered", scatter.attrs.bool("ordered", true).ok()?);
    let by = Planned { desc, op: &ScatterColumns, index: plan.ops[at].index, route: None };
    Some(Replacement { gone: vec![split_at, at], at, by })
}

/// The column at which each input of a concat begins; only if all widths are known beforehand.
fn column_offsets(program: &Program, columns: &[String]) -> Option<Vec<i64>> {
    let mut next = 0;
    let mut offsets = Vec::with_capacity(columns.len());
    for var in columns {
        offsets.push(next);
        let [_, width] = program.find_var(0, var)?.meta.dims[..] else { return None };
        if width < 0 {
            return None;
        }
        next += width;
    }
    Some(offsets)
}
