//! A capture of a table while it is written: what it has itself, and how far the rest of it is.

use std::borrow::Cow;
use std::io;

use tensor::{DType, Shape, Tensor, Value};

use crate::table::{EntryFilter, NamesCursor, RowNames};

use super::saving::SavedRows;
use super::tracking::Extent;
use super::{KeptVar, Shared, Updater};
use crate::bad_snapshot::BadSnapshot;
use crate::serve::snapshot::{
    FileReader, FileWriter, Kind, RowsChunk, RowsHead, names_section, read_value, waiting_to_bytes,
};
use crate::serve::values::n_bytes_of;

/// What a table was at a cut.
#[derive(Debug)]
pub(in crate::serve) struct TableCut {
    pub(in crate::serve) extent: Extent,
    /// Whole values. An update that changes one makes a copy first.
    pub(in crate::serve) values: Vec<(String, Value)>,
    pub(super) rows: Option<RowsCut>,
    /// Rows that trainers have not seen.
    pub(super) unseen: Option<Vec<u8>>,
    /// What the files of a save need to know, of a table of rows.
    pub(in crate::serve) saved: Option<SavedRows>,
}

/// A table of rows at a cut, without the rows.
#[derive(Debug)]
pub(super) struct RowsCut {
    pub(super) head: RowsHead,
    /// Names the rows in the table.
    pub(super) capture: u64,
    /// Rows made since the last cut, in order of their places, and the place of the first.
    pub(super) made: Vec<u64>,
    pub(super) first_made: usize,
    /// Rows that wait, of which the number changed.
    pub(super) waiting: Vec<(u64, u32)>,
    /// Names the list of all rows that wait.
    pub(super) scan: Option<u64>,
    pub(super) step: CutStep,
}

impl RowsCut {
    /// A cut of a table in which no row was made.
    pub(super) fn new(head: RowsHead, capture: u64, step: CutStep) -> Self {
        let (made, waiting) = (Vec::new(), Vec::new());
        Self { head, capture, made, first_made: 0, waiting, scan: None, step }
    }
}

/// What comes next of a cut.
#[derive(Clone, Copy, Debug)]
pub(super) enum CutStep {
    /// Numbers of all rows.
    Names(NamesCursor),
    Rows,
    /// All rows that wait.
    Waiting,
    End,
}

/// A part of a cut, to be written.
#[derive(Debug)]
pub(in crate::serve) enum CutChunk {
    /// Numbers and places of rows. There may be rows among them that were made since, and rows may occur twice.
    Names(RowNames),
    Rows(RowsChunk),
    /// Rows that an entry rule has not taken in, and how often they were named. A later entry is right.
    Waiting(Vec<(u64, u32)>),
    /// Nothing more.
    End,
    /// The table has been loaded: the capture cannot be read any more.
    GivenUp,
}

impl CutChunk {
    /// Writes it into a file; false if it is no part of one.
    pub(in crate::serve) fn write(
        self,
        file: &mut FileWriter,
        table: usize,
        cut: &TableCut,
    ) -> io::Result<bool> {
        match self {
            CutChunk::Names(names) => {
                let n_rows = cut.rows.as_ref().map_or(0, |rows| rows.head.n_rows);
                let (kind, bytes) = names_section(&names, n_rows);
                file.section(kind, table, &[&bytes])?;
            }
            CutChunk::Rows(rows) => rows.write(file, table)?,
            CutChunk::Waiting(waiting) => {
                file.section(Kind::Waiting, table, &[&waiting_to_bytes(&waiting)])?;
            }
            CutChunk::End | CutChunk::GivenUp => return Ok(false),
        }
        Ok(true)
    }
}

/// A variable put together from those of other servers.
#[derive(Debug)]
pub(in crate::serve) struct ImportedValue<'a> {
    /// This server's name for it.
    pub(in crate::serve) name: &'a str,
    pub(in crate::serve) dims: &'a [i64],
    /// The element type, if it is known.
    pub(in crate::serve) dtype: DType,
    /// Its numbers; none if it had never been written.
    pub(in crate::serve) bytes: Option<Cow<'a, [u8]>>,
}

/// Rows of a table as another server had them.
#[derive(Debug)]
pub(in crate::serve) struct RowsImport<'a> {
    /// What the other one knew of the table; nothing if others have told it before.
    pub(in crate::serve) head: Option<&'a RowsHead>,
    /// The table has other rows of that server already: these are new or have changed.
    pub(in crate::serve) is_update: bool,
    /// Where the row is among `values` that stands for those that do not exist.
    pub(in crate::serve) absent: Option<usize>,
    /// Where rows are among `values`, and their numbers here.
    pub(in crate::serve) rows: Vec<(usize, u64)>,
    /// The bytes of rows, by variable of this table.
    pub(in crate::serve) values: Vec<&'a [u8]>,
    /// Rows that wait, and how often each was named.
    pub(in crate::serve) waiting: Vec<(u64, u32)>,
    /// How the rows start there, by variable of this table.
    pub(in crate::serve) inits: Vec<&'a str>,
    /// How many rows after the first row there the first row here is.
    pub(in crate::serve) n_rows_after: i64,
    /// Rows of gradients that were dropped there.
    pub(in crate::serve) n_dropped: u64,
}

impl TableCut {
    /// What is written without asking the table, and before.
    pub(in crate::serve) fn own_sections(&self) -> Vec<(Kind, Vec<u8>)> {
        let mut sections = Vec::new();
        if let Some(rows) = &self.rows {
            sections.push((Kind::RowsHead, rows.head.to_bytes()));
            let has_changes = self.extent == Extent::Changed;
            if has_changes && !rows.made.is_empty() {
                let (first, made) = (rows.first_made, rows.made.clone());
                let names = RowNames::ByPlace { first, rows: made };
                sections.push(names_section(&names, u64::MAX));
            }
            if has_changes && !rows.waiting.is_empty() {
                let settled = EntryFilter::settle(rows.waiting.clone());
                sections.push((Kind::Waiting, waiting_to_bytes(&settled)));
            }
        }
        sections.extend(self.unseen.iter().map(|unseen| (Kind::Unseen, unseen.clone())));
        sections
    }
}

impl Updater {
    /// From now on changes of variables are noted, except those that have cuts by rows.
    pub(super) fn track(&mut self, is_by_rows: impl Fn(&str) -> bool) {
        let is_own = |name: &&str| {
            let is_shared = |shared: &Shared| shared.name == **name;
            !is_by_rows(name) && !self.shared.iter().any(is_shared)
        };
        let kept = self.update.state().into_iter().filter(is_own);
        let one = |name: &str| KeptVar {
            name: name.to_string(),
            is_written: self.update.writes.iter().any(|written| written == name),
            is_changed: false,
        };
        self.kept = kept.map(one).collect();
    }

    /// Bytes of the variables that a cut has as a whole.
    pub(super) fn n_cut_bytes(&self, extent: Extent) -> u64 {
        let kept = self.kept.iter().filter(|var| var.is_changed || extent != Extent::Changed);
        let n_bytes = |value: &Value| n_bytes_of(value) as u64;
        kept.filter_map(|var| self.scope.read(&var.name, n_bytes)).sum()
    }

    /// The variables that a cut has as a whole.
    pub(super) fn mark(&mut self, extent: Extent) -> Vec<(String, Value)> {
        let mut values = Vec::new();
        for var in &mut self.kept {
            let is_wanted = var.is_changed || extent != Extent::Changed;
            var.is_changed &= extent == Extent::Copy;
            if is_wanted && self.scope.find(&var.name).is_some() {
                let shared = self.scope.write(&var.name, |value| match value.share() {
                    Some(tensor) => Value::Shared(tensor),
                    None => value.clone(),
                });
                values.push((var.name.clone(), shared));
            }
        }
        values
    }

    /// Values of a cut that is not durable have changed since the last one that is.
    pub(super) fn put_back(&mut self, cut: &TableCut) {
        if !cut.extent.is_copy() {
            cut.values.iter().for_each(|(name, _)| self.note_change(name));
        }
    }

    /// Nothing has changed since the cut that is being loaded.
    pub(super) fn begin_load(&mut self) {
        self.cache.clear();
        self.kept.iter_mut().for_each(|var| var.is_changed = false);
    }

    /// Takes the value of a variable.
    pub(super) fn load(&mut self, file: &mut FileReader) -> Result<(), BadSnapshot> {
        let (name, value) = read_value(file)?;
        if !self.kept.iter().any(|var| var.name == name) {
            return Err(file.damaged("it has a variable that is not here"));
        }
        let form = |value: &Value| value.tensor().map(|tensor| (tensor.dtype(), tensor.shape()));
        let fits = |own: &Value| {
            form(own).is_none() || form(&value).is_none() || form(own) == form(&value)
        };
        if !self.scope.read(&name, fits).unwrap_or(true) {
            return Err(file.damaged("a variable has another shape"));
        }
        self.scope.set(&name, value);
        Ok(())
    }

    /// Puts numbers where as many are; the error is what is wrong with them.
    pub(super) fn import(&mut self, value: &ImportedValue<'_>) -> Result<(), &'static str> {
        let ImportedValue { name, dims, dtype, bytes } = value;
        self.cache.clear();
        self.note_change(name);
        let Some(bytes) = bytes else {
            self.scope.set(name, Value::Empty);
            return Ok(());
        };
        self.scope.write(name, |own| {
            own.unshare();
            if own.is_empty() {
                let dims: Vec<usize> = dims.iter().map(|&dim| dim.max(0) as usize).collect();
                let mut tensor = Tensor::default();
                tensor.resize_as(*dtype, Shape::new(&dims));
                *own = Value::Tensor(tensor);
            }
            match own {
                Value::Tensor(own) if own.bytes().len() == bytes.len() => {
                    own.bytes_mut().copy_from_slice(bytes);
                    Ok(())
                }
                _ => Err("a variable has another shape"),
            }
        })
    }
}
