//! Chains of tagged steps, as the conditional random field ops read them.
//!
//! Emission is either sequences \[n, tags\], or padded \[batch, steps, tags\] with Length. Transition
//! is \[tags + 2, tags\]: weights to start with a tag, to end with it, and from each tag to each.

use super::{Infer, Run, for_int, ragged};
use crate::error::{Error, Result};

const RULE: &str = "Transition must be [tags + 2, tags] and Emission [.., tags]";

/// Where the chains lie in the rows of Emission.
pub(super) struct Chains {
    /// First row and length of each.
    pub(super) spans: Vec<(usize, usize)>,
    /// Rows of Emission, padding included.
    pub(super) n_rows: usize,
    /// How many tags.
    pub(super) n_tags: usize,
}

impl Chains {
    /// Reads them from Emission, Length and Transition.
    pub(super) fn of(run: &Run<'_>, op: &'static str) -> Result<Self> {
        let (emission, transition) = (run.input("Emission")?, run.input("Transition")?);
        let n_tags = emission.shape().last();
        if n_tags == 0 || transition.dims() != [n_tags.saturating_add(2), n_tags] {
            return Err(run.shapes(RULE, "Emission", "Transition"));
        }
        let padded = run.n_inputs("Length") > 0;
        let (spans, n_rows) = match *emission.dims() {
            [n_rows, _] if !padded => {
                let offsets = ragged::only_offsets(run, op, "Emission")?;
                (offsets.windows(2).map(|pair| (pair[0], pair[1] - pair[0])).collect(), n_rows)
            }
            [batch, n_steps, _] if padded => {
                let lengths = lengths(run, batch, n_steps)?.into_iter().enumerate();
                (lengths.map(|(row, n)| (row * n_steps, n)).collect(), batch * n_steps)
            }
            _ => return Err(run.shapes(RULE, "Emission", "Transition")),
        };
        Ok(Self { spans, n_rows, n_tags })
    }

    /// The label of every row of Emission; those inside of chains are tags.
    pub(super) fn labels<'r>(&self, run: &'r Run<'_>) -> Result<&'r [i64]> {
        let labels = run.data::<i64>("Label")?;
        if labels.len() != self.n_rows {
            return Err(run.shapes("Label must have one tag for each step", "Label", "Emission"));
        }
        for row in self.spans.iter().flat_map(|&(start, n)| start..start + n) {
            let (label, n_classes) = (labels[row], self.n_tags);
            if usize::try_from(label).is_ok_and(|label| label < n_classes) {
                continue;
            }
            let var = run.input_name("Label").to_string();
            return Err(Error::LabelOutOfRange { var, row, label, n_classes });
        }
        Ok(labels)
    }
}

fn lengths(run: &Run<'_>, batch: usize, n_steps: usize) -> Result<Vec<usize>> {
    let length = run.input("Length")?;
    if length.len() != batch {
        return Err(run.shapes("Length must be one number for each chain", "Length", "Emission"));
    }
    for_int!(length.dtype(), run.input_name("Length"), T => {
        let fits = |(position, &value): (usize, &T)| {
            let length = usize::try_from(value).ok().filter(|&length| length <= n_steps);
            length.ok_or_else(|| Error::BadValue {
                rule: "a length must be from 0 to the padded length",
                var: run.input_name("Length").to_string(),
                position,
                value: value as f64,
            })
        };
        length.data::<T>()?.iter().enumerate().map(fits).collect()
    })
}

/// Checks the shapes of Emission and Transition as far as they are known.
pub(super) fn infer(infer: &Infer<'_>) -> Result<()> {
    let (emission, transition) = (infer.input("Emission")?, infer.input("Transition")?);
    let rank = if infer.opt_input("Length")?.is_some() { 3 } else { 2 };
    let n_tags = emission.dims.last().copied().unwrap_or(-1);
    let fits = match transition.dims[..] {
        [rows, columns] => rows == columns.saturating_add(2) && (columns == n_tags || n_tags < 0),
        _ => false,
    };
    if emission.dims.len() != rank || !fits {
        return Err(infer.shapes(RULE, "Emission", "Transition"));
    }
    Ok(())
}
