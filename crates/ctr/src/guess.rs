//! The probable kinds of columns.

use std::borrow::Cow;
use std::collections::HashSet;

use data::{ColumnNumber, Series, Values};

use crate::cells::{Holds, numbers, text_in};
use crate::error::{Error, Result};
use crate::feature::{Feature, Scaling};
use crate::words::FeatureKind;

/// A column whose largest number is this many times the average is a count: its logarithm is used.
const SKEWED: f64 = 8.0;

/// The kind of a column: the one that the user gave, or the best guess.
pub(crate) fn feature(series: &Series, said: Option<FeatureKind>) -> Result<Feature> {
    let (name, holds) = (series.name.clone(), Holds::of(&series.values));
    if said == Some(FeatureKind::Category) {
        return Ok(Feature { name, scaling: Scaling::Category, holds });
    }
    let Ok(numbers) = numbers(&series.values, holds)? else {
        if said.is_some() {
            return Err(Error::NotNumbers { column: name });
        }
        return Ok(Feature { name, scaling: Scaling::Category, holds });
    };
    if let Some(row) = numbers.iter().position(|number| number.is_infinite()) {
        return Err(Error::Infinite { column: name, row });
    }
    let known: Vec<f64> = numbers.into_iter().filter(|number| !number.is_nan()).collect();
    let guess = || match holds {
        Holds::Times => FeatureKind::Number,
        _ => guessed(&name, &known),
    };
    let scaling = match said.unwrap_or_else(guess) {
        FeatureKind::Category => Scaling::Category,
        FeatureKind::Count => Scaling::Log,
        FeatureKind::Number => standard(&known),
    };
    Ok(Feature { name, scaling, holds })
}

/// Ids by their name, counts by a few large values among small ones.
fn guessed(name: &str, known: &[f64]) -> FeatureKind {
    let is_whole = known.iter().all(|number| number.fract() == 0.0);
    if is_whole && is_id(name) {
        return FeatureKind::Category;
    }
    let sizes = known.iter().map(|number| number.abs());
    let (largest, sum) = sizes.fold((0.0, 0.0), |(most, sum), x| (f64::max(most, x), sum + x));
    let average = sum / known.len().max(1) as f64;
    if largest > SKEWED * average { FeatureKind::Count } else { FeatureKind::Number }
}

/// `id`, `user_id`, `userId`, `user.ID`; not `paid`.
fn is_id(name: &str) -> bool {
    let Some(head) = name.len().checked_sub(2).and_then(|at| name.get(..at)) else { return false };
    match &name[head.len()..] {
        "ID" | "Id" => true,
        "id" => head.is_empty() || head.ends_with(|c: char| !c.is_alphanumeric()),
        _ => false,
    }
}

fn standard(known: &[f64]) -> Scaling {
    let n = known.len().max(1) as f64;
    let mean = known.iter().sum::<f64>() / n;
    let variance = known.iter().map(|number| (number - mean).powi(2)).sum::<f64>() / n;
    let scale = if variance > 0.0 && variance.is_finite() { variance.sqrt() } else { 1.0 };
    Scaling::Standard { mean: if mean.is_finite() { mean } else { 0.0 }, scale }
}

/// Ids of a small table: fifty values keep ids of their own in 9 of 10 tables.
const N_IDS_MIN: u64 = 1 << 14;

/// How many ids a table has: 8 times the different values, as a power of two.
pub(crate) fn n_ids(n_different: usize) -> u64 {
    (8 * n_different as u64).next_power_of_two().clamp(N_IDS_MIN, 1 << 20)
}

/// How many different values the columns have, all together. It is the same for a table in all its forms.
pub(crate) fn n_different<'a>(columns: impl Iterator<Item = (&'a Values, Holds)>) -> usize {
    columns.map(|(values, holds)| n_different_of(values, holds)).sum()
}

fn n_different_of(values: &Values, holds: Holds) -> usize {
    let texts = |rows: &mut dyn Iterator<Item = usize>| {
        rows.filter_map(|row| text_in(values, row, holds)).collect::<HashSet<Cow<'_, str>>>().len()
    };
    match values {
        Values::Whole(whole) => whole.iter().collect::<HashSet<_>>().len(),
        Values::Time(micros) => micros.iter().collect::<HashSet<_>>().len(),
        Values::Float(floats) => {
            let bits = floats.iter().map(|number| number.to_bits()).collect::<HashSet<_>>();
            let text = |bits: &u64| ColumnNumber::of_float(f64::from_bits(*bits)).text();
            bits.iter().map(text).collect::<HashSet<_>>().len()
        }
        Values::Text(all) | Values::Cells(all) => {
            // Of equal texts one has to be read.
            let mut found = HashSet::new();
            texts(&mut (0..all.len()).filter(|&row| found.insert(all.get(row))))
        }
        Values::Mixed(all) => texts(&mut (0..all.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use data::Texts;

    fn kind(name: &str, values: Values) -> Scaling {
        feature(&Series { name: name.to_string(), values }, None).unwrap().scaling
    }

    #[test]
    fn columns_are_guessed() {
        assert_eq!(kind("user_id", Values::Whole(vec![1, 2, 900])), Scaling::Category);
        assert_eq!(kind("itemId", Values::Whole(vec![1, 2])), Scaling::Category);
        assert_eq!(
            kind("paid", Values::Whole(vec![1, 3])),
            Scaling::Standard { mean: 2.0, scale: 1.0 }
        );
        let mut clicks = vec![0; 20];
        clicks.push(5000);
        assert_eq!(kind("clicks", Values::Whole(clicks)), Scaling::Log);
        let mut cells = Texts::default();
        ["1", "", "3"].iter().for_each(|text| cells.push(text.as_bytes()));
        cells.push(b"NA");
        let cells = Values::Cells(cells);
        assert_eq!(kind("x", cells), Scaling::Standard { mean: 2.0, scale: 1.0 });
        assert_eq!(
            kind("x", Values::Float(vec![4.0, 4.0])),
            Scaling::Standard { mean: 4.0, scale: 1.0 }
        );
    }

    #[test]
    fn what_the_user_says_counts() {
        let series = Series { name: "zip".into(), values: Values::Whole(vec![1, 2]) };
        let said = feature(&series, Some(FeatureKind::Category)).unwrap();
        assert_eq!(said.scaling, Scaling::Category);
        let mut texts = Texts::default();
        texts.push(b"a");
        let series = Series { name: "zip".into(), values: Values::Text(texts) };
        let error = feature(&series, Some(FeatureKind::Count)).unwrap_err();
        assert!(matches!(error, Error::NotNumbers { .. }), "{error}");
    }
}
