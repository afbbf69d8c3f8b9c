//! The cost of idle trainers for a server: little memory and no thread.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use base::Endpoint;
use testing::crowd::{Server, Trainers, allow_descriptors};

/// The bytes that an idle trainer may cost a server.
const IDLE_BYTES_MAX: u64 = 64 << 10;

/// Trainers that come, and those that have nothing to say after they spoke, cost memory for what a
/// connection is, and no thread.
fn check_idle(host: &str) {
    const FEW: usize = 4;
    const FIRST: usize = 64;
    const ALL: usize = 600;
    allow_descriptors();
    let server = Server::start(env!("CARGO_BIN_EXE_crowd_server"), ALL, false);
    let endpoints = [Endpoint { host: host.to_string(), ..server.endpoint.clone() }];
    let few = Trainers::connect(0..FEW, &endpoints, false);
    few.rounds(3);
    let n_threads = server.used().n_threads;
    // The first ones make the server as large as it is.
    let first = Trainers::connect(FEW..FIRST, &endpoints, false);
    first.rounds(3);
    let before = server.used();
    let others = Trainers::connect(FIRST..ALL, &endpoints, false);
    let all = server.used();
    others.rounds(3);
    let spoken = server.used();
    for now in [before, all, spoken] {
        assert_eq!(now.n_threads, n_threads, "threads with {FEW} trainers, and {now:?}");
        let n_bytes = now.n_bytes.saturating_sub(before.n_bytes) / (ALL - FIRST) as u64;
        assert!(n_bytes <= IDLE_BYTES_MAX, "{n_bytes} bytes a trainer: {before:?}, then {now:?}");
    }
    [few, first, others].into_iter().for_each(Trainers::complete);
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
