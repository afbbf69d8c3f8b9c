//! The values of columns, as numbers and as texts.

use std::borrow::Cow;

use data::{Texts, Values};

use crate::error::{Error, Result};

/// A value of a column whose type is not known.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Nothing.
    Missing,
    /// A whole number, or a truth value.
    Whole(i64),
    /// A number.
    Float(f64),
    /// A text.
    Text(String),
}

impl Cell {
    fn type_name(&self) -> &'static str {
        match self {
            Cell::Missing => "nothing",
            Cell::Whole(_) | Cell::Float(_) => "numbers",
            Cell::Text(_) => "texts",
        }
    }
}

/// Values of one type out of cells of any; texts beside numbers are refused.
pub fn values_of(column: &str, cells: &[Cell]) -> Result<Values> {
    let is_something = |cell: &&Cell| **cell != Cell::Missing;
    let first = cells.iter().find(is_something).map_or("nothing", Cell::type_name);
    let differs = |cell: &Cell| *cell != Cell::Missing && cell.type_name() != first;
    if let Some(row) = cells.iter().position(differs) {
        let (column, found) = (column.to_string(), cells[row].type_name());
        return Err(Error::MixedColumn { column, row, first, found });
    }
    if first == "texts" {
        let mut texts = Texts::default();
        for cell in cells {
            texts.push(if let Cell::Text(text) = cell { text.as_bytes() } else { b"" });
        }
        return Ok(Values::Text(texts));
    }
    let whole = |cell: &Cell| if let Cell::Whole(number) = cell { Some(*number) } else { None };
    if let Some(whole) = cells.iter().map(whole).collect::<Option<Vec<i64>>>() {
        return Ok(Values::Whole(whole));
    }
    let float = |cell: &Cell| match cell {
        Cell::Whole(number) => *number as f64,
        Cell::Float(number) => *number,
        Cell::Missing | Cell::Text(_) => f64::NAN,
    };
    Ok(Values::Float(cells.iter().map(float).collect()))
}

/// What other programs write into a column of numbers where there is none.
const NO_NUMBER: [&[u8]; 8] = [b"", b"NA", b"N/A", b"<NA>", b"null", b"NULL", b"None", b"\\N"];

/// A cell of a text file as a number: `None` if it is none, not a number if nothing is there. Truth values are
/// numbers, as in tables with types.
pub(crate) fn number_in(text: &[u8]) -> Option<f64> {
    match text.trim_ascii() {
        text if NO_NUMBER.contains(&text) => Some(f64::NAN),
        b"true" | b"True" | b"TRUE" => Some(1.0),
        b"false" | b"False" | b"FALSE" => Some(0.0),
        text => std::str::from_utf8(text).ok()?.parse().ok(),
    }
}

/// The text that the same value has in a table with types: `7` for `7.0` and `007`, `1` for `True`. What
/// is no number stays as it is.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if let Ok(whole) = text.trim().parse::<i64>() {
        return Cow::Owned(whole.to_string());
    }
    match number_in(text.as_bytes()) {
        Some(number) if number.is_nan() => Cow::Borrowed(""),
        Some(number) => Cow::Owned(number.to_string()),
        None => Cow::Borrowed(text),
    }
}

/// The numbers of a column, if it holds numbers; missing ones are not a number.
pub(crate) fn numbers(values: &Values) -> Option<Vec<f64>> {
    match values {
        Values::Whole(whole) => Some(whole.iter().map(|&number| number as f64).collect()),
        Values::Float(floats) => Some(floats.clone()),
        Values::Text(_) => None,
        Values::Cells(texts) => texts.iter().map(number_in).collect(),
    }
}

/// Whether no value is there.
pub(crate) fn is_all_missing(values: &Values) -> bool {
    match values {
        Values::Whole(whole) => whole.is_empty(),
        Values::Float(floats) => floats.iter().all(|number| number.is_nan()),
        Values::Text(texts) | Values::Cells(texts) => texts.iter().all(<[u8]>::is_empty),
    }
}

/// The text of a value, from which its id is made: whole numbers without a point, nothing for what is
/// missing.
pub(crate) fn text_of(values: &Values, row: usize) -> Cow<'_, str> {
    match values {
        Values::Whole(whole) => Cow::Owned(whole[row].to_string()),
        Values::Float(floats) if floats[row].is_nan() => Cow::Borrowed(""),
        Values::Float(floats) => Cow::Owned(floats[row].to_string()),
        Values::Text(texts) => String::from_utf8_lossy(texts.get(row)),
        Values::Cells(texts) => match String::from_utf8_lossy(texts.get(row)) {
            Cow::Borrowed(text) => plain(text),
            Cow::Owned(text) => Cow::Owned(text),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_has_the_text_of_its_value() {
        for (cell, text) in [
            ("7", "7"),
            ("7.0", "7"),
            (" 007", "7"),
            ("7.5", "7.5"),
            ("9007199254740993", "9007199254740993"),
            ("True", "1"),
            ("FALSE", "0"),
            ("", ""),
            ("NA", ""),
            ("Rome", "Rome"),
            ("7a", "7a"),
        ] {
            assert_eq!(plain(cell), text, "{cell}");
        }
    }

    #[test]
    fn texts_beside_numbers_are_refused() {
        let cells = [Cell::Missing, Cell::Text("a".into()), Cell::Whole(1)];
        let error = values_of("x", &cells).unwrap_err();
        assert!(matches!(error, Error::MixedColumn { row: 2, .. }), "{error}");
        let numbers = values_of("x", &[Cell::Whole(1), Cell::Float(0.5)]).unwrap();
        assert_eq!(numbers, Values::Float(vec![1.0, 0.5]));
    }
}
