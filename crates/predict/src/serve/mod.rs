//! Predictions over HTTP.
//!
//! A thread reads and answers one connection at a time. Requests become batches and wait in one queue, in
//! which there is room for a fixed number of samples. A few threads take what waits, join it to one batch,
//! predict, and hand the results back. So many small requests cost as much as one large one, and a request
//! that comes alone does not wait for others.
//!
//! **Invariant:** memory has a limit whatever clients do: connections, bytes of requests and samples that
//! wait are counted, and what is too much is refused at once.

mod answer;
mod check;
mod connection;
mod json;
mod metrics;
mod queue;
mod raw;
mod request;

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

pub use self::check::read_request;

use self::answer::HttpAnswer;
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
    /// Bytes of all requests that are being read or answered.
    pub total_bytes: usize,
    /// Samples that wait.
    pub queued_samples: usize,
    /// Samples that are predicted at once.
    pub batch_samples: usize,
    /// How long a request may wait for its prediction.
    pub deadline: Duration,
    /// How long a client may take to send a request, or to read an answer.
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

/// What all threads of a server share.
struct ServerState {
    predictor: Predictor,
    limits: Limits,
    queue: Queue,
    metrics: Metrics,
    n_connections: AtomicUsize,
    /// Bytes of requests that are being read or answered.
    n_bytes: AtomicUsize,
    stops: AtomicBool,
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
        let address = format!("{}:{}", settings.host, settings.port);
        let failed = |source| Error::Listen { address: address.clone(), source };
        let listener = TcpListener::bind(&address).map_err(failed)?;
        let local = listener.local_addr().map_err(failed)?;
        let limits = settings.limits;
        let shared = Arc::new(ServerState {
            predictor,
            limits,
            queue: Queue::new(limits.queued_samples, limits.batch_samples),
            metrics: Metrics::default(),
            n_connections: AtomicUsize::new(0),
            n_bytes: AtomicUsize::new(0),
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

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for PredictionServer {
    fn drop(&mut self) {
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
        if shared.stops.load(Ordering::Relaxed) {
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
    let n = shared.n_connections.fetch_add(1, Ordering::Relaxed);
    if n >= shared.limits.connections {
        shared.metrics.refused.add(1);
        let _ = refuse(stream);
        shared.n_connections.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let own = shared.clone();
    let started = spawn("connection", move || {
        let _held = Held(&own);
        connection::serve(stream, &own);
    });
    if started.is_err() {
        shared.n_connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts a connection, also if its thread panics.
struct Held<'a>(&'a ServerState);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.n_connections.fetch_sub(1, Ordering::Relaxed);
    }
}

fn refuse(stream: TcpStream) -> io::Result<()> {
    stream.set_write_timeout(Some(Duration::from_millis(100)))?;
    HttpAnswer::error(503, "there are too many connections").closing().send(&stream)
}
