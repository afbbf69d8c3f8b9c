//! What a server needs of who holds its variables.

use std::sync::Arc;

use tensor::{Tensor, Value};

use super::{ServerMemory, Size};
use crate::ids::{TrainerId, VarId};
use crate::message::{Grad, Held, LookUp, Pull, Save};
use crate::refusal::Refusal;

/// Tables that one thread changes in a round, one after the other.
#[derive(Debug, Default, PartialEq)]
pub struct Unit {
    /// The tables, in their order.
    pub tables: Vec<TableGrads>,
}

/// The gradients of a table in a round.
#[derive(Debug, Default, PartialEq)]
pub struct TableGrads {
    /// The table, by the store's numbers.
    pub table: usize,
    /// Everybody's, in the order of their ranks.
    pub grads: Vec<Grad>,
}

/// What a server holds. `train` implements it with the program's optimize blocks. Threads work on it at
/// the same time; it locks what it must, for as long as it must.
pub trait Store: Send + Sync {
    /// Every variable that trainers may speak of. Its place in this list is its number in all that the
    /// store is asked; parameters are compared with those of trainers.
    fn vars(&self) -> &[Held];

    /// The name of a variable, for messages.
    fn name(&self, var: VarId) -> String {
        self.vars().get(var.0 as usize).map_or_else(String::new, |held| held.name.clone())
    }

    /// Whether such a gradient can be taken; asked before it counts as accepted.
    fn check(&self, grad: &Grad) -> Result<(), Refusal>;

    /// Applies a gradient at once.
    fn apply(&self, trainer: TrainerId, grad: Grad) -> Result<(), Refusal>;

    /// Begins a round: everybody's gradients, in the order of their ranks. What is left to do comes in
    /// units, of which none depends on another: threads apply them at the same time. A store whose
    /// rounds are short applies all of it here, and leaves none.
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

    /// What all tables hold.
    fn size(&self) -> Size;
}
