//! The columns of a table in memory.

/// Texts one behind the other; a missing text is an empty one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Texts {
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
    /// Texts.
    Text(Texts),
    /// Cells of a text file, which may be read as numbers or as texts.
    Cells(Texts),
}

impl Values {
    /// Adds the values of another column; false, and nothing is changed, if they are of another type.
    #[must_use]
    pub fn append(&mut self, other: &Values) -> bool {
        let floats = |whole: &[i64]| whole.iter().map(|&number| number as f64).collect::<Vec<_>>();
        match (&mut *self, other) {
            (Values::Whole(all), Values::Whole(more)) => all.extend_from_slice(more),
            (Values::Float(all), Values::Float(more)) => all.extend_from_slice(more),
            (Values::Float(all), Values::Whole(more)) => all.extend(floats(more)),
            // Where a number is missing in one file, its column has floats.
            (Values::Whole(all), Values::Float(more)) => {
                *self = Values::Float([floats(all), more.clone()].concat());
            }
            (Values::Text(all), Values::Text(more)) => all.append(more),
            (Values::Cells(all), Values::Cells(more)) => all.append(more),
            _ => return false,
        }
        true
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Values::Whole(values) => values.len(),
            Values::Float(values) => values.len(),
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
