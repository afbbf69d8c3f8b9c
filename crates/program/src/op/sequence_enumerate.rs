//! `sequence_enumerate`: row t of Out is the ids t … t + win_size - 1 of its sequence, `pad_value`
//! beyond the end.

use tensor::{Number, Shape};

use super::ragged::{self, Ragged};
use super::{Infer, Op, Run, for_int, no_gradient, traits};
use crate::error::{Error, Result};

pub(super) struct SequenceEnumerate;

const OP: &str = "SequenceEnumerateOp";

fn win_size(attrs: &crate::attr::Attrs) -> Result<usize> {
    let value = attrs.int("win_size", 0)?;
    let fits = usize::try_from(value).ok().filter(|&size| size >= 2);
    fits.ok_or_else(|| Error::BadAttr {
        attr: "win_size".to_string(),
        expected: "2 or more".to_string(),
        actual: value.to_string(),
    })
}

impl Op for SequenceEnumerate {
    traits!(Never, "X": [I32, I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        if x.dims.len() != 2 {
            return Err(infer.shape("one id for each step is needed, [n, 1]", "X"));
        }
        let dims = vec![x.dims[0], win_size(infer.attrs())? as i64];
        infer.set_output("Out", x.with_dims(dims))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let size = win_size(run.attrs())?;
        let pad = run.attrs().int("pad_value", 0)?;
        let mut out = run.take("Out");
        let (x, offsets) = (run.input("X")?, ragged::only_offsets(run, OP, "X")?);
        if x.shape().rank() != 2 || ragged::width(x) != 1 {
            return Err(run.shape("one id for each step is needed, [n, 1]", "X"));
        }
        let shape = Shape::from_dims(&[x.len() as i64, size as i64])?;
        for_int!(x.dtype(), run.input_name("X"), T => {
            let sequences = Ragged::<T>::new(x, offsets)?;
            let mut rows = out.try_resize::<T>(shape)?.chunks_exact_mut(size);
            for sequence in sequences.iter() {
                for (t, row) in (0..sequence.len()).zip(&mut rows) {
                    let ids = &sequence[t..sequence.len().min(t.saturating_add(size))];
                    row[..ids.len()].copy_from_slice(ids);
                    row[ids.len()..].fill(T::of(pad as f64));
                }
            }
            Ok(())
        })?;
        out.set_lod(x.lod().clone());
        run.put("Out", out);
        Ok(())
    }

    no_gradient!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::check::{check, ids, seq};

    #[test]
    fn lists_windows() {
        check("sequence_enumerate")
            .input("X", seq(ids(&[5, 1], &[1, 2, 3, 4, 5]), &[2, 0, 3]))
            .attr("win_size", 2)
            .attr("pad_value", 9)
            .gives("Out", seq(ids(&[5, 2], &[1, 2, 2, 9, 3, 4, 4, 5, 5, 9]), &[2, 0, 3]));
    }

    #[test]
    fn refuses_small_windows_and_wide_steps() {
        let x = seq(ids(&[1, 1], &[1]), &[1]);
        let error = check("sequence_enumerate").input("X", x).attr("win_size", 1).output("Out");
        let error = error.fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        let wide = check("sequence_enumerate").input("X", seq(ids(&[1, 2], &[1, 2]), &[1]));
        let error = wide.attr("win_size", 2).output("Out").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
    }
}
