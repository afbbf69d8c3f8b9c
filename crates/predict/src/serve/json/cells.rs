//! A body for a model that CTR saved: a table.

use ctr::{Cell, Encoding, values_of};
use data::{DataFrame, Series};

use super::super::body::{Allowed, BadBody};
use super::read::{ColumnSink, Scalar, read};
use crate::error::Error;

/// Bytes of a text besides its letters: the system rounds up, and knows its length.
const TEXT_BYTES: usize = 32;
/// Bytes of a value in a table, in a tensor, and in samples.
const VALUE_BYTES: usize = 24;

type Result<T> = std::result::Result<T, BadBody>;

/// The table of a body. It has the columns that the model reads; others are left out.
pub(in super::super) fn table(
    body: &[u8],
    encoding: &Encoding,
    allowed: &mut Allowed<'_>,
) -> Result<DataFrame> {
    let n = encoding.features.len();
    let columns = (0..n).map(|_| TableColumn::default()).collect();
    let mut cells = TableColumns { encoding, allowed, columns, n_rows: 0 };
    read(body, &mut cells)?;
    let TableColumns { columns, allowed, .. } = cells;
    let mut series = Vec::new();
    for (column, feature) in columns.into_iter().zip(&encoding.features) {
        if !column.is_given {
            continue;
        }
        allowed.held.take(column.cells.len() * VALUE_BYTES + column.n_text_bytes)?;
        let values = values_of(&feature.name, &column.cells).map_err(Error::Table)?;
        series.push(Series { name: feature.name.clone(), values });
    }
    Ok(DataFrame::new(series).map_err(ctr::Error::from).map_err(Error::Table)?)
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
        Ok(self.encoding.features.iter().position(|feature| feature.name == name))
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
        match column.cells.len() > self.allowed.n_samples_max {
            true => Err(BadBody::TooMany(self.allowed.n_samples_max)),
            false => Ok(()),
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
        let column = self.name(at).to_string();
        match n(at) < self.n_rows {
            true => {
                let near = tensor::DidYouMean::default();
                Err(Error::Table(ctr::Error::MissingColumn { column, near }).into())
            }
            false => Err(BadBody::Form(format!("column `{column}` is twice in one row"))),
        }
    }
}
