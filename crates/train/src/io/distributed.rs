//! Models of distributed jobs: whole variables on disk, pieces of them on servers.
//!
//! What a trainer saves, one machine can load, and any number of servers; and the other way round.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::Path;

use program::distributed::{PlacedKind, Placement};
use program::{Distributed, Meta, Program, VarDesc, stream};
use tensor::{DType, Rows, Shape, Tensor, Value};

use super::file::{path_of, read_vars, write_atomically};
use super::rows::{Form, Part, WAITING, read_parts};
use super::vars::{is_persistable, save_vars};
use crate::error::{Error, Result};
use crate::remote::{Cluster, fetch, save_lookup_table, save_row_tables};
use crate::scope::Scope;

/// Saves what a trainer's program knows, parameters as they are on the servers now. Trainer 0 also
/// saves what only servers hold: optimizer state and tables.
pub fn save_distributed(
    cluster: &Cluster,
    scope: &Scope,
    (dir, filename): (&Path, Option<&str>),
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
    // What was fetched hides what the trainer has, for as long as files are written.
    let above = scope.new_scope();
    let is_local = |var: &&VarDesc| {
        let is_table = job.lookup_table.as_deref() == Some(var.name.as_str());
        is_persistable(var) && !is_table && !remote.contains(var.name.as_str())
    };
    let local = program.list_vars().filter(is_local);
    let is_filled = |var: &&VarDesc| !scope.read(&var.name, Value::is_empty).unwrap_or(true);
    let mut vars: Vec<VarDesc> = local.filter(is_filled).cloned().collect();
    for (name, tensor) in fetched {
        vars.push(VarDesc::new(&name, Meta::default()));
        above.var(&name);
        above.set(&name, tensor);
    }
    let saved = save_vars(&above, dir, &vars, filename);
    scope.drop_kids();
    saved?;
    if is_chief {
        let tables = job.placement.iter().filter(|p| by_rows(p));
        let tables = tables.filter(|p| p.kind == PlacedKind::RemotePrefetch);
        save_row_tables(cluster, tables, dir)?;
    }
    match &job.lookup_table {
        Some(table) if is_chief => save_lookup_table(cluster, job, table, dir),
        _ => Ok(()),
    }
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

/// This server's rows of the table spread by id; a server takes only what such a server wrote.
fn load_shard(job: &Distributed, table: &str, dir: &Path) -> Result<Rows> {
    let number = job.endpoints.iter().position(|known| job.ps_endpoint.as_ref() == Some(known));
    let number = number.ok_or(Error::NoServerEndpoint)?;
    let path = path_of(&dir.join(TABLES), &format!("{table}_{number}"))?;
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

/// Writes one shard of a table, for servers.
pub(crate) fn write_shard(dir: &Path, table: &str, number: i64, value: &Value) -> Result<()> {
    let folder = dir.join(TABLES);
    let bytes =
        stream::to_bytes(value).ok_or_else(|| Error::NotInScope { var: table.to_string() })?;
    write_atomically(&path_of(&folder, &format!("{table}_{number}"))?, &bytes)
}
