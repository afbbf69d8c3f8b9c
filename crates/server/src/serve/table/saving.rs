//! The files of a save: the rows of a captured table, in the order of their numbers.

use crate::table::{EntryFilter, RowNames};
use program::distributed::Spread;
use tensor::{DType, OtherRow};

use super::cut::CutChunk;
use crate::error::Result;
use train::folder::Stage;
use train::io;
use train::io::rows::{self, Form, Naming, PieceFile};

/// What is known of all rows of a table that is saved, when it is captured.
#[derive(Debug)]
pub(in crate::serve) struct SavedRows {
    pub(in crate::serve) files: Files,
    /// Rows that existed: those with a lower place in the index.
    pub(super) n_rows: usize,
    /// The number of the first row of this piece in the whole table.
    pub(super) first: i64,
    pub(in crate::serve) form: Form,
    /// For each variable that is saved, what rows read as that do not exist.
    pub(super) rules: Vec<OtherRow>,
}

/// The rows of a table at one moment, in the order of their numbers, without their values.
pub(in crate::serve) struct ListedRows {
    of: SavedRows,
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

impl SavedRows {
    /// Lists the rows. `next` gives some of them at a time, so that the table is held for moments only; they
    /// are sorted here, where nobody waits. Nothing if the capture was given up.
    pub(in crate::serve) fn listed(self, mut next: impl FnMut() -> CutChunk) -> Option<ListedRows> {
        let (mut rows, mut waiting) = (Vec::with_capacity(self.n_rows), Vec::new());
        loop {
            match next() {
                CutChunk::Names(RowNames::ByPlace { first, rows: some }) => {
                    rows.extend(some.into_iter().zip(first as u32..));
                }
                CutChunk::Names(RowNames::ByRow { first, rows: some }) => {
                    let all = some.into_iter();
                    rows.extend(all.map(|(offset, place)| (first + u64::from(offset), place)));
                }
                CutChunk::Waiting(some) => waiting.extend(some),
                CutChunk::End => break,
                // The values of rows are asked for in the order of their numbers.
                CutChunk::Rows(_) | CutChunk::GivenUp => return None,
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
    /// Writes the variables that are saved; `chunk` gives the bytes of some rows of a variable, by their
    /// places in the index, and none if the table is gone.
    pub(in crate::serve) fn write(
        &self,
        stage: &Stage,
        mut chunk: impl FnMut(usize, &[u32]) -> Option<Vec<u8>>,
    ) -> Result<()> {
        let SavedRows { files, form, first, .. } = &self.of;
        let number = |&(row, _): &(u64, u32)| row as i64 + first;
        let (spread, row_bytes) = (files.spread, form.width * form.dtype.size());
        for (at, (var, naming)) in files.vars.iter().enumerate() {
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
        let Some(name) = &files.waiting else { return Ok(()) };
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
