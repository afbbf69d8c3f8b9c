//! Models of distributed jobs: whole variables on disk, pieces of them on servers.
//!
//! What a trainer saves, one machine can load, and any number of servers; and the other way round.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::Path;

use program::distributed::{PlacedKind, Placement, Spread};
use program::{Distributed, Meta, Program, VarDesc, stream};
use tensor::{DType, Rows, Shape, Tensor, Value};

use super::file::{path_of, read_vars, write_atomically};
use super::rows::{self, Form, Naming, PieceFile, Share, WAITING, read_pieces};
use super::shards;
use super::vars::{is_persistable, save_vars};
use crate::error::{Error, Result};
use crate::remote::{Cluster, Fetch, SavedPart, Saving};
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
    let fetched = fetched(cluster, &Fetch::new(job, wanted))?;
    let remote: BTreeSet<&str> = job.placement.iter().map(|p| p.origin.as_str()).collect();
    let is_local = |var: &&VarDesc| is_persistable(var) && !remote.contains(var.name.as_str());
    let local = program.list_vars().filter(is_local);
    let is_filled = |var: &&VarDesc| !scope.read(&var.name, Value::is_empty).unwrap_or(true);
    let local = local.filter(is_filled).cloned().collect();
    let mut parts = Vec::new();
    if is_chief {
        let tables = job.placement.iter().filter(|p| by_rows(p));
        let tables = tables.filter(|p| p.kind == PlacedKind::RemotePrefetch);
        parts.extend(tables.filter_map(|placed| saved_part(job, placed)));
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
    if remote.peek().is_none() {
        return save_vars(scope, to.0, vars, to.1);
    }
    cluster.join(job);
    cluster.settle()?;
    let wanted = |placed: &Placement| !by_rows(placed) && is_missing(&placed.origin);
    let fetched = fetched(cluster, &Fetch::new(job, wanted))?;
    let tables = remote.filter(|p| by_rows(p) && p.kind == PlacedKind::RemotePrefetch);
    let parts = tables.filter_map(|placed| saved_part(job, placed)).collect();
    let on_servers =
        |name: &str| fetched.contains_key(name) || job.by_rows.iter().any(|table| table == name);
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

/// Whole variables of servers, by name.
fn fetched(cluster: &Cluster, fetch: &Fetch) -> Result<BTreeMap<String, Tensor>> {
    let values = fetch.run(cluster, Vec::new())?;
    Ok(fetch.names().iter().cloned().zip(values).collect())
}

/// A part of a table that its server writes.
fn saved_part(job: &Distributed, placed: &Placement) -> Option<SavedPart> {
    Some(SavedPart { server: job.server(&placed.endpoint)?, table: placed.slice.clone() })
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
        if job.by_rows.contains(&placed.origin) || placed.spread == Spread::Hash {
            by_rows.extend(load_rows(job, placed, dir)?);
            continue;
        }
        loaded.push((placed.slice.as_str(), piece(&whole(dir, placed)?, placed)?));
    }
    for (name, tensor) in loaded {
        scope.set(name, tensor);
    }
    for (name, rows) in by_rows {
        scope.set(&name, Value::Rows(rows));
    }
    Ok(())
}

/// A variable that was saved whole.
fn whole(dir: &Path, placed: &Placement) -> Result<Tensor> {
    let path = path_of(dir, &placed.origin)?;
    let bytes = read_vars(&path, false)?;
    let whole = stream::tensor_from_bytes(&bytes);
    whole.map_err(|source| Error::in_file(&path, source))
}

/// The folder of tables that servers save.
pub(super) const TABLES: &str = "__lookup_table__";

/// How files of a variable's pieces are called.
pub(crate) fn naming(job: &Distributed, origin: &str) -> Naming {
    match job.lookup_table.as_deref() == Some(origin) {
        true => Naming::Fluid,
        false => Naming::Counted,
    }
}

/// The rows of a server's part of a table, and those that an entry rule has not taken in yet. Of a
/// model that was saved whole every row exists.
fn load_rows(job: &Distributed, placed: &Placement, dir: &Path) -> Result<Vec<(String, Rows)>> {
    let server = job.server_number().ok_or(Error::NoServerEndpoint)?;
    let share = Share::of(placed, server, job.endpoints.len());
    let width = placed.slice_dims.iter().skip(1).product::<i64>().max(1);
    let height = placed.origin_dims.first().copied().unwrap_or(0);
    let (number, n) = (placed.block, job.pieces(&placed.origin).count());
    let own = PieceFile { var: &placed.origin, number, n, naming: naming(job, &placed.origin) };
    let form = Form { height, width: width as usize, dtype: DType::F32 };
    let Some(rows) = read_pieces(dir, own, form, &share)? else {
        return Ok(vec![(placed.slice.clone(), rows_of(&whole(dir, placed)?, placed, &share)?)]);
    };
    let mut loaded = vec![(placed.slice.clone(), rows)];
    if placed.kind == PlacedKind::RemotePrefetch {
        let name = format!("{}{WAITING}", placed.origin);
        let form = Form { width: 1, dtype: DType::I64, ..form };
        let own = PieceFile { var: &name, naming: Naming::Counted, ..own };
        let waiting = read_pieces(dir, own, form, &share)?;
        loaded.extend(waiting.map(|rows| (format!("{}{WAITING}", placed.slice), rows)));
    }
    Ok(loaded)
}

/// A server's rows of a whole table.
fn rows_of(whole: &Tensor, placed: &Placement, share: &Share) -> Result<Rows> {
    let height = share.height();
    if placed.spread == Spread::Range {
        let value = piece(whole, placed)?;
        return Ok(Rows { ids: (0..height).collect(), height, value });
    }
    if whole.shape().to_i64() != placed.origin_dims {
        let (var, found) = (placed.origin.clone(), whole.shape().to_i64());
        return Err(Error::LoadedShape { var, expected: placed.origin_dims.clone(), found });
    }
    let ids: Vec<i64> = (0..height).filter(|&row| share.has(row)).collect();
    let bytes: Vec<u8> =
        rows::rows_of(whole, ids.iter().map(|&row| row as usize)).flatten().copied().collect();
    let value = Tensor::from_bytes(whole.dtype(), whole.shape().with_dim(0, ids.len()), &bytes)?;
    Ok(Rows { ids, height, value })
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

/// Writes a server's piece of a table that it keeps whole, beside the place it will have.
pub(crate) fn write_whole(dir: &Path, piece: PieceFile<'_>, value: &Value) -> Result<()> {
    let bytes = stream::to_bytes(value);
    let bytes = bytes.ok_or_else(|| Error::NotInScope { var: piece.var.to_string() })?;
    write_atomically(&shards::beside(&piece.path(dir)?), &bytes)
}
