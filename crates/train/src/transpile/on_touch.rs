//! Tables on servers whose rows start when they are first asked for.
//!
//! A server's startup program does not fill them: their init ops are marked, and the main program
//! says how a row starts. Only tables for which nobody can tell the difference: a step without a
//! gradient must leave a fresh row, and its fresh state, as they are.

use std::collections::BTreeMap;

use program::distributed::PlacedKind;
use program::{Block, OpDesc, Program, VarKind};
use ps::table::RowInit;
use tensor::DType;

use crate::error::Result;

/// Marks an init op whose variable is made row by row.
pub(crate) const ON_TOUCH: &str = "on_touch";
/// Attribute of `listen_and_serv`: how rows start, `name=words`.
pub(crate) const ROW_INIT: &str = "row_init";

/// Updates of rows that are listed and of no others.
const LISTED_ONLY: [&str; 2] = ["sgd", "adagrad"];
/// Updates that leave weights alone where gradient and state are zero, and the state zero.
const ZERO_STAYS: [&str; 5] = ["adam", "momentum", "adamax", "decayed_adagrad", "rmsprop"];
/// What may stand beside the update: it does not look at the table.
const BESIDE: [&str; 2] = ["sum", "scale"];

/// How the rows of each variable start, for all tables of a server that can be kept this way.
pub(super) fn inits(main: &Program, startup: &Program) -> Result<BTreeMap<String, RowInit>> {
    let mut all = BTreeMap::new();
    let Some(job) = &main.distributed else { return Ok(all) };
    let is_table = |param: &str| {
        let mut placed = job.placement.iter();
        placed.any(|p| p.slice == param && p.kind == PlacedKind::RemotePrefetch)
    };
    for block in main.blocks().iter().skip(1) {
        let Some(update) = block.ops.iter().find(|op| !op.input_names("Param").is_empty()) else {
            continue;
        };
        let Some(param) = update.input_names("Param").first() else { continue };
        if is_table(param) && is_sparse(main, update) {
            all.extend(of_table(main, startup, block, update)?.unwrap_or_default());
        }
    }
    Ok(all)
}

fn is_sparse(main: &Program, update: &OpDesc) -> bool {
    let grad = update.input_names("Grad").first().and_then(|grad| main.find_var(0, grad));
    grad.is_some_and(|var| var.meta.kind == VarKind::SelectedRows)
}

/// The table and the state of its optimizer; nothing if they must be whole.
fn of_table(
    main: &Program,
    startup: &Program,
    block: &Block,
    update: &OpDesc,
) -> Result<Option<Vec<(String, RowInit)>>> {
    let Some(param) = update.input_names("Param").first() else { return Ok(None) };
    let Some(dims) = main.find_var(0, param).map(|var| var.meta.dims.clone()) else {
        return Ok(None);
    };
    let like_param = |name: &&str| main.find_var(0, name).is_some_and(|v| v.meta.dims == dims);
    let state: Vec<&str> = update
        .reads()
        .filter(|name| name != param && !update.input_names("Grad").iter().any(|g| g == name))
        .filter(like_param)
        .collect();
    let listed_only = LISTED_ONLY.contains(&update.kind.as_str())
        || update.kind == "adam" && update.attrs.bool("lazy_mode", false)?;
    if !listed_only && !ZERO_STAYS.contains(&update.kind.as_str()) {
        return Ok(None);
    }
    let mut others = block.ops.iter().filter(|op| *op != update);
    let looks = |op: &OpDesc| op.reads().any(|var| var == param || state.contains(&var));
    if others.any(|op| !BESIDE.contains(&op.kind.as_str()) || looks(op)) {
        return Ok(None);
    }
    let mut inits = Vec::new();
    for name in std::iter::once(param.as_str()).chain(state) {
        let Some(init) = init_of(startup, name)? else { return Ok(None) };
        if name != param && !listed_only && init != RowInit::Constant(0.0) {
            return Ok(None);
        }
        inits.push((name.to_string(), init));
    }
    Ok(Some(inits))
}

/// How the rows of a variable start, if one init op says so row by row.
fn init_of(startup: &Program, name: &str) -> Result<Option<RowInit>> {
    let mut writers = startup.block(0).ops.iter().filter(|op| op.writes().any(|var| var == name));
    let (Some(op), None) = (writers.next(), writers.next()) else { return Ok(None) };
    let attrs = &op.attrs;
    if attrs.int("dtype", 0)? != i64::from(DType::F32.code()) || attrs.int("diag_num", 0)? > 0 {
        return Ok(None);
    }
    Ok(match op.kind.as_str() {
        "fill_constant" if attrs.str("str_value", "")?.is_empty() => {
            Some(RowInit::Constant(attrs.float("value", 0.0)?))
        }
        "uniform_random" => Some(RowInit::Uniform {
            low: attrs.float("min", -1.0)?,
            high: attrs.float("max", 1.0)?,
            seed: attrs.int("seed", 0)? as u32,
            offset: attrs.int("stream_offset", 0)?.max(0) as u64,
        }),
        _ => None,
    })
}

/// Marks the init ops of a server's startup program.
pub(super) fn mark(startup: &mut Program, inits: &BTreeMap<String, RowInit>) {
    for op in &mut startup.block_mut(0).ops {
        if op.writes().any(|var| inits.contains_key(var)) {
            op.attrs.set(ON_TOUCH, true);
        }
    }
}

/// Says in a server's main program how rows start.
pub(super) fn tell(main: &mut Program, inits: &BTreeMap<String, RowInit>) {
    let words: Vec<String> =
        inits.iter().map(|(name, init)| format!("{name}={}", init.to_text())).collect();
    let ops = &mut main.block_mut(0).ops;
    if let Some(op) = ops.iter_mut().find(|op| op.kind == "listen_and_serv") {
        op.attrs.set(ROW_INIT, words);
    }
}
