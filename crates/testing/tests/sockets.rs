//! Servers and clients over real connections: their promises when connections work, break or lie.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use base::Endpoint;
use net::Access;
use net::access::proof::Service;
use net::tcp::{Client, ClientGroup, LostProcess, Patience, Ticket, enter};
use protocol::server::{Apply, End, ServerConfig};
use tensor::{Rows, Tensor, Value};
use testing::served::Served;
use testing::sim::{GRAD, SHARED_VAR, TABLE, grad, vars};
use wire::frame::{self, FRAME_BYTES_MAX, Frame};
use wire::message::{
    Barrier, Complete, Grad, Hello, LookUp, Ping, Pull, Push, Reply, Request, VERSION, VarInfo,
};
use wire::{Error, Refusal, VarId};

fn serve(config: ServerConfig) -> Served {
    Served::start(Access::default(), config)
}

fn raw(served: &Served) -> TcpStream {
    let Endpoint { host, port } = &served.endpoint;
    let stream = TcpStream::connect((host.as_str(), *port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    enter(&stream, &Access::default(), Service::Server).unwrap();
    stream
}

fn config(n_trainers: u32, sync: bool) -> ServerConfig {
    let apply = if sync { Apply::ByRound { ahead: 0 } } else { Apply::AtOnce };
    ServerConfig { job: "job".to_string(), n_trainers, apply, ..ServerConfig::default() }
}

fn hello(trainer: u32, incarnation: u64) -> Hello {
    let mut vars = vars(0);
    vars.push(VarInfo::other("nope"));
    Hello::new("job", trainer, incarnation, vars)
}

fn client(endpoint: &Endpoint, trainer: u32) -> Arc<Client> {
    let patience = Patience {
        connect_ms: 5_000,
        grace_ms: 1_000,
        lease_ms: 5_000,
        answer_ms: 20_000,
        ..Patience::default()
    };
    Client::new(endpoint.clone(), hello(trainer, u64::from(trainer) + 7), patience)
}

/// A gradient with many numbers.
fn large(tag: i64, n: usize) -> Push {
    let value = Tensor::full([1, n], tag as f32);
    let rows = Rows { ids: vec![tag], height: i64::MAX, value };
    Push::new(vec![Grad { var: GRAD, value: Value::Rows(rows) }])
}

fn pull(after: u64) -> Pull {
    Pull::new(after, vec![SHARED_VAR])
}

fn fetch(client: &Client, after: u64) -> f64 {
    let ticket = client.ask(pull(after)).unwrap();
    match client.wait(ticket, "parameters").unwrap() {
        Reply::Values(values) => values.0[0].tensor().unwrap().get_f64(0),
        other => panic!("{other:?}"),
    }
}

/// On one machine tensors lie where the other side reads them; the values that arrive are the same.
#[test]
fn neighbours_lend_and_others_send() {
    let served = serve(config(2, false));
    let (near, far) = (client(&served.endpoint, 0), client(&served.by_tcp(), 1));
    for tag in 0..100 {
        near.change(large(tag, 5_000)).unwrap();
        far.change(large(1000 + tag, 5_000)).unwrap();
    }
    near.settle().unwrap();
    far.settle().unwrap();
    assert!(near.is_near() && !far.is_near());
    let (_, ledger) = served.end();
    let mut tags: Vec<i64> = ledger.applied.iter().map(|one| one.tag).collect();
    tags.sort_unstable();
    assert!(tags.into_iter().eq((0..100).chain(1000..1100)));
}

fn sync_rounds(endpoint: impl Fn(&Served) -> Endpoint) {
    let served = serve(config(4, true));
    let trainers: Vec<_> = (0..4)
        .map(|id| {
            let client = client(&endpoint(&served), id);
            thread::spawn(move || {
                let mut seen = Vec::new();
                for round in 1..=20 {
                    let tag = i64::from(id) * 1000 + round;
                    client.change(Push::new(vec![grad(tag, 0)])).unwrap();
                    client.change(Barrier::new(client.round() + 1)).unwrap();
                    assert_eq!(client.round(), round as u64);
                    seen.push(fetch(&client, client.round()).to_bits());
                }
                client.change(Complete).unwrap();
                client.settle().unwrap();
                seen
            })
        })
        .collect();
    let seen: Vec<Vec<u64>> = trainers.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert!(seen.iter().all(|one| *one == seen[0]), "all see the same in each round");
    let (end, ledger) = served.thread.join().unwrap();
    assert_eq!(end, Some(End::Completed));
    let tags: Vec<i64> = ledger.applied.iter().map(|one| one.tag).collect();
    let expected: Vec<i64> = (1..=20).flat_map(|r| (0..4).map(move |id| id * 1000 + r)).collect();
    assert_eq!(tags, expected, "round after round, in the order of ranks");
}

#[test]
fn rounds_over_a_unix_socket() {
    sync_rounds(|served| served.endpoint.clone());
}

#[test]
fn rounds_over_tcp() {
    sync_rounds(Served::by_tcp);
}

/// Passes bytes on; cuts each connection after so many from the client, the last never.
fn proxy(to: Endpoint, cuts: Vec<usize>) -> Endpoint {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for cut in cuts.into_iter().chain([usize::MAX]) {
            let Ok((near, _)) = listener.accept() else { return };
            let far = TcpStream::connect((to.host.as_str(), to.port)).unwrap();
            let (mut back, mut front) = (far.try_clone().unwrap(), near.try_clone().unwrap());
            thread::spawn(move || std::io::copy(&mut back, &mut front));
            thread::spawn(move || {
                // An error is a connection that is over, too.
                let _ = std::io::copy(&mut (&near).take(cut as u64), &mut &far);
                let _ = (near.shutdown(Shutdown::Both), far.shutdown(Shutdown::Both));
            });
        }
    });
    Endpoint { host: "127.0.0.1".to_string(), port }
}

#[test]
fn a_connection_that_breaks_in_a_push_applies_it_once() {
    let served = serve(config(1, false));
    let cuts = vec![10, 30, 90, 5_000, 400_000, 150_000, 700_000];
    let client = client(&proxy(served.endpoint.clone(), cuts), 0);
    for tag in 0..20 {
        client.change(large(tag, 25_000)).unwrap();
    }
    client.settle().unwrap();
    let (_, ledger) = served.end();
    let tags: Vec<i64> = ledger.applied.iter().map(|one| one.tag).collect();
    assert_eq!(tags, (0..20).collect::<Vec<_>>());
}

#[test]
fn who_sends_much_before_reading_is_served() {
    for way in [|served: &Served| served.endpoint.clone(), Served::by_tcp] {
        let served = serve(config(1, false));
        let client = client(&way(&served), 0);
        let keys = vec![0; 100_000];
        let look_up = || LookUp::new(0, TABLE, keys.clone());
        let tickets: Vec<_> = (0..30).map(|_| client.ask(look_up()).unwrap()).collect();
        for tag in 0..30 {
            client.change(large(tag, 250_000)).unwrap();
        }
        for tag in 0..900 {
            client.change(large(tag, 1)).unwrap();
        }
        for ticket in tickets {
            assert!(matches!(client.wait(ticket, "rows").unwrap(), Reply::Rows(_)));
        }
        client.settle().unwrap();
        client.close();
        assert_eq!(served.end().1.applied.len(), 930);
    }
}

/// More than there are threads to serve them.
const CROWD: u32 = 100;

fn rows_of(n_keys: usize) -> LookUp {
    LookUp::new(0, TABLE, vec![0; n_keys])
}

/// A trainer works, whatever the others do.
#[track_caller]
fn check_served(served: &Served) {
    let client = client(&served.endpoint, 0);
    let start = Instant::now();
    for tag in 0..200 {
        client.change(Push::new(vec![grad(tag, 0)])).unwrap();
        fetch(&client, 0);
    }
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[test]
fn slow_readers_do_not_stall_others() {
    let served = serve(config(CROWD, false));
    let slow: Vec<TcpStream> = (1..CROWD)
        .map(|id| {
            let mut slow = raw(&served);
            say(&mut slow, 0, hello(id, 1));
            // The first ask for more than sockets hold.
            let n_keys = if id < 10 { 100_000 } else { 10 };
            (0..60).for_each(|at| say(&mut slow, (1 << 63) + at, rows_of(n_keys)));
            slow
        })
        .collect();
    check_served(&served);
    drop(slow);
    assert_eq!(served.end().1.applied.len(), 200);
}

/// Peers that stop in the middle of a head, of meta bytes, and of a tensor.
#[test]
fn peers_that_stop_in_a_frame_do_not_stall_others() {
    let served = serve(config(CROWD, false));
    let push = Request::Push(large(0, 50_000));
    let push = frame::to_bytes(&Frame { id: 1, body: &push });
    let stopped: Vec<TcpStream> = (1..CROWD)
        .map(|id| {
            let mut stopped = raw(&served);
            say(&mut stopped, 0, hello(id, 1));
            assert!(matches!(hear(&mut stopped), Reply::Welcome(_)));
            stopped.write_all(&push[..[10, 30, 1_000, 150_000][id as usize % 4]]).unwrap();
            stopped
        })
        .collect();
    check_served(&served);
    // Nothing is lost: trainers that continue are served.
    for (id, mut stopped) in (1..CROWD).zip(stopped) {
        stopped.write_all(&push[[10, 30, 1_000, 150_000][id as usize % 4]..]).unwrap();
        assert!(matches!(hear(&mut stopped), Reply::Ack(_)));
    }
    assert_eq!(served.end().1.applied.len(), 200 + CROWD as usize - 1);
}

#[test]
fn a_peer_that_takes_no_answers_is_cut_off() {
    let served = serve(config(2, false));
    let mut deaf = raw(&served);
    say(&mut deaf, 0, hello(1, 1));
    let ask = Request::LookUp(rows_of(2_000));
    let cut = (0..20_000u64).find(|at| {
        let bytes = frame::to_bytes(&Frame { id: (1 << 63) + at, body: &ask });
        deaf.write_all(&bytes).is_err()
    });
    assert!(cut.is_some(), "it may say what it likes");
    check_served(&served);
    let log = served.log.lock().unwrap().clone();
    assert!(log.iter().any(|line| line.contains("takes no answers")), "{log:#?}");
    served.end();
}

#[test]
fn threads_of_a_client_do_not_wait_for_each_other() {
    let served = serve(config(1, false));
    let client = client(&served.endpoint, 0);
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..500).map(|_| fetch(&client, 0)).sum::<f64>());
        }
    });
    // A lost wake-up costs 100 ms.
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    served.end();
}

#[test]
fn a_server_that_is_gone_is_named_in_time() {
    let served = serve(config(1, false));
    let (endpoint, client) = (served.endpoint.clone(), client(&served.endpoint, 0));
    fetch(&client, 0);
    served.end();
    let start = Instant::now();
    let error = client.ask(pull(0)).and_then(|ticket| client.wait(ticket, "parameters"));
    assert!(
        matches!(&error, Err(Error::ServerLost { endpoint: named, .. }) if *named == endpoint),
        "{error:?}"
    );
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
}

#[test]
fn a_wrong_port_is_a_typed_error_at_the_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let endpoint = Endpoint { host: "127.0.0.1".to_string(), port };
    let patience = Patience { connect_ms: 400, ..Patience::default() };
    let client = Client::new(endpoint.clone(), hello(0, 1), patience);
    let start = Instant::now();
    let error = client.ensure_connected().unwrap_err();
    assert!(
        matches!(&error, Error::ServerLost { endpoint: named, .. } if *named == endpoint),
        "{error}"
    );
    let took = start.elapsed();
    assert!((400..4_000).contains(&took.as_millis()), "{took:?}");
}

fn say(stream: &mut TcpStream, id: u64, request: impl Into<Request>) {
    stream.write_all(&frame::to_bytes(&Frame { id, body: &request.into() })).unwrap();
}

fn hear(stream: &mut TcpStream) -> Reply {
    frame::read::<Reply>(stream, FRAME_BYTES_MAX).unwrap().1
}

#[track_caller]
fn check_cut(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    // A reset is an end, too.
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.is_empty(), "nothing follows a refusal: {rest:?}");
}

#[track_caller]
fn check_refused(served: &Served, bytes: &[u8], expected: impl Fn(&Refusal) -> bool) {
    let mut stream = raw(served);
    stream.write_all(bytes).unwrap();
    match hear(&mut stream) {
        Reply::Refused(refusal) => assert!(expected(&refusal), "{refusal:?}"),
        other => panic!("{other:?}"),
    }
    check_cut(&mut stream);
}

fn greeting(hello: Hello) -> Vec<u8> {
    frame::to_bytes(&Frame { id: 0, body: &Request::Hello(hello) })
}

#[test]
fn strangers_get_a_typed_refusal_and_one_line_in_the_log() {
    let served = serve(config(2, false));
    let client = client(&served.endpoint, 0);
    fetch(&client, 0);
    let ping = frame::to_bytes(&Frame { id: 1, body: &Request::Ping(Ping) });
    let mut claim = ping.clone();
    claim[8..16].copy_from_slice(&[0xff; 8]);
    let garbage: Vec<u8> = (0..64u8).map(|at| at.wrapping_mul(37) ^ 0x5a).collect();
    let malformed = |refusal: &Refusal| matches!(refusal, Refusal::Malformed(_));
    for _ in 0..3 {
        check_refused(&served, &garbage, malformed);
        check_refused(&served, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", malformed);
        check_refused(&served, &claim, malformed);
        check_refused(&served, &ping, |refusal| *refusal == Refusal::HelloFirst);
        let out = Refusal::TrainerOutOfRange { trainer: 2, n_trainers: 2 };
        check_refused(&served, &greeting(hello(2, 1)), |refusal| *refusal == out);
        let other = Hello { job: "other".to_string(), ..hello(1, 1) };
        check_refused(&served, &greeting(other), |r| matches!(r, Refusal::OtherJob { .. }));
        let version = Hello { version: VERSION + 1, ..hello(1, 1) };
        check_refused(&served, &greeting(version), |r| matches!(r, Refusal::Version { .. }));
        let duplicate = |r: &Refusal| matches!(r, Refusal::DuplicateTrainer { trainer: 0, .. });
        check_refused(&served, &greeting(hello(0, 99)), duplicate);
        let mut cut = raw(&served);
        cut.write_all(&greeting(hello(1, 1))[..30]).unwrap();
        cut.shutdown(Shutdown::Write).unwrap();
        check_cut(&mut cut);
    }
    fetch(&client, 0);
    let log = served.log.lock().unwrap().clone();
    let lines: Vec<_> = log.iter().filter(|line| line.contains("connection")).collect();
    assert_eq!(lines.len(), 7, "each kind once (garbage and HTTP are one kind): {log:#?}");
    served.end();
}

#[test]
fn keys_and_values_of_different_length_cost_the_connection() {
    let served = serve(config(1, false));
    let mut stream = raw(&served);
    say(&mut stream, 0, hello(0, 1));
    assert!(matches!(hear(&mut stream), Reply::Welcome(_)));
    let rows = Rows { ids: vec![1, 2], height: 9, value: Tensor::full([1, 1], 1f32) };
    let grads = vec![Grad { var: GRAD, value: Value::Rows(rows) }];
    say(&mut stream, 1, Push::new(grads));
    let refused = hear(&mut stream);
    assert!(matches!(refused, Reply::Refused(Refusal::Malformed(_))), "{refused:?}");
    check_cut(&mut stream);
    assert!(served.end().1.applied.is_empty());
}

#[test]
fn unknown_tables_and_numbers_that_are_none_are_refused_to_their_sender() {
    let served = serve(ServerConfig { check_finite: true, ..config(2, false) });
    let (good, bad) = (client(&served.endpoint, 0), client(&served.endpoint, 1));
    let nope = VarId(vars(0).len() as u32);
    let look_up = |table| LookUp::new(0, table, vec![1]);
    let error = bad.wait(bad.ask(look_up(nope)).unwrap(), "rows").unwrap_err();
    let unknown = Refusal::UnknownVar("nope".to_string());
    assert!(matches!(&error, Error::Refused { refusal, .. } if *refusal == unknown), "{error}");
    let beyond = VarId(nope.0 + 1);
    let error = bad.wait(bad.ask(look_up(beyond)).unwrap(), "rows").unwrap_err();
    let unknown = Refusal::UnknownNumber { number: beyond.0, n_vars: beyond.0 };
    assert!(matches!(&error, Error::Refused { refusal, .. } if *refusal == unknown), "{error}");
    let rows = Rows { ids: vec![1], height: 9, value: Tensor::full([1, 1], f32::NAN) };
    let grads = vec![Grad { var: GRAD, value: Value::Rows(rows) }];
    bad.change(Push::new(grads)).unwrap();
    let error = bad.settle().unwrap_err();
    let not_finite = Refusal::NotFinite { var: "grad".to_string(), trainer: 1 };
    assert!(matches!(&error, Error::Refused { refusal, .. } if *refusal == not_finite), "{error}");
    good.change(Push::new(vec![grad(1, 0)])).unwrap();
    good.settle().unwrap();
    assert_eq!(served.end().1.applied.len(), 1, "the server goes on");
}

/// Clients of one trainer.
fn grouped(servers: &[Served; 2]) -> [Arc<Client>; 2] {
    let lost = LostProcess::default();
    let patience = Patience { answer_ms: 60_000, ..Patience::default() };
    servers.each_ref().map(|served| {
        let group = ClientGroup { lost: lost.clone(), ..ClientGroup::default() };
        Client::among(served.endpoint.clone(), hello(0, 7), patience, group)
    })
}

/// Closes the next round, which the other trainer does not.
fn ask_for_round(client: &Client) -> Ticket {
    client.change(Barrier::new(client.round() + 1)).unwrap();
    client.ask(pull(client.round())).unwrap()
}

/// A thread that waits for one server hears that another server is gone: that is what the script must say.
#[test]
fn a_server_that_is_gone_ends_waiting_for_others() {
    let servers = [serve(config(2, true)), serve(config(2, true))];
    let waiting = grouped(&servers);
    let others = servers.each_ref().map(|served| client(&served.endpoint, 1));
    others.iter().for_each(|client| client.ensure_connected().unwrap());
    let ticket = ask_for_round(&waiting[0]);
    waiting[1].ensure_connected().unwrap();
    let [first, second] = servers;
    let gone = second.endpoint.clone();
    drop(second.end());
    let start = Instant::now();
    let error = waiting[0].wait(ticket, "parameters").unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(20), "after {:?}", start.elapsed());
    assert!(matches!(&error, Error::ServerLost { endpoint, .. } if *endpoint == gone), "{error}");
    drop(first.end());
}

/// A thread that waits for one server hears what another server knows.
#[test]
fn a_loss_that_one_server_saw_ends_waiting_for_others() {
    let servers = [serve(config(2, true)), serve(config(2, true))];
    let waiting = grouped(&servers);
    let others = servers.each_ref().map(|served| client(&served.endpoint, 1));
    others.iter().for_each(|client| client.ensure_connected().unwrap());
    let tickets = waiting.each_ref().map(|client| ask_for_round(client));
    // The first server still has the other trainer; the second loses it.
    others[1].close();
    let start = Instant::now();
    let [first, _second] = tickets;
    let error = waiting[0].wait(first, "parameters").unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(5), "after {:?}", start.elapsed());
    let Error::Refused { endpoint, refusal } = &error else { panic!("{error}") };
    assert_eq!(*endpoint, servers[1].endpoint);
    assert!(matches!(refusal, Refusal::TrainerLost { trainer: 1, .. }), "{refusal}");
    servers.into_iter().for_each(|served| drop(served.end()));
}
