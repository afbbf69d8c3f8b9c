//! A trainer's description of itself in its greeting to servers.

use std::collections::BTreeMap;

use program::Distributed;
use program::distributed::{PlacedKind, Placement};
use wire::message::VarInfo;

/// The checkpoint that a process of a job begins from. All must begin from the same: the processes compare it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobStart {
    /// Its number; none if no whole one exists.
    pub serial: Option<u64>,
    /// The machine and the folder that it was looked for in.
    pub place: String,
}

impl JobStart {
    /// The form that others receive.
    pub fn told(&self) -> VarInfo {
        VarInfo::start(self.serial, &self.place)
    }
}

/// The variables that a trainer names, by server and number.
pub(super) fn held(job: &Distributed) -> Vec<Vec<VarInfo>> {
    let of = |(names, endpoint): (&Vec<String>, &String)| {
        let placed = job.on(endpoint).filter(|placed| placed.kind != PlacedKind::Optimizer);
        let params: BTreeMap<&str, &Placement> =
            placed.map(|placed| (placed.piece.name.as_str(), placed)).collect();
        let held = |name: &String| match params.get(name.as_str()) {
            Some(placed) => VarInfo::param(name, &placed.dims()),
            None => VarInfo::other(name),
        };
        names.iter().map(held).collect()
    };
    job.vars.iter().zip(&job.endpoints).map(of).collect()
}
