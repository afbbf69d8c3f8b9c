//! `sequence_softmax`: Out = softmax of X within each sequence; X has one number per step.
//!
//! The largest value is subtracted first, so that large inputs do not overflow (Fluid's kernel
//! lacks this and gives zeros there).

use tensor::Float;

use super::ragged::{self, Ragged};
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::error::Result;

pub(super) struct SequenceSoftmax;
pub(super) struct SequenceSoftmaxGrad;

const OP: &str = "SequenceSoftmaxOp";

impl Op for SequenceSoftmax {
    traits!(Rows("X"), "X": [F32, F64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut out = run.take("Out");
        let (x, offsets) = (run.input("X")?, ragged::offsets(run, OP, "X")?);
        if ragged::width(x) != 1 {
            return Err(run.shape("each step must be one number", "X"));
        }
        for_float!(x.dtype(), run.input_name("X"), T => {
            let sequences = Ragged::<T>::new(x, offsets)?;
            let out = ragged::each_mut(out.resize::<T>(x.shape()), offsets, 1);
            sequences.iter().zip(out).for_each(|(x, out)| softmax(x, out));
            Ok(())
        })?;
        out.set_lod(x.lod().clone());
        run.put("Out", out);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X"]).inputs(&["X"]).outputs(&["Out"]))
    }
}

fn softmax<T: Float>(x: &[T], out: &mut [T]) {
    let max = x.iter().fold(T::neg_infinity(), |max, &x| max.max(x));
    let mut sum = T::zero();
    for (out, &x) in out.iter_mut().zip(x) {
        *out = (x - max).exp();
        sum += *out;
    }
    out.iter_mut().for_each(|out| *out = *out / sum);
}

/// dX = (dOut - sum(dOut * Out)) * Out within each sequence.
impl Kernel for SequenceSoftmaxGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut d_x = run.take("X@GRAD");
        let (x, offsets) = (run.input("X")?, ragged::offsets(run, OP, "X")?);
        if ragged::width(x) != 1 {
            return Err(run.shape("each step must be one number", "X"));
        }
        for_float!(x.dtype(), run.input_name("X"), T => {
            let out = ragged::data_of_len::<T>(run, "Out", x.len())?;
            let d_out = ragged::data_of_len::<T>(run, "Out@GRAD", x.len())?;
            let sequences = ragged::each_mut(d_x.resize::<T>(x.shape()), offsets, 1);
            for (d_x, pair) in sequences.zip(offsets.windows(2)) {
                softmax_grad(&out[pair[0]..pair[1]], &d_out[pair[0]..pair[1]], d_x);
            }
            Ok(())
        })?;
        d_x.set_lod(x.lod().clone());
        run.put("X@GRAD", d_x);
        Ok(())
    }
}

fn softmax_grad<T: Float>(out: &[T], d_out: &[T], d_x: &mut [T]) {
    let dot = out.iter().zip(d_out).fold(T::zero(), |sum, (&out, &d)| sum + out * d);
    for ((d_x, &out), &d) in d_x.iter_mut().zip(out).zip(d_out) {
        *d_x = (d - dot) * out;
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{check, seq, t};

    #[test]
    fn normalises_within_each_sequence() {
        let x = seq(t(&[3, 1], &[0.0, 3f64.ln(), -4.0]), &[2, 0, 1]);
        let out = seq(t(&[3, 1], &[0.25, 0.75, 1.0]), &[2, 0, 1]);
        check("sequence_softmax").input("X", x).gives("Out", out);
    }

    #[test]
    fn survives_large_numbers() {
        let x = seq(t(&[2, 1], &[0.0, 1000.0]), &[2]);
        check("sequence_softmax").input("X", x).gives("Out", seq(t(&[2, 1], &[0.0, 1.0]), &[2]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        let x = seq(t(&[5, 1], &[0.3, -0.2, 0.5, 0.1, 0.9]), &[2, 0, 3]);
        check("sequence_softmax").input("X", x).output("Out").grad(&["X"]);
    }

    #[test]
    fn refuses_wide_steps_and_plain_tensors() {
        let wide = seq(t(&[1, 2], &[1.0, 2.0]), &[1]);
        let error = check("sequence_softmax").input("X", wide).output("Out").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
        let plain = t(&[1, 1], &[1.0]);
        let error = check("sequence_softmax").input("X", plain).output("Out").fails();
        assert!(matches!(error.root(), Error::NoLod { .. }), "{error}");
    }
}
