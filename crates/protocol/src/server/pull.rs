//! `pull`: the values of variables are read, perhaps after a round.

use std::sync::Arc;

use tensor::Value;
use wire::message::{Pull, Values};
use wire::{Millis, VarId};

use super::question::{self, Question};
use super::{Asker, Outcome, Purpose, Server, Task, turn};

/// The last news of changed rows for a trainer, in case the answer was lost: a store reports each change only once.
pub(super) struct News {
    id: u64,
    values: Vec<Arc<Value>>,
}

/// A question for what others changed.
#[derive(Debug)]
pub(super) struct NewsAsked {
    asker: Asker,
    /// The process of this rank that asks.
    incarnation: u64,
    vars: Vec<VarId>,
}

pub(super) fn serve(server: &mut Server, asker: Asker, mut pull: Pull) {
    let resolved = pull.vars.iter_mut().try_for_each(|var| server.vars.resolve(asker.trainer, var));
    match resolved {
        Ok(()) => question::ask(server, asker, pull.after, Question::Pull(pull)),
        Err(refusal) => server.reply(asker.conn, asker.id, refusal),
    }
}

/// Has the values read.
pub(super) fn give(server: &mut Server, asker: Asker, pull: Pull) {
    let Asker { conn, trainer, id } = asker;
    server.term.staleness.pull(trainer);
    if !pull.changed {
        return server.run(Purpose::Answer(asker), Task::Read(trainer, pull));
    }
    let told = server.term.news.get(&trainer).and_then(|news| news.get(&pull.vars));
    // An older question is one that came late: what it would be told must not be lost with it.
    if let Some(news) = told.filter(|news| news.id >= id) {
        let values = news.values.clone();
        return server.reply(conn, id, Values(values));
    }
    // The question is not asked again before there is an answer to repeat.
    server.term.busy.entry(trainer).or_default();
    let incarnation = server.term.members.of(trainer).incarnation();
    let asked = NewsAsked { asker, incarnation, vars: pull.vars.clone() };
    server.run(Purpose::News(asked), Task::Read(trainer, pull));
}

/// Changed rows were read: the answer is remembered, and must not be lost.
pub(super) fn news_read(server: &mut Server, now: Millis, asked: NewsAsked, outcome: Outcome) {
    let NewsAsked { asker, incarnation, vars } = asked;
    let is_current = server.term.members.of(asker.trainer).incarnation() == incarnation;
    if let Outcome::Values(Ok(values)) = &outcome
        && is_current
    {
        let news = News { id: asker.id, values: values.clone() };
        server.term.news.entry(asker.trainer).or_default().insert(vars, news);
    }
    question::answered(server, asker, outcome);
    turn::next(server, now, asker.trainer);
}
