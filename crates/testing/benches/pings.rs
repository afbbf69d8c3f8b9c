//! How long a server takes to answer while it saves 5 GB: a question about nothing, and a look-up of rows of
//! the table that is saved, against 100 ms and against the same server at rest.
//!
//! `cargo bench -p testing --bench pings`; part of `make bench`.
#![allow(clippy::print_stdout, missing_docs)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use net::tcp::{Client, Listener, Patience, Stop};
use protocol::server::{Server, ServerConfig, Store};
use testing::big_table::{fill, row, store};
use testing::stores::id_of;
use wire::message::{Hello, LookUp, Phase, Request, Save, WantCut};

const WIDTH: usize = 64;
const TABLE_BYTES: u64 = 5 << 30;
const N_ROWS: u64 = TABLE_BYTES / WIDTH as u64 / 4;
/// Rows of a look-up.
const STEP_ROWS: u64 = 2600;
const LIMIT_MS: f64 = 100.0;
/// How long the server is asked at rest.
const REST: Duration = Duration::from_secs(3);
/// Between two questions.
const PACE: Duration = Duration::from_millis(2);

/// The longest time that an answer took, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Longest {
    ping: f64,
    look_up: f64,
}

/// Asks again and again, as long as something is so.
fn longest(client: &Client, look_up: &LookUp, is_so: impl Fn() -> bool) -> Longest {
    let ask = |request: Request| {
        let begin = Instant::now();
        let ticket = client.ask(request).expect("a server");
        client.wait(ticket, "an answer").expect("an answer");
        begin.elapsed().as_secs_f64() * 1e3
    };
    let mut longest = Longest::default();
    while is_so() {
        // The thread that reads it answers the first, the table the second.
        longest.ping = longest.ping.max(ask(WantCut.into()));
        longest.look_up = longest.look_up.max(ask(look_up.clone().into()));
        thread::sleep(PACE);
    }
    longest
}

fn report(name: &str, ours: f64, rest: f64) {
    let ratio = ours / LIMIT_MS;
    println!(
        "BENCH {name} ratio={ratio:.3} ours={ours:.1} against=limit_ms={LIMIT_MS} rest={rest:.1}"
    );
}

fn main() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let store = Arc::new(store(WIDTH));
    fill(&store, N_ROWS);
    let config = ServerConfig { job: "job".to_string(), n_trainers: 2, ..ServerConfig::default() };
    let server = Server::new(config, store.vars().to_vec());
    let listener = Listener::bind(&"127.0.0.1:0".parse().expect("a place")).expect("a port");
    let (endpoint, stop) = (listener.endpoint().clone(), Stop::default());
    let (served, stopped) = (store.clone(), stop.clone());
    let server = thread::spawn(move || listener.serve(server, served, &stopped, |_, _| ()));
    let clients: Vec<Arc<Client>> = (0..2)
        .map(|trainer| {
            let hello = Hello::new("job", trainer, 7 + u64::from(trainer), store.vars().to_vec());
            Client::new(endpoint.clone(), hello, Patience::default())
        })
        .collect();
    let keys = (0..STEP_ROWS).map(|at| row(at * 7919 % N_ROWS)).collect();
    let look_up = LookUp { after: 0, table: id_of(&store, "table"), keys, peek: false };
    let rested = Instant::now();
    let rest = longest(&clients[1], &look_up, || rested.elapsed() < REST);
    let is_saved = AtomicBool::new(false);
    let dir =
        folder.path().join(".paddlewheel.saving/stage-0123456789abcdef").display().to_string();
    let during = thread::scope(|scope| {
        let asking =
            scope.spawn(|| longest(&clients[1], &look_up, || !is_saved.load(Ordering::Relaxed)));
        let begin = Instant::now();
        let save =
            Save { weights_only: false, table: "table".to_string(), dir, phase: Phase::Write };
        let ticket = clients[0].ask(save).expect("a server");
        clients[0].wait(ticket, "a save").expect("space for 5 GB");
        let mb_s = TABLE_BYTES as f64 / 1e6 / begin.elapsed().as_secs_f64();
        is_saved.store(true, Ordering::Relaxed);
        println!("saved 5 GB, {mb_s:.0} MB/s");
        asking.join().expect("no panic")
    });
    report("ping_while_5gb_are_saved", during.ping, rest.ping);
    report("look_up_while_5gb_are_saved", during.look_up, rest.look_up);
    clients.iter().for_each(|client| client.close());
    stop.set();
    drop(server.join());
}
