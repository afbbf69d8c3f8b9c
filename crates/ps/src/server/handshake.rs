//! The handshake: which trainers are let in.

use super::{Action, Server};
use crate::ids::{ConnId, Millis, TrainerId};
use crate::message::{Hello, VERSION, Welcome};
use crate::refusal::Refusal;

/// A hello that was not answered yet, and where it came from.
#[derive(Debug)]
pub(super) struct PendingHello {
    pub(super) conn: ConnId,
    pub(super) id: u64,
    pub(super) hello: Hello,
}

impl Server {
    pub(super) fn greet(&mut self, now: Millis, conn: ConnId, id: u64, hello: Hello) {
        if let Some(refusal) = self.stranger(conn, &hello) {
            return self.turn_away(conn, id, refusal);
        }
        if let Some(refusal) = self.other_start(&hello) {
            let trainer = TrainerId(hello.trainer);
            return self.refuse_start(conn, id, trainer, refusal);
        }
        let pending = PendingHello { conn, id, hello };
        match self.config.recovers {
            true => self.greet_in_term(now, pending),
            false => self.admit(now, pending),
        }
    }

    /// Why this is no trainer of the job.
    fn stranger(&self, conn: ConnId, hello: &Hello) -> Option<Refusal> {
        let (n_trainers, trainer) = (self.config.n_trainers, hello.trainer);
        if hello.version != VERSION {
            return Some(Refusal::Version { ours: VERSION, theirs: hello.version });
        }
        // Before anything is said of the job.
        if let Some(refusal) = self.other_key(conn, trainer) {
            return Some(refusal);
        }
        if hello.job != self.config.job {
            let (ours, theirs) = (self.config.job.clone(), hello.job.clone());
            return Some(Refusal::OtherJob { ours, theirs });
        }
        if trainer >= n_trainers {
            return Some(Refusal::TrainerOutOfRange { trainer, n_trainers });
        }
        if self.members.who(conn).is_some_and(|who| who.0 != trainer) {
            return Some(Refusal::Malformed("two trainers on one connection".to_string()));
        }
        let is_of_a_term = hello.term.number > 0 && !self.config.recovers;
        let keeps_none = || {
            Refusal::Failed("this server keeps no cuts, and others of its job do: give all of them the same folder of snapshots".to_string())
        };
        self.other_model(&hello.vars).or_else(|| is_of_a_term.then(keeps_none))
    }

    /// Lets a trainer in, unless another process has its rank.
    pub(super) fn admit(&mut self, now: Millis, pending: PendingHello) {
        let PendingHello { conn, id, hello } = pending;
        let trainer = TrainerId(hello.trainer);
        let was_active = self.members.is_active(trainer);
        match self.members.admit(trainer, hello.incarnation, conn, now) {
            Err(refusal) => self.turn_away(conn, id, refusal),
            Ok(admitted) => {
                self.terms.came(trainer);
                self.keep_key(conn, trainer.0, now);
                if !was_active && self.members.is_active(trainer) {
                    self.expect(trainer);
                }
                if let Some(old) = admitted.replaced {
                    self.actions.push(Action::Close(old));
                }
                if admitted.is_new {
                    // What an earlier process of this rank began and did not end is not a part of a round.
                    self.rounds.forget_open(trainer);
                    self.news.remove(&trainer);
                    self.staleness.forget(trainer);
                    if self.members.is_alone(trainer) {
                        self.all_gathers.forget();
                        self.all_to_all.forget();
                    }
                    self.inform(format!("{trainer} joined"));
                    self.mention_differences(trainer, &hello.vars);
                }
                self.vars.greet(trainer, hello.vars);
                let (accepted, round) =
                    (self.members.accepted(trainer), self.rounds.reached(trainer));
                self.reply(conn, id, Welcome { accepted, round });
                self.tell_notice(conn);
                if let Some((seq, refusal)) = self.members.refused(trainer) {
                    self.reply(conn, seq, refusal);
                }
            }
        }
    }
}
