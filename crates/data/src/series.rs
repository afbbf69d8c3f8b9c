//! The columns of a table in memory.

use crate::error::{Error, Result};
use crate::numbers::ColumnNumber;

/// Texts one behind the other; a missing text is an empty one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Texts {
    /// Adds a text; an error if there is no memory for it.
    pub fn try_push(&mut self, text: &[u8]) -> Result<()> {
        room(&mut self.bytes, text.len())?;
        room(&mut self.ends, 1)?;
        self.push(text);
        Ok(())
    }

    /// Adds a text.
    pub fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
    }

    /// The text of a row.
    pub fn get(&self, row: usize) -> &[u8] {
        let from = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.bytes[from..self.ends[row]]
    }

    /// Adds all texts of another list.
    pub fn append(&mut self, other: &Texts) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        self.ends.extend(other.ends.iter().map(|end| from + end));
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|row| self.get(row))
    }
}

/// The values of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Whole numbers.
    Whole(Vec<i64>),
    /// Numbers; a missing one is not a number.
    Float(Vec<f64>),
    /// Numbers that neither of the two holds exactly: whole ones of 2⁶³ and more, whole ones some of which are missing.
    Mixed(Vec<ColumnNumber>),
    /// Times in microseconds since the beginning of 1970 in UTC; a missing one is [`crate::NO_TIME`].
    Time(Vec<i64>),
    /// Texts.
    Text(Texts),
    /// Cells of a text file, which may be read as numbers or as texts.
    Cells(Texts),
}

impl Values {
    /// Numbers in the smallest form that holds them exactly.
    pub fn of_numbers(numbers: Vec<ColumnNumber>) -> Self {
        let whole = |number: &ColumnNumber| {
            if let ColumnNumber::Whole(whole) = number { Some(*whole) } else { None }
        };
        if let Some(whole) = numbers.iter().map(whole).collect::<Option<Vec<i64>>>()
            && !whole.is_empty()
        {
            return Values::Whole(whole);
        }
        let is_float = |number: &ColumnNumber| {
            matches!(number, ColumnNumber::Float(_) | ColumnNumber::Missing)
        };
        if numbers.iter().all(is_float) {
            Values::Float(numbers.into_iter().map(ColumnNumber::to_f64).collect())
        } else {
            Values::Mixed(numbers)
        }
    }

    /// The number of a row, if it holds numbers.
    pub fn number(&self, row: usize) -> Option<ColumnNumber> {
        match self {
            Values::Whole(values) => Some(ColumnNumber::Whole(values[row])),
            Values::Float(values) => Some(ColumnNumber::of_float(values[row])),
            Values::Mixed(values) => Some(values[row]),
            Values::Time(_) | Values::Text(_) | Values::Cells(_) => None,
        }
    }

    /// Adds the values of another column; false, and nothing is changed, if they are of another type.
    #[must_use]
    pub fn append(&mut self, other: &Values) -> bool {
        match (&mut *self, other) {
            (Values::Whole(all), Values::Whole(more)) => all.extend_from_slice(more),
            (Values::Float(all), Values::Float(more)) => all.extend_from_slice(more),
            (Values::Mixed(all), Values::Mixed(more)) => all.extend_from_slice(more),
            (Values::Time(all), Values::Time(more)) => all.extend_from_slice(more),
            (Values::Text(all), Values::Text(more)) => all.append(more),
            (Values::Cells(all), Values::Cells(more)) => all.append(more),
            // Where a number is missing in one file only, its column has another form there.
            (this, other) => {
                let both = (0..this.len()).map(|row| this.number(row));
                let both = both.chain((0..other.len()).map(|row| other.number(row)));
                let Some(numbers) = both.collect::<Option<Vec<ColumnNumber>>>() else {
                    return false;
                };
                *self = Values::of_numbers(numbers);
            }
        }
        true
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Values::Whole(values) => values.len(),
            Values::Float(values) => values.len(),
            Values::Mixed(values) => values.len(),
            Values::Time(values) => values.len(),
            Values::Text(texts) | Values::Cells(texts) => texts.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A column of a table in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// A value for each row.
    pub values: Values,
}

/// Makes room for `n` more elements of a list that grows with its input.
pub fn room<T>(list: &mut Vec<T>, n: usize) -> Result<()> {
    if list.capacity() - list.len() >= n {
        return Ok(());
    }
    let wanted = list.len().saturating_add(n).max(list.capacity().saturating_mul(2));
    let n_bytes = wanted.saturating_mul(size_of::<T>());
    // Twice as much is a wish, enough is a need.
    if list.try_reserve_exact(wanted - list.len()).is_ok() || list.try_reserve_exact(n).is_ok() {
        return Ok(());
    }
    Err(Error::NoMemory { what: "a column of the table", n_bytes })
}
