//! The proof that both ends of a connection know the secret of a job, which is never sent.
//!
//! ```text
//! guest (connects)                                   host (listens)
//! "PWHS" | version u32 | door u32 | nonce 32   ──>
//!                                              <──   "PWHS" | version u32 | verdict u32 | nonce 32
//! proof of the guest 32 | key 32 | signature 64
//!                                              ──>
//!                                              <──   verdict u32 | proof of the host 32 | key 32
//!                                                    | signature 64
//! ```
//! A proof is HMAC-SHA256 with the secret over a label of the side, the version, the door, the
//! transport, both nonces, and the keys. So no proof is good for another connection, for the other direction,
//! or for another way to the same host. In a job without a secret, each side signs the same with a key of its own
//! (Ed25519), and the other remembers it; elsewhere key and signature are zeros. All lengths are fixed: a stranger
//! cannot make a host keep more than some tens of bytes. The state machines here do no I/O and read no clock.

use std::sync::Arc;

use protocol::PublicKey;
use ring::hmac;
use wire::message::VERSION;

use super::Access;
use super::process_key::{ProcessKey, SIGNATURE_BYTES, has_signed};

pub use wire::unproved::Unproved;

/// Bytes that were never used before.
pub type Nonce = [u8; 32];

const MAGIC: &[u8; 4] = b"PWHS";
/// The magic of frames, with which connections of older releases begin.
const FRAME_MAGIC: &[u8; 4] = b"PWL1";
/// Bytes of the first message of each side.
const OPENING_BYTES: usize = 44;
const HMAC_BYTES: usize = 32;
const KEY_BYTES: usize = 32;
/// Bytes of a proof: what shows that the secret is known, a key, and a signature.
const PROOF_BYTES: usize = HMAC_BYTES + KEY_BYTES + SIGNATURE_BYTES;
/// Bytes of the last message.
const VERDICT_BYTES: usize = 4 + PROOF_BYTES;

const GOOD: u32 = 0;
const OTHER_VERSION: u32 = 1;
const OTHER_DOOR: u32 = 2;
const WRONG_SECRET: u32 = 3;
const WRONG_KEY: u32 = 4;
/// Stands for no key.
const NO_KEY: [u8; KEY_BYTES] = [0; KEY_BYTES];

/// The service behind an end point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// A parameter server.
    Server = 1,
    /// A trainer that exchanges with other trainers.
    Trainer = 2,
    /// A rendezvous.
    Rendezvous = 3,
}

/// The way that a connection takes: a proof for one way is none for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// A Unix socket of this machine.
    Unix,
    /// TLS, with what only the two ends of this connection can compute.
    Tls([u8; 32]),
}

impl Transport {
    /// Always as long.
    fn bytes(self) -> [u8; 33] {
        let (code, exported) = match self {
            Transport::Tcp => (1, [0; 32]),
            Transport::Unix => (2, [0; 32]),
            Transport::Tls(exported) => (3, exported),
        };
        let mut bytes = [code; 33];
        bytes[1..].copy_from_slice(&exported);
        bytes
    }
}

/// A peer that sends frames without a proof.
const OLDER: Unproved = Unproved::Version { ours: VERSION, theirs: VERSION - 1 };

/// The reaction to bytes that came: the bytes to send, and the end of the proof if it has ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ProofStep {
    /// To be sent, also if it has ended.
    pub send: Vec<u8>,
    /// Whether the other side has proved that it knows the secret.
    pub end: Option<Result<(), Unproved>>,
}

impl ProofStep {
    fn send(send: Vec<u8>) -> Self {
        Self { send, end: None }
    }

    fn end(end: Result<(), Unproved>) -> Self {
        Self { send: Vec::new(), end: Some(end) }
    }
}

/// Which of the two sides proves.
#[derive(Clone, Copy)]
enum ProofSide {
    Connecting,
    Accepting,
}

/// A side's record of a connection.
#[derive(Debug)]
struct Transcript {
    key: hmac::Key,
    door: Service,
    transport: Transport,
    guest: Nonce,
    host: Nonce,
    /// The key that this side shows, if it shows one; then the other must, too.
    own: Option<Arc<ProcessKey>>,
    guest_key: [u8; KEY_BYTES],
    host_key: [u8; KEY_BYTES],
    /// The first bytes of the awaited message.
    begun: Vec<u8>,
}

impl Transcript {
    fn new(access: &Access, door: Service, transport: Transport) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, access.key());
        Self {
            key,
            door,
            transport,
            guest: [0; 32],
            host: [0; 32],
            own: access.own_key(),
            guest_key: NO_KEY,
            host_key: NO_KEY,
            begun: Vec::new(),
        }
    }

    /// The key that this side shows.
    fn shown(&self) -> [u8; KEY_BYTES] {
        self.own.as_ref().map_or(NO_KEY, |own| own.public().0)
    }

    /// Everything that a proof of this side covers; each part has a fixed length.
    fn covered(&self, side: ProofSide) -> Vec<u8> {
        let label: &[u8; 26] = match side {
            ProofSide::Connecting => b"paddlewheel proof of guest",
            ProofSide::Accepting => b"paddlewheel proof of host ",
        };
        let mut bytes = label.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(self.door as u32).to_le_bytes());
        bytes.extend_from_slice(&self.transport.bytes());
        bytes.extend_from_slice(&self.guest);
        bytes.extend_from_slice(&self.host);
        bytes.extend_from_slice(&self.guest_key);
        bytes.extend_from_slice(&self.host_key);
        bytes
    }

    /// The proof of this side, with the key that it shows.
    fn proof(&self, side: ProofSide) -> Vec<u8> {
        let covered = self.covered(side);
        let mut bytes = hmac::sign(&self.key, &covered).as_ref().to_vec();
        bytes.extend_from_slice(&self.shown());
        match &self.own {
            Some(own) => bytes.extend_from_slice(&own.sign(&covered)),
            None => bytes.extend_from_slice(&[0; SIGNATURE_BYTES]),
        }
        bytes
    }

    /// The fault in the proof of the other side, whose key is in its place already; compared in constant time.
    fn fault(&self, side: ProofSide, proof: &[u8]) -> Option<Unproved> {
        let covered = self.covered(side);
        if hmac::verify(&self.key, &covered, &proof[..HMAC_BYTES]).is_err() {
            return Some(Unproved::Secret);
        }
        let key = PublicKey(key_of(proof));
        let signature = &proof[HMAC_BYTES + KEY_BYTES..];
        let is_right = match self.own {
            Some(_) => key.0 != NO_KEY && has_signed(key, &covered, signature),
            // The bytes of a proof are fixed in every bit, also where none is signed.
            None => key.0 != NO_KEY || signature == [0; SIGNATURE_BYTES],
        };
        (!is_right).then_some(Unproved::Key)
    }

    /// Collects bytes; the message if `n` are there.
    fn collect(&mut self, bytes: &[u8], n: usize) -> Option<Vec<u8>> {
        let n_more = n.saturating_sub(self.begun.len()).min(bytes.len());
        self.begun.extend_from_slice(&bytes[..n_more]);
        (self.begun.len() >= n).then(|| std::mem::take(&mut self.begun))
    }
}

/// The key in a proof.
fn key_of(proof: &[u8]) -> [u8; KEY_BYTES] {
    let key = proof.get(HMAC_BYTES..HMAC_BYTES + KEY_BYTES);
    key.and_then(|key| key.try_into().ok()).unwrap_or(NO_KEY)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u32::from_le_bytes)
}

fn opening(number: u32, nonce: &Nonce) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.extend_from_slice(nonce);
    bytes
}

fn nonce_of(opening: &[u8]) -> Nonce {
    opening.get(12..).and_then(|nonce| nonce.try_into().ok()).unwrap_or_default()
}

/// A side of a proof that is being made.
pub trait Prove {
    /// How many bytes are waited for.
    fn n_wanted(&self) -> usize;
    /// Bytes came, at most as many as are waited for.
    fn take(&mut self, bytes: &[u8]) -> ProofStep;
    /// The key that the other side has signed with, after the end, if keys are shown.
    fn peer_key(&self) -> Option<PublicKey>;
}

/// The side that connects.
#[derive(Debug)]
pub struct Connecting {
    transcript: Transcript,
    /// Whether the host has answered the opening.
    is_answered: bool,
}

impl Connecting {
    /// Begins; also what to send first.
    pub fn new(
        access: &Access,
        door: Service,
        transport: Transport,
        nonce: Nonce,
    ) -> (Self, Vec<u8>) {
        let mut transcript = Transcript::new(access, door, transport);
        (transcript.guest, transcript.guest_key) = (nonce, transcript.shown());
        (Self { transcript, is_answered: false }, opening(door as u32, &nonce))
    }
}

impl Prove for Connecting {
    fn n_wanted(&self) -> usize {
        let n = if self.is_answered { VERDICT_BYTES } else { OPENING_BYTES };
        n - self.transcript.begun.len()
    }

    fn take(&mut self, bytes: &[u8]) -> ProofStep {
        let n = self.n_wanted() + self.transcript.begun.len();
        match self.transcript.collect(bytes, n) {
            Some(message) if self.is_answered => self.verdict(&message),
            Some(message) => self.answered(&message),
            None if self.is_answered => ProofStep::default(),
            None => self.beginning(),
        }
    }

    fn peer_key(&self) -> Option<PublicKey> {
        self.transcript.own.as_ref().map(|_| PublicKey(self.transcript.host_key))
    }
}

impl Connecting {
    /// A peer that speaks another protocol need not complete its message.
    fn beginning(&self) -> ProofStep {
        let begun = &self.transcript.begun;
        if begun.starts_with(FRAME_MAGIC) {
            // A server of an older release answers with a frame.
            ProofStep::end(Err(OLDER))
        } else if is_tls(begun) {
            ProofStep::end(Err(Unproved::Encrypted))
        } else if is_ours(begun) {
            ProofStep::default()
        } else {
            ProofStep::end(Err(Unproved::NotOurs))
        }
    }

    fn answered(&mut self, message: &[u8]) -> ProofStep {
        if !message.starts_with(MAGIC) {
            let is_older = message.starts_with(FRAME_MAGIC);
            return ProofStep::end(Err(if is_older { OLDER } else { Unproved::NotOurs }));
        }
        let (theirs, verdict) = (u32_at(message, 4), u32_at(message, 8));
        if theirs != VERSION || verdict == OTHER_VERSION {
            return ProofStep::end(Err(Unproved::Version { ours: VERSION, theirs }));
        }
        if verdict != GOOD {
            return ProofStep::end(Err(Unproved::Service));
        }
        self.is_answered = true;
        self.transcript.host = nonce_of(message);
        ProofStep::send(self.transcript.proof(ProofSide::Connecting))
    }

    fn verdict(&mut self, message: &[u8]) -> ProofStep {
        let proof = &message[4..];
        match u32_at(message, 0) {
            GOOD => {}
            WRONG_KEY => return ProofStep::end(Err(Unproved::Key)),
            _ => return ProofStep::end(Err(Unproved::Secret)),
        }
        self.transcript.host_key = key_of(proof);
        ProofStep::end(match self.transcript.fault(ProofSide::Accepting, proof) {
            None => Ok(()),
            Some(Unproved::Secret) => Err(Unproved::Impostor),
            Some(why) => Err(why),
        })
    }
}

/// The side that listens.
#[derive(Debug)]
pub struct Accepting {
    transcript: Transcript,
    /// Whether the guest has said its opening.
    is_opened: bool,
}

impl Accepting {
    /// Waits for a guest.
    pub fn new(access: &Access, door: Service, transport: Transport, nonce: Nonce) -> Self {
        let mut transcript = Transcript::new(access, door, transport);
        transcript.host = nonce;
        Self { transcript, is_opened: false }
    }
}

impl Prove for Accepting {
    fn n_wanted(&self) -> usize {
        let n = if self.is_opened { PROOF_BYTES } else { OPENING_BYTES };
        n - self.transcript.begun.len()
    }

    fn take(&mut self, bytes: &[u8]) -> ProofStep {
        let n = self.n_wanted() + self.transcript.begun.len();
        match self.transcript.collect(bytes, n) {
            // A peer that speaks another protocol need not complete its message.
            None if !self.is_opened && is_tls(&self.transcript.begun) => not_encrypted(),
            None if !self.is_opened && !is_ours(&self.transcript.begun) => {
                ProofStep::end(Err(Unproved::NotOurs))
            }
            None => ProofStep::default(),
            Some(message) if self.is_opened => self.proved(&message),
            Some(message) => self.opened(&message),
        }
    }

    fn peer_key(&self) -> Option<PublicKey> {
        self.transcript.own.as_ref().map(|_| PublicKey(self.transcript.guest_key))
    }
}

impl Accepting {
    fn opened(&mut self, message: &[u8]) -> ProofStep {
        if message.starts_with(FRAME_MAGIC) {
            let theirs = u32_at(message, wire::frame::HEAD_BYTES);
            let refusal = wire::Refusal::Version { ours: VERSION, theirs };
            let reply = wire::message::Reply::Refused(refusal);
            let send = wire::frame::to_bytes(&wire::frame::Frame { id: 0, body: &reply });
            let end = Some(Err(Unproved::Version { ours: VERSION, theirs }));
            return ProofStep { send, end };
        }
        if is_tls(message) {
            return not_encrypted();
        }
        if !message.starts_with(MAGIC) {
            return ProofStep::end(Err(Unproved::NotOurs));
        }
        let (theirs, door) = (u32_at(message, 4), u32_at(message, 8));
        if theirs != VERSION {
            let end = Some(Err(Unproved::Version { ours: VERSION, theirs }));
            return ProofStep { send: opening(OTHER_VERSION, &[0; 32]), end };
        }
        if door != self.transcript.door as u32 {
            let send = opening(OTHER_DOOR, &[0; 32]);
            return ProofStep { send, end: Some(Err(Unproved::Service)) };
        }
        self.is_opened = true;
        self.transcript.guest = nonce_of(message);
        ProofStep::send(opening(GOOD, &self.transcript.host))
    }

    fn proved(&mut self, message: &[u8]) -> ProofStep {
        self.transcript.guest_key = key_of(message);
        let fault = self.transcript.fault(ProofSide::Connecting, message);
        let verdict = match fault {
            None => GOOD,
            Some(Unproved::Key) => WRONG_KEY,
            Some(_) => WRONG_SECRET,
        };
        let mut send = verdict.to_le_bytes().to_vec();
        self.transcript.host_key = self.transcript.shown();
        match fault {
            None => send.extend(self.transcript.proof(ProofSide::Accepting)),
            Some(_) => send.extend([0; PROOF_BYTES]),
        }
        ProofStep { send, end: Some(fault.map_or(Ok(()), Err)) }
    }
}

/// Whether bytes begin as those of TLS do: a greeting, or an alert.
fn is_tls(begun: &[u8]) -> bool {
    matches!(begun, [21 | 22] | [21 | 22, 3, ..])
}

/// Tells a process that uses TLS, in an alert of TLS (protocol version), that we do not.
fn not_encrypted() -> ProofStep {
    let send = vec![21, 3, 3, 0, 2, 2, 70];
    ProofStep { send, end: Some(Err(Unproved::Encrypted)) }
}

/// Whether bytes may be the beginning of an opening, or of a frame of an older release.
fn is_ours(begun: &[u8]) -> bool {
    let n = begun.len().min(4);
    begun[..n] == MAGIC[..n] || begun[..n] == FRAME_MAGIC[..n]
}

#[cfg(test)]
mod tests;
