//! `sequence_reverse`: Y = the steps of each sequence of X, last first.
//!
//! Its own gradient. There the sequences are those of the optional input Like, the forward X, so
//! that a gradient need not carry them.

use super::ragged::{self, Ragged};
use super::{Grad, Infer, Op, Run, for_number, traits};
use crate::block::OpDesc;
use crate::error::Result;

pub(super) struct SequenceReverse;

const OP: &str = "SequenceReverseOp";

impl Op for SequenceReverse {
    traits!(Rows("X"), "X": [F32, F64, I8, I32, I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        infer.set_output("Y", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut y = run.take("Y");
        let like = if run.n_inputs("Like") > 0 { "Like" } else { "X" };
        let (x, offsets) = (run.input("X")?, ragged::only_offsets(run, OP, like)?);
        let width = ragged::width(x);
        if x.shape().dim(0) != offsets[offsets.len() - 1] {
            return Err(run.shapes("X must have a row for each step", "X", like));
        }
        for_number!(x.dtype(), run.input_name("X"), T => {
            let sequences = Ragged::<T>::new(x, offsets)?;
            let y = ragged::each_mut(y.resize::<T>(x.shape()), offsets, width);
            for (x, y) in sequences.iter().zip(y) {
                let steps = x.chunks_exact(width.max(1)).rev();
                y.chunks_exact_mut(width.max(1)).zip(steps).for_each(|(y, x)| y.copy_from_slice(x));
            }
            Ok(())
        })?;
        y.set_lod(run.input(like)?.lod().clone());
        run.put("Y", y);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let d_x = grad.input_grad("X");
        let op = OpDesc::new("sequence_reverse").input("X", grad.output_grad("Y"));
        grad.emit(op.input("Like", grad.input("X")).output("Y", d_x))
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{check, ids, seq, t};

    #[test]
    fn turns_each_sequence_around() {
        let x = seq(t(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), &[2, 0, 1]);
        let y = seq(t(&[3, 2], &[3.0, 4.0, 1.0, 2.0, 5.0, 6.0]), &[2, 0, 1]);
        check("sequence_reverse").input("X", x.clone()).gives("Y", y);
        check("sequence_reverse").input("X", x).output("Y").grad(&["X"]);
        check("sequence_reverse")
            .input("X", seq(ids(&[3, 1], &[1, 2, 3]), &[3]))
            .gives("Y", seq(ids(&[3, 1], &[3, 2, 1]), &[3]));
    }

    #[test]
    fn refuses_a_plain_tensor() {
        let error = check("sequence_reverse").input("X", t(&[1, 1], &[1.0])).output("Y").fails();
        assert!(matches!(error.root(), Error::NoLod { .. }), "{error}");
    }
}
