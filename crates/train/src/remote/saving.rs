//! Tables that servers write to their own disks: all servers replace what they saved before, or none.

use std::path::Path;

use program::distributed::ServerId;
use ps::message::{Phase, Reply, Save};

use super::{Cluster, unexpected};
use crate::error::Result;

/// A part of a table that a server saves. It is asked for by its name, which need not be one that
/// steps speak of.
#[derive(Clone, Debug)]
pub(crate) struct SavedPart {
    pub(crate) server: ServerId,
    pub(crate) table: String,
}

/// Parts of tables that are written and not in their places yet.
pub(crate) struct Saving<'a> {
    cluster: &'a Cluster,
    parts: Vec<SavedPart>,
    dir: String,
}

impl<'a> Saving<'a> {
    /// Has all parts written beside those of an earlier save.
    pub(crate) fn begin(cluster: &'a Cluster, parts: Vec<SavedPart>, dir: &Path) -> Result<Self> {
        let saving = Self { cluster, parts, dir: dir.to_string_lossy().into_owned() };
        if let Err(error) = saving.all(Phase::Write) {
            saving.give_up();
            return Err(error);
        }
        Ok(saving)
    }

    /// Puts all parts in their places, and removes what an earlier save left.
    pub(crate) fn finish(self) -> Result<()> {
        self.all(Phase::Place)?;
        self.all(Phase::Tidy)
    }

    /// What was saved before stays.
    pub(crate) fn give_up(self) {
        for part in &self.parts {
            // The error that matters is the first one.
            let _ = self.one(part, Phase::GiveUp);
        }
    }

    fn all(&self, phase: Phase) -> Result<()> {
        self.parts.iter().try_for_each(|part| self.one(part, phase))
    }

    fn one(&self, part: &SavedPart, phase: Phase) -> Result<()> {
        let client = self.cluster.client(part.server)?;
        let ticket =
            client.ask(Save { table: part.table.clone(), dir: self.dir.clone(), phase })?;
        match client.wait(ticket, "a saved table")? {
            Reply::Done(_) => Ok(()),
            other => Err(unexpected(&client, &other)),
        }
    }
}
