//! Which key has which rank, in a job without a secret: the first one that came.

use std::collections::BTreeMap;

use super::Server;
use crate::access::keyed::{KnownKeys, ShownKey};
use crate::ids::{ConnId, Millis};
use crate::refusal::Refusal;

/// What the processes of a job have shown.
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
}

impl Server {
    /// From now on trainers are known by their keys; these are known already.
    pub fn ask_for_keys(&mut self, known: KnownKeys) {
        self.keys.known = Some(known);
    }

    /// A peer has proved to have a key.
    pub fn show_key(&mut self, conn: ConnId, shown: ShownKey) {
        self.keys.shown.insert(conn, shown);
    }

    /// The keys of all trainers, if there is a new one among them.
    pub fn take_new_keys(&mut self) -> Option<KnownKeys> {
        match std::mem::take(&mut self.keys.has_new) {
            true => self.keys.known.clone(),
            false => None,
        }
    }

    /// Whether a peer was let in as a trainer.
    pub fn is_let_in(&self, conn: ConnId) -> bool {
        self.members.who(conn).is_some()
    }

    /// Where the process of a connection is, if it has shown a key.
    pub(super) fn address_of(&self, conn: ConnId) -> String {
        let shown = self.keys.shown.get(&conn);
        shown.map_or(String::new(), |shown| format!(" of {}", shown.from))
    }

    /// Why a peer cannot have a rank: another key has it.
    pub(super) fn other_key(&self, conn: ConnId, trainer: u32) -> Option<Refusal> {
        let (known, n_trainers) = (self.keys.known.as_ref()?, self.config.n_trainers);
        let Some(shown) = self.keys.shown.get(&conn) else { return Some(Refusal::Secret) };
        if trainer >= n_trainers {
            return Some(Refusal::TrainerOutOfRange { trainer, n_trainers });
        }
        let rival = known.rival(trainer, shown.key)?;
        let (from, since_ms) = (rival.shown.from.clone(), self.now.since(rival.since));
        Some(Refusal::OtherKey { trainer, from, since_ms })
    }

    /// A trainer was let in: its key has the rank.
    pub(super) fn keep_key(&mut self, conn: ConnId, trainer: u32, now: Millis) {
        let Some(known) = &mut self.keys.known else { return };
        if let Some(shown) = self.keys.shown.get(&conn) {
            self.keys.has_new |= known.keep(trainer, shown, now);
        }
    }
}
