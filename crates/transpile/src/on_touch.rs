//! Tables on servers whose rows start when they are first asked for.
//!
//! A server's startup program does not fill them: their init ops are marked, and the main program
//! says how a row starts. Only tables for which nobody can tell the difference: a step without a
//! gradient must do to every fresh row the same, whatever its weights. (A table of normal numbers is
//! made whole as long as it is small: rows of a larger one start from numbers of their own.)

use std::collections::BTreeMap;

use program::distributed::{
    ENTRY, PlacedKind, Placement, Spread, TableTooLarge, WHOLE_BYTES_MAX, table_bytes,
};
use program::op::{Untouched, row_init};
use program::{OpDesc, Program, VarKind};
use tensor::{DType, Distribution, RowInit};

use super::plan::{JobPlan, Param};
use super::server::Threads;
use crate::error::{Error, Result};

/// Marks an init op whose variable is made row by row.
pub(crate) const ON_TOUCH: &str = "on_touch";
/// Attribute of `listen_and_serv`: how rows start, `name=words`.
pub const ROW_INIT: &str = "row_init";
/// Attribute of `listen_and_serv`: which rows a table takes in, `name=rule`.
pub const ROW_ENTRY: &str = "row_entry";

/// A table of normal numbers up to this size is made whole, as on one machine.
const NORMAL_BYTES_MAX: u64 = 64 << 20;
/// A table whose weights take more is saved by rows. If it must be kept whole, the user is warned.
const LARGE_BYTES: u64 = 1 << 30;

/// How one part of a table is kept.
type RowInits = std::result::Result<Vec<(String, RowInit)>, KeptWhole>;

/// Why a table is kept whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeptWhole(String);

/// How the rows of each variable start, for all tables of a server that can be kept this way.
pub(super) fn inits(main: &Program, startup: &Program) -> Result<BTreeMap<String, RowInit>> {
    let tables = tables(main, startup)?.into_values();
    Ok(tables.filter_map(|kept| kept.ok()).flatten().collect())
}

/// The tables of a server that trainers ask for rows of.
fn tables(main: &Program, startup: &Program) -> Result<BTreeMap<String, RowInits>> {
    let mut all = BTreeMap::new();
    let Some(job) = &main.distributed else { return Ok(all) };
    let table = |param: &str| {
        let mut placed = job.placement.iter();
        placed.find(|p| p.piece.name == param && p.kind == PlacedKind::RemotePrefetch)
    };
    for block in main.blocks().iter().skip(1) {
        let Some(update) = block.ops.iter().find(|op| !op.input_names("Param").is_empty()) else {
            continue;
        };
        let param = update.input_names("Param").first();
        let Some(placed) = param.and_then(|param| table(param)) else { continue };
        let others = block.ops.iter().filter(|op| *op != update).collect();
        let table = TableRequest {
            name: &placed.piece.name,
            dims: &placed.dims(),
            n_bytes: table_bytes(&placed.origin_dims),
            draws_rows: has_entry(main, &placed.piece.name)
                || job.lookup_table.as_ref() == Some(&placed.origin),
        };
        all.insert(placed.piece.name.clone(), kept(main, startup, update, others, table)?);
    }
    Ok(all)
}

/// A table that should be kept by rows.
struct TableRequest<'a> {
    name: &'a str,
    dims: &'a [i64],
    /// The bytes of its weights, on all servers.
    n_bytes: u64,
    /// Its rows are drawn one by one anyway, so they need not equal those of a whole table.
    draws_rows: bool,
}

fn is_sparse(main: &Program, update: &OpDesc) -> bool {
    let grad = update.input_names("Grad").first().and_then(|grad| main.find_var(0, grad));
    grad.is_some_and(|var| var.meta.kind == VarKind::SelectedRows)
}

/// The table and the state of its optimizer, or why they must be whole. `others` are the ops around
/// its update.
fn kept(
    main: &Program,
    startup: &Program,
    update: &OpDesc,
    others: Vec<&OpDesc>,
    table: TableRequest<'_>,
) -> Result<RowInits> {
    if !is_sparse(main, update) {
        return Ok(Err(KeptWhole("its gradient is added up to a dense one".to_string())));
    }
    let (kind, param) = (update.kind.as_str(), table.name);
    let like_param =
        |name: &&str| main.find_var(0, name).is_some_and(|v| v.meta.dims == table.dims);
    let state: Vec<&str> = update
        .reads()
        .filter(|name| *name != param && !update.input_names("Grad").iter().any(|g| g == name))
        .filter(like_param)
        .collect();
    let untouched = update.traits().update.unwrap_or(Untouched::Change);
    let listed_only = untouched == Untouched::Stay;
    if untouched == Untouched::Change {
        return Ok(Err(KeptWhole(format!("`{kind}` changes rows by what is in all of them"))));
    }
    let looks = |op: &OpDesc| op.reads().any(|var| var == param || state.contains(&var));
    let is_in_the_way = |op: &&&OpDesc| !op.traits().keeps_to_gradients || looks(op);
    if let Some(op) = others.iter().find(is_in_the_way) {
        return Ok(Err(KeptWhole(format!("`{}` looks at all of it at every step", op.kind))));
    }
    let mut inits = Vec::new();
    for name in std::iter::once(param).chain(state) {
        let init = match init_of(startup, name)? {
            Ok(init) => init,
            Err(why) => return Ok(Err(why)),
        };
        if name != param && !listed_only && init != RowInit::Constant(0.0) {
            return Ok(Err(KeptWhole(format!(
                "the state `{name}` of `{kind}` does not start as 0"
            ))));
        }
        if is_normal(init) && table.n_bytes <= NORMAL_BYTES_MAX && !table.draws_rows {
            return Ok(Err(KeptWhole("it is small and starts from normal numbers".to_string())));
        }
        inits.push((name.to_string(), init));
    }
    Ok(Ok(inits))
}

fn is_normal(init: RowInit) -> bool {
    matches!(init, RowInit::Drawn { shape: Distribution::Normal(..), .. })
}

/// Whether the numbers of a parameter can be counted. Nobody knows where a row of another one begins: it is
/// spread by hash.
fn is_countable(dims: &[i64]) -> bool {
    let n = dims.iter().try_fold(1i64, |n, &dim| n.checked_mul(dim));
    n.is_some_and(|n| n <= i64::MAX / 8)
}

/// That nobody can hold a table, which must be whole.
fn too_large(param: &Param, why: String) -> Error {
    TableTooLarge { table: param.name.clone(), n_bytes: table_bytes(&param.dims), why }.into()
}

/// How the rows of a variable start, if one init op says so row by row.
fn init_of(startup: &Program, name: &str) -> Result<std::result::Result<RowInit, KeptWhole>> {
    let mut writers = startup.block(0).ops.iter().filter(|op| op.writes().any(|var| var == name));
    let (Some(op), None) = (writers.next(), writers.next()) else {
        return Ok(Err(KeptWhole(format!("not one op alone starts `{name}`"))));
    };
    let attrs = &op.attrs;
    let dtype = attrs.int("dtype", i64::from(DType::F32.code()))?;
    if dtype != i64::from(DType::F32.code()) {
        return Ok(Err(KeptWhole("its numbers are not float32".to_string())));
    }
    Ok(row_init(&op.kind, attrs)?
        .ok_or_else(|| KeptWhole(format!("`{}` does not start `{name}` row by row", op.kind))))
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
    if let Some(op) = listen_op(main) {
        op.attrs.set(ROW_INIT, words);
    }
}

fn listen_op(main: &mut Program) -> Option<&mut OpDesc> {
    main.block_mut(0).ops.iter_mut().find(|op| op.kind == "listen_and_serv")
}

/// Whether a server's program has an entry rule for a table.
fn has_entry(main: &Program, slice: &str) -> bool {
    let listen = main.block(0).ops.iter().find(|op| op.kind == "listen_and_serv");
    let rules = listen.and_then(|op| op.attrs.strs(ROW_ENTRY).ok()).unwrap_or(&[]);
    rules.iter().any(|rule| rule.split_once('=').is_some_and(|(name, _)| name == slice))
}

impl JobPlan {
    /// Which server has which row of a parameter. Tables without a fixed vocabulary (`is_distributed`,
    /// or all of whose look-ups may have an entry rule, or too high to be counted) are spread by hash,
    /// if servers keep them by rows.
    pub(super) fn spread(
        &self,
        main: &Program,
        startup: &Program,
        param: &Param,
    ) -> Result<Spread> {
        let ops = main.blocks().iter().flat_map(|block| &block.ops);
        let mut look_ups = ops
            .filter(|op| op.traits().looks_up && op.input_names("W").first() == Some(&param.name));
        let is_countable = is_countable(&param.dims);
        let is_open = !is_countable
            || param.is_distributed
            || look_ups.all(|op| op.attrs.get(ENTRY).is_some());
        if !param.is_remote && !is_countable {
            return Err(too_large(param, self.why_not_remote()));
        }
        if !param.is_remote || !is_open {
            return Ok(Spread::Range);
        }
        let ops = &main.block(0).ops;
        let others = param.before.iter().chain(&param.after).map(|&at| &ops[at]).collect();
        let table = TableRequest {
            name: &param.name,
            dims: &param.dims,
            n_bytes: table_bytes(&param.dims),
            draws_rows: self.entries.contains_key(&param.name) || param.is_distributed,
        };
        match kept(main, startup, &ops[param.update], others, table)? {
            Ok(_) => Ok(Spread::Hash),
            Err(_) if is_countable => Ok(Spread::Range),
            Err(KeptWhole(why)) => Err(too_large(param, why)),
        }
    }

    /// Why trainers hold a table and do not ask for rows of it.
    fn why_not_remote(&self) -> String {
        let why = if self.is_geo() {
            "trainers of GEO hold it"
        } else {
            "it is not only looked up by sparse embeddings"
        };
        why.to_string()
    }

    /// Says in a server's main program which rows its tables take in.
    pub(super) fn tell_entries(&self, server: &mut Program, endpoint: &str) {
        let here = self.job.on(endpoint).filter(|p| p.kind == PlacedKind::RemotePrefetch);
        let rule = |placed: &Placement| {
            self.entries.get(&placed.origin).map(|rule| format!("{}={rule}", placed.piece.name))
        };
        let rules: Vec<String> = here.filter_map(rule).collect();
        if let Some(op) = listen_op(server).filter(|_| !rules.is_empty()) {
            op.attrs.set(ROW_ENTRY, rules);
        }
    }

    /// Decides which tables are saved as their rows, and speaks up about those that are large and
    /// cannot be kept as rows.
    pub(super) fn keep_rows(&mut self, main: &Program, startup: &Program) -> Result<()> {
        let asks = |param: &Param| {
            let is_ruled = self.entries.contains_key(&param.name);
            is_ruled || table_bytes(&param.dims) > LARGE_BYTES || param.is_distributed
        };
        if !self.params.iter().any(asks) {
            return Ok(());
        }
        let mut kept_by_table: BTreeMap<String, RowInits> = BTreeMap::new();
        for endpoint in &self.job.endpoints {
            let mut server = self.server_main(main, endpoint, Threads::default())?;
            self.tell_entries(&mut server, endpoint);
            let startup = self.server_startup(&server, startup, endpoint)?;
            for (slice, kept) in tables(&server, &startup)? {
                let placed = self.job.on(endpoint).find(|placed| placed.piece.name == slice);
                kept_by_table.extend(placed.map(|placed| (placed.origin.clone(), kept)));
            }
        }
        let (mut by_rows, mut warnings) = (Vec::new(), Vec::new());
        for param in self.params.iter().filter(|param| asks(param)) {
            let why = match kept_by_table.remove(&param.name) {
                Some(Ok(_)) => {
                    by_rows.push(param.name.clone());
                    // Trainers of GEO have the states.
                    let states = super::plan::states(main, param).into_iter();
                    let states = states.filter(|_| !self.is_geo());
                    let like = |var: &String| {
                        main.block(0).var(var).is_some_and(|var| var.meta.dims == param.dims)
                    };
                    by_rows.extend(states.filter(like));
                    continue;
                }
                Some(Err(KeptWhole(why))) => why,
                None => self.why_not_remote(),
            };
            let (table, n_bytes) = (param.name.clone(), table_bytes(&param.dims));
            if self.entries.contains_key(&param.name) {
                return Err(Error::EntryNeedsRows { table, why });
            }
            if n_bytes > WHOLE_BYTES_MAX {
                return Err(too_large(param, why));
            }
            if n_bytes <= LARGE_BYTES {
                continue;
            }
            warnings.push(format!(
                "table `{table}` is kept whole on servers, {} MiB of weights, because {why}",
                n_bytes >> 20
            ));
        }
        self.job.by_rows = by_rows;
        self.warnings.extend(warnings);
        Ok(())
    }
}
