use wire::Refusal;
use wire::frame::{self, FRAME_BYTES_MAX, Frame};
use wire::message::{Ping, Reply, Request};

use super::*;
use crate::access::keyed::Keys;
use crate::access::{Distance, Secret};

fn access(secret: &str) -> Access {
    Access::with(Secret::new(secret).unwrap())
}

const OURS: &str = "the secret of this job";

/// A guest, and what it says first.
struct Begun {
    guest: Connecting,
    opening: Vec<u8>,
}

fn begun(access: &Access, door: Service, transport: Transport) -> Begun {
    let (guest, opening) = Connecting::new(access, door, transport, [7; 32]);
    Begun { guest, opening }
}

fn guest(secret: &str, transport: Transport) -> Begun {
    begun(&access(secret), Service::Server, transport)
}

fn host(secret: &str) -> Accepting {
    Accepting::new(&access(secret), Service::Server, Transport::Tcp, [9; 32])
}

/// Both ends, so many bytes at a time; how it ended for the guest and for the host.
fn meet(begun: Begun, mut host: Accepting, n_at_once: usize) -> [Option<Result<(), Unproved>>; 2] {
    let Begun { mut guest, opening } = begun;
    let (mut to_host, mut to_guest) = (opening, Vec::new());
    let mut ends = [None, None];
    while !to_host.is_empty() || !to_guest.is_empty() {
        let n = n_at_once.min(to_host.len()).min(host.n_wanted());
        let step = host.take(&to_host.drain(..n).collect::<Vec<_>>());
        to_guest.extend(step.send);
        ends[1] = ends[1].or(step.end);
        if n == 0 || ends[1].is_some() {
            to_host.clear();
        }
        let n = n_at_once.min(to_guest.len()).min(guest.n_wanted());
        let step = guest.take(&to_guest.drain(..n).collect::<Vec<_>>());
        to_host.extend(step.send);
        ends[0] = ends[0].or(step.end);
        if ends[0].is_some() {
            to_guest.clear();
        }
    }
    ends
}

#[test]
fn who_knows_the_secret_comes_in_however_the_bytes_come() {
    for n_at_once in 1..60 {
        let ends = meet(guest(OURS, Transport::Tcp), host(OURS), n_at_once);
        assert_eq!(ends, [Some(Ok(())); 2], "{n_at_once} bytes at a time");
    }
    let open = Access::default();
    let guest = begun(&open, Service::Trainer, Transport::Unix);
    let host = Accepting::new(&open, Service::Trainer, Transport::Unix, [2; 32]);
    assert_eq!(meet(guest, host, 99), [Some(Ok(())); 2], "a job without a secret");
}

#[test]
fn another_secret_is_none() {
    let ends = meet(guest("the secret of another job", Transport::Tcp), host(OURS), 99);
    assert_eq!(ends, [Some(Err(Unproved::Secret)); 2]);
    let none = begun(&Access::default(), Service::Server, Transport::Tcp);
    assert_eq!(meet(none, host(OURS), 99), [Some(Err(Unproved::Secret)); 2]);
    let open = Accepting::new(&Access::default(), Service::Server, Transport::Tcp, [9; 32]);
    assert_eq!(meet(guest(OURS, Transport::Tcp), open, 99), [Some(Err(Unproved::Secret)); 2]);
}

/// The access of a process without a secret in a private network.
fn keyed() -> Access {
    let open = Access { keys: Some(Keys::default()), ..Access::default() };
    open.named("me").at(Distance::Private).unwrap()
}

#[test]
fn keys_are_shown_and_proved_where_there_is_no_secret() {
    let (ours, theirs) = (keyed(), keyed());
    for n_at_once in 1..140 {
        let guest = begun(&ours, Service::Server, Transport::Tcp);
        let host = Accepting::new(&theirs, Service::Server, Transport::Tcp, [9; 32]);
        assert_eq!(meet(guest, host, n_at_once), [Some(Ok(())); 2], "{n_at_once} bytes at a time");
    }
    let Begun { mut guest, opening } = begun(&ours, Service::Server, Transport::Tcp);
    let mut host = Accepting::new(&theirs, Service::Server, Transport::Tcp, [9; 32]);
    let answer = host.take(&opening).send;
    let proof = guest.take(&answer).send;
    let verdict = host.take(&proof).send;
    assert_eq!(guest.take(&verdict).end, Some(Ok(())));
    assert_eq!(host.peer_key(), ours.own_key().map(|key| key.public()));
    assert_eq!(guest.peer_key(), theirs.own_key().map(|key| key.public()));
    // A listener cannot replay the proof, neither with a key of its own nor without one.
    let fresh = || {
        let mut host = Accepting::new(&theirs, Service::Server, Transport::Tcp, [10; 32]);
        host.take(&opening);
        host
    };
    assert_eq!(fresh().take(&proof).end, Some(Err(Unproved::Secret)));
    let open = begun(&Access::default(), Service::Server, Transport::Tcp);
    let host = Accepting::new(&theirs, Service::Server, Transport::Tcp, [9; 32]);
    assert_eq!(meet(open, host, 99), [Some(Err(Unproved::Key)); 2]);
    let open = Accepting::new(&Access::default(), Service::Server, Transport::Tcp, [9; 32]);
    let guest = begun(&ours, Service::Server, Transport::Tcp);
    assert_eq!(meet(guest, open, 99), [Some(Err(Unproved::Key)), Some(Ok(()))]);
}

#[test]
fn a_key_without_its_signature_is_none() {
    let (ours, theirs) = (keyed(), keyed());
    let Begun { mut guest, opening } = begun(&ours, Service::Server, Transport::Tcp);
    let mut host = Accepting::new(&theirs, Service::Server, Transport::Tcp, [9; 32]);
    let answer = host.take(&opening).send;
    let mut proof = guest.take(&answer).send;
    *proof.last_mut().unwrap() ^= 1;
    let step = host.take(&proof);
    assert_eq!(step.end, Some(Err(Unproved::Key)));
    assert!(step.send[4..].iter().all(|&byte| byte == 0), "no proof for a stranger");
    assert_eq!(guest.take(&step.send).end, Some(Err(Unproved::Key)));
}

#[test]
fn a_proof_is_for_one_way_only() {
    // Somebody passes on what a guest says on a Unix socket, or through a TLS session of his own.
    for transport in [Transport::Unix, Transport::Tls([1; 32])] {
        let ends = meet(guest(OURS, transport), host(OURS), 99);
        assert_eq!(ends, [Some(Err(Unproved::Secret)); 2], "{transport:?}");
    }
}

#[test]
fn what_was_heard_once_is_useless_afterwards() {
    let Begun { guest: mut first, opening } = guest(OURS, Transport::Tcp);
    let mut listening = host(OURS);
    let answer = listening.take(&opening).send;
    let proof = first.take(&answer).send;
    assert_eq!(listening.take(&proof).end, Some(Ok(())));
    // The same bytes again: the host has another nonce.
    let mut again = Accepting::new(&access(OURS), Service::Server, Transport::Tcp, [10; 32]);
    again.take(&opening);
    let step = again.take(&proof);
    assert_eq!(step.end, Some(Err(Unproved::Secret)));
    assert!(step.send[4..].iter().all(|&byte| byte == 0), "no proof for a stranger");
}

#[test]
fn a_guest_notices_a_host_that_does_not_know() {
    let mut guest = guest(OURS, Transport::Tcp).guest;
    let proof = guest.take(&opening(GOOD, &[3; 32])).send;
    // It sends the guest's own proof back.
    let mut verdict = GOOD.to_le_bytes().to_vec();
    verdict.extend_from_slice(&proof);
    assert_eq!(guest.take(&verdict).end, Some(Err(Unproved::Impostor)));
}

#[test]
fn other_releases_are_told_and_told_apart() {
    let mut other = opening(Service::Server as u32, &[0; 32]);
    other[4] = VERSION as u8 + 1;
    let version = Unproved::Version { ours: VERSION, theirs: VERSION + 1 };
    let step = host(OURS).take(&other);
    assert_eq!((step.end, u32_at(&step.send, 8)), (Some(Err(version)), OTHER_VERSION));
    // A trainer of an older release greets in a frame, and its answer is a frame.
    let hello =
        wire::message::Hello { version: 5, ..wire::message::Hello::new("", 0, 1, Vec::new()) };
    let old = frame::to_bytes(&Frame { id: 0, body: &Request::Hello(hello) });
    let step = host(OURS).take(&old[..OPENING_BYTES]);
    let (_, reply) = frame::read::<Reply>(&mut &step.send[..], FRAME_BYTES_MAX).unwrap();
    assert_eq!(reply, Reply::Refused(Refusal::Version { ours: VERSION, theirs: 5 }));
    // And a server of an older release answers in a frame.
    let mut guest = guest(OURS, Transport::Tcp).guest;
    let frame = frame::to_bytes(&Frame { id: 0, body: &Request::from(Ping) });
    assert_eq!(guest.take(&frame).end, Some(Err(OLDER)));
}

#[test]
fn another_door_is_another_door() {
    let guest = begun(&access(OURS), Service::Rendezvous, Transport::Tcp);
    assert_eq!(meet(guest, host(OURS), 99), [Some(Err(Unproved::Service)); 2]);
}

#[test]
fn something_else_is_noticed_at_its_first_bytes() {
    let http = b"GET / HTTP/1.1\r\n";
    assert_eq!(host(OURS).take(http).end, Some(Err(Unproved::NotOurs)));
    assert_eq!(guest(OURS, Transport::Tcp).guest.take(http).end, Some(Err(Unproved::NotOurs)));
    assert_eq!(host(OURS).take(b"P").end, None);
}

#[test]
fn a_stranger_costs_some_tens_of_bytes() {
    let mut host = host(OURS);
    for byte in &opening(Service::Server as u32, &[0; 32]) {
        assert!(host.n_wanted() <= OPENING_BYTES);
        host.take(&[*byte]);
    }
    assert!(host.transcript.begun.capacity() <= 64 && host.n_wanted() == PROOF_BYTES);
    assert_eq!(PROOF_BYTES, 128);
}
