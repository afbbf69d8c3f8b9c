//! A column that a model reads, and how it becomes numbers.

use data::Values;

use crate::cells::{BadValue, Holds, filled, numbers, text_of};
use crate::error::{Error, Result};
use crate::words::FeatureKind;

/// How a column becomes the input of the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scaling {
    /// (x - mean) / scale.
    Standard { mean: f64, scale: f64 },
    /// The sign of x times log(1 + |x|).
    Log,
    /// An id, by checksum.
    Category,
}

/// A column that the model reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Feature {
    /// The name of the column.
    pub name: String,
    pub(crate) scaling: Scaling,
    /// The type of its values.
    pub(crate) holds: Holds,
}

impl Feature {
    /// The kind of the column.
    pub fn kind(&self) -> FeatureKind {
        match self.scaling {
            Scaling::Standard { .. } => FeatureKind::Number,
            Scaling::Log => FeatureKind::Count,
            Scaling::Category => FeatureKind::Category,
        }
    }
}

impl Feature {
    pub(crate) fn numbers(&self, values: &Values) -> Result<Vec<f32>> {
        let numbers = match numbers(values, self.holds)? {
            Ok(numbers) => numbers,
            Err(bad) => return Err(self.refuse(values, &bad)),
        };
        if let Some(row) = numbers.iter().position(|number| number.is_infinite()) {
            return Err(Error::Infinite { column: self.name.clone(), row });
        }
        filled(numbers.into_iter().map(|number| self.scale(number)))
    }

    /// The error about a value of another type than the column had.
    pub(crate) fn refuse(&self, values: &Values, bad: &BadValue) -> Error {
        let (column, row) = (self.name.clone(), bad.0);
        let (expected, found) = (self.holds.name(), Holds::of(values).name());
        match values {
            Values::Cells(_) => {
                let text = text_of(values, row).into_owned();
                Error::NotANumber { column, row, expected, text }
            }
            _ if expected == found => {
                let text = text_of(values, row).into_owned();
                Error::NotANumber { column, row, expected, text }
            }
            _ => Error::ColumnType { column, expected, found },
        }
    }

    /// A missing number is the mean, and a missing count is 0; both are 0 here.
    fn scale(&self, number: f64) -> f32 {
        if number.is_nan() {
            return 0.0;
        }
        // There is one zero.
        let number = number + 0.0;
        match self.scaling {
            Scaling::Standard { mean, scale } => ((number - mean) / scale) as f32,
            Scaling::Log => (number.signum() * number.abs().ln_1p()) as f32,
            Scaling::Category => 0.0,
        }
    }
}
