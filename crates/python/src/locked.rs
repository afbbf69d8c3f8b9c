//! A locked program; a run during the lock keeps the program that it had.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, MutexGuard};

use program::Program;

/// A program held for a moment, to look at or to change.
pub(crate) struct LockedProgram<'a>(pub(crate) MutexGuard<'a, Arc<Program>>);

impl Deref for LockedProgram<'_> {
    type Target = Program;

    fn deref(&self) -> &Program {
        &self.0
    }
}

impl DerefMut for LockedProgram<'_> {
    fn deref_mut(&mut self) -> &mut Program {
        Arc::make_mut(&mut self.0)
    }
}
