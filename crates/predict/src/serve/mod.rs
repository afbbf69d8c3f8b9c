//! Predictions over HTTP.
//!
//! A thread reads and answers one connection at a time. Requests become batches and wait in one queue, in
//! which there is room for a fixed number of samples. A few threads take waiting requests, join them to one batch,
//! predict, and hand the results back. So many small requests cost as much as one large one, and a request
//! that comes alone does not wait for others.
//!
//! **Invariant:** memory has a limit whatever clients do: connections, samples that wait, and the bytes of
//! requests and answers are counted, from the first byte that is read to the last one that is sent.
//! Requests beyond the limit are refused at once.
//!
//! **Invariant:** no client makes another one wait. A request, and the reading of an answer, have a deadline each;
//! a connection that only waits gives its place to a new one; the health of the server is told in any case.

mod body;
mod budget;
mod check;
mod connection;
mod connections;
mod json;
mod metrics;
mod probes;
mod queue;
mod raw;
mod send;

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use self::check::read_request;

use monitor::http::HttpAnswer;

use self::budget::Budget;
use self::connections::Connections;
use self::metrics::Metrics;
use self::queue::Queue;
use crate::error::{Error, Result};
use crate::predictor::Predictor;

/// How much is too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at the same time.
    pub connections: usize,
    /// Bytes of one request.
    pub request_bytes: usize,
    /// Bytes of all requests and answers in memory.
    pub total_bytes: usize,
    /// Samples that wait.
    pub queued_samples: usize,
    /// Samples that are predicted at once.
    pub batch_samples: usize,
    /// How long a request may wait for its prediction.
    pub deadline: Duration,
    /// How long a client may take to send a whole request, and to read a whole answer.
    pub client: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            request_bytes: 16 << 20,
            total_bytes: 256 << 20,
            queued_samples: 8192,
            batch_samples: 1024,
            deadline: Duration::from_millis(1000),
            client: Duration::from_secs(10),
        }
    }
}

/// How a server is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The address; only this machine by default.
    pub host: String,
    /// The port; 0 for any that is free.
    pub port: u16,
    /// Threads that predict.
    pub threads: usize,
    /// See [`Limits`].
    pub limits: Limits,
}

impl Default for Settings {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let host = "127.0.0.1".to_string();
        Self { host, port: 8866, threads, limits: Limits::default() }
    }
}

/// A connection that waits for its client this long gives its place to a new one, if there is none else.
const IDLE: Duration = Duration::from_secs(1);
/// Connections for which there is no place, and that are asked what they want; a multiple of the places.
const PROBES_PER_PLACE: usize = 4;
/// How often an end looks whether all requests are answered.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// State that all threads of a server share.
struct ServerState {
    /// There is none while it is loaded.
    predictor: OnceLock<Predictor>,
    limits: Limits,
    queue: Queue,
    metrics: Metrics,
    connections: Arc<Connections>,
    n_probes: AtomicUsize,
    budget: Arc<Budget>,
    /// Requests are answered, and connections end with them.
    ends: AtomicBool,
    stops: AtomicBool,
}

impl ServerState {
    fn is_ending(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }

    fn has_stopped(&self) -> bool {
        self.stops.load(Ordering::Relaxed)
    }

    /// The reason why the server is not ready for predictions.
    fn not_ready(&self) -> Option<&'static str> {
        if self.is_ending() {
            return Some("the server was asked to end");
        }
        if self.predictor.get().is_none() {
            return Some("the model is being loaded");
        }
        let is_late = self.queue.is_late(Instant::now());
        is_late.then_some("predictions are not made in time")
    }
}

/// Answers predictions until it is dropped.
///
/// ```
/// use std::io::{Read, Write};
/// use std::net::TcpStream;
///
/// use predict::{PredictionServer, Predictor, Settings};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use program::Net;
/// # use program::layers::{self, Data, Fc};
/// # use train::io::{SaveInference, save_inference_model};
/// # use train::{Executor, Feed, Scope};
/// # let mut net = Net::with_seed(1);
/// # let b = &mut net.builder();
/// # let x = layers::data(b, "x", &[2], Data::default())?;
/// # let out = layers::fc(b, &[x], 1, Fc::default())?;
/// # let scope = Scope::new();
/// # Executor::new().run(&net.startup, &scope, &mut Feed::new(), &[])?;
/// # let dir = tempfile::tempdir()?;
/// # let (feeds, targets) = (["x"], [out.name()]);
/// # let what = SaveInference { feeds: &feeds, targets: &targets, ..SaveInference::default() };
/// # save_inference_model(&scope, dir.path(), &net.main, &what)?;
/// let settings = Settings { port: 0, ..Settings::default() };
/// let server = PredictionServer::start(Predictor::load(dir.path())?, &settings)?;
/// let mut client = TcpStream::connect(server.address())?;
/// let body = r#"{"columns": {"x": [[0.5, 1.0]]}}"#;
/// let head = "POST /predict HTTP/1.1\r\nConnection: close\r\nContent-Length";
/// write!(client, "{head}: {}\r\n\r\n{body}", body.len())?;
/// let mut answer = String::new();
/// client.read_to_string(&mut answer)?;
/// assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
/// # Ok(()) }
/// ```
pub struct PredictionServer {
    shared: Arc<ServerState>,
    address: SocketAddr,
    threads: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for PredictionServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PredictionServer on {}", self.address)
    }
}

impl PredictionServer {
    /// Begins to answer.
    pub fn start(predictor: Predictor, settings: &Settings) -> Result<Self> {
        let server = Self::listen(settings)?;
        server.serve(predictor);
        Ok(server)
    }

    /// Begins to answer questions about itself. Predictions are refused until there is a model.
    pub fn listen(settings: &Settings) -> Result<Self> {
        let address = format!("{}:{}", settings.host, settings.port);
        let failed = |source| Error::Listen { address: address.clone(), source };
        let listener = TcpListener::bind(&address).map_err(failed)?;
        let local = listener.local_addr().map_err(failed)?;
        let limits = settings.limits;
        let shared = Arc::new(ServerState {
            predictor: OnceLock::new(),
            limits,
            queue: Queue::new(limits.queued_samples, limits.batch_samples),
            metrics: Metrics::default(),
            connections: Arc::default(),
            n_probes: AtomicUsize::new(0),
            budget: Budget::new(limits.total_bytes),
            ends: AtomicBool::new(false),
            stops: AtomicBool::new(false),
        });
        let mut server = Self { shared: shared.clone(), address: local, threads: Vec::new() };
        for _ in 0..settings.threads.max(1) {
            let shared = shared.clone();
            server.threads.push(spawn("predict", move || {
                shared.queue.work(&shared.metrics);
            })?);
        }
        server.threads.push(spawn("accept", move || accept(&listener, &shared))?);
        Ok(server)
    }

    /// Predicts with this model from now on; the first one counts.
    pub fn serve(&self, predictor: Predictor) {
        let _ = self.shared.predictor.set(predictor);
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends in order: it is no longer ready, and requests that have begun are answered, for this long at most.
    /// Whether all of them were.
    pub fn end(self, patience: Duration) -> bool {
        self.shared.ends.store(true, Ordering::Relaxed);
        let until = Instant::now() + patience;
        while self.shared.connections.n_in_flight() > 0 {
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        true
    }
}

impl Drop for PredictionServer {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        self.shared.stops.store(true, Ordering::Relaxed);
        self.shared.queue.stop();
        // Wakes the thread that accepts.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn spawn(name: &'static str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name(name.to_string()).spawn(run);
    thread.map_err(|source| Error::System { what: "start a thread", source })
}

fn accept(listener: &TcpListener, shared: &Arc<ServerState>) {
    for stream in listener.incoming() {
        if shared.has_stopped() {
            return;
        }
        match stream {
            Ok(stream) => begin(stream, shared),
            // No file descriptor is left, say: others will be closed.
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

fn begin(stream: TcpStream, shared: &Arc<ServerState>) {
    let (own, n_max) = (shared.clone(), shared.limits.connections);
    match shared.connections.add(stream, n_max, IDLE) {
        Ok(open) => {
            let _ = spawn("connection", move || connection::serve(&open.conn, &own));
        }
        Err(stream) => {
            let n_before = shared.n_probes.fetch_add(1, Ordering::Relaxed);
            let probe = Probe(own);
            if n_before >= n_max.saturating_mul(PROBES_PER_PLACE) {
                shared.metrics.refused.add(1);
                let _ = refuse(&stream);
                return;
            }
            let _ = spawn("probe", move || probes::serve_once(&stream, &probe.0));
        }
    }
}

/// Counts a connection without a place, also if its thread panics.
struct Probe(Arc<ServerState>);

impl Drop for Probe {
    fn drop(&mut self) {
        self.0.n_probes.fetch_sub(1, Ordering::Relaxed);
    }
}

fn refuse(stream: &TcpStream) -> io::Result<()> {
    let answer = HttpAnswer::error(503, "there are too many connections").closing();
    let until = Instant::now() + Duration::from_millis(100);
    send::TimedStream::new(stream, until).write_all(&answer.to_bytes())
}
