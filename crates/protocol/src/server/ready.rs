//! `ready`: a trainer is at a boundary, with everything served, and waits to be told to go for a cut.

use wire::TrainerId;
use wire::message::{CancelCut, Ready, StartCut};

use super::cut_schedule::{Attempt, PAUSE_MS};
use super::{Asker, Server, cut_schedule};

/// A trainer is at a boundary, with everything served.
pub(super) fn serve(server: &mut Server, asker: Asker, ready: Ready) {
    let Asker { conn, trainer, id } = asker;
    let cut = ready.cut;
    if server.term.schedule.gone == Some(cut) {
        return server.reply(conn, id, StartCut { cut });
    }
    let takes_part = server.term.members.of(trainer).takes_part();
    let is_due = |attempt: &&mut Attempt| takes_part && attempt.next_cut.cut == cut;
    match server.term.schedule.attempt.as_mut().filter(is_due) {
        Some(attempt) => {
            attempt.ready.insert(trainer, asker);
            attempt.since.get_or_insert(server.clock.ticked);
            check(server);
            check_met(server);
        }
        None => server.reply(conn, id, CancelCut { cut }),
    }
}

/// Tells all trainers to go, if all are ready.
pub(super) fn check(server: &mut Server) {
    let n = server.term.members.n_taking_part();
    let is_ready = |attempt: &mut Attempt| n > 0 && attempt.ready.len() == n;
    let Some(attempt) = server.term.schedule.attempt.take_if(is_ready) else { return };
    let cut = attempt.next_cut.cut;
    (server.term.schedule.gone, server.term.schedule.went) = (Some(cut), Some(server.clock.now));
    for Asker { conn, id, .. } in attempt.ready.into_values() {
        server.reply(conn, id, StartCut { cut });
    }
}

/// Gives a cut up if the trainers that are not ready wait in an all-gather for those that are.
pub(super) fn check_met(server: &mut Server) {
    let Some(attempt) = &server.term.schedule.attempt else { return };
    // Checking every trainer is only worth it if these could be all of them.
    if attempt.ready.len() + server.term.all_gathers.n_waiting()
        < server.term.members.n_taking_part()
    {
        return;
    }
    let mut missing = server.term.members.taking_part();
    missing.retain(|trainer| !attempt.ready.contains_key(trainer));
    let waits = |trainer: &TrainerId| server.term.all_gathers.has(*trainer);
    if !attempt.ready.is_empty() && !missing.is_empty() && missing.iter().all(waits) {
        let now = server.clock.ticked;
        cut_schedule::cancel(server, now, PAUSE_MS);
    }
}
