//! A server in threads of this process, on a real port, with the store of the simulator.

use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use base::Endpoint;
use net::Access;
use net::tcp::{Listener, Stop};
use protocol::server::{End, Server, ServerConfig};

use crate::sim::{Book, Ledger, vars};

/// How long a line is waited for.
const LIMIT: Duration = Duration::from_secs(60);

/// A server that serves.
#[derive(Debug)]
pub struct Served {
    /// Where it listens.
    pub endpoint: Endpoint,
    /// Ends it.
    pub stop: Stop,
    /// Its log lines.
    pub log: Arc<Mutex<Vec<String>>>,
    /// How it ended, and what was applied.
    pub thread: JoinHandle<(Option<End>, Ledger)>,
}

impl Served {
    /// On a port of this machine.
    pub fn start(access: Access, config: ServerConfig) -> Self {
        Self::at(&"127.0.0.1:0".parse().expect("an end point"), access, config)
    }

    /// At an end point.
    pub fn at(endpoint: &Endpoint, access: Access, config: ServerConfig) -> Self {
        let listener = Listener::bind_with(endpoint, access).expect("a free port");
        let (endpoint, stop) = (listener.endpoint().clone(), Stop::default());
        let (log, stopped) = (Arc::<Mutex<Vec<String>>>::default(), stop.clone());
        let lines = log.clone();
        let thread = thread::spawn(move || {
            let n_trainers = config.n_trainers;
            let book = Arc::new(Book::new(n_trainers));
            let note = move |_, line: &str| lines.lock().expect("no panic").push(line.into());
            let server = Server::new(config, vars(n_trainers));
            let end = listener.serve(server, book.clone(), &stopped, note);
            let ledger = book.ledger().clone();
            (end, ledger)
        });
        Self { endpoint, stop, log, thread }
    }

    /// The same server under a name for which there is no Unix socket.
    pub fn by_tcp(&self) -> Endpoint {
        Endpoint { host: "localhost".to_string(), port: self.endpoint.port }
    }

    /// Whether it has said something.
    pub fn said(&self, text: &str) -> bool {
        self.log.lock().expect("no panic").iter().any(|line| line.contains(text))
    }

    /// Waits for a line of the log.
    #[track_caller]
    pub fn wait_for(&self, text: &str) {
        let until = Instant::now() + LIMIT;
        while !self.said(text) {
            assert!(Instant::now() < until, "`{text}` in {:#?}", self.log);
            thread::yield_now();
        }
    }

    /// Ends it; how, and what was applied.
    pub fn end(self) -> (Option<End>, Ledger) {
        self.stop.set();
        self.thread.join().expect("it does not panic")
    }
}
