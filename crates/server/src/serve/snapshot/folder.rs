//! The folder of a server's snapshots: what is in it, whose it is, and what a crash has left over.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use durable::Access;
use train::recover;

use super::again::{self, is_copy_of, put_aside, remove};
use super::chain::{Chain, Known, Weight};
use super::file::{self, FileReader, FileWriter, Kind};
use super::header::{CutId, FileKind, Header, Owner};
use super::journal::{Journal, Record};
use super::layout::{Layout, LayoutDifference};
use crate::bad_snapshot::{BadSnapshot, SnapshotResult};

/// How long a lock is waited for: a process that was just started may hold those of its parent for a
/// moment, and one that was killed may not be gone yet.
const LOCK_WAIT: Duration = Duration::from_secs(1);

/// What a server finds in its folder.
#[derive(Debug, Default)]
struct FolderContents {
    files: Vec<(Known, Header)>,
    /// Snapshots of the same model with other numbers of processes.
    others: Vec<(String, Header)>,
    term: Option<Header>,
    /// Why a file is not among them.
    damaged: Vec<BadSnapshot>,
}

/// See the module.
#[derive(Debug)]
pub(in crate::serve) struct Folder {
    path: PathBuf,
    owner: Owner,
    chain: Chain,
    journal: Journal,
    /// The term that was last served.
    term: u64,
    /// The newest term of a file.
    own_term: u64,
    /// The cut that the next increment follows.
    last: Option<CutId>,
    /// Files of the same model with other numbers of processes: of no use once all servers have a cut.
    others: Vec<(String, Header)>,
    /// Journals of files that were put aside, by cut: later cuts need them.
    saved: BTreeMap<u64, Vec<u8>>,
    _lock: File,
}

impl Folder {
    /// The folder of a server, made if need be. What was left over is removed; what cannot be read is
    /// put aside, and `say` is told.
    pub(in crate::serve) fn open(
        path: &Path,
        owner: Owner,
        layout: &Layout,
        say: &mut dyn FnMut(String),
    ) -> SnapshotResult<Self> {
        let failed = |source| BadSnapshot::writing(path, source);
        durable::create_folder(path, Access::Owner).map_err(failed)?;
        let lock = lock(path)?;
        let found = look(path, &owner, layout, say)?;
        for error in &found.damaged {
            say(format!("{error}; it is put aside"));
            if let BadSnapshot::Damaged { path, .. } = error {
                put_aside(path);
            }
        }
        let own_term = found.files.iter().map(|(_, header)| header.term).max().unwrap_or(0);
        let mut folder = Self {
            path: path.to_path_buf(),
            journal: Journal::open(path, &owner)?,
            owner,
            chain: Chain::default(),
            // The file of the term may be damaged.
            term: found.term.as_ref().map_or(0, |header| header.term).max(own_term),
            own_term,
            last: None,
            others: found.others,
            saved: BTreeMap::new(),
            _lock: lock,
        };
        // What cannot be written now is noticed when the next record is.
        let _ = folder.journal.mend();
        folder.take(found.files, found.term.as_ref())?;
        folder.check_gap(say, !found.damaged.is_empty())?;
        Ok(folder)
    }

    /// Adds the files, except those that a rollback was about to remove.
    fn take(&mut self, files: Vec<(Known, Header)>, term: Option<&Header>) -> SnapshotResult<()> {
        for (file, header) in files {
            if is_left_over(&header, term) { self.delete(&file)? } else { self.chain.add(file) }
        }
        if self.chain.cuts().is_empty() {
            // A process died before a cut followed what it had taken over.
            self.remove_no_cuts()
        } else {
            Ok(())
        }
    }

    fn remove_no_cuts(&mut self) -> SnapshotResult<()> {
        let files = self.chain.files().to_vec();
        files.iter().filter(|file| !file.is_cut).try_for_each(|file| self.delete(file))
    }

    /// Takes what brings back the last state of another folder, which nobody writes to any more.
    pub(in crate::serve) fn adopt(&mut self, other: &Folder) -> SnapshotResult<()> {
        let failed = |source| BadSnapshot::writing(&self.path, source);
        let Some(last) = other.last else { return Ok(()) };
        let files = other.chain.ways_to(last.cut).into_iter().next().unwrap_or_default();
        for file in &files {
            let name = file.name();
            again::rename(&other.path.join(&name), &self.path.join(&name)).map_err(failed)?;
        }
        files.into_iter().for_each(|file| self.add(file, true));
        Ok(())
    }

    /// Increments that follow nothing are refused, unless what they followed was damaged: then the cuts
    /// before are what is left.
    fn check_gap(&mut self, say: &mut dyn FnMut(String), was_damaged: bool) -> SnapshotResult<()> {
        while let Some((alone, before)) = self.chain.gap() {
            let error = BadSnapshot::Gap {
                path: self.path.join(alone.name()),
                needs: alone.after.to_string(),
                found: before.map_or("nothing".to_string(), |before| format!("cut {before}")),
            };
            if !was_damaged {
                return Err(error);
            }
            say(format!("{error}; it is put aside"));
            let alone = alone.clone();
            put_aside(&self.path.join(alone.name()));
            self.chain.remove(&alone);
        }
        Ok(())
    }

    pub(in crate::serve) fn path(&self) -> &Path {
        &self.path
    }

    pub(in crate::serve) fn owner(&self) -> &Owner {
        &self.owner
    }

    /// The term that was last served; 0 if none was.
    pub(in crate::serve) fn term(&self) -> u64 {
        self.term
    }

    /// The cut that the next increment follows; none if the next one must be a base.
    pub(in crate::serve) fn last(&self) -> Option<CutId> {
        self.last
    }

    /// Cuts that can be brought back, ascending.
    pub(in crate::serve) fn cuts(&self) -> Vec<u64> {
        self.chain.cuts().iter().map(|at| at.cut).collect()
    }

    /// Whether a cut was written. Nobody waits for what comes before the first.
    pub(in crate::serve) fn has_cuts(&self) -> bool {
        self.chain.files().iter().any(|file| file.is_cut)
    }

    /// Whether there are files that this server cannot go on from as they are: an error that names one,
    /// if there is nothing else.
    pub(in crate::serve) fn check_own(&self) -> SnapshotResult<()> {
        let word = |owner: &Owner| {
            format!("{}, server {} of {}", owner.job, owner.server, owner.n_servers)
        };
        match self.others.first().filter(|_| self.chain.files().is_empty()) {
            None => Ok(()),
            Some((name, header)) => Err(BadSnapshot::OtherJob {
                path: self.path.join(name),
                theirs: word(&header.owner),
                ours: word(&self.owner),
            }),
        }
    }

    /// Bytes of the newest base, and of the increments since.
    pub(in crate::serve) fn weight(&self) -> Weight {
        self.chain.weight()
    }

    /// Ways to bring a cut back, the shortest first.
    pub(in crate::serve) fn ways_to(&self, cut: u64) -> SnapshotResult<Vec<Vec<Known>>> {
        let ways = self.chain.ways_to(cut);
        if ways.is_empty() {
            let (folder, found) = (self.path.clone(), self.cuts());
            Err(BadSnapshot::NoCut { folder, cut, found })
        } else {
            Ok(ways)
        }
    }

    /// Opens a file to read it from its second section on.
    pub(in crate::serve) fn read(&self, file: &Known) -> SnapshotResult<FileReader> {
        open(&self.path, file)
    }

    /// Where a file is, if it is still of use.
    pub(in crate::serve) fn path_of(&self, file: &Known) -> Option<PathBuf> {
        self.chain.files().contains(file).then(|| self.path.join(file.name()))
    }

    /// Puts the second copy of a file in its place, if the file is damaged and the copy is not; whether that was done.
    pub(in crate::serve) fn mend(&self, file: &Known) -> bool {
        again::mend(&self.path.join(file.name()))
    }

    /// Makes files and second copies whole where one of two is; the answer is files without second copies.
    pub(in crate::serve) fn level(&self) -> Vec<Known> {
        let files = self.chain.files().iter();
        let copied = files.filter(|file| self.chain.is_copied(file));
        let uncopied = |file: &&Known| !again::level(&self.path.join(file.name()), file.n_bytes);
        copied.filter(uncopied).cloned().collect()
    }

    /// A file of a cut was written.
    pub(in crate::serve) fn add(&mut self, file: Known, is_last: bool) {
        if is_last {
            self.last = Some(file.at);
        }
        self.chain.add(file);
    }

    /// Removes what nobody will ask for when all servers have kept a cut.
    pub(in crate::serve) fn clean(&mut self, complete: u64) -> SnapshotResult<()> {
        if self.chain.cuts().first().is_some_and(|first| first.cut <= complete) {
            // There was a cut with these numbers of processes: nobody looks at others any more.
            self.remove_others()?;
        }
        let useless = self.chain.useless(complete);
        let next = self.journal.last().map_or(0, |last| last.cut + 1);
        let mut records = BTreeMap::new();
        for file in useless.iter().filter(|file| file.at.cut >= next) {
            let (at, after) = (file.at, file.after);
            let contents = self.part(file)?;
            let record = contents.map(|contents| Record { at, after, contents });
            records.extend(record.map(|record| (at.cut, record)));
        }
        // What was put aside is among them.
        let end = useless.iter().map(|file| file.at.cut).max().unwrap_or(0);
        for (&cut, contents) in self.saved.range(next.min(end)..end) {
            let at = CutId { cut, id: 0 };
            let after = CutId::default();
            let contents = contents.clone();
            records.entry(cut).or_insert(Record { at, after, contents });
        }
        let records: Vec<Record> = records.into_values().collect();
        if !records.is_empty() {
            self.journal.mend()?;
            let added = self.journal.add(&records);
            added.map_err(|source| BadSnapshot::writing(&self.path, source))?;
            self.journal.compact(&|all| protocol::server::compacted(all, &recover::compacted))?;
        }
        useless.iter().try_for_each(|file| self.delete(file))
    }

    /// Removes files of the same model with other numbers of processes. The first server does it for those
    /// that there are no more, and before its own are gone.
    fn remove_others(&mut self) -> SnapshotResult<()> {
        let failed = |source| BadSnapshot::writing(&self.path, source);
        if !self.others.is_empty() && self.owner.server == 0 {
            for folder in surplus(&self.path, self.owner.n_servers) {
                fs::remove_dir_all(folder).map_err(failed)?;
            }
        }
        for (name, header) in std::mem::take(&mut self.others) {
            remove(&self.path.join(Journal::name(&header.owner))).map_err(failed)?;
            remove(&self.path.join(name)).map_err(failed)?;
        }
        Ok(())
    }

    /// Whether this server has files of its own from which it can go on, and the newest term of them.
    pub(in crate::serve) fn own_term(&self) -> Option<u64> {
        self.chain.files().last().map(|_| self.own_term)
    }

    /// Forgets what is here: the job continues from other snapshots.
    pub(in crate::serve) fn clear(&mut self) -> SnapshotResult<()> {
        for file in self.chain.files().to_vec() {
            self.delete(&file)?;
        }
        self.saved.clear();
        let journal = self.path.join(Journal::name(&self.owner));
        remove(&journal).map_err(|source| BadSnapshot::writing(&self.path, source))?;
        self.journal = Journal::open(&self.path, &self.owner)?;
        self.last = None;
        Ok(())
    }

    /// A term begins from a cut: those after it are gone.
    pub(in crate::serve) fn begin_term(&mut self, term: u64, cut: u64) -> SnapshotResult<()> {
        let at = self.chain.cuts().into_iter().find(|at| at.cut == cut);
        let at = at.unwrap_or(CutId { cut, id: 0 });
        let owner = self.owner.clone();
        let after = CutId::default();
        let header = Header { kind: FileKind::Term, owner, term, at, after };
        let name = term_name(&self.owner);
        let written = FileWriter::new(&self.path, &name, &header).and_then(FileWriter::finish);
        written.map_err(|source| BadSnapshot::writing(&self.path, source))?;
        self.term = term;
        for file in self.chain.after(cut) {
            self.delete(&file)?;
        }
        self.last = Some(at);
        self.saved.retain(|&saved, _| saved <= cut);
        Ok(())
    }

    /// A file turned out to be damaged: it is not used again, nor are cuts that need what trainers gave to its journal, if
    /// that is damaged too.
    pub(in crate::serve) fn put_aside(&mut self, file: &Known) {
        let is_recorded = self.journal.last().is_some_and(|last| last.cut >= file.at.cut);
        let has_journal = !is_recorded && self.chain.is_copied(file);
        match journal_of(&self.path, file) {
            Ok(journal) => _ = journal.map(|journal| self.saved.insert(file.at.cut, journal)),
            Err(_) if has_journal => {
                for later in self.chain.after(file.at.cut) {
                    put_aside(&self.path.join(later.name()));
                    self.chain.remove(&later);
                }
            }
            Err(_) => {}
        }
        put_aside(&self.path.join(file.name()));
        self.chain.remove(file);
        // Files that follow only this one cannot be restored either. That gap is not damage.
        while let Some((alone, _)) = self.chain.gap() {
            let alone = alone.clone();
            put_aside(&self.path.join(alone.name()));
            self.chain.remove(&alone);
        }
    }

    /// What was kept with a cut, beside the data.
    pub(in crate::serve) fn state(&self, cut: u64) -> SnapshotResult<Vec<u8>> {
        let ways = self.ways_to(cut)?;
        let Some(last) = ways.first().and_then(|way| way.last()) else { return Ok(Vec::new()) };
        self.mended(last, || {
            let mut reader = open(&self.path, last)?;
            match reader.next_section()? {
                Some(section) if section.kind == Kind::State => reader.contents(),
                _ => Ok(Vec::new()),
            }
        })
    }

    /// The journals of all cuts up to one, one after the other. If one is damaged, no cut that needs it is used again.
    pub(in crate::serve) fn journal(&mut self, cut: u64) -> SnapshotResult<Vec<u8>> {
        let mut all = Vec::new();
        let records = self.records()?;
        let next = records.last().map_or(0, |record| record.at.cut + 1);
        records.iter().for_each(|record| all.extend(&record.contents));
        let mut parts: BTreeMap<u64, Vec<u8>> =
            self.saved.range(next..=cut.max(next)).map(|(&at, part)| (at, part.clone())).collect();
        let files = self.chain.files().to_vec();
        for file in files.iter().filter(|file| (next..=cut).contains(&file.at.cut)) {
            match self.part(file) {
                Ok(part) => _ = part.map(|part| parts.insert(file.at.cut, part)),
                Err(error) => {
                    if matches!(error, BadSnapshot::Damaged { .. }) {
                        self.put_aside(file);
                    }
                    return Err(error);
                }
            }
        }
        parts.range(..=cut).for_each(|(_, part)| all.extend(part));
        Ok(all)
    }

    /// The records of the journal. Every cut needs all of them: if they are damaged, none is left.
    fn records(&mut self) -> SnapshotResult<Vec<Record>> {
        // If that cannot be done, one of both may still be read.
        let _ = self.journal.mend();
        let read = self.journal.read_whole();
        if matches!(read, Err(BadSnapshot::Damaged { .. })) {
            for file in self.chain.files().to_vec() {
                put_aside(&self.path.join(file.name()));
                self.chain.remove(&file);
            }
        }
        read
    }

    /// The journal of a file, if it has one.
    fn part(&self, file: &Known) -> SnapshotResult<Option<Vec<u8>>> {
        self.mended(file, || journal_of(&self.path, file))
    }

    /// Reads from a file; if it is damaged, from its second copy.
    fn mended<T>(
        &self,
        file: &Known,
        mut read: impl FnMut() -> SnapshotResult<T>,
    ) -> SnapshotResult<T> {
        match read() {
            Err(BadSnapshot::Damaged { .. }) if self.mend(file) => read(),
            read => read,
        }
    }

    fn delete(&mut self, file: &Known) -> SnapshotResult<()> {
        self.chain.remove(file);
        let removed = remove(&self.path.join(file.name()));
        removed.map_err(|source| BadSnapshot::writing(&self.path, source))
    }
}

/// Whether a file was about to be removed when a term began. What is no cut is of no term.
pub(super) fn is_left_over(file: &Header, term: Option<&Header>) -> bool {
    let is_gone = |term: &Header| file.term < term.term && file.at.cut > term.at.cut;
    file.is_cut() && term.is_some_and(is_gone)
}

fn term_name(owner: &Owner) -> String {
    format!("term.{}.{}", owner.n_servers, owner.n_trainers)
}

fn lock(folder: &Path) -> SnapshotResult<File> {
    let failed = |source| BadSnapshot::writing(folder, source);
    let lock = Access::Owner.options().create(true).append(true).open(folder.join("lock"));
    let lock = lock.map_err(failed)?;
    let deadline = Instant::now() + LOCK_WAIT;
    loop {
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                std::thread::sleep(LOCK_WAIT / 100);
            }
            Err(TryLockError::WouldBlock) => {
                return Err(BadSnapshot::InUse { folder: folder.to_path_buf() });
            }
            // A file system without locks has nobody to keep away.
            _ => return Ok(lock),
        }
    }
}

/// Looks at all files of a folder, and removes what was not finished.
fn look(
    folder: &Path,
    owner: &Owner,
    layout: &Layout,
    say: &mut dyn FnMut(String),
) -> SnapshotResult<FolderContents> {
    let mut found = FolderContents::default();
    let names = names_in(folder)?;
    for name in &names {
        let path = folder.join(name);
        let is_alone = |first: &str| {
            is_snapshot(first) && names.binary_search_by(|name| name.as_str().cmp(first)).is_err()
        };
        if name.ends_with(durable::UNFINISHED) || is_copy_of(name).is_some_and(is_alone) {
            remove(&path).map_err(|source| BadSnapshot::writing(folder, source))?;
            continue;
        }
        let Some(header) = header_of(&path, name).transpose() else { continue };
        let header = match header {
            Err(error @ BadSnapshot::Damaged { .. }) if again::mend(&path) => {
                say(format!("{error}; its second copy takes its place"));
                file::read_header(&path)
            }
            header => header,
        };
        let header = match header {
            Ok(header) => header,
            Err(error @ BadSnapshot::Damaged { .. }) => {
                found.damaged.push(error);
                continue;
            }
            Err(error) => return Err(error),
        };
        if header.owner.model != owner.model {
            return Err(other_model(&path, &header.owner, owner, layout));
        }
        if header.owner != *owner {
            found.others.push((name.clone(), header));
            continue;
        }
        match header.kind {
            FileKind::Term => found.term = Some(header),
            _ => found.files.push((known(&path, &header)?, header)),
        }
    }
    Ok(found)
}

/// Names of all files of a folder, sorted.
pub(super) fn names_in(folder: &Path) -> SnapshotResult<Vec<String>> {
    let failed = |source| BadSnapshot::Unreadable { path: folder.to_path_buf(), source };
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        names.extend(entry.map_err(failed)?.file_name().into_string().ok());
    }
    names.sort_unstable();
    Ok(names)
}

/// The header of a file, if its name is that of a snapshot.
pub(super) fn header_of(path: &Path, name: &str) -> SnapshotResult<Option<Header>> {
    if is_snapshot(name) { file::read_header(path).map(Some) } else { Ok(None) }
}

/// Whether a file of this name is a snapshot, and not a second copy of one.
fn is_snapshot(name: &str) -> bool {
    let is_ours = ["base.", "cut.", "term."].iter().any(|start| name.starts_with(start));
    is_ours && !name.ends_with(durable::UNFINISHED) && is_copy_of(name).is_none()
}

/// What is known of a file by its header.
pub(super) fn known(path: &Path, header: &Header) -> SnapshotResult<Known> {
    let size = fs::metadata(path).map(|data| data.len());
    let n_bytes =
        size.map_err(|source| BadSnapshot::Unreadable { path: path.to_path_buf(), source })?;
    Ok(Known::new(header, n_bytes))
}

/// What differs between the model of a file and ours.
fn other_model(path: &Path, theirs: &Owner, ours: &Owner, layout: &Layout) -> BadSnapshot {
    let found = FileReader::open(path).and_then(|(mut reader, _)| layout_of(&mut reader));
    let differs = found.ok().flatten().and_then(|theirs| layout.difference(&theirs));
    let word = |owner: &Owner| format!("model {:016x}", owner.model);
    let models = || LayoutDifference { ours: word(ours), theirs: word(theirs) };
    let LayoutDifference { ours, theirs } = differs.unwrap_or_else(models);
    BadSnapshot::OtherModel { path: path.to_path_buf(), theirs, ours }
}

/// The layout of a base, which is one of its first sections.
pub(in crate::serve) fn layout_of(reader: &mut FileReader) -> SnapshotResult<Option<Layout>> {
    while let Some(section) = reader.next_section()? {
        match section.kind {
            Kind::State | Kind::Journal => reader.skip()?,
            Kind::Layout => {
                let layout = Layout::from_bytes(&reader.contents()?);
                return layout.ok_or_else(|| reader.damaged("its tables cannot be read")).map(Some);
            }
            _ => break,
        }
    }
    Ok(None)
}

pub(super) fn open(folder: &Path, file: &Known) -> SnapshotResult<FileReader> {
    open_at(&folder.join(file.name()), file)
}

/// Opens a file, or its second copy.
pub(super) fn open_at(path: &Path, file: &Known) -> SnapshotResult<FileReader> {
    let (reader, header) = FileReader::open(path).map_err(BadSnapshot::or_removed)?;
    if (header.kind, header.at, header.after) == (file.kind, file.at, file.after) {
        Ok(reader)
    } else {
        Err(reader.damaged("it is not the file that was here before"))
    }
}

/// The journal of a cut, if the file has it: it is the second section then, or the third.
pub(super) fn journal_of(folder: &Path, file: &Known) -> SnapshotResult<Option<Vec<u8>>> {
    journal_in(open(folder, file)?)
}

pub(super) fn journal_in(mut reader: FileReader) -> SnapshotResult<Option<Vec<u8>>> {
    while let Some(section) = reader.next_section()? {
        match section.kind {
            Kind::State => reader.skip()?,
            Kind::Journal => return reader.contents().map(Some),
            _ => break,
        }
    }
    Ok(None)
}

/// Folders of servers that there are no more, beside the folder of the first.
fn surplus(first: &Path, n_servers: u32) -> Vec<PathBuf> {
    let is_surplus = |name: &String| {
        let number = name.strip_prefix("server.").and_then(|number| number.parse::<u32>().ok());
        number.is_some_and(|number| number >= n_servers)
    };
    let Some(all) = first.parent() else { return Vec::new() };
    let names = names_in(all).unwrap_or_default();
    names.iter().filter(|name| is_surplus(name)).map(|name| all.join(name)).collect()
}
