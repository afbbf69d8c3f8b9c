//! Tables that come row by row.

use std::collections::BTreeMap;

use data::{DataFrame, Series};

use crate::cells::{Cell, values_of};
use crate::encode::Encoding;
use crate::error::{Error, Result};

/// A value of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedCell {
    /// The column.
    pub name: String,
    /// The value.
    pub cell: Cell,
}

/// A table of rows, each a value for each name. If a model is to read it, a row may leave out columns that the model does not read.
pub fn frame_of_rows(rows: Vec<Vec<NamedCell>>, encoding: Option<&Encoding>) -> Result<DataFrame> {
    let n_rows = rows.len();
    let (mut names, mut places): (Vec<String>, BTreeMap<String, usize>) = Default::default();
    let mut columns: Vec<Vec<Cell>> = Vec::new();
    for (row, cells) in rows.into_iter().enumerate() {
        for NamedCell { name, cell } in cells {
            let place = *places.entry(name).or_insert_with_key(|name| {
                names.push(name.clone());
                columns.push(Vec::new());
                names.len() - 1
            });
            let column = &mut columns[place];
            if column.len() > row {
                let (file, reason) = (format!("row {row}"), "it is there twice".to_string());
                return Err(
                    data::Error::BadColumn { file, column: names[place].clone(), reason }.into()
                );
            }
            pad(&names[place], column, row, encoding)?;
            column.push(cell);
        }
    }
    let mut series = Vec::with_capacity(names.len());
    for (name, mut cells) in names.into_iter().zip(columns) {
        pad(&name, &mut cells, n_rows, encoding)?;
        let values = values_of(&name, &cells)?;
        series.push(Series { name, values });
    }
    Ok(DataFrame::new(series)?)
}

/// Fills a column that some rows leave out with empty cells, if the model does not read it.
fn pad(name: &str, cells: &mut Vec<Cell>, n: usize, encoding: Option<&Encoding>) -> Result<()> {
    let is_read =
        |encoding: &Encoding| encoding.features.iter().any(|feature| feature.name == name);
    if cells.len() < n && encoding.is_none_or(is_read) {
        return Err(Error::MissingValue { column: name.to_string(), row: cells.len() });
    }
    cells.resize(n, Cell::Missing);
    Ok(())
}
