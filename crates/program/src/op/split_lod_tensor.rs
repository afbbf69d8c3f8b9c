//! `split_lod_tensor`: OutTrue, OutFalse = the pieces of X for which Mask holds, and the others.
//! `merge_lod_tensor`: puts them together again, in the order of Mask. A piece is a row, or a sequence
//! if there are sequences (of one level).

use std::ops::Range;

use tensor::{Bool, Lod, Shape, Tensor};

use super::{Grad, Infer, Op, Run, traits};
use crate::block::OpDesc;
use crate::error::{Error, Result};

pub(super) struct SplitLodTensor;
pub(super) struct MergeLodTensor;

/// Where each piece begins, and the end of the last.
fn offsets(tensor: &Tensor) -> Option<Vec<usize>> {
    let rows = tensor.shape().dims().first().copied().unwrap_or(0);
    match tensor.lod().levels() {
        [] => Some((0..=rows).collect()),
        // No sequence at all: the side that nothing went to.
        [one] if one.len() < 2 => Some(vec![0]),
        [one] if tensor.lod().check(rows).is_ok() => Some(one.to_vec()),
        _ => None,
    }
}

/// Pieces as they are put one behind the other.
#[derive(Default)]
struct Pieces {
    bytes: Vec<u8>,
    lengths: Vec<usize>,
}

impl Pieces {
    fn push(&mut self, from: &Tensor, rows: Range<usize>) {
        let height = from.shape().dims().first().copied().unwrap_or(0).max(1);
        let width = from.bytes().len() / height;
        self.bytes.extend_from_slice(&from.bytes()[rows.start * width..rows.end * width]);
        self.lengths.push(rows.len());
    }

    /// All of them, in the shape of `like` and with sequences if it has some.
    fn tensor(self, like: &Tensor) -> Tensor {
        let mut tensor = Tensor::default();
        let n: usize = self.lengths.iter().sum();
        let rank = like.shape().rank().max(1);
        let shape = if rank == 1 { Shape::from([n]) } else { like.shape().with_dim(0, n) };
        tensor.resize_as(like.dtype(), shape);
        tensor.bytes_mut().copy_from_slice(&self.bytes);
        if !like.lod().levels().is_empty() {
            tensor.set_lod(Lod::from_recursive_lengths(&[self.lengths]));
        }
        tensor
    }
}

fn check_level(run: &Run<'_>) -> Result<()> {
    match run.attrs().int("level", 0)? {
        0 => Ok(()),
        other => {
            let (attr, expected) = ("level".to_string(), "0".to_string());
            Err(Error::BadAttr { attr, expected, actual: other.to_string() })
        }
    }
}

impl Op for SplitLodTensor {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let mut x = infer.input("X")?;
        if let Some(rows) = x.dims.first_mut() {
            *rows = -1;
        }
        infer.set_output("OutTrue", x.clone())?;
        infer.set_output("OutFalse", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        check_level(run)?;
        let (x, mask) = (run.input("X")?, run.data::<Bool>("Mask")?);
        let offsets = offsets(x).ok_or_else(|| run.shape("it has one level of sequences", "X"))?;
        if offsets.len() != mask.len() + 1 {
            return Err(run.shapes("there must be a truth value for each piece", "X", "Mask"));
        }
        let (mut yes, mut no) = (Pieces::default(), Pieces::default());
        for (piece, truth) in offsets.windows(2).zip(mask) {
            let side = if truth.get() { &mut yes } else { &mut no };
            side.push(x, piece[0]..piece[1]);
        }
        let (yes, no) = (yes.tensor(x), no.tensor(x));
        run.put("OutTrue", yes);
        run.put("OutFalse", no);
        Ok(())
    }

    /// dX = the gradients of both sides, put together.
    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let op = OpDesc::new("merge_lod_tensor")
            .input("X", grad.input("X"))
            .input("Mask", grad.input("Mask"))
            .input("InTrue", grad.output_grad("OutTrue"))
            .input("InFalse", grad.output_grad("OutFalse"))
            .output("Out", grad.input_grad("X"));
        grad.emit(op.attr("level", 0))
    }
}

impl Op for MergeLodTensor {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let mut yes = infer.input("InTrue")?;
        if let Some(rows) = yes.dims.first_mut() {
            *rows = -1;
        }
        infer.set_output("Out", yes)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        check_level(run)?;
        // A side that no piece is of may never have been computed.
        let nothing = Tensor::default();
        let side = |port| run.opt_input(port).filter(|side| side.is_initialized());
        let (yes, no) = (side("InTrue"), side("InFalse"));
        let like = match (yes, no) {
            (Some(yes), _) if !yes.is_empty() => yes,
            (_, Some(no)) => no,
            (Some(yes), None) => yes,
            (None, None) => return run.input("InTrue").map(|_| ()),
        };
        let mask = run.data::<Bool>("Mask")?;
        let (yes, no) = (yes.unwrap_or(&nothing), no.unwrap_or(&nothing));
        let row = |side: &Tensor| (side.dtype(), side.shape().dims().get(1..).map(<[_]>::to_vec));
        if [yes, no].into_iter().any(|side| !side.is_empty() && row(side) != row(like)) {
            return Err(run.shapes("rows of both sides must be alike", "InTrue", "InFalse"));
        }
        let several = || run.shape("it has one level of sequences", "InTrue");
        let places = [offsets(no).ok_or_else(several)?, offsets(yes).ok_or_else(several)?];
        let mut next = [0, 0];
        let mut all = Pieces::default();
        for truth in mask {
            let side = usize::from(truth.get());
            let (from, at) = (&places[side], next[side]);
            let Some(&[start, end]) = from.get(at..at + 2) else {
                return Err(run.shapes(
                    "there must be a piece for each truth value",
                    "InTrue",
                    "Mask",
                ));
            };
            all.push(if side == 1 { yes } else { no }, start..end);
            next[side] += 1;
        }
        let out = all.tensor(like);
        run.put("Out", out);
        Ok(())
    }

    /// The gradient of a side is its pieces of dOut.
    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let op = OpDesc::new("split_lod_tensor")
            .input("X", grad.output_grad("Out"))
            .input("Mask", grad.input("Mask"))
            .output("OutTrue", grad.input_grad("InTrue"))
            .output("OutFalse", grad.input_grad("InFalse"));
        grad.emit(op.attr("level", 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::check::{check, seq, t};

    fn mask(truths: &[bool]) -> Tensor {
        let truths: Vec<Bool> = truths.iter().map(|&truth| Bool::from(truth)).collect();
        Tensor::new([truths.len(), 1], &truths).unwrap()
    }

    #[test]
    fn rows_part_and_meet_again() {
        let x = || t(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let (yes, no) = (t(&[2, 2], &[1.0, 2.0, 5.0, 6.0]), t(&[1, 2], &[3.0, 4.0]));
        let which = || mask(&[true, false, true]);
        check("split_lod_tensor")
            .input("X", x())
            .input("Mask", which())
            .gives("OutTrue", yes.clone())
            .gives("OutFalse", no.clone());
        check("merge_lod_tensor")
            .input("X", x())
            .input("Mask", which())
            .input("InTrue", yes)
            .input("InFalse", no)
            .gives("Out", x());
    }

    #[test]
    fn sequences_stay_whole() {
        let x = seq(t(&[3], &[1.0, 2.0, 3.0]), &[2, 1]);
        check("split_lod_tensor")
            .input("X", x)
            .input("Mask", mask(&[false, true]))
            .gives("OutTrue", seq(t(&[1], &[3.0]), &[1]))
            .gives("OutFalse", seq(t(&[2], &[1.0, 2.0]), &[2]));
    }

    #[test]
    fn sides_with_unlike_rows_are_refused() {
        let op = check("merge_lod_tensor").input("X", t(&[2], &[1.0, 2.0]));
        let op = op.input("Mask", mask(&[true, false])).input("InTrue", t(&[1, 2], &[1.0, 2.0]));
        let error = op.input("InFalse", t(&[1, 1], &[1.0])).output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }

    #[test]
    fn a_truth_value_too_few_is_refused() {
        let op = check("split_lod_tensor").input("X", t(&[2], &[1.0, 2.0]));
        let error = op.input("Mask", mask(&[true])).output("OutTrue").output("OutFalse").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
