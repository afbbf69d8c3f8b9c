//! What a server holds: the variables of its scope, changed by its program's blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use program::{OpDesc, Program, VarDesc, VarKind};
use ps::message::{CHANGED_MAX, Held, LookUp, Named, Phase, Pull, Save};
use ps::server::{Size, Store};
use ps::{Refusal, SharedMemory, TrainerId};
use tensor::{DType, Rows, Tensor, Value};

use super::blocks::{Blocks, Update, is_sync};
use super::changes::Changes;
use super::lookup::Lookup;
use super::slab::ABSENT;
use super::slabs::Slabs;
use super::values::{
    add_in_place, check_answer, check_counter, check_fits, counter, empty_rows, first_number,
    gather, height, make_own, move_into, n_bytes_of, zeros,
};
use crate::error::{Error, Result};
use crate::executor::{Executor, Feed};
use crate::io;
use crate::scope::Scope;

/// Counts steps for learning rates; trainers of asynchronous jobs send theirs.
const COUNTER: &str = "@LR_DECAY_COUNTER@";

/// The variables of a server and what changes them.
pub struct BlockStore {
    scope: Scope,
    executor: Executor,
    blocks: Blocks,
    /// Values that were asked for and have not changed since.
    cache: BTreeMap<String, Arc<Value>>,
    /// Rows of tables that each trainer has not seen since somebody changed them.
    changed: Changes,
    n_trainers: u32,
    keeps_backups: bool,
    tracks_changes: bool,
    server_number: i64,
    n_servers: usize,
    /// Memory of gradients that were applied.
    spare: Vec<Tensor>,
    /// Tables of which only touched rows exist.
    slabs: Slabs,
    /// The table spread by id.
    lookup: Option<Lookup>,
    /// Where trainers of this machine read.
    room: SharedMemory,
    /// Counters of steps that trainers send.
    counters: BTreeSet<String>,
}

impl std::fmt::Debug for BlockStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BlockStore of {} updates", self.blocks.updates.len())
    }
}

impl BlockStore {
    /// The store of a server's program; `scope` has been filled by its startup program.
    pub fn new(program: &Program, op: &OpDesc, scope: &Scope) -> Result<Self> {
        let mut store = Self {
            scope: scope.clone(),
            executor: Executor::new(),
            blocks: Blocks::new(program, op)?,
            cache: BTreeMap::new(),
            changed: Changes::default(),
            n_trainers: op.attrs.int("Fanin", 1)?.max(1) as u32,
            keeps_backups: op.attrs.bool("dc_asgd", false)?,
            tracks_changes: op.attrs.int("distributed_mode", 0)? == 3,
            server_number: op.attrs.int("pserver_id", 0)?,
            n_servers: program.distributed.as_ref().map_or(1, |job| job.endpoints.len()),
            spare: Vec::new(),
            slabs: Slabs::default(),
            lookup: None,
            room: SharedMemory::default(),
            counters: BTreeSet::new(),
        };
        store.lookup = Lookup::new(program, (op, &store.blocks), scope)?;
        store.slabs = Slabs::new(program, (op, &store.blocks), scope)?;
        store.check_started()?;
        if !is_sync(op)? {
            store.start_counters()?;
        }
        Ok(store)
    }

    /// The numbers of rows become their places, where a table has only some; the numbers of those
    /// that it has not taken in are the answer.
    fn translate(&mut self, at: usize, grad: &mut Named) -> Result<Vec<i64>> {
        let Some(param) = self.blocks.updates[at].param() else { return Ok(Vec::new()) };
        let Some(slab) = self.slabs.get(&param.name) else { return Ok(Vec::new()) };
        let Value::Rows(rows) = &mut grad.value else { return Ok(Vec::new()) };
        let left_out = slab.take(&self.scope, rows);
        left_out.map_err(|row| tensor::Error::RowOutOfRange { row, height: rows.height }.into())
    }

    /// Counts rows that gradients named in vain.
    fn count_left_out(&mut self, at: usize, rows: &[i64]) {
        let param = self.blocks.updates[at].param();
        if let Some(slab) = param.and_then(|param| self.slabs.get(&param.name)) {
            slab.count(&self.scope, rows);
        }
    }

    /// A server without its parameters would refuse every gradient, late.
    fn check_started(&self) -> Result<()> {
        for update in &self.blocks.updates {
            let params = update.program.block(0).ops.iter().flat_map(|op| op.input_names("Param"));
            let table = self.lookup.as_ref().map(|lookup| lookup.table.as_str());
            for param in params.filter(|param| Some(param.as_str()) != table) {
                if self.scope.read(param, Value::is_empty).unwrap_or(true) {
                    return Err(Error::NotInScope { var: param.clone() });
                }
            }
        }
        Ok(())
    }

    /// The learning rate of the first step; counters go up as trainers report steps.
    fn start_counters(&mut self) -> Result<()> {
        let Some(lr) = &self.blocks.lr else { return Ok(()) };
        let loaded = self.scope.get(COUNTER).and_then(|value| first_number(&value));
        for var in lr.block(0).vars() {
            if let Some(rank) =
                var.name.strip_prefix(COUNTER).and_then(|r| r.strip_prefix(".trainer_"))
            {
                let steps = if rank == "0" { loaded.unwrap_or(0.0).max(0.0) } else { 0.0 };
                self.scope.set(&var.name, counter(var, steps));
                self.counters.insert(var.name.clone());
            }
        }
        self.run_lr()
    }

    fn run_lr(&mut self) -> Result<()> {
        let Some(lr) = &self.blocks.lr else { return Ok(()) };
        let written = lr.block(0).ops.iter().flat_map(|op| op.writes());
        own(&mut self.cache, (&self.scope, &self.room), written);
        self.executor.run(lr, &self.scope, &mut Feed::default(), &[]).map(drop)
    }

    fn run_update(&mut self, at: usize) -> Result<()> {
        let update = &self.blocks.updates[at];
        let written = update.writes.iter().map(String::as_str);
        own(&mut self.cache, (&self.scope, &self.room), written);
        self.executor.run(&update.program, &self.scope, &mut Feed::default(), &[])?;
        if let Some(slab) = update.param().and_then(|param| self.slabs.get(&param.name)) {
            slab.note_step();
        }
        Ok(())
    }

    /// Puts a gradient where its block looks for it.
    fn place(&mut self, grad: Named) {
        let mut value = grad.value;
        self.scope.write(&grad.name, |old| std::mem::swap(old, &mut value));
        self.recycle(value);
    }

    /// Keeps the memory of a gradient for the next one.
    fn recycle(&mut self, value: Value) {
        match value {
            Value::Tensor(tensor) => self.spare.push(tensor),
            Value::Rows(rows) => self.spare.push(rows.value),
            _ => {}
        }
    }

    /// A trainer that is gone, or sent nothing, has gradients of zero.
    fn place_zero(&self, grad: &VarDesc) {
        let dims = &grad.meta.dims;
        self.scope.write(&grad.name, |value| {
            *value = match grad.meta.kind {
                VarKind::SelectedRows => Value::Rows(empty_rows(grad)),
                _ => Value::Tensor(zeros(grad.meta.dtype, dims)),
            };
        });
    }

    fn apply_counter(&mut self, grad: &Named) -> Result<()> {
        let more = first_number(&grad.value).unwrap_or(0.0);
        own(&mut self.cache, (&self.scope, &self.room), [grad.name.as_str()].into_iter());
        self.scope.write(&grad.name, |value| {
            let sum = first_number(value).unwrap_or(0.0) + more;
            if let Value::Tensor(tensor) = value {
                match tensor.dtype() {
                    DType::I64 => *tensor = Tensor::full([1], sum as i64),
                    _ => *tensor = Tensor::full([1], sum as f32),
                }
            }
        });
        self.run_lr()
    }

    /// Rows and bytes of a variable.
    fn size_of(&self, name: &str) -> (u64, u64) {
        let size = self.scope.read(name, |value| {
            let tensor = value.tensor()?;
            let n_rows = tensor.dims().first().copied().unwrap_or(0);
            Some((n_rows as u64, tensor.bytes().len() as u64))
        });
        size.flatten().unwrap_or((0, 0))
    }

    /// Remembers which rows others have not seen (GEO).
    fn note_changes(&mut self, trainer: TrainerId, at: usize, grad: &Named) {
        let Value::Rows(rows) = &grad.value else { return };
        let update = &self.blocks.updates[at];
        let Some(table) = update.writes.first() else { return };
        self.changed.note((trainer, self.n_trainers), table, &rows.ids);
    }

    /// Adds a difference to its parameter, in place (GEO).
    fn add(&mut self, at: usize, grad: &Named) -> Result<()> {
        for name in &self.blocks.updates[at].writes {
            self.cache.remove(name);
            self.scope.write(name, |value| {
                make_own(value, &self.room);
                match value {
                    Value::Tensor(param) => add_in_place(param, &grad.value),
                    _ => Ok(()),
                }
            })?;
        }
        Ok(())
    }

    fn apply_one(&mut self, trainer: TrainerId, grad: Named) -> Result<()> {
        if self.counters.contains(&grad.name) {
            return self.apply_counter(&grad);
        }
        if let Some(lookup) = self.lookup.as_mut().filter(|lookup| lookup.takes(&grad.name)) {
            return lookup.train(&[grad], &self.scope);
        }
        let at = self.blocks.by_grad[&grad.name];
        if self.tracks_changes {
            self.note_changes(trainer, at, &grad);
            self.add(at, &grad)?;
            self.recycle(grad.value);
            return Ok(());
        }
        for name in &self.blocks.updates[at].trainer_ids {
            self.scope.set(name, Tensor::full([1], i64::from(trainer.0)));
        }
        let mut grad = grad;
        let left_out = self.translate(at, &mut grad)?;
        self.place(grad);
        self.run_update(at)?;
        self.count_left_out(at, &left_out);
        Ok(())
    }

    fn apply_round(&mut self, grads: Vec<(TrainerId, Vec<Named>)>) -> Result<()> {
        let (mut placed, mut spread, mut left_out) = (BTreeSet::new(), Vec::new(), Vec::new());
        for mut grad in grads.into_iter().flat_map(|(_, grads)| grads) {
            if self.lookup.as_ref().is_some_and(|lookup| lookup.takes(&grad.name)) {
                spread.push(grad);
                continue;
            }
            placed.insert(grad.name.clone());
            if let Some(&at) = self.blocks.by_grad.get(&grad.name) {
                left_out.push((at, self.translate(at, &mut grad)?));
            }
            self.place(grad);
        }
        self.run_lr()?;
        if let Some(lookup) = &mut self.lookup {
            lookup.train(&spread, &self.scope)?;
        }
        let apart = self.lookup.as_ref().map(|lookup| lookup.update);
        for at in (0..self.blocks.updates.len()).filter(|at| Some(*at) != apart) {
            let update = &self.blocks.updates[at];
            for grad in update.grads.iter().filter(|grad| !placed.contains(&grad.name)) {
                self.place_zero(grad);
            }
            self.run_update(at)?;
        }
        // Only now: what a round takes in must not depend on whose gradient came first.
        left_out.iter().for_each(|(at, rows)| self.count_left_out(*at, rows));
        Ok(())
    }

    fn value(&mut self, name: &str) -> std::result::Result<Arc<Value>, Refusal> {
        if let Some(value) = self.cache.get(name) {
            return Ok(value.clone());
        }
        let unknown = || Refusal::UnknownVar(name.to_string());
        if self.slabs.holds(name) {
            let bad = |detail| Refusal::BadValue { var: name.to_string(), detail };
            let (height, width) = self.slabs.extent(name).ok_or_else(unknown)?;
            check_answer(height, width, DType::F32).map_err(bad)?;
            let whole = self.slabs.whole(&self.scope, name).map(Value::Tensor);
            return whole.map(Arc::new).ok_or_else(unknown);
        }
        // A name that nobody knows must not become one.
        if self.scope.read(name, Value::is_empty).unwrap_or(true) {
            return Err(unknown());
        }
        // Tensors are lent, not copied; whoever changes one gets it back first.
        let is_asked_for_once = self.tracks_changes && self.blocks.is_table(name);
        let value = self.scope.write(name, |value| {
            if !is_asked_for_once {
                move_into(value, &self.room);
            }
            match value.share() {
                Some(tensor) => Value::Shared(tensor),
                None => value.clone(),
            }
        });
        let value = Arc::new(value);
        self.cache.insert(name.to_string(), value.clone());
        Ok(value)
    }

    /// Rows that others changed since the trainer asked last, or the first of them.
    fn unseen(&mut self, trainer: TrainerId, name: &str) -> std::result::Result<Value, Refusal> {
        let ids = self.changed.take(trainer, name, CHANGED_MAX);
        let value = self.gather((name, &ids), None)?;
        let height = self.scope.read(name, height).unwrap_or(0);
        Ok(Value::Rows(Rows { ids, height, value }))
    }

    /// Rows of a table by their places; the absent one reads as zeros.
    fn gather(
        &self,
        (table, places): (&str, &[i64]),
        absent: Option<i64>,
    ) -> std::result::Result<Tensor, Refusal> {
        let rows = self.scope.read(table, |value| {
            let tensor = value.tensor().ok_or_else(|| Refusal::UnknownVar(table.to_string()))?;
            gather(tensor, places, absent)
                .map_err(|detail| Refusal::BadValue { var: table.to_string(), detail })
        });
        rows.unwrap_or_else(|| Err(Refusal::UnknownVar(table.to_string())))
    }

    /// A copy of a parameter as a trainer saw it last (delay-compensated updates).
    fn back_up(&self, trainer: TrainerId, name: &str) {
        let backup = format!("{name}.trainer_{}_bak", trainer.0);
        if let (Some(value), true) = (self.scope.get(name), self.scope.get(&backup).is_some()) {
            self.scope.set(&backup, value);
        }
    }
}

impl Store for BlockStore {
    fn check(&self, grad: &Named) -> std::result::Result<(), Refusal> {
        let bad = |detail| Refusal::BadValue { var: grad.name.clone(), detail };
        if self.counters.contains(&grad.name) {
            return check_counter(&grad.value).map_err(bad);
        }
        if let Some(lookup) = self.lookup.as_ref().filter(|lookup| lookup.takes(&grad.name)) {
            return lookup.check(grad).map_err(bad);
        }
        let at = self.blocks.by_grad.get(&grad.name);
        let update = at.map(|&at| &self.blocks.updates[at]);
        let var = update.and_then(|update| declared(update, &grad.name));
        let var = var.ok_or_else(|| Refusal::UnknownVar(grad.name.clone()))?;
        check_fits(var, &grad.value).map_err(bad)
    }

    fn apply(&mut self, trainer: TrainerId, grad: Named) -> std::result::Result<(), String> {
        self.apply_one(trainer, grad).map_err(|error| error.to_string())
    }

    fn round(&mut self, grads: Vec<(TrainerId, Vec<Named>)>) -> std::result::Result<(), String> {
        self.apply_round(grads).map_err(|error| error.to_string())
    }

    fn read(
        &mut self,
        trainer: TrainerId,
        pull: &Pull,
    ) -> std::result::Result<Vec<Arc<Value>>, Refusal> {
        let (mut values, mut n_bytes) = (Vec::with_capacity(pull.names.len()), 0);
        for name in &pull.names {
            if self.keeps_backups {
                self.back_up(trainer, name);
            }
            values.push(match pull.changed {
                true => Arc::new(self.unseen(trainer, name)?),
                false => self.value(name)?,
            });
            n_bytes += values.last().map_or(0, |value| n_bytes_of(value));
            check_answer(n_bytes, 1, DType::U8)
                .map_err(|detail| Refusal::BadValue { var: name.clone(), detail })?;
        }
        Ok(values)
    }

    fn look_up(&mut self, look_up: &LookUp) -> std::result::Result<Tensor, Refusal> {
        let (table, keys) = (look_up.table.as_str(), look_up.keys.as_slice());
        let bad = |detail| Refusal::BadValue { var: table.to_string(), detail };
        if let Some(lookup) = self.lookup.as_mut().filter(|lookup| lookup.table == table) {
            return lookup.look_up(keys).map_err(bad);
        }
        let Some((_, width)) = self.slabs.extent(table) else {
            return self.gather((table, keys), None);
        };
        // Before rows are made for them.
        check_answer(keys.len(), width, DType::F32).map_err(bad)?;
        let Some(slab) = self.slabs.get(table) else { return self.gather((table, keys), None) };
        let places = match look_up.peek {
            true => slab.peek(keys),
            false => slab.look_up(&self.scope, keys),
        };
        let foreign = |row| bad(format!("row {row} was asked for, which the table does not have"));
        self.gather((table, &places.map_err(foreign)?), Some(ABSENT))
    }

    fn save(&mut self, save: &Save) -> std::result::Result<(), Refusal> {
        let failed = |error: Error| Refusal::Failed(error.to_string());
        if let Some(saved) = self.slabs.save(&self.scope, save) {
            return saved.map_err(failed);
        }
        let table = save.table.as_str();
        let number = (self.server_number, self.n_servers);
        if save.phase != Phase::Write {
            return io::save_shard(save, number, &Value::Empty).map_err(failed);
        }
        let value = match self.lookup.as_ref().filter(|lookup| lookup.table == table) {
            Some(lookup) => Arc::new(Value::Rows(lookup.rows().map_err(failed)?)),
            None => self.value(table)?,
        };
        io::save_shard(save, number, &value).map_err(failed)
    }

    fn set_room(&mut self, room: &SharedMemory) {
        self.room = room.clone();
    }

    fn spare(&mut self) -> Vec<Tensor> {
        std::mem::take(&mut self.spare)
    }

    fn params(&self) -> Option<Vec<Held>> {
        let mut params: Vec<Held> = self.blocks.updates.iter().flat_map(Update::params).collect();
        // Of a table spread by id every server has other rows.
        for held in &mut params {
            if self.lookup.as_ref().is_some_and(|lookup| lookup.table == held.name) {
                held.dims.clear();
            }
        }
        Some(params)
    }

    fn size(&self) -> Size {
        let (table_rows, table_bytes) = self.lookup.as_ref().map_or((0, 0), Lookup::size);
        let mut all = Size { table_rows, table_bytes, ..Size::default() };
        for slab in self.slabs.iter() {
            all.table_rows += slab.n_rows() as u64;
            all.table_bytes += slab.n_bytes() as u64;
            let (waiting, dropped) = slab.refused();
            all.waiting += waiting;
            all.dropped += dropped;
        }
        (all.rows, all.bytes) = (all.table_rows, all.table_bytes);
        let mut seen = BTreeSet::new();
        for update in &self.blocks.updates {
            let held = update.holds().into_iter().filter(|name| !self.slabs.holds(name));
            let held: Vec<&String> = held.filter(|name| seen.insert(*name)).collect();
            let sizes: Vec<(u64, u64)> = held.into_iter().map(|name| self.size_of(name)).collect();
            for &(rows, bytes) in &sizes {
                all.rows += rows;
                all.bytes += bytes;
            }
            if update.takes_rows() {
                // The states of an optimizer are parts of the same rows.
                all.table_rows += sizes.iter().map(|size| size.0).max().unwrap_or(0);
                all.table_bytes += sizes.iter().map(|size| size.1).sum::<u64>();
            }
        }
        all
    }
}

fn declared<'a>(update: &'a Update, name: &str) -> Option<&'a VarDesc> {
    update.grads.iter().find(|grad| grad.name == name)
}

/// Makes variables ready to be changed: what was answered of them is old now.
fn own<'a>(
    cache: &mut BTreeMap<String, Arc<Value>>,
    (scope, room): (&Scope, &SharedMemory),
    names: impl Iterator<Item = &'a str>,
) {
    for name in names {
        cache.remove(name);
        if scope.find(name).is_some() {
            scope.write(name, |value| make_own(value, room));
        }
    }
}
