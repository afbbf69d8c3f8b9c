//! `sequence_erase`: X without the ids listed in `tokens`; sequences become shorter.

use tensor::{Lod, Number, Shape};

use super::ragged::{self, Ragged};
use super::{Infer, Op, Run, for_int, no_gradient, traits};
use crate::error::Result;

pub(super) struct SequenceErase;

const OP: &str = "SequenceEraseOp";

impl Op for SequenceErase {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let mut out = infer.input("X")?;
        out.dims.iter_mut().take(1).for_each(|dim| *dim = -1);
        infer.set_output("Out", out)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let tokens = run.attrs().ints("tokens")?;
        let mut out = run.take("Out");
        let (x, offsets) = (run.input("X")?, ragged::offsets(run, OP, "X")?);
        if ragged::width(x) != 1 {
            return Err(run.shape("each step must be one id", "X"));
        }
        let mut lod = x.lod().levels().to_vec();
        for_int!(x.dtype(), run.input_name("X"), T => {
            let (kept, ends) = erase(&tokens, Ragged::<T>::new(x, offsets)?);
            let shape: Shape = x.shape().with_dim(0, kept.len());
            out.resize::<T>(shape).copy_from_slice(&kept);
            lod.pop();
            lod.push(ends);
            Ok(())
        })?;
        out.set_lod(Lod::from_offsets(lod));
        run.put("Out", out);
        Ok(())
    }

    no_gradient!();
}

/// The ids that stay, and the offsets of their sequences.
fn erase<T: Number + Into<i64>>(tokens: &[i64], x: Ragged<'_, T>) -> (Vec<T>, Vec<usize>) {
    let (mut kept, mut ends) = (Vec::new(), vec![0]);
    for sequence in x.iter() {
        kept.extend(sequence.iter().filter(|&&id| !tokens.contains(&id.into())));
        ends.push(kept.len());
    }
    (kept, ends)
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{check, ids, seq, t};

    #[test]
    fn drops_listed_ids() {
        let x = seq(ids(&[5, 1], &[1, 2, 3, 4, 2]), &[2, 0, 3]);
        check("sequence_erase")
            .input("X", x.clone())
            .attr("tokens", vec![2, 3])
            .gives("Out", seq(ids(&[2, 1], &[1, 4]), &[1, 0, 1]));
        check("sequence_erase")
            .input("X", x)
            .attr("tokens", vec![1, 2, 3, 4])
            .gives("Out", seq(ids(&[0, 1], &[]), &[0, 0, 0]));
    }

    #[test]
    fn refuses_wide_steps_and_floats() {
        let wide = seq(ids(&[1, 2], &[1, 2]), &[1]);
        let error = check("sequence_erase").input("X", wide).output("Out").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
        let float = seq(t(&[1, 1], &[1.0]), &[1]);
        let error = check("sequence_erase").input("X", float).output("Out").fails();
        assert!(matches!(error.root(), Error::DType { .. }), "{error}");
    }
}
