//! Changes: gradients, the end of a part of a round, the end of a trainer.

use super::members::Membership;
use super::{Action, Asker, Change, Purpose, Server, Task, Unit, UnitsRunning, Waiting};
use crate::ids::{Millis, TrainerId};
use crate::message::{Ack, Push, Request};
use crate::refusal::Refusal;

/// How far a change got.
pub(super) enum Progress {
    Served,
    /// It is served when work under way is done.
    UnderWay,
}

impl Server {
    /// Serves a change once, in order; a repeated one is acknowledged and not served.
    pub(super) fn change(&mut self, now: Millis, asker: Asker, request: Request) {
        let Asker { conn, trainer, id: seq } = asker;
        let accepted = self.members.accepted(trainer);
        if seq != accepted + 1 {
            self.stats.repeated += u64::from(seq <= accepted);
            if let Some((seq, refusal)) = self.members.refused(trainer) {
                return self.reply(conn, seq, refusal);
            }
            // After a gap the trainer learns what is missing, and sends again from there.
            return self.reply(conn, accepted, Ack);
        }
        self.members.accept(trainer, seq);
        let change = Change { trainer, incarnation: self.members.incarnation(trainer), seq };
        let progress = match request {
            Request::Push(push) => self.push(change, push),
            Request::Barrier(barrier) => self.barrier(change, barrier.round),
            Request::Cut(piece) => self.part_of_cut(change, piece),
            Request::Complete(_) => {
                self.inform(format!("{trainer} completed"));
                self.go(now, change, Membership::Completed)
            }
            _ => {
                if !(self.config.recovers && self.members.has_completed(trainer)) {
                    self.warn(format!("{trainer} left without completing its job"));
                }
                self.go(now, change, Membership::Left)
            }
        };
        match progress {
            Ok(Progress::Served) => self.served(now, change, Ok(())),
            Ok(Progress::UnderWay) => {
                self.busy.entry(trainer).or_default();
            }
            Err(refusal) => self.served(now, change, Err(refusal)),
        }
    }

    /// Whether the process that sent a change still has its rank.
    pub(super) fn is_current(&self, change: Change) -> bool {
        self.members.incarnation(change.trainer) == change.incarnation
    }

    /// Says what became of a change, where its trainer is now.
    pub(super) fn served(&mut self, now: Millis, change: Change, served: Result<(), Refusal>) {
        let Change { trainer, seq, .. } = change;
        if let Err(refusal) = &served {
            self.warn(format!("{trainer}: {refusal}"));
        }
        if self.is_current(change) {
            if let Err(refusal) = &served {
                self.members.refuse(trainer, seq, refusal.clone());
            }
            if let Some(conn) = self.members.conn(trainer) {
                match served {
                    Ok(()) => self.reply(conn, seq, Ack),
                    Err(refusal @ Refusal::TooMuch { .. }) => self.cut_off(conn, seq, refusal),
                    Err(refusal) => self.reply(conn, seq, refusal),
                }
            }
        }
        self.next_turn(now, trainer);
    }

    fn push(&mut self, change: Change, mut push: Push) -> Result<Progress, Refusal> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let (trainer, finite) = (change.trainer, self.config.check_finite);
        self.vars.resolve_push(trainer, &mut push)?;
        let n = push.grads.len() as u64;
        let task = match self.config.apply.waits() {
            true => Task::Check { trainer, grads: push.grads, finite },
            false => {
                self.staleness.push(trainer, &push, &mut self.stats);
                Task::Apply { trainer, grads: push.grads, finite }
            }
        };
        self.run(Purpose::Push(change, n), task);
        Ok(Progress::UnderWay)
    }

    fn barrier(&mut self, change: Change, round: u64) -> Result<Progress, Refusal> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        if !self.config.apply.waits() {
            return Ok(Progress::Served);
        }
        let trainer = change.trainer;
        if !self.rounds.close(trainer, round)? {
            self.inform(format!(
                "{trainer} was started again: its part of round {round} is here already and stays as it is"
            ));
        }
        Ok(self.end_round(Some(change)))
    }

    /// Has the next round applied, if all active trainers have closed it and none is being applied.
    fn end_round(&mut self, change: Option<Change>) -> Progress {
        let grads = self.rounds.begin(|trainer| self.members.is_active(trainer));
        let Some(grads) = grads else { return Progress::Served };
        self.stats.pushes += grads.iter().map(|(_, grads)| grads.len() as u64).sum::<u64>();
        self.run(Purpose::Round(change), Task::Round(grads));
        Progress::UnderWay
    }

    /// A round was begun: its units are done in any order, and it ends with the last.
    pub(super) fn run_units(&mut self, change: Option<Change>, units: Vec<Unit>) {
        self.units = Some(UnitsRunning { n_left: units.len(), change, refusal: None });
        units.into_iter().for_each(|unit| self.run(Purpose::Unit, Task::Unit(unit)));
    }

    pub(super) fn unit_done(&mut self, now: Millis, applied: Result<(), Refusal>) {
        let Some(units) = &mut self.units else { return };
        units.n_left -= 1;
        units.refusal = units.refusal.take().or(applied.err());
        if units.n_left == 0
            && let Some(UnitsRunning { change, refusal, .. }) = self.units.take()
        {
            self.round_done(now, change, refusal.map_or(Ok(()), Err));
        }
    }

    /// A round was applied: who waited for it is answered.
    pub(super) fn round_done(
        &mut self,
        now: Millis,
        change: Option<Change>,
        applied: Result<(), Refusal>,
    ) {
        match &applied {
            Ok(()) => {
                self.rounds.finish();
                self.answer_waiting();
                self.end_round(None);
                self.check_stuck();
            }
            Err(refusal) => self.set_failure(refusal.clone()),
        }
        if let Some(change) = change {
            self.served(now, change, applied);
        }
    }

    fn answer_waiting(&mut self) {
        let (apply, applied) = (self.config.apply, self.rounds.applied());
        let is_ready = |waiting: &Waiting| apply.answers(waiting.after, applied);
        let all = std::mem::take(&mut self.waiting).into_iter();
        let (now, later): (Vec<_>, Vec<_>) = all.partition(|(_, waiting)| is_ready(waiting));
        self.waiting = later.into_iter().collect();
        for (_, Waiting { asker, question, .. }) in now {
            self.give(asker, question);
        }
    }

    /// A trainer is no longer waited for.
    fn go(
        &mut self,
        now: Millis,
        change: Change,
        membership: Membership,
    ) -> Result<Progress, Refusal> {
        self.members.go(change.trainer, membership, now);
        self.excuse(change.trainer);
        self.rounds.forget_open(change.trainer);
        self.excuse_from_cuts(change.trainer);
        Ok(self.settle(Some(change)))
    }

    /// After a trainer is gone: continues what waited only for that trainer.
    fn settle(&mut self, change: Option<Change>) -> Progress {
        for (asker, result) in self.all_gathers.settle() {
            self.reply(asker.conn, asker.id, result);
        }
        self.settle_all_to_all();
        self.check_cut();
        self.check_ready();
        match self.failure {
            None => self.end_round(change),
            Some(_) => Progress::Served,
        }
    }

    /// A trainer that is gone sends no part of a cut. A trainer that has completed stays a member
    /// until a cut contains that.
    fn excuse_from_cuts(&mut self, trainer: TrainerId) {
        if !self.members.takes_part(trainer) {
            self.cuts.excuse(trainer);
            self.schedule.excuse(trainer);
        }
    }

    /// A trainer that had completed has left.
    pub(super) fn leave_cuts(&mut self, trainer: TrainerId) {
        self.excuse_from_cuts(trainer);
        self.settle(None);
    }

    /// A trainer died, and is waited for.
    pub(super) fn wait_for(&mut self, trainer: TrainerId) {
        let seconds = self.config.recover_ms / 1000;
        if let Refusal::TrainerLost { trainer, how, silent_ms, round } =
            self.members.loss(trainer, self.rounds.applied())
        {
            self.warn(format!(
                "trainer {trainer} died: {how} {silent_ms} ms ago, in round {round}; it is waited for, for {seconds} s"
            ));
        }
        if let Some(conn) = self.members.conn(trainer) {
            self.actions.push(Action::Close(conn));
        }
    }

    /// A trainer is dead: the job fails, or continues without it.
    pub(super) fn lose(&mut self, trainer: TrainerId) {
        let refusal = self.members.loss(trainer, self.rounds.applied());
        let goes_on = !self.config.apply.waits() || self.config.go_on;
        match &refusal {
            Refusal::TrainerLost { trainer, how, silent_ms, round } if goes_on => self.warn(format!(
                "trainer {trainer} died: {how} {silent_ms} ms ago, in round {round}; the others go on without it"
            )),
            other => self.warn(other.to_string()),
        }
        if let Some(conn) = self.members.conn(trainer) {
            self.actions.push(Action::Close(conn));
        }
        if self.failure.is_some() {
            return;
        }
        if !goes_on {
            return self.set_failure(refusal);
        }
        self.rounds.forget_open(trainer);
        self.excuse_from_cuts(trainer);
        self.settle(None);
    }

    pub(super) fn set_failure(&mut self, refusal: Refusal) {
        self.warn(format!("the job cannot go on: {refusal}"));
        self.failure.get_or_insert_with(|| refusal.clone());
        for waiting in std::mem::take(&mut self.waiting).into_values() {
            self.reply(waiting.asker.conn, waiting.asker.id, refusal.clone());
        }
        for asker in self.all_gathers.dissolve() {
            self.reply(asker.conn, asker.id, refusal.clone());
        }
        self.dissolve_all_to_all(&refusal);
    }
}
