//! Which key has which rank, in a job without a secret: the first one that came.

use std::collections::BTreeMap;

use wire::{ConnId, Millis, Refusal};

use super::Server;
use crate::{KnownKeys, ShownKey};

/// The keys that the processes of a job have shown.
#[derive(Debug, Default)]
pub(super) struct TrainerKeys {
    /// None: keys are not asked for.
    known: Option<KnownKeys>,
    shown: BTreeMap<ConnId, ShownKey>,
    has_new: bool,
}

impl TrainerKeys {
    pub(super) fn closed(&mut self, conn: ConnId) {
        self.shown.remove(&conn);
    }

    /// Where the process of a connection is, if it has shown a key.
    pub(super) fn address_of(&self, conn: ConnId) -> String {
        let shown = self.shown.get(&conn);
        shown.map_or(String::new(), |shown| format!(" of {}", shown.from))
    }

    /// Why a peer cannot have a rank: another key has it.
    pub(super) fn refusal(
        &self,
        conn: ConnId,
        trainer: u32,
        n_trainers: u32,
        now: Millis,
    ) -> Option<Refusal> {
        let known = self.known.as_ref()?;
        let Some(shown) = self.shown.get(&conn) else { return Some(Refusal::Secret) };
        if trainer >= n_trainers {
            return Some(Refusal::TrainerOutOfRange { trainer, n_trainers });
        }
        let rival = known.rival(trainer, shown.key)?;
        let since_ms = now.since(rival.since);
        Some(Refusal::OtherKey { trainer, from: rival.shown.from.clone(), since_ms })
    }

    /// A trainer was let in: its key has the rank.
    pub(super) fn let_in(&mut self, conn: ConnId, trainer: u32, now: Millis) {
        let Some(known) = &mut self.known else { return };
        if let Some(shown) = self.shown.get(&conn) {
            self.has_new |= known.keep(trainer, shown, now);
        }
    }
}

impl Server {
    /// From now on trainers are known by their keys; these are known already.
    pub fn ask_for_keys(&mut self, known: KnownKeys) {
        self.peers.keys.known = Some(known);
    }

    /// A peer has proved to have a key.
    pub fn show_key(&mut self, conn: ConnId, shown: ShownKey) {
        self.peers.keys.shown.insert(conn, shown);
    }

    /// The keys of all trainers, if there is a new one among them.
    pub fn take_new_keys(&mut self) -> Option<KnownKeys> {
        let keys = &mut self.peers.keys;
        if std::mem::take(&mut keys.has_new) { keys.known.clone() } else { None }
    }

    /// Whether a peer was let in as a trainer.
    pub fn is_let_in(&self, conn: ConnId) -> bool {
        self.term.members.who(conn).is_some()
    }
}
