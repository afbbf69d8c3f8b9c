//! A body for a model that CTR saved: a table.

use std::cell::RefCell;

use ctr::{Cell, Encoding, values_of};
use data::{DataFrame, Series};

use super::super::body::{Allowed, BadBody};
use super::read::{ColumnSink, Scalar, read};
use crate::error::Error;

/// Bytes of a text besides its letters: the system rounds up, and knows its length.
const TEXT_BYTES: usize = 32;
/// Bytes of a value in a table, in a tensor, and in samples.
const VALUE_BYTES: usize = 24;

/// Names of unknown columns, and their letters, that are kept for a warning.
const UNREAD_MAX: usize = 8;
const NAME_BYTES_MAX: usize = 100;

type Result<T> = std::result::Result<T, BadBody>;

/// The table of a body.
pub(in super::super) struct RequestTable {
    /// The columns that the model reads.
    pub(in super::super) frame: DataFrame,
    /// The names of the first others.
    pub(in super::super) unread: Vec<String>,
}

/// The table of a body. It has the columns that the model reads; others are left out.
pub(in super::super) fn table(
    body: &[u8],
    encoding: &Encoding,
    allowed: &mut Allowed<'_>,
) -> Result<RequestTable> {
    let n = encoding.features.len();
    let columns = (0..n).map(|_| TableColumn::default()).collect();
    let mut cells =
        TableColumns { encoding, allowed, columns, n_rows: 0, unread: RefCell::default() };
    read(body, &mut cells)?;
    let TableColumns { columns, allowed, unread, .. } = cells;
    let mut series = Vec::new();
    for (column, feature) in columns.into_iter().zip(&encoding.features) {
        if !column.is_given {
            continue;
        }
        allowed.held.take(column.cells.len() * VALUE_BYTES + column.n_text_bytes)?;
        let values = values_of(&feature.name, &column.cells).map_err(Error::Table)?;
        series.push(Series { name: feature.name.clone(), values });
    }
    let unread = unread.into_inner();
    if series.len() < encoding.features.len() {
        let is_given = |name: &String| series.iter().any(|one| one.name == *name);
        let names = encoding.features.iter().map(|feature| &feature.name);
        let missing = names.filter(|name| !is_given(name)).cloned().collect();
        return Err(Error::Table(ctr::Error::missing(missing, &unread)).into());
    }
    let frame = DataFrame::new(series).map_err(ctr::Error::from).map_err(Error::Table)?;
    Ok(RequestTable { frame, unread })
}

#[derive(Default)]
struct TableColumn {
    is_given: bool,
    cells: Vec<Cell>,
    n_text_bytes: usize,
}

struct TableColumns<'a, 'b> {
    encoding: &'a Encoding,
    allowed: &'a mut Allowed<'b>,
    columns: Vec<TableColumn>,
    n_rows: usize,
    unread: RefCell<Vec<String>>,
}

impl TableColumns<'_, '_> {
    fn name(&self, at: usize) -> &str {
        &self.encoding.features[at].name
    }

    fn unsupported<T>(&self, at: usize, found: &str) -> Result<T> {
        let (column, found) = (self.name(at).to_string(), found.to_string());
        Err(Error::Table(ctr::Error::Unsupported { column, found }).into())
    }
}

impl ColumnSink for TableColumns<'_, '_> {
    fn find(&self, name: &str) -> Result<Option<usize>> {
        let found = self.encoding.features.iter().position(|feature| feature.name == name);
        if found.is_none() && name != self.encoding.target.name {
            let mut unread = self.unread.borrow_mut();
            let name = &name[..name.floor_char_boundary(NAME_BYTES_MAX)];
            if unread.len() < UNREAD_MAX && unread.iter().all(|known| known != name) {
                unread.push(name.to_string());
            }
        }
        Ok(found)
    }

    fn begin_column(&mut self, at: usize) -> Result<()> {
        self.columns[at] = TableColumn { is_given: true, ..TableColumn::default() };
        Ok(())
    }

    fn begin_rows(&mut self) {
        self.columns.iter_mut().for_each(|column| column.is_given = true);
    }

    fn list(&mut self, at: usize) -> Result<()> {
        self.unsupported(at, "a list")
    }

    fn value(&mut self, at: usize, value: Scalar<'_>) -> Result<()> {
        let cell = match value {
            Scalar::Null => Cell::Missing,
            Scalar::Truth(truth) => Cell::Whole(truth.into()),
            Scalar::Integer(number) => Cell::Whole(number),
            Scalar::Large(number) => Cell::Large(number),
            Scalar::Number(number) => Cell::Float(number),
            Scalar::Text(text) => {
                self.allowed.held.take(text.len() + TEXT_BYTES)?;
                self.columns[at].n_text_bytes += text.len();
                Cell::Text(text.to_string())
            }
            Scalar::Object => return self.unsupported(at, "an object"),
        };
        let column = &mut self.columns[at];
        self.allowed.held.push(&mut column.cells, cell)?;
        if column.cells.len() > self.allowed.n_samples_max {
            Err(BadBody::TooMany(self.allowed.n_samples_max))
        } else {
            Ok(())
        }
    }

    fn end_sample(&mut self, _at: usize) -> Result<()> {
        Ok(())
    }

    fn end_row(&mut self) -> Result<()> {
        self.n_rows += 1;
        if self.n_rows > self.allowed.n_samples_max {
            return Err(BadBody::TooMany(self.allowed.n_samples_max));
        }
        let n = |at: usize| self.columns[at].cells.len();
        let Some(at) = (0..self.columns.len()).find(|&at| n(at) != self.n_rows) else {
            return Ok(());
        };
        if n(at) > self.n_rows {
            return Err(BadBody::Form(format!("column `{}` is twice in one row", self.name(at))));
        }
        let missing = (at..self.columns.len()).filter(|&at| n(at) < self.n_rows);
        let missing = missing.map(|at| self.name(at).to_string()).collect();
        Err(Error::Table(ctr::Error::missing(missing, &self.unread.borrow())).into())
    }
}
