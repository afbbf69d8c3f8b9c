//! The server's promises, one message at a time.

mod agreement;
mod cut_schedule;
mod keys;
mod terms;
mod work;

use std::sync::{Arc, Mutex};

use tensor::{Tensor, Value};
use wire::VarId;
use wire::message::{
    Ack, AllGather, AllToAll, AllToAllResult, Barrier, Complete, Grad, Hello, Leave, LookUp,
    Notice, Phase, Ping, Pong, Pull, Push, Save, VERSION, Values, Welcome,
};

use super::*;

/// A store with one number: gradients are added to it.
struct Sum {
    sum: Mutex<f64>,
    vars: Vec<VarInfo>,
}

impl Sum {
    fn new() -> Self {
        Self { sum: Mutex::default(), vars: vec![VarInfo::other("w")] }
    }

    fn value(&self) -> f64 {
        *self.sum.lock().unwrap()
    }
}

impl Store for Sum {
    fn vars(&self) -> &[VarInfo] {
        &self.vars
    }

    fn check(&self, _grad: &Grad) -> Result<(), Refusal> {
        Ok(())
    }

    fn apply(&self, _trainer: TrainerId, grad: Grad) -> Result<(), Refusal> {
        *self.sum.lock().unwrap() += grad.value.tensor().map_or(0.0, |tensor| tensor.get_f64(0));
        Ok(())
    }

    fn begin_round(&self, grads: Vec<(TrainerId, Vec<Grad>)>) -> Result<Vec<Unit>, Refusal> {
        for (trainer, grads) in grads {
            for grad in grads {
                self.apply(trainer, grad)?;
            }
        }
        Ok(Vec::new())
    }

    fn read(&self, _trainer: TrainerId, pull: &Pull) -> Result<Vec<Arc<Value>>, Refusal> {
        let value = Arc::new(Value::Tensor(Tensor::full([1], self.value())));
        Ok(pull.vars.iter().map(|_| value.clone()).collect())
    }

    fn look_up(&self, look_up: &LookUp) -> Result<Tensor, Refusal> {
        Err(Refusal::UnknownVar(self.name(look_up.table)))
    }

    fn save(&self, save: &Save) -> Result<(), Refusal> {
        Err(Refusal::UnknownVar(save.table.clone()))
    }

    fn size(&self) -> Size {
        Size { rows: 1, bytes: 8, ..Size::default() }
    }

    fn mark(&self, _cut: u64) -> Result<(), Refusal> {
        Ok(())
    }

    fn write_cut(&self, _record: &CutRecord) -> Result<WrittenCut, Refusal> {
        Ok(WrittenCut::default())
    }
}

fn hello(trainer: u32, incarnation: u64) -> Hello {
    // Its numbers are not those of the server.
    Hello::new("job", trainer, incarnation, vec![VarInfo::other("v"), VarInfo::other("w")])
}

struct Bench {
    server: Server,
    store: Sum,
    now: u64,
}

impl Bench {
    fn new(n_trainers: u32, sync: bool) -> Self {
        let apply = if sync { Apply::ByRound { ahead: 0 } } else { Apply::AtOnce };
        let config =
            ServerConfig { n_trainers, apply, job: "job".to_string(), ..ServerConfig::default() };
        let store = Sum::new();
        Self { server: Server::new(config, store.vars.clone()), store, now: 0 }
    }

    /// Sends a message; trainer `i` speaks on connection `i`.
    fn say(&mut self, conn: u64, id: u64, request: impl Into<Request>) -> Vec<(u64, u64, Reply)> {
        let actions = self.server.handle(Millis(self.now), ConnId(conn), id, request.into());
        self.work(actions)
    }

    /// Does the pending work, and returns the replies.
    fn work(&mut self, actions: Vec<Action>) -> Vec<(u64, u64, Reply)> {
        let mut said = Vec::new();
        for action in actions {
            match action {
                Action::Reply(conn, id, reply) => said.push((conn.0, id, reply)),
                Action::Run(work) => {
                    let done = work.run(&self.store);
                    let actions = self.server.done(Millis(self.now), done);
                    said.extend(self.work(actions));
                }
                _ => {}
            }
        }
        said
    }

    fn hello(&mut self, conn: u64, trainer: u32) -> Vec<(u64, u64, Reply)> {
        self.say(conn, 0, hello(trainer, conn + 100))
    }

    fn tick(&mut self, ms: u64) -> Vec<(u64, u64, Reply)> {
        let end = self.now + ms;
        let mut said = Vec::new();
        while self.now < end {
            self.now = end.min(self.now + 500);
            let actions = self.server.tick(Millis(self.now));
            said.extend(self.work(actions));
        }
        said
    }
}

fn replies(actions: Vec<Action>) -> Vec<(u64, u64, Reply)> {
    let replies = actions.into_iter().filter_map(|action| match action {
        Action::Reply(conn, id, reply) => Some((conn.0, id, reply)),
        _ => None,
    });
    replies.collect()
}

fn push(x: f64) -> Push {
    let value = Value::Tensor(Tensor::full([1], x));
    Push::new(vec![Grad { var: VarId(1), value }])
}

fn pull(after: u64) -> Pull {
    Pull::new(after, vec![VarId(1)])
}

fn value(x: f64) -> Reply {
    Values(vec![Arc::new(Value::Tensor(Tensor::full([1], x)))]).into()
}

#[test]
fn a_round_ends_when_all_have_closed_it() {
    let mut bench = Bench::new(2, true);
    bench.hello(0, 0);
    bench.hello(1, 1);
    bench.say(0, 1, push(1.0));
    bench.say(0, 2, Barrier::new(1));
    assert_eq!(bench.say(0, 9, pull(1)), [], "waits for trainer 1");
    let pong = Pong { round: 0, missing: vec![1], absent: vec![], notice: Notice::default() };
    assert_eq!(bench.say(0, 10, Ping), [(0, 10, pong.into())]);
    bench.say(1, 1, push(2.0));
    assert_eq!(bench.say(1, 2, Barrier::new(1)), [(0, 9, value(3.0)), (1, 2, Ack.into())]);
}

#[test]
fn a_repeated_push_is_applied_once() {
    let mut bench = Bench::new(1, false);
    bench.hello(0, 0);
    for _ in 0..3 {
        assert_eq!(bench.say(0, 1, push(5.0)), [(0, 1, Ack.into())]);
    }
    assert_eq!(bench.say(0, 3, push(5.0)), [(0, 1, Ack.into())], "2 is missing");
    assert_eq!((bench.store.value(), bench.server.stats().repeated), (5.0, 2));
}

#[test]
fn strangers_are_refused() {
    let mut bench = Bench::new(2, true);
    assert_eq!(bench.say(0, 7, Ping), [(0, 7, Refusal::HelloFirst.into())]);
    let out = Refusal::TrainerOutOfRange { trainer: 2, n_trainers: 2 };
    assert_eq!(bench.hello(0, 2), [(0, 0, out.into())]);
    let other = Hello { version: 9, ..hello(0, 1) };
    let version = Refusal::Version { ours: VERSION, theirs: 9 };
    assert_eq!(bench.say(0, 0, other), [(0, 0, version.into())]);
    let refused = bench.say(0, 0, Hello { job: "other".to_string(), ..hello(0, 1) });
    assert!(matches!(&refused[0].2, Reply::Refused(Refusal::OtherJob { .. })), "{refused:?}");
    bench.hello(0, 0);
    let refused = bench.hello(1, 0);
    let duplicate = Refusal::DuplicateTrainer { trainer: 0, heard_ms: 0 };
    assert_eq!(refused, [(1, 0, duplicate.into())]);
}

#[test]
fn a_bad_gradient_is_refused_and_the_server_goes_on() {
    let mut bench = Bench::new(1, false);
    bench.server.config.check_finite = true;
    bench.hello(0, 0);
    let value = Value::Tensor(Tensor::full([1], 1.0));
    let stray = Push::new(vec![Grad { var: VarId(0), value }]);
    assert_eq!(bench.say(0, 1, stray), [(0, 1, Refusal::UnknownVar("v".into()).into())]);
    let refusal = Refusal::NotFinite { var: "w".into(), trainer: 0 };
    assert_eq!(bench.say(0, 2, push(f64::NAN)), [(0, 2, refusal.into())]);
    bench.say(0, 3, push(4.0));
    assert_eq!(bench.store.value(), 4.0);
}

#[test]
fn a_dead_trainer_is_named_to_those_who_wait() {
    let mut bench = Bench::new(2, true);
    bench.hello(0, 0);
    bench.hello(1, 1);
    bench.say(0, 1, Barrier::new(1));
    bench.say(0, 9, pull(1));
    bench.server.closed(Millis(0), ConnId(1));
    assert_eq!(bench.tick(1999), [], "it may come back");
    let told = bench.tick(1);
    let how = "its connection broke".to_string();
    let lost = Refusal::TrainerLost { trainer: 1, how, silent_ms: 2000, round: 1 };
    assert_eq!(told, [(0, 9, lost.clone().into())]);
    assert_eq!(bench.server.end(), None, "trainer 0 is still here");
    bench.server.closed(Millis(0), ConnId(0));
    assert_eq!(bench.server.end(), Some(End::Failed(lost)));
}

#[test]
fn a_job_that_tolerates_it_goes_on_without_a_dead_trainer() {
    let mut bench = Bench::new(2, true);
    bench.server.config.go_on = true;
    bench.hello(0, 0);
    bench.hello(1, 1);
    bench.say(0, 1, push(4.0));
    bench.say(0, 2, Barrier::new(1));
    bench.say(0, 9, pull(1));
    bench.server.closed(Millis(bench.now), ConnId(1));
    let told = bench.tick(2000);
    assert!(matches!(told[..], [(0, 9, Reply::Values(_))]), "{told:?}");
    bench.say(0, 3, Complete);
    assert_eq!(bench.server.end(), Some(End::Completed));
}

#[test]
fn a_server_whose_trainers_all_died_ends() {
    for (is_sync, go_on) in [(true, false), (true, true), (false, false), (false, true)] {
        let mut bench = Bench::new(2, is_sync);
        bench.server.config.go_on = go_on;
        bench.hello(0, 0);
        bench.hello(1, 1);
        for conn in [0, 1] {
            assert_eq!(bench.server.end(), None);
            bench.server.closed(Millis(bench.now), ConnId(conn));
        }
        bench.tick(2000);
        let end = bench.server.end();
        let is_named = matches!(&end, Some(End::Failed(Refusal::TrainerLost { trainer: 0, .. })));
        assert!(is_named, "sync {is_sync}, go_on {go_on}: {end:?}");
    }
}

#[test]
fn a_server_that_slept_does_not_take_its_sleep_for_silence() {
    let mut bench = Bench::new(2, true);
    bench.hello(0, 0);
    bench.hello(1, 1);
    bench.tick(1000);
    bench.say(0, 1, Barrier::new(1));
    bench.say(0, 9, pull(1));
    bench.now += 60_000;
    let actions = bench.server.tick(Millis(bench.now));
    assert_eq!(bench.work(actions), []);
    let told = bench.tick(20_000);
    assert_eq!(told.len(), 1, "awake, it counts: {told:?}");
}

#[test]
fn a_refusal_that_was_lost_is_said_again() {
    let mut bench = Bench::new(1, false);
    bench.hello(0, 0);
    let stray = Grad { var: VarId(0), value: Value::Empty };
    bench.say(0, 1, Push::new(vec![stray.clone()]));
    let refusal = || Reply::from(Refusal::UnknownVar("v".into()));
    assert_eq!(bench.say(0, 1, Push::new(vec![stray])), [(0, 1, refusal())]);
    bench.server.closed(Millis(0), ConnId(0));
    let welcome = Welcome { accepted: 1, round: 0 }.into();
    assert_eq!(bench.hello(0, 0), [(0, 0, welcome), (0, 1, refusal())]);
}

#[test]
fn a_trainer_started_again_learns_which_round_it_is_in() {
    let mut bench = Bench::new(2, true);
    bench.hello(0, 0);
    bench.hello(1, 1);
    bench.say(1, 1, push(1.0));
    bench.say(1, 2, Barrier::new(1));
    bench.say(1, 3, push(5.0));
    bench.server.closed(Millis(0), ConnId(1));
    let welcome = Welcome { accepted: 0, round: 1 }.into();
    assert_eq!(bench.hello(2, 1), [(2, 0, welcome)], "its part of round 1 is here");
    bench.say(0, 1, Barrier::new(1));
    assert_eq!(bench.say(2, 9, pull(1)), [(2, 9, value(1.0))], "half a part counts for nothing");
    let former = hello(1, 101);
    bench.server.closed(Millis(0), ConnId(2));
    let refused = bench.say(3, 0, former);
    let duplicate =
        |reply: &Reply| matches!(reply, Reply::Refused(Refusal::DuplicateTrainer { .. }));
    assert!(duplicate(&refused[0].2), "a late greeting of the dead: {refused:?}");
}

#[test]
fn an_all_gather_waits_for_nobody_who_took_part() {
    let mut bench = Bench::new(2, false);
    bench.hello(0, 0);
    bench.hello(1, 1);
    let all_gather = |turn| AllGather { purpose: "b".into(), turn, bytes: Vec::new() };
    bench.say(0, 5, all_gather(0));
    bench.say(1, 5, all_gather(0));
    assert_eq!(bench.say(0, 6, all_gather(1)), [], "the next one");
    assert_eq!(bench.say(1, 5, all_gather(0)).len(), 1, "the answer was lost, and comes again");
    assert_eq!(bench.say(1, 6, all_gather(1)).len(), 2);
}

#[test]
fn silence_beyond_the_lease_is_death() {
    let mut bench = Bench::new(2, true);
    bench.hello(0, 0);
    bench.hello(1, 1);
    bench.tick(19_999);
    bench.say(0, 9, Ping);
    bench.say(0, 1, Barrier::new(1));
    bench.say(0, 10, pull(1));
    let told = bench.tick(1);
    assert!(
        matches!(&told[..], [(0, 10, Reply::Refused(Refusal::TrainerLost { trainer: 1, .. }))]),
        "{told:?}"
    );
}

#[test]
fn rounds_go_on_without_a_dead_trainer_when_told_so() {
    let mut bench = Bench::new(2, true);
    bench.server.config.go_on = true;
    bench.hello(0, 0);
    bench.hello(1, 1);
    bench.say(0, 1, push(1.0));
    bench.say(0, 2, Barrier::new(1));
    bench.say(0, 9, pull(1));
    bench.server.closed(Millis(0), ConnId(1));
    assert_eq!(bench.tick(2000), [(0, 9, value(1.0))]);
}

#[test]
fn the_server_ends_with_its_last_trainer() {
    let mut bench = Bench::new(2, true);
    bench.hello(0, 0);
    bench.hello(1, 1);
    bench.say(0, 1, Barrier::new(1));
    bench.say(0, 9, pull(1));
    let told = bench.say(1, 1, Complete);
    assert_eq!(told[0], (0, 9, value(0.0)), "the round continues without it");
    assert_eq!(bench.server.end(), None);
    bench.say(0, 2, Complete);
    assert_eq!(bench.server.end(), Some(End::Completed));
}

#[test]
fn trainers_that_only_leave_keep_the_server_running() {
    let mut bench = Bench::new(1, true);
    bench.hello(0, 0);
    bench.say(0, 1, Leave);
    bench.server.closed(Millis(0), ConnId(0));
    bench.tick(60_000);
    assert_eq!(bench.server.end(), None);
}

#[test]
fn an_all_gather_gives_every_trainer_the_bytes_of_all() {
    let mut bench = Bench::new(2, false);
    bench.hello(0, 0);
    bench.hello(1, 1);
    let all_gather =
        |turn, bytes: &[u8]| AllGather { purpose: "b".into(), turn, bytes: bytes.to_vec() };
    assert_eq!(bench.say(1, 5, all_gather(0, &[1])), []);
    let gathered: Reply = wire::message::AllGatherResult(vec![vec![0], vec![1]]).into();
    assert_eq!(
        bench.say(0, 6, all_gather(0, &[0])),
        [(0, 6, gathered.clone()), (1, 5, gathered.clone())]
    );
    assert_eq!(
        bench.say(1, 5, all_gather(0, &[1])),
        [(1, 5, gathered)],
        "asked again: the same answer"
    );
    assert_eq!(bench.say(1, 7, all_gather(1, &[1])), [], "another turn");
}

#[test]
fn staleness_counts_what_others_did_meanwhile() {
    let mut bench = Bench::new(2, false);
    bench.hello(0, 0);
    bench.hello(1, 1);
    bench.say(0, 9, pull(0));
    bench.say(1, 9, pull(0));
    bench.say(0, 1, push(1.0));
    bench.say(0, 2, push(1.0));
    bench.say(1, 1, push(1.0));
    let stats = bench.server.stats();
    // The second of trainer 0 does not know of its first, that of trainer 1 of neither.
    assert_eq!((stats.pushes, stats.staleness_sum, stats.staleness_max), (3, 1 + 2, 2));
}

/// A trainer that runs ahead says by how much: what it pulled since is not what it computed with.
#[test]
fn staleness_is_counted_from_the_pull_that_was_used() {
    let mut bench = Bench::new(2, false);
    bench.hello(0, 0);
    bench.hello(1, 1);
    bench.say(0, 9, pull(0));
    bench.say(1, 9, pull(0));
    let behind = |behind| Push { behind, ..push(1.0) };
    bench.say(1, 1, push(1.0));
    bench.say(0, 1, behind(0));
    bench.say(0, 10, pull(0));
    let stats = bench.server.stats();
    assert_eq!((stats.updates, stats.staleness_sum), (2, 1), "one of trainer 1");
    bench.say(0, 2, behind(1));
    bench.say(0, 11, pull(0));
    let stats = bench.server.stats();
    assert_eq!((stats.updates, stats.staleness_sum), (3, 1 + 2), "the first pull was used");
    bench.say(0, 3, behind(0));
    let stats = bench.server.stats();
    assert_eq!((stats.updates, stats.staleness_sum), (4, 1 + 2), "up to date");
}

fn all_to_all(turn: u64, parts: &[&[u8]]) -> AllToAll {
    let parts = parts.iter().map(|part| part.to_vec()).collect();
    AllToAll { purpose: "shuffle".to_string(), turn, parts }
}

fn exchanged(parts: &[&[u8]]) -> Reply {
    AllToAllResult(Arc::new(parts.iter().map(|part| part.to_vec()).collect())).into()
}

fn two_trainers() -> Bench {
    let mut bench = Bench::new(2, false);
    bench.hello(0, 0);
    bench.hello(1, 1);
    bench
}

#[test]
fn trainers_exchange_parts_and_lost_answers_come_again() {
    let mut bench = two_trainers();
    assert_eq!(bench.say(1, 5, all_to_all(1, &[b"a", b"bb"])), []);
    let pong = Pong { round: 0, missing: vec![0], absent: vec![], notice: Notice::default() };
    assert_eq!(bench.say(1, 9, Ping), [(1, 9, pong.into())]);
    assert_eq!(bench.say(1, 5, all_to_all(1, &[b"a", b"bb"])), [], "asked again: it waits already");
    let (to_0, to_1) = (exchanged(&[b"ccc", b"a"]), exchanged(&[b"", b"bb"]));
    let answers = bench.say(0, 6, all_to_all(1, &[b"ccc", b""]));
    assert_eq!(answers, [(0, 6, to_0), (1, 5, to_1.clone())]);
    assert_eq!(bench.say(0, 7, all_to_all(2, &[b"", b"x"])), [], "the next one");
    assert_eq!(bench.say(1, 5, all_to_all(1, &[b"a", b"bb"])), [(1, 5, to_1)], "the same answer");
    assert_eq!(bench.say(1, 7, all_to_all(2, &[b"", b""])).len(), 2);
    assert_eq!(bench.server.term.all_to_all.n_bytes(), 1, "what was received is not kept");
}

#[test]
fn an_exchange_that_no_server_holds_is_refused() {
    let mut bench = two_trainers();
    let found = bench.say(0, 1, all_to_all(1, &[b"one part"]));
    let refusal = Refusal::BadExchange("1 parts for 2 trainers".to_string());
    assert_eq!(found, [(0, 1, refusal.into())]);
    let large = vec![0; AllToAll::part_bytes_max(2) + 1];
    let found = bench.say(0, 2, all_to_all(1, &[&large, b""]));
    assert!(matches!(&found[..], [(0, 2, Reply::Refused(Refusal::BadExchange(_)))]), "{found:?}");
    assert_eq!(bench.server.term.all_to_all.n_bytes(), 0);
    bench.say(0, 3, all_to_all(1, &[&large[1..], b""]));
    assert_eq!(bench.say(1, 3, all_to_all(1, &[b"", b""])).len(), 2, "as large as may be");
}

#[test]
fn a_trainer_out_of_step_is_named_to_all() {
    let mut bench = two_trainers();
    assert_eq!(bench.say(0, 1, all_to_all(1, &[b"", b"x"])), []);
    let other = AllToAll { purpose: "size".to_string(), ..all_to_all(1, &[b"", b""]) };
    let found = bench.say(1, 1, other);
    let (ours, theirs) = ("size, turn 1".to_string(), "shuffle, turn 1".to_string());
    let refusal = Reply::from(Refusal::OutOfStep { trainer: 1, ours, theirs });
    assert_eq!(found, [(0, 1, refusal.clone()), (1, 1, refusal)]);
    bench.say(0, 2, all_to_all(2, &[b"", b"x"]));
    bench.say(1, 2, all_to_all(2, &[b"", b"x"]));
    assert_eq!(bench.say(0, 3, all_to_all(3, &[b"", b"x"])), []);
    let found = bench.say(1, 3, all_to_all(1, &[b"", b"x"]));
    assert_eq!(found.len(), 1, "a restarted trainer does not disturb waiting ones: {found:?}");
    assert!(matches!(found[0].2, Reply::Refused(Refusal::OutOfStep { trainer: 1, .. })));
}

#[test]
fn nobody_exchanges_with_the_gone() {
    let mut bench = two_trainers();
    assert_eq!(bench.say(0, 1, all_to_all(1, &[b"", b"x"])), []);
    let found = bench.say(1, 1, Complete);
    let absent = Reply::from(Refusal::Absent { trainer: 1 });
    assert_eq!(found, [(0, 1, absent.clone()), (1, 1, Ack.into())]);
    assert_eq!(bench.say(0, 2, all_to_all(2, &[b"", b"x"])), [(0, 2, absent)]);
    assert_eq!(bench.server.term.all_to_all.n_bytes(), 0);

    let mut bench = two_trainers();
    bench.say(0, 1, all_to_all(1, &[b"", b"x"]));
    bench.say(1, 1, all_to_all(1, &[b"", b"y"]));
    bench.say(0, 1, Complete);
    assert_eq!(bench.say(1, 1, all_to_all(1, &[b"", b"y"])), [(1, 1, exchanged(&[b"x", b"y"]))]);
}

#[test]
fn the_dead_end_an_exchange() {
    let mut bench = Bench::new(2, true);
    bench.hello(0, 0);
    bench.hello(1, 1);
    bench.say(0, 1, all_to_all(1, &[b"", b"x"]));
    bench.server.closed(Millis(0), ConnId(1));
    let found = bench.tick(2_500);
    let lost = |reply: &Reply| matches!(reply, Reply::Refused(Refusal::TrainerLost { .. }));
    assert!(matches!(&found[..], [(0, 1, reply)] if lost(reply)), "{found:?}");
}

/// A trainer that may be ahead is answered before the others have sent; further ahead it waits for the
/// slowest, learns which ones died, and continues without them if it may.
#[test]
fn a_trainer_that_may_be_ahead_waits_only_for_the_bound() {
    for go_on in [false, true] {
        let mut bench = Bench::new(2, true);
        bench.server.config.apply = Apply::ByRound { ahead: 1 };
        bench.server.config.go_on = go_on;
        bench.hello(0, 0);
        bench.hello(1, 1);
        bench.say(0, 1, push(1.0));
        bench.say(0, 2, Barrier::new(1));
        let told = bench.say(0, 9, pull(1));
        assert!(matches!(told[..], [(0, 9, Reply::Values(_))]), "a round ahead: {told:?}");
        bench.say(0, 3, push(1.0));
        bench.say(0, 4, Barrier::new(2));
        assert_eq!(bench.say(0, 10, pull(2)), [], "two rounds ahead");
        bench.say(1, 1, push(1.0));
        let told = bench.say(1, 2, Barrier::new(1));
        assert!(told.iter().any(|(to, id, _)| (*to, *id) == (0, 10)), "{told:?}");
        bench.say(0, 5, Barrier::new(3));
        assert_eq!(bench.say(0, 11, pull(3)), []);
        bench.server.closed(Millis(bench.now), ConnId(1));
        let told = bench.tick(2000);
        if go_on {
            assert!(matches!(told[..], [(0, 11, Reply::Values(_))]), "{told:?}")
        } else {
            let [(0, 11, Reply::Refused(refusal))] = &told[..] else { panic!("{told:?}") };
            assert!(matches!(refusal, Refusal::TrainerLost { trainer: 1, .. }), "{refusal}");
        }
    }
}
