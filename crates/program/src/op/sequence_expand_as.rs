//! `sequence_expand_as`: row i of X, once for each step of sequence i of Y; Out has Y's sequences.

use super::ragged;
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, for_number, traits};
use crate::error::Result;
use tensor::Tensor;

pub(super) struct SequenceExpandAs;
pub(super) struct SequenceExpandAsGrad;

const OP: &str = "SequenceExpandAsOp";

impl Op for SequenceExpandAs {
    traits!(All(&["X", "Y"]), "X": [F32, F64, I32, I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let (mut out, y) = (infer.input("X")?, infer.input("Y")?);
        let n_rows = y.dims.first().copied().unwrap_or(-1);
        out.dims.iter_mut().take(1).for_each(|dim| *dim = n_rows);
        infer.set_output("Out", out.with_lod_level(1))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut out = run.take("Out");
        let Inputs { x, y, offsets } = inputs(run)?;
        let width = ragged::width(x);
        for_number!(x.dtype(), run.input_name("X"), T => {
            let x_data = x.data::<T>()?;
            let out = out.try_resize::<T>(x.shape().with_dim(0, y.shape().dim(0)))?;
            for (row, copies) in ragged::each_mut(out, offsets, width).enumerate() {
                let row = &x_data[row * width..(row + 1) * width];
                copies.chunks_exact_mut(width.max(1)).for_each(|copy| copy.copy_from_slice(row));
            }
            Ok(())
        })?;
        out.set_lod(y.lod().clone());
        run.put("Out", out);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X"]).inputs(&["X", "Y"]))
    }
}

/// The inputs, checked.
struct Inputs<'r> {
    x: &'r Tensor,
    y: &'r Tensor,
    /// The sequences of Y, as many as X has rows.
    offsets: &'r [usize],
}

fn inputs<'r>(run: &'r Run<'_>) -> Result<Inputs<'r>> {
    let offsets = ragged::only_offsets(run, OP, "Y")?;
    let (x, y) = (run.input("X")?, run.input("Y")?);
    if x.shape().dim(0) != offsets.len() - 1 {
        return Err(run.shapes("X must have a row for each sequence of Y", "X", "Y"));
    }
    Ok(Inputs { x, y, offsets })
}

/// dX = dOut summed over the steps of each sequence.
impl Kernel for SequenceExpandAsGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut d_x = run.take("X@GRAD");
        let Inputs { x, y, offsets } = inputs(run)?;
        let width = ragged::width(x);
        for_float!(x.dtype(), run.input_name("X"), T => {
            let d_out = ragged::data_of_len::<T>(run, "Out@GRAD", y.shape().dim(0) * width)?;
            let d_x = d_x.resize_zeroed::<T>(x.shape());
            for (d_x, pair) in d_x.chunks_exact_mut(width.max(1)).zip(offsets.windows(2)) {
                for d in d_out[pair[0] * width..pair[1] * width].chunks_exact(width) {
                    d_x.iter_mut().zip(d).for_each(|(sum, &d)| *sum += d);
                }
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
    use crate::error::Error;
    use crate::op::check::{Check, check, seq, t};
    use tensor::Lod;

    fn expand() -> Check {
        check("sequence_expand_as")
            .input("X", t(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
            .input("Y", seq(t(&[3, 1], &[0.0; 3]), &[2, 0, 1]))
    }

    #[test]
    fn repeats_rows_into_sequences() {
        let out = t(&[3, 2], &[1.0, 2.0, 1.0, 2.0, 5.0, 6.0]);
        expand().gives("Out", seq(out, &[2, 0, 1]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        expand().output("Out").grad(&["X"]);
    }

    #[test]
    fn refuses_other_counts_and_nested_sequences() {
        let mut y = seq(t(&[3, 1], &[0.0; 3]), &[2, 1]);
        let x = t(&[3, 1], &[1.0; 3]);
        let error = check("sequence_expand_as").input("X", x.clone()).input("Y", y.clone());
        let error = error.output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
        y.set_lod(Lod::from_recursive_lengths(&[vec![2], vec![2, 1]]));
        let error = check("sequence_expand_as").input("X", x).input("Y", y).output("Out").fails();
        assert!(matches!(error.root(), Error::LodLevels { actual: 2, .. }), "{error}");
    }
}
