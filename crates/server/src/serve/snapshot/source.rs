//! The snapshots of other servers, to go on from: of another job, or of this one with other numbers of
//! processes. They are only read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tensor::Value;

use super::again::{self, again};
use super::chain::{Chain, Known};
use super::file::{FileReader, Kind, read_header};
use super::folder::{
    header_of, is_left_over, journal_in, journal_of, known, names_in, open, open_at,
};
use super::header::{FileKind, Header, Owner};
use super::journal::Journal;
use super::layout::{Layout, VarLayout};
use super::names::read_waiting;
use super::rows::RowsHead;
use super::rows_state::{Picks, RowsState};
use super::value::read_value;
use crate::bad_snapshot::{BadSnapshot, SnapshotResult};

/// What files of one job have in common.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct JobKey {
    job: String,
    n_servers: u32,
    n_trainers: u32,
}

/// The snapshots of all servers of a job.
#[derive(Debug)]
pub(in crate::serve) struct Source {
    servers: Vec<SourceServer>,
    /// What they are of, from the first server.
    pub(in crate::serve) owner: Owner,
    /// The newest term.
    pub(in crate::serve) term: u64,
    /// The greatest cut that all of them have.
    pub(in crate::serve) cut: u64,
    /// Greater than that of any cut, and another one for each cut that is gone on from: servers that do not go on from
    /// the same have no cut in common.
    pub(in crate::serve) next_cut: u64,
    /// Older cuts that all of them have, ascending.
    older: Vec<u64>,
}

/// The snapshots of one server.
#[derive(Debug)]
struct SourceServer {
    path: PathBuf,
    chain: Chain,
}

/// What a server held at a cut.
#[derive(Debug, Default)]
pub(in crate::serve) struct ServerState {
    pub(in crate::serve) layout: Layout,
    /// What no table has for itself.
    pub(in crate::serve) values: BTreeMap<String, Value>,
    pub(in crate::serve) tables: Vec<TableState>,
    pub(in crate::serve) state: Vec<u8>,
}

/// What a table held.
#[derive(Debug, Default)]
pub(in crate::serve) struct TableState {
    pub(in crate::serve) values: BTreeMap<String, Value>,
    pub(in crate::serve) rows: Option<RowsState>,
    /// Rows that trainers have not seen, as in a file.
    pub(in crate::serve) unseen: Vec<u8>,
}

impl Source {
    /// The newest snapshots of a model in a folder that are complete; nothing if there are none. In the
    /// folder that `owner` itself writes to, those of its own numbers are no others.
    pub(in crate::serve) fn find(
        folder: &Path,
        owner: &Owner,
        is_own_folder: bool,
    ) -> SnapshotResult<Option<Self>> {
        let mut found: BTreeMap<JobKey, BTreeMap<u32, Vec<(PathBuf, Header)>>> = BTreeMap::new();
        for name in names_in(folder)?.iter().filter(|name| name.starts_with("server.")) {
            let path = folder.join(name);
            for (file, header) in headers(&path)? {
                let Owner { job, model, server, n_servers, n_trainers } = &header.owner;
                let is_own = (job, n_servers, n_trainers)
                    == (&owner.job, &owner.n_servers, &owner.n_trainers);
                if *model == owner.model && !(is_own && is_own_folder) {
                    let (n_servers, n_trainers) = (*n_servers, *n_trainers);
                    let key = JobKey { job: job.clone(), n_servers, n_trainers };
                    let servers = found.entry(key).or_default();
                    servers.entry(*server).or_default().push((path.join(file), header));
                }
            }
        }
        let mut sources = Vec::new();
        for (key, servers) in found {
            if servers.len() == key.n_servers as usize {
                sources.extend(Self::of(servers.into_values().collect())?);
            }
        }
        Ok(sources.into_iter().max_by_key(|source| source.term))
    }

    /// The files of each server, if all have a cut.
    fn of(servers: Vec<Vec<(PathBuf, Header)>>) -> SnapshotResult<Option<Self>> {
        let mut all = Vec::new();
        let mut term = 0;
        let mut next_cut = 0;
        let mut owner = None;
        for files in servers {
            let own_term = files.iter().find(|(_, header)| header.kind == FileKind::Term);
            let own_term = own_term.map(|(_, header)| header.clone());
            let mut server = SourceServer { path: PathBuf::new(), chain: Chain::default() };
            for (path, header) in files {
                term = term.max(header.term);
                owner.get_or_insert_with(|| header.owner.clone());
                next_cut = next_cut.max(header.at.cut.saturating_add(1));
                server.path = path.parent().map_or_else(PathBuf::new, Path::to_path_buf);
                if header.kind != FileKind::Term && !is_left_over(&header, own_term.as_ref()) {
                    server.chain.add(known(&path, &header)?);
                }
            }
            all.push(server);
        }
        let cuts = |server: &SourceServer| -> Vec<u64> {
            server.chain.cuts().iter().map(|at| at.cut).collect()
        };
        let lists: Vec<Vec<u64>> = all.iter().map(cuts).collect();
        let is_everywhere = |cut: &u64| lists.iter().all(|list| list.contains(cut));
        let mut older: Vec<u64> = lists.first().cloned().unwrap_or_default();
        older.retain(is_everywhere);
        let cut = older.pop();
        let source = |(cut, owner)| Self { servers: all, owner, term, cut, next_cut, older };
        Ok(cut.zip(owner).map(source))
    }

    /// The same, at the cut before that all of them have.
    pub(in crate::serve) fn before(mut self) -> Option<Self> {
        let cut = self.older.pop()?;
        Some(Self { cut, next_cut: self.next_cut + 1, ..self })
    }

    /// How many servers there were.
    pub(in crate::serve) fn n_servers(&self) -> usize {
        self.servers.len()
    }

    /// What a server held at the cut, of tables the rows that are picked. If one way to it is damaged, another may
    /// not be.
    pub(in crate::serve) fn read(
        &self,
        server: usize,
        picks: &dyn Picks,
    ) -> SnapshotResult<ServerRead> {
        let SourceServer { path, chain } = &self.servers[server];
        let mut failed = None;
        for files in chain.ways_to(self.cut) {
            let mut state = ServerState::default();
            let mut read = read_files(&mut state, path, &files, picks);
            if matches!(read, Err(BadSnapshot::Damaged { .. })) {
                state = ServerState::default();
                read = files.iter().try_for_each(|file| {
                    let whole = again::whole(&path.join(file.name()));
                    state.take(&mut open_at(&whole, file)?, picks)
                });
            }
            match read {
                Ok(()) => return Ok(ServerRead { path: path.clone(), files, state }),
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or(BadSnapshot::None))
    }

    /// Whether all that was read of a server is on a way to the cut; the answer is that way.
    fn way_of(&self, server: usize, read: &ServerRead) -> Option<Vec<Known>> {
        let SourceServer { path, chain } = self.servers.get(server)?;
        let mut ways = chain.ways_to(self.cut).into_iter().filter(|_| *path == read.path);
        ways.find(|way| way.starts_with(&read.files))
    }

    /// Whether what was read before is the beginning of this, on all servers.
    pub(in crate::serve) fn follows(&self, read: &[ServerRead]) -> bool {
        let mut all = read.iter().enumerate();
        read.len() == self.servers.len()
            && all.all(|(server, read)| self.way_of(server, read).is_some())
    }

    /// Reads what came after what was read before. If that fails, what was read is of no use any more.
    pub(in crate::serve) fn read_on(
        &self,
        server: usize,
        picks: &dyn Picks,
        read: &mut ServerRead,
    ) -> SnapshotResult<()> {
        let way = self.way_of(server, read).ok_or(BadSnapshot::None)?;
        read_files(&mut read.state, &read.path, &way[read.files.len()..], picks)?;
        read.files = way;
        Ok(())
    }

    /// What is in the journals of a server up to the cut.
    pub(in crate::serve) fn journal(&self, server: usize) -> SnapshotResult<Vec<u8>> {
        let SourceServer { path, chain } = &self.servers[server];
        journal(path, chain, &self.owner, self.cut)
    }
}

/// What was read of one server's snapshots. More may follow.
#[derive(Debug)]
pub(in crate::serve) struct ServerRead {
    path: PathBuf,
    files: Vec<Known>,
    pub(in crate::serve) state: ServerState,
}

impl ServerRead {
    /// Bytes of the files that need not be read again.
    pub(in crate::serve) fn n_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.n_bytes).sum()
    }
}

/// The names of all files that servers have finished in a folder, sorted.
pub(in crate::serve) fn finished_files(folder: &Path) -> SnapshotResult<Vec<String>> {
    let mut all = Vec::new();
    for server in names_in(folder)?.iter().filter(|name| name.starts_with("server.")) {
        let names = names_in(&folder.join(server))?.into_iter();
        let finished = names.filter(|name| !name.ends_with(durable::UNFINISHED));
        all.extend(finished.map(|name| format!("{server}/{name}")));
    }
    Ok(all)
}

fn headers(folder: &Path) -> SnapshotResult<Vec<(String, Header)>> {
    let mut headers = Vec::new();
    for name in names_in(folder)? {
        let path = folder.join(&name);
        let header = match header_of(&path, &name) {
            Err(BadSnapshot::Damaged { .. }) => read_header(&again(&path)).map(Some),
            header => header,
        };
        match header {
            Ok(Some(header)) => headers.push((name, header)),
            // Another cut may be whole, and a file may have no second copy.
            Ok(None) | Err(BadSnapshot::Damaged { .. }) => {}
            Err(BadSnapshot::Unreadable { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(headers)
}

fn journal(folder: &Path, chain: &Chain, owner: &Owner, cut: u64) -> SnapshotResult<Vec<u8>> {
    let records = Journal::open(folder, owner)?.read_whole()?;
    let next = records.last().map_or(0, |record| record.at.cut.saturating_add(1));
    let mut all: Vec<u8> = records.into_iter().flat_map(|record| record.contents).collect();
    for file in chain.files().iter().filter(|file| (next..=cut).contains(&file.at.cut)) {
        let part = match journal_of(folder, file) {
            Err(BadSnapshot::Damaged { .. }) => {
                journal_in(open_at(&again(&folder.join(file.name())), file)?)
            }
            part => part,
        };
        all.extend(part?.unwrap_or_default());
    }
    Ok(all)
}

fn read_files(
    state: &mut ServerState,
    folder: &Path,
    files: &[Known],
    picks: &dyn Picks,
) -> SnapshotResult<()> {
    files.iter().try_for_each(|file| state.take(&mut open(folder, file)?, picks))
}

impl ServerState {
    /// Somebody has taken the rows that were picked.
    pub(in crate::serve) fn forget_rows(&mut self) {
        self.tables.iter_mut().filter_map(|table| table.rows.as_mut()).for_each(RowsState::forget);
    }

    /// Takes what a file adds.
    pub(super) fn take(&mut self, file: &mut FileReader, picks: &dyn Picks) -> SnapshotResult<()> {
        while let Some(section) = file.next_section()? {
            match section.kind {
                Kind::State => self.state = file.contents()?,
                Kind::Layout => {
                    let layout = Layout::from_bytes(&file.contents()?);
                    self.layout =
                        layout.ok_or_else(|| file.damaged("its tables cannot be read"))?;
                    let n_tables = self.layout.0.len();
                    self.tables = (0..n_tables).map(|_| TableState::default()).collect();
                }
                Kind::Journal => file.skip()?,
                kind => match self.tables.get_mut(section.table) {
                    Some(table) => {
                        let layout =
                            self.layout.0.get(section.table).map_or(&[][..], Vec::as_slice);
                        table.take(kind, file, layout, picks)?;
                    }
                    None if kind == Kind::Value => {
                        let (name, value) = read_value(file)?;
                        self.values.insert(name, value);
                    }
                    None => return Err(file.damaged("it has a table that it does not describe")),
                },
            }
        }
        Ok(())
    }
}

impl TableState {
    fn take(
        &mut self,
        kind: Kind,
        file: &mut FileReader,
        layout: &[VarLayout],
        picks: &dyn Picks,
    ) -> SnapshotResult<()> {
        match (kind, &mut self.rows) {
            (Kind::Value, _) => {
                let (name, value) = read_value(file)?;
                self.values.insert(name, value);
            }
            (Kind::Unseen, _) => self.unseen = file.contents()?,
            (Kind::RowsHead, rows) => {
                let head = RowsHead::read(file)?;
                let rows = rows.get_or_insert_default();
                rows.resize(head, file.n_left()).map_err(|problem| file.damaged(problem))?;
            }
            (Kind::NamesByPlace | Kind::NamesByRow, Some(rows)) => {
                rows.numbers.read(file, kind)?;
            }
            (Kind::Rows, Some(rows)) => rows.take(file, layout, picks)?,
            (Kind::Waiting, Some(rows)) => rows.waiting.extend(read_waiting(file)?),
            _ => return Err(file.damaged("a table has parts before its head")),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::table::RowNames;

    use super::*;
    use crate::serve::snapshot::file::FileWriter;
    use crate::serve::snapshot::header::CutId;
    use crate::serve::snapshot::names::names_section;
    use crate::serve::snapshot::rows::{Places, RowsChunk};

    const ROW: usize = 4;

    fn owner() -> Owner {
        Owner { model: 7, n_servers: 1, n_trainers: 1, ..Owner::default() }
    }

    /// Who looks for snapshots of others.
    fn reader() -> Owner {
        Owner { n_servers: 2, ..owner() }
    }

    fn id(cut: u64) -> CutId {
        CutId { cut, id: 100 + cut }
    }

    /// A file with rows of a table: row `100 + n` is at place `n + 1`, place 0 stands for all others, and all
    /// their bytes are `cut`.
    fn write(folder: &Path, cut: u64, after: Option<u64>, made: std::ops::Range<usize>) {
        let (kind, name) = match after {
            None => (FileKind::Base, format!("base.{cut}")),
            Some(_) => (FileKind::Increment, format!("cut.{cut}")),
        };
        let after = after.map(id).unwrap_or_default();
        let header = Header { kind, owner: owner(), term: 1, at: id(cut), after };
        let mut file = FileWriter::new(folder, &name, &header).unwrap();
        file.section(Kind::State, 0, &[b"state"]).unwrap();
        if kind == FileKind::Base {
            let layout = Layout(vec![vec![VarLayout::whole("t", &[1000, 1])]]);
            file.section(Kind::Layout, 0, &[&layout.to_bytes()]).unwrap();
        }
        let head = RowsHead {
            is_whole: kind == FileKind::Base,
            n_rows: made.end as u64,
            absent: Some(0),
            vars: vec![("t".to_string(), ROW as u32)],
            inits: vec!["zeros".to_string()],
            ..RowsHead::default()
        };
        file.section(Kind::RowsHead, 0, &[&head.to_bytes()]).unwrap();
        let rows = made.clone().map(|at| 100 + at as u64).collect();
        let names = RowNames::ByPlace { first: made.start, rows };
        let (kind, names) = names_section(&names, u64::MAX);
        file.section(kind, 0, &[&names]).unwrap();
        let first = if after == CutId::default() { 0 } else { made.start + 1 };
        let places = Places::Run(first..made.end + 1);
        let values = vec![vec![cut as u8; places.len() * ROW]];
        RowsChunk { places, values }.write(&mut file, 0).unwrap();
        file.finish().unwrap();
    }

    struct Even;

    impl Picks for Even {
        fn has(&self, _: &VarLayout, number: u64) -> bool {
            number.is_multiple_of(2)
        }
    }

    fn find(folder: &Path) -> Source {
        Source::find(folder, &reader(), true).unwrap().unwrap()
    }

    /// The first byte of each row that was picked.
    fn picked(state: &ServerState) -> Vec<u8> {
        state.tables[0].rows.as_ref().unwrap().values[0].iter().step_by(ROW).copied().collect()
    }

    #[test]
    fn what_was_read_ahead_is_not_read_again() {
        let home = tempfile::tempdir().unwrap();
        let own = home.path().join("server.0");
        std::fs::create_dir_all(&own).unwrap();
        write(&own, 1, None, 0..5);
        write(&own, 2, Some(1), 5..7);
        let ahead = || find(home.path()).read(0, &Even).unwrap();
        let (mut first, second) = (ahead(), ahead());
        assert!(first.n_bytes() > 0);
        // Place 0, rows 100, 102 and 104, and row 106.
        assert_eq!(picked(&first.state), [1, 1, 1, 1, 2]);
        first.state.forget_rows();
        write(&own, 3, Some(2), 7..9);
        // Who reads the base again finds that it is damaged.
        let base = own.join("base.1");
        let mut bytes = std::fs::read(&base).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&base, &bytes).unwrap();
        let source = find(home.path());
        assert!(source.read(0, &Even).is_err());
        let mut read = [first];
        assert!(source.follows(&read));
        source.read_on(0, &Even, &mut read[0]).unwrap();
        // Row 108; somebody has the others.
        assert_eq!(picked(&read[0].state), [3]);
        assert_eq!(read[0].state.state, b"state");
        // Another base takes the place of what was read.
        std::fs::remove_file(base).unwrap();
        write(&own, 4, None, 0..3);
        let source = find(home.path());
        assert!(!source.follows(&[second]) && !source.follows(&[]));
        assert_eq!(picked(&source.read(0, &Even).unwrap().state), [4, 4, 4]);
    }
}
