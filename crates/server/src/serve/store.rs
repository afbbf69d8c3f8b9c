//! The contents of a server: its tables, each behind a lock of its own, and the values that they share.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use base::EvenIfPoisoned;
use program::distributed::Applies;
use program::{OpDesc, Program};
use protocol::server::{
    CutRecord, OnDisk, ServerMemory, Size, Store, TableGrads, Unit, WrittenCut,
};
use tensor::{DType, Tensor, Value};
use train::folder::{About, Stage};
use train::remote::Log;
use train::{Scope, io};
use wire::message::{Grad, LookUp, Phase, Pull, Save, VarInfo};
use wire::{Refusal, TrainerId, VarId};

use super::blocks::{Blocks, Update};
use super::cuts::{self, CutStore, Tables};
use super::identity::{layout, owner};
use super::keeping::SnapshotSettings;
use super::roots::SaveRoots;
use super::saves::Saves;
use super::schedule::Schedule;
use super::snapshot::{Layout, Owner};
use super::table::{Answer, AskedVar, Extent, Files, Policy, RowTables, Shared, Table, Updater};
use super::taking;
use super::units::Groups;
use super::values::{check_answer, check_counter, n_bytes_of};
use super::vars::{StoreNames, StoreVars, Use};
use crate::bad_snapshot::BadSnapshot;
use crate::error::{Error, Result};
use crate::server_list;

/// The tables of a server and what changes them.
pub struct BlockStore {
    tables: Tables,
    /// Which of them must be changed one after the other.
    groups: Groups,
    /// Held while a table is written.
    saving: Vec<Mutex<()>>,
    saves: Saves,
    /// Where it writes what trainers save.
    roots: SaveRoots,
    schedule: Arc<Mutex<Schedule>>,
    /// All variables, by number.
    vars: StoreVars,
    /// Which table has a variable.
    by_var: HashMap<String, usize>,
    /// The servers' names for the variables of the program that is not distributed.
    by_origin: BTreeMap<String, String>,
    memory: ServerMemory,
    /// The owner of the cuts, if there are any.
    owner: Owner,
    layout: Layout,
    cuts: Option<Arc<CutStore>>,
}

impl std::fmt::Debug for BlockStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BlockStore of {} tables", self.tables.len())
    }
}

impl BlockStore {
    /// The store of a server's program; `scope` has been filled by its startup program.
    pub fn new(program: &Program, op: &OpDesc, scope: &Scope) -> Result<Self> {
        let Blocks { lr, updates } = Blocks::new(program, op)?;
        let job = program.distributed.as_deref();
        let policy = Policy {
            n_trainers: op.attrs.int("Fanin", 1)?.max(1) as u32,
            adds_differences: Applies::told(op)? == Applies::Difference,
            keeps_backups: op.attrs.bool("dc_asgd", false)?,
            number: op.attrs.int("pserver_id", 0)?.max(0) as usize,
            n_servers: job.map_or(1, |job| job.endpoints.len()),
        };
        let memory = ServerMemory::default();
        let mut schedule = Schedule::new(lr, scope, memory.shared());
        let params: Vec<VarInfo> = updates.iter().flat_map(Update::params).collect();
        let groups = Groups::new(&updates);
        let (shared, by_var) = shared(&updates, &schedule.names());
        let by_rows = RowTables::new(program, op)?;
        schedule.keep(shared.iter().flatten().map(|shared| shared.name.clone()).collect());
        let layout = layout(&updates, &shared, job);
        let owner = owner(program, op, &layout)?;
        let mut all: BTreeSet<String> = scope.names().into_iter().chain(schedule.names()).collect();
        all.extend(updates.iter().flat_map(Update::names).map(str::to_string));
        let mut tables = Vec::with_capacity(updates.len());
        for (update, shared) in updates.into_iter().zip(shared) {
            let mut table = by_rows.table(Updater::new(update, shared, scope, &memory), policy)?;
            check_started(table.updater())?;
            tables.push(table);
        }
        let counters = match Applies::told(op)? {
            Applies::Round { .. } => BTreeSet::new(),
            Applies::Arrival | Applies::Difference => schedule.start_counters()?,
        };
        let here = job.and_then(|job| Some(job.on(job.ps_endpoint.as_deref()?)));
        let by_origin = here.into_iter().flatten();
        let by_origin = by_origin.map(|placed| (placed.origin.clone(), placed.piece.name.clone()));
        let by_origin = by_origin.collect();
        let saving = tables.iter().map(|_| Mutex::default()).collect();
        let names = StoreNames { by_var: &by_var, params: &params, counters: &counters, all };
        let vars = StoreVars::new(&mut tables, &names);
        Ok(Self {
            tables: Arc::new(tables.into_iter().map(Mutex::new).collect()),
            groups,
            saving,
            saves: Saves::default(),
            roots: SaveRoots::default(),
            schedule: Arc::new(Mutex::new(schedule)),
            vars,
            by_var,
            by_origin,
            memory,
            owner,
            layout,
            cuts: None,
        })
    }

    /// From now on it writes what trainers save below these folders only, if there are any.
    pub fn save_below(&mut self, roots: &[PathBuf]) {
        self.roots = SaveRoots::new(roots);
    }

    /// Keeps cuts in this folder from now on; what is there must be this server's own.
    pub fn keep_cuts(&mut self, folder: &Path, log: Log) -> Result<()> {
        let cuts = self.open_cuts(folder, log)?;
        cuts.folder().check_own()?;
        self.cuts = Some(cuts);
        Ok(())
    }

    /// Keeps cuts according to the settings of a server.
    pub fn keep(&mut self, keeping: &SnapshotSettings, log: Log) -> Result<()> {
        let folder = keeping.folder_of(self.owner.server);
        let Some(resume) = &keeping.resume else { return self.keep_cuts(&folder, log) };
        if let Some(cuts) = &self.cuts {
            return Ok(cuts.begin(&folder, resume)?);
        }
        taking::remove(&server_list::aside(&keeping.folder, self.owner.server))?;
        let cuts = self.open_cuts(&folder, log)?;
        cuts.resume(resume, None)?;
        self.cuts = Some(cuts);
        Ok(())
    }

    /// Takes over what the servers of the job have kept so far, as far as it is to be this server's, or what changed since
    /// the last call; [`BlockStore::keep`] takes the rest when they have ended. Until then nothing that it writes counts.
    /// False if there was nothing new that can be read.
    pub fn catch_up(&mut self, keeping: &SnapshotSettings, log: Log) -> Result<bool> {
        let Some(resume) = &keeping.resume else { return Ok(false) };
        let cuts = match &self.cuts {
            Some(cuts) => cuts.clone(),
            None => {
                let aside = server_list::aside(&keeping.folder, self.owner.server);
                taking::remove(&aside)?;
                self.cuts.insert(self.open_cuts(&aside, log)?).clone()
            }
        };
        Ok(cuts.catch_up(resume)?)
    }

    /// Nobody will need what it has taken over.
    pub(super) fn give_up(&self, keeping: &SnapshotSettings) {
        // The next process removes files that cannot be removed now.
        let _ = taking::remove(&server_list::aside(&keeping.folder, self.owner.server));
    }

    fn open_cuts(&self, folder: &Path, log: Log) -> Result<Arc<CutStore>> {
        let held = cuts::CutTables { tables: self.tables.clone(), schedule: self.schedule.clone() };
        let (owner, layout) = (self.owner.clone(), self.layout.clone());
        Ok(CutStore::open(folder, owner, layout, held, log)?)
    }

    /// Cuts that were written so far.
    pub(super) fn n_cuts(&self) -> u64 {
        self.cuts.as_ref().map_or(0, |cuts| cuts.n_written())
    }

    /// Why the last cut was not written.
    pub(super) fn take_error(&self) -> Option<BadSnapshot> {
        self.cuts.as_ref().and_then(|cuts| cuts.take_error())
    }

    /// Whether a cut is under way.
    pub(super) fn makes_cut(&self) -> bool {
        self.cuts.as_ref().is_some_and(|cuts| cuts.is_under_way())
    }

    fn cuts(&self) -> Answer<&Arc<CutStore>> {
        self.cuts.as_ref().ok_or_else(|| failed(BadSnapshot::None))
    }

    /// Returns the variables to the scope, when the server has ended.
    pub fn give_back(&self) {
        self.cuts.iter().for_each(|cuts| cuts.stop());
        (0..self.tables.len()).for_each(|at| self.table(at).updater().give_back());
    }

    fn table(&self, at: usize) -> MutexGuard<'_, Box<dyn Table>> {
        self.tables[at].lock().even_if_poisoned()
    }

    fn schedule(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock().even_if_poisoned()
    }

    fn unknown(&self, var: VarId) -> Refusal {
        Refusal::UnknownVar(self.vars.name(var).to_string())
    }

    fn apply_one(&self, trainer: TrainerId, grad: Grad) -> Result<()> {
        match self.vars.used(grad.var) {
            Some(Use { is_counter: true, .. }) => {
                self.schedule().count(self.vars.name(grad.var), &grad.value)
            }
            Some(Use { grad: Some((at, _)), .. }) => self.table(*at).apply(trainer, grad),
            _ => {
                let var = self.vars.name(grad.var).to_string();
                Err(train::Error::NotInScope { var }.into())
            }
        }
    }

    fn start_round(&self, grads: Vec<(TrainerId, Vec<Grad>)>) -> Result<Vec<Unit>> {
        let mut by_table: Vec<Vec<Grad>> = self.tables.iter().map(|_| Vec::new()).collect();
        for grad in grads.into_iter().flat_map(|(_, grads)| grads) {
            if let Some((at, _)) = self.vars.used(grad.var).and_then(|used| used.grad.as_ref()) {
                by_table[*at].push(grad);
            }
        }
        self.schedule().run()?;
        Ok(self.groups.units(by_table))
    }

    /// Writes a table as it is now. It is locked for moments only.
    fn write(&self, at: usize, files: &Files, stage: &Stage, weights_only: bool) -> Result<()> {
        // One save of a table after the other.
        let _saving = self.saving[at].lock().even_if_poisoned();
        let mut cut = self.table(at).mark(Extent::Save { weights_only });
        let written = match cut.saved.take() {
            Some(rows) => match rows.listed(|| self.table(at).next_chunk(&mut cut)) {
                Some(rows) => {
                    rows.write(stage, |var, places| self.table(at).rows_at(&cut, var, places))
                }
                None => Err(Error::SaveGivenUp { table: files.table() }),
            },
            None => match files.vars.first().zip(cut.values.first()) {
                Some(((var, naming), (_, value))) => {
                    Ok(io::write_whole(stage, files.piece(var, *naming), files.spread, value)?)
                }
                None => Ok(()),
            },
        };
        let held = self.table(at).end_cut(cut, true);
        drop(held);
        written
    }

    fn value(&self, trainer: TrainerId, id: VarId, pull: &Pull) -> Answer<Arc<Value>> {
        let var = AskedVar { id, name: self.vars.name(id) };
        match self.vars.used(id).and_then(|used| used.table) {
            Some(at) => self.table(at).read(trainer, var, pull),
            None if pull.changed => Err(self.unknown(id)),
            None => self.schedule().value(var),
        }
    }
}

impl Store for BlockStore {
    fn vars(&self) -> &[VarInfo] {
        &self.vars.list
    }

    fn check(&self, grad: &Grad) -> Answer<()> {
        match self.vars.used(grad.var) {
            Some(Use { is_counter: true, .. }) => check_counter(&grad.value)
                .map_err(|detail| Refusal::BadValue { var: self.name(grad.var), detail }),
            Some(Use { grad: Some((_, accepts)), .. }) => accepts.check(&grad.value),
            _ => Err(self.unknown(grad.var)),
        }
    }

    fn apply(&self, trainer: TrainerId, grad: Grad) -> Answer<()> {
        let var = grad.var;
        self.apply_one(trainer, grad)
            .map_err(|error| Refusal::BadValue { var: self.name(var), detail: error.to_string() })
    }

    fn begin_round(&self, grads: Vec<(TrainerId, Vec<Grad>)>) -> Answer<Vec<Unit>> {
        self.start_round(grads).map_err(|error| Refusal::Failed(error.to_string()))
    }

    fn apply_unit(&self, unit: Unit) -> Answer<()> {
        let mut tables = unit.tables.into_iter();
        let applied =
            tables.try_for_each(|TableGrads { table, grads }| self.table(table).round(grads));
        applied.map_err(|error| Refusal::Failed(error.to_string()))
    }

    fn read(&self, trainer: TrainerId, pull: &Pull) -> Answer<Vec<Arc<Value>>> {
        let (mut values, mut n_bytes) = (Vec::with_capacity(pull.vars.len()), 0);
        for &var in &pull.vars {
            let value = self.value(trainer, var, pull)?;
            n_bytes += n_bytes_of(&value);
            values.push(value);
            check_answer(n_bytes, 1, DType::U8)
                .map_err(|detail| Refusal::BadValue { var: self.name(var), detail })?;
        }
        Ok(values)
    }

    fn look_up(&self, look_up: &LookUp) -> Answer<Tensor> {
        let var = look_up.table;
        let at = self.vars.used(var).and_then(|used| used.table);
        let at = at.ok_or_else(|| self.unknown(var))?;
        self.table(at).look_up(self.vars.name(var), look_up)
    }

    fn save(&self, save: &Save) -> Answer<()> {
        let name = self.by_origin.get(&save.table).unwrap_or(&save.table);
        let at = self.by_var.get(name).ok_or_else(|| Refusal::UnknownVar(name.clone()))?;
        let files = self.table(*at).files(save);
        self.roots.check(&save.dir)?;
        let stage = Path::new(&save.dir);
        let saved = match save.phase {
            Phase::Write => self.saves.part(stage).and_then(|part| {
                let write = |stage: &Stage| self.write(*at, &files, stage, save.weights_only);
                part.add(&save.table, write)
            }),
            Phase::Place => self.saves.commit(stage, About::new("tables")),

            Phase::GiveUp => {
                self.saves.give_up(stage);
                Ok(())
            }
        };
        saved.map_err(|error| Refusal::Failed(error.to_string()))
    }

    fn memory(&self) -> ServerMemory {
        self.memory.clone()
    }

    fn on_disk(&self) -> Answer<OnDisk> {
        Ok(self.cuts()?.on_disk())
    }

    fn whole_cuts(&self) -> Vec<u64> {
        self.cuts().map_or_else(|_| Vec::new(), |cuts| cuts.listed())
    }

    fn mark(&self, cut: u64) -> Answer<()> {
        self.cuts()?.mark(cut);
        Ok(())
    }

    fn write_cut(&self, record: &CutRecord) -> Answer<WrittenCut> {
        self.cuts()?.write(record).map_err(Refusal::Failed)
    }

    fn roll_back(&self, cut: u64, term: u64) -> Answer<Vec<u8>> {
        self.cuts()?.roll_back(cut, term).map_err(failed)
    }

    fn journal(&self, cut: u64) -> Answer<Vec<u8>> {
        self.cuts()?.folder().journal(cut).map_err(failed)
    }

    fn size(&self) -> Size {
        let sizes = (0..self.tables.len()).map(|at| self.table(at).size());
        sizes.fold(Size::default(), |all, size| Size {
            rows: all.rows + size.rows,
            bytes: all.bytes + size.bytes,
            table_rows: all.table_rows + size.table_rows,
            table_bytes: all.table_bytes + size.table_bytes,
            waiting: all.waiting + size.waiting,
            dropped: all.dropped + size.dropped,
        })
    }
}

fn failed(error: BadSnapshot) -> Refusal {
    Refusal::Failed(error.to_string())
}

/// For each block, the variables that it shares with another one or with the schedule; and which block
/// has each of the others.
fn shared(
    updates: &[Update],
    of_schedule: &BTreeSet<String>,
) -> (Vec<Vec<Shared>>, HashMap<String, usize>) {
    let mut owner: HashMap<&str, Option<usize>> = HashMap::new();
    for (at, update) in updates.iter().enumerate() {
        for name in update.names() {
            let is_free = !of_schedule.contains(name) && !owner.contains_key(name);
            owner.insert(name, is_free.then_some(at));
        }
    }
    let of_update = |update: &Update| {
        let shared = update.names().filter(|name| owner[name].is_none());
        let one = |name: &str| Shared {
            name: name.to_string(),
            is_written: update.writes.iter().any(|written| written == name),
        };
        shared.map(one).collect()
    };
    let of_all = updates.iter().map(of_update).collect();
    let owned = owner.into_iter().filter_map(|(name, at)| Some((name.to_string(), at?)));
    (of_all, owned.collect())
}

/// A server without its parameters would refuse every gradient, late.
fn check_started(updater: &Updater) -> Result<()> {
    let ops = updater.update.program.block(0).ops.iter();
    for param in ops.flat_map(|op| op.input_names("Param")) {
        let is_missing = |scope: &Scope| scope.read(param, Value::is_empty).unwrap_or(true);
        if is_missing(&updater.scope) && is_missing(&updater.server) {
            return Err(train::Error::NotInScope { var: param.clone() }.into());
        }
    }
    Ok(())
}
