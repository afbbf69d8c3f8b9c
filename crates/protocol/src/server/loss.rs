//! Trainers that died: they are waited for, or the job continues without them, or fails.

use wire::{Refusal, TrainerId};

use super::{Action, Server, failure, leave};

/// A trainer died, and is waited for.
pub(super) fn wait_for(server: &mut Server, trainer: TrainerId) {
    let seconds = server.config.recover_ms / 1000;
    if let Refusal::TrainerLost { trainer, how, silent_ms, round } =
        server.term.members.of(trainer).loss(server.term.rounds.applied())
    {
        server.warn(format!(
            "trainer {trainer} died: {how} {silent_ms} ms ago, in round {round}; it is waited for, for {seconds} s"
        ));
    }
    if let Some(conn) = server.term.members.of(trainer).conn() {
        server.actions.push(Action::Close(conn));
    }
}

/// A trainer is dead: the job fails, or continues without it.
pub(super) fn lose(server: &mut Server, trainer: TrainerId) {
    let refusal = server.term.members.of(trainer).loss(server.term.rounds.applied());
    let goes_on = !server.config.apply.waits() || server.config.go_on;
    match &refusal {
        Refusal::TrainerLost { trainer, how, silent_ms, round } if goes_on => server.warn(format!(
            "trainer {trainer} died: {how} {silent_ms} ms ago, in round {round}; the others go on without it"
        )),
        other => server.warn(other.to_string()),
    }
    if let Some(conn) = server.term.members.of(trainer).conn() {
        server.actions.push(Action::Close(conn));
    }
    if server.failure.is_some() {
        return;
    }
    if !goes_on {
        return failure::set(server, refusal);
    }
    server.term.rounds.forget_open(trainer);
    leave::excuse_from_cuts(server, trainer);
    leave::settle(server, None);
}
