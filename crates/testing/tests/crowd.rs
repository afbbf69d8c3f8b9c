//! Many trainers: nothing hangs and nothing grows. `idle_trainers.rs` has the cost of idle ones: this
//! process counts its own threads, so nothing else runs in it.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use std::sync::{Arc, Barrier as Wall, Mutex};
use std::thread;

use base::Endpoint;
use net::tcp::{Client, Listener, Patience, Stop};
use protocol::server::{End, Server, ServerConfig};
use tensor::{Tensor, Value};
use testing::crowd::{Sum, Use, vars};
use wire::VarId;
use wire::message::{Barrier, Complete, Grad, Hello, Pull, Push};

const TRAINERS: u32 = 64;
const SERVERS: usize = 4;
const ROUNDS: u64 = 1000;
/// By then everything is as large as it will be.
const WARM: u64 = 200;

fn train(id: u32, servers: &[Endpoint], at_rest: &Wall, marks: &Mutex<Vec<Use>>) {
    let hello = || Hello::new("", id, 1, vars());
    let clients = servers.iter().map(|at| Client::new(at.clone(), hello(), Patience::default()));
    let clients: Vec<_> = clients.collect();
    for round in 1..=ROUNDS {
        for client in &clients {
            let value = Value::Tensor(Tensor::full([1], 1f64));
            client.change(Push::new(vec![Grad { var: VarId(0), value }])).unwrap();
            client.change(Barrier::new(client.round() + 1)).unwrap();
        }
        let pull = || Pull::new(round, vec![VarId(0)]);
        let asked: Vec<_> = clients.iter().map(|client| client.ask(pull()).unwrap()).collect();
        for (client, ticket) in clients.iter().zip(asked) {
            client.wait(ticket, "parameters").unwrap();
        }
        if round == WARM || round == ROUNDS {
            if at_rest.wait().is_leader() {
                marks.lock().unwrap().push(Use::of("self"));
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
    let before = Use::of("self");
    let config = ServerConfig { n_trainers: TRAINERS, ..ServerConfig::default() };
    let start = |_| {
        let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap()).unwrap();
        let (at, server) = (listener.endpoint().clone(), Server::new(config.clone(), vars()));
        let serve = move || {
            let store = Arc::<Sum>::default();
            let end = listener.serve(server, store.clone(), &Stop::default(), |_, _| ());
            (end, store)
        };
        (at, thread::spawn(serve))
    };
    let (at, servers): (Vec<_>, Vec<_>) = (0..SERVERS).map(start).unzip();
    let (at_rest, marks) = (Wall::new(TRAINERS as usize), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for id in 0..TRAINERS {
            let at = &at;
            let at_rest = &at_rest;
            let marks = &marks;
            scope.spawn(move || train(id, at, at_rest, marks));
        }
    });
    for server in servers {
        let (end, store) = server.join().unwrap();
        assert_eq!(end, Some(End::Completed));
        assert_eq!(store.value(), (u64::from(TRAINERS) * ROUNDS) as f64);
    }
    let marks = marks.into_inner().unwrap();
    let (warm, last) = (marks[0], marks[1]);
    assert_eq!(warm.n_files, last.n_files, "{marks:?}");
    assert_eq!(warm.n_threads, last.n_threads, "{marks:?}");
    assert!(last.n_bytes < warm.n_bytes + 16_000_000, "{marks:?}");
    // Threads end in their own time.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while Use::of("self").n_threads > before.n_threads || Use::of("self").n_files > before.n_files {
        assert!(std::time::Instant::now() < deadline, "{before:?} became {:?}", Use::of("self"));
        thread::yield_now();
    }
}
