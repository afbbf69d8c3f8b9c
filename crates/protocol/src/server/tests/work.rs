//! Work takes its time, and is done in any order.

use super::*;

/// Work that an event led to.
fn works(actions: Vec<Action>) -> Vec<Work> {
    let works = actions.into_iter().filter_map(|action| match action {
        Action::Run(work) => Some(work),
        _ => None,
    });
    works.collect()
}

/// Work takes its time: what a trainer says meanwhile waits, and others are served.
#[test]
fn what_comes_while_a_push_is_served_waits_for_it() {
    let mut bench = Bench::new(2, false);
    bench.hello(0, 0);
    bench.hello(1, 1);
    let now = Millis(0);
    let first = works(bench.server.handle(now, ConnId(0), 1, push(5.0).into()));
    assert_eq!(first.len(), 1);
    assert!(bench.server.handle(now, ConnId(0), 2, push(7.0).into()).is_empty());
    assert!(bench.server.handle(now, ConnId(0), 9, pull(0).into()).is_empty());
    // A ping is answered, and so are other trainers.
    let pong = bench.say(0, 10, Ping);
    assert!(matches!(pong[..], [(0, 10, Reply::Pong(_))]), "{pong:?}");
    assert_eq!(bench.say(1, 9, pull(0)), [(1, 9, value(0.0))]);
    // It is not dead, however long that takes.
    assert!(bench.server.tick(Millis(900)).is_empty() && bench.server.end().is_none());
    let done = first.into_iter().next().map(|work| work.run(&bench.store)).unwrap();
    let actions = bench.server.done(now, done);
    let said = bench.work(actions);
    assert_eq!(said, [(0, 1, Ack.into()), (0, 2, Ack.into()), (0, 9, value(12.0))]);
}

/// A trainer that was started again while its last push was served begins anew.
#[test]
fn what_a_process_before_had_under_way_is_not_told_to_the_next() {
    for sync in [false, true] {
        let mut bench = Bench::new(1, sync);
        bench.hello(0, 0);
        let now = Millis(0);
        let work = works(bench.server.handle(now, ConnId(0), 1, push(5.0).into()));
        assert!(bench.server.handle(now, ConnId(0), 2, push(7.0).into()).is_empty());
        bench.server.closed(now, ConnId(0));
        let welcome = bench.hello(1, 0);
        let expected = Welcome { accepted: 0, round: 0 };
        assert_eq!(welcome, [(1, 0, expected.into())]);
        for work in work {
            let done = work.run(&bench.store);
            let actions = bench.server.done(now, done);
            assert_eq!(bench.work(actions), [], "sync {sync}");
        }
        // A part that another process began and did not close does not belong to a round.
        bench.say(1, 1, push(1.0));
        bench.say(1, 2, Barrier::new(1));
        let all = if sync { 1.0 } else { 6.0 };
        assert_eq!(bench.say(1, 9, pull(0)), [(1, 9, value(all))]);
    }
}

/// Values of a round are not seen before all of it was applied.
#[test]
fn who_waits_for_a_round_waits_until_it_was_applied() {
    let mut bench = Bench::new(1, true);
    bench.hello(0, 0);
    bench.say(0, 1, push(5.0));
    let now = Millis(0);
    let round = works(bench.server.handle(now, ConnId(0), 2, Barrier::new(1).into()));
    assert!(bench.server.handle(now, ConnId(0), 9, pull(1).into()).is_empty());
    // The next part may come while the round is applied; it is another round.
    assert!(bench.server.handle(now, ConnId(0), 3, push(1.0).into()).is_empty());
    assert!(bench.server.end().is_none());
    let done = round.into_iter().next().map(|work| work.run(&bench.store)).unwrap();
    let actions = bench.server.done(now, done);
    let said = bench.work(actions);
    assert_eq!(said, [(0, 2, Ack.into()), (0, 9, value(5.0)), (0, 3, Ack.into())]);
    let welcome = bench.hello(0, 0);
    assert_eq!(welcome, [(0, 0, Welcome { accepted: 3, round: 1 }.into())]);
}

/// A save is long: no trainer waits for it, not even the one that asked.
#[test]
fn a_save_keeps_nobody_waiting() {
    let mut bench = Bench::new(1, false);
    bench.hello(0, 0);
    let (table, dir) = ("t".to_string(), "d".to_string());
    let save = Save { table, dir, phase: Phase::Write, weights_only: false };
    let work = works(bench.server.handle(Millis(0), ConnId(0), 9, save.into()));
    assert!(work.iter().all(Work::is_long) && work.len() == 1);
    assert_eq!(bench.say(0, 1, push(5.0)), [(0, 1, Ack.into())]);
    for work in work {
        let done = work.run(&bench.store);
        let actions = bench.server.done(Millis(0), done);
        let unknown = Refusal::UnknownVar("t".to_string());
        assert_eq!(bench.work(actions), [(0, 9, unknown.into())]);
    }
}
