//! Models of distributed jobs: whole variables on disk, pieces of them on servers.
//!
//! What a trainer saves, one machine can load, and any number of servers; and the other way round.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use program::distributed::{PlacedKind, Placement, Spread};
use program::{Distributed, Meta, Program, VarDesc, stream};
use tensor::{DType, Rows, Shape, Tensor, Value};

use super::file::{cannot_load, file_of};
use super::rows::{self, Form, Naming, PieceFile, Share, WAITING, read_pieces};
use super::vars::{VARIABLES, by_name, check_savable, is_persistable, save_vars, write_vars};
use crate::error::{Error, Result};
use crate::folder::{About, Folder, Stage, Transaction};
use crate::remote::{Cluster, Fetch, SavedPart, Saving};
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
    let transaction = Transaction::begin(dir)?;
    let save = JobSave { cluster, scope, job, filename, kind: VARIABLES };
    save.persistables(program, transaction)
}

/// Saves variables of a trainer's program; those that only servers hold are fetched.
pub fn save_vars_of_job(
    cluster: &Cluster,
    scope: &Scope,
    (dir, filename): (&Path, Option<&str>),
    vars: &[VarDesc],
    job: &Distributed,
) -> Result<()> {
    let is_missing = |name: &str| {
        vars.iter().any(|var| var.name == name) && scope.read(name, Value::is_empty).unwrap_or(true)
    };
    if !job.placement.iter().any(|placed| is_missing(&placed.origin)) {
        return save_vars(scope, dir, vars, filename);
    }
    let save = JobSave { cluster, scope, job, filename, kind: VARIABLES };
    save.vars(vars, is_missing, Transaction::begin(dir)?)
}

/// Whole variables of servers, by name.
fn fetched(cluster: &Cluster, fetch: &Fetch) -> Result<BTreeMap<String, Tensor>> {
    let values = fetch.run(cluster, Vec::new())?;
    Ok(fetch.names().iter().cloned().zip(values).collect())
}

/// A part of a table that its server writes.
fn saved_part(placed: &Placement) -> SavedPart {
    SavedPart { server: placed.piece.server, table: placed.piece.name.clone() }
}

/// A save of a trainer's program.
pub(super) struct JobSave<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) scope: &'a Scope,
    pub(super) job: &'a Distributed,
    /// One file for all that has a file.
    pub(super) filename: Option<&'a str>,
    /// What it is called.
    pub(super) kind: &'a str,
}

impl JobSave<'_> {
    fn by_rows(&self, placed: &Placement) -> bool {
        self.job.by_rows.contains(&placed.origin)
    }

    /// Saves all that persists, and commits.
    pub(super) fn persistables(&self, program: &Program, transaction: Transaction) -> Result<()> {
        let Self { cluster, scope, job, .. } = self;
        cluster.join(job);
        cluster.settle()?;
        let is_chief = job.is_chief();
        let wanted = |placed: &Placement| {
            (is_chief || placed.kind == PlacedKind::Param) && !self.by_rows(placed)
        };
        let fetched = fetched(cluster, &Fetch::new(job, wanted))?;
        let remote: BTreeSet<&str> = job.placement.iter().map(|p| p.origin.as_str()).collect();
        let is_local = |var: &&VarDesc| is_persistable(var) && !remote.contains(var.name.as_str());
        let local = program.list_vars().filter(is_local);
        let is_filled = |var: &&VarDesc| !scope.read(&var.name, Value::is_empty).unwrap_or(true);
        let local = local.filter(is_filled).cloned().collect();
        let tables = job.placement.iter().filter(|_| is_chief);
        self.commit(transaction, local, fetched, self.tables(tables))
    }

    /// Saves variables, and commits.
    fn vars(
        &self,
        vars: &[VarDesc],
        is_missing: impl Fn(&str) -> bool,
        transaction: Transaction,
    ) -> Result<()> {
        let Self { cluster, job, .. } = self;
        cluster.join(job);
        cluster.settle()?;
        let wanted = |placed: &Placement| !self.by_rows(placed) && is_missing(&placed.origin);
        let fetched = fetched(cluster, &Fetch::new(job, wanted))?;
        let tables = job.placement.iter().filter(|placed| is_missing(&placed.origin));
        let parts = self.tables(tables);
        let on_servers = |name: &str| {
            fetched.contains_key(name) || job.by_rows.iter().any(|table| table == name)
        };
        let local = vars.iter().filter(|var| !on_servers(&var.name)).cloned().collect();
        self.commit(transaction, local, fetched, parts)
    }

    /// The parts of tables that servers write themselves.
    fn tables<'p>(&self, placed: impl Iterator<Item = &'p Placement>) -> Vec<SavedPart> {
        let tables = placed.filter(|p| self.by_rows(p) && p.kind == PlacedKind::RemotePrefetch);
        tables.map(saved_part).collect()
    }

    /// Writes variables of the scope together with fetched ones, which hide the scope's, while servers write
    /// their parts; then all of it is there, or nothing.
    fn commit(
        &self,
        transaction: Transaction,
        vars: Vec<VarDesc>,
        fetched: BTreeMap<String, Tensor>,
        parts: Vec<SavedPart>,
    ) -> Result<()> {
        let Self { cluster, job, .. } = self;
        let about = About {
            kind: self.kind.to_string(),
            step: job.mode.waits_for_all().then(|| cluster.round()),
            mode: job.mode.name().to_string(),
            n_servers: job.endpoints.len(),
        };
        let saving = Saving::begin(cluster, parts, transaction.stage_path())?;
        match self.write(transaction.stage(), vars, fetched) {
            Ok(()) => saving.commit(transaction, about),
            Err(error) => {
                saving.give_up();
                Err(error)
            }
        }
    }

    fn write(
        &self,
        stage: &Stage,
        mut vars: Vec<VarDesc>,
        fetched: BTreeMap<String, Tensor>,
    ) -> Result<()> {
        let above = self.scope.new_scope();
        for (name, tensor) in fetched {
            vars.push(VarDesc::new(&name, Meta::default()));
            above.var(&name);
            above.set(&name, tensor);
        }
        let vars = by_name(&vars);
        let written = check_savable(&above, &vars, self.filename)
            .and_then(|()| write_vars(stage, &above, &vars, self.filename));
        self.scope.drop_kids();
        written
    }
}

/// Loads a server's pieces from whole variables on disk.
pub fn load_slices(job: &Distributed, scope: &Scope, dir: &Path) -> Result<()> {
    let endpoint = job.ps_endpoint.as_deref().ok_or(Error::NoServerEndpoint)?;
    let loaded = Folder::consistently(dir, |folder| {
        let mut loaded = Vec::new();
        for placed in job.on(endpoint) {
            if job.by_rows.contains(&placed.origin) || placed.spread == Spread::Hash {
                let rows = load_rows(job, placed, folder)?.into_iter();
                loaded.extend(rows.map(|(name, rows)| (name, Value::Rows(rows))));
                continue;
            }
            let piece = piece(&whole(folder, placed)?, placed)?;
            loaded.push((placed.piece.name.clone(), Value::Tensor(piece)));
        }
        Ok(loaded)
    })?;
    for (name, value) in loaded {
        scope.set(&name, value);
    }
    Ok(())
}

/// A variable that was saved whole.
fn whole(folder: &Folder, placed: &Placement) -> Result<Tensor> {
    let name = file_of(&placed.origin)?;
    let bytes = folder.read(name).map_err(|error| cannot_load(error, false))?;
    let whole = stream::tensor_from_bytes(&bytes);
    whole.map_err(|source| Error::in_file(&folder.dir().join(name), source))
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
fn load_rows(
    job: &Distributed,
    placed: &Placement,
    folder: &Folder,
) -> Result<Vec<(String, Rows)>> {
    let server = job.server_number().ok_or(Error::NoServerEndpoint)?;
    let share = Share::of(placed, server, job.endpoints.len());
    let width = placed.dims().iter().skip(1).product::<i64>().max(1);
    let height = placed.origin_dims.first().copied().unwrap_or(0);
    let (number, n) = (placed.piece.block, job.pieces(&placed.origin).count());
    let own = PieceFile { var: &placed.origin, number, n, naming: naming(job, &placed.origin) };
    let form = Form { height, width: width as usize, dtype: DType::F32 };
    let Some(rows) = read_pieces(folder, own, form, &share)? else {
        return Ok(vec![(
            placed.piece.name.clone(),
            rows_of(&whole(folder, placed)?, placed, &share)?,
        )]);
    };
    let mut loaded = vec![(placed.piece.name.clone(), rows)];
    if placed.kind == PlacedKind::RemotePrefetch {
        let name = format!("{}{WAITING}", placed.origin);
        let form = Form { width: 1, dtype: DType::I64, ..form };
        let own = PieceFile { var: &name, naming: Naming::Counted, ..own };
        let waiting = read_pieces(folder, own, form, &share)?;
        loaded.extend(waiting.map(|rows| (format!("{}{WAITING}", placed.piece.name), rows)));
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
    if found == placed.dims() && placed.offset() == 0 {
        return Ok(whole.clone());
    }
    let misfit = || Error::LoadedShape {
        var: placed.origin.clone(),
        expected: placed.origin_dims.clone(),
        found: found.clone(),
    };
    let (n_rows, width) = whole.shape().flatten_2d(1);
    let is_copied = placed.is_whole();
    // Fluid saves state that is not cut once for each piece: [n] instead of [1].
    let first = match is_copied {
        true => placed.piece.block.min(n_rows.saturating_sub(1)),
        false => placed.offset().max(0) as usize / width.max(1),
    };
    if !is_copied && found != placed.origin_dims {
        return Err(misfit());
    }
    let n = placed.dims().first().copied().unwrap_or(0).max(0) as usize;
    let row_bytes = width * whole.dtype().size();
    let bytes = whole.bytes().get(first * row_bytes..(first + n) * row_bytes).ok_or_else(misfit)?;
    let mut dims = whole.shape();
    dims = if dims.rank() == 0 { Shape::from([n]) } else { dims.with_dim(0, n) };
    Ok(Tensor::from_bytes(whole.dtype(), dims, bytes)?)
}

/// Writes a server's piece of a table that it keeps whole into a save.
pub(crate) fn write_whole(
    stage: &Stage,
    piece: PieceFile<'_>,
    spread: Spread,
    value: &Value,
) -> Result<()> {
    let bytes = stream::to_bytes(value);
    let bytes = bytes.ok_or_else(|| Error::NotInScope { var: piece.var.to_string() })?;
    let mut file = piece.create(stage, spread)?;
    file.write_all(&bytes).map_err(|source| file.failed(source))?;
    file.finish()
}
