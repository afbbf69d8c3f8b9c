//! A table as it was at one moment, while it is written and others go on changing it.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use program::distributed::Spread;
use tensor::{DType, OtherRow, Tensor, Value};

use crate::error::Result;
use crate::folder::Stage;
use crate::io;
use crate::io::rows::{self, Form, Naming, PieceFile};
use crate::scope::Scope;

/// What is written of a table.
pub(in crate::serve) enum Snapshot {
    /// A value that does not change: an update that changes it makes a copy first.
    Whole(Arc<Value>),
    /// Rows, which are fetched bit by bit.
    Rows(RowsSnapshot),
}

/// The rows of a table at one moment, without their numbers.
pub(in crate::serve) struct RowsSnapshot {
    pub(in crate::serve) files: Files,
    /// Numbers of the rows in the whole table, ascending.
    pub(in crate::serve) ids: Vec<i64>,
    pub(in crate::serve) form: Form,
    /// Rows that an entry rule has not taken in, and how often they were named.
    pub(in crate::serve) waiting: Vec<(i64, u32)>,
    /// For each variable, what rows read as that do not exist.
    pub(in crate::serve) rules: Vec<OtherRow>,
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
    pub(in crate::serve) fn piece<'a>(&self, var: &'a str, naming: Naming) -> PieceFile<'a> {
        PieceFile { var, number: self.number, n: self.n, naming }
    }
}

impl RowsSnapshot {
    /// Writes all variables into a save, or the weights alone; `chunk` gives the bytes of some rows of a variable, and none if
    /// the table is gone.
    pub(in crate::serve) fn write(
        &self,
        stage: &Stage,
        weights_only: bool,
        mut chunk: impl FnMut(usize, Range<usize>) -> Option<Vec<u8>>,
    ) -> Result<()> {
        let (n, row_bytes) = (self.ids.len(), self.form.width * self.form.dtype.size());
        let (spread, n_rows) = (self.files.spread, (CHUNK_BYTES / row_bytes.max(1)).max(1));
        let n_vars = if weights_only { 1 } else { self.files.vars.len() };
        for (at, (var, naming)) in self.files.vars.iter().enumerate().take(n_vars) {
            let piece = self.files.piece(var, *naming);
            let chunks = (0..n).step_by(n_rows).map(|from| {
                let rows = from..n.min(from + n_rows);
                chunk(at, rows).ok_or_else(|| std::io::Error::other("the table is gone"))
            });
            let ids = self.ids.iter().copied();
            rows::write_piece(piece.create(stage, spread)?, piece.var, self.form, ids, chunks)?;
            if let Some(rule) = self.rules.get(at) {
                io::write_rule(stage, piece, rule)?;
            }
        }
        let waiting = self.files.waiting.as_ref().filter(|_| !weights_only);
        let Some(name) = waiting else { return Ok(()) };
        let counts = rows::counts_to_bytes(self.waiting.iter().map(|&(_, count)| count));
        let ids = self.waiting.iter().map(|&(row, _)| row);
        let form = Form { width: 1, dtype: DType::I64, ..self.form };
        let piece = self.files.piece(name, Naming::Counted);
        let file = piece.create(stage, spread)?;
        rows::write_piece(file, piece.var, form, ids, std::iter::once(Ok(counts)))
    }
}

/// Bytes that are copied at once, while nobody changes the table.
const CHUNK_BYTES: usize = 1 << 20;

/// The rows of one moment, while they are being written.
#[derive(Debug)]
pub(super) enum Moment {
    /// An update continues with a copy of the whole table, because it changes every row.
    Shared { places: Vec<usize>, tensors: Vec<Arc<Tensor>> },
    /// An update keeps the old values of the rows that it changes.
    Kept(OldRows),
}

/// What rows were that changed before they were written.
#[derive(Debug)]
pub(super) struct OldRows {
    /// Where the rows are, in the order in which they are written.
    places: Vec<usize>,
    /// For each place, its position in the order; none if the row was made since.
    positions: Vec<Option<u32>>,
    /// Rows that are written, by variable.
    written: Vec<usize>,
    /// By variable and place. Never walked through.
    rows: HashMap<(usize, usize), Vec<u8>>,
}

impl Moment {
    /// Every update changes all rows.
    pub(super) fn shared<'a>(
        scope: &Scope,
        vars: impl Iterator<Item = &'a str>,
        places: Vec<usize>,
    ) -> Self {
        let share = |name| scope.write(name, Value::share).unwrap_or_default();
        Moment::Shared { places, tensors: vars.map(share).collect() }
    }

    /// Updates change the rows that gradients list.
    pub(super) fn kept(n_vars: usize, places: Vec<usize>) -> Self {
        let mut positions = vec![None; places.iter().max().map_or(0, |max| max + 1)];
        for (&place, position) in places.iter().zip(0..) {
            positions[place] = Some(position);
        }
        Moment::Kept(OldRows { places, positions, written: vec![0; n_vars], rows: HashMap::new() })
    }

    /// Rows are about to change.
    pub(super) fn keep<'a>(
        &mut self,
        scope: &Scope,
        vars: impl Iterator<Item = &'a str>,
        changing: &[i64],
    ) {
        let Moment::Kept(kept) = self else { return };
        for (var, name) in vars.enumerate() {
            scope.read(name, |value| {
                if let Some(tensor) = value.tensor() {
                    changing.iter().for_each(|&place| kept.keep(var, place as usize, tensor));
                }
            });
        }
    }

    /// The bytes of some rows of a variable, which are written then.
    pub(super) fn chunk(
        &mut self,
        scope: &Scope,
        var: usize,
        name: &str,
        rows: Range<usize>,
    ) -> Option<Vec<u8>> {
        match self {
            Moment::Shared { places, tensors } => {
                let rows = places.get(rows)?.iter().copied();
                Some(rows::rows_of(tensors.get(var)?, rows).flatten().copied().collect())
            }
            Moment::Kept(kept) => {
                scope.read(name, |value| kept.chunk(var, value.tensor()?, rows))?
            }
        }
    }
}

impl OldRows {
    fn keep(&mut self, var: usize, place: usize, tensor: &Tensor) {
        let Some(Some(position)) = self.positions.get(place) else { return };
        if (*position as usize) < self.written[var] {
            return;
        }
        self.rows.entry((var, place)).or_insert_with(|| {
            rows::rows_of(tensor, std::iter::once(place)).flatten().copied().collect()
        });
    }

    fn chunk(&mut self, var: usize, tensor: &Tensor, range: Range<usize>) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        for &place in self.places.get(range.clone())? {
            match self.rows.remove(&(var, place)) {
                Some(row) => bytes.extend_from_slice(&row),
                None => bytes.extend(rows::rows_of(tensor, std::iter::once(place)).flatten()),
            }
        }
        self.written[var] = range.end;
        Some(bytes)
    }
}
