//! Processes that know the secret and send too much, ask too much, or take nothing: each costs its connection,
//! without an effect on others. docs/reference/security.md names the tests.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use base::Endpoint;
use net::access::proof::Service;
use net::tcp::{Client, ClientGroup, Patience, enter};
use net::{Access, Secret};
use protocol::server::{Apply, ServerConfig};
use tensor::{Rows, Tensor, Value};
use testing::cluster::wait_until;
use testing::crowd;
use testing::served::Served;
use testing::sim::{GRAD, SHARED_VAR, TABLE, vars};
use wire::frame::{self, FRAME_BYTES_MAX, Frame};
use wire::message::{Barrier, Complete, Grad, Hello, LookUp, Pull, Push, Reply, Request, VarInfo};
use wire::{Error, Refusal};

const LIMIT: Duration = Duration::from_secs(60);
/// The bytes that a server holds for all trainers.
const HELD_MAX: u64 = 8 << 20;

fn ours() -> Access {
    Access::with(Secret::new("the secret of this job").unwrap())
}

/// A server of two trainers, which continues without one that is lost.
fn serve(apply: Apply) -> Served {
    let config = ServerConfig {
        n_trainers: 2,
        apply,
        go_on: true,
        grace_ms: 200,
        request_bytes_max: HELD_MAX,
        ..ServerConfig::default()
    };
    Served::start(ours(), config)
}

/// Trainer 0 trains; its gradients are applied.
#[track_caller]
fn check_unharmed(served: Served, is_sync: bool) {
    let client = client(&served.endpoint, 0);
    for tag in 0..20 {
        client.change(push(tag, 10)).unwrap();
        if is_sync {
            client.change(Barrier::new(client.round() + 1)).unwrap();
            let ticket = client.ask(Pull::new(client.round(), vec![SHARED_VAR])).unwrap();
            assert!(matches!(client.wait(ticket, "a round").unwrap(), Reply::Values(_)));
        }
        client.settle().unwrap();
    }
    client.change(Complete).unwrap();
    client.settle().unwrap();
    let tags: Vec<i64> = served.end().1.applied.iter().map(|one| one.tag).collect();
    assert_eq!(tags, (0..20).collect::<Vec<_>>(), "nothing but what trainer 0 sent");
}

fn client(endpoint: &Endpoint, trainer: u32) -> Arc<Client> {
    let patience = Patience { connect_ms: 30_000, answer_ms: 30_000, ..Patience::default() };
    let group = ClientGroup { access: ours(), ..ClientGroup::default() };
    let hello = Hello::new("", trainer, u64::from(trainer) + 7, vars(0));
    Client::among(endpoint.clone(), hello, patience, group)
}

/// A gradient of so many numbers.
fn push(tag: i64, n: usize) -> Push {
    let rows = Rows { ids: vec![tag], height: i64::MAX, value: Tensor::full([1, n], tag as f32) };
    Push::new(vec![Grad { var: GRAD, value: Value::Rows(rows) }])
}

fn framed(id: u64, request: impl Into<Request>) -> Vec<u8> {
    frame::to_bytes(&Frame { id, body: &request.into() })
}

/// A peer that has greeted as a trainer and does as it likes.
fn flooder(endpoint: &Endpoint, access: &Access, trainer: u32, vars: Vec<VarInfo>) -> TcpStream {
    let mut stream = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.set_write_timeout(Some(LIMIT)).unwrap();
    enter(&stream, access, Service::Server).unwrap();
    let hello = Hello::new("", trainer, u64::from(trainer) + 7, vars);
    stream.write_all(&framed(0, hello)).unwrap();
    let (_, reply) = frame::read::<Reply>(&mut stream, FRAME_BYTES_MAX).unwrap();
    assert!(matches!(reply, Reply::Welcome(_)), "{reply:?}");
    stream
}

/// The refusal that a flooder gets at last.
fn refusal(stream: &mut TcpStream) -> Refusal {
    loop {
        let (_, reply) = frame::read::<Reply>(stream, FRAME_BYTES_MAX).unwrap();
        if let Reply::Refused(refusal) = reply {
            return refusal;
        }
    }
}

/// Sends until the other side has had enough.
fn send_all(stream: &mut TcpStream, frames: impl Iterator<Item = Vec<u8>>) {
    for frame in frames {
        if stream.write_all(&frame).is_err() {
            return;
        }
    }
}

#[test]
fn a_frame_that_brings_too_much_is_not_read_to_its_end() {
    let served = serve(Apply::AtOnce);
    let mut stream = flooder(&served.endpoint, &ours(), 1, vars(0));
    let whole = framed(1, push(99, 25_000_000));
    // More than the server holds, less than the frame says.
    let _ = stream.write_all(&whole[..50_000_000]);
    let refusal = refusal(&mut stream);
    assert!(
        matches!(refusal, Refusal::TooMuch { n_bytes, n_bytes_max: HELD_MAX } if n_bytes > HELD_MAX),
        "{refusal}"
    );
    check_unharmed(served, false);
}

#[test]
fn gradients_of_a_round_that_never_ends_are_refused() {
    let served = serve(Apply::ByRound { ahead: 0 });
    let flooder = client(&served.endpoint, 1);
    let flood = |tag| flooder.change(push(tag, 100_000)).and_then(|()| flooder.settle());
    let error = (100..1000).map(flood).find_map(Result::err).unwrap();
    match &error {
        Error::Refused { refusal: Refusal::TooMuch { n_bytes_max: HELD_MAX, .. }, .. } => {}
        other => panic!("{other}"),
    }
    assert!(error.to_string().contains("FLAGS_request_memory_mb"), "{error}");
    flooder.close();
    check_unharmed(served, true);
}

#[test]
fn questions_about_rounds_to_come_are_refused() {
    let served = serve(Apply::ByRound { ahead: 0 });
    // Many small ones, then some large ones.
    let mut stream = flooder(&served.endpoint, &ours(), 1, vars(0));
    let id = |at: u64| (1 << 63) + at;
    send_all(&mut stream, (1..10_000).map(|at| framed(id(at), LookUp::new(1_000, TABLE, vec![1]))));
    let told = refusal(&mut stream);
    assert!(matches!(told, Refusal::TooManyQuestions { .. }), "{told}");
    let mut stream = flooder(&served.endpoint, &ours(), 1, vars(0));
    let keys = vec![7; 100_000];
    let frames = (1..100).map(|at| framed(id(at), LookUp::new(1_000, TABLE, keys.clone())));
    send_all(&mut stream, frames);
    let told = refusal(&mut stream);
    assert!(matches!(told, Refusal::TooMuch { .. }), "{told}");
    drop(stream);
    check_unharmed(served, true);
}

#[test]
fn who_asks_and_takes_no_answers_is_cut_off() {
    let served = serve(Apply::AtOnce);
    let mut stream = flooder(&served.endpoint, &ours(), 1, vars(0));
    let keys = vec![7; 100_000];
    let frames = (1..4_000).map(|at| framed((1 << 63) + at, LookUp::new(0, TABLE, keys.clone())));
    send_all(&mut stream, frames);
    served.wait_for("a peer that takes no answers is cut off");
    check_unharmed(served, false);
}

/// Memory is taken when bytes come, not when a peer announces them.
#[test]
fn a_claim_costs_no_memory() {
    const N_CLAIMS: usize = 40;
    let program = env!("CARGO_BIN_EXE_crowd_server");
    let server = crowd::Server::start(program, N_CLAIMS, false);
    let open = |trainer| flooder(&server.endpoint, &Access::default(), trainer, crowd::vars());
    let streams: Vec<TcpStream> = (0..N_CLAIMS as u32).map(open).collect();
    let before = server.used().n_bytes;
    let claim = claim();
    for mut stream in &streams {
        stream.write_all(&claim).unwrap();
    }
    // It is there when the server has read what came.
    let came = (N_CLAIMS * claim.len()) as u64;
    wait_until("it has come", LIMIT, || server.used().n_bytes > before + came / 2);
    let grown = server.used().n_bytes - before;
    assert!(grown < 10 * came, "{grown} bytes, of which {came} were sent");
}

/// The first 400 kB of a gradient of 512 MB.
fn claim() -> Vec<u8> {
    const N: usize = 100_000;
    const N_CLAIMED: u64 = 128_000_000;
    let value = Value::Tensor(Tensor::full([N], 1f32));
    let mut bytes = framed(1, Push::new(vec![Grad { var: GRAD, value }]));
    let dims = (N as u64).to_le_bytes();
    let at = bytes.windows(8).position(|window| window == dims).unwrap();
    bytes[at..at + 8].copy_from_slice(&N_CLAIMED.to_le_bytes());
    bytes[12..16].copy_from_slice(&(4 * N_CLAIMED as u32).to_le_bytes());
    bytes
}
