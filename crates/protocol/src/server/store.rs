//! The interface between a server and the owner of its variables.

use std::sync::Arc;

use tensor::{Tensor, Value};
use wire::message::{Grad, LookUp, Pull, Save, VarInfo};
use wire::{Refusal, TrainerId, VarId};

use super::{ServerMemory, Size};
use crate::chunks::Chunks;

/// Tables that one thread changes in a round, one after the other.
#[derive(Debug, Default, PartialEq)]
pub struct Unit {
    /// The tables, in order.
    pub tables: Vec<TableGrads>,
}

/// The gradients of a table in a round.
#[derive(Debug, Default, PartialEq)]
pub struct TableGrads {
    /// The table, by the store's numbers.
    pub table: usize,
    /// The gradients of all trainers, in the order of their ranks.
    pub grads: Vec<Grad>,
}

/// The record that a store keeps with a cut, beside its own state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CutRecord {
    /// The cut. It was marked before.
    pub cut: u64,
    /// The term that it was made in.
    pub term: u64,
    /// The greatest cut that all servers have kept: older ones are never asked for again.
    pub complete: u64,
    /// The state that the server and its trainers need to continue from this cut.
    pub state: Chunks,
    /// The bytes to keep in addition to the journals of all earlier cuts: see [`Store::journal`].
    pub journal: Chunks,
}

/// A cut that was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WrittenCut {
    /// Bytes that went to disk for it.
    pub bytes: u64,
}

/// The state that a server finds on its disk when it starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OnDisk {
    /// The last term that was rolled back to; 0 if there was none.
    pub term: u64,
    /// Cuts that are whole, ascending.
    pub cuts: Vec<u64>,
    /// The `state` of the record of the last of them; empty if it cannot be read.
    pub state: Vec<u8>,
}

/// The data of a server. `train` implements it with the optimize blocks of the program. Threads use
/// it at the same time; it takes its own locks.
pub trait Store: Send + Sync {
    /// Every variable that trainers may name. Its position in this list is its number in all calls
    /// of the store. Parameters are compared with those of trainers.
    fn vars(&self) -> &[VarInfo];

    /// The name of a variable, for messages.
    fn name(&self, var: VarId) -> String {
        self.vars().get(var.0 as usize).map_or_else(String::new, |held| held.name.clone())
    }

    /// Whether such a gradient can be taken; asked before it counts as accepted.
    fn check(&self, grad: &Grad) -> Result<(), Refusal>;

    /// Applies a gradient at once.
    fn apply(&self, trainer: TrainerId, grad: Grad) -> Result<(), Refusal>;

    /// Begins a round: the gradients of all trainers, in the order of their ranks. The remaining
    /// work is returned as independent units, which threads apply in parallel. A store whose rounds
    /// are short applies everything here and returns no units.
    fn begin_round(&self, grads: Vec<(TrainerId, Vec<Grad>)>) -> Result<Vec<Unit>, Refusal>;

    /// Applies a unit of a round.
    fn apply_unit(&self, _unit: Unit) -> Result<(), Refusal> {
        Ok(())
    }

    /// Current values.
    fn read(&self, trainer: TrainerId, pull: &Pull) -> Result<Vec<Arc<Value>>, Refusal>;

    /// Rows of a table.
    fn look_up(&self, look_up: &LookUp) -> Result<Tensor, Refusal>;

    /// Writes a table to disk as it is at one moment, or what of that is asked for. Others go on
    /// changing it meanwhile.
    fn save(&self, save: &Save) -> Result<(), Refusal>;

    /// The memory that it shares with the connections of its server.
    fn memory(&self) -> ServerMemory {
        ServerMemory::default()
    }

    /// The size of all tables.
    fn size(&self) -> Size;

    /// The state on disk. Called once, before anything else; the rest of an unfinished write is not listed and may be removed.
    fn on_disk(&self) -> Result<OnDisk, Refusal> {
        Ok(OnDisk::default())
    }

    /// Cuts that can be brought back now, ascending, as far as is known: the newest of them.
    fn whole_cuts(&self) -> Vec<u64> {
        Vec::new()
    }

    /// Remembers the present state as this cut, in a short time for a state of any size. Nothing is under
    /// way; later changes are not in the cut. A mark replaces one before it that was not written.
    fn mark(&self, _cut: u64) -> Result<(), Refusal> {
        Err(no_cuts())
    }

    /// Writes the cut that was marked; it is durable when this returns. Takes long; others change the data
    /// meanwhile. Cuts older than `record.complete` may be removed, and nothing else. If it fails, the cut
    /// does not exist, and the next one contains the changes of this one, too.
    fn write_cut(&self, _record: &CutRecord) -> Result<WrittenCut, Refusal> {
        Err(no_cuts())
    }

    /// Makes the state that of a cut, and the term durable; returns the `state` of the cut's record. All
    /// cuts after it, and the marked one, are gone for ever when this returns: their numbers are used
    /// again. Takes long; the store is not used meanwhile. If it fails, all cuts are as they were, except
    /// those that turned out to be damaged: they are not listed again.
    fn roll_back(&self, _cut: u64, _term: u64) -> Result<Vec<u8>, Refusal> {
        Err(no_cuts())
    }

    /// The `journal`s of the records of all cuts up to this one that there ever were, one after the other
    /// without anything between them. Those of removed cuts are kept for it.
    fn journal(&self, _cut: u64) -> Result<Vec<u8>, Refusal> {
        Err(no_cuts())
    }
}

fn no_cuts() -> Refusal {
    Refusal::Failed("this server keeps no cuts".to_string())
}
