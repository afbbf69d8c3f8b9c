//! `sequence_expand`: repeats each sequence of X as often as level `ref_level` of Y says.
//!
//! Sequence i of X (row i, if X has no sequences) is repeated once per step of sequence i of that
//! level; `ref_level` -1 is the innermost. If X has sequences, each copy is one of Out's.

use tensor::{Lod, room_or_give_up};

use super::ragged;
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, for_number, traits};
use crate::error::{Error, Result};

pub(super) struct SequenceExpand;
pub(super) struct SequenceExpandGrad;

const OP: &str = "SequenceExpandOp";

impl Op for SequenceExpand {
    traits!(All(&["X", "Y"]), "X": [F32, F64, I32, I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let mut out = infer.input("X")?;
        out.dims.iter_mut().take(1).for_each(|dim| *dim = -1);
        infer.set_output("Out", out)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut out = run.take("Out");
        let x = run.input("X")?;
        let copies = Copies::of(run)?;
        let (width, has_lod) = (ragged::width(x), !x.lod().is_empty());
        for_number!(x.dtype(), run.input_name("X"), T => {
            let data = x.data::<T>()?;
            let mut out = out.try_resize::<T>(x.shape().with_dim(0, copies.n_rows()))?;
            copies.for_each(|from, n_rows| {
                let (copy, rest) = std::mem::take(&mut out).split_at_mut(n_rows * width);
                copy.copy_from_slice(&data[from * width..(from + n_rows) * width]);
                out = rest;
            });
            Ok(())
        })?;
        if has_lod {
            let mut lengths = Vec::new();
            copies.for_each(|_, n_rows| {
                room_or_give_up(&mut lengths, 1);
                lengths.push(n_rows);
            });
            out.set_lod(Lod::from_lengths(lengths));
        }
        run.put("Out", out);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X"]).inputs(&["X", "Y"]))
    }
}

/// Which rows of X are copied how often.
struct Copies<'a> {
    /// Offsets of the sequences of X; `None` if each row is one.
    x: Option<&'a [usize]>,
    /// Offsets of the level of Y that says how often.
    y: &'a [usize],
}

impl<'a> Copies<'a> {
    fn of(run: &'a Run<'_>) -> Result<Self> {
        let (x, y) = (run.input("X")?, run.input("Y")?);
        ragged::offsets(run, OP, "Y")?;
        let levels = y.lod().levels();
        let y = match run.attrs().int("ref_level", -1)? {
            -1 => levels.last(),
            level => usize::try_from(level).ok().and_then(|level| levels.get(level)),
        };
        let y = y.ok_or_else(|| Error::BadAttr {
            attr: "ref_level".to_string(),
            expected: format!("-1 or a level of Y below {}", levels.len()),
            actual: format!("{:?}", run.attrs().int("ref_level", -1)),
        })?;
        let x_offsets =
            if x.lod().is_empty() { None } else { Some(ragged::only_offsets(run, OP, "X")?) };
        let n_x = x_offsets.map_or(x.shape().dim(0), |offsets| offsets.len() - 1);
        if n_x != y.len() - 1 {
            let rule = "X must have as many sequences (rows, without LoD) as the level of Y";
            return Err(run.shapes(rule, "X", "Y"));
        }
        Ok(Self { x: x_offsets, y })
    }

    /// Calls `f(first row of X, rows)` for every copy in the order of Out.
    fn for_each(&self, mut f: impl FnMut(usize, usize)) {
        for (index, pair) in self.y.windows(2).enumerate() {
            let (start, end) = self.x.map_or((index, index + 1), |x| (x[index], x[index + 1]));
            for _ in pair[0]..pair[1] {
                f(start, end - start);
            }
        }
    }

    fn n_rows(&self) -> usize {
        let mut sum = 0;
        self.for_each(|_, n_rows| sum += n_rows);
        sum
    }
}

/// dX = the sum of dOut over the copies.
impl Kernel for SequenceExpandGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut d_x = run.take("X@GRAD");
        let x = run.input("X")?;
        let copies = Copies::of(run)?;
        let width = ragged::width(x);
        for_float!(x.dtype(), run.input_name("X"), T => {
            let len = copies.n_rows() * width;
            let mut d_out = ragged::data_of_len::<T>(run, "Out@GRAD", len)?;
            let d_x = d_x.resize_zeroed::<T>(x.shape());
            copies.for_each(|from, n_rows| {
                let (copy, rest) = d_out.split_at(n_rows * width);
                let target = &mut d_x[from * width..(from + n_rows) * width];
                target.iter_mut().zip(copy).for_each(|(sum, &d)| *sum += d);
                d_out = rest;
            });
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
    use crate::op::check::{Check, check, seq, t};
    use tensor::Tensor;

    fn y() -> Tensor {
        seq(t(&[5, 1], &[0.0; 5]), &[2, 0, 3])
    }

    #[test]
    fn repeats_rows() {
        check("sequence_expand")
            .input("X", t(&[3, 1], &[1.0, 2.0, 3.0]))
            .input("Y", y())
            .gives("Out", t(&[5, 1], &[1.0, 1.0, 3.0, 3.0, 3.0]));
    }

    /// Numbers from Fluid 1.8.5: ref_level 0 of a Y with levels [2, 2] and [3, 3, 1, 1].
    fn nested() -> Check {
        let mut y = t(&[8, 1], &[0.0; 8]);
        y.set_lod(Lod::from_recursive_lengths(&[vec![2, 2], vec![3, 3, 1, 1]]));
        check("sequence_expand")
            .input("X", seq(t(&[4, 1], &[1.0, 2.0, 3.0, 4.0]), &[2, 2]))
            .input("Y", y)
            .attr("ref_level", 0)
    }

    #[test]
    fn repeats_sequences_along_an_outer_level() {
        let out = t(&[8, 1], &[1.0, 2.0, 1.0, 2.0, 3.0, 4.0, 3.0, 4.0]);
        nested().gives("Out", seq(out, &[2, 2, 2, 2]));
    }

    #[test]
    fn gradients_match_finite_differences() {
        nested().output("Out").grad(&["X"]);
        let rows = check("sequence_expand").input("X", t(&[3, 1], &[1.0, 2.0, 3.0]));
        rows.input("Y", y()).output("Out").grad(&["X"]);
    }

    #[test]
    fn refuses_what_does_not_line_up() {
        let four = t(&[4, 1], &[1.0; 4]);
        let error = check("sequence_expand").input("X", four).input("Y", y()).output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
        let error = nested().attr("ref_level", 2).output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        let plain = t(&[3, 1], &[1.0; 3]);
        let error = check("sequence_expand").input("X", plain.clone()).input("Y", plain);
        let error = error.output("Out").fails();
        assert!(matches!(error.root(), Error::NoLod { port: "Y", .. }), "{error}");
    }
}
