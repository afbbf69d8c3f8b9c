//! Saves that trainers have begun and not ended.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use base::EvenIfPoisoned;
use train::folder::{About, StagePart};

use crate::error::Result;

/// This server's parts of saves, by the path of their stages.
#[derive(Debug, Default)]
pub(super) struct Saves(Mutex<BTreeMap<PathBuf, Arc<StagePart>>>);

impl Saves {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Arc<StagePart>>> {
        self.0.lock().even_if_poisoned()
    }

    /// The part of a save.
    pub(super) fn part(&self, stage: &Path) -> Result<Arc<StagePart>> {
        let mut parts = self.lock();
        if let Some(part) = parts.get(stage) {
            return Ok(part.clone());
        }
        // The trainer of an earlier save into this folder is gone.
        parts.retain(|other, _| other.parent() != stage.parent());
        let part = Arc::new(StagePart::begin(stage)?);
        parts.insert(stage.to_path_buf(), part.clone());
        Ok(part)
    }

    /// The save was committed; what is on a disk of its own is committed here.
    pub(super) fn commit(&self, stage: &Path, about: About) -> Result<()> {
        let part = self.lock().remove(stage);
        match part {
            Some(part) => Ok(part.commit(about)?),
            // Written by a process before this one, or committed with another table.
            None if StagePart::is_begun(stage) => Ok(StagePart::begin(stage)?.commit(about)?),
            None => Ok(()),
        }
    }

    /// The save was given up.
    pub(super) fn give_up(&self, stage: &Path) {
        if let Some(part) = self.lock().remove(stage) {
            part.give_up();
        }
    }
}
