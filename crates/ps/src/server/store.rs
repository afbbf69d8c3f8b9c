//! What a server needs of who holds its variables.

use std::sync::Arc;

use tensor::{Tensor, Value};

use super::Size;
use crate::ids::TrainerId;
use crate::message::{Held, LookUp, Named, Pull, Save};
use crate::refusal::Refusal;
use crate::shm::SharedMemory;

/// What a server holds. `train` implements it with a scope and the program's optimize blocks.
pub trait Store {
    /// Whether such a gradient can be taken; asked before it counts as accepted.
    fn check(&self, grad: &Named) -> Result<(), Refusal>;

    /// Applies a gradient at once.
    fn apply(&mut self, trainer: TrainerId, grad: Named) -> Result<(), String>;

    /// Applies a round: everybody's gradients, in the order of their ranks.
    fn round(&mut self, grads: Vec<(TrainerId, Vec<Named>)>) -> Result<(), String>;

    /// Current values.
    fn read(&mut self, trainer: TrainerId, pull: &Pull) -> Result<Vec<Arc<Value>>, Refusal>;

    /// Rows of a table.
    fn look_up(&mut self, look_up: &LookUp) -> Result<Tensor, Refusal>;

    /// Writes a table to disk, or what of that is asked for.
    fn save(&mut self, save: &Save) -> Result<(), Refusal>;

    /// Memory of gradients that were applied, for those to come.
    fn spare(&mut self) -> Vec<Tensor> {
        Vec::new()
    }

    /// Memory for values that are asked for: trainers of this machine read them there.
    fn set_room(&mut self, _room: &SharedMemory) {}

    /// What all tables hold.
    fn size(&self) -> Size;

    /// The parameters of this server, for trainers to be compared with; `None` if there is nothing to
    /// compare.
    fn params(&self) -> Option<Vec<Held>> {
        None
    }
}
