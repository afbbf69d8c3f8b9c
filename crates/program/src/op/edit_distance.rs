//! `edit_distance`: Out = how many insertions, deletions and replacements turn each sequence of Hyps into that of Refs, divided by
//! the length of the latter if `normalized`; SequenceNum = how many sequences there are. With HypsLength and RefsLength
//! sequences are rows that are filled up.

use tensor::{DType, Shape};

use super::ragged;
use super::{Infer, Op, Run, no_gradient, traits};
use crate::error::{Error, Result};
use crate::var::Meta;

pub(super) struct EditDistance;

const OP: &str = "EditDistanceOp";
const SAME: &str = "Hyps and Refs have as many sequences";
const PADDED: &str = "sequences are the rows of a matrix, with a length for each";
const COLUMN: &str = "sequences are a matrix of one column";

impl Op for EditDistance {
    traits!(Never, "Hyps": [I64], "Refs": [I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let (hyps, refs) = (infer.input("Hyps")?, infer.input("Refs")?);
        if hyps.dims.len() != 2 || refs.dims.len() != 2 {
            return Err(infer.shapes(COLUMN, "Hyps", "Refs"));
        }
        let n = if infer.opt_input("HypsLength")?.is_some() { refs.dims[0] } else { -1 };
        infer.set_output("Out", Meta::dense(DType::F32, &[n, 1]))?;
        infer.set_output("SequenceNum", Meta::dense(DType::I64, &[1]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let normalized = run.attrs().bool("normalized", false)?;
        let (mut out, mut number) = (run.take("Out"), run.take("SequenceNum"));
        let hyps = sequences(run, "Hyps", "HypsLength")?;
        let refs = sequences(run, "Refs", "RefsLength")?;
        if hyps.len() != refs.len() {
            return Err(run.shapes(SAME, "Hyps", "Refs"));
        }
        if let Some(position) = refs.iter().position(|one| one.is_empty() && normalized) {
            let (rule, var) =
                ("a distance cannot be divided by 0", run.input_name("Refs").to_string());
            return Err(Error::BadValue { rule, var, position, value: 0.0 });
        }
        number.resize::<i64>(Shape::from([1]))[0] = hyps.len() as i64;
        let distances = out.resize::<f32>(Shape::from([hyps.len(), 1])).iter_mut();
        for (out, (hyp, truth)) in distances.zip(hyps.iter().zip(&refs)) {
            let distance = distance(hyp, truth) as f32;
            *out = if normalized { distance / truth.len() as f32 } else { distance };
        }
        run.put("Out", out);
        run.put("SequenceNum", number);
        Ok(())
    }

    no_gradient!();
}

/// The sequences at a port: between its offsets, or rows of the lengths at another port.
fn sequences<'r>(run: &'r Run<'_>, port: &'static str, lengths: &str) -> Result<Vec<&'r [i64]>> {
    let (tensor, data) = (run.input(port)?, run.data::<i64>(port)?);
    let &[n_rows, width] = tensor.dims() else { return Err(run.shape(COLUMN, port)) };
    if run.opt_input(lengths).is_none() {
        if width != 1 {
            return Err(run.shape(COLUMN, port));
        }
        let offsets = ragged::offsets(run, OP, port)?;
        return Ok(offsets.windows(2).map(|pair| &data[pair[0]..pair[1]]).collect());
    }
    let n = run.data::<i64>(lengths)?;
    if n.len() != n_rows || n.iter().any(|n| !(0..=width as i64).contains(n)) {
        return Err(run.shapes(PADDED, port, lengths));
    }
    Ok(n.iter().enumerate().map(|(row, &n)| &data[row * width..][..n as usize]).collect())
}

/// The Levenshtein distance, row by row of its table.
fn distance(from: &[i64], to: &[i64]) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, token) in from.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(token != other);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use tensor::Tensor;

    use crate::error::Error;
    use crate::op::check::{Check, check, ids, seq};

    fn distances() -> Check {
        check("edit_distance")
            .input("Hyps", seq(ids(&[5, 1], &[1, 2, 3, 4, 5]), &[3, 2]))
            .input("Refs", seq(ids(&[6, 1], &[1, 3, 3, 4, 6, 5]), &[4, 2]))
    }

    #[test]
    fn counts_edits() {
        let plain = Tensor::new([2, 1], &[2.0f32, 1.0]).unwrap();
        distances().gives("SequenceNum", ids(&[1], &[2])).gives("Out", plain);
        let shares = Tensor::new([2, 1], &[0.5f32, 0.5]).unwrap();
        distances().attr("normalized", true).output("SequenceNum").gives("Out", shares);
    }

    #[test]
    fn reads_rows_that_are_filled_up() {
        check("edit_distance")
            .input("Hyps", ids(&[2, 3], &[1, 2, 3, 4, 5, 0]))
            .input("HypsLength", ids(&[2], &[3, 2]))
            .input("Refs", ids(&[2, 4], &[1, 3, 3, 4, 6, 5, 0, 0]))
            .input("RefsLength", ids(&[2], &[4, 2]))
            .gives("Out", Tensor::new([2, 1], &[2.0f32, 1.0]).unwrap());
    }

    #[test]
    fn refuses_an_empty_reference_and_other_counts() {
        let empty = seq(ids(&[2, 1], &[1, 2]), &[2, 0]);
        let check = distances().input("Refs", empty).attr("normalized", true);
        let error = check.output("Out").fails();
        assert!(matches!(error.root(), Error::BadValue { position: 1, .. }), "{error}");
        let one = seq(ids(&[2, 1], &[1, 2]), &[2]);
        let error = distances().input("Refs", one).output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
