//! Sixty-four trainers, four servers, a thousand rounds: nothing hangs and nothing grows.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use std::fs;
use std::sync::{Arc, Barrier as Wall, Mutex};
use std::thread;

use ps::message::{Barrier, Complete, Hello, LookUp, Named, Pull, Push, Save, VERSION};
use ps::server::{Config, End, Server, Size, Store};
use ps::tcp::{Client, Listener, Patience, Stop};
use ps::{Endpoint, Refusal, TrainerId};
use tensor::{Tensor, Value};

const TRAINERS: u32 = 64;
const SERVERS: usize = 4;
const ROUNDS: u64 = 1000;
/// By then everything is as large as it will be.
const WARM: u64 = 200;

/// One number; gradients are added.
#[derive(Default)]
struct Tiny(f64);

impl Store for Tiny {
    fn check(&self, _grad: &Named) -> Result<(), Refusal> {
        Ok(())
    }

    fn apply(&mut self, _trainer: TrainerId, grad: Named) -> Result<(), String> {
        self.0 += grad.value.tensor().unwrap().get_f64(0);
        Ok(())
    }

    fn round(&mut self, grads: Vec<(TrainerId, Vec<Named>)>) -> Result<(), String> {
        let all = grads.into_iter().flat_map(|(id, grads)| grads.into_iter().map(move |g| (id, g)));
        all.into_iter().try_for_each(|(id, grad)| self.apply(id, grad))
    }

    fn read(&mut self, _trainer: TrainerId, _pull: &Pull) -> Result<Vec<Arc<Value>>, Refusal> {
        Ok(vec![Arc::new(Value::Tensor(Tensor::full([1], self.0)))])
    }

    fn look_up(&mut self, look_up: &LookUp) -> Result<Tensor, Refusal> {
        Err(Refusal::UnknownVar(look_up.table.clone()))
    }

    fn save(&mut self, save: &Save) -> Result<(), Refusal> {
        Err(Refusal::UnknownVar(save.table.clone()))
    }

    fn size(&self) -> Size {
        Size { rows: 1, bytes: 8, ..Size::default() }
    }
}

/// What this process holds.
#[derive(Clone, Copy, Debug)]
struct Use {
    n_files: usize,
    n_threads: usize,
    memory_kb: u64,
}

fn used() -> Use {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    Use {
        n_files: fs::read_dir("/proc/self/fd").unwrap().count(),
        n_threads: fs::read_dir("/proc/self/task").unwrap().count(),
        memory_kb: memory.trim().trim_end_matches(" kB").parse().unwrap(),
    }
}

fn train(id: u32, servers: &[Endpoint], at_rest: &Wall, marks: &Mutex<Vec<Use>>) {
    let hello = |_| Hello {
        version: VERSION,
        job: String::new(),
        trainer: id,
        incarnation: 1,
        vars: Vec::new(),
    };
    let clients = servers.iter().map(|at| Client::new(at.clone(), hello(at), Patience::default()));
    let clients: Vec<_> = clients.collect();
    for round in 1..=ROUNDS {
        for client in &clients {
            let value = Value::Tensor(Tensor::full([1], 1f64));
            client
                .change(Push { grads: vec![Named { name: "w".to_string(), value }], behind: 0 })
                .unwrap();
            client.change(Barrier { round: client.round() + 1 }).unwrap();
        }
        let pull = || Pull { after: round, changed: false, names: vec!["w".to_string()] };
        let asked: Vec<_> = clients.iter().map(|client| client.ask(pull()).unwrap()).collect();
        for (client, ticket) in clients.iter().zip(asked) {
            client.wait(ticket, "parameters").unwrap();
        }
        if round == WARM || round == ROUNDS {
            if at_rest.wait().is_leader() {
                marks.lock().unwrap().push(used());
            }
            at_rest.wait();
        }
    }
    for client in &clients {
        client.change(Complete).unwrap();
        client.settle().unwrap();
    }
}

#[test]
fn a_crowd_neither_hangs_nor_leaks() {
    let before = used();
    let config = Config { n_trainers: TRAINERS, ..Config::default() };
    let start = |_| {
        let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap()).unwrap();
        let (at, server) = (listener.endpoint().clone(), Server::new(config.clone(), Tiny(0.0)));
        (at, thread::spawn(move || listener.serve(server, &Stop::default(), |_, _| ())))
    };
    let (at, servers): (Vec<_>, Vec<_>) = (0..SERVERS).map(start).unzip();
    let (at_rest, marks) = (Wall::new(TRAINERS as usize), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for id in 0..TRAINERS {
            let (at, at_rest, marks) = (&at, &at_rest, &marks);
            scope.spawn(move || train(id, at, at_rest, marks));
        }
    });
    for server in servers {
        let (end, store) = server.join().unwrap();
        assert_eq!(end, Some(End::Completed));
        assert_eq!(store.0, (u64::from(TRAINERS) * ROUNDS) as f64);
    }
    let marks = marks.into_inner().unwrap();
    let (warm, last) = (marks[0], marks[1]);
    assert_eq!(warm.n_files, last.n_files, "{marks:?}");
    assert_eq!(warm.n_threads, last.n_threads, "{marks:?}");
    assert!(last.memory_kb < warm.memory_kb + 16_000, "{marks:?}");
    // Threads end in their own time.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while used().n_threads > before.n_threads || used().n_files > before.n_files {
        assert!(std::time::Instant::now() < deadline, "{before:?} became {:?}", used());
        thread::yield_now();
    }
}
