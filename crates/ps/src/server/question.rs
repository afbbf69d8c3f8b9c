//! Questions: they change nothing that matters, and may come twice.

use std::collections::BTreeSet;

use super::{Asker, NewsAsked, Outcome, Purpose, Question, Server, Task, Waiting};
use crate::ids::TrainerId;
use crate::message::{AllGather, Done, MISSING_MAX, Pong, Reply, Request, Values};
use crate::refusal::Refusal;

impl Server {
    pub(super) fn answer(&mut self, asker: Asker, request: Request) {
        let Asker { conn, id, .. } = asker;
        match request {
            Request::Ping(_) => {
                let missing = self.missing();
                let is_absent = |&trainer: &u32| self.members.is_absent(TrainerId(trainer));
                let absent = missing.iter().copied().filter(is_absent).collect();
                let (round, notice) = (self.rounds.applied(), self.notice());
                self.reply(conn, id, Pong { round, missing, absent, notice });
            }
            Request::AskStats(_) => self.run(Purpose::Answer(asker), Task::Size),
            Request::Pull(mut pull) => match self.vars.resolve_pull(asker.trainer, &mut pull) {
                Ok(()) => self.ask(asker, pull.after, Question::Pull(pull)),
                Err(refusal) => self.reply(conn, id, refusal),
            },
            Request::LookUp(mut keys) => {
                match self.vars.resolve_look_up(asker.trainer, &mut keys) {
                    Ok(()) => self.ask(asker, keys.after, Question::LookUp(keys)),
                    Err(refusal) => self.reply(conn, id, refusal),
                }
            }
            Request::AllGather(ask) => self.all_gather(asker, ask),
            Request::AllToAll(all_to_all) => self.all_to_all(asker, all_to_all),
            Request::Ready(ready) => self.ready(asker, ready.cut),
            Request::WantCut(_) => {
                self.want_cut();
                self.reply(conn, id, Done);
            }
            Request::Recall(recall) => self.recall(asker, &recall),
            Request::Save(save) => self.run(Purpose::Save(asker), Task::Save(save)),
            _ => self.turn_away(conn, id, Refusal::Malformed("out of place".to_string())),
        }
    }

    /// Trainers that a waiting request needs; the first of each kind.
    fn missing(&self) -> Vec<u32> {
        if self.waiting.is_empty() && self.all_gathers.is_empty() && self.all_to_all.is_empty() {
            return Vec::new();
        }
        let of_round = self.rounds.missing().take(MISSING_MAX);
        let of_all_gathers = self.all_gathers.missing().take(MISSING_MAX);
        let of_all_to_all = self.all_to_all.missing().take(MISSING_MAX);
        let all: BTreeSet<TrainerId> =
            of_round.chain(of_all_gathers).chain(of_all_to_all).collect();
        all.into_iter().map(|trainer| trainer.0).take(MISSING_MAX).collect()
    }

    fn ask(&mut self, asker: Asker, after: u64, question: Question) {
        if self.config.apply.answers(after, self.rounds.applied()) {
            return self.give(asker, question);
        }
        if let Some(failure) = self.failure.clone() {
            return self.reply(asker.conn, asker.id, failure);
        }
        // Asked again: it waits already.
        if self.waiting.contains_key(&(asker.conn, asker.id)) {
            return;
        }
        match self.hold(asker.trainer, question.n_bytes()) {
            Ok(held) => {
                let waiting = Waiting { asker, after, question, _held: held };
                self.waiting.insert((asker.conn, asker.id), waiting);
                self.check_stuck();
            }
            Err(refusal) => self.cut_off(asker.conn, asker.id, refusal),
        }
    }

    /// Has a question answered.
    pub(super) fn give(&mut self, asker: Asker, question: Question) {
        let Asker { trainer, id, .. } = asker;
        match question {
            Question::LookUp(keys) => self.run(Purpose::Answer(asker), Task::LookUp(keys)),
            Question::Pull(pull) if !pull.changed => {
                self.staleness.pull(trainer);
                self.run(Purpose::Answer(asker), Task::Read(trainer, pull));
            }
            Question::Pull(pull) => {
                self.staleness.pull(trainer);
                let told = self.news.get(&trainer).and_then(|news| news.get(&pull.vars));
                // An older question is one that came late: what it would be told must not be lost with
                // it.
                if let Some(news) = told.filter(|news| news.id >= id) {
                    let values = news.values.clone();
                    return self.reply(asker.conn, id, Values(values));
                }
                // The question is not asked again before there is an answer to repeat.
                self.busy.entry(trainer).or_default();
                let incarnation = self.members.incarnation(trainer);
                let asked = NewsAsked { asker, incarnation, vars: pull.vars.clone() };
                self.run(Purpose::News(asked), Task::Read(trainer, pull));
            }
        }
    }

    /// The answer to a question is there.
    pub(super) fn answered(&mut self, asker: Asker, outcome: Outcome) {
        let answer = match outcome {
            Outcome::Values(values) => values.map(|values| Values(values).into()),
            Outcome::Rows(rows) => rows.map(Reply::Rows),
            Outcome::Size(size) => Ok(self.stats_with(size).into()),
            Outcome::Served(served) => served.map(|()| Done.into()),
            Outcome::Checked(checked) => checked.map(|_| Done.into()),
            Outcome::Begun(_) | Outcome::Written(_) | Outcome::Loaded(_) | Outcome::Recalled(_) => {
                Ok(Done.into())
            }
        };
        self.reply(asker.conn, asker.id, answer.unwrap_or_else(Reply::Refused));
    }

    fn all_gather(&mut self, asker: Asker, ask: AllGather) {
        let Asker { conn, id, .. } = asker;
        if let Some(failure) = self.failure.clone() {
            return self.reply(conn, id, failure);
        }
        if let Some(result) = self.all_gathers.arrive(asker, ask, || self.members.active()) {
            return self.reply(conn, id, result);
        }
        for (asker, result) in self.all_gathers.settle() {
            self.reply(asker.conn, asker.id, result);
        }
        self.check_met();
        self.check_stuck();
    }
}
