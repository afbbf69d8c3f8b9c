//! The snapshots of other servers, to go on from: of another job, or of this one with other numbers of
//! processes. They are only read.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use tensor::Value;

use super::chain::{Chain, Known};
use super::file::{FileReader, Kind};
use super::folder::{header_of, is_left_over, journal_of, known, names_in, open};
use super::header::{FileKind, Header, Owner};
use super::journal::Journal;
use super::layout::Layout;
use super::names::{read_names, read_waiting};
use super::rows::{RowsHead, read_places, read_rows};
use super::value::read_value;
use crate::error::{BadSnapshot, SnapshotResult};

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
    /// Greater than that of any cut.
    pub(in crate::serve) next_cut: u64,
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
    pub(in crate::serve) journal: Vec<u8>,
}

/// What a table held.
#[derive(Debug, Default)]
pub(in crate::serve) struct TableState {
    pub(in crate::serve) values: BTreeMap<String, Value>,
    pub(in crate::serve) rows: Option<RowsState>,
    /// Rows that trainers have not seen, as in a file.
    pub(in crate::serve) unseen: Vec<u8>,
}

/// The rows of a table.
#[derive(Debug, Default)]
pub(in crate::serve) struct RowsState {
    pub(in crate::serve) head: RowsHead,
    /// Their numbers, in the order of their places; none if all exist and each is at its number.
    pub(in crate::serve) numbers: Vec<u64>,
    /// Their bytes by variable, in the order of places.
    pub(in crate::serve) values: Vec<Vec<u8>>,
    /// Rows that wait, and how often each was named.
    pub(in crate::serve) waiting: HashMap<u64, u32>,
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
        let (mut all, mut term, mut next_cut, mut owner) = (Vec::new(), 0, 0, None);
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
        let cut = ps::recovery::common(&lists);
        let source = |(cut, owner)| Self { servers: all, owner, term, cut, next_cut };
        Ok(cut.zip(owner).map(source))
    }

    /// How many servers there were.
    pub(in crate::serve) fn n_servers(&self) -> usize {
        self.servers.len()
    }

    /// What a server held at the cut. If one way to it is damaged, another may not be.
    pub(in crate::serve) fn read(&self, server: usize) -> SnapshotResult<ServerState> {
        let SourceServer { path, chain } = &self.servers[server];
        let mut failed = None;
        for way in chain.ways_to(self.cut) {
            match read_way(path, &way) {
                Ok(mut state) => {
                    state.journal = journal(path, chain, &self.owner, self.cut)?;
                    return Ok(state);
                }
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or(BadSnapshot::None))
    }
}

fn headers(folder: &Path) -> SnapshotResult<Vec<(String, Header)>> {
    let mut headers = Vec::new();
    for name in names_in(folder)? {
        match header_of(&folder.join(&name), &name) {
            Ok(Some(header)) => headers.push((name, header)),
            // Another cut may be whole.
            Ok(None) | Err(BadSnapshot::Damaged { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(headers)
}

fn journal(folder: &Path, chain: &Chain, owner: &Owner, cut: u64) -> SnapshotResult<Vec<u8>> {
    let records = Journal::open(folder, owner)?.read()?;
    let next = records.last().map_or(0, |record| record.at.cut.saturating_add(1));
    let mut all: Vec<u8> = records.into_iter().flat_map(|record| record.contents).collect();
    for file in chain.files().iter().filter(|file| (next..=cut).contains(&file.at.cut)) {
        all.extend(journal_of(folder, file)?.unwrap_or_default());
    }
    Ok(all)
}

fn read_way(folder: &Path, way: &[Known]) -> SnapshotResult<ServerState> {
    let mut state = ServerState::default();
    for file in way {
        state.take(&mut open(folder, file)?)?;
    }
    Ok(state)
}

impl ServerState {
    /// Takes what a file adds.
    pub(super) fn take(&mut self, file: &mut FileReader) -> SnapshotResult<()> {
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
                    Some(table) => table.take(kind, file)?,
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
    fn take(&mut self, kind: Kind, file: &mut FileReader) -> SnapshotResult<()> {
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
                read_names(file, kind, 0, &mut rows.numbers)?;
            }
            (Kind::Rows, Some(rows)) => rows.take(file)?,
            (Kind::Waiting, Some(rows)) => rows.waiting.extend(read_waiting(file)?),
            _ => return Err(file.damaged("a table has parts before its head")),
        }
        Ok(())
    }
}

/// Larger rows are none; they are tensors of a few thousand numbers at most.
const ROW_BYTES_MAX: u64 = 1 << 28;

impl RowsState {
    fn n_places(head: &RowsHead) -> u64 {
        head.n_rows.saturating_add(head.absent.is_some().into())
    }

    /// Memory for what a head says; the error is what is wrong with it. New rows are in the rest of the file,
    /// which has `n_left` bytes.
    fn resize(&mut self, head: RowsHead, n_left: u64) -> Result<(), &'static str> {
        let n_places = usize::try_from(Self::n_places(&head)).unwrap_or(usize::MAX);
        if u32::try_from(n_places).is_err() {
            return Err("a table has too many rows");
        }
        let n_new = head.n_rows.saturating_sub(self.head.n_rows);
        let row_bytes: u64 = head.vars.iter().map(|(_, row_bytes)| u64::from(*row_bytes)).sum();
        let one = row_bytes.saturating_add(if head.inits.is_empty() { 0 } else { 8 });
        // The row that stands for those that do not exist comes with the first file.
        if n_new.checked_mul(one).is_none_or(|n_bytes| n_bytes > n_left)
            || row_bytes > ROW_BYTES_MAX
        {
            return Err("a table has more rows than the file");
        }
        if !head.inits.is_empty() {
            self.numbers.resize(head.n_rows as usize, u64::MAX);
        }
        self.values.resize(head.vars.len(), Vec::new());
        for (values, (_, row_bytes)) in self.values.iter_mut().zip(&head.vars) {
            let n_bytes = n_places.checked_mul(*row_bytes as usize);
            values.resize(n_bytes.ok_or("a table has too many bytes")?, 0);
        }
        self.head = head;
        Ok(())
    }

    fn take(&mut self, file: &mut FileReader) -> SnapshotResult<()> {
        let row_bytes = self.head.vars.iter().map(|(_, row_bytes)| *row_bytes as usize).sum();
        let places = read_places(file, row_bytes, Self::n_places(&self.head) as usize)?;
        for (values, (_, row_bytes)) in self.values.iter_mut().zip(&self.head.vars) {
            read_rows(file, &places, values, *row_bytes as usize)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_takes_no_memory_for_rows_that_are_not_there() {
        let head = |n_rows, row_bytes, inits: &[&str]| RowsHead {
            n_rows,
            vars: vec![("t".to_string(), row_bytes)],
            inits: inits.iter().map(|text| text.to_string()).collect(),
            ..RowsHead::default()
        };
        let mut rows = RowsState::default();
        rows.resize(head(10, 12, &["zeros"]), 200).unwrap();
        assert_eq!((rows.numbers.len(), rows.values[0].len()), (10, 120));
        // An increment has the new ones.
        rows.resize(head(12, 12, &["zeros"]), 40).unwrap();
        for (n_rows, row_bytes) in [(13, 12), (1 << 31, 12), (12, u32::MAX), (u64::MAX, 1)] {
            assert!(rows.resize(head(n_rows, row_bytes, &["zeros"]), 19).is_err(), "{n_rows}");
        }
    }
}
