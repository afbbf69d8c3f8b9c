//! The column to predict.

use std::collections::BTreeSet;

use data::{Series, Values};

use crate::cells::{BadValue, Holds, filled, numbers, plain, text_of};
use crate::error::{Error, Result};
use crate::settings::Ctr;
use crate::words::Loss;

/// The column to predict, and the meaning of its values.
#[derive(Clone, Debug, PartialEq)]
pub struct CtrTarget {
    /// Its name.
    pub name: String,
    /// The loss that training minimizes.
    pub loss: Loss,
    /// The value without a click and the one with it; empty for a model of numbers.
    pub classes: Vec<String>,
}

impl CtrTarget {
    /// The target of a table.
    pub(crate) fn fit(settings: &Ctr, series: &Series) -> Result<Self> {
        let (name, loss) = (settings.target.clone(), settings.loss);
        if loss == Loss::Squared {
            return Ok(Self { name, loss, classes: Vec::new() });
        }
        let mut found = BTreeSet::new();
        for row in 0..series.values.len() {
            let text = text_of(&series.values, row);
            if text.is_empty() {
                return Err(Error::MissingTarget { target: name, row });
            }
            if !found.contains(text.as_ref()) {
                found.insert(text.into_owned());
            }
            if found.len() > 2 {
                break;
            }
        }
        let mut found: Vec<String> = found.into_iter().collect();
        if let [a, b] = found.as_slice()
            && let (Ok(first), Ok(second)) = (a.parse::<f64>(), b.parse::<f64>())
            && first > second
        {
            found.reverse();
        }
        let positive = settings
            .positive
            .as_ref()
            .map(|said| if found.contains(said) { said.clone() } else { plain(said).into_owned() });
        match (found.as_slice(), &positive) {
            ([], _) => Err(Error::NoRows),
            ([value], _) => Err(Error::OneClass { target: name, value: value.clone() }),
            ([a, b], Some(positive)) if positive == a => {
                Ok(Self { name, loss, classes: vec![b.clone(), a.clone()] })
            }
            ([a, b], Some(positive)) if positive != b => {
                let (a, b) = (a.clone(), b.clone());
                Err(Error::NoPositive { target: name, value: positive.clone(), a, b })
            }
            ([_, _], _) => Ok(Self { name, loss, classes: found }),
            ([a, b, c, ..], _) => {
                let a = a.clone();
                let b = b.clone();
                let c = c.clone();
                Err(Error::ManyClasses { target: name, a, b, c })
            }
        }
    }

    /// A number for each row.
    pub(crate) fn labels(&self, values: &Values) -> Result<Vec<f32>> {
        match self.loss {
            Loss::Log => (0..values.len()).map(|row| self.class(values, row)).collect(),
            Loss::Squared => self.numbers(values),
        }
    }

    fn class(&self, values: &Values, row: usize) -> Result<f32> {
        let (text, target) = (text_of(values, row), self.name.clone());
        match self.classes.iter().position(|class| *class == text || plain(class) == plain(&text)) {
            Some(class) => Ok(class as f32),
            None if text.is_empty() => Err(Error::MissingTarget { target, row }),
            None => {
                let (a, b) = (self.classes[0].clone(), self.classes[1].clone());
                Err(Error::UnknownClass { target, row, value: text.into_owned(), a, b })
            }
        }
    }

    fn numbers(&self, values: &Values) -> Result<Vec<f32>> {
        let target = || self.name.clone();
        let numbers = match numbers(values, Holds::Numbers)? {
            Ok(numbers) => numbers,
            Err(BadValue(row)) => {
                let value = text_of(values, row).into_owned();
                return Err(Error::TargetNotANumber { target: target(), row, value });
            }
        };
        match numbers.iter().position(|number| !number.is_finite()) {
            Some(row) if numbers[row].is_nan() => {
                Err(Error::MissingTarget { target: target(), row })
            }
            Some(row) => Err(Error::Infinite { column: target(), row }),
            None => filled(numbers.into_iter().map(|number| number as f32)),
        }
    }
}
