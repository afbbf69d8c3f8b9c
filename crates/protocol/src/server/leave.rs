//! `complete` and `leave`: a trainer ends its job, or its process ends without having done so.

use wire::{Refusal, TrainerId};

use super::change::{Change, Progress};
use super::members::Membership;
use super::{Server, all_to_all, barrier, cut, ready};

/// Serves `complete`.
pub(super) fn complete(server: &mut Server, change: Change) -> Result<Progress, Refusal> {
    server.inform(format!("{} completed", change.trainer));
    Ok(go(server, change, Membership::Completed))
}

/// Serves `leave`.
pub(super) fn serve(server: &mut Server, change: Change) -> Result<Progress, Refusal> {
    let trainer = change.trainer;
    if !(server.config.recovers && server.term.members.of(trainer).has_completed()) {
        server.warn(format!("{trainer} left without completing its job"));
    }
    Ok(go(server, change, Membership::Left))
}

/// A trainer is no longer waited for.
fn go(server: &mut Server, change: Change, membership: Membership) -> Progress {
    server.term.members.go(change.trainer, membership, server.clock.now);
    server.term.excuse(change.trainer);
    server.term.rounds.forget_open(change.trainer);
    excuse_from_cuts(server, change.trainer);
    settle(server, Some(change))
}

/// After a trainer is gone: continues what waited only for that trainer.
pub(super) fn settle(server: &mut Server, change: Option<Change>) -> Progress {
    for (asker, result) in server.term.all_gathers.settle() {
        server.reply(asker.conn, asker.id, result);
    }
    all_to_all::settle(server);
    cut::check(server);
    ready::check(server);
    match server.failure {
        None => barrier::end_round(server, change),
        Some(_) => Progress::Served,
    }
}

/// A trainer that is gone sends no part of a cut. A trainer that has completed stays a member
/// until a cut contains that.
pub(super) fn excuse_from_cuts(server: &mut Server, trainer: TrainerId) {
    if !server.term.members.of(trainer).takes_part() {
        server.term.cuts.excuse(trainer);
        server.term.schedule.excuse(trainer);
    }
}

/// A trainer that had completed has left.
pub(super) fn leave_cuts(server: &mut Server, trainer: TrainerId) {
    excuse_from_cuts(server, trainer);
    settle(server, None);
}
