//! Terms and cuts: what a server does when processes die, one message at a time.

use std::collections::BTreeMap;

use wire::message::{Cut, Given, Recall, Recalled, Recollection};
use wire::recovery::{Term, TermState};

use super::*;

/// A store with one number, of which it keeps cuts.
#[derive(Default)]
struct Keeper {
    vars: Vec<VarInfo>,
    inner: Mutex<Inner>,
}

#[derive(Clone, Default)]
struct Inner {
    sum: f64,
    marked: Option<f64>,
    cuts: BTreeMap<u64, (f64, CutRecord)>,
    term: u64,
    /// Nothing can be written, or loaded.
    is_broken: bool,
    /// This cut turns out to be damaged when it is loaded.
    damaged: Option<u64>,
}

impl Keeper {
    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    fn broken(&self) -> Result<(), Refusal> {
        if self.inner().is_broken { Err(Refusal::Failed("no space".to_string())) } else { Ok(()) }
    }
}

impl Store for Keeper {
    fn vars(&self) -> &[VarInfo] {
        &self.vars
    }

    fn check(&self, _grad: &Grad) -> Result<(), Refusal> {
        Ok(())
    }

    fn apply(&self, _trainer: TrainerId, grad: Grad) -> Result<(), Refusal> {
        self.inner().sum += grad.value.tensor().map_or(0.0, |tensor| tensor.get_f64(0));
        Ok(())
    }

    fn begin_round(&self, grads: Vec<(TrainerId, Vec<Grad>)>) -> Result<Vec<Unit>, Refusal> {
        let all = grads
            .into_iter()
            .flat_map(|(trainer, grads)| grads.into_iter().map(move |grad| (trainer, grad)));
        all.into_iter().try_for_each(|(trainer, grad)| self.apply(trainer, grad))?;
        Ok(Vec::new())
    }

    fn read(&self, _trainer: TrainerId, pull: &Pull) -> Result<Vec<Arc<Value>>, Refusal> {
        let value = Arc::new(Value::Tensor(Tensor::full([1], self.inner().sum)));
        Ok(pull.vars.iter().map(|_| value.clone()).collect())
    }

    fn look_up(&self, look_up: &LookUp) -> Result<Tensor, Refusal> {
        Err(Refusal::UnknownVar(self.name(look_up.table)))
    }

    fn save(&self, save: &Save) -> Result<(), Refusal> {
        Err(Refusal::UnknownVar(save.table.clone()))
    }

    fn size(&self) -> Size {
        Size::default()
    }

    fn on_disk(&self) -> Result<OnDisk, Refusal> {
        let inner = self.inner();
        let state = inner.cuts.values().next_back().map(|(_, record)| record.state.to_vec());
        let cuts = inner.cuts.keys().copied().collect();
        Ok(OnDisk { term: inner.term, cuts, state: state.unwrap_or_default() })
    }

    fn whole_cuts(&self) -> Vec<u64> {
        self.inner().cuts.keys().copied().collect()
    }

    fn mark(&self, _cut: u64) -> Result<(), Refusal> {
        let mut inner = self.inner();
        inner.marked = Some(inner.sum);
        Ok(())
    }

    fn write_cut(&self, record: &CutRecord) -> Result<WrittenCut, Refusal> {
        self.broken()?;
        let mut inner = self.inner();
        let sum = inner.marked.take().unwrap();
        inner.cuts.retain(|&cut, _| cut >= record.complete);
        inner.cuts.insert(record.cut, (sum, record.clone()));
        Ok(WrittenCut { bytes: 8 })
    }

    fn roll_back(&self, cut: u64, term: u64) -> Result<Vec<u8>, Refusal> {
        self.broken()?;
        let mut inner = self.inner();
        if inner.damaged.take_if(|damaged| *damaged == cut).is_some() {
            inner.cuts.remove(&cut);
            return Err(Refusal::Failed("damaged".to_string()));
        }
        let (sum, record) = inner.cuts[&cut].clone();
        inner.cuts.retain(|&other, _| other <= cut);
        (inner.sum, inner.term) = (sum, term);
        Ok(record.state.to_vec())
    }

    fn journal(&self, cut: u64) -> Result<Vec<u8>, Refusal> {
        let inner = self.inner();
        Ok(inner.cuts.range(..=cut).flat_map(|(_, (_, record))| record.journal.to_vec()).collect())
    }
}

/// A server, the store it was started with, and work that waits to be done.
struct Rig {
    server: Server,
    store: Keeper,
    now: u64,
    works: Vec<Work>,
    said: Vec<(u64, u64, Reply)>,
    log: Vec<String>,
}

impl Rig {
    fn on(inner: Inner, ahead: Option<u32>) -> Self {
        let store = Keeper { vars: vec![VarInfo::other("w")], inner: Mutex::new(inner) };
        let apply = ahead.map_or(Apply::AtOnce, |ahead| Apply::ByRound { ahead });
        let (n_trainers, job) = (2, "job".to_string());
        let config =
            ServerConfig { job, n_trainers, apply, recovers: true, ..ServerConfig::default() };
        let server = Server::start(config, store.vars.clone(), &store).unwrap();
        Self { server, store, now: 0, works: Vec::new(), said: Vec::new(), log: Vec::new() }
    }

    /// Two trainers in the first term.
    fn new(ahead: Option<u32>) -> Self {
        let mut rig = Self::on(Inner::default(), ahead);
        for trainer in 0..2 {
            let said = rig.greet(trainer, 1, Some(0));
            assert!(matches!(said[..], [(_, _, Reply::Welcome(_)), (_, _, Reply::Notice(_))]));
        }
        rig
    }

    fn take(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Reply(conn, id, reply) => self.said.push((conn.0, id, reply)),
                Action::Run(work) => self.works.push(work),
                Action::Log(_, line) => self.log.push(line),
                Action::Close(_) => {}
            }
        }
    }

    /// Says something, and leaves what work comes of it undone.
    fn tell(&mut self, conn: u64, id: u64, request: impl Into<Request>) -> Vec<(u64, u64, Reply)> {
        let actions = self.server.handle(Millis(self.now), ConnId(conn), id, request.into());
        self.take(actions);
        std::mem::take(&mut self.said)
    }

    /// Does the work that there is, and what comes of it.
    fn work(&mut self) -> Vec<(u64, u64, Reply)> {
        while !self.works.is_empty() {
            let done = self.works.remove(0).run(&self.store);
            let actions = self.server.done(Millis(self.now), done);
            self.take(actions);
        }
        std::mem::take(&mut self.said)
    }

    fn say(&mut self, conn: u64, id: u64, request: impl Into<Request>) -> Vec<(u64, u64, Reply)> {
        let mut said = self.tell(conn, id, request);
        said.extend(self.work());
        said
    }

    fn hello(trainer: u32, number: u64, base: Option<u64>) -> Hello {
        Hello { term: Term { number, base }, ..hello(trainer, u64::from(trainer) + 100) }
    }

    /// Trainer `i` greets on connection `i`.
    fn greet(&mut self, trainer: u32, number: u64, base: Option<u64>) -> Vec<(u64, u64, Reply)> {
        self.say(trainer.into(), 0, Self::hello(trainer, number, base))
    }

    fn tick(&mut self, ms: u64) -> Vec<(u64, u64, Reply)> {
        let end = self.now + ms;
        while self.now < end {
            self.now = end.min(self.now + 100);
            let actions = self.server.tick(Millis(self.now));
            self.take(actions);
        }
        self.work()
    }
}

fn term_state(number: u64, base: Option<u64>, cuts: &[u64]) -> TermState {
    TermState { term: Term { number, base }, cuts: cuts.to_vec(), has_member: false }
}

fn other_term(term_state: TermState) -> Reply {
    Refusal::OtherTerm(term_state).into()
}

fn part(cut: u64, complete: u64, given: &[u8]) -> Cut {
    Cut { cut, complete, state: given.to_vec(), journal: given.to_vec(), has_more: false }
}

fn recalled(state: &[u8], journal: &[u8]) -> Recalled {
    let bytes = [state, journal].concat();
    Recalled { n_state: state.len() as u64, n_bytes: bytes.len() as u64, bytes }
}

fn kept(said: &[(u64, u64, Reply)]) -> Vec<u64> {
    let mut notices = said.iter().filter_map(|(_, _, reply)| match reply {
        Reply::Notice(notice) => Some(notice.kept.clone()),
        _ => None,
    });
    notices.next_back().expect("a notice")
}

#[test]
fn who_asks_is_told_how_the_server_stands() {
    let mut rig = Rig::on(Inner::default(), None);
    let first = term_state(1, Some(0), &[0]);
    assert_eq!(rig.greet(0, 0, None), [(0, 0, other_term(first.clone()))]);
    assert_eq!(rig.greet(0, 1, Some(3)), [(0, 0, other_term(first.clone()))], "no such base");
    assert_eq!(rig.greet(0, 2, Some(0)), [(0, 0, other_term(first))], "it was never opened");
    rig.greet(0, 1, Some(0));
    assert_eq!(rig.say(0, 1, push(2.0)), [(0, 1, Ack.into())]);
    // Another process of a rank that took part: what the first one did is in no cut.
    rig.server.closed(Millis(0), ConnId(0));
    let other = Hello { incarnation: 9, ..Rig::hello(0, 1, Some(0)) };
    let has_member = TermState { has_member: true, ..term_state(1, Some(0), &[0]) };
    assert_eq!(rig.say(5, 0, other), [(5, 0, other_term(has_member))]);
}

#[test]
fn a_rank_that_is_taken_opens_no_term() {
    let mut rig = Rig::new(None);
    for number in [0, 2] {
        let other = Hello { incarnation: 9, ..Rig::hello(0, number, None) };
        let refused = rig.say(5, 0, other);
        let is_duplicate = matches!(
            &refused[..],
            [(5, 0, Reply::Refused(Refusal::DuplicateTrainer { trainer: 0, .. }))]
        );
        assert!(is_duplicate, "{refused:?}");
    }
    assert_eq!(rig.say(0, 1, push(1.0)), [(0, 1, Ack.into())], "the first is served as before");
}

#[test]
fn a_server_that_starts_again_serves_nobody_before_its_base_is_loaded() {
    let mut rig = Rig::new(None);
    rig.say(0, 1, push(2.0));
    rig.say(0, 2, part(1, 0, &[7]));
    let said = rig.say(1, 1, part(1, 0, &[8]));
    assert_eq!(kept(&said), [0, 1]);
    rig.say(0, 3, push(5.0));
    let inner = rig.store.inner().clone();
    let mut rig = Rig::on(inner, None);
    let opened = term_state(2, None, &[0, 1]);
    assert_eq!(rig.greet(0, 1, Some(0)), [(0, 0, other_term(opened.clone()))]);
    assert_eq!(rig.tell(0, 0, Rig::hello(0, 2, Some(1))), [], "it is loaded");
    assert_eq!(rig.tell(1, 0, Rig::hello(1, 2, Some(1))), []);
    let pong = rig.tell(1, 0, Rig::hello(1, 2, Some(1)));
    assert!(
        matches!(pong[..], [(1, 0, Reply::Pong(_))]),
        "a waiting trainer hears of it: {pong:?}"
    );
    let asks = rig.tell(3, 0, Rig::hello(1, 0, None));
    assert_eq!(asks, [(3, 0, other_term(term_state(2, Some(1), &[0, 1])))]);
    let welcome = |said: &[(u64, u64, Reply)]| {
        said.iter().filter(|(_, _, reply)| matches!(reply, Reply::Welcome(_))).count()
    };
    assert_eq!(welcome(&rig.work()), 2);
    assert_eq!(rig.say(0, 9, pull(0)), [(0, 9, value(2.0))], "what came after the cut is gone");
    let recalled = recalled(&[7], &[7]);
    assert_eq!(rig.say(0, 10, Recall { cut: 1, from: 0 }), [(0, 10, recalled.into())]);
    let no_such = Refusal::NoSuchCut { cut: 0, base: 1 };
    assert_eq!(rig.say(0, 11, Recall { cut: 0, from: 0 }), [(0, 11, no_such.into())]);
}

#[test]
fn a_term_that_is_opened_ends_everything_of_the_one_before() {
    let mut rig = Rig::new(None);
    // Work of the term before is under way.
    assert_eq!(rig.tell(0, 1, push(2.0)), []);
    let said = rig.tell(1, 0, Rig::hello(1, 2, None));
    let opened = other_term(term_state(2, None, &[0]));
    assert_eq!(said, [(0, 0, opened.clone()), (1, 0, opened.clone()), (1, 0, opened)]);
    assert_eq!(rig.tell(1, 2, push(3.0)), [(1, 2, Refusal::HelloFirst.into())]);
    // The base is loaded when that work has ended, without a notice.
    assert_eq!(rig.tell(0, 0, Rig::hello(0, 2, Some(0))), []);
    assert_eq!(rig.works.len(), 1, "the push of the term before");
    let said = rig.work();
    assert!(matches!(said[..], [(0, 0, Reply::Welcome(_)), (0, 0, Reply::Notice(_))]), "{said:?}");
    assert_eq!(rig.store.inner().sum, 0.0);
    assert_eq!(rig.store.inner().term, 2);
    // Numbers begin anew with the conversation.
    assert_eq!(rig.say(0, 1, push(4.0)), [(0, 1, Ack.into())]);
}

#[test]
fn a_term_can_be_opened_while_a_base_is_loaded() {
    let mut rig = Rig::new(None);
    rig.greet(0, 2, None);
    assert_eq!(rig.tell(0, 0, Rig::hello(0, 2, Some(0))), []);
    let third = other_term(term_state(3, None, &[0]));
    let said = rig.tell(1, 0, Rig::hello(1, 3, None));
    assert_eq!(said, [(0, 0, third.clone()), (1, 0, third)], "the waiting trainer learns it, too");
    assert_eq!(rig.work(), [], "no trainer waits for the loaded cut");
    let said = rig.greet(0, 3, Some(0));
    assert!(matches!(said[0].2, Reply::Welcome(_)), "{said:?}");
    assert_eq!(rig.store.inner().term, 3);
}

#[test]
fn a_base_that_cannot_be_loaded_is_not_offered_again() {
    let mut rig = Rig::new(None);
    for (conn, seq) in [(0, 1), (1, 1)] {
        rig.say(conn, seq, part(1, 0, &[]));
    }
    rig.greet(0, 2, None);
    rig.store.inner().is_broken = true;
    let said = rig.greet(0, 2, Some(1));
    assert_eq!(said, [(0, 0, other_term(term_state(2, None, &[0, 1])))], "it is still there");
    assert!(rig.log.iter().any(|line| line.contains("it is tried again")), "{:?}", rig.log);
    rig.store.inner().is_broken = false;
    rig.store.inner().damaged = Some(1);
    let said = rig.greet(0, 2, Some(1));
    assert_eq!(said, [(0, 0, other_term(term_state(2, None, &[0])))]);
    assert!(rig.log.iter().any(|line| line.contains("cut 1 cannot be loaded")), "{:?}", rig.log);
}

/// The state of a cut is that before the first part: what comes after a part waits until it is marked.
#[test]
fn a_cut_is_marked_when_nothing_is_under_way_and_before_anything_follows() {
    let mut rig = Rig::new(None);
    rig.say(0, 1, push(2.0));
    assert_eq!(rig.tell(1, 1, push(3.0)), [], "under way");
    assert_eq!(rig.tell(0, 2, part(1, 0, &[])), [], "it waits for that");
    assert_eq!(rig.tell(0, 3, push(10.0)), []);
    assert_eq!(rig.works.len(), 1);
    let said = rig.work();
    assert_eq!(said, [(1, 1, Ack.into()), (0, 2, Ack.into()), (0, 3, Ack.into())]);
    let said = rig.say(1, 2, part(1, 0, &[]));
    assert_eq!(kept(&said), [0, 1]);
    let inner = rig.store.inner().clone();
    assert_eq!((inner.cuts[&1].0, inner.sum), (5.0, 15.0));
}

#[test]
fn a_cut_that_comes_while_another_is_written_is_left_out_but_not_its_journals() {
    let mut rig = Rig::new(None);
    rig.say(0, 1, part(1, 0, &[1]));
    assert_eq!(rig.tell(1, 1, part(1, 0, &[2])), [(1, 1, Ack.into())]);
    assert_eq!(rig.works.len(), 1, "it is being written");
    for conn in [0, 1] {
        assert_eq!(rig.tell(conn, 2, part(2, 0, &[3])), [(conn, 2, Ack.into())]);
    }
    assert_eq!(kept(&rig.work()), [0, 1]);
    rig.store.inner().is_broken = true;
    for conn in [0, 1] {
        assert_eq!(rig.say(conn, 3, part(3, 0, &[4])), [(conn, 3, Ack.into())], "no space");
    }
    rig.store.inner().is_broken = false;
    rig.say(0, 4, part(4, 1, &[5]));
    let said = rig.say(1, 4, part(4, 0, &[6]));
    assert_eq!(kept(&said), [1, 4], "what all have kept makes older ones useless");
    rig.greet(0, 2, None);
    rig.greet(0, 2, Some(4));
    let recalled = recalled(&[5], &[1, 3, 4, 5]);
    assert_eq!(rig.say(0, 9, Recall { cut: 4, from: 0 }), [(0, 9, recalled.into())]);
}

/// A part counts when all of it is here. Data that was lost with its term is not in the next part.
#[test]
fn what_is_large_comes_and_goes_in_pieces() {
    let mut rig = Rig::new(None);
    rig.server.config.piece_bytes = 4;
    let given = Given { state: vec![1, 2, 3, 4, 5], journal: vec![6, 7, 8, 9] };
    let lost = Cut { cut: 1, state: vec![0; 3], has_more: true, ..Cut::default() };
    assert_eq!(rig.say(0, 1, lost), [(0, 1, Ack.into())]);
    rig.greet(0, 2, None);
    (0..2).for_each(|trainer| drop(rig.greet(trainer, 2, Some(0))));
    for (at, piece) in given.clone().pieces(1, 0, 2).enumerate() {
        assert_eq!(rig.store.inner().cuts.len(), 1);
        assert_eq!(rig.say(0, at as u64 + 1, piece).last(), Some(&(0, at as u64 + 1, Ack.into())));
    }
    assert_eq!(kept(&rig.say(1, 1, part(1, 0, &[]))), [0, 1]);
    rig.greet(0, 3, None);
    rig.greet(0, 3, Some(1));
    for turn in 0..2 {
        let (mut together, mut n_asked) = (Recollection::default(), 0);
        let back = loop {
            n_asked += 1;
            let said = rig.say(0, 10 * turn + n_asked, together.next(1));
            let [(0, _, Reply::Recalled(piece))] = &said[..] else { panic!("{said:?}") };
            assert!(piece.bytes.len() <= 4);
            if let Some(back) = together.add(piece.clone()) {
                break back;
            }
        };
        assert_eq!((back, n_asked), (given.clone(), 3));
    }
}

/// A trainer that has completed takes part in cuts until it leaves; parts of rounds that wait are in the cut.
#[test]
fn who_has_completed_stays_for_cuts_and_its_rounds_with_it() {
    let mut rig = Rig::new(Some(2));
    for round in 1..=2 {
        rig.say(0, 2 * round - 1, push(1.0));
        rig.say(0, 2 * round, Barrier::new(round));
    }
    assert_eq!(rig.say(0, 5, Complete), [(0, 5, Ack.into())]);
    rig.say(1, 1, push(1.0));
    rig.say(1, 2, Barrier::new(1));
    assert_eq!(rig.server.stats().rounds, 1);
    rig.say(1, 3, part(1, 0, &[]));
    assert_eq!(rig.store.inner().cuts.len(), 1, "the one that completed has given no part");
    let said = rig.say(0, 6, part(1, 0, &[]));
    assert_eq!(kept(&said), [0, 1]);
    assert_eq!(rig.say(0, 7, Leave), [(0, 7, Ack.into())]);
    assert_eq!(rig.server.end(), None);
    // Everybody goes back: it is not waited for, and its part of the second round is there.
    rig.greet(1, 2, None);
    let said = rig.greet(1, 2, Some(1));
    assert_eq!(said[0], (1, 0, Welcome { accepted: 0, round: 1 }.into()));
    rig.say(1, 1, push(1.0));
    rig.say(1, 2, Barrier::new(2));
    assert_eq!((rig.server.stats().rounds, rig.store.inner().sum), (2, 4.0));
    rig.say(1, 3, Complete);
    assert_eq!(rig.server.end(), None, "it stays for a last cut");
    assert_eq!(kept(&rig.say(1, 4, part(2, 1, &[]))), [1, 2]);
    rig.say(1, 5, Leave);
    assert_eq!(rig.server.end(), Some(End::Completed));
}

#[test]
fn who_died_is_waited_for_and_not_for_ever() {
    let mut rig = Rig::new(Some(0));
    rig.say(0, 1, push(1.0));
    rig.say(0, 2, Barrier::new(1));
    assert_eq!(rig.say(0, 9, pull(1)), []);
    rig.server.closed(Millis(rig.now), ConnId(1));
    rig.tick(5_000);
    let waits = |log: &[String]| log.iter().any(|line| line.contains("it is waited for"));
    assert!(waits(&rig.log), "{:?}", rig.log);
    assert_eq!(rig.server.end(), None);
    // The same process comes back, and is dead again.
    let said = rig.greet(1, 1, Some(0));
    assert!(matches!(said[0].2, Reply::Welcome(_)), "{said:?}");
    rig.server.closed(Millis(rig.now), ConnId(1));
    for _ in 0..40 {
        rig.say(0, 99, Ping);
        rig.tick(8_000);
    }
    let lost =
        |reply: &Reply| matches!(reply, Reply::Refused(Refusal::TrainerLost { trainer: 1, .. }));
    let refused = rig.say(0, 10, pull(1));
    assert!(lost(&refused[0].2), "{refused:?}");
}

#[test]
fn an_open_term_that_nobody_loads_ends() {
    let inner = Rig::new(None).store.inner().clone();
    let mut rig = Rig::on(inner, None);
    rig.tick(299_000);
    assert_eq!(rig.server.end(), None);
    rig.tick(2_000);
    assert!(matches!(rig.server.end(), Some(End::Failed(Refusal::Failed(_)))));
}

/// A server that ends wants a cut; only the one that leads can say when it is.
#[test]
fn who_does_not_lead_has_its_trainers_tell_the_lead() {
    let cut_requests = |said: &[(u64, u64, Reply)]| -> Vec<(u64, u64)> {
        let cut_requests = said.iter().filter_map(|(conn, _, reply)| match reply {
            Reply::Notice(notice) => Some((*conn, notice.cut_requests)),
            _ => None,
        });
        cut_requests.collect()
    };
    let mut rig = Rig::new(None);
    rig.server.want_cut();
    assert_eq!(cut_requests(&rig.tick(100)), [(0, 1), (1, 1)]);
    // Everybody goes back before it came to that: it is still wanted.
    rig.greet(0, 2, None);
    let said = rig.greet(0, 2, Some(0));
    assert_eq!(cut_requests(&said), [(0, 1)]);
}

/// All trainers were through, and one of the servers is started again.
#[test]
fn a_server_that_starts_when_the_job_is_over_does_not_wait_long() {
    let mut rig = Rig::new(None);
    for conn in [0, 1] {
        rig.say(conn, 1, Complete);
    }
    rig.say(0, 2, part(1, 0, &[]));
    assert_eq!(kept(&rig.say(1, 2, part(1, 0, &[]))), [0, 1]);
    let on_disk = || {
        let inner = rig.store.inner();
        Inner { cuts: inner.cuts.clone(), term: inner.term, ..Inner::default() }
    };
    let (mut alone, mut asked) = (Rig::on(on_disk(), None), Rig::on(on_disk(), None));
    assert_eq!(alone.tick(9_000), []);
    assert_eq!(alone.server.end(), None, "somebody may not have heard of the end");
    alone.tick(2_000);
    assert_eq!(alone.server.end(), Some(End::Completed));
    let said = |line: &String| line.contains("all trainers were through at cut 1");
    assert_eq!(alone.log.iter().filter(|line| said(line)).count(), 1, "{:?}", alone.log);
    // One of them has not heard of the end.
    asked.greet(0, 3, None);
    asked.tick(60_000);
    assert_eq!(asked.server.end(), None);
    let said = asked.greet(0, 3, Some(1));
    assert!(matches!(said[..], [(0, 0, Reply::Welcome(_)), ..]), "{said:?}");
}

/// The whole job is started again when all trainers were through, and one of them is slow to start.
#[test]
fn a_server_does_not_end_before_all_have_come_who_are_started_again_with_it() {
    let mut rig = Rig::new(None);
    for conn in [0, 1] {
        rig.say(conn, 1, Complete);
    }
    rig.say(0, 2, part(1, 0, &[]));
    rig.say(1, 2, part(1, 0, &[]));
    let inner = rig.store.inner();
    let on_disk = Inner { cuts: inner.cuts.clone(), term: inner.term, ..Inner::default() };
    drop(inner);
    let mut again = Rig::on(on_disk, None);
    again.greet(0, 3, None);
    again.greet(0, 3, Some(1));
    again.say(0, 1, Leave);
    again.tick(9_000);
    assert_eq!(again.server.end(), None, "the other one has not come");
    again.greet(1, 3, Some(1));
    again.tick(60_000);
    assert_eq!(again.server.end(), None, "it is here");
    again.say(1, 1, Leave);
    assert_eq!(again.server.end(), Some(End::Completed));
    // Those that this process saw end are not waited for.
    rig.say(1, 3, Leave);
    rig.greet(0, 3, None);
    rig.greet(0, 3, Some(1));
    rig.say(0, 1, Leave);
    assert_eq!(rig.server.end(), Some(End::Completed));
}

#[test]
fn trainers_that_have_finished_do_not_wait_for_a_cut_that_cannot_be_written() {
    for n_completed in [1, 2] {
        let mut rig = Rig::new(None);
        for conn in 0..n_completed {
            rig.say(conn, 1, Complete);
        }
        rig.store.inner().is_broken = true;
        rig.say(0, 2, part(1, 0, &[1]));
        let said = rig.say(1, 2, part(1, 0, &[2]));
        let is_told = said.iter().any(
            |(_, _, reply)| matches!(reply, Reply::Notice(notice) if notice.kept.contains(&1)),
        );
        assert_eq!(is_told, n_completed == 2, "{said:?}");
    }
}
