//! The cuts of a server: marked in a moment, written while others go on, loaded when a job goes back.

use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use base::EvenIfPoisoned;
use metrics::{Obstacle, Phase};
use net::lines::Line;
use protocol::server::{CutRecord, OnDisk, WrittenCut};
use protocol::{Chunks, Severity};
use tensor::Value;
use train::remote::Log;

use super::copies::Copies;
use super::locks::{CutGuard, CutLock, CutRank};
use super::schedule::Schedule;
use super::snapshot::{
    CutId, FileKind, FileReader, FileWriter, Folder, Header, Kind, Known, Layout, Owner,
    read_value, write_value,
};
use super::table::{CutChunk, Extent, Table, TableCut};
use super::taking::Taken;
use crate::bad_snapshot::{BadSnapshot, SnapshotResult};

/// The tables of a server, each behind a lock of its own.
pub(super) type Tables = Arc<Vec<Mutex<Box<dyn Table>>>>;

/// Stands for the variables outside of tables.
const NO_TABLE: usize = u32::MAX as usize;
/// Before a term is tried again that could not be noted on disk.
const AGAIN: Duration = Duration::from_millis(200);
/// The obstacle of a disk that snapshots cannot be written to.
const DISK: &str = "disk";
/// A base is not worth writing anew for fewer bytes of increments.
const INCREMENT_BYTES_MIN: u64 = 16 << 20;

/// Older cuts are not offered: servers of one job are never so far apart.
const LISTED_MAX: usize = 256;
/// Contributions of trainers are in every increment, and a base does not reduce them: a file may have them so often.
const GIVEN_MAX: u64 = 16;
/// A chain of more increments is worth a base, and one more for so many bytes of a base.
const INCREMENTS_MAX: u64 = 64;
const BYTES_AN_INCREMENT: u64 = 4 << 20;

/// The tables of a cut.
#[derive(Clone)]
pub(super) struct CutTables {
    pub(super) tables: Tables,
    pub(super) schedule: Arc<Mutex<Schedule>>,
}

impl CutTables {
    pub(super) fn table(&self, at: usize) -> MutexGuard<'_, Box<dyn Table>> {
        locked(&self.tables[at])
    }

    fn mark(&self, extent: Extent) -> CutContents {
        let values = locked(&self.schedule).mark();
        let tables = (0..self.tables.len()).map(|at| self.table(at).mark(extent)).collect();
        CutContents { values, tables }
    }

    fn end(&self, parts: CutContents, is_durable: bool) {
        for (at, cut) in parts.tables.into_iter().enumerate() {
            let held = self.table(at).end_cut(cut, is_durable);
            // The table is not locked any more.
            drop(held);
        }
    }

    /// Takes the sections of a file; the answer is the state of the protocol in it.
    fn load_file(&self, file: &mut FileReader) -> SnapshotResult<Vec<u8>> {
        let mut state = Vec::new();
        while let Some(section) = file.next_section()? {
            match (section.kind, section.table) {
                (Kind::State, _) => state = file.contents()?,
                (Kind::Journal | Kind::Layout, _) => file.skip()?,
                (Kind::Value, NO_TABLE) => {
                    let (name, value) = read_value(file)?;
                    let is_known = locked(&self.schedule).load(&name, value);
                    if !is_known {
                        return Err(file.damaged("it has a variable that is not here"));
                    }
                }
                (kind, at) if at < self.tables.len() => {
                    self.table(at).load(kind, file)?;
                }
                _ => return Err(file.damaged("it has a table that is not here")),
            }
        }
        Ok(state)
    }

    pub(super) fn n_bytes(&self, extent: Extent) -> u64 {
        (0..self.tables.len()).map(|at| self.table(at).n_cut_bytes(extent)).sum()
    }
}

pub(super) fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().even_if_poisoned()
}

/// Everything at a cut, or what changed.
struct CutContents {
    /// Variables outside of tables.
    values: Vec<(String, Value)>,
    tables: Vec<TableCut>,
}

/// The protocol's part of a cut's file.
#[derive(Clone, Copy)]
struct Protocol<'a> {
    state: &'a Chunks,
    /// The addition to the journal since the cut before; a base has none.
    journal: Option<&'a Chunks>,
}

/// A cut that is marked and will be written.
struct Marked {
    at: CutId,
    /// The cut that it has the changes since.
    after: Option<CutId>,
    kind: FileKind,
    parts: CutContents,
    /// Everything, if it is time for a new base.
    base: Option<CutContents>,
    epoch: u64,
}

/// See the module.
///
/// Locks are taken in the order of [`super::locks::CutRank`].
pub(super) struct CutStore {
    pub(super) held: CutTables,
    pub(super) layout: Layout,
    /// Held while a cut is written or loaded.
    turn: CutLock<()>,
    marked: CutLock<Option<Marked>>,
    folder: CutLock<Folder>,
    progress: CutLock<CutProgress>,
    /// Grows when a cut is loaded: what was being written is not written any more.
    epoch: AtomicU64,
    n_written: AtomicU64,
    /// Bytes that the protocol gave to the last cut.
    n_given: AtomicU64,
    pub(super) log: Log,
}

/// What a store does beside the cut whose turn it is.
#[derive(Debug, Default)]
pub(super) struct CutProgress {
    /// The state taken over from other servers before this one's turn.
    pub(super) taken: Taken,
    /// The cut that the tables are at, as long as nobody has been served.
    pub(super) holds: Option<u64>,
    /// The cut that is being written.
    writing: Option<CutId>,
    /// The thread that writes a base.
    base: Option<JoinHandle<()>>,
    pub(super) copies: Copies,
    /// Why the last cut was not written.
    error: Option<BadSnapshot>,
}

impl CutStore {
    /// Cuts of a store that is as its start left it. From now on what changes is noted.
    pub(super) fn open(
        folder: &Path,
        owner: Owner,
        layout: Layout,
        held: CutTables,
        log: Log,
    ) -> SnapshotResult<Arc<Self>> {
        let folder = Folder::open(folder, owner, &layout, &mut |text| warn(&log, text))?;
        held.tables.iter().for_each(|table| locked(table).track());
        Ok(Arc::new(Self {
            held,
            layout,
            turn: CutLock::new(CutRank::Turn, ()),
            marked: CutLock::new(CutRank::Marked, None),
            folder: CutLock::new(CutRank::Folder, folder),
            progress: CutLock::new(CutRank::Progress, CutProgress::default()),
            epoch: AtomicU64::new(0),
            n_written: AtomicU64::new(0),
            n_given: AtomicU64::new(0),
            log,
        }))
    }

    pub(super) fn folder(&self) -> CutGuard<'_, Folder> {
        self.folder.lock()
    }

    pub(super) fn progress(&self) -> CutGuard<'_, CutProgress> {
        self.progress.lock()
    }

    /// Why the last cut was not written, once.
    pub(super) fn take_error(&self) -> Option<BadSnapshot> {
        self.progress().error.take()
    }

    /// The text of an error. The error itself is kept for the first caller that asks for it.
    fn noted(&self, error: BadSnapshot) -> String {
        let words = error.to_string();
        self.progress().error = Some(error);
        words
    }

    pub(super) fn on_disk(&self) -> OnDisk {
        let (cuts, folder) = (self.listed(), self.folder());
        // If it cannot be read, that is found out when it is loaded.
        let state = cuts.last().and_then(|&cut| folder.state(cut).ok()).unwrap_or_default();
        OnDisk { term: folder.term(), cuts, state }
    }

    /// Cuts that can be brought back, as far as files say what they are.
    pub(super) fn listed(&self) -> Vec<u64> {
        let mut cuts = self.folder().cuts();
        cuts.drain(..cuts.len().saturating_sub(LISTED_MAX));
        cuts
    }

    /// Cuts that were written so far.
    pub(super) fn n_written(&self) -> u64 {
        self.n_written.load(Ordering::SeqCst)
    }

    /// Whether one is marked or being written.
    pub(super) fn is_under_way(&self) -> bool {
        self.marked.lock().is_some() || self.progress().writing.is_some()
    }

    /// Remembers everything as it is now.
    pub(super) fn mark(&self, cut: u64) {
        let mut marked = self.marked.lock();
        if let Some(older) = marked.take() {
            self.give_up(older);
        }
        let (last, weight, has_cuts) = {
            let folder = self.folder();
            (self.progress().writing.or(folder.last()), folder.weight(), folder.has_cuts())
        };
        let (n_changed, n_whole) =
            (self.held.n_bytes(Extent::Changed), self.held.n_bytes(Extent::Whole));
        // If more than half has changed, everything is written.
        let kind = if last.is_none() || n_changed > n_whole / 2 {
            FileKind::Base
        } else {
            FileKind::Increment
        };
        let n_given = GIVEN_MAX * self.n_given.load(Ordering::Relaxed);
        let is_heavy = weight.since + n_changed > weight.base.max(INCREMENT_BYTES_MIN) + n_given;
        let is_long = weight.n_since > INCREMENTS_MAX + weight.base / BYTES_AN_INCREMENT;
        let is_due = is_heavy || is_long;
        let wants_base = kind == FileKind::Increment && is_due && has_cuts && !self.writes_base();
        let base = wants_base.then(|| self.held.mark(Extent::Copy));
        let extent = if kind == FileKind::Base { Extent::Whole } else { Extent::Changed };
        *marked = Some(Marked {
            at: CutId { cut, id: RandomState::new().hash_one(cut) },
            after: last,
            kind,
            parts: self.held.mark(extent),
            base,
            epoch: self.epoch.load(Ordering::SeqCst),
        });
    }

    /// A mark that will not be written.
    fn give_up(&self, marked: Marked) {
        if marked.epoch == self.epoch.load(Ordering::SeqCst) {
            marked.base.into_iter().for_each(|base| self.held.end(base, false));
            self.held.end(marked.parts, false);
        }
    }

    fn writes_base(&self) -> bool {
        self.progress().base.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Writes what was marked; it is durable when this returns.
    pub(super) fn write(self: &Arc<Self>, record: &CutRecord) -> Result<WrittenCut, String> {
        let written = self.write_record(record);
        show_disk(&written);
        written.map_err(|error| self.noted(error))
    }

    pub(super) fn write_record(self: &Arc<Self>, record: &CutRecord) -> SnapshotResult<WrittenCut> {
        let _turn = self.turn.lock();
        let n_given = record.state.n_bytes() + record.journal.n_bytes();
        self.n_given.store(n_given as u64, Ordering::Relaxed);
        let marked = self.marked.lock().take_if(|marked| marked.at.cut == record.cut);
        let mut marked = marked.ok_or(BadSnapshot::None)?;
        self.progress().writing = Some(marked.at);
        let written = self.write_marked(&mut marked, record);
        self.progress().writing = None;
        let (after, n_bytes) = match written {
            Ok(written) => written,
            Err(error) => {
                self.give_up(marked);
                return Err(error);
            }
        };
        let Marked { at, kind, parts, base, epoch, .. } = marked;
        let header = self.header(kind, at, after, record.term);
        self.held.end(parts, true);
        let file = Known::new(&header, n_bytes);
        self.folder().add(file.clone(), true);
        self.copy(file);
        if let Some(base) = base {
            self.start_base(base, at, record, epoch);
        }
        self.clean(record.complete);
        tracing::debug!(target: "paddlewheel::recovery", cut = at.cut, n_bytes, "a cut is written");
        self.n_written.fetch_add(1, Ordering::SeqCst);
        Ok(WrittenCut { bytes: n_bytes })
    }

    /// Writes the file of a cut; the answer is the cut before it, and its bytes.
    fn write_marked(
        &self,
        marked: &mut Marked,
        record: &CutRecord,
    ) -> SnapshotResult<(CutId, u64)> {
        let after = match marked.kind {
            FileKind::Base => CutId::default(),
            // The cut that it follows was not written: its changes are in neither.
            _ if self.folder().last() != marked.after => return Err(BadSnapshot::GivenUp),
            _ => marked.after.unwrap_or_default(),
        };
        let header = self.header(marked.kind, marked.at, after, record.term);
        let protocol = Protocol { state: &record.state, journal: Some(&record.journal) };
        let n_bytes = self.write_file(&header, protocol, &mut marked.parts, marked.epoch)?;
        Ok((after, n_bytes))
    }

    fn header(&self, kind: FileKind, at: CutId, after: CutId, term: u64) -> Header {
        let owner = self.folder().owner().clone();
        Header { kind, owner, term, at, after }
    }

    /// Removes files that are not needed any more. A file that cannot be removed only takes space.
    fn clean(&self, complete: u64) {
        if let Err(error) = self.folder().clean(complete) {
            warn(&self.log, format!("old snapshots stay: {error}"));
        }
    }

    /// Writes a file, and the state of the protocol before everything else.
    fn write_file(
        &self,
        header: &Header,
        protocol: Protocol<'_>,
        parts: &mut CutContents,
        epoch: u64,
    ) -> SnapshotResult<u64> {
        let path = self.folder().path().to_path_buf();
        let failed = |source| BadSnapshot::writing(&path, source);
        let name = Known::new(header, 0).name();
        let mut file = FileWriter::new(&path, &name, header).map_err(failed)?;
        file.section(Kind::State, 0, &protocol.state.slices()).map_err(failed)?;
        if let Some(journal) = protocol.journal {
            file.section(Kind::Journal, 0, &journal.slices()).map_err(failed)?;
        }
        if header.kind == FileKind::Base {
            file.section(Kind::Layout, 0, &[&self.layout.to_bytes()]).map_err(failed)?;
        }
        for (name, value) in &parts.values {
            write_value(&mut file, NO_TABLE, name, value).map_err(failed)?;
        }
        for (at, cut) in parts.tables.iter_mut().enumerate() {
            for (name, value) in &cut.values {
                write_value(&mut file, at, name, value).map_err(failed)?;
            }
            // They are written: later changes need no copy of them.
            cut.values.iter_mut().for_each(|(_, value)| *value = Value::Empty);
            for (kind, bytes) in cut.own_sections() {
                file.section(kind, at, &[&bytes]).map_err(failed)?;
            }
            loop {
                let part = self.held.table(at).next_chunk(cut);
                let is_current = self.epoch.load(Ordering::SeqCst) == epoch;
                if !is_current || matches!(part, CutChunk::GivenUp) {
                    return Err(BadSnapshot::GivenUp);
                }
                if !part.write(&mut file, at, cut).map_err(failed)? {
                    break;
                }
            }
        }
        file.finish().map_err(failed)
    }

    /// Writes a base in a thread of its own; cuts go on meanwhile.
    fn start_base(
        self: &Arc<Self>,
        mut parts: CutContents,
        at: CutId,
        record: &CutRecord,
        epoch: u64,
    ) {
        let (own, state) = (self.clone(), record.state.clone());
        let header = self.header(FileKind::Base, at, CutId::default(), record.term);
        let thread = std::thread::spawn(move || {
            let protocol = Protocol { state: &state, journal: None };
            let written = own.write_file(&header, protocol, &mut parts, epoch);
            if own.epoch.load(Ordering::SeqCst) != epoch {
                return;
            }
            own.held.end(parts, written.is_ok());
            match written {
                Ok(n_bytes) => {
                    own.folder().add(Known::new(&header, n_bytes), false);
                }
                Err(error) => warn(&own.log, format!("no new base of snapshots: {error}")),
            }
        });
        self.progress().base = Some(thread);
    }

    /// Nothing is written any more when this returns.
    pub(super) fn stop(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        let thread = self.progress().base.take();
        if let Some(thread) = thread {
            // It has nothing to tell.
            let _ = thread.join();
        }
        *self.marked.lock() = None;
    }

    /// Goes back to a cut, for ever; the answer is the state that was given with it.
    pub(super) fn roll_back(self: &Arc<Self>, cut: u64, term: u64) -> SnapshotResult<Vec<u8>> {
        let ways = self.folder().ways_to(cut)?;
        if let Some(state) = self.is_there(cut, term)? {
            return Ok(state);
        }
        self.stop();
        let _turn = self.turn.lock();
        let mut failed = None;
        for way in ways {
            match self.load_mended(&way) {
                Ok(state) => {
                    tracing::debug!(target: "paddlewheel::recovery", cut, term, "this server is back at a cut");
                    // A server without space for it is asked again and again.
                    let begun = self.folder().begin_term(term, cut);
                    show_disk(&begun);
                    begun.inspect_err(|_| std::thread::sleep(AGAIN))?;
                    let uncopied = self.folder().level();
                    uncopied.into_iter().for_each(|file| self.copy(file));
                    return Ok(state);
                }
                Err((file, error)) => {
                    self.put_aside(&file, &error);
                    if !matches!(error, BadSnapshot::Damaged { .. }) {
                        // It is tried again, as long as the disk says so.
                        std::thread::sleep(AGAIN);
                    }
                    failed = Some(error);
                }
            }
        }
        Err(failed.unwrap_or(BadSnapshot::None))
    }

    /// A file that is damaged is not used again.
    fn put_aside(&self, file: &Known, error: &BadSnapshot) {
        if matches!(error, BadSnapshot::Damaged { .. }) {
            warn(&self.log, format!("{error}; it is put aside"));
            self.folder().put_aside(file);
        }
    }

    /// Loads a base and increments. Second copies take the place of files that are damaged.
    fn load_mended(&self, way: &[Known]) -> Result<Vec<u8>, (Known, BadSnapshot)> {
        loop {
            match self.load(way) {
                Err((file, error @ BadSnapshot::Damaged { .. })) => {
                    if !self.folder().mend(&file) {
                        return Err((file, error));
                    }
                    warn(&self.log, format!("{error}; its second copy takes its place"));
                }
                loaded => return loaded,
            }
        }
    }

    /// Whether the tables are at a cut already, because this server wrote it and has served nobody since: then the term
    /// begins, and the answer is the state that was given with the cut. A base that is being written stays of use.
    fn is_there(&self, cut: u64, term: u64) -> SnapshotResult<Option<Vec<u8>>> {
        let holds = self.progress().holds.take();
        if holds != Some(cut) || self.held.n_bytes(Extent::Changed) > 0 {
            return Ok(None);
        }
        let state = self.folder().state(cut);
        // If it cannot be read, it is loaded as if it was not here: that finds out which file is to blame.
        let Ok(state) = state else { return Ok(None) };
        let begun = self.folder().begin_term(term, cut);
        show_disk(&begun);
        if let Err(error) = begun {
            // It is asked again.
            self.progress().holds = holds;
            std::thread::sleep(AGAIN);
            return Err(error);
        }
        Ok(Some(state))
    }

    /// Loads a base and increments; the error comes with the file that is to blame.
    fn load(&self, way: &[Known]) -> Result<Vec<u8>, (Known, BadSnapshot)> {
        (0..self.held.tables.len()).for_each(|at| self.held.table(at).begin_load());
        let mut state = Vec::new();
        let phase = Phase::begin("reading a snapshot", "bytes");
        phase.set_total(way.iter().map(|file| file.n_bytes).sum());
        for file in way {
            let reader = self.folder().read(file);
            let loaded = reader.and_then(|mut reader| self.held.load_file(&mut reader));
            state = loaded.map_err(|error| (file.clone(), error))?;
            phase.add(file.n_bytes);
        }
        let Some(last) = way.last() else { return Ok(state) };
        for at in 0..self.held.tables.len() {
            let ended = self.held.table(at).end_load();
            ended.map_err(|problem| {
                let path = self.folder().path().join(last.name());
                (last.clone(), BadSnapshot::Damaged { path, problem })
            })?;
        }
        Ok(state)
    }
}

/// Shows watchers of the job whether snapshots can be written.
fn show_disk<T>(written: &SnapshotResult<T>) {
    let error = match written {
        Ok(_) => return metrics::clear_obstacle(DISK),
        Err(error) => error,
    };
    let Some(remedy) = error.remedy() else { return };
    metrics::report_obstacle(Obstacle::problem(DISK, error.to_string(), remedy));
}

pub(super) fn warn(log: &Log, text: String) {
    log(&Line { severity: Severity::Warning, site: "server", text });
}
