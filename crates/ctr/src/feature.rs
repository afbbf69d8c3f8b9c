//! A column that a model reads, and how it becomes numbers.

use data::Values;

use crate::cells::{is_all_missing, number_in, numbers};
use crate::error::{Error, Result};
use crate::words::FeatureKind;

/// How a column becomes what the model is fed.
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
    /// It held texts, not numbers.
    pub(crate) holds_texts: bool,
}

impl Feature {
    /// What the column is.
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
        let column = || self.name.clone();
        let Some(numbers) = numbers(values) else {
            if let Values::Cells(texts) = values {
                let is_bad = |text: &[u8]| number_in(text).is_none();
                let row = texts.iter().position(is_bad).unwrap_or(0);
                let text = String::from_utf8_lossy(texts.get(row)).into_owned();
                return Err(Error::NotANumber { column: column(), row, text });
            }
            if is_all_missing(values) {
                return Ok(vec![0.0; values.len()]);
            }
            let (expected, found) = ("numbers", "texts");
            return Err(Error::ColumnType { column: column(), expected, found });
        };
        if let Some(row) = numbers.iter().position(|number| number.is_infinite()) {
            return Err(Error::Infinite { column: column(), row });
        }
        Ok(numbers.into_iter().map(|number| self.scale(number)).collect())
    }

    /// A missing number is the mean, and a missing count is 0; both are 0 here.
    fn scale(&self, number: f64) -> f32 {
        if number.is_nan() {
            return 0.0;
        }
        match self.scaling {
            Scaling::Standard { mean, scale } => ((number - mean) / scale) as f32,
            Scaling::Log => (number.signum() * number.abs().ln_1p()) as f32,
            Scaling::Category => 0.0,
        }
    }
}
