//! Processes that know one address find each other there, over real sockets.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use base::Endpoint;
use net::Access;
use net::tcp::{Rendezvous, find_others};
use protocol::rendezvous::{Place, Report, Side};
use wire::Error;

const LONG: Duration = Duration::from_secs(60);

fn master() -> Endpoint {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    Endpoint { host: "127.0.0.1".into(), port }
}

fn meeting(master: &Endpoint, side: Side, rank: Option<u32>, n: u32) -> Rendezvous {
    let port = if side == Side::Server { 17_100 } else { 0 };
    let report = Report {
        job: String::new(),
        n,
        n_servers: Some(n / 2),
        side,
        rank,
        name: String::new(),
        endpoint: Endpoint { host: String::new(), port },
        is_fixed: false,
    };
    Rendezvous { master: master.clone(), report, limit: LONG, access: Access::default() }
}

fn all(meetings: Vec<Rendezvous>) -> Vec<wire::Result<Place>> {
    let run = |meeting: Rendezvous| {
        thread::spawn(move || find_others(&meeting, &mut |_| {}, &mut || false))
    };
    let threads: Vec<_> = meetings.into_iter().map(run).collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

#[test]
fn all_get_one_list_and_a_number_of_their_own() {
    let master = master();
    let one = |side, rank| meeting(&master, side, rank, 6);
    let sides = [Side::Server, Side::Trainer];
    let meetings =
        sides.into_iter().flat_map(|side| [None, None, None].map(|rank| one(side, rank)));
    let places: Vec<Place> = all(meetings.collect()).into_iter().map(Result::unwrap).collect();
    for side in [&places[..3], &places[3..]] {
        let mut ids: Vec<u32> = side.iter().map(|place| place.id).collect();
        ids.sort_unstable();
        assert_eq!(ids, [0, 1, 2]);
    }
    let servers = &places[0].servers;
    assert!(places.iter().all(|place| place.servers == *servers && place.trainers.len() == 3));
    let mut ports: Vec<u16> = servers.iter().map(|server| server.port).collect();
    ports.dedup();
    assert_eq!(ports.len(), 3, "each server of a machine has a port of its own: {servers:?}");
    assert!(servers.iter().all(|server| server.host == "127.0.0.1"));
}

#[test]
fn who_does_not_come_is_named_to_all() {
    let master = master();
    let mut meetings = vec![
        meeting(&master, Side::Server, Some(0), 4),
        meeting(&master, Side::Server, Some(1), 4),
        meeting(&master, Side::Trainer, Some(0), 4),
    ];
    // One is less patient than the others: no process waits longer than it does.
    meetings[2].limit = Duration::from_secs(2);
    for outcome in all(meetings) {
        let error = outcome.unwrap_err();
        assert!(matches!(error, Error::Unmet { .. } | Error::Apart { .. }), "{error}");
        assert!(error.to_string().contains("missing: trainer 1; there are: "), "{error}");
    }
}

#[test]
fn jobs_that_do_not_fit_are_refused_to_all() {
    let master = master();
    let twice = vec![meeting(&master, Side::Trainer, Some(1), 4); 2];
    for outcome in all(twice) {
        let error = outcome.unwrap_err();
        assert!(matches!(error, Error::Apart { .. }), "{error}");
        assert!(error.to_string().contains("trainer 1"), "{error}");
    }
}

#[test]
fn one_that_never_listens_is_named() {
    let away = Rendezvous {
        limit: Duration::from_millis(300),
        ..meeting(&Endpoint { host: "no-such-host.invalid".into(), port: 1 }, Side::Server, None, 2)
    };
    let mut said = Vec::new();
    let error =
        find_others(&away, &mut |line| said.push(line.to_string()), &mut || false).unwrap_err();
    assert!(matches!(error, Error::NoMaster { .. }), "{error}");
    assert!(error.to_string().contains("no-such-host.invalid:1"), "{error}");
    assert!(said[0].contains("no process answers"), "{said:?}");
    let stopped = find_others(&Rendezvous { limit: LONG, ..away }, &mut |_| {}, &mut || true);
    assert!(matches!(stopped, Err(Error::Interrupted { .. })));
}

#[test]
fn an_address_of_another_program_is_given_up_in_time() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let master: Endpoint = other.local_addr().unwrap().to_string().parse().unwrap();
    // It takes connections, and ends them.
    thread::spawn(move || other.incoming().for_each(drop));
    let limit = Duration::from_millis(700);
    let own = Rendezvous { limit, ..meeting(&master, Side::Server, None, 2) };
    let error = find_others(&own, &mut |_| {}, &mut || false).unwrap_err();
    assert!(matches!(error, Error::NoMaster { .. }), "{error}");
}

#[test]
fn strangers_do_no_harm() {
    let master = master();
    let first = meeting(&master, Side::Server, Some(0), 2);
    let second = meeting(&master, Side::Trainer, Some(0), 2);
    let waiting = thread::spawn(move || find_others(&first, &mut |_| {}, &mut || false));
    let address = master.to_string();
    let deadline = std::time::Instant::now() + LONG;
    let mut stranger = loop {
        match TcpStream::connect(&address) {
            Ok(stream) => break stream,
            Err(error) => assert!(std::time::Instant::now() < deadline, "{error}"),
        }
        thread::yield_now();
    };
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    // It is shown the door, and gets no list.
    let _ = stranger.read_to_end(&mut answer);
    assert!(answer.is_empty());
    let place = find_others(&second, &mut |_| {}, &mut || false).unwrap();
    assert_eq!((place.id, waiting.join().unwrap().unwrap().id), (0, 0));
}
