//! How a server comes by what others held: all of it when it starts, or, while it stands by, most of it before they have
//! ended.
//!
//! A server that stands by has a folder of its own, aside. It fills its tables with what others have kept so far, and
//! writes that as a base; then it does the same with what changes, cut after cut. None of these files is a cut of the job,
//! and nobody looks into the folder. When it is this server's turn, it takes the last changes, moves the files to its
//! place, and writes a cut that follows them. A process that dies before that has left nothing that counts.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use net::lines::Line;
use protocol::server::CutRecord;

use super::cuts::{CutStore, warn};
use super::resume::{OwnRows, Resuming};
use super::snapshot::{Folder, Owner, ServerRead, Source, finished_files};
use crate::bad_snapshot::{BadSnapshot, SnapshotResult};

/// How often a server that stands by begins anew, because what it has taken is not on the way to what there is: where
/// all rows change all the time, it never is.
const ANEW_MAX: usize = 4;

/// The state that a waiting server has taken over.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// The parts that were read, by server.
    read: Vec<ServerRead>,
    /// The cut that the tables are at.
    cut: Option<u64>,
    /// The files in the folder at the last look.
    files: Vec<String>,
    n_anew: usize,
}

impl Taken {
    fn n_bytes(&self) -> u64 {
        self.read.iter().map(ServerRead::n_bytes).sum()
    }
}

impl CutStore {
    fn owner(&self) -> Owner {
        self.folder().owner().clone()
    }

    /// Whether others write beside this server's folder.
    fn is_beside(&self, others: &Path) -> bool {
        let own = self.folder().path().parent().map(Path::canonicalize);
        own.is_some_and(|own| own.ok() == others.canonicalize().ok())
    }

    /// Drops the part that was taken: the tables are filled from the beginning.
    fn begin_anew(&self, taken: &mut Taken) -> SnapshotResult<()> {
        (taken.read, taken.cut) = (Vec::new(), None);
        (0..self.held.tables.len()).for_each(|at| self.held.table(at).begin_load());
        self.folder().clear()
    }

    /// Takes over what others have kept, or what changed since the last call; false if there is nothing new, or it cannot
    /// be read now: they write there and remove files meanwhile. An error is that of this server's own disk.
    pub(super) fn catch_up(self: &Arc<Self>, others: &Path) -> SnapshotResult<bool> {
        let mut taken = std::mem::take(&mut self.progress().taken);
        let caught_up = self.catch_up_from(&mut taken, others);
        self.progress().taken = taken;
        caught_up
    }

    fn catch_up_from(self: &Arc<Self>, taken: &mut Taken, others: &Path) -> SnapshotResult<bool> {
        let files = finished_files(others).unwrap_or_default();
        if files == taken.files {
            return Ok(false);
        }
        taken.files = files;
        let owner = self.owner();
        let Ok(Some(source)) = Source::find(others, &owner, self.is_beside(others)) else {
            taken.files.clear();
            return Ok(false);
        };
        let is_anew = !source.follows(&taken.read);
        if is_anew && taken.n_anew >= ANEW_MAX || !is_anew && taken.cut == Some(source.cut) {
            return Ok(false);
        }
        if is_anew {
            taken.n_anew += 1;
            self.begin_anew(taken)?;
        }
        let own = OwnRows { owner: &owner, layout: &self.layout };
        let resuming = Resuming { held: &self.held, own, source: &source, folder: others };
        if resuming.take(&mut taken.read).is_err() {
            taken.files.clear();
            self.begin_anew(taken)?;
            return Ok(false);
        }
        taken.cut = Some(source.cut);
        // Of no term: it is not a cut of the job.
        let record = CutRecord { cut: source.cut, ..CutRecord::default() };
        self.mark(record.cut);
        self.write_record(&record)?;
        tracing::debug!(target: "paddlewheel::recovery", cut = source.cut, is_anew, "taken over");
        Ok(true)
    }

    /// It is this server's turn: its cuts are in this folder from now on, and it continues from those of others.
    pub(super) fn begin(self: &Arc<Self>, folder: &Path, others: &Path) -> SnapshotResult<()> {
        let own = Folder::open(folder, self.owner(), &self.layout, &mut |text| {
            warn(&self.log, text);
        })?;
        let aside = std::mem::replace(&mut *self.folder(), own);
        self.resume(others, Some(&aside))?;
        if let Err(error) = remove(aside.path()) {
            warn(&self.log, format!("what it wrote while it stood by stays: {error}"));
        }
        Ok(())
    }

    /// Continues from other snapshots, unless this server has done so already. Its files that were written aside begin
    /// its own snapshots, if they fit.
    pub(super) fn resume(
        self: &Arc<Self>,
        others: &Path,
        aside: Option<&Folder>,
    ) -> SnapshotResult<()> {
        let (owner, is_same) = (self.owner(), self.is_beside(others));
        let own_term = self.folder().own_term();
        if own_term.is_some() && !is_same {
            return Ok(());
        }
        let source = Source::find(others, &owner, is_same)?;
        let mut source = match (source, own_term) {
            (None, Some(_)) => return Ok(()),
            (Some(source), Some(own)) if own > source.term => return Ok(()),
            (Some(source), _) => source,
            (None, None) => {
                let detail = "there are none of this model".to_string();
                let (folder, n_servers) = (others.to_path_buf(), owner.n_servers as usize);
                return Err(BadSnapshot::Incomplete { folder, n_servers, detail });
            }
        };
        self.folder().clear()?;
        let mut taken = std::mem::take(&mut self.progress().taken);
        let own = OwnRows { owner: &owner, layout: &self.layout };
        let record = loop {
            let resuming = Resuming { held: &self.held, own, source: &source, folder: others };
            let gone_on = self.go_on(&resuming, &mut taken, aside);
            match gone_on.and_then(|n_before| Ok((n_before, resuming.record(&taken.read)?))) {
                Ok((n_before, record)) => {
                    (self.log)(&resumed_line(&resuming, n_before, taken.n_bytes()));
                    break record;
                }
                // Every server of this job finds the same damage, and takes the same cut instead.
                Err(error @ BadSnapshot::Damaged { .. }) => {
                    let Some(before) = source.before() else { return Err(error) };
                    warn(&self.log, format!("{error}; the cut before is taken"));
                    source = before;
                    self.begin_anew(&mut taken)?;
                }
                Err(error) => return Err(error),
            }
        };
        self.mark(record.cut);
        self.write_record(&record)?;
        self.folder().begin_term(record.term, record.cut)?;
        self.progress().holds = Some(record.cut);
        Ok(())
    }

    /// Brings the tables to the cut; the answer is how many bytes had been read before.
    fn go_on(
        &self,
        resuming: &Resuming<'_>,
        taken: &mut Taken,
        aside: Option<&Folder>,
    ) -> SnapshotResult<u64> {
        let n_before = taken.n_bytes();
        if let Some(aside) = aside.filter(|_| resuming.source.follows(&taken.read)) {
            match resuming.take(&mut taken.read) {
                Ok(()) => {
                    self.folder().adopt(aside)?;
                    return Ok(n_before);
                }
                // Another way to the same cut may be whole.
                Err(error) => warn(&self.log, format!("{error}; everything is read again")),
            }
        }
        if aside.is_some() {
            self.begin_anew(taken)?;
        }
        resuming.take(&mut taken.read)?;
        Ok(0)
    }
}

/// What a server tells when it has gone on.
fn resumed_line(resuming: &Resuming<'_>, n_before: u64, n_bytes: u64) -> Line {
    let (cut, others) = (resuming.source.cut, resuming.folder.display());
    let mut line = format!("continues from cut {cut} in {others}");
    if n_before > 0 {
        line += &format!(", of which {n_before} bytes were read before");
        line += &format!(" and {} now", n_bytes.saturating_sub(n_before));
    }
    if !resuming.keeps_trainers() {
        line += "; there are other trainers now, they begin their scripts anew";
    }
    Line::info("server", line)
}

/// Removes what a server has written aside, if it has.
pub(super) fn remove(aside: &Path) -> SnapshotResult<()> {
    match fs::remove_dir_all(aside) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(BadSnapshot::writing(aside, error))
        }
        _ => Ok(()),
    }
}
