//! The first bytes of a connection: the input of strangers before they have proved anything.

use net::access::proof::{Accepting, Connecting, Prove, Service, Transport};
use net::{Access, Secret};

use super::Target;

const NONCES: [[u8; 32]; 2] = [[7; 32], [9; 32]];

fn access() -> Access {
    Access::with(Secret::new("the secret of this job").expect("long enough"))
}

fn sides() -> (Connecting, Vec<u8>, Accepting) {
    let [of_guest, of_host] = NONCES;
    let (guest, opening) = Connecting::new(&access(), Service::Server, Transport::Tcp, of_guest);
    (guest, opening, Accepting::new(&access(), Service::Server, Transport::Tcp, of_host))
}

/// Whether these bytes prove the knowledge of the secret.
fn is_proved(side: &mut impl Prove, bytes: &[u8]) -> bool {
    let mut left = bytes;
    while !left.is_empty() {
        let (now, rest) = left.split_at(side.n_wanted().min(left.len()).min(5));
        assert!(!now.is_empty() && side.n_wanted() <= 132, "a stranger is not waited for long");
        left = rest;
        if let Some(end) = side.take(now).end {
            return end.is_ok();
        }
    }
    false
}

/// The bytes that each of the two sides receives from the other.
fn heard() -> [Vec<u8>; 2] {
    let (mut guest, opening, mut host) = sides();
    let answer = host.take(&opening).send;
    let proof = guest.take(&answer).send;
    let verdict = host.take(&proof).send;
    [[opening, proof].concat(), [answer, verdict].concat()]
}

/// Broken proofs: only the right bytes let a peer in.
pub(super) fn proofs() -> Target {
    let right = heard();
    let inputs = right.to_vec();
    let read = move |bytes: &[u8]| {
        let (mut guest, _, mut host) = sides();
        assert!(!is_proved(&mut host, bytes) || bytes.starts_with(&right[0]), "a stranger is in");
        assert!(!is_proved(&mut guest, bytes) || bytes.starts_with(&right[1]), "an impostor is in");
    };
    Target { name: "proofs", inputs, words: &[b"PWHS", b"PWL1"], read: Box::new(read), share: 20 }
}
