//! `sequence_unpad`: the first Length\[i\] steps of row i of X, as sequences.
//!
//! The gradient op also reads Length (Fluid's takes the sequences from dOut, which then must carry
//! them).

use tensor::{Lod, Shape, Tensor};

use super::ragged;
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, for_number, traits};
use crate::error::{Error, Result};

pub(super) struct SequenceUnpad;
pub(super) struct SequenceUnpadGrad;

impl Op for SequenceUnpad {
    traits!(Never, "X": [F32, F64, I32, I64], "Length": [I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        if x.dims.len() < 2 {
            return Err(infer.shape("X must be padded sequences", "X"));
        }
        let step = if x.dims.len() == 2 { &[1] } else { &x.dims[2..] };
        let dims = [&[-1], step].concat();
        infer.set_output("Out", x.with_dims(dims).with_lod_level(1))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut out = run.take("Out");
        let (x, padded) = (run.input("X")?, Padded::of(run)?);
        for_number!(x.dtype(), run.input_name("X"), T => {
            let rows = x.data::<T>()?.chunks_exact(padded.size.max(1));
            let out = out.resize::<T>(padded.shape);
            for (out, row) in ragged::each_mut(out, &padded.offsets, padded.width).zip(rows) {
                out.copy_from_slice(&row[..out.len()]);
            }
            Ok(())
        })?;
        out.set_lod(Lod::from_offsets(vec![padded.offsets]));
        run.put("Out", out);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X"]).inputs(&["X", "Length"]))
    }
}

/// The layout of X by Length.
struct Padded {
    offsets: Vec<usize>,
    /// Numbers in a step.
    width: usize,
    /// Numbers in a row of X.
    size: usize,
    /// The shape of Out.
    shape: Shape,
}

impl Padded {
    fn of(run: &Run<'_>) -> Result<Self> {
        let (x, lengths) = (run.input("X")?, run.data::<i64>("Length")?);
        let [n_rows, n_steps, step @ ..] = x.dims() else {
            return Err(run.shape("X must be padded sequences", "X"));
        };
        if run.input("Length")?.dims() != [*n_rows] {
            return Err(run.shapes("Length must be one number for each row of X", "Length", "X"));
        }
        let mut offsets = vec![0];
        for (position, &length) in lengths.iter().enumerate() {
            let fits = usize::try_from(length).ok().filter(|length| length <= n_steps);
            let length = fits.ok_or_else(|| Error::BadValue {
                rule: "a length must be from 0 to the padded length",
                var: run.input_name("Length").to_string(),
                position,
                value: length as f64,
            })?;
            offsets.push(offsets[position] + length);
        }
        let width = step.iter().product();
        let total = offsets[*n_rows];
        let shape = out_shape(total, step);
        Ok(Self { offsets, width, size: n_steps * width, shape })
    }
}

fn out_shape(n_rows: usize, step: &[usize]) -> Shape {
    let step = if step.is_empty() { &[1] } else { step };
    Shape::new(&[&[n_rows], step].concat())
}

/// dX = dOut where a step was, 0 in the padding.
impl Kernel for SequenceUnpadGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut d_x: Tensor = run.take("X@GRAD");
        let (x, padded) = (run.input("X")?, Padded::of(run)?);
        for_float!(x.dtype(), run.input_name("X"), T => {
            let d_out = ragged::data_of_len::<T>(run, "Out@GRAD", padded.shape.n_elements())?;
            let rows = d_x.resize_zeroed::<T>(x.shape()).chunks_exact_mut(padded.size.max(1));
            for (row, pair) in rows.zip(padded.offsets.windows(2)) {
                let d_out = &d_out[pair[0] * padded.width..pair[1] * padded.width];
                row[..d_out.len()].copy_from_slice(d_out);
            }
            Ok(())
        })?;
        run.put("X@GRAD", d_x);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::check::{Check, check, ids, seq, t};

    fn unpad(lengths: &[i64]) -> Check {
        let data: Vec<f64> = (1..=12).map(f64::from).collect();
        check("sequence_unpad").input("X", t(&[3, 2, 2], &data)).input("Length", ids(&[3], lengths))
    }

    #[test]
    fn keeps_the_first_steps() {
        let out = seq(t(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 9.0, 10.0]), &[2, 0, 1]);
        unpad(&[2, 0, 1]).gives("Out", out);
        check("sequence_unpad")
            .input("X", t(&[2, 2], &[1.0, 2.0, 3.0, 4.0]))
            .input("Length", ids(&[2], &[1, 2]))
            .gives("Out", seq(t(&[3, 1], &[1.0, 3.0, 4.0]), &[1, 2]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        unpad(&[2, 0, 1]).output("Out").grad(&["X"]);
    }

    #[test]
    fn refuses_lengths_that_do_not_fit() {
        for bad in [3, -1] {
            let error = unpad(&[2, bad, 1]).output("Out").fails();
            assert!(matches!(error.root(), Error::BadValue { position: 1, .. }), "{error}");
        }
        let error = check("sequence_unpad")
            .input("X", t(&[2, 1], &[1.0, 2.0]))
            .input("Length", ids(&[3], &[1, 1, 1]))
            .output("Out")
            .fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
