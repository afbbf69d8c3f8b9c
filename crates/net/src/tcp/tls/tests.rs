use std::net::TcpListener;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use base::Endpoint;
use wire::Error;

use super::*;
use crate::access::proof::{Service, Unproved};
use crate::access::{Access, Secret};
use crate::tcp::entrance::{PROOF_TIME, Porch, Proving};
use crate::tcp::{Stream, Way};

/// With keys that were made for the job.
fn made() -> Access {
    let secret = Secret::new("the secret of this job").unwrap();
    Access { tls: Some(Tls::for_job().unwrap()), ..Access::with(secret) }
}

fn listen() -> (TcpListener, Endpoint) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, Endpoint { host: "127.0.0.1".to_string(), port })
}

/// Takes one connection, and says how its proof ends.
fn host(listener: TcpListener) -> JoinHandle<Result<(), Unproved>> {
    thread::spawn(move || {
        let access = made();
        let (socket, _) = listener.accept().unwrap();
        let stream = Stream::host(socket, &access).unwrap();
        let (mut proof, until) =
            (Proving::new(&access, Service::Server), Instant::now() + PROOF_TIME);
        loop {
            if let Some(end) = proof.advance(&stream).unwrap() {
                return end;
            }
            assert!(Instant::now() < until, "it says nothing");
        }
    })
}

fn enter(endpoint: &Endpoint) -> wire::Result<Stream> {
    Stream::enter(endpoint, PROOF_TIME, Way::Tcp, &made(), Service::Server)
}

#[test]
fn both_sides_prove_on_one_session() {
    let (listener, endpoint) = listen();
    let host = host(listener);
    let stream = enter(&endpoint).unwrap();
    assert!(stream.is_encrypted());
    assert_eq!(host.join().unwrap(), Ok(()));
}

/// Somebody in between has a session with each side, which cost him nothing: no key proves anything. He
/// passes on what both say, and neither side believes the other.
#[test]
fn somebody_with_a_session_for_each_side_passes_no_proof_on() {
    let (listener, behind) = listen();
    let host = host(listener);
    let (between, endpoint) = listen();
    thread::spawn(move || {
        let access = made();
        let (socket, _) = between.accept().unwrap();
        let near = Stream::host(socket, &access).unwrap();
        let far = Stream::connect(&behind, PROOF_TIME, Way::Tcp, &access).unwrap();
        while !near.greet().unwrap() || !far.greet().unwrap() {}
        near.set_nonblocking(true).unwrap();
        far.set_nonblocking(true).unwrap();
        let mut buffer = [0; 256];
        loop {
            for (from, to) in [(&near, &far), (&far, &near)] {
                match (&mut &*from).read(&mut buffer) {
                    Ok(0) => return,
                    Ok(n) => (&mut &*to).write_all(&buffer[..n]).unwrap(),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::yield_now(),
                    Err(_) => return,
                }
            }
        }
    });
    let error = enter(&endpoint).unwrap_err();
    assert!(matches!(error, Error::Unproved { why: Unproved::Secret, .. }), "{error}");
    assert_eq!(host.join().unwrap(), Err(Unproved::Secret));
}

/// A host that does not read before it has to wait, and a guest that reads a byte at a time.
#[test]
fn bytes_arrive_whole_in_any_pieces() {
    let (listener, endpoint) = listen();
    let sender = thread::spawn(move || {
        let access = made();
        let (socket, _) = listener.accept().unwrap();
        let stream = Stream::host(socket, &access).unwrap();
        while !stream.greet().unwrap() {}
        let bytes: Vec<u8> = (0..3_000_000u32).map(|at| (at % 251) as u8).collect();
        let mut n_sent = 0;
        while n_sent < bytes.len() {
            let (head, tail) = bytes[n_sent..].split_at((bytes.len() - n_sent) / 3);
            match (&mut &stream).write_vectored(&[IoSlice::new(head), IoSlice::new(tail)]) {
                Ok(n) => n_sent += n,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
        while stream.is_pending() {
            stream.push().unwrap();
        }
    });
    let access = made();
    let stream = Stream::connect(&endpoint, PROOF_TIME, Way::Tcp, &access).unwrap();
    while !stream.greet().unwrap() {}
    let (mut came, mut size) = (Vec::new(), 1);
    while came.len() < 3_000_000 {
        let mut piece = vec![0; size];
        match (&mut &stream).read(&mut piece) {
            Ok(0) => panic!("{} bytes came", came.len()),
            Ok(n) => came.extend_from_slice(&piece[..n]),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
        size = size % 40_000 + 7;
    }
    sender.join().unwrap();
    assert!(came.iter().enumerate().all(|(at, &byte)| byte == (at % 251) as u8));
}

/// One side with TLS and one without: the connecting side gets the error and does not try again.
#[test]
fn a_side_without_tls_is_found_out() {
    let plain = || Access { tls: None, ..made() };
    for (ours, theirs) in [(made(), plain()), (plain(), made())] {
        let (listener, endpoint) = listen();
        let host = thread::spawn(move || {
            let mut porch = Porch::new(&theirs, Service::Server);
            let (socket, _) = listener.accept().unwrap();
            porch.add(porch.host(socket).unwrap());
            while porch.sources().next().is_some() {
                assert!(porch.proved().is_empty());
            }
        });
        let is_plain = ours.tls.is_none();
        let error = Stream::enter(&endpoint, PROOF_TIME, Way::Tcp, &ours, Service::Server);
        let error = error.unwrap_err();
        let is_told = match &error {
            Error::Unproved { why: Unproved::Encrypted, .. } => is_plain,
            Error::NotEncrypted { why: wire::TlsFailure::Plain, .. } => !is_plain,
            _ => false,
        };
        assert!(is_told && error.is_final(), "{error}");
        host.join().unwrap();
    }
}
