//! `sequence_pad`: sequences side by side in a dense tensor [sequences, padded length, …].
//!
//! `padded_length` -1 is that of the longest. Steps beyond a sequence's end are PadValue, one number
//! or one step; Length tells where each sequence ended.

use tensor::{DType, Shape, Tensor};

use super::ragged::{self, Ragged};
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, for_number, traits};
use crate::error::{Error, Result};
use crate::var::Meta;

pub(super) struct SequencePad;
pub(super) struct SequencePadGrad;

const OP: &str = "SequencePadOp";

impl Op for SequencePad {
    traits!(Never, "PadValue": [F32, F64, I32, I64], "X": [F32, F64, I32, I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        if x.dims.len() < 2 {
            return Err(infer.shape("steps need a dimension of their own", "X"));
        }
        let length = infer.attrs().int("padded_length", -1)?;
        let dims = [&[-1, length.max(-1)], &x.dims[1..]].concat();
        infer.set_output("Length", Meta::dense(DType::I64, &[-1]))?;
        infer.set_output("Out", x.with_dims(dims).with_lod_level(0))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (mut out, mut lengths) = (run.take("Out"), run.take("Length"));
        let (x, offsets) = (run.input("X")?, ragged::only_offsets(run, OP, "X")?);
        let n_steps = padded_length(run, offsets)?;
        let shape = padded_shape(x, offsets.len() - 1, n_steps)?;
        let pad = run.input("PadValue")?;
        if pad.len() != 1 && pad.dims() != &x.dims()[1..] {
            return Err(run.shapes(
                "PadValue must be one number or one step of X",
                "PadValue",
                "X",
            ));
        }
        for_number!(x.dtype(), run.input_name("X"), T => {
            let (sequences, pad) = (Ragged::<T>::new(x, offsets)?, run.data::<T>("PadValue")?);
            let size = n_steps * sequences.width();
            let out = out.try_resize::<T>(shape)?.chunks_exact_mut(size.max(1));
            for (out, sequence) in out.zip(sequences.iter()) {
                let (steps, rest) = out.split_at_mut(sequence.len());
                steps.copy_from_slice(sequence);
                rest.chunks_exact_mut(pad.len().max(1)).for_each(|out| out.copy_from_slice(pad));
            }
            Ok(())
        })?;
        let written = lengths.resize::<i64>(Shape::from([offsets.len() - 1]));
        for (length, pair) in written.iter_mut().zip(offsets.windows(2)) {
            *length = (pair[1] - pair[0]) as i64;
        }
        run.put("Out", out);
        run.put("Length", lengths);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X"]).inputs(&["X"]))
    }
}

fn padded_length(run: &Run<'_>, offsets: &[usize]) -> Result<usize> {
    let longest = offsets.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
    match run.attrs().int("padded_length", -1)? {
        -1 => Ok(longest),
        length => {
            let fits = usize::try_from(length).ok().filter(|&length| length >= longest);
            fits.ok_or_else(|| Error::BadAttr {
                attr: "padded_length".to_string(),
                expected: format!("-1 or no less than the longest sequence ({longest})"),
                actual: length.to_string(),
            })
        }
    }
}

fn padded_shape(x: &Tensor, n_sequences: usize, n_steps: usize) -> Result<Shape> {
    let mut dims = vec![n_sequences as i64, i64::try_from(n_steps).unwrap_or(i64::MAX)];
    dims.extend(x.dims().iter().skip(1).map(|&dim| dim as i64));
    Ok(Shape::from_dims(&dims)?)
}

/// dX = dOut without the padding.
impl Kernel for SequencePadGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut d_x = run.take("X@GRAD");
        let (x, offsets) = (run.input("X")?, ragged::only_offsets(run, OP, "X")?);
        let width = ragged::width(x);
        let size = padded_length(run, offsets)?.saturating_mul(width);
        for_float!(x.dtype(), run.input_name("X"), T => {
            let len = size.saturating_mul(offsets.len() - 1);
            let d_out = ragged::data_of_len::<T>(run, "Out@GRAD", len)?;
            let d_x = ragged::each_mut(d_x.resize::<T>(x.shape()), offsets, width);
            for (d_x, d_out) in d_x.zip(d_out.chunks_exact(size.max(1))) {
                d_x.copy_from_slice(&d_out[..d_x.len()]);
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

    fn pad(value: Tensor) -> Check {
        let x = seq(t(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), &[2, 0, 1]);
        check("sequence_pad").input("X", x).input("PadValue", value)
    }

    #[test]
    fn pads_to_the_longest_or_to_a_length() {
        let out = [1.0, 2.0, 3.0, 4.0, -1.0, -1.0, -1.0, -1.0, 5.0, 6.0, -1.0, -1.0];
        pad(t(&[1], &[-1.0]))
            .gives("Out", t(&[3, 2, 2], &out))
            .gives("Length", ids(&[3], &[2, 0, 1]));
        let steps = [[1.0, 2.0], [3.0, 4.0], [7.0, 8.0], [7.0, 8.0], [7.0, 8.0], [7.0, 8.0]];
        let last = [[5.0, 6.0], [7.0, 8.0], [7.0, 8.0]];
        let out = [steps.concat(), last.concat()].concat();
        let padded = pad(t(&[2], &[7.0, 8.0])).attr("padded_length", 3);
        padded.output("Length").gives("Out", t(&[3, 3, 2], &out));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        pad(t(&[1], &[-1.0])).output("Out").output("Length").grad(&["X"]);
    }

    #[test]
    fn refuses_a_short_length_and_an_odd_value() {
        let error = pad(t(&[1], &[0.0])).attr("padded_length", 1).output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        let error = pad(t(&[3], &[0.0; 3])).output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
