//! What a server holds: its tables, each behind a lock of its own, and what they share.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use program::distributed::Applies;
use program::{OpDesc, Program};
use ps::message::{Held, LookUp, Named, Phase, Pull, Save};
use ps::server::{CutRecord, OnDisk, ServerMemory, Size, Store, TableGrads, Unit, Written};
use ps::{Refusal, TrainerId};
use tensor::{DType, Tensor, Value};

use super::blocks::{Blocks, Update};
use super::cuts::{self, Cuts, Tables};
use super::identity::{layout, owner};
use super::schedule::Schedule;
use super::snapshot::{Layout, Owner};
use super::table::{Accepts, Answer, Files, Policy, RowTables, Shared, Snapshot, Table, Updater};
use super::units::Groups;
use super::values::{check_answer, check_counter, n_bytes_of};
use crate::error::{BadSnapshot, Error, Result};
use crate::io;
use crate::remote::Log;
use crate::scope::Scope;

/// The tables of a server and what changes them.
pub struct BlockStore {
    tables: Tables,
    /// Which of them must be changed one after the other.
    groups: Groups,
    /// Held while a table is written.
    saving: Vec<Mutex<()>>,
    schedule: Arc<Mutex<Schedule>>,
    /// Which table takes a gradient, and what it must be; which table has a variable.
    by_grad: HashMap<String, (usize, Accepts)>,
    by_var: HashMap<String, usize>,
    /// What servers call the variables of the program that is not distributed.
    by_origin: BTreeMap<String, String>,
    /// Counters of steps that trainers send.
    counters: BTreeSet<String>,
    params: Vec<Held>,
    memory: ServerMemory,
    /// Whose cuts they are, if there are any.
    identity: (Owner, Layout),
    cuts: Option<Arc<Cuts>>,
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
        let params = updates.iter().flat_map(Update::params).collect();
        let groups = Groups::new(&updates);
        let (shared, by_var) = shared(&updates, &schedule.names());
        let by_rows = RowTables::new(program, op)?;
        schedule.keep(shared.iter().flatten().map(|shared| shared.name.clone()).collect());
        let layout = layout(&updates, &shared, job);
        let owner = owner(program, op, &layout)?;
        let (mut tables, mut by_grad) = (Vec::with_capacity(updates.len()), HashMap::new());
        for (update, shared) in updates.into_iter().zip(shared) {
            let mut table = by_rows.table(Updater::new(update, shared, scope, &memory), policy)?;
            check_started(table.updater())?;
            let accepts = table.accepts().into_iter();
            by_grad.extend(accepts.map(|it| (it.var.name.clone(), (tables.len(), it))));
            tables.push(Mutex::new(table));
        }
        let counters = match Applies::told(op)? {
            Applies::Round { .. } => BTreeSet::new(),
            Applies::Arrival | Applies::Difference => schedule.start_counters()?,
        };
        let here = job.and_then(|job| Some(job.on(job.ps_endpoint.as_deref()?)));
        let by_origin = here.into_iter().flatten();
        let by_origin = by_origin.map(|placed| (placed.origin.clone(), placed.slice.clone()));
        let by_origin = by_origin.collect();
        let saving = tables.iter().map(|_| Mutex::default()).collect();
        Ok(Self {
            tables: Arc::new(tables),
            groups,
            saving,
            schedule: Arc::new(Mutex::new(schedule)),
            by_grad,
            by_var,
            by_origin,
            counters,
            params,
            memory,
            identity: (owner, layout),
            cuts: None,
        })
    }

    /// Keeps cuts in a folder from now on; what is there must be this server's own.
    pub fn keep_cuts(&mut self, folder: &Path, log: Log) -> Result<()> {
        let held = cuts::Held { tables: self.tables.clone(), schedule: self.schedule.clone() };
        self.cuts = Some(Cuts::open(folder, self.identity.clone(), held, log)?);
        Ok(())
    }

    fn cuts(&self) -> Answer<&Arc<Cuts>> {
        self.cuts.as_ref().ok_or_else(|| failed(BadSnapshot::None))
    }

    /// Gives the scope its variables back, when nobody is served any more.
    pub fn give_back(&self) {
        self.cuts.iter().for_each(|cuts| cuts.stop());
        (0..self.tables.len()).for_each(|at| self.table(at).updater().give_back());
    }

    fn table(&self, at: usize) -> MutexGuard<'_, Box<dyn Table>> {
        self.tables[at].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn schedule(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The table that has a variable.
    fn table_of(&self, var: &str) -> Answer<MutexGuard<'_, Box<dyn Table>>> {
        let at = self.by_var.get(var).ok_or_else(|| Refusal::UnknownVar(var.to_string()))?;
        Ok(self.table(*at))
    }

    fn apply_one(&self, trainer: TrainerId, grad: Named) -> Result<()> {
        if self.counters.contains(&grad.name) {
            return self.schedule().count(&grad);
        }
        match self.by_grad.get(&grad.name) {
            Some((at, _)) => self.table(*at).apply(trainer, grad),
            None => Err(Error::NotInScope { var: grad.name }),
        }
    }

    fn start_round(&self, grads: Vec<(TrainerId, Vec<Named>)>) -> Result<Vec<Unit>> {
        let mut by_table: Vec<Vec<Named>> = self.tables.iter().map(|_| Vec::new()).collect();
        for grad in grads.into_iter().flat_map(|(_, grads)| grads) {
            if let Some((at, _)) = self.by_grad.get(&grad.name) {
                by_table[*at].push(grad);
            }
        }
        self.schedule().run()?;
        Ok(self.groups.units(by_table))
    }

    /// Writes a table as it is now. It is locked for moments only.
    fn write(&self, at: usize, files: &Files, dir: &Path) -> Result<()> {
        // One save of a table after the other.
        let _saving = self.saving[at].lock().unwrap_or_else(PoisonError::into_inner);
        let snapshot = self.table(at).begin_save();
        match snapshot {
            Snapshot::Whole(value) => match files.vars.first() {
                Some((var, naming)) => io::write_whole(dir, files.piece(var, *naming), &value),
                None => Ok(()),
            },
            Snapshot::Rows(rows) => {
                let written = rows.write(dir, |var, rows| self.table(at).chunk(var, rows));
                self.table(at).end_save();
                written
            }
        }
    }

    fn value(&self, trainer: TrainerId, name: &str, pull: &Pull) -> Answer<Arc<Value>> {
        match self.by_var.get(name) {
            Some(&at) => self.table(at).read(trainer, name, pull),
            None if pull.changed => Err(Refusal::UnknownVar(name.to_string())),
            None => self.schedule().value(name),
        }
    }
}

impl Store for BlockStore {
    fn check(&self, grad: &Named) -> Answer<()> {
        if self.counters.contains(&grad.name) {
            let bad = |detail| Refusal::BadValue { var: grad.name.clone(), detail };
            return check_counter(&grad.value).map_err(bad);
        }
        match self.by_grad.get(&grad.name) {
            Some((_, accepts)) => accepts.check(&grad.value),
            None => Err(Refusal::UnknownVar(grad.name.clone())),
        }
    }

    fn apply(&self, trainer: TrainerId, grad: Named) -> Answer<()> {
        let var = grad.name.clone();
        let applied = self.apply_one(trainer, grad);
        applied.map_err(|error| Refusal::BadValue { var, detail: error.to_string() })
    }

    fn begin_round(&self, grads: Vec<(TrainerId, Vec<Named>)>) -> Answer<Vec<Unit>> {
        self.start_round(grads).map_err(|error| Refusal::Failed(error.to_string()))
    }

    fn apply_unit(&self, unit: Unit) -> Answer<()> {
        let mut tables = unit.tables.into_iter();
        let applied =
            tables.try_for_each(|TableGrads { table, grads }| self.table(table).round(grads));
        applied.map_err(|error| Refusal::Failed(error.to_string()))
    }

    fn read(&self, trainer: TrainerId, pull: &Pull) -> Answer<Vec<Arc<Value>>> {
        let (mut values, mut n_bytes) = (Vec::with_capacity(pull.names.len()), 0);
        for name in &pull.names {
            let value = self.value(trainer, name, pull)?;
            n_bytes += n_bytes_of(&value);
            values.push(value);
            check_answer(n_bytes, 1, DType::U8)
                .map_err(|detail| Refusal::BadValue { var: name.clone(), detail })?;
        }
        Ok(values)
    }

    fn look_up(&self, look_up: &LookUp) -> Answer<Tensor> {
        self.table_of(&look_up.table)?.look_up(look_up)
    }

    fn save(&self, save: &Save) -> Answer<()> {
        let name = self.by_origin.get(&save.table).unwrap_or(&save.table);
        let at = self.by_var.get(name).ok_or_else(|| Refusal::UnknownVar(name.clone()))?;
        let files = self.table(*at).files(save);
        let dir = Path::new(&save.dir);
        let saved = match save.phase {
            Phase::Write => self.write(*at, &files, dir),
            phase => files.settle(dir, phase),
        };
        saved.map_err(|error| Refusal::Failed(error.to_string()))
    }

    fn memory(&self) -> ServerMemory {
        self.memory.clone()
    }

    fn params(&self) -> Option<Vec<Held>> {
        Some(self.params.clone())
    }

    fn on_disk(&self) -> Answer<OnDisk> {
        self.cuts()?.on_disk().map_err(failed)
    }

    fn mark(&self, cut: u64) -> Answer<()> {
        self.cuts()?.mark(cut);
        Ok(())
    }

    fn write_cut(&self, record: &CutRecord) -> Answer<Written> {
        self.cuts()?.write(record).map_err(failed)
    }

    fn roll_back(&self, cut: u64, term: u64) -> Answer<Vec<u8>> {
        self.cuts()?.roll_back(cut, term).map_err(failed)
    }

    fn journal(&self, cut: u64) -> Answer<Vec<u8>> {
        self.cuts()?.journal(cut).map_err(failed)
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
            return Err(Error::NotInScope { var: param.clone() });
        }
    }
    Ok(())
}
