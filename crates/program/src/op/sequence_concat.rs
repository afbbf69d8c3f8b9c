//! `sequence_concat`: sequence i of Out is sequence i of every X, one after the other.

use tensor::{Lod, list_or_give_up};

use super::ragged::{self, Ragged};
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, for_number, traits};
use crate::error::{Error, Result};

pub(super) struct SequenceConcat;
pub(super) struct SequenceConcatGrad;

const OP: &str = "SequenceConcatOp";

impl Op for SequenceConcat {
    traits!(Rows("X"));

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let inputs = infer.inputs("X")?;
        let sum = inputs.iter().try_fold(0, |sum, x| match x.dims.first() {
            Some(&n) if n >= 0 => Some(sum + n),
            _ => None,
        });
        let mut out = infer.input("X")?;
        out.dims.iter_mut().take(1).for_each(|dim| *dim = sum.unwrap_or(-1));
        infer.set_output("Out", out.with_lod_level(1))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut out = run.take("Out");
        let offsets = all_offsets(run)?;
        let first = run.input("X")?;
        let joined = join(&offsets);
        let n_rows = joined[joined.len() - 1];
        for_number!(first.dtype(), run.input_name("X"), T => {
            let mut parts = Vec::new();
            for (x, offsets) in run.inputs("X")?.into_iter().zip(&offsets) {
                parts.push(Ragged::<T>::new(x, offsets)?);
            }
            let out = out.resize::<T>(first.shape().with_dim(0, n_rows));
            let mut rest = out;
            for index in 0..joined.len() - 1 {
                for part in &parts {
                    let source = part.get(index);
                    let (target, tail) = std::mem::take(&mut rest).split_at_mut(source.len());
                    target.copy_from_slice(source);
                    rest = tail;
                }
            }
            Ok(())
        })?;
        out.set_lod(Lod::from_offsets(vec![joined]));
        run.put("Out", out);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X"]).inputs(&["X"]))
    }
}

/// The sequences of every input: equally many, of equal steps.
fn all_offsets<'r>(run: &'r Run<'_>) -> Result<Vec<&'r [usize]>> {
    let mut all: Vec<&[usize]> = Vec::new();
    let first = run.input("X")?;
    for index in 0..run.n_inputs("X") {
        let x = run.input_at("X", index)?;
        let offsets = ragged::only_offsets_at(run, OP, "X", index)?;
        let alike = all.first().is_none_or(|first| first.len() == offsets.len());
        if !alike || x.dims().get(1..) != first.dims().get(1..) {
            return Err(Error::Shapes {
                rule: "inputs must have equally many sequences, of equal steps",
                left: run.input_name("X").to_string(),
                left_dims: first.shape().to_i64(),
                right: run.input_name_at("X", index).to_string(),
                right_dims: x.shape().to_i64(),
            });
        }
        all.push(offsets);
    }
    Ok(all)
}

/// Offsets of the joined sequences: offsets add up, since lengths do.
fn join(all: &[&[usize]]) -> Vec<usize> {
    let n = all.first().map_or(0, |offsets| offsets.len());
    list_or_give_up((0..n).map(|index| all.iter().map(|offsets| offsets[index]).sum()))
}

/// dX = the parts of dOut that came from it.
impl Kernel for SequenceConcatGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let n = run.n_inputs("X");
        let mut grads: Vec<_> = (0..n).map(|index| run.take_at("X@GRAD", index)).collect();
        let offsets = all_offsets(run)?;
        let first = run.input("X")?;
        let (joined, width) = (join(&offsets), ragged::width(first));
        for_float!(first.dtype(), run.input_name("X"), T => {
            let len = joined[joined.len() - 1] * width;
            let d_out = ragged::data_of_len::<T>(run, "Out@GRAD", len)?;
            for (k, d_x) in grads.iter_mut().enumerate() {
                let d_x = d_x.resize::<T>(run.input_at("X", k)?.shape());
                for (index, d_x) in ragged::each_mut(d_x, offsets[k], width).enumerate() {
                    let before = offsets[..k].iter().map(|o| o[index + 1] - o[index]).sum::<usize>();
                    let start = (joined[index] + before) * width;
                    d_x.copy_from_slice(&d_out[start..start + d_x.len()]);
                }
            }
            Ok(())
        })?;
        for (index, mut d_x) in grads.into_iter().enumerate() {
            d_x.set_lod(run.input_at("X", index)?.lod().clone());
            run.put_at("X@GRAD", index, d_x);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::check::{Check, check, seq, t};

    fn concat() -> Check {
        let x = seq(t(&[3, 1], &[1.0, 2.0, 3.0]), &[2, 0, 1]);
        let y = seq(t(&[4, 1], &[10.0, 20.0, 30.0, 40.0]), &[1, 2, 1]);
        check("sequence_concat").inputs("X", vec![x, y])
    }

    #[test]
    fn joins_sequence_by_sequence() {
        let out = t(&[7, 1], &[1.0, 2.0, 10.0, 20.0, 30.0, 3.0, 40.0]);
        concat().gives("Out", seq(out, &[3, 2, 2]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        concat().output("Out").grad(&["X"]);
    }

    #[test]
    fn refuses_other_counts_widths_and_plain_tensors() {
        let x = seq(t(&[2, 1], &[1.0, 2.0]), &[1, 1]);
        let join = |other| check("sequence_concat").inputs("X", vec![x.clone(), other]);
        let error = join(seq(t(&[2, 1], &[1.0, 2.0]), &[2])).output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
        let error = join(seq(t(&[2, 2], &[1.0; 4]), &[1, 1])).output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
        let error = join(t(&[2, 1], &[1.0, 2.0])).output("Out").fails();
        assert!(matches!(error.root(), Error::NoLod { .. }), "{error}");
    }
}
