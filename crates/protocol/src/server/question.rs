//! Questions: they change nothing that matters, and may come twice. Some wait for a round.

use wire::budget::Held;
use wire::message::{Done, LookUp, Pull, Reply, Values};

use super::{Asker, Outcome, Server, look_up, pull, stuck};

/// A question that waits for a round.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) asker: Asker,
    after: u64,
    question: Question,
    _held: Held,
}

#[derive(Debug)]
pub(super) enum Question {
    Pull(Pull),
    LookUp(LookUp),
}

impl Question {
    fn n_bytes(&self) -> u64 {
        let n_bytes = match self {
            Question::Pull(pull) => size_of_val(pull.vars.as_slice()),
            Question::LookUp(look_up) => size_of_val(look_up.keys.as_slice()),
        };
        n_bytes as u64
    }
}

/// Has a question answered, now or after a round.
pub(super) fn ask(server: &mut Server, asker: Asker, after: u64, question: Question) {
    if server.config.apply.answers(after, server.term.rounds.applied()) {
        return give(server, asker, question);
    }
    if let Some(failure) = server.failure.clone() {
        return server.reply(asker.conn, asker.id, failure);
    }
    // Asked again: it waits already.
    if server.term.waiting.contains_key(&(asker.conn, asker.id)) {
        return;
    }
    match server.hold(asker.trainer, question.n_bytes()) {
        Ok(held) => {
            let waiting = Waiting { asker, after, question, _held: held };
            server.term.waiting.insert((asker.conn, asker.id), waiting);
            stuck::check(server);
        }
        Err(refusal) => server.refuse_and_close(asker.conn, asker.id, refusal),
    }
}

fn give(server: &mut Server, asker: Asker, question: Question) {
    match question {
        Question::Pull(pull) => pull::give(server, asker, pull),
        Question::LookUp(look_up) => look_up::give(server, asker, look_up),
    }
}

/// Has the questions answered that waited for the round that was applied.
pub(super) fn answer_waiting(server: &mut Server) {
    let (apply, applied) = (server.config.apply, server.term.rounds.applied());
    let is_ready = |waiting: &Waiting| apply.answers(waiting.after, applied);
    let all = std::mem::take(&mut server.term.waiting).into_iter();
    let (now, later): (Vec<_>, Vec<_>) = all.partition(|(_, waiting)| is_ready(waiting));
    server.term.waiting = later.into_iter().collect();
    for (_, Waiting { asker, question, .. }) in now {
        give(server, asker, question);
    }
}

/// The answer to a question is there.
pub(super) fn answered(server: &mut Server, asker: Asker, outcome: Outcome) {
    let answer = match outcome {
        Outcome::Values(values) => values.map(|values| Values(values).into()),
        Outcome::Rows(rows) => rows.map(Reply::Rows),
        Outcome::Size(size) => Ok(server.stats_with(size).into()),
        Outcome::Served(served) => served.map(|()| Done.into()),
        Outcome::Checked(checked) => checked.map(|_| Done.into()),
        Outcome::Begun(_) | Outcome::Written(_) | Outcome::Loaded(_) | Outcome::Recalled(_) => {
            Ok(Done.into())
        }
    };
    server.reply(asker.conn, asker.id, answer.unwrap_or_else(Reply::Refused));
}
