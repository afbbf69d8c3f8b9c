//! The cost of many trainers for two servers: rounds, memory, descriptors and threads with 64 and
//! 1,000 of them, synchronous and asynchronous. All trainers are in this process, each server in its
//! own.
//!
//! `BENCH <name> ratio=…`: the requests served with 1,000 trainers, against the same with 64; `cpu_us`
//! is the processor time of a server for each request, which must not grow with the trainers.
#![allow(clippy::print_stdout, missing_docs)]

use std::time::Instant;

use testing::crowd::{Server, Trainers, Use, allow_descriptors};

const PROGRAM: &str = env!("CARGO_BIN_EXE_crowd_server");
const FEW: usize = 64;
const MANY: usize = 1000;
const N_SERVERS: usize = 2;
/// Requests of all trainers in one measurement; the best turn counts.
const N_REQUESTS: usize = 32_000;
const N_TURNS: usize = 3;
/// An idle trainer may cost a server so much.
const IDLE_BYTES_MAX: f64 = 65_536.0;

struct Crowd {
    servers: Vec<Server>,
    trainers: Trainers,
    n: usize,
    /// The first server before anybody came, and when all were there.
    alone: Use,
    idle: Use,
}

/// How fast requests were served.
#[derive(Clone, Copy)]
struct Served {
    a_second: f64,
    /// Processor time of a server for each.
    cpu_us: f64,
}

impl Served {
    /// The best of both.
    fn best(self, other: Self) -> Self {
        let cpu_us = self.cpu_us.min(other.cpu_us);
        Self { a_second: self.a_second.max(other.a_second), cpu_us }
    }
}

impl Crowd {
    fn start(n: usize, sync: bool) -> Self {
        let servers: Vec<_> = (0..N_SERVERS).map(|_| Server::start(PROGRAM, n, sync)).collect();
        let alone = servers[0].used();
        let endpoints: Vec<_> = servers.iter().map(|server| server.endpoint.clone()).collect();
        let trainers = Trainers::connect(0..n, &endpoints, sync);
        let idle = servers[0].used();
        Self { servers, trainers, n, alone, idle }
    }

    /// Requests of trainers that are served.
    fn serve(&self) -> Served {
        let n_rounds = N_REQUESTS / self.n;
        let n_requests = (n_rounds * self.n) as f64;
        let (start, cpu_ms) = (Instant::now(), self.servers[0].used().cpu_ms);
        self.trainers.rounds(n_rounds);
        Served {
            a_second: n_requests / start.elapsed().as_secs_f64(),
            cpu_us: 1000.0 * (self.servers[0].used().cpu_ms - cpu_ms) as f64 / n_requests,
        }
    }

    fn end(self) -> Use {
        let busy = self.servers[0].used();
        self.trainers.complete();
        self.servers.into_iter().for_each(Server::join);
        busy
    }
}

fn main() {
    allow_descriptors();
    for (mode, sync) in [("sync", true), ("async", false)] {
        let crowds = [Crowd::start(FEW, sync), Crowd::start(MANY, sync)];
        crowds.iter().for_each(|crowd| crowd.trainers.rounds(2));
        let mut best = [Served { a_second: 0.0, cpu_us: f64::MAX }; 2];
        for _ in 0..N_TURNS {
            for (best, crowd) in best.iter_mut().zip(&crowds) {
                *best = best.best(crowd.serve());
            }
        }
        let [few, many] = best;
        println!(
            "crowd {mode}: {:.0} rounds/s of {FEW} trainers, {:.1} of {MANY}",
            few.a_second / FEW as f64,
            many.a_second / MANY as f64
        );
        let name = |what: &str| format!("crowd_{what}_{mode}");
        line(&name("requests"), many.a_second, few.a_second, "of_64_trainers");
        line(&name("cpu_us"), many.cpu_us, few.cpu_us, "of_64_trainers");
        let [alone, idle] = [crowds[1].alone, crowds[1].idle];
        let idle_bytes = idle.n_bytes.saturating_sub(alone.n_bytes) as f64 / MANY as f64;
        let n_files = (idle.n_files - alone.n_files) as f64;
        let [few, many] = crowds.map(Crowd::end);
        println!("crowd {mode}: a server with {FEW}: {few:?}, with {MANY}: {many:?}");
        line(&format!("crowd_idle_bytes_{mode}"), idle_bytes, IDLE_BYTES_MAX, "allowed");
        line(&format!("crowd_descriptors_{mode}"), n_files, MANY as f64, "trainers");
        let n_threads = [many.n_threads as f64, few.n_threads as f64];
        line(&format!("crowd_threads_{mode}"), n_threads[0], n_threads[1], "with_64_trainers");
    }
}

fn line(name: &str, ours: f64, against: f64, what: &str) {
    println!("BENCH {name} ratio={:.3} ours={ours:.1} against={what}={against:.1}", ours / against);
}
