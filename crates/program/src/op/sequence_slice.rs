//! `sequence_slice`: Length\[i\] steps of sequence i, from step Offset\[i\] on.

use tensor::{Lod, room_or_give_up};

use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, for_number, ragged, sizes, traits};
use crate::error::{Error, Result};

pub(super) struct SequenceSlice;
pub(super) struct SequenceSliceGrad;

const OP: &str = "SequenceSliceOp";

impl Op for SequenceSlice {
    traits!(Never, "X": [F32, F64, I32, I64], "Length": [I32, I64], "Offset": [I32, I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let mut out = infer.input("X")?;
        for port in ["Offset", "Length"] {
            if infer.input(port)?.dims.len() != 2 {
                return Err(infer.shape("one number for each sequence is needed, [n, 1]", port));
            }
        }
        out.dims.iter_mut().take(1).for_each(|dim| *dim = -1);
        infer.set_output("Out", out)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut out = run.take("Out");
        let (x, slices) = (run.input("X")?, slices(run)?);
        let width = ragged::width(x);
        let lod = Lod::from_lengths(slices.iter().map(|&(_, n)| n));
        let n_rows = slices.iter().map(|&(_, n)| n).sum();
        for_number!(x.dtype(), run.input_name("X"), T => {
            let data = x.data::<T>()?;
            let out = out.resize::<T>(x.shape().with_dim(0, n_rows));
            let offsets = &lod.levels()[0];
            for (out, &(start, n)) in ragged::each_mut(out, offsets, width).zip(&slices) {
                out.copy_from_slice(&data[start * width..(start + n) * width]);
            }
            Ok(())
        })?;
        out.set_lod(lod);
        run.put("Out", out);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X"]).inputs(&["X", "Offset", "Length"]))
    }
}

/// (first row of X, rows) of each slice, inside of its sequence.
fn slices(run: &Run<'_>) -> Result<Vec<(usize, usize)>> {
    let sequences = ragged::only_offsets(run, OP, "X")?;
    let n = sequences.len() - 1;
    let integers = |port| sizes::integers(run.input(port)?, run.input_name(port));
    let (starts, lengths) = (integers("Offset")?, integers("Length")?);
    for (port, list) in [("Offset", &starts), ("Length", &lengths)] {
        if list.len() != n {
            return Err(run.shapes("one number for each sequence of X is needed", port, "X"));
        }
    }
    let mut slices = Vec::new();
    room_or_give_up(&mut slices, n);
    for (position, pair) in sequences.windows(2).enumerate() {
        let bad = |port, value: i64| Error::BadValue {
            rule: "a slice must lie inside of its sequence",
            var: run.input_name(port).to_string(),
            position,
            value: value as f64,
        };
        let n_steps = pair[1] - pair[0];
        let start = usize::try_from(starts[position]).ok().filter(|&start| start <= n_steps);
        let start = start.ok_or_else(|| bad("Offset", starts[position]))?;
        let length = usize::try_from(lengths[position]).ok().filter(|&n| n <= n_steps - start);
        let length = length.ok_or_else(|| bad("Length", lengths[position]))?;
        slices.push((pair[0] + start, length));
    }
    Ok(slices)
}

/// dX = dOut inside of the slices, 0 elsewhere.
impl Kernel for SequenceSliceGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut d_x = run.take("X@GRAD");
        let (x, slices) = (run.input("X")?, slices(run)?);
        let width = ragged::width(x);
        let n_rows: usize = slices.iter().map(|&(_, n)| n).sum();
        for_float!(x.dtype(), run.input_name("X"), T => {
            let mut d_out = ragged::data_of_len::<T>(run, "Out@GRAD", n_rows * width)?;
            let d_x = d_x.resize_zeroed::<T>(x.shape());
            for &(start, n) in &slices {
                let (part, rest) = d_out.split_at(n * width);
                d_x[start * width..(start + n) * width].copy_from_slice(part);
                d_out = rest;
            }
            Ok(())
        })?;
        d_x.set_lod(x.lod().clone());
        run.put("X@GRAD", d_x);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::check::{Check, check, ids, seq, t};

    fn slice(starts: [i64; 2], lengths: [i64; 2]) -> Check {
        check("sequence_slice")
            .input("X", seq(t(&[5, 1], &[1.0, 2.0, 3.0, 4.0, 5.0]), &[2, 3]))
            .input("Offset", ids(&[2, 1], &starts))
            .input("Length", ids(&[2, 1], &lengths))
    }

    #[test]
    fn cuts_each_sequence() {
        slice([0, 1], [1, 2]).gives("Out", seq(t(&[3, 1], &[1.0, 4.0, 5.0]), &[1, 2]));
        slice([2, 0], [0, 1]).gives("Out", seq(t(&[1, 1], &[3.0]), &[0, 1]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        slice([0, 1], [1, 2]).output("Out").grad(&["X"]);
    }

    #[test]
    fn refuses_slices_outside() {
        for (starts, lengths) in [([0, 1], [1, 3]), ([0, -1], [1, 1]), ([0, 1], [1, i64::MAX])] {
            let error = slice(starts, lengths).output("Out").fails();
            assert!(matches!(error.root(), Error::BadValue { position: 1, .. }), "{error}");
        }
        let short = check("sequence_slice").input("X", seq(t(&[2, 1], &[1.0, 2.0]), &[1, 1]));
        let short = short.input("Offset", ids(&[1, 1], &[0])).input("Length", ids(&[1, 1], &[1]));
        let error = short.output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
