//! The values of columns, as numbers, times and texts. One rule for each type, whatever the table came from (docs/guides/ctr.md).

use std::borrow::Cow;

use data::{ColumnNumber, NO_TIME, Texts, Values, room, time_of_text, time_seconds, time_text};

use crate::error::{Error, Result};

/// A value of a column whose type is not known.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Nothing.
    Missing,
    /// A whole number, or a truth value.
    Whole(i64),
    /// A whole number of 2⁶³ and more.
    Large(u64),
    /// A number.
    Float(f64),
    /// A time: microseconds since the beginning of 1970 in UTC.
    Time(i64),
    /// A text.
    Text(String),
}

impl Cell {
    /// A number.
    pub fn of_number(number: ColumnNumber) -> Self {
        match number {
            ColumnNumber::Missing => Cell::Missing,
            ColumnNumber::Whole(number) => Cell::Whole(number),
            ColumnNumber::Large(number) => Cell::Large(number),
            ColumnNumber::Float(number) => Cell::Float(number),
        }
    }

    fn type_name(&self) -> &'static str {
        match self {
            Cell::Missing => "nothing",
            Cell::Whole(_) | Cell::Large(_) | Cell::Float(_) => "numbers",
            Cell::Time(_) => "times",
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
    Ok(match first {
        "texts" => {
            let mut texts = Texts::default();
            for cell in cells {
                texts.try_push(if let Cell::Text(text) = cell { text.as_bytes() } else { b"" })?;
            }
            Values::Text(texts)
        }
        "times" => Values::Time(filled(cells.iter().map(|cell| match cell {
            Cell::Time(micros) => *micros,
            _ => NO_TIME,
        }))?),
        _ => Values::of_numbers(filled(cells.iter().map(|cell| match cell {
            Cell::Whole(number) => ColumnNumber::Whole(*number),
            Cell::Large(number) => ColumnNumber::Large(*number),
            Cell::Float(number) => ColumnNumber::of_float(*number),
            Cell::Missing | Cell::Time(_) | Cell::Text(_) => ColumnNumber::Missing,
        }))?),
    })
}

/// Collects a value for each row of a table; an error if there is no memory for it.
pub(crate) fn filled<T>(values: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>> {
    let mut all = Vec::new();
    room(&mut all, values.len())?;
    all.extend(values);
    Ok(all)
}

/// The type of the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    Numbers,
    Times,
    Texts,
}

impl Holds {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Holds::Numbers => "numbers",
            Holds::Times => "times",
            Holds::Texts => "texts",
        }
    }

    /// The type of a column. Texts all of which are times are times, in every table; texts of a file without types
    /// may also be numbers.
    pub(crate) fn of(values: &Values) -> Self {
        let are_times = |texts: &Texts| {
            let mut some = false;
            texts.iter().all(|text| {
                time_in(text).is_some_and(|micros| {
                    some |= micros != NO_TIME;
                    true
                })
            }) && some
        };
        match values {
            Values::Whole(_) | Values::Float(_) | Values::Mixed(_) => Holds::Numbers,
            Values::Time(_) => Holds::Times,
            Values::Cells(texts)
                if texts.iter().all(|text| ColumnNumber::of_text(text).is_some()) =>
            {
                Holds::Numbers
            }
            // A column of nothing has no type; in other tables it is one of numbers.
            Values::Text(texts) if texts.iter().all(<[u8]>::is_empty) => Holds::Numbers,
            Values::Text(texts) | Values::Cells(texts) if are_times(texts) => Holds::Times,
            Values::Text(_) | Values::Cells(_) => Holds::Texts,
        }
    }
}

/// A text as a time: `None` if it is none, [`NO_TIME`] if nothing is there.
fn time_in(text: &[u8]) -> Option<i64> {
    match ColumnNumber::of_text(text) {
        Some(ColumnNumber::Missing) => Some(NO_TIME),
        _ => time_of_text(std::str::from_utf8(text).ok()?),
    }
}

/// The text that the same value has in a table with types: `7` for `7.0` and `007`, `1` for `True`. Text
/// that is not a number stays as it is.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    match ColumnNumber::of_text(text.as_bytes()) {
        Some(number) => number.text(),
        None => Cow::Borrowed(text),
    }
}

/// The row of a value of another type than the column's.
pub(crate) struct BadValue(pub(crate) usize);

/// The numbers of a column that holds numbers or times (in seconds); missing ones are not a number.
pub(crate) fn numbers(
    values: &Values,
    holds: Holds,
) -> Result<std::result::Result<Vec<f64>, BadValue>> {
    let (mut all, n) = (Vec::new(), values.len());
    room(&mut all, n)?;
    for row in 0..n {
        match number_at(values, row, holds) {
            Some(number) => all.push(number),
            None => return Ok(Err(BadValue(row))),
        }
    }
    Ok(Ok(all))
}

fn number_at(values: &Values, row: usize, holds: Holds) -> Option<f64> {
    match (values, holds) {
        (_, Holds::Texts) => None,
        (Values::Text(texts) | Values::Cells(texts), Holds::Numbers) => {
            ColumnNumber::of_text(texts.get(row)).map(ColumnNumber::to_f64)
        }
        (Values::Text(texts) | Values::Cells(texts), Holds::Times) => {
            time_in(texts.get(row)).map(time_seconds)
        }
        (Values::Time(micros), Holds::Times) => Some(time_seconds(micros[row])),
        (Values::Time(micros), Holds::Numbers) => Some(f64::NAN).filter(|_| micros[row] == NO_TIME),
        (values, Holds::Numbers) => values.number(row).map(ColumnNumber::to_f64),
        // A column of nothing has no type.
        (values, Holds::Times) => {
            values.number(row).map(ColumnNumber::to_f64).filter(|x| x.is_nan())
        }
    }
}

/// The text of a value of a column, from which its id is made: whole numbers without a point, times as
/// `2024-01-31T10:00:00`, nothing for a missing value. `None` if it is something else than the column holds.
pub(crate) fn text_in(values: &Values, row: usize, holds: Holds) -> Option<Cow<'_, str>> {
    match (values, holds) {
        (Values::Text(texts) | Values::Cells(texts), Holds::Texts) => {
            Some(String::from_utf8_lossy(texts.get(row)))
        }
        (Values::Text(texts) | Values::Cells(texts), Holds::Numbers) => {
            ColumnNumber::of_text(texts.get(row)).map(ColumnNumber::text)
        }
        (Values::Text(texts) | Values::Cells(texts), Holds::Times) => {
            time_in(texts.get(row)).map(|micros| Cow::Owned(time_text(micros)))
        }
        (Values::Time(micros), Holds::Times) => Some(Cow::Owned(time_text(micros[row]))),
        (Values::Time(micros), _) => Some(Cow::Borrowed("")).filter(|_| micros[row] == NO_TIME),
        (values, Holds::Numbers) => values.number(row).map(ColumnNumber::text),
        (values, _) => {
            values.number(row).filter(|one| one.to_f64().is_nan()).map(ColumnNumber::text)
        }
    }
}

/// The text of a value of a column that is not known.
pub(crate) fn text_of(values: &Values, row: usize) -> Cow<'_, str> {
    match values {
        Values::Text(texts) => String::from_utf8_lossy(texts.get(row)),
        Values::Cells(texts) => match String::from_utf8_lossy(texts.get(row)) {
            Cow::Borrowed(text) => plain(text),
            Cow::Owned(text) => Cow::Owned(text),
        },
        Values::Time(micros) => Cow::Owned(time_text(micros[row])),
        values => values.number(row).map_or(Cow::Borrowed(""), ColumnNumber::text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_beside_numbers_are_refused() {
        let cells = [Cell::Missing, Cell::Text("a".into()), Cell::Whole(1)];
        let error = values_of("x", &cells).unwrap_err();
        assert!(matches!(error, Error::MixedColumn { row: 2, .. }), "{error}");
        let numbers = values_of("x", &[Cell::Float(1.0), Cell::Float(0.5)]).unwrap();
        assert_eq!(numbers, Values::Float(vec![1.0, 0.5]));
    }

    #[test]
    fn a_missing_number_leaves_the_others_as_they_are() {
        let cells = [Cell::Whole(9_007_199_254_740_993), Cell::Missing, Cell::Large(u64::MAX)];
        let values = values_of("x", &cells).unwrap();
        let texts: Vec<_> = (0..3).map(|row| text_of(&values, row).into_owned()).collect();
        assert_eq!(texts, ["9007199254740993", "", "18446744073709551615"]);
    }

    #[test]
    fn one_value_has_one_text_in_all_tables() {
        let mut cells = Texts::default();
        ["2024-01-31 10:00:00+02:00", "", "2024-02-01"]
            .iter()
            .for_each(|text| cells.push(text.as_bytes()));
        let times = Values::Time(vec![1_706_688_000_000_000, NO_TIME, 1_706_745_600_000_000]);
        for values in [Values::Cells(cells.clone()), Values::Text(cells), times] {
            assert_eq!(Holds::of(&values), Holds::Times);
            let text = |row| text_in(&values, row, Holds::Times).unwrap().into_owned();
            assert_eq!([text(0), text(1), text(2)], ["2024-01-31T08:00:00", "", "2024-02-01"]);
            let all = numbers(&values, Holds::Times).unwrap().ok().unwrap();
            assert_eq!((all[0], all[2]), (1_706_688_000.0, 1_706_745_600.0));
            assert!(all[1].is_nan());
        }
    }
}
