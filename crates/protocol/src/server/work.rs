//! Work on data: what the state machine wants done and does not do itself.
//!
//! The driver of the server runs the work on the [`Store`], on any thread and at any time, and
//! returns the outcome ([`super::Server::done`]). So the state machine never waits for data, for a
//! file or for the lock of a table.

use std::sync::Arc;

use metrics::Seconds;
use tensor::{Tensor, Value};
use wire::message::{Grad, LookUp, Pull, Save};
use wire::{Refusal, TrainerId};

use super::cut_state::journal_of;
use super::{CutRecord, Size, Store, Unit, WrittenCut};
use crate::counters::SERVER;

/// Something to do with the data.
#[derive(Debug)]
pub struct Work {
    pub(super) id: u64,
    pub(super) task: Task,
}

/// Something to do with the data.
#[derive(Debug)]
pub(super) enum Task {
    /// Looks whether gradients can be taken, and hands them back for their round.
    Check {
        trainer: TrainerId,
        grads: Vec<Grad>,
        finite: bool,
    },
    /// Checks gradients and applies them at once.
    Apply {
        trainer: TrainerId,
        grads: Vec<Grad>,
        finite: bool,
    },
    /// Applies a round: the gradients of all trainers, in the order of their ranks. If the round
    /// has several units, this only begins it.
    Round(Vec<(TrainerId, Vec<Grad>)>),
    /// Applies a unit of a round that was begun.
    Unit(Unit),
    Read(TrainerId, Pull),
    LookUp(LookUp),
    Save(Save),
    Size,
    /// Remembers the state as this cut.
    Mark(u64),
    WriteCut(CutRecord),
    RollBack {
        cut: u64,
        term: u64,
    },
    /// Reads what a trainer gave to the journal up to this cut.
    Journal {
        trainer: TrainerId,
        cut: u64,
    },
}

/// The outcome of work.
#[derive(Debug)]
pub struct WorkDone {
    pub(super) id: u64,
    pub(super) outcome: Outcome,
}

#[derive(Debug)]
pub(super) enum Outcome {
    /// Gradients that are in order.
    Checked(Result<Vec<Grad>, Refusal>),
    /// Gradients were applied, a round was, or a table was saved.
    Served(Result<(), Refusal>),
    /// A round was begun, and has these units.
    Begun(Vec<Unit>),
    Values(Result<Vec<Arc<Value>>, Refusal>),
    Rows(Result<Tensor, Refusal>),
    Size(Size),
    Written(OfCuts<WrittenCut>),
    /// The state that was kept with a loaded cut.
    Loaded(OfCuts<Vec<u8>>),
    /// A trainer's contribution to a journal.
    Recalled(OfCuts<Vec<u8>>),
}

/// The outcome of work on cuts.
#[derive(Debug)]
pub(super) struct OfCuts<T> {
    pub(super) result: Result<T, Refusal>,
    /// Cuts that can be brought back now, ascending.
    pub(super) whole: Vec<u64>,
}

impl<T> OfCuts<T> {
    fn new(store: &impl Store, result: Result<T, Refusal>) -> Self {
        Self { result, whole: store.whole_cuts() }
    }
}

impl Work {
    /// Whether it takes long and only its sender waits for it: it gets its own thread.
    pub fn is_long(&self) -> bool {
        matches!(self.task, Task::Save(_)) || self.is_of_cuts()
    }

    /// Whether it reads or writes cuts, which also takes long: it gets another thread.
    pub fn is_of_cuts(&self) -> bool {
        matches!(self.task, Task::WriteCut(_) | Task::RollBack { .. } | Task::Journal { .. })
    }

    /// Whether it is a unit of a round: free threads should help with the others.
    pub fn is_unit(&self) -> bool {
        matches!(self.task, Task::Unit(_))
    }

    /// The work, in a word for logs.
    pub fn name(&self) -> &'static str {
        match &self.task {
            Task::Check { .. } => "check gradients",
            Task::Apply { .. } => "apply gradients",
            Task::Round(_) => "apply a round",
            Task::Unit(_) => "apply a part of a round",
            Task::Read(..) => "read parameters",
            Task::LookUp(_) => "find rows",
            Task::Save(_) => "save a table",
            Task::Size => "measure",
            Task::Mark(_) => "mark a cut",
            Task::WriteCut(_) => "write a cut",
            Task::RollBack { .. } => "go back to a cut",
            Task::Journal { .. } => "read a journal",
        }
    }

    /// Whether it happens at most once in a step of a job.
    pub fn is_rare(&self) -> bool {
        self.is_long() || matches!(self.task, Task::Round(_) | Task::Mark(_))
    }

    /// The keys of rows that it finds.
    pub fn keys(&self) -> Option<&[i64]> {
        match &self.task {
            Task::LookUp(look_up) => Some(&look_up.keys),
            _ => None,
        }
    }

    /// Where its time is counted.
    pub fn counted(&self) -> Option<&'static Seconds> {
        match &self.task {
            Task::Read(..) | Task::LookUp(_) => Some(&SERVER.finding_seconds),
            Task::Check { .. } | Task::Apply { .. } | Task::Round(_) | Task::Unit(_) => {
                Some(&SERVER.applying_seconds)
            }
            Task::Save(_)
            | Task::Mark(_)
            | Task::WriteCut(_)
            | Task::RollBack { .. }
            | Task::Journal { .. } => Some(&SERVER.saving_seconds),
            Task::Size => None,
        }
    }

    /// Does it.
    pub fn run(self, store: &impl Store) -> WorkDone {
        let outcome = match self.task {
            Task::Check { trainer, grads, finite } => {
                Outcome::Checked(check(store, trainer, &grads, finite).map(|()| grads))
            }
            Task::Apply { trainer, grads, finite } => {
                let checked = check(store, trainer, &grads, finite);
                let mut grads = grads.into_iter();
                Outcome::Served(
                    checked.and_then(|()| grads.try_for_each(|grad| store.apply(trainer, grad))),
                )
            }
            Task::Round(grads) => round(store, grads),
            Task::Unit(unit) => Outcome::Served(store.apply_unit(unit)),
            Task::Read(trainer, pull) => Outcome::Values(store.read(trainer, &pull)),
            Task::LookUp(look_up) => Outcome::Rows(store.look_up(&look_up)),
            Task::Save(save) => Outcome::Served(store.save(&save)),
            Task::Size => Outcome::Size(store.size()),
            Task::Mark(cut) => Outcome::Served(store.mark(cut)),
            Task::WriteCut(record) => {
                Outcome::Written(OfCuts::new(store, store.write_cut(&record)))
            }
            Task::RollBack { cut, term } => {
                Outcome::Loaded(OfCuts::new(store, store.roll_back(cut, term)))
            }
            Task::Journal { trainer, cut } => Outcome::Recalled(recalled(store, trainer, cut)),
        };
        WorkDone { id: self.id, outcome }
    }
}

/// A trainer's contributions to journals up to a cut. A journal that cannot be decoded is useless, even if its bytes are intact.
fn recalled(store: &impl Store, trainer: TrainerId, cut: u64) -> OfCuts<Vec<u8>> {
    let read = store.journal(cut);
    let own = read.as_ref().ok().map(|all| journal_of(all, trainer));
    match own {
        Some(Err(error)) => {
            let mut misread = OfCuts::new(store, Err(Refusal::Failed(error.to_string())));
            misread.whole.retain(|&whole| whole < cut);
            misread
        }
        Some(Ok(own)) => OfCuts::new(store, Ok(own)),
        None => OfCuts::new(store, read),
    }
}

/// Applies a round, or begins it if there is something to do for several threads.
fn round(store: &impl Store, grads: Vec<(TrainerId, Vec<Grad>)>) -> Outcome {
    match store.begin_round(grads) {
        Ok(units) if units.len() > 1 => Outcome::Begun(units),
        Ok(units) => Outcome::Served(units.into_iter().try_for_each(|unit| store.apply_unit(unit))),
        Err(refusal) => Outcome::Served(Err(refusal)),
    }
}

/// Whether gradients can be taken, all of them.
fn check(
    store: &impl Store,
    trainer: TrainerId,
    grads: &[Grad],
    finite: bool,
) -> Result<(), Refusal> {
    for grad in grads {
        store.check(grad)?;
        if finite && !grad.is_finite() {
            return Err(Refusal::NotFinite { var: store.name(grad.var), trainer: trainer.0 });
        }
    }
    Ok(())
}
