//! What trainers that have nothing to say cost a server: little memory and no thread.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use ps::Endpoint;
use testing::crowd::{Server, Trainers, allow_descriptors};

/// What an idle trainer may cost a server.
const IDLE_BYTES_MAX: u64 = 64 << 10;

/// Trainers that come, and those that have nothing to say after they spoke, cost memory for what a
/// connection is, and no thread.
fn check_idle(host: &str) {
    const FIRST: usize = 100;
    const ALL: usize = 600;
    allow_descriptors();
    let server = Server::start(env!("CARGO_BIN_EXE_crowd_server"), ALL, false);
    let endpoints = [Endpoint { host: host.to_string(), ..server.endpoint.clone() }];
    // The first ones make the server as large as it is.
    let first = Trainers::connect(0..FIRST, &endpoints, false);
    first.rounds(3);
    let few = server.used();
    let others = Trainers::connect(FIRST..ALL, &endpoints, false);
    let all = server.used();
    others.rounds(3);
    let spoken = server.used();
    for now in [all, spoken] {
        assert_eq!(now.n_threads, few.n_threads, "{few:?} became {now:?}");
        let n_bytes = now.n_bytes.saturating_sub(few.n_bytes) / (ALL - FIRST) as u64;
        assert!(n_bytes <= IDLE_BYTES_MAX, "{n_bytes} bytes a trainer: {few:?} became {now:?}");
    }
    first.complete();
    others.complete();
    server.join();
}

#[test]
fn idle_trainers_of_this_machine_cost_little() {
    check_idle("127.0.0.1");
}

#[test]
fn idle_trainers_of_other_machines_cost_little() {
    // Under another name there is no Unix socket.
    check_idle("localhost");
}
