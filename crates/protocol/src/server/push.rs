//! `push`: gradients are applied at once, or checked and staged for their round.

use wire::message::{Grad, Push};
use wire::{Millis, Refusal, TrainerId};

use super::change::{self, Change, Progress};
use super::{Purpose, Server, Task};

pub(super) fn serve(
    server: &mut Server,
    change: Change,
    mut push: Push,
) -> Result<Progress, Refusal> {
    if let Some(failure) = &server.failure {
        return Err(failure.clone());
    }
    let trainer = change.trainer;
    let finite = server.config.check_finite;
    push.grads.iter_mut().try_for_each(|grad| server.vars.resolve(trainer, &mut grad.var))?;
    let n = push.grads.len() as u64;
    let task = if server.config.apply.waits() {
        Task::Check { trainer, grads: push.grads, finite }
    } else {
        server.term.staleness.push(trainer, &push, &mut server.stats);
        Task::Apply { trainer, grads: push.grads, finite }
    };
    server.run(Purpose::Push(change, n), task);
    Ok(Progress::UnderWay)
}

/// Gradients for a round were checked.
pub(super) fn checked(
    server: &mut Server,
    now: Millis,
    change: Change,
    checked: Result<Vec<Grad>, Refusal>,
) {
    let is_current = change::is_current(server, change);
    let staged = checked
        .and_then(|grads| if is_current { stage(server, change.trainer, grads) } else { Ok(()) });
    change::served(server, now, change, staged);
}

/// Gradients, `n_grads` of them, were applied.
pub(super) fn applied(
    server: &mut Server,
    now: Millis,
    change: Change,
    n_grads: u64,
    applied: Result<(), Refusal>,
) {
    server.stats.pushes += if applied.is_ok() { n_grads } else { 0 };
    change::served(server, now, change, applied);
}

/// Gradients for a round.
fn stage(server: &mut Server, trainer: TrainerId, grads: Vec<Grad>) -> Result<(), Refusal> {
    let n_bytes = grads.iter().map(Grad::n_bytes).sum();
    let held = server.hold(trainer, n_bytes)?;
    server.term.rounds.stage(trainer, grads, held)
}
