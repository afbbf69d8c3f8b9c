//! A rate that changes at given steps.

use tensor::DType;

use super::arithmetic::{assign, compare, constant};
use super::{counter, schedule};
use crate::builder::{Builder, Var};
use crate::error::{Error, Result};
use crate::layers::Switch;
use crate::var::Meta;

/// The first of `values` whose boundary is still ahead, or the last: it has no boundary.
pub fn piecewise_decay(b: &mut Builder<'_>, boundaries: &[f64], values: &[f64]) -> Result<Var> {
    let split = values.split_last().filter(|(_, before)| before.len() == boundaries.len());
    let Some((last, values)) = split.filter(|_| !boundaries.is_empty()) else {
        return Err(Error::BadArgument {
            layer: "piecewise_decay",
            argument: "values",
            rule: "there must be boundaries, and one value more than boundaries",
            actual: format!("{} boundaries, {} values", boundaries.len(), values.len()),
        });
    };
    schedule(b, |b| {
        let step = counter::step(b, 0)?;
        let rate = b.state("learning_rate", Meta::dense(DType::F32, &[1]), 0.0)?;
        let mut switch = Switch::default();
        for (&boundary, &value) in boundaries.iter().zip(values) {
            let boundary = constant(b, boundary)?;
            let value = constant(b, value)?;
            let before = compare(b, "less_than", &step, &boundary)?;
            switch.case(b, &before, |b| assign(b, &value, &rate))?;
        }
        let last = constant(b, *last)?;
        switch.otherwise(b, |b| assign(b, &last, &rate))?;
        Ok(rate)
    })
}
