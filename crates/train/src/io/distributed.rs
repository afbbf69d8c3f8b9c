//! Models of distributed jobs: whole variables on disk, pieces of them on servers.
//!
//! One machine or any number of servers can load a model that a trainer saved; and the other way round.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use program::distributed::{PlacedKind, Placement, Spread};
use program::{Distributed, Meta, Program, VarDesc, stream};
use tensor::{DType, Rows, Shape, Tensor, Value};

use super::file::file_of;
use super::fit::{names_in, overlay, saved_tensor};
use super::kept::kept_names;
use super::rows::{self, Form, Naming, PieceFile, Share, WAITING, read_pieces, read_what_fits};
use super::vars::{
    FileLayout, VARIABLES, by_name, check_savable, is_persistable, read_tensor, save_vars,
    write_vars,
};
use crate::error::{Error, Result};
use crate::folder::{About, Folder, Stage, Transaction};
use crate::remote::{SavedPart, Saving, TrainerJob, WholeFetch};
use crate::scope::Scope;

/// The variables of a job, as a trainer sees them: those in its scope and those on servers.
#[derive(Clone, Copy, Debug)]
pub struct JobScope<'a> {
    /// The servers.
    pub trainer: &'a TrainerJob,
    /// The variables that this trainer holds itself.
    pub scope: &'a Scope,
    /// Which variable is where.
    pub job: &'a Distributed,
}

impl JobScope<'_> {
    /// Saves the persistable variables of a trainer's program, with the parameters that the servers have
    /// now. Trainer 0 also saves what only servers hold: optimizer state and tables.
    pub fn save_persistables(
        self,
        dir: &Path,
        program: &Program,
        filename: Option<&str>,
    ) -> Result<()> {
        let transaction = Transaction::begin(dir)?;
        let layout = FileLayout::new(filename);
        JobSave { of: self, layout, kind: VARIABLES, weights_only: false }
            .persistables(program, transaction)
    }

    /// Saves variables of a trainer's program. Those that only servers hold are fetched.
    pub fn save_vars(self, dir: &Path, vars: &[VarDesc], filename: Option<&str>) -> Result<()> {
        let Self { scope, job, .. } = self;
        let is_missing = |name: &str| {
            vars.iter().any(|var| var.name == name)
                && scope.read(name, Value::is_empty).unwrap_or(true)
        };
        if !job.placement.iter().any(|placed| is_missing(&placed.origin)) {
            return save_vars(scope, dir, vars, filename);
        }
        let layout = FileLayout::new(filename);
        let save = JobSave { of: self, layout, kind: VARIABLES, weights_only: false };
        save.vars(vars, is_missing, Transaction::begin(dir)?)
    }
}

/// Whole variables of servers, by name.
fn fetched(trainer: &TrainerJob, fetch: &WholeFetch) -> Result<BTreeMap<String, Tensor>> {
    let values = fetch.run(trainer.links(), Vec::new())?;
    Ok(fetch.names().iter().cloned().zip(values).collect())
}

/// A part of a table that its server writes.
fn saved_part(placed: &Placement, weights_only: bool) -> SavedPart {
    SavedPart { server: placed.piece.server, table: placed.piece.name.clone(), weights_only }
}

/// The description of a job's save.
pub(super) fn job_about(kind: &str, trainer: &TrainerJob, job: &Distributed) -> About {
    About {
        kind: kind.to_string(),
        step: job.mode.waits_for_all().then(|| trainer.links().round()),
        mode: job.mode.name().to_string(),
        n_servers: job.endpoints.len(),
    }
}

/// A save of a trainer's program.
pub(super) struct JobSave<'a> {
    pub(super) of: JobScope<'a>,
    /// Which files variables are in; tables have their own.
    pub(super) layout: FileLayout<'a>,
    /// Its name.
    pub(super) kind: &'a str,
    /// Of tables that servers save by rows, what a look-up needs and no more.
    pub(super) weights_only: bool,
}

impl JobSave<'_> {
    fn by_rows(&self, placed: &Placement) -> bool {
        self.of.job.by_rows.contains(&placed.origin)
    }

    /// Saves all that persists, and commits.
    pub(super) fn persistables(&self, program: &Program, transaction: Transaction) -> Result<()> {
        self.persistables_of(program, is_persistable, transaction)
    }

    /// Saves all that persists and is wanted, and commits.
    pub(super) fn persistables_of(
        &self,
        program: &Program,
        is_wanted: impl Fn(&VarDesc) -> bool,
        transaction: Transaction,
    ) -> Result<()> {
        let JobScope { trainer, scope, job } = self.of;
        trainer.join(job);
        let job = &*trainer.links().moves.followed_copy(job)?;
        trainer.settle()?;
        let is_chief = job.is_chief();
        let wanted = |placed: &Placement| {
            (is_chief || placed.kind == PlacedKind::Param) && !self.by_rows(placed)
        };
        let fetched = fetched(trainer, &WholeFetch::new(job, wanted))?;
        let remote: BTreeSet<&str> = job.placement.iter().map(|p| p.origin.as_str()).collect();
        let is_local = |var: &&VarDesc| is_wanted(var) && !remote.contains(var.name.as_str());
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
        let JobScope { trainer, job, .. } = self.of;
        trainer.join(job);
        let job = &*trainer.links().moves.followed_copy(job)?;
        trainer.settle()?;
        let wanted = |placed: &Placement| !self.by_rows(placed) && is_missing(&placed.origin);
        let fetched = fetched(trainer, &WholeFetch::new(job, wanted))?;
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
        tables.map(|placed| saved_part(placed, self.weights_only)).collect()
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
        let JobScope { trainer, job, .. } = self.of;
        let about = job_about(self.kind, trainer, &*trainer.links().moves.followed_copy(job)?);
        let saving = Saving::begin(trainer.links(), parts, &transaction)?;
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
        let above = self.of.scope.new_scope();
        for (name, tensor) in fetched {
            vars.push(VarDesc::new(&name, Meta::default()));
            above.var(&name);
            above.set(&name, tensor);
        }
        let vars = by_name(&vars);
        let written = check_savable(&above, &vars, self.layout)
            .and_then(|()| write_vars(stage, &above, &vars, self.layout));
        self.of.scope.drop_kids();
        written
    }
}

/// Loads a server's pieces from whole variables on disk.
pub fn load_slices(job: &Distributed, scope: &Scope, dir: &Path) -> Result<()> {
    load_slices_below(job, scope, dir, "")
}

/// The same, with `prefix` before the names of whole variables.
pub(super) fn load_slices_below(
    job: &Distributed,
    scope: &Scope,
    dir: &Path,
    prefix: &str,
) -> Result<()> {
    let endpoint = job.ps_endpoint.as_deref().ok_or(Error::NoServerEndpoint)?;
    let loaded = Folder::consistently(dir, |folder| {
        let mut loaded = Vec::new();
        for placed in job.on(endpoint) {
            if job.by_rows.contains(&placed.origin) || placed.spread == Spread::Hash {
                loaded.extend(load_rows(job, placed, folder, prefix)?);
                continue;
            }
            let piece = piece(&whole(folder, placed, prefix)?, placed)?;
            loaded.push((placed.piece.name.clone(), Value::Tensor(piece)));
        }
        Ok(loaded)
    })?;
    for (name, value) in loaded {
        scope.set(&name, value);
    }
    Ok(())
}

/// A piece of a server with what was saved of its variable.
pub(super) struct Fit {
    pub(super) origin: String,
    /// The shape of the variable.
    pub(super) now: Vec<i64>,
    /// The shape that was saved, if anything was.
    pub(super) from: Option<Vec<i64>>,
    /// The new values of the server's variables; nothing if they do not fit.
    pub(super) values: Vec<(String, Value)>,
}

/// The values of a folder that fit a server's pieces, and the names of variables in it that do not belong to the job.
pub(super) fn slices_that_fit(
    job: &Distributed,
    scope: &Scope,
    folder: &Folder,
) -> Result<(Vec<Fit>, Vec<String>)> {
    let endpoint = job.ps_endpoint.as_deref().ok_or(Error::NoServerEndpoint)?;
    let mut fits = Vec::new();
    for placed in job.on(endpoint) {
        let (origin, now) = (placed.origin.clone(), placed.origin_dims.clone());
        let (from, values) = if job.by_rows.contains(&origin) || placed.spread == Spread::Hash {
            rows_that_fit(job, placed, folder)?
        } else {
            piece_that_fits(job, placed, scope, folder)?
        };
        fits.push(Fit { origin, now, from, values });
    }
    let files = folder.manifest().into_iter().flat_map(|list| list.files());
    let ours = |name: &String| {
        let name = name.strip_suffix(WAITING).unwrap_or(name);
        job.placement.iter().any(|placed| placed.origin == name)
    };
    let others: Vec<String> = files.flat_map(names_in).filter(|name| !ours(name)).collect();
    let tables = kept_names(folder);
    let is_saved = |name: &str| folder.has(name) || tables.contains(name);
    // This server's variables may be new. If the folder has no variable of the whole job, it is another model.
    if !job.placement.iter().any(|placed| is_saved(&placed.origin)) {
        let wanted = job.placement.iter().map(|placed| placed.origin.as_str());
        return Err(Error::nothing_fits(folder.dir(), wanted, &others));
    }
    Ok((fits, others))
}

/// A shape that was saved, and what variables become of it.
type SavedShape = (Option<Vec<i64>>, Vec<(String, Value)>);

fn piece_that_fits(
    job: &Distributed,
    placed: &Placement,
    scope: &Scope,
    folder: &Folder,
) -> Result<SavedShape> {
    let Some(whole) = saved_tensor(folder, file_of(&placed.origin)?)? else {
        return Ok((None, Vec::new()));
    };
    if let Ok(piece) = piece(&whole, placed) {
        // State that is not cut is saved in several forms.
        let from = placed.origin_dims.clone();
        return Ok((Some(from), vec![(placed.piece.name.clone(), Value::Tensor(piece))]));
    }
    let from = whole.shape().to_i64();
    let old = scope.read(&placed.piece.name, |value| value.tensor().cloned()).flatten();
    let mut value = old.ok_or_else(|| Error::NotInScope { var: placed.piece.name.clone() })?;
    if value.is_empty() && placed.dims().first().is_some_and(|&n| n > 0) {
        // The server makes rows by their rule when they are used: those that were saved exist.
        let values = rows_of_whole(&whole, &OnDisk::of(job, placed)?.share)?;
        let values = values.map(|rows| (placed.piece.name.clone(), Value::Rows(rows)));
        return Ok((Some(from), values.into_iter().collect()));
    }
    let first = placed.piece.rows.start.max(0) as usize;
    let values = if overlay(&mut value, &whole, first) {
        vec![(placed.piece.name.clone(), Value::Tensor(value))]
    } else {
        Vec::new()
    };
    Ok((Some(from), values))
}

fn rows_that_fit(job: &Distributed, placed: &Placement, folder: &Folder) -> Result<SavedShape> {
    let table = OnDisk::of(job, placed)?;
    if let Some(rows) = read_what_fits(folder, table.own, table.form, &table.share)? {
        let listed = folder.manifest().map(|list| list.parts(&placed.origin)).unwrap_or_default();
        let listed = listed.first().and_then(|(_, file)| file.vars.first());
        let height = listed.and_then(|var| var.dims.first().copied()).unwrap_or(table.form.height);
        let from = vec![height, rows.value.shape().flatten_2d(1).1 as i64];
        let mut values = vec![(placed.piece.name.clone(), Value::Rows(rows))];
        values.extend(table.waiting(placed, folder, read_what_fits)?);
        return Ok((Some(from), values));
    }
    let Some(whole) = saved_tensor(folder, file_of(&placed.origin)?)? else {
        return Ok((None, Vec::new()));
    };
    let rows = rows_of_whole(&whole, &table.share)?;
    let values = rows.map(|rows| (placed.piece.name.clone(), Value::Rows(rows)));
    Ok((Some(whole.shape().to_i64()), values.into_iter().collect()))
}

/// The rows of a server in a value that was saved whole, as many as exist; `None` if it is not a table.
fn rows_of_whole(whole: &Tensor, share: &Share) -> Result<Option<Rows>> {
    let &[n_rows, _] = whole.dims() else { return Ok(None) };
    let (height, first) = (share.height(), share.first());
    let is_here = |&row: &i64| row + first < n_rows as i64 && share.has(row + first);
    let ids: Vec<i64> = (0..height.min(n_rows as i64)).filter(is_here).collect();
    let value = picked(whole, ids.iter().map(|&row| (row + first) as usize), ids.len())?;
    Ok(Some(Rows { ids, height, value }))
}

/// A variable that was saved whole.
fn whole(folder: &Folder, placed: &Placement, prefix: &str) -> Result<Tensor> {
    read_tensor(folder, &format!("{prefix}{}", file_of(&placed.origin)?))
}

/// The folder of tables that servers save.
pub(super) const TABLES: &str = "__lookup_table__";

/// How files of a variable's pieces are called.
pub fn naming(job: &Distributed, origin: &str) -> Naming {
    if job.lookup_table.as_deref() == Some(origin) { Naming::Fluid } else { Naming::Counted }
}

/// The rows of a server's part of a table, and those that an entry rule has not taken in yet. Of a
/// model that was saved whole every row exists.
fn load_rows(
    job: &Distributed,
    placed: &Placement,
    folder: &Folder,
    prefix: &str,
) -> Result<Vec<(String, Value)>> {
    let table = OnDisk::of(job, placed)?;
    let Some(rows) = read_pieces(folder, table.own, table.form, &table.share)? else {
        let rows = rows_of(&whole(folder, placed, prefix)?, placed, &table.share)?;
        return Ok(vec![(placed.piece.name.clone(), Value::Rows(rows))]);
    };
    let mut loaded = vec![(placed.piece.name.clone(), Value::Rows(rows))];
    loaded.extend(table.waiting(placed, folder, read_pieces)?);
    Ok(loaded)
}

/// How a server's part of a table is found on disk.
struct OnDisk<'a> {
    own: PieceFile<'a>,
    form: Form,
    share: Share,
}

impl<'a> OnDisk<'a> {
    fn of(job: &Distributed, placed: &'a Placement) -> Result<Self> {
        let server = job.server_number().ok_or(Error::NoServerEndpoint)?;
        let width = placed.dims().iter().skip(1).product::<i64>().max(1);
        let height = placed.origin_dims.first().copied().unwrap_or(0);
        let (number, n) = (placed.piece.block, job.pieces(&placed.origin).count());
        let naming = naming(job, &placed.origin);
        Ok(Self {
            own: PieceFile { var: &placed.origin, number, n, naming },
            form: Form { height, width: width as usize, dtype: DType::F32 },
            share: Share::of(placed, server, job.endpoints.len()),
        })
    }

    /// Rows that an entry rule has not taken in yet.
    fn waiting(
        &self,
        placed: &Placement,
        folder: &Folder,
        read: impl Fn(&Folder, PieceFile<'_>, Form, &Share) -> Result<Option<Rows>>,
    ) -> Result<Option<(String, Value)>> {
        if placed.kind != PlacedKind::RemotePrefetch {
            return Ok(None);
        }
        let name = format!("{}{WAITING}", placed.origin);
        let form = Form { width: 1, dtype: DType::I64, ..self.form };
        let own = PieceFile { var: &name, naming: Naming::Counted, ..self.own };
        let waiting = read(folder, own, form, &self.share)?;
        Ok(waiting.map(|rows| (format!("{}{WAITING}", placed.piece.name), Value::Rows(rows))))
    }
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
    let value = picked(whole, ids.iter().map(|&row| row as usize), ids.len())?;
    Ok(Rows { ids, height, value })
}

/// Some rows of a whole variable.
fn picked(whole: &Tensor, rows: impl Iterator<Item = usize>, n: usize) -> Result<Tensor> {
    let bytes = rows::bytes_of_rows(whole, rows);
    Ok(Tensor::from_bytes(whole.dtype(), whole.shape().with_dim(0, n), &bytes)?)
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
    // Fluid saves state that is one number once for each piece: [n] instead of [1].
    let is_copied = placed.is_whole() && program::var::n_elements(&placed.dims()) == 1;
    let first = if is_copied {
        placed.piece.block.min(n_rows.saturating_sub(1))
    } else {
        placed.offset().max(0) as usize / width.max(1)
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
pub fn write_whole(
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
