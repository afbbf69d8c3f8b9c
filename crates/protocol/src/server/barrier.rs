//! `barrier`: a trainer closes its part of a round; the last one has the round applied.

use wire::message::Barrier;
use wire::{Millis, Refusal};

use super::change::{self, Change, Progress};
use super::{Purpose, Server, Task, Unit, failure, question, stuck};

/// A round of which several units are being applied.
#[derive(Debug)]
pub(super) struct UnitsRunning {
    n_left: usize,
    /// The change that is served with the last of them.
    change: Option<Change>,
    /// Why one of them failed.
    refusal: Option<Refusal>,
}

pub(super) fn serve(
    server: &mut Server,
    change: Change,
    barrier: Barrier,
) -> Result<Progress, Refusal> {
    if let Some(failure) = &server.failure {
        return Err(failure.clone());
    }
    if !server.config.apply.waits() {
        return Ok(Progress::Served);
    }
    let trainer = change.trainer;
    let round = barrier.round;
    if !server.term.rounds.close(trainer, round)? {
        server.inform(format!(
            "{trainer} was started again: its part of round {round} is here already and stays as it is"
        ));
    }
    Ok(end_round(server, Some(change)))
}

/// Has the next round applied, if all active trainers have closed it and none is being applied.
pub(super) fn end_round(server: &mut Server, change: Option<Change>) -> Progress {
    let grads = server.term.rounds.begin(|trainer| server.term.members.of(trainer).is_active());
    let Some(grads) = grads else { return Progress::Served };
    server.stats.pushes += grads.iter().map(|(_, grads)| grads.len() as u64).sum::<u64>();
    server.run(Purpose::Round(change), Task::Round(grads));
    Progress::UnderWay
}

/// A round was begun: its units are done in any order, and it ends with the last.
pub(super) fn run_units(server: &mut Server, change: Option<Change>, units: Vec<Unit>) {
    server.term.units = Some(UnitsRunning { n_left: units.len(), change, refusal: None });
    units.into_iter().for_each(|unit| server.run(Purpose::Unit, Task::Unit(unit)));
}

pub(super) fn unit_done(server: &mut Server, now: Millis, applied: Result<(), Refusal>) {
    let Some(units) = &mut server.term.units else { return };
    units.n_left -= 1;
    units.refusal = units.refusal.take().or(applied.err());
    if units.n_left == 0
        && let Some(UnitsRunning { change, refusal, .. }) = server.term.units.take()
    {
        round_done(server, now, change, refusal.map_or(Ok(()), Err));
    }
}

/// A round was applied: the requests that waited for it are answered.
pub(super) fn round_done(
    server: &mut Server,
    now: Millis,
    change: Option<Change>,
    applied: Result<(), Refusal>,
) {
    match &applied {
        Ok(()) => {
            server.term.rounds.finish();
            question::answer_waiting(server);
            end_round(server, None);
            stuck::check(server);
        }
        Err(refusal) => failure::set(server, refusal.clone()),
    }
    if let Some(change) = change {
        change::served(server, now, change, applied);
    }
}
