//! Trainers that wait for each other.

use std::collections::BTreeSet;

use wire::{Refusal, TrainerId};

use super::{Server, failure};

/// Ends the job if its trainers are in a deadlock: some wait in an all-gather, the others wait for
/// a round that those in it have not sent.
pub(super) fn check(server: &mut Server) {
    let nobody_waits = server.term.all_gathers.is_empty() || server.term.waiting.is_empty();
    if server.failure.is_some() || nobody_waits || server.term.rounds.is_running() {
        return;
    }
    // Checking every trainer is only worth it if these could be all of them.
    if server.term.all_gathers.n_here_max() + server.term.waiting.len()
        < server.term.members.n_active()
    {
        return;
    }
    let (active, absent) =
        (server.term.members.active(), server.term.all_gathers.missing().collect());
    let gathering: BTreeSet<TrainerId> = active.difference(&absent).copied().collect();
    let others: BTreeSet<TrainerId> = active.intersection(&absent).copied().collect();
    let waiting = server.term.waiting.values().map(|waiting| waiting.asker.trainer).collect();
    let missing: BTreeSet<TrainerId> = server.term.rounds.missing().collect();
    let all_wait = !gathering.is_empty() && !others.is_empty() && others.is_subset(&waiting);
    let for_all_gather = !missing.is_empty() && missing.is_subset(&gathering);
    if all_wait && for_all_gather {
        let ranks = |all: BTreeSet<TrainerId>| all.into_iter().map(|it| it.0).collect();
        let (gathering, round_of) = (ranks(gathering), ranks(others));
        let round = server.term.rounds.applied() + 1;
        failure::set(server, Refusal::Stuck { gathering, round_of, round });
    }
}
