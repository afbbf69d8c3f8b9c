//! What a server holds: the variables of its scope, changed by its program's blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use program::op::{for_float, gather_rows, scatter_add_rows};
use program::{OpDesc, Program, VarDesc, VarKind};
use ps::message::{Named, Pull};
use ps::server::Store;
use ps::table::RowInit;
use ps::{Refusal, Room, TrainerId};
use tensor::{DType, Rows, Shape, Tensor, Value};

use super::blocks::{Blocks, Update, is_sync};
use super::lookup::Lookup;
use super::slab::Slab;
use crate::error::{Error, Result};
use crate::executor::{Executor, Feed};
use crate::io;
use crate::scope::Scope;
use crate::transpile::on_touch::ROW_INIT;

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
    changed: BTreeMap<(String, TrainerId), BTreeSet<i64>>,
    n_trainers: u32,
    keeps_backups: bool,
    tracks_changes: bool,
    server_number: i64,
    /// Memory of gradients that were applied.
    spare: Vec<Tensor>,
    /// Tables of which only touched rows exist, by the name of their weights.
    slabs: BTreeMap<String, Slab>,
    /// The table spread by id.
    lookup: Option<Lookup>,
    /// Where trainers of this machine read.
    room: Room,
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
            changed: BTreeMap::new(),
            n_trainers: op.attrs.int("Fanin", 1)?.max(1) as u32,
            keeps_backups: op.attrs.bool("dc_asgd", false)?,
            tracks_changes: op.attrs.int("distributed_mode", 0)? == 3,
            server_number: op.attrs.int("pserver_id", 0)?,
            spare: Vec::new(),
            slabs: BTreeMap::new(),
            lookup: None,
            room: Room::default(),
        };
        store.lookup = Lookup::new(program, (op, &store.blocks), scope)?;
        store.start_slabs(op)?;
        store.check_started()?;
        if !is_sync(op)? {
            store.start_counters()?;
        }
        Ok(store)
    }

    /// Tables whose startup left them to be made row by row.
    fn start_slabs(&mut self, op: &OpDesc) -> Result<()> {
        let seed = crate::executor::fresh_seed();
        let words = op.attrs.strs(ROW_INIT)?.iter().filter_map(|words| words.split_once('='));
        let inits: BTreeMap<&str, RowInit> = words
            .filter_map(|(name, init)| Some((name, RowInit::from_text(init, seed)?)))
            .collect();
        for update in &self.blocks.updates {
            let Some(param) = update.param() else { continue };
            let is_there = !self.scope.read(&param.name, Value::is_empty).unwrap_or(true);
            let ([height, width], false) = (&param.meta.dims[..], is_there) else { continue };
            let own = update.program.block(0).ops.iter().flat_map(|op| op.reads());
            let vars: BTreeMap<&str, RowInit> =
                own.filter_map(|name| Some((name, *inits.get(name)?))).collect();
            if !vars.contains_key(param.name.as_str()) {
                continue;
            }
            let vars = vars.into_iter().map(|(name, init)| (name.to_string(), init)).collect();
            let slab = Slab::new(*height as usize, *width as usize, vars);
            self.slabs.insert(param.name.clone(), slab);
        }
        for slab in self.slabs.values_mut() {
            // The first row makes all variables exist, so that updates find them.
            slab.places(&self.scope, &[0]).map(drop).unwrap_or_default();
        }
        Ok(())
    }

    /// The numbers of rows become their places, where a table has only some.
    fn translate(&mut self, at: usize, grad: &mut Named) -> Result<()> {
        let Some(param) = self.blocks.updates[at].param() else { return Ok(()) };
        let Some(slab) = self.slabs.get_mut(&param.name) else { return Ok(()) };
        if let Value::Rows(rows) = &mut grad.value {
            let height = rows.height;
            let places = slab.places(&self.scope, &rows.ids);
            rows.ids = places.map_err(|row| tensor::Error::RowOutOfRange { row, height })?;
        }
        Ok(())
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
        let loaded = self.scope.get(COUNTER).and_then(|value| Some(value.tensor()?.get_f64(0)));
        for var in lr.block(0).vars() {
            if let Some(rank) =
                var.name.strip_prefix(COUNTER).and_then(|r| r.strip_prefix(".trainer_"))
            {
                let steps = if rank == "0" { loaded.unwrap_or(0.0).max(0.0) } else { 0.0 };
                self.scope.set(&var.name, counter(var, steps));
            }
        }
        self.run_lr()
    }

    fn run_lr(&mut self) -> Result<()> {
        match &self.blocks.lr {
            Some(lr) => self.executor.run(lr, &self.scope, &mut Feed::default(), &[]).map(drop),
            None => Ok(()),
        }
    }

    fn run_update(&mut self, at: usize) -> Result<()> {
        let update = &self.blocks.updates[at];
        for name in &update.writes {
            self.cache.remove(name);
            self.scope.write(name, |value| make_own(value, &self.room));
        }
        self.executor.run(&update.program, &self.scope, &mut Feed::default(), &[])?;
        Ok(())
    }

    /// Puts a gradient where its block looks for it.
    fn place(&mut self, grad: Named) {
        let mut value = grad.value;
        self.scope.write(&grad.name, |old| std::mem::swap(old, &mut value));
        if let Value::Tensor(tensor) = value {
            self.spare.push(tensor);
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
        let more = grad.value.tensor().map_or(0.0, |tensor| tensor.get_f64(0));
        self.scope.write(&grad.name, |value| {
            if let Value::Tensor(tensor) = value {
                let sum = tensor.get_f64(0) + more;
                match tensor.dtype() {
                    DType::I64 => *tensor = Tensor::full([1], sum as i64),
                    _ => *tensor = Tensor::full([1], sum as f32),
                }
            }
        });
        self.run_lr()
    }

    /// Remembers which rows others have not seen (GEO).
    fn note_changes(&mut self, at: usize, grad: &Named) {
        let Value::Rows(rows) = &grad.value else { return };
        let update = &self.blocks.updates[at];
        let Some(table) = update.writes.first() else { return };
        for trainer in (0..self.n_trainers).map(TrainerId) {
            let unseen = self.changed.entry((table.clone(), trainer)).or_default();
            unseen.extend(rows.ids.iter().copied());
        }
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
        if grad.name.starts_with(COUNTER) {
            return self.apply_counter(&grad);
        }
        if let Some(lookup) = self.lookup.as_mut().filter(|lookup| lookup.takes(&grad.name)) {
            return lookup.train(&[grad], &self.scope);
        }
        let at = self.blocks.by_grad[&grad.name];
        if self.tracks_changes {
            self.note_changes(at, &grad);
            return self.add(at, &grad);
        }
        for name in &self.blocks.updates[at].trainer_ids {
            self.scope.set(name, Tensor::full([1], i64::from(trainer.0)));
        }
        let mut grad = grad;
        self.translate(at, &mut grad)?;
        self.place(grad);
        self.run_update(at)
    }

    fn apply_round(&mut self, grads: Vec<(TrainerId, Vec<Named>)>) -> Result<()> {
        let (mut placed, mut spread) = (BTreeSet::new(), Vec::new());
        for mut grad in grads.into_iter().flat_map(|(_, grads)| grads) {
            if self.lookup.as_ref().is_some_and(|lookup| lookup.takes(&grad.name)) {
                spread.push(grad);
                continue;
            }
            placed.insert(grad.name.clone());
            if let Some(&at) = self.blocks.by_grad.get(&grad.name) {
                self.translate(at, &mut grad)?;
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
        Ok(())
    }

    fn value(&mut self, name: &str) -> std::result::Result<Arc<Value>, Refusal> {
        if let Some(value) = self.cache.get(name) {
            return Ok(value.clone());
        }
        if let Some(slab) = self.slabs.values().find(|slab| slab.holds(name)) {
            let whole = slab.whole(&self.scope, name).map(Value::Tensor);
            return whole.map(Arc::new).ok_or_else(|| Refusal::UnknownVar(name.to_string()));
        }
        // Tensors are lent, not copied; whoever changes one gets it back first.
        let value = self.scope.write(name, |value| {
            move_into(value, &self.room);
            match value.share() {
                Some(tensor) => Value::Shared(tensor),
                None => value.clone(),
            }
        });
        if value.is_empty() {
            return Err(Refusal::UnknownVar(name.to_string()));
        }
        let value = Arc::new(value);
        self.cache.insert(name.to_string(), value.clone());
        Ok(value)
    }

    /// Rows that others changed since the trainer asked last.
    fn unseen(&mut self, trainer: TrainerId, name: &str) -> std::result::Result<Value, Refusal> {
        let ids = self.changed.remove(&(name.to_string(), trainer)).unwrap_or_default();
        let ids: Vec<i64> = ids.into_iter().collect();
        let value = self.look_up(name, &ids)?;
        let height = self.scope.read(name, height).unwrap_or(0);
        Ok(Value::Rows(Rows { ids, height, value }))
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
        if grad.name.starts_with(COUNTER) {
            return match self.scope.get(&grad.name) {
                Some(_) => Ok(()),
                None => Err(Refusal::UnknownVar(grad.name.clone())),
            };
        }
        let bad = |detail| Refusal::BadValue { var: grad.name.clone(), detail };
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
        let mut values = Vec::with_capacity(pull.names.len());
        for name in &pull.names {
            if self.keeps_backups {
                self.back_up(trainer, name);
            }
            values.push(match pull.changed {
                true => Arc::new(self.unseen(trainer, name)?),
                false => self.value(name)?,
            });
        }
        Ok(values)
    }

    fn look_up(&mut self, table: &str, keys: &[i64]) -> std::result::Result<Tensor, Refusal> {
        if let Some(lookup) = self.lookup.as_mut().filter(|lookup| lookup.table == table) {
            let bad = |detail| Refusal::BadValue { var: table.to_string(), detail };
            return lookup.look_up(keys).map_err(bad);
        }
        let places = self.slabs.get_mut(table).map(|slab| {
            let bad = |row| Refusal::BadValue {
                var: table.to_string(),
                detail: format!("row {row} was asked for, which the table does not have"),
            };
            slab.places(&self.scope, keys).map_err(bad)
        });
        let places = places.transpose()?;
        let keys = places.as_deref().unwrap_or(keys);
        let rows = self.scope.read(table, |value| {
            let tensor = value.tensor().ok_or_else(|| Refusal::UnknownVar(table.to_string()))?;
            gather(tensor, keys)
                .map_err(|detail| Refusal::BadValue { var: table.to_string(), detail })
        });
        rows.unwrap_or_else(|| Err(Refusal::UnknownVar(table.to_string())))
    }

    fn save(&mut self, table: &str, dir: &str) -> std::result::Result<(), Refusal> {
        let failed = |error: Error| Refusal::Failed(error.to_string());
        let value = match self.lookup.as_ref().filter(|lookup| lookup.table == table) {
            Some(lookup) => Arc::new(Value::Rows(lookup.rows().map_err(failed)?)),
            None => self.value(table)?,
        };
        io::write_shard(Path::new(dir), table, self.server_number, &value).map_err(failed)
    }

    fn set_room(&mut self, room: &Room) {
        self.room = room.clone();
    }

    fn spare(&mut self) -> Vec<Tensor> {
        std::mem::take(&mut self.spare)
    }

    fn size(&self) -> (u64, u64) {
        let params = self.blocks.updates.iter().flat_map(Update::holds);
        let in_slab = |name: &&String| self.slabs.values().any(|slab| slab.holds(name));
        let params: BTreeSet<&String> = params.filter(|name| !in_slab(name)).collect();
        let sizes = params.into_iter().filter_map(|name| {
            self.scope.read(name, |value| {
                let tensor = value.tensor()?;
                Some((tensor.dims().first().copied().unwrap_or(0), tensor.bytes().len()))
            })?
        });
        let (rows, bytes) =
            sizes.fold((0, 0), |(rows, bytes), (n, size)| (rows + n as u64, bytes + size as u64));
        let (more_rows, more_bytes) = self.lookup.as_ref().map_or((0, 0), Lookup::size);
        let (rows, bytes) = (rows + more_rows, bytes + more_bytes);
        let slabs = self.slabs.values();
        slabs.fold((rows, bytes), |(rows, bytes), slab| {
            (rows + slab.n_rows() as u64, bytes + slab.n_bytes() as u64)
        })
    }
}

/// Moves a tensor to where trainers of this machine can read it.
fn move_into(value: &mut Value, room: &Room) {
    let Value::Tensor(tensor) = value else { return };
    if tensor.lender().is_some() {
        return;
    }
    if let Some(mut place) = room.tensor(tensor.bytes().len()) {
        place.copy_from(tensor);
        *tensor = place;
    }
}

/// Makes a value ready to be changed. While a trainer reads it, a copy is changed, which the next
/// one will read.
fn make_own(value: &mut Value, room: &Room) {
    value.unshare();
    let Value::Tensor(tensor) = value else { return };
    if !tensor.may_write() {
        let mut copy = room.tensor(tensor.bytes().len()).unwrap_or_default();
        copy.copy_from(tensor);
        *tensor = copy;
    }
}

fn declared<'a>(update: &'a Update, name: &str) -> Option<&'a VarDesc> {
    update.grads.iter().find(|grad| grad.name == name)
}

/// Whether a value is a gradient of this variable.
fn check_fits(var: &VarDesc, value: &Value) -> std::result::Result<(), String> {
    let dims = &var.meta.dims;
    let (actual, ids) = match value {
        Value::Tensor(tensor) => (tensor, None),
        Value::Rows(rows) => (&rows.value, Some(&rows.ids)),
        other => return Err(format!("{} is no gradient", other.kind())),
    };
    if actual.dtype() != var.meta.dtype {
        return Err(format!("{} came, {} is needed", actual.dtype(), var.meta.dtype));
    }
    let shape = actual.shape().to_i64();
    match ids {
        None if shape == *dims => Ok(()),
        None => Err(format!("shape {shape:?} came, {dims:?} is needed")),
        Some(_) if var.meta.kind != VarKind::SelectedRows => {
            Err("keyed rows came, a tensor is needed".to_string())
        }
        Some(ids) => {
            let height = dims.first().copied().unwrap_or(0);
            if shape.get(1..) != dims.get(1..) {
                return Err(format!("rows of shape {shape:?} came, the table is {dims:?}"));
            }
            match ids.iter().find(|&&id| id < 0 || id >= height) {
                Some(id) => Err(format!("row {id} came, the table has {height}")),
                None => Ok(()),
            }
        }
    }
}

fn height(value: &Value) -> i64 {
    match value {
        Value::Rows(rows) => rows.height,
        other => other.tensor().map_or(0, |t| t.dims().first().copied().unwrap_or(0)) as i64,
    }
}

fn gather(table: &Tensor, keys: &[i64]) -> std::result::Result<Tensor, String> {
    let width = table.shape().flatten_2d(1).1;
    let mut out = Tensor::default();
    let shape = Shape::from([keys.len(), width]);
    let fail = |what: &dyn std::fmt::Display| what.to_string();
    let found = match table.dtype() {
        DType::F32 => {
            let data = table.data::<f32>().map_err(|error| fail(&error))?;
            gather_rows((data, width), keys, None, out.resize::<f32>(shape))
        }
        DType::F64 => {
            let data = table.data::<f64>().map_err(|error| fail(&error))?;
            gather_rows((data, width), keys, None, out.resize::<f64>(shape))
        }
        other => return Err(format!("{other} tables cannot be looked up")),
    };
    found.map_err(|bad| format!("row {} was asked for, there are {}", bad.id, table.dims()[0]))?;
    Ok(out)
}

/// `param += delta`, for all or for some rows.
fn add_in_place(param: &mut Tensor, delta: &Value) -> Result<()> {
    let width = param.shape().flatten_2d(1).1;
    for_float!(param.dtype(), "param", T => {
        let table = param.data_mut::<T>()?;
        match delta {
            Value::Rows(rows) => {
                let values = rows.value.data::<T>()?;
                // Ids were checked before the difference was accepted.
                let _ = scatter_add_rows((table, width), &rows.ids, None, values);
            }
            other => {
                let values = other.tensor().map(|delta| delta.data::<T>()).transpose()?;
                for (x, delta) in table.iter_mut().zip(values.unwrap_or(&[])) {
                    *x += *delta;
                }
            }
        }
        program::Result::Ok(())
    })?;
    Ok(())
}

fn zeros(dtype: DType, dims: &[i64]) -> Tensor {
    let dims: Vec<usize> = dims.iter().map(|&dim| dim.max(0) as usize).collect();
    let mut tensor = Tensor::default();
    tensor.resize_as(dtype, Shape::new(&dims));
    tensor.bytes_mut().fill(0);
    tensor
}

fn empty_rows(grad: &VarDesc) -> Rows {
    let mut dims = grad.meta.dims.clone();
    let height = dims.first().copied().unwrap_or(0);
    if let Some(first) = dims.first_mut() {
        *first = 0;
    }
    Rows { ids: Vec::new(), height, value: zeros(grad.meta.dtype, &dims) }
}

fn counter(var: &VarDesc, steps: f64) -> Tensor {
    match var.meta.dtype {
        DType::I64 => Tensor::full([1], steps as i64),
        _ => Tensor::full([1], steps as f32),
    }
}
