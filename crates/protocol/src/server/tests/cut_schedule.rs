//! When cuts are made, and when they are given up.

use wire::message::{CancelCut, NextCut, Ready, StartCut};
use wire::recovery::Term;

use super::*;

const FIRST: NextCut = NextCut { cut: 1, after: 0 };

/// Two trainers of a job that recovers, after the news of a cut.
fn told() -> Bench {
    let mut bench = Bench::new(2, false);
    let config = ServerConfig {
        job: "job".to_string(),
        n_trainers: 2,
        apply: Apply::AtOnce,
        recovers: true,
        is_lead: true,
        cut_every_ms: 1_000,
        ..ServerConfig::default()
    };
    bench.server = Server::start(config, bench.store.vars.clone(), &bench.store).unwrap();
    for trainer in 0..2 {
        let term = Term { number: 1, base: Some(0) };
        let hello = Hello { term, ..hello(trainer, u64::from(trainer) + 100) };
        let said = bench.say(trainer.into(), 0, hello);
        assert!(said.iter().any(|(_, _, reply)| matches!(reply, Reply::Welcome(_))), "{said:?}");
    }
    let said = bench.tick(2_000);
    let is_notice =
        |reply: &Reply| matches!(reply, Reply::Notice(it) if it.next_cut == Some(FIRST));
    assert_eq!(said.iter().filter(|(_, _, reply)| is_notice(reply)).count(), 2, "{said:?}");
    bench
}

/// The answers to questions of a kind, by trainer.
fn answers(said: &[(u64, u64, Reply)]) -> Vec<(u64, u64, Reply)> {
    said.iter().filter(|(_, _, reply)| !matches!(reply, Reply::Notice(_))).cloned().collect()
}

#[test]
fn all_who_are_ready_go() {
    let mut bench = told();
    assert_eq!(answers(&bench.say(0, 9, Ready { cut: 1 })), []);
    let go = |trainer| (trainer, 9, Reply::from(StartCut { cut: 1 }));
    assert_eq!(answers(&bench.say(1, 9, Ready { cut: 1 })), [go(0), go(1)]);
}

/// One trainer waits for the cut and the other one in an all-gather for the first: neither would ever come.
#[test]
fn nobody_waits_for_a_trainer_in_an_all_gather() {
    let all_gather = || AllGather { purpose: "end".into(), turn: 1, bytes: Vec::new() };
    let cancelled = [(0, 9, Reply::from(CancelCut { cut: 1 }))];
    let mut bench = told();
    assert_eq!(answers(&bench.say(1, 9, all_gather())), []);
    assert_eq!(answers(&bench.say(0, 9, Ready { cut: 1 })), cancelled);
    let mut bench = told();
    assert_eq!(answers(&bench.say(0, 9, Ready { cut: 1 })), []);
    assert_eq!(answers(&bench.say(1, 9, all_gather())), cancelled);
}
