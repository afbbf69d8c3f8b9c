//! Which connections wait before their proofs are checked, and which peers are known by their keys.

use std::sync::{Arc, Mutex};

use base::EvenIfPoisoned;
use protocol::server::Store;
use wire::Millis;

use super::Driver;
use super::conn::Conn;
use crate::access::guesses::Guesses;
use crate::access::proof::Unproved;
use crate::lines;
use crate::tcp::Stream;

/// Addresses that guess, and their connections that wait for their turn.
#[derive(Debug, Default)]
pub(super) struct Turns {
    guesses: Mutex<Guesses>,
    held: Mutex<Vec<Arc<Conn>>>,
}

impl<S: Store + 'static> Driver<S> {
    /// When the proof of a new connection is checked; None if too many wait already, or if it comes from too far away.
    pub(super) fn turn_of(&self, stream: &Stream) -> Option<Millis> {
        let now = self.clock.now();
        if stream.is_too_far(&self.listener.access) {
            self.complain(&lines::too_far(&stream.peer()).text);
            return None;
        }
        let Some(from) = stream.peer_address() else { return Some(now) };
        self.turns.guesses.lock().even_if_poisoned().turn(from, now)
    }

    /// Begins to serve a connection when its turn has come; whether that is possible.
    pub(super) fn open(&self, conn: &Arc<Conn>) -> bool {
        if conn.turn > self.clock.now() {
            self.turns.held.lock().even_if_poisoned().push(conn.clone());
            true
        } else {
            conn.open().is_ok()
        }
    }

    /// Continues with connections whose turn has come.
    pub(super) fn open_held(&self) {
        let now = self.clock.now();
        let due: Vec<Arc<Conn>> = {
            let mut held = self.turns.held.lock().even_if_poisoned();
            held.extract_if(.., |conn| conn.turn <= now).collect()
        };
        for conn in due.iter().filter(|due| self.conn(due.id).is_some()) {
            if conn.open().is_err() {
                self.drop_conn(conn);
            }
        }
    }

    /// Whether a connection came before its address was known to guess: it comes again, and has its turn.
    pub(super) fn has_lost_its_turn(&self, conn: &Conn) -> bool {
        let from = conn.stream.peer_address().filter(|_| !conn.is_slowed);
        from.is_some_and(|from| self.turns.guesses.lock().even_if_poisoned().is_slowed(from))
    }

    /// A proof has ended.
    pub(super) fn note_proof(&self, conn: &Conn, end: Result<(), Unproved>) {
        let Some(from) = conn.stream.peer_address() else { return };
        let mut guesses = self.turns.guesses.lock().even_if_poisoned();
        match end {
            Ok(()) => guesses.right(from),
            Err(Unproved::Secret) => {
                if guesses.wrong(from, self.clock.now()) {
                    drop(guesses);
                    self.complain(&lines::guesses(&conn.stream.peer()).text);
                }
            }
            Err(_) => {}
        }
    }

    /// Records that a peer has proved that it belongs to the job. Without a secret, a key alone is not enough: the peer counts as
    /// a stranger until it is let in as a trainer.
    pub(super) fn let_in(&self, conn: &Conn) {
        conn.count_in(&self.budget.account());
        match conn.shown() {
            Some(shown) => self.server().show_key(conn.id, shown),
            None => self.not_a_stranger(conn),
        }
    }

    /// A peer has greeted; whether it is a trainer now. New keys are kept.
    pub(super) fn has_greeted(&self, conn: &Conn) {
        let Some(keys) = &self.listener.access.keys else { return };
        if conn.is_let_in() {
            return;
        }
        let (is_let_in, known) = {
            let mut server = self.server();
            (server.is_let_in(conn.id), server.take_new_keys())
        };
        if is_let_in {
            self.not_a_stranger(conn);
        }
        if let Some(known) = known {
            keys.ring().keep_others(keys.name(), &known);
        }
    }

    fn not_a_stranger(&self, conn: &Conn) {
        conn.set_let_in();
        self.unproved.lock().even_if_poisoned().remove(&conn.id);
    }
}
