//! A table as it was at one moment, while it is written and others go on changing it.

use std::collections::HashMap;
use std::sync::Arc;

use program::distributed::Spread;
use tensor::{DType, OtherRow, Tensor, Value};
use train::folder::Stage;
use train::io::rows::{self, Form, Naming, PieceFile};
use train::row_set::RowSet;
use train::{Scope, io};

use crate::table::{EntryFilter, NamesCursor, RowNames};

use crate::error::Result;

/// What is written of a table.
pub(in crate::serve) enum Snapshot {
    /// A value that does not change: an update that changes it makes a copy first.
    Whole(Arc<Value>),
    /// Rows, which are listed and fetched bit by bit.
    Rows(RowsSnapshot),
}

/// The rows of a table at one moment: what is known of all of them.
pub(in crate::serve) struct RowsSnapshot {
    pub(in crate::serve) files: Files,
    /// Rows that existed: those with a lower place in the index.
    pub(super) n_rows: usize,
    /// The number of the first row of this piece in the whole table.
    pub(super) first: i64,
    pub(in crate::serve) form: Form,
    /// For each variable, what rows read as that do not exist.
    pub(super) rules: Vec<OtherRow>,
}

/// Some rows of a save.
#[derive(Debug)]
pub(in crate::serve) enum SavedNames {
    /// Numbers and places. There may be rows among them that were made since, and rows may occur twice.
    Rows(RowNames),
    /// Rows that an entry rule has not taken in, and how often they were named. A later entry is right.
    Waiting(Vec<(u64, u32)>),
}

/// The rows of a table at one moment, in the order of their numbers, without their values.
pub(in crate::serve) struct ListedRows {
    of: RowsSnapshot,
    /// Their numbers on this server, ascending, and their places in the index.
    rows: Vec<(u64, u32)>,
    /// Rows that an entry rule has not taken in, and how often they were named.
    waiting: Vec<(u64, u32)>,
}

/// The files of a table.
#[derive(Clone, Debug)]
pub(in crate::serve) struct Files {
    /// Its variables, weights first.
    pub(in crate::serve) vars: Vec<(String, Naming)>,
    /// The variable with rows that wait, where there is a rule.
    pub(in crate::serve) waiting: Option<String>,
    /// Which piece it is, of how many.
    pub(in crate::serve) number: usize,
    pub(in crate::serve) n: usize,
    pub(in crate::serve) spread: Spread,
}

impl Files {
    /// The name of the table.
    pub(in crate::serve) fn table(&self) -> String {
        self.vars.first().map(|(var, _)| var.clone()).unwrap_or_default()
    }

    pub(in crate::serve) fn piece<'a>(&self, var: &'a str, naming: Naming) -> PieceFile<'a> {
        PieceFile { var, number: self.number, n: self.n, naming }
    }
}

impl RowsSnapshot {
    /// Lists the rows. `next` gives some of them at a time, so that the table is held for moments only; they
    /// are sorted here, where nobody waits. Nothing if the table is gone.
    pub(in crate::serve) fn listed(
        self,
        mut next: impl FnMut() -> Option<Option<SavedNames>>,
    ) -> Option<ListedRows> {
        let (mut rows, mut waiting) = (Vec::with_capacity(self.n_rows), Vec::new());
        while let Some(names) = next()? {
            match names {
                SavedNames::Rows(RowNames::ByPlace { first, rows: some }) => {
                    rows.extend(some.into_iter().zip(first as u32..));
                }
                SavedNames::Rows(RowNames::ByRow { first, rows: some }) => {
                    let all = some.into_iter();
                    rows.extend(all.map(|(offset, place)| (first + u64::from(offset), place)));
                }
                SavedNames::Waiting(some) => waiting.extend(some),
            }
        }
        rows.retain(|&(_, place)| (place as usize) < self.n_rows);
        rows.sort_unstable();
        rows.dedup();
        let mut waiting = EntryFilter::settle(waiting);
        waiting.retain(|&(_, count)| count > 0);
        Some(ListedRows { of: self, rows, waiting })
    }
}

impl ListedRows {
    /// Writes all variables into a save, or the weights alone; `chunk` gives the bytes of some rows of a variable, by their
    /// places in the index, and none if the table is gone.
    pub(in crate::serve) fn write(
        &self,
        stage: &Stage,
        weights_only: bool,
        mut chunk: impl FnMut(usize, &[u32]) -> Option<Vec<u8>>,
    ) -> Result<()> {
        let RowsSnapshot { files, form, first, .. } = &self.of;
        let number = |&(row, _): &(u64, u32)| row as i64 + first;
        let (spread, row_bytes) = (files.spread, form.width * form.dtype.size());
        let n_vars = if weights_only { 1 } else { files.vars.len() };
        for (at, (var, naming)) in files.vars.iter().enumerate().take(n_vars) {
            let piece = files.piece(var, *naming);
            let chunks = self.rows.chunks((CHUNK_BYTES / row_bytes.max(1)).max(1)).map(|rows| {
                let places: Vec<u32> = rows.iter().map(|&(_, place)| place).collect();
                chunk(at, &places).ok_or_else(|| std::io::Error::other("the table is gone"))
            });
            let ids = self.rows.iter().map(number);
            rows::write_piece(piece.create(stage, spread)?, piece.var, *form, ids, chunks)?;
            if let Some(rule) = self.of.rules.get(at) {
                io::write_rule(stage, piece, rule)?;
            }
        }
        let Some(name) = files.waiting.as_ref().filter(|_| !weights_only) else { return Ok(()) };
        let counts = rows::counts_to_bytes(self.waiting.iter().map(|&(_, count)| count));
        let ids = self.waiting.iter().map(number);
        let form = Form { width: 1, dtype: DType::I64, ..*form };
        let piece = files.piece(name, Naming::Counted);
        let file = piece.create(stage, spread)?;
        Ok(rows::write_piece(file, piece.var, form, ids, std::iter::once(Ok(counts)))?)
    }
}

/// Bytes that are copied at once, while nobody changes the table.
const CHUNK_BYTES: usize = 1 << 20;

/// What a table holds for a save that is being written.
#[derive(Debug)]
pub(in crate::serve) struct Moment {
    values: MomentValues,
    pub(super) step: ListStep,
    /// Names the list of rows that wait, until it has been read.
    pub(super) scan: Option<u64>,
}

/// What is listed next for a save.
#[derive(Clone, Copy, Debug)]
pub(super) enum ListStep {
    /// So many rows, and those that were made since.
    Rows {
        cursor: NamesCursor,
        n_rows: usize,
    },
    Waiting,
}

#[derive(Debug)]
enum MomentValues {
    /// An update continues with a copy of the whole table, because it changes every row.
    Shared(Vec<Arc<Tensor>>),
    /// An update keeps the old values of the rows that it changes.
    Kept(OldRows),
}

/// What rows were that changed before they were written.
#[derive(Debug)]
struct OldRows {
    /// Rows have lower places, if they were not made since.
    n_places: usize,
    /// Rows that are written, for each variable that is.
    written: Vec<RowSet>,
    /// By variable and place. Never walked through.
    rows: HashMap<(usize, usize), Vec<u8>>,
}

impl Moment {
    /// Every update changes all rows.
    pub(super) fn shared<'a>(
        scope: &Scope,
        vars: impl Iterator<Item = &'a str>,
        n_rows: usize,
    ) -> Self {
        let share = |name| scope.write(name, Value::share).unwrap_or_default();
        Self::of(MomentValues::Shared(vars.map(share).collect()), n_rows)
    }

    /// Updates change the rows that gradients list.
    pub(super) fn kept(n_vars: usize, n_rows: usize) -> Self {
        let written = vec![RowSet::default(); n_vars];
        // One more place is that of the row that stands for all others.
        let old = OldRows { n_places: n_rows + 1, written, rows: HashMap::new() };
        Self::of(MomentValues::Kept(old), n_rows)
    }

    fn of(values: MomentValues, n_rows: usize) -> Self {
        let step = ListStep::Rows { cursor: NamesCursor::default(), n_rows };
        Self { values, step, scan: None }
    }

    /// Rows are about to change.
    pub(super) fn keep<'a>(
        &mut self,
        scope: &Scope,
        vars: impl Iterator<Item = &'a str>,
        changing: &[i64],
    ) {
        let MomentValues::Kept(kept) = &mut self.values else { return };
        for (var, name) in vars.enumerate().take(kept.written.len()) {
            scope.read(name, |value| {
                if let Some(tensor) = value.tensor() {
                    changing.iter().for_each(|&place| kept.keep(var, place as usize, tensor));
                }
            });
        }
    }

    /// The bytes of rows of a variable, which are written then.
    pub(super) fn chunk(
        &mut self,
        scope: &Scope,
        var: usize,
        name: &str,
        places: impl Iterator<Item = usize>,
    ) -> Option<Vec<u8>> {
        match &mut self.values {
            MomentValues::Shared(tensors) => Some(rows::bytes_of_rows(tensors.get(var)?, places)),
            MomentValues::Kept(kept) => {
                scope.read(name, |value| kept.chunk(var, value.tensor()?, places))?
            }
        }
    }
}

impl OldRows {
    fn keep(&mut self, var: usize, place: usize, tensor: &Tensor) {
        if place >= self.n_places || self.written[var].contains(place) {
            return;
        }
        let now = || rows::bytes_of_rows(tensor, std::iter::once(place));
        self.rows.entry((var, place)).or_insert_with(now);
    }

    fn chunk(
        &mut self,
        var: usize,
        tensor: &Tensor,
        places: impl Iterator<Item = usize>,
    ) -> Option<Vec<u8>> {
        let (old, written) = (&mut self.rows, self.written.get_mut(var)?);
        let places = places.inspect(|&place| written.insert(place));
        if old.is_empty() {
            return Some(rows::bytes_of_rows(tensor, places));
        }
        let mut bytes = Vec::new();
        for place in places {
            match old.remove(&(var, place)) {
                Some(row) => bytes.extend_from_slice(&row),
                None => rows::rows_of(tensor, std::iter::once(place))
                    .for_each(|row| bytes.extend_from_slice(row)),
            }
        }
        Some(bytes)
    }
}
