//! The tables of a server: a parameter with the state of its optimizer, and the block that changes both.
//!
//! A table has a scope and an executor of its own, so that tables do not wait for each other. What it
//! shares with others (a learning rate) is copied from the server's scope before each step.

mod cut;
mod describe;
mod rows;
mod saving;
mod slab;
mod tracking;
mod whole;

use std::collections::BTreeMap;
use std::sync::Arc;

use program::{VarDesc, VarKind};
use protocol::server::{ServerMemory, Size};
use tensor::{Tensor, Value};
use train::Scope;
use train::executor::{Executor, Feed};
use train::io::rows::Share;
use wire::message::{Grad, LookUp, Pull, Save};
use wire::{Refusal, SharedMemory, TrainerId, VarId};

pub(super) use cut::{CutChunk, ImportedValue, RowsImport, TableCut};
pub(super) use describe::RowTables;
pub(super) use saving::Files;
pub(super) use tracking::{Capture, Extent};
pub(super) use whole::Policy;

use super::blocks::Update;
use super::snapshot::{FileReader, Kind};
use super::values::{check_fits, empty_rows, make_own, move_into, zeros};
use crate::bad_snapshot::BadSnapshot;
use crate::error::Result;

/// A refusal, or what was asked for.
pub(super) type Answer<T> = std::result::Result<T, Refusal>;

/// One table; see the module.
pub(super) trait Table: Captured + Loaded + Send {
    /// What gradients it takes.
    fn accepts(&self) -> Vec<Accepts>;

    /// Rows of a variable by their numbers.
    fn look_up(&mut self, name: &str, look_up: &LookUp) -> Answer<Tensor>;

    /// Applies a gradient at once.
    fn apply(&mut self, trainer: TrainerId, grad: Grad) -> Result<()>;

    /// Applies the gradients of a round, which are in the order of ranks.
    fn round(&mut self, grads: Vec<Grad>) -> Result<()>;

    /// A variable as it is now; `pull` says whether all of it or what others changed.
    fn read(&mut self, trainer: TrainerId, var: AskedVar<'_>, pull: &Pull) -> Answer<Arc<Value>>;

    /// The files of a save.
    fn files(&self, save: &Save) -> Files;

    /// What it holds.
    fn size(&self) -> Size;

    /// Its part that all tables have.
    fn updater(&mut self) -> &mut Updater;
}

/// A table as it is at one moment, read bit by bit while others go on changing it: the only way in which cuts, saves and
/// the servers that take over read one.
pub(super) trait Captured {
    /// From now on what changes is noted, for cuts.
    fn track(&mut self);

    /// Bytes that a cut of this extent would have, about.
    fn n_cut_bytes(&self, extent: Extent) -> u64;

    /// Captures the table as it is now, or what changed. Nothing is copied or listed, however many rows there are: others
    /// wait meanwhile.
    fn mark(&mut self, extent: Extent) -> TableCut;

    /// The next part of a capture that is not in `cut` itself.
    fn next_chunk(&mut self, cut: &mut TableCut) -> CutChunk;

    /// The bytes of rows of a variable of a save, by their places in the index; variables are asked for one after the
    /// other. `None` if it is not saved by rows, or the capture was given up.
    fn rows_at(&mut self, _cut: &TableCut, _var: usize, _places: &[u32]) -> Option<Vec<u8>> {
        None
    }

    /// Ends a capture; if a cut is not durable, the next one has all of it too. What was held for it may be much: it is
    /// dropped where nobody waits.
    fn end_cut(&mut self, cut: TableCut, is_durable: bool) -> Option<Capture>;
}

/// A table that takes what others have captured: its own files, or those of other servers.
pub(super) trait Loaded {
    /// Begins to load a cut: what is being written of others is given up.
    fn begin_load(&mut self);

    /// Takes a section of a file.
    fn load(&mut self, kind: Kind, file: &mut FileReader) -> std::result::Result<(), BadSnapshot>;

    /// All files were read; the error is what is missing.
    fn end_load(&mut self) -> std::result::Result<(), &'static str>;

    /// Variables that have only the rows that exist, in their order.
    fn row_vars(&self) -> Vec<String> {
        Vec::new()
    }

    /// Takes the bytes of a variable from other snapshots; the error is what is wrong with them.
    fn import_value(&mut self, value: &ImportedValue<'_>) -> std::result::Result<(), &'static str>;

    /// Takes rows from other snapshots.
    fn import_rows(&mut self, _rows: &RowsImport<'_>) -> std::result::Result<(), &'static str> {
        Err("a table is kept in another way")
    }

    /// All trainers have seen all rows, as far as is known.
    fn forget_unseen(&mut self) {}

    /// Notes rows that a trainer has not seen, from other snapshots.
    fn import_unseen(&mut self, _trainer: TrainerId, _name: &str, _rows: &[i64]) {}
}

/// A variable that was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct AskedVar<'a> {
    pub(super) id: VarId,
    pub(super) name: &'a str,
}

/// A gradient that a table takes. It never changes, so it is read without a lock.
pub(super) struct Accepts {
    pub(super) var: VarDesc,
    /// Rows that are here; all if it does not say.
    pub(super) share: Option<Share>,
}

impl Accepts {
    /// Whether a value is such a gradient.
    pub(super) fn check(&self, value: &Value) -> Answer<()> {
        let bad = |detail| Refusal::BadValue { var: self.var.name.clone(), detail };
        check_fits(&self.var, value).map_err(bad)?;
        let (Value::Rows(rows), Some(share)) = (value, &self.share) else { return Ok(()) };
        match rows.ids.iter().find(|&&row| !share.has(row.saturating_add(share.first()))) {
            Some(row) => Err(bad(format!("row {row} came, which another server has"))),
            None => Ok(()),
        }
    }
}

/// What every table has: its variables and the block that changes them.
pub(super) struct Updater {
    pub(super) update: Update,
    pub(super) scope: Scope,
    executor: Executor,
    /// The server's variables; those that `shared` names are copied from there, and back if they
    /// change.
    pub(super) server: Scope,
    shared: Vec<Shared>,
    numbers: TableNumbers,
    /// Values that were asked for and have not changed since.
    cache: BTreeMap<VarId, Arc<Value>>,
    /// Variables that cuts have as a whole.
    kept: Vec<KeptVar>,
    memory: ServerMemory,
}

/// A variable of which cuts have the whole value.
#[derive(Debug)]
struct KeptVar {
    name: String,
    /// The block writes it.
    is_written: bool,
    /// It has changed since the last cut.
    is_changed: bool,
}

/// What the store calls the variables of a table.
#[derive(Debug, Default)]
struct TableNumbers {
    /// The first of its gradients; the others follow.
    first_grad: u32,
    /// Those that it changes, in their order; none if they are shared.
    writes: Vec<Option<VarId>>,
}

/// How large a variable is.
pub(super) struct VarSize {
    pub(super) rows: u64,
    pub(super) bytes: u64,
}

/// A variable that others use too.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) name: String,
    pub(super) is_written: bool,
}

impl Updater {
    /// Moves the variables that are the table's own out of the server's scope.
    pub(super) fn new(
        update: Update,
        shared: Vec<Shared>,
        server: &Scope,
        memory: &ServerMemory,
    ) -> Self {
        let scope = Scope::new();
        for name in update.names() {
            let is_shared = shared.iter().any(|shared| shared.name == name);
            if !is_shared && server.find(name).is_some() {
                scope.set(name, server.write(name, std::mem::take));
            }
        }
        Self {
            update,
            scope,
            executor: Executor::new(),
            server: server.clone(),
            shared,
            numbers: TableNumbers::default(),
            cache: BTreeMap::new(),
            kept: Vec::new(),
            memory: memory.clone(),
        }
    }

    /// Its gradients have numbers from `first_grad` on, and other variables those that `id_of` says.
    pub(super) fn number(&mut self, first_grad: u32, id_of: impl Fn(&str) -> Option<VarId>) {
        let writes = self.update.writes.iter().map(|name| id_of(name)).collect();
        self.numbers = TableNumbers { first_grad, writes };
    }

    /// Which of its gradients this is.
    fn slot(&self, grad: &Grad) -> usize {
        grad.var.0.saturating_sub(self.numbers.first_grad) as usize
    }

    /// Gives the server's scope its variables back.
    pub(super) fn give_back(&mut self) {
        for name in self.scope.names() {
            if self.shared.iter().all(|shared| shared.name != name) {
                self.server.set(&name, self.scope.write(&name, std::mem::take));
            }
        }
    }

    /// Runs the block on the gradients that were placed.
    pub(super) fn run(&mut self) -> Result<()> {
        for (name, id) in self.update.writes.iter().zip(&self.numbers.writes) {
            id.map(|id| self.cache.remove(&id));
            if self.scope.find(name).is_some() {
                self.scope.write(name, |value| make_own(value, self.memory.shared()));
            }
        }
        self.note_step();
        for Shared { name, .. } in &self.shared {
            self.server.read(name, |theirs| self.scope.write(name, |own| copy(theirs, own)));
        }
        self.executor.run(&self.update.program, &self.scope, &mut Feed::default(), &[])?;
        for Shared { name, .. } in self.shared.iter().filter(|shared| shared.is_written) {
            self.scope.read(name, |own| self.server.write(name, |theirs| copy(own, theirs)));
        }
        Ok(())
    }

    /// Puts a gradient where the block looks for it.
    pub(super) fn place(&mut self, grad: Grad) {
        let slot = self.slot(&grad);
        let mut value = grad.value;
        if let Some(var) = self.update.grads.get(slot) {
            self.scope.write(&var.name, |old| std::mem::swap(old, &mut value));
        }
        self.recycle(value);
    }

    /// Keeps the memory of a gradient for those to come.
    pub(super) fn recycle(&self, value: Value) {
        self.memory.recycle(value);
    }

    /// For each gradient, whether it is among these.
    pub(super) fn placed(&self, grads: &[Grad]) -> Vec<bool> {
        let mut placed = vec![false; self.update.grads.len()];
        for grad in grads {
            if let Some(is_placed) = placed.get_mut(self.slot(grad)) {
                *is_placed = true;
            }
        }
        placed
    }

    /// A trainer that is gone, or sent nothing, has gradients of zero.
    pub(super) fn place_zeros(&self, placed: &[bool]) {
        let all = self.update.grads.iter().zip(placed);
        for (grad, _) in all.filter(|(_, is_placed)| !**is_placed) {
            self.scope.write(&grad.name, |value| {
                *value = match grad.meta.kind {
                    VarKind::SelectedRows => Value::Rows(empty_rows(grad)),
                    _ => Value::Tensor(zeros(grad.meta.dtype, &grad.meta.dims)),
                };
            });
        }
    }

    /// The gradients that it takes.
    pub(super) fn accepts(&self, share: Option<&Share>) -> Vec<Accepts> {
        let accepts = |var: &VarDesc| Accepts { var: var.clone(), share: share.cloned() };
        self.update.grads.iter().map(accepts).collect()
    }

    /// The sizes of the parameter and its states, of those that are wanted.
    pub(super) fn sizes(&self, wanted: impl Fn(&str) -> bool) -> Vec<VarSize> {
        let size = |value: &Value| {
            let tensor = value.tensor()?;
            let n_rows = tensor.dims().first().copied().unwrap_or(0);
            Some(VarSize { rows: n_rows as u64, bytes: tensor.bytes().len() as u64 })
        };
        let held = self.update.holds().into_iter().filter(|name| wanted(name));
        held.filter_map(|name| self.scope.read(name, size)?).collect()
    }

    /// Says from whom the gradient is that comes next, where the block asks.
    pub(super) fn name_trainer(&self, trainer: TrainerId) {
        for name in &self.update.trainer_ids {
            self.scope.set(name, Tensor::full([1], i64::from(trainer.0)));
        }
    }

    /// Changes the variables that the block would, without it: what was answered of them is old.
    pub(super) fn change(&mut self, change: impl Fn(&mut Value) -> Result<()>) -> Result<()> {
        self.note_step();
        for (name, id) in self.update.writes.iter().zip(&self.numbers.writes) {
            id.map(|id| self.cache.remove(&id));
            self.scope.write(name, |value| {
                make_own(value, self.memory.shared());
                change(value)
            })?;
        }
        Ok(())
    }

    /// What the block writes has changed, or will.
    fn note_step(&mut self) {
        for var in self.kept.iter_mut().filter(|var| var.is_written) {
            var.is_changed = true;
        }
    }

    /// A variable has changed, or will.
    pub(super) fn note_change(&mut self, name: &str) {
        if let Some(var) = self.kept.iter_mut().find(|var| var.name == name) {
            var.is_changed = true;
        }
    }

    /// A variable as it is now. Tensors are lent, not copied. An update takes a tensor back before
    /// it changes it.
    pub(super) fn value(&mut self, var: AskedVar<'_>, is_asked_again: bool) -> Answer<Arc<Value>> {
        if let Some(value) = self.cache.get(&var.id) {
            return Ok(value.clone());
        }
        let value = lend(&self.scope, var.name, is_asked_again.then_some(self.memory.shared()))?;
        self.cache.insert(var.id, value.clone());
        Ok(value)
    }

    /// The parameter as it is now, lent likewise.
    pub(super) fn param_value(&mut self) -> Option<Arc<Value>> {
        let name = self.update.param().map(|param| param.name.clone())?;
        let at = self.update.writes.iter().position(|written| *written == name);
        match at.and_then(|at| self.numbers.writes[at]) {
            Some(id) => self.value(AskedVar { id, name: &name }, true).ok(),
            None => lend(&self.scope, &name, Some(self.memory.shared())).ok(),
        }
    }
}

/// Lends a variable of a scope, from shared memory if there is any.
pub(super) fn lend(scope: &Scope, name: &str, memory: Option<&SharedMemory>) -> Answer<Arc<Value>> {
    // A name that nobody knows must not become one.
    if scope.read(name, Value::is_empty).unwrap_or(true) {
        return Err(Refusal::UnknownVar(name.to_string()));
    }
    Ok(Arc::new(scope.write(name, |value| {
        if let Some(memory) = memory {
            move_into(value, memory);
        }
        match value.share() {
            Some(tensor) => Value::Shared(tensor),
            None => value.clone(),
        }
    })))
}

/// Copies a small value into memory that is there.
fn copy(from: &Value, to: &mut Value) {
    match (from.tensor(), &mut *to) {
        (Some(from), Value::Tensor(to)) => to.copy_from(from),
        (Some(from), to) => *to = Value::Tensor(from.clone()),
        (None, to) => *to = from.clone(),
    }
}
