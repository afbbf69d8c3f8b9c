//! The state of a server in a term: opening the next one replaces all of it.

use std::collections::{BTreeMap, VecDeque};

use wire::{ConnId, TrainerId, VarId};

use super::ServerConfig;
use super::all_gather::AllGathers;
use super::all_to_all::AllToAllState;
use super::barrier::UnitsRunning;
use super::cut::CutsInTerm;
use super::cut_schedule::Schedule;
use super::members::Members;
use super::pull::News;
use super::question::Waiting;
use super::round::Rounds;
use super::staleness::Staleness;
use super::turn::HeldMessage;
use crate::chunks::Chunks;

/// The state of a term. A server that does not recover has one for its life.
pub(super) struct InTerm {
    pub(super) members: Members,
    pub(super) rounds: Rounds,
    pub(super) all_gathers: AllGathers,
    pub(super) all_to_all: AllToAllState,
    pub(super) staleness: Staleness,
    /// Questions that wait for a round, by connection and number.
    pub(super) waiting: BTreeMap<(ConnId, u64), Waiting>,
    /// Trainers with a message in service, and the messages that came from them meanwhile.
    pub(super) busy: BTreeMap<TrainerId, VecDeque<HeldMessage>>,
    /// By trainer, and by what was asked for.
    pub(super) news: BTreeMap<TrainerId, BTreeMap<Vec<VarId>, News>>,
    pub(super) units: Option<UnitsRunning>,
    pub(super) cuts: CutsInTerm,
    pub(super) schedule: Schedule,
    /// The contributions of trainers to the base.
    pub(super) states: BTreeMap<TrainerId, Chunks>,
    /// The contributions of trainers to journals up to the base, while they are being sent back.
    pub(super) journals: BTreeMap<TrainerId, Chunks>,
}

impl InTerm {
    /// A term in which nothing has happened.
    pub(super) fn new(config: &ServerConfig) -> Self {
        let n = config.n_trainers;
        Self {
            members: Members::new(n, config.recovers),
            rounds: Rounds::new(n, config.apply.ahead()),
            all_gathers: AllGathers::default(),
            all_to_all: AllToAllState::new(n),
            staleness: Staleness::default(),
            waiting: BTreeMap::new(),
            busy: BTreeMap::new(),
            news: BTreeMap::new(),
            units: None,
            cuts: CutsInTerm::default(),
            schedule: Schedule::default(),
            states: BTreeMap::new(),
            journals: BTreeMap::new(),
        }
    }

    /// Others wait for this trainer from now on.
    pub(super) fn expect(&mut self, trainer: TrainerId) {
        self.rounds.expect(trainer);
        self.all_gathers.expect(trainer);
    }

    /// No request waits for this trainer any more.
    pub(super) fn excuse(&mut self, trainer: TrainerId) {
        self.rounds.excuse(trainer);
        self.all_gathers.excuse(trainer);
    }
}
