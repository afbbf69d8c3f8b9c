//! Servers that keep cuts, and trainers that go back to them, over real connections.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use base::Endpoint;
use net::tcp::{Client, Listener, Patience, Stop, join};
use protocol::server::{Apply, End, Server, ServerConfig};
use testing::sim::{Book, Disk, SHARED_VAR, grad, vars};
use wire::message::{
    Complete, Given, Hello, Leave, Pull, Push, Ready, Recall, Recollection, Reply, VERSION, WantCut,
};
use wire::recovery::{Term, common};
use wire::{Error, Refusal};

const TRAINERS: u32 = 2;

/// A server with its disk.
struct Served {
    endpoint: Endpoint,
    stop: Stop,
    log: Arc<Mutex<Vec<String>>>,
    thread: JoinHandle<(Option<End>, Disk)>,
}

impl Served {
    fn start(at: &Endpoint, is_lead: bool, mut disk: Disk) -> Self {
        disk.is_prompt = true;
        let config = ServerConfig {
            job: "job".to_string(),
            n_trainers: TRAINERS,
            apply: Apply::AtOnce,
            recovers: true,
            is_lead,
            cut_every_ms: 60_000,
            ready_ms: 5_000,
            ..ServerConfig::default()
        };
        let book = Arc::new(Book::on(TRAINERS, disk));
        let server = Server::start(config, vars(TRAINERS), &*book).unwrap();
        let listener = bind(at);
        let (endpoint, stop) = (listener.endpoint().clone(), Stop::default());
        let (log, stopped) = (Arc::<Mutex<Vec<String>>>::default(), stop.clone());
        let lines = log.clone();
        let thread = thread::spawn(move || {
            let note = move |_, line: &str| lines.lock().unwrap().push(line.into());
            let end = listener.serve(server, book.clone(), &stopped, note);
            let disk = std::mem::take(&mut *book.disk());
            (end, disk)
        });
        Self { endpoint, stop, log, thread }
    }

    fn new(is_lead: bool) -> Self {
        Self::start(&"127.0.0.1:0".parse().unwrap(), is_lead, Disk::default())
    }

    /// Its process ends, and its disk stays.
    fn die(self) -> (Endpoint, Disk) {
        self.stop.set();
        (self.endpoint, self.thread.join().unwrap().1)
    }
}

/// The process before may be on its way out.
fn bind(at: &Endpoint) -> Listener {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        match Listener::bind(at) {
            Ok(listener) => return listener,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        thread::yield_now();
    }
}

/// A trainer's process: a client for each server.
struct Trainer {
    id: u32,
    clients: Vec<Arc<Client>>,
}

impl Trainer {
    fn new(id: u32, incarnation: u64, endpoints: &[&Endpoint]) -> Self {
        let client = |&endpoint: &&Endpoint| {
            let (version, term) = (VERSION, Term::default());
            let (job, vars) = ("job".to_string(), vars(TRAINERS));
            let hello = Hello { version, job, trainer: id, incarnation, term, vars };
            let patience = Patience {
                connect_ms: 5_000,
                grace_ms: 500,
                lease_ms: 5_000,
                answer_ms: 20_000,
                recover_ms: 20_000,
            };
            Client::new(endpoint.clone(), hello, patience)
        };
        Self { id, clients: endpoints.iter().map(client).collect() }
    }

    fn join(&self) -> Term {
        join(&self.clients).unwrap().expect("a job that recovers")
    }

    fn push(&self, tag: i64) {
        for (server, client) in self.clients.iter().enumerate() {
            client.change(Push { grads: vec![grad(tag, server)], behind: 0 }).unwrap();
        }
        self.clients.iter().for_each(|client| client.settle().unwrap());
    }

    /// The shared variable, on each server.
    fn values(&self) -> Vec<f64> {
        let value = |client: &Arc<Client>| {
            let pull = Pull { after: 0, changed: false, vars: vec![SHARED_VAR] };
            let ticket = client.ask(pull).unwrap();
            match client.wait(ticket, "parameters").unwrap() {
                Reply::Values(values) => values.0[0].tensor().unwrap().get_f64(0),
                other => panic!("{other:?}"),
            }
        };
        self.clients.iter().map(value).collect()
    }

    fn ask(&self, request: impl Into<wire::message::Request>) -> Reply {
        let ticket = self.clients[0].ask(request).unwrap();
        self.clients[0].wait(ticket, "an answer").unwrap()
    }

    fn send_part(&self, cut: u64, complete: u64) {
        for (server, client) in self.clients.iter().enumerate() {
            let is_home = server == self.id as usize % self.clients.len();
            let bytes = |what: u8| if is_home { vec![what, self.id as u8] } else { Vec::new() };
            let (state, journal) = (bytes(1), bytes(2));
            let given = Given { state, journal };
            given.pieces(cut, complete, 1).for_each(|piece| client.change(piece).unwrap());
        }
    }

    fn recall(&self, cut: u64) -> Given {
        let home = &self.clients[self.id as usize % self.clients.len()];
        let mut recollection = Recollection::default();
        loop {
            let ticket = home.ask(recollection.next(cut)).unwrap();
            let Reply::Recalled(recalled) = home.wait(ticket, "what it was").unwrap() else {
                panic!("no answer to that");
            };
            if let Some(given) = recollection.add(recalled) {
                return given;
            }
        }
    }

    fn complete(&self) -> Option<u64> {
        let kept: Vec<Vec<u64>> = self.clients.iter().map(|client| client.notice().kept).collect();
        common(&kept)
    }
}

/// Waits for something that servers say in their own time.
fn wait_for<T>(what: &str, trainers: &[Trainer], mut there: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(found) = there() {
            return found;
        }
        assert!(Instant::now() < until, "waited in vain for {what}");
        // A thread that waits for an answer also reads what else comes.
        trainers.iter().for_each(|trainer| drop(trainer.values()));
    }
}

/// A cut of the whole job, wanted by the first trainer.
fn make_cut(trainers: &[Trainer]) -> u64 {
    assert_eq!(trainers[0].ask(WantCut), Reply::Done(wire::message::Done));
    let lead = &trainers[0].clients[0];
    let next_cut = wait_for("a notice", trainers, || lead.notice().next_cut);
    let before = trainers[0].complete().unwrap();
    let ready: Vec<_> = trainers
        .iter()
        .map(|trainer| trainer.clients[0].ask(Ready { cut: next_cut.cut }).unwrap())
        .collect();
    for (trainer, ticket) in trainers.iter().zip(ready) {
        let answer = trainer.clients[0].wait(ticket, "the others").unwrap();
        assert!(matches!(answer, Reply::StartCut(_)), "{answer:?}");
        trainer.send_part(next_cut.cut, before);
    }
    wait_for("all servers to keep it", trainers, || {
        let is_complete = |trainer: &Trainer| trainer.complete() == Some(next_cut.cut);
        trainers.iter().all(is_complete).then_some(next_cut.cut)
    })
}

/// A server dies and comes back with its disk; trainers wait for it, go back with it, and find what was there
/// at the cut.
#[test]
fn a_server_that_comes_back_takes_everybody_back_to_the_last_cut() {
    let (first, second) = (Served::new(true), Served::new(false));
    let endpoints = [&first.endpoint.clone(), &second.endpoint.clone()];
    let trainers = [0, 1].map(|id| Trainer::new(id, 7 + u64::from(id), &endpoints));
    for trainer in &trainers {
        assert_eq!(trainer.join(), Term { number: 1, base: Some(0) });
        assert_eq!(trainer.recall(0), Given::default());
        trainer.push(i64::from(trainer.id) * 1_000_000 + 100);
    }
    let at_cut = trainers[0].values();
    let cut = make_cut(&trainers);
    trainers[1].push(1_000_200);
    assert_ne!(trainers[0].values(), at_cut);
    let (endpoint, disk) = second.die();
    let comes_back = thread::spawn(move || Served::start(&endpoint, false, disk));
    // The next message to it gets the answer that it is another process now.
    let error = loop {
        let client = &trainers[0].clients[1];
        let said =
            client.change(Push { grads: Vec::new(), behind: 0 }).and_then(|()| client.settle());
        if let Err(error) = said {
            break error;
        }
    };
    assert!(matches!(error, Error::OtherTerm { .. }), "{error}");
    thread::scope(|scope| {
        for trainer in &trainers {
            scope.spawn(move || {
                assert_eq!(trainer.join(), Term { number: 2, base: Some(cut) });
                let (state, journal) = (vec![1, trainer.id as u8], vec![2, trainer.id as u8]);
                assert_eq!(trainer.recall(cut), Given { state, journal });
            });
        }
    });
    assert_eq!(trainers[0].values(), at_cut, "what came after the cut is gone, on both servers");
    let second = comes_back.join().unwrap();
    let log = second.log.lock().unwrap().join("\n");
    assert!(log.contains(&format!("at cut {cut}: term 2")), "{log}");
    end(&trainers, [first, second]);
}

/// A trainer dies: the process that takes its place opens a new term, and the others are told.
#[test]
fn a_trainer_that_takes_anothers_place_takes_everybody_back() {
    let servers = [Served::new(true), Served::new(false)];
    let endpoints = [&servers[0].endpoint.clone(), &servers[1].endpoint.clone()];
    let mut trainers = [0, 1].map(|id| Trainer::new(id, 7 + u64::from(id), &endpoints));
    assert!(trainers.iter().all(|trainer| trainer.join().number == 1));
    trainers[0].push(100);
    let cut = make_cut(&trainers);
    let at_cut = trainers[0].values();
    trainers[1].push(1_000_100);
    // Two processes of one rank: the second is refused as long as the first is heard.
    let other = Trainer::new(1, 99, &endpoints);
    trainers[1].clients.iter().for_each(|client| client.close());
    assert_eq!(other.join(), Term { number: 2, base: Some(cut) });
    assert_eq!(other.recall(cut).journal, [2, 1]);
    trainers[1] = other;
    let client = &trainers[0].clients[0];
    let ticket = client.ask(WantCut).unwrap();
    let error = client.wait(ticket, "an answer").unwrap_err();
    assert!(matches!(error, Error::OtherTerm { .. }), "{error}");
    assert_eq!(trainers[0].join(), Term { number: 2, base: Some(cut) });
    assert_eq!(trainers[0].values(), at_cut);
    let refused = trainers[0].clients[0].ask(Recall { cut: 0, from: 0 }).unwrap();
    let refused = trainers[0].clients[0].wait(refused, "a cut that is gone").unwrap_err();
    let expected = Refusal::NoSuchCut { cut: 0, base: cut };
    assert!(
        matches!(&refused, Error::Refused { refusal, .. } if *refusal == expected),
        "{refused}"
    );
    end(&trainers, servers);
}

/// A server without cuts among those that keep them is found at the start.
#[test]
fn servers_that_keep_no_cuts_are_found_among_those_that_do() {
    let keeps = Served::new(true);
    let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap()).unwrap();
    let (other, stop) = (listener.endpoint().clone(), Stop::default());
    let config =
        ServerConfig { job: "job".to_string(), n_trainers: TRAINERS, ..ServerConfig::default() };
    let stopped = stop.clone();
    let plain = thread::spawn(move || {
        let server = Server::new(config, vars(TRAINERS));
        listener.serve(server, Arc::new(Book::new(TRAINERS)), &stopped, |_, _| ())
    });
    let trainer = Trainer::new(0, 7, &[&keeps.endpoint, &other]);
    let error = join(&trainer.clients).unwrap_err();
    let names_it = matches!(&error, Error::Refused { endpoint, .. } if *endpoint == other);
    assert!(names_it, "{error}");
    let plain_only = Trainer::new(1, 8, &[&other]);
    assert_eq!(join(&plain_only.clients).unwrap(), None, "a job that does not recover");
    stop.set();
    plain.join().unwrap();
    keeps.die();
}

/// All complete, take part in a last cut, and leave; then the servers end.
fn end(trainers: &[Trainer], servers: [Served; 2]) {
    for trainer in trainers {
        for client in &trainer.clients {
            client.change(Complete).unwrap();
            client.settle().unwrap();
        }
    }
    make_cut(trainers);
    for client in trainers.iter().flat_map(|trainer| &trainer.clients) {
        client.change(Leave).unwrap();
        client.settle().unwrap();
    }
    trainers.iter().flat_map(|trainer| &trainer.clients).for_each(|client| client.close());
    for server in servers {
        assert_eq!(server.thread.join().unwrap().0, Some(End::Completed));
    }
}
