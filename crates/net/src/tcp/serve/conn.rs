//! One connection of a server: what was read of a request, what is left to write of answers, and
//! its deadlines.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use base::EvenIfPoisoned;
use protocol::ShownKey;
use wire::budget::Account;
use wire::message::Reply;
use wire::{ConnId, Millis, SharedMemory};

use super::input::FrameInput;
use super::output::Output;
use super::poller::Poller;
use super::{FRAME_TIMEOUT_MS, HELLO_TIMEOUT_MS, SHORT_BYTES_MAX, WRITE_TIMEOUT_MS};
use crate::tcp::Stream;
use crate::tcp::entrance::{PROOF_TIME, ProofEnd, Proving};

/// Stands for a moment that does not come.
const NEVER: u64 = u64::MAX;

#[derive(Debug)]
pub(super) struct Conn {
    pub(super) id: ConnId,
    pub(super) stream: Stream,
    /// The set of the worker that serves it.
    pub(super) poller: Arc<Poller>,
    /// The rest of the proof that the peer belongs to the job: nothing else is read before.
    proof: Mutex<Option<Proving>>,
    is_proved: AtomicBool,
    /// The key that the peer has, if keys are shown.
    shown: OnceLock<ShownKey>,
    /// Whether it does not count as a stranger any more.
    is_let_in: AtomicBool,
    /// When its proof is looked at.
    pub(super) turn: Millis,
    /// Whether it had to wait for that.
    pub(super) is_slowed: bool,
    /// Only its worker reads.
    input: Mutex<FrameInput>,
    output: Mutex<Output>,
    /// Until when the peer must have ended what it began to say.
    speaks_by: AtomicU64,
    /// The deadline until which the peer must have read a part of its answers.
    takes_by: AtomicU64,
    /// Whether acknowledgements wait for an answer to go with.
    waits_to_ack: AtomicBool,
    /// Whether the peer has said anything that could be read.
    pub(super) has_spoken: AtomicBool,
    /// Whether it is over, even if more input has come.
    is_cut: AtomicBool,
}

/// The periodic needs of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// To be cut: the peer was silent.
    CutSilent,
    /// To be cut: a frame did not end in time.
    CutUnfinished,
    /// To be cut: the peer takes no answers.
    CutDeaf,
    /// Acknowledgements that waited long enough.
    Acks,
}

/// A process that has connected.
#[derive(Debug)]
pub(super) struct Visitor {
    pub(super) id: ConnId,
    pub(super) stream: Stream,
    /// The proof that it must bring.
    pub(super) proof: Proving,
    /// When that is looked at.
    pub(super) turn: Millis,
}

impl Conn {
    pub(super) fn new(
        visitor: Visitor,
        poller: Arc<Poller>,
        memory: SharedMemory,
        now: Millis,
    ) -> Self {
        let Visitor { id, stream, proof, turn } = visitor;
        let output = Output::new(memory, stream.is_local());
        Self {
            id,
            stream,
            poller,
            proof: Mutex::new(Some(proof)),
            is_proved: AtomicBool::new(false),
            shown: OnceLock::new(),
            is_let_in: AtomicBool::new(false),
            turn,
            is_slowed: turn > now,
            input: Mutex::default(),
            output: Mutex::new(output),
            speaks_by: AtomicU64::new(turn.0 + PROOF_TIME.as_millis() as u64),
            takes_by: AtomicU64::new(NEVER),
            waits_to_ack: AtomicBool::new(false),
            has_spoken: AtomicBool::new(false),
            is_cut: AtomicBool::new(false),
        }
    }

    /// Whether the peer has proved that it belongs to the job.
    pub(super) fn is_proved(&self) -> bool {
        self.is_proved.load(Ordering::Relaxed)
    }

    /// The key that the peer has proved to have, if keys are shown.
    pub(super) fn shown(&self) -> Option<ShownKey> {
        self.shown.get().cloned()
    }

    /// Whether it does not count as a stranger any more.
    pub(super) fn is_let_in(&self) -> bool {
        self.is_let_in.load(Ordering::Relaxed)
    }

    pub(super) fn set_let_in(&self) {
        self.is_let_in.store(true, Ordering::Relaxed);
    }

    /// Goes on with the proof of the peer; from its end on, the time for the greeting runs.
    pub(super) fn prove(&self, now: Millis) -> io::Result<ProofEnd> {
        let mut proof = self.proof.lock().even_if_poisoned();
        let Some(proving) = &mut *proof else { return Ok(Some(Ok(()))) };
        let end = proving.advance(&self.stream)?;
        if end == Some(Ok(())) {
            if let Some(shown) = proving.shown(&self.stream) {
                let _ = self.shown.set(shown);
            }
            *proof = None;
            self.speaks_by.store(now.0 + HELLO_TIMEOUT_MS, Ordering::Relaxed);
            self.is_proved.store(true, Ordering::Relaxed);
        }
        Ok(end)
    }

    /// From now on, what waits here counts.
    pub(super) fn count_in(&self, account: &Account) {
        self.input().held = account.nothing();
        self.output().held = account.nothing();
    }

    /// The input so far.
    pub(super) fn input(&self) -> MutexGuard<'_, FrameInput> {
        self.input.lock().even_if_poisoned()
    }

    pub(super) fn output(&self) -> MutexGuard<'_, Output> {
        self.output.lock().even_if_poisoned()
    }

    /// A worker has read what there was: sets the time for what is missing.
    pub(super) fn heard(&self, is_begun: bool, now: Millis) {
        if !self.has_spoken.load(Ordering::Relaxed) {
            return; // The time for the greeting runs.
        }
        let by = self.speaks_by.load(Ordering::Relaxed);
        match (is_begun, by) {
            (true, NEVER) => self.speaks_by.store(now.0 + FRAME_TIMEOUT_MS, Ordering::Relaxed),
            (false, by) if by != NEVER => self.speaks_by.store(NEVER, Ordering::Relaxed),
            _ => {}
        }
    }

    /// A frame has ended: the next one has its own time.
    pub(super) fn heard_frame(&self) {
        if self.speaks_by.load(Ordering::Relaxed) != NEVER {
            self.speaks_by.store(NEVER, Ordering::Relaxed);
        }
        if !self.has_spoken.load(Ordering::Relaxed) {
            self.has_spoken.store(true, Ordering::Relaxed);
        }
    }

    /// Does something with the answers, and notes how they stand; whether the peer takes them.
    fn with_output(
        &self,
        now: Millis,
        act: impl FnOnce(&mut Output, &mut &Stream) -> io::Result<()>,
    ) -> bool {
        let mut output = self.output();
        let was_stalled = output.is_stalled() || self.stream.is_pending();
        let done = act(&mut output, &mut &self.stream).and_then(|()| self.stream.push());
        if done.is_err() {
            // The reading worker will notice and close the connection.
            self.stream.shut_down();
            return true;
        }
        self.waits_to_ack.store(output.is_ack_due(), Ordering::Relaxed);
        match (was_stalled, output.is_stalled() || self.stream.is_pending()) {
            (false, false) => {}
            (true, false) => {
                output.count();
                self.takes_by.store(NEVER, Ordering::Relaxed);
                self.poller.set_writes(&self.stream, self.token(), false);
            }
            (was, true) => {
                if !was {
                    self.takes_by.store(now.0 + WRITE_TIMEOUT_MS, Ordering::Relaxed);
                    self.poller.set_writes(&self.stream, self.token(), true);
                }
                if !output.count() {
                    self.stream.shut_down();
                    return false;
                }
            }
        }
        true
    }

    /// Answers the peer whose request a worker handles; false if it takes no answers.
    pub(super) fn answer(&self, now: Millis, id: u64, reply: Reply) -> bool {
        self.with_output(now, |output, stream| match reply {
            Reply::Ack(_) => {
                if output.acknowledge(id) {
                    output.flush_acks(stream)
                } else {
                    Ok(())
                }
            }
            reply => output.answer(stream, id, reply),
        })
    }

    /// Answers a request on behalf of another worker. The connection's own worker writes long answers.
    pub(super) fn tell(&self, now: Millis, id: u64, reply: Reply) -> bool {
        self.with_output(now, |output, stream| {
            if output.n_sent(&reply) <= SHORT_BYTES_MAX {
                return output.answer(stream, id, reply);
            }
            output.queue(id, reply);
            Ok(())
        })
    }

    /// The peer takes more.
    pub(super) fn flush(&self, now: Millis) {
        self.with_output(now, |output, stream| output.flush(stream));
        if self.takes_by.load(Ordering::Relaxed) != NEVER {
            self.takes_by.store(now.0 + WRITE_TIMEOUT_MS, Ordering::Relaxed);
        }
    }

    /// Acknowledges what was served; unless answers are to come, with which it goes, if it may wait.
    pub(super) fn flush_acks(&self, now: Millis, may_wait: bool) {
        self.with_output(now, |output, stream| {
            if may_wait && output.owes() { Ok(()) } else { output.flush_acks(stream) }
        });
    }

    /// Begins to be served.
    pub(super) fn open(&self) -> io::Result<()> {
        self.poller.add(&self.stream, self.token())
    }

    /// Has its worker end it without reading the rest of its input: a peer that writes gets an error at once, not after a long
    /// time of trying.
    pub(super) fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
        self.stream.shut_down();
    }

    pub(super) fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::Relaxed)
    }

    /// Ends.
    pub(super) fn close(&self) {
        self.stream.shut_down();
        self.poller.remove(&self.stream);
    }

    pub(super) fn token(&self) -> super::poller::Token {
        super::FIRST_CONN + self.id.0
    }

    /// Its needs now that time has passed.
    pub(super) fn need(&self, now: Millis) -> Option<Need> {
        if now.0 >= self.speaks_by.load(Ordering::Relaxed) {
            return Some(if self.has_spoken.load(Ordering::Relaxed) {
                Need::CutUnfinished
            } else {
                Need::CutSilent
            });
        }
        if now.0 >= self.takes_by.load(Ordering::Relaxed) {
            return Some(Need::CutDeaf);
        }
        self.waits_to_ack.load(Ordering::Relaxed).then_some(Need::Acks)
    }
}
