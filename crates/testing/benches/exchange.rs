//! How long a request and its answer take, against the same bytes through a bare socket.
//!
//! A trainer pushes gradients and looks up rows of as many bytes, on a Unix socket and through TCP;
//! turns of ours and of the bare socket alternate. `BENCH <name> ratio=…`: ours against the socket.
#![allow(clippy::print_stdout, missing_docs)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use base::Endpoint;
use net::tcp::{Client, Listener, Patience, Stop};
use protocol::server::{Apply, Server, ServerConfig};
use tensor::{Rows, Tensor, Value};
use testing::sim::{Book, GRAD, TABLE, vars};
use wire::message::{Grad, Hello, LookUp, Push, Reply};

const SIZES: [usize; 4] = [64, 10_000, 100_000, 1_000_000];
const N_TURNS: usize = 9;

/// Exchanges between two looks at the clock.
fn n_exchanges(n_bytes: usize) -> usize {
    (20_000_000 / (n_bytes + 10_000)).clamp(20, 2_000)
}

fn main() {
    let config = ServerConfig { n_trainers: 1, apply: Apply::AtOnce, ..ServerConfig::default() };
    for name in ["unix", "tcp"] {
        let listener = Listener::bind(&"127.0.0.1:0".parse().expect("valid")).expect("a port");
        // Under another name there is no Unix socket.
        let host = if name == "unix" { "127.0.0.1" } else { "localhost" };
        let endpoint = Endpoint { host: host.to_string(), ..listener.endpoint().clone() };
        let (stop, config) = (Stop::default(), config.clone());
        let stopped = stop.clone();
        let server = thread::spawn(move || {
            let store = Arc::new(Book::new(1));
            listener.serve(Server::new(config, vars(1)), store, &stopped, |_, _| ());
        });
        let client = Client::new(endpoint, Hello::new("", 0, 1, vars(1)), Patience::default());
        for n_bytes in SIZES {
            compare(name, &client, n_bytes);
        }
        client.close();
        stop.set();
        server.join().expect("the server ends");
    }
}

fn compare(name: &str, client: &Arc<Client>, n_bytes: usize) {
    let mut bare = Bare::start(name == "unix", n_bytes);
    let n = n_exchanges(n_bytes);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for turn in 0..N_TURNS + 1 {
        let (one, other) = (time(n, || exchange(client, n_bytes)), time(n, || bare.exchange()));
        // The first turn only warms up.
        if turn > 0 {
            ours.push(one);
            theirs.push(other);
        }
    }
    ours.sort_by(f64::total_cmp);
    theirs.sort_by(f64::total_cmp);
    let (ours, theirs) = (ours[N_TURNS / 2], theirs[N_TURNS / 2]);
    let ratio = ours / theirs;
    println!(
        "BENCH exchange_{name}_{n_bytes} ratio={ratio:.3} ours={ours:.1} against=socket={theirs:.1}"
    );
}

/// Microseconds of one of `n`.
fn time(n: usize, mut work: impl FnMut()) -> f64 {
    let start = Instant::now();
    (0..n).for_each(|_| work());
    start.elapsed().as_secs_f64() * 1e6 / n as f64
}

/// A gradient, and as many rows: a key takes twice the bytes of its row.
fn exchange(client: &Client, n_bytes: usize) {
    let rows = Rows { ids: vec![1], height: i64::MAX, value: Tensor::full([1, n_bytes / 4], 1f32) };
    let grads = vec![Grad { var: GRAD, value: Value::Rows(rows) }];
    client.change_soon(Push::new(grads)).expect("it is there");
    let (table, keys) = (TABLE, vec![0; n_bytes / 4]);
    let ticket = client.ask(LookUp::new(0, table, keys)).expect("it is there");
    assert!(matches!(client.wait(ticket, "rows").expect("it answers"), Reply::Rows(_)));
}

/// A socket whose other end answers three times `n_bytes` with `n_bytes`.
struct Bare {
    stream: Box<dyn Stream>,
    question: Vec<u8>,
    answer: Vec<u8>,
}

trait Stream: Read + Write + Send {}
impl Stream for TcpStream {}
impl Stream for UnixStream {}

impl Bare {
    fn start(is_unix: bool, n_bytes: usize) -> Self {
        let (near, mut far): (Box<dyn Stream>, Box<dyn Stream>) = if is_unix {
            let (near, far) = UnixStream::pair().expect("a pair of sockets");
            (Box::new(near), Box::new(far))
        } else {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("it");
            let (far, _) = listener.accept().expect("it connects");
            near.set_nodelay(true).expect("a socket");
            far.set_nodelay(true).expect("a socket");
            near.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
            (Box::new(near), Box::new(far))
        };
        let (question, answer) = (vec![1; 3 * n_bytes], vec![2; n_bytes]);
        let (mut asked, said) = (question.clone(), answer.clone());
        thread::spawn(
            move || {
                while far.read_exact(&mut asked).is_ok() && far.write_all(&said).is_ok() {}
            },
        );
        Self { stream: near, question, answer }
    }

    fn exchange(&mut self) {
        self.stream.write_all(&self.question).expect("the other end reads");
        self.stream.read_exact(&mut self.answer).expect("the other end answers");
    }
}
