//! `ping`: the trainer learns how far the job is, and which trainers it waits for.

use std::collections::BTreeSet;

use wire::TrainerId;
use wire::message::{MISSING_MAX, Pong};

use super::{Asker, Server, notice};

pub(super) fn serve(server: &mut Server, asker: Asker) {
    let missing = missing(server);
    let is_absent = |&trainer: &u32| server.term.members.of(TrainerId(trainer)).is_absent();
    let absent = missing.iter().copied().filter(is_absent).collect();
    let round = server.term.rounds.applied();
    let notice = notice::notice(server);
    server.reply(asker.conn, asker.id, Pong { round, missing, absent, notice });
}

/// Trainers that a waiting request needs; the first of each kind.
fn missing(server: &Server) -> Vec<u32> {
    if server.term.waiting.is_empty()
        && server.term.all_gathers.is_empty()
        && server.term.all_to_all.is_empty()
    {
        return Vec::new();
    }
    let of_round = server.term.rounds.missing().take(MISSING_MAX);
    let of_all_gathers = server.term.all_gathers.missing().take(MISSING_MAX);
    let of_all_to_all = server.term.all_to_all.missing().take(MISSING_MAX);
    let all: BTreeSet<TrainerId> = of_round.chain(of_all_gathers).chain(of_all_to_all).collect();
    all.into_iter().map(|trainer| trainer.0).take(MISSING_MAX).collect()
}
