//! Models of distributed jobs: whole variables on disk, pieces of them on servers.
//!
//! What a trainer saves, one machine can load, and any number of servers; and the other way round.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use program::distributed::{PlacedKind, Placement};
use program::{Distributed, Meta, Program, VarDesc, stream};
use ps::message::{Phase, Save};
use tensor::{DType, Rows, Shape, Tensor, Value};

use super::file::{path_of, read_vars, write_atomically};
use super::rows::{Form, Part, WAITING, read_parts};
use super::shards;
use super::vars::{is_persistable, save_vars};
use crate::error::{Error, Result};
use crate::remote::{Cluster, Saving, fetch};
use crate::scope::Scope;

/// Saves what a trainer's program knows, parameters as they are on the servers now. Trainer 0 also
/// saves what only servers hold: optimizer state and tables.
pub fn save_distributed(
    cluster: &Cluster,
    scope: &Scope,
    to: (&Path, Option<&str>),
    program: &Program,
    job: &Distributed,
) -> Result<()> {
    cluster.join(job);
    cluster.settle()?;
    let is_chief = job.is_chief();
    let by_rows = |placed: &Placement| job.by_rows.contains(&placed.origin);
    let wanted =
        |placed: &Placement| (is_chief || placed.kind == PlacedKind::Param) && !by_rows(placed);
    let fetched = fetch(cluster, job, wanted, &mut BTreeMap::new())?;
    let remote: BTreeSet<&str> = job.placement.iter().map(|p| p.origin.as_str()).collect();
    let is_local = |var: &&VarDesc| {
        let is_table = job.lookup_table.as_deref() == Some(var.name.as_str());
        is_persistable(var) && !is_table && !remote.contains(var.name.as_str())
    };
    let local = program.list_vars().filter(is_local);
    let is_filled = |var: &&VarDesc| !scope.read(&var.name, Value::is_empty).unwrap_or(true);
    let local = local.filter(is_filled).cloned().collect();
    let mut parts = Vec::new();
    if is_chief {
        let tables = job.placement.iter().filter(|p| by_rows(p));
        let tables = tables.filter(|p| p.kind == PlacedKind::RemotePrefetch);
        parts.extend(tables.map(|part| (part.endpoint.clone(), part.slice.clone())));
        let spread = job.lookup_table.iter();
        parts.extend(spread.flat_map(|table| on_all_servers(job, table)));
    }
    // What servers write is in its place only when all that can fail has not.
    let saving = Saving::begin(cluster, parts, to.0)?;
    match save_with(scope, to, local, fetched) {
        Ok(()) => saving.finish(),
        Err(error) => {
            saving.give_up();
            Err(error)
        }
    }
}

/// Saves variables of a trainer's program; those that only servers hold are fetched.
pub fn save_vars_of_job(
    cluster: &Cluster,
    scope: &Scope,
    to: (&Path, Option<&str>),
    vars: &[VarDesc],
    job: &Distributed,
) -> Result<()> {
    let is_missing = |name: &str| {
        vars.iter().any(|var| var.name == name) && scope.read(name, Value::is_empty).unwrap_or(true)
    };
    let by_rows = |placed: &Placement| job.by_rows.contains(&placed.origin);
    let mut remote = job.placement.iter().filter(|placed| is_missing(&placed.origin)).peekable();
    let table = job.lookup_table.as_deref().filter(|table| is_missing(table));
    if remote.peek().is_none() && table.is_none() {
        return save_vars(scope, to.0, vars, to.1);
    }
    cluster.join(job);
    cluster.settle()?;
    let wanted = |placed: &Placement| !by_rows(placed) && is_missing(&placed.origin);
    let fetched = fetch(cluster, job, wanted, &mut BTreeMap::new())?;
    let tables = remote.filter(|p| by_rows(p) && p.kind == PlacedKind::RemotePrefetch);
    let mut parts: Vec<(String, String)> =
        tables.map(|part| (part.endpoint.clone(), part.slice.clone())).collect();
    parts.extend(table.into_iter().flat_map(|table| on_all_servers(job, table)));
    let on_servers = |name: &str| {
        table == Some(name) || fetched.contains_key(name) || job.by_rows.iter().any(|t| t == name)
    };
    let local = vars.iter().filter(|var| !on_servers(&var.name)).cloned().collect();
    let saving = Saving::begin(cluster, parts, to.0)?;
    match save_with(scope, to, local, fetched) {
        Ok(()) => saving.finish(),
        Err(error) => {
            saving.give_up();
            Err(error)
        }
    }
}

/// Every server has a part of a table spread by id.
fn on_all_servers(job: &Distributed, table: &str) -> Vec<(String, String)> {
    job.endpoints.iter().map(|endpoint| (endpoint.clone(), table.to_string())).collect()
}

/// Saves variables of a scope together with fetched ones, which hide the scope's.
fn save_with(
    scope: &Scope,
    (dir, filename): (&Path, Option<&str>),
    mut vars: Vec<VarDesc>,
    fetched: BTreeMap<String, Tensor>,
) -> Result<()> {
    let above = scope.new_scope();
    for (name, tensor) in fetched {
        vars.push(VarDesc::new(&name, Meta::default()));
        above.var(&name);
        above.set(&name, tensor);
    }
    let saved = save_vars(&above, dir, &vars, filename);
    scope.drop_kids();
    saved
}

/// Loads a server's pieces from whole variables on disk.
pub fn load_slices(job: &Distributed, scope: &Scope, dir: &Path) -> Result<()> {
    let endpoint = job.ps_endpoint.as_deref().ok_or(Error::NoServerEndpoint)?;
    let (mut loaded, mut by_rows) = (Vec::new(), Vec::new());
    for placed in job.on(endpoint) {
        if job.by_rows.contains(&placed.origin) {
            by_rows.extend(load_rows(job, placed, dir)?);
            continue;
        }
        let path = path_of(dir, &placed.origin)?;
        let bytes = read_vars(&path, false)?;
        let whole = stream::tensor_from_bytes(&bytes);
        let whole = whole.map_err(|source| Error::in_file(&path, source))?;
        loaded.push((placed.slice.as_str(), piece(&whole, placed)?));
    }
    let table = job.lookup_table.as_deref();
    let rows = table.map(|table| load_shard(job, table, dir)).transpose()?;
    for (name, tensor) in loaded {
        scope.set(name, tensor);
    }
    for (name, rows) in by_rows {
        scope.set(&name, Value::Rows(rows));
    }
    if let (Some(table), Some(rows)) = (table, rows) {
        scope.set(table, Value::Rows(rows));
    }
    Ok(())
}

/// The rows of a server's part of a table, and those that an entry rule has not taken in yet. A model
/// that was saved whole is cut as any other variable is, and every row of it exists.
fn load_rows(job: &Distributed, placed: &Placement, dir: &Path) -> Result<Vec<(String, Rows)>> {
    let width = placed.slice_dims.iter().skip(1).product::<i64>().max(1);
    let first = placed.offset / width;
    let range = first..first + placed.slice_dims.first().copied().unwrap_or(0);
    let height = placed.origin_dims.first().copied().unwrap_or(0);
    let n_blocks = job.pieces(&placed.origin).count();
    let part = Part { var: &placed.origin, block: placed.block, n_blocks };
    let form = Form { height, width: width as usize, dtype: DType::F32 };
    let Some(rows) = read_parts(dir, part, form, range.clone())? else {
        let path = path_of(dir, &placed.origin)?;
        let bytes = read_vars(&path, false)?;
        let whole = stream::tensor_from_bytes(&bytes);
        let whole = whole.map_err(|source| Error::in_file(&path, source))?;
        let value = piece(&whole, placed)?;
        let ids = (0..range.end - range.start).collect();
        let height = range.end - range.start;
        return Ok(vec![(placed.slice.clone(), Rows { ids, height, value })]);
    };
    let mut loaded = vec![(placed.slice.clone(), rows)];
    if placed.kind == PlacedKind::RemotePrefetch {
        let name = format!("{}{WAITING}", placed.origin);
        let form = Form { width: 1, dtype: DType::I64, ..form };
        let waiting = read_parts(dir, Part { var: &name, ..part }, form, range)?;
        loaded.extend(waiting.map(|rows| (format!("{}{WAITING}", placed.slice), rows)));
    }
    Ok(loaded)
}

/// The folder of tables spread over servers by id.
pub(super) const TABLES: &str = "__lookup_table__";

/// This server's rows of the table spread by id, however many servers saved it.
fn load_shard(job: &Distributed, table: &str, dir: &Path) -> Result<Rows> {
    let number = job.endpoints.iter().position(|known| job.ps_endpoint.as_ref() == Some(known));
    let number = number.ok_or(Error::NoServerEndpoint)?;
    let n_servers = job.endpoints.len();
    let found = shards::shards_in(dir, table)?;
    let is_whole = !found.is_empty() && found.iter().copied().eq(0..found.len());
    // Where servers have disks of their own, each finds its own file only.
    let usual = if is_whole { found.len() } else { n_servers };
    let n_saved = shards::noted_parts(dir, table)?.unwrap_or(usual);
    if n_saved == n_servers {
        return read_shard(dir, table, number);
    }
    let mut own = Rows::default();
    let (mut bytes, mut form) = (Vec::new(), (DType::F32, Shape::from([0, 0])));
    for saved in 0..n_saved {
        let rows = read_shard(dir, table, saved)?;
        if rows.ids.iter().any(|id| id.rem_euclid(n_saved as i64) != saved as i64) {
            let path = shard_path(dir, table, saved)?;
            let problem = "it was not saved together with the other files of this table";
            return Err(Error::RowsFile { path, problem });
        }
        let row_bytes = (rows.value.bytes().len() / rows.ids.len().max(1)).max(1);
        for (&id, row) in rows.ids.iter().zip(rows.value.bytes().chunks_exact(row_bytes)) {
            if id.rem_euclid(n_servers as i64) == number as i64 {
                own.ids.push(id);
                bytes.extend_from_slice(row);
            }
        }
        own.height = own.height.max(rows.height);
        form = (rows.value.dtype(), rows.value.shape());
    }
    let shape = form.1.with_dim(0, own.ids.len());
    own.value = Tensor::from_bytes(form.0, shape, &bytes)?;
    Ok(own)
}

fn shard_path(dir: &Path, table: &str, number: usize) -> Result<PathBuf> {
    path_of(&dir.join(TABLES), &format!("{table}_{number}"))
}

fn read_shard(dir: &Path, table: &str, number: usize) -> Result<Rows> {
    let path = shard_path(dir, table, number)?;
    let bytes = read_vars(&path, false)?;
    stream::rows_from_bytes(&bytes).map_err(|source| Error::in_file(&path, source))
}

/// The rows of a piece.
fn piece(whole: &Tensor, placed: &Placement) -> Result<Tensor> {
    let found = whole.shape().to_i64();
    if found == placed.slice_dims && placed.offset == 0 {
        return Ok(whole.clone());
    }
    let misfit = || Error::LoadedShape {
        var: placed.origin.clone(),
        expected: placed.origin_dims.clone(),
        found: found.clone(),
    };
    let (n_rows, width) = whole.shape().flatten_2d(1);
    let is_copied = placed.origin_dims == placed.slice_dims;
    // Fluid saves state that is not cut once for each piece: [n] instead of [1].
    let first = match is_copied {
        true => placed.block.min(n_rows.saturating_sub(1)),
        false => placed.offset.max(0) as usize / width.max(1),
    };
    if !is_copied && found != placed.origin_dims {
        return Err(misfit());
    }
    let n = placed.slice_dims.first().copied().unwrap_or(0).max(0) as usize;
    let row_bytes = width * whole.dtype().size();
    let bytes = whole.bytes().get(first * row_bytes..(first + n) * row_bytes).ok_or_else(misfit)?;
    let mut dims = whole.shape();
    dims = if dims.rank() == 0 { Shape::from([n]) } else { dims.with_dim(0, n) };
    Ok(Tensor::from_bytes(whole.dtype(), dims, bytes)?)
}

/// Saves one shard of a table, for servers; `number` is that of the server, and how many there are.
pub(crate) fn save_shard(save: &Save, number: (i64, usize), value: &Value) -> Result<()> {
    let (dir, table, (number, n_servers)) = (Path::new(&save.dir), &save.table, number);
    let path = shard_path(dir, table, number.max(0) as usize)?;
    match save.phase {
        Phase::Write => {
            let bytes = stream::to_bytes(value);
            let bytes = bytes.ok_or_else(|| Error::NotInScope { var: table.clone() })?;
            write_atomically(&shards::beside(&path), &bytes)
        }
        Phase::Place => shards::place(&path),
        Phase::GiveUp => {
            shards::give_up(&path);
            Ok(())
        }
        Phase::Tidy => {
            shards::note_parts(dir, table, n_servers)?;
            let older = shards::shards_in(dir, table)?.into_iter().filter(|&k| k >= n_servers);
            let mut older = older.map(|number| shard_path(dir, table, number));
            older.try_for_each(|path| shards::remove(&path?))
        }
    }
}
