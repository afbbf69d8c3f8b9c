//! What the processes of a job must agree on: parameters, and which trainers wait for which.
//!
//! Scripts of servers and trainers may differ in what does not matter to the other side (metrics,
//! the optimizer of a trainer, what is printed). A parameter that a trainer looks for and does not
//! find, or finds with another shape, matters.

use std::collections::{BTreeMap, BTreeSet};

use super::Server;
use crate::ids::{ConnId, Millis, TrainerId};
use crate::message::{Hello, VarInfo};
use crate::refusal::Refusal;

/// Names that a line of the log mentions.
const MENTIONED_MAX: usize = 5;

/// For so long a server that cannot begin waits for trainers that it has not told why.
const FAREWELL_MS: u64 = 60_000;

/// A job that cannot begin: the trainers that know it. Those that come later would wait for a server that has ended.
#[derive(Debug)]
pub(super) struct LastRefusal {
    refusal: Refusal,
    since: Millis,
    told: BTreeSet<TrainerId>,
}

/// What both sides must have.
fn params(vars: &[VarInfo]) -> impl Iterator<Item = &VarInfo> {
    vars.iter().filter(|held| held.is_param)
}

impl Server {
    /// Why a trainer that looks for these parameters cannot take part.
    pub(super) fn other_model(&self, theirs: &[VarInfo]) -> Option<Refusal> {
        let ours: BTreeMap<&str, &[i64]> =
            params(&self.vars.ours).map(|held| (held.name.as_str(), &held.dims[..])).collect();
        if ours.is_empty() {
            return None;
        }
        let differs = |held: &&VarInfo| match ours.get(held.name.as_str()) {
            None => true,
            Some(dims) => !dims.is_empty() && !held.dims.is_empty() && **dims != held.dims,
        };
        let first = params(theirs).find(differs)?;
        let found = ours.get(first.name.as_str());
        Some(Refusal::OtherModel {
            var: first.name.clone(),
            ours: found.map_or("no such variable".to_string(), |dims| format!("shape {dims:?}")),
            theirs: format!("{:?}", first.dims),
        })
    }

    /// Why the job cannot begin, if this trainer begins from another checkpoint than this server, or than another one,
    /// which the trainer passes on. A server that keeps cuts begins from them.
    pub(super) fn other_start(&self, hello: &Hello) -> Option<Refusal> {
        if let Some(last_refusal) = &self.last_refusal {
            return Some(last_refusal.refusal.clone());
        }
        if let Some(why) = hello.vars.iter().find_map(VarInfo::no_start_words) {
            return (!self.config.recovers).then(|| Refusal::Failed(why.to_string()));
        }
        let start = |vars: &[VarInfo]| {
            vars.iter().find_map(|var| Some((var.dims.first().copied(), var.start_words()?)))
        };
        let (ours, theirs) = (start(&self.vars.ours)?, start(&hello.vars)?);
        let is_other = !self.config.recovers && ours.0 != theirs.0;
        is_other.then(|| {
            Refusal::Failed(format!(
                "the processes of this job begin from different checkpoints: this server from {}, trainer {} from {}. \
                 Each machine has only a part of them: merge the folders of checkpoints of all machines, copy the result to \
                 all of them, and start the job again (to begin anew instead, remove them everywhere)",
                ours.1, hello.trainer, theirs.1
            ))
        })
    }

    /// Tells a trainer that the job cannot begin. Others of the job wait for it, and are told too.
    pub(super) fn refuse_start(
        &mut self,
        conn: ConnId,
        id: u64,
        trainer: TrainerId,
        refusal: Refusal,
    ) {
        if self.last_refusal.is_none() {
            self.set_failure(refusal.clone());
            let (refusal, since) = (refusal.clone(), self.now);
            self.last_refusal = Some(LastRefusal { refusal, since, told: BTreeSet::new() });
        }
        if let Some(last_refusal) = &mut self.last_refusal {
            last_refusal.told.insert(trainer);
        }
        self.members.told(trainer);
        self.turn_away(conn, id, refusal);
    }

    /// Whether all trainers know that the job cannot begin, or do not come to hear it.
    pub(super) fn has_said_farewell(&self) -> bool {
        self.last_refusal.as_ref().is_none_or(|last_refusal| {
            let all = (0..self.config.n_trainers).map(TrainerId);
            let mut untold = all.filter(|trainer| !last_refusal.told.contains(trainer));
            let is_late = self.now.since(last_refusal.since) >= FAREWELL_MS;
            is_late || !untold.any(|trainer| self.members.is_awaited(trainer))
        })
    }

    /// Says what only the server has: it will not change by this trainer's doing.
    pub(super) fn mention_differences(&mut self, trainer: TrainerId, theirs: &[VarInfo]) {
        let known: BTreeSet<&str> = params(theirs).map(|held| held.name.as_str()).collect();
        let all = params(&self.vars.ours).map(|held| held.name.as_str());
        let only_ours: Vec<&str> = all.filter(|name| !known.contains(name)).collect();
        if known.is_empty() || only_ours.is_empty() {
            return;
        }
        let mentioned = only_ours[..only_ours.len().min(MENTIONED_MAX)].join(", ");
        let more = only_ours.len().saturating_sub(MENTIONED_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        self.warn(format!(
            "the script of {trainer} has no parameter {mentioned}{more}: it sends no gradients for it"
        ));
    }

    /// Ends the job if its trainers are in a deadlock: some wait in an all-gather, the others wait for
    /// a round that those in it have not sent.
    pub(super) fn check_stuck(&mut self) {
        let nobody_waits = self.all_gathers.is_empty() || self.waiting.is_empty();
        if self.failure.is_some() || nobody_waits || self.rounds.is_running() {
            return;
        }
        // Checking every trainer is only worth it if these could be all of them.
        if self.all_gathers.n_here_max() + self.waiting.len() < self.members.n_active() {
            return;
        }
        let (active, absent) = (self.members.active(), self.all_gathers.missing().collect());
        let gathering: BTreeSet<TrainerId> = active.difference(&absent).copied().collect();
        let others: BTreeSet<TrainerId> = active.intersection(&absent).copied().collect();
        let waiting = self.waiting.values().map(|waiting| waiting.asker.trainer).collect();
        let missing: BTreeSet<TrainerId> = self.rounds.missing().collect();
        let all_wait = !gathering.is_empty() && !others.is_empty() && others.is_subset(&waiting);
        let for_all_gather = !missing.is_empty() && missing.is_subset(&gathering);
        if all_wait && for_all_gather {
            let ranks = |all: BTreeSet<TrainerId>| all.into_iter().map(|it| it.0).collect();
            let (gathering, round_of) = (ranks(gathering), ranks(others));
            let round = self.rounds.applied() + 1;
            self.set_failure(Refusal::Stuck { gathering, round_of, round });
        }
    }
}
