//! Sequences as lists of steps, in the order of a rank table (the longest sequence first).
//!
//! `lod_tensor_to_array`: Out[t] = step t of every sequence of X that has one. `array_to_lod_tensor`: the inverse.
//! `shrink_rnn_memory`: Out = the first pieces of X, as many as there are sequences with a step I.
//! `reorder_lod_tensor_by_rank`: Out = the pieces of X in the order of the table.

use std::ops::Range;

use tensor::{Lod, Shape, Tensor, Value};

use super::array::{add_element, array_at};
use super::step_values::zeros;
use super::{Grad, Infer, Kernel, Op, Run, traits};
use crate::block::OpDesc;
use crate::error::Result;
use crate::var::{Meta, VarKind};

pub(super) struct LodTensorToArray;
pub(super) struct LodTensorToArrayGrad;
pub(super) struct ArrayToLodTensor;
pub(super) struct ArrayToLodTensorGrad;
pub(super) struct ShrinkRnnMemory;
pub(super) struct ShrinkRnnMemoryGrad;
pub(super) struct ReorderLodTensorByRank;
pub(super) struct ReorderLodTensorByRankGrad;

/// A sequence in a rank table: which it is, and how long.
#[derive(Clone, Copy)]
struct Ranked {
    which: usize,
    len: usize,
}

/// The sequences at port `RankTable`, the longest first, and the level of the sequences.
fn ranked(run: &Run<'_>) -> Result<(Vec<Ranked>, usize)> {
    let table = run.input("RankTable")?;
    let rows = run.data::<i64>("RankTable")?;
    let size =
        |x: i64| usize::try_from(x).map_err(|_| run.shape("no rank is negative", "RankTable"));
    let mut found = Vec::with_capacity(rows.len() / 2);
    for row in rows.chunks_exact(2) {
        found.push(Ranked { which: size(row[0])?, len: size(row[1])? });
    }
    Ok((found, table.lod().n_levels()))
}

/// Rows of a tensor, with the lengths of the sequences among them at each level.
struct SequencePiece {
    rows: Range<usize>,
    lengths: Vec<Vec<usize>>,
}

/// The pieces `range` of the first of `levels`; of rows if there is none. `None` if there are not so many.
fn piece(levels: &[Vec<usize>], n_rows: usize, range: Range<usize>) -> Option<SequencePiece> {
    let (mut rows, mut lengths) = (range, Vec::new());
    for level in levels {
        let offsets = level.get(rows.start..rows.end.checked_add(1)?)?;
        lengths.push(offsets.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect());
        rows = *offsets.first()?..*offsets.last()?;
    }
    (rows.start <= rows.end && rows.end <= n_rows).then_some(SequencePiece { rows, lengths })
}

fn n_rows(tensor: &Tensor) -> usize {
    tensor.dims().first().copied().unwrap_or(0)
}

/// Bytes of these rows.
fn bytes<'a>(tensor: &'a Tensor, rows: &Range<usize>) -> &'a [u8] {
    let width = tensor.bytes().len() / n_rows(tensor).max(1);
    &tensor.bytes()[rows.start * width..rows.end * width]
}

/// Pieces as they are put one behind the other.
#[derive(Default)]
struct JoinedRows {
    bytes: Vec<u8>,
    n_rows: usize,
    lengths: Vec<Vec<usize>>,
}

impl JoinedRows {
    fn push(&mut self, from: &Tensor, piece: SequencePiece) {
        self.bytes.extend_from_slice(bytes(from, &piece.rows));
        self.n_rows += piece.rows.len();
        self.lengths.resize_with(piece.lengths.len().max(self.lengths.len()), Vec::new);
        for (all, lengths) in self.lengths.iter_mut().zip(piece.lengths) {
            all.extend(lengths);
        }
    }

    /// All of them, rows as those of `like`, below these outer levels of lengths.
    fn into_tensor(self, like: &Tensor, outer: Vec<Vec<usize>>) -> Tensor {
        let mut tensor = Tensor::default();
        let is_flat = like.shape().rank() < 2;
        let flat = Shape::from([self.n_rows]);
        let shape = if is_flat { flat } else { like.shape().with_dim(0, self.n_rows) };
        tensor.resize_as(like.dtype(), shape);
        tensor.bytes_mut().copy_from_slice(&self.bytes);
        let levels: Vec<Vec<usize>> = outer.into_iter().chain(self.lengths).collect();
        tensor.set_lod(if levels.is_empty() {
            Lod::NONE
        } else {
            Lod::from_recursive_lengths(&levels)
        });
        tensor
    }
}

const FITS: &str = "it must have the sequences of the rank table";

/// The pieces of X that are step `t`, in the order of the table.
fn step(x: &Tensor, table: &[Ranked], level: usize, t: usize) -> Option<Vec<SequencePiece>> {
    let levels = x.lod().levels();
    let offsets = levels.get(level)?;
    let with_step = table.iter().take_while(|ranked| ranked.len > t);
    let pieces = with_step.map(|ranked| {
        let at = offsets.get(ranked.which)?.checked_add(t)?;
        piece(&levels[level + 1..], n_rows(x), at..at.checked_add(1)?)
    });
    pieces.collect()
}

impl Op for LodTensorToArray {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let mut x = infer.input("X")?;
        if let Some(rows) = x.dims.first_mut() {
            *rows = -1;
        }
        infer.set_output("Out", Meta { kind: VarKind::LodTensorArray, ..x })
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (table, level) = ranked(run)?;
        let x = run.input("X")?;
        let n_steps = table.first().map_or(0, |longest| longest.len);
        let mut list = Vec::new();
        for t in 0..n_steps {
            let pieces = step(x, &table, level, t).ok_or_else(|| run.shape(FITS, "X"))?;
            let mut joined = JoinedRows::default();
            pieces.into_iter().for_each(|piece| joined.push(x, piece));
            list.push(joined.into_tensor(x, Vec::new()));
        }
        run.put_value_at("Out", 0, Value::Array(list));
        Ok(())
    }

    /// The gradient of a step of a sequence is its part of that of the step.
    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let op = OpDesc::new("lod_tensor_to_array_grad").input("X", grad.input("X"));
        let op = op.input("RankTable", grad.input("RankTable"));
        let op = op.input("Out@GRAD", grad.output_grad("Out"));
        grad.emit(op.output("X@GRAD", grad.input_grad("X")))
    }
}

impl Kernel for LodTensorToArrayGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (table, level) = ranked(run)?;
        let x = run.input("X")?;
        let mut d_x = zeros(x);
        d_x.set_lod(x.lod().clone());
        let width = d_x.bytes().len() / n_rows(x).max(1);
        for (t, part) in array_at(run, "Out@GRAD")?.iter().enumerate() {
            let pieces = step(x, &table, level, t).ok_or_else(|| run.shape(FITS, "X"))?;
            let n: usize = pieces.iter().map(|piece| piece.rows.len()).sum();
            if !part.is_initialized() {
                continue;
            }
            if part.bytes().len() != n * width {
                return Err(run.shape("a gradient must be like the step", "X"));
            }
            let mut at = 0;
            for SequencePiece { rows, .. } in pieces {
                let n = rows.len() * width;
                let to = &mut d_x.bytes_mut()[rows.start * width..][..n];
                to.copy_from_slice(&part.bytes()[at..at + n]);
                at += n;
            }
        }
        run.put("X@GRAD", d_x);
        Ok(())
    }
}

/// Where each row of the sequences comes from: a step, and its piece; in the order of the sequences.
fn steps_in_order(list: &[Tensor], table: &[Ranked]) -> Option<Vec<(usize, SequencePiece)>> {
    let mut order: Vec<usize> = (0..table.len()).collect();
    order.sort_by_key(|&rank| table[rank].which);
    let mut found = Vec::new();
    for rank in order {
        for t in 0..table[rank].len {
            let from = list.get(t).filter(|from| from.is_initialized())?;
            found.push((t, piece(from.lod().levels(), n_rows(from), rank..rank + 1)?));
        }
    }
    Some(found)
}

impl Op for ArrayToLodTensor {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let mut x = infer.input("X")?;
        if let Some(rows) = x.dims.first_mut() {
            *rows = -1;
        }
        infer.set_output("Out", Meta { kind: VarKind::LodTensor, lod_level: x.lod_level + 1, ..x })
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (table, _) = ranked(run)?;
        let list = array_at(run, "X")?;
        let steps = steps_in_order(list, &table).ok_or_else(|| run.shape(FITS, "RankTable"))?;
        let Some(like) = list.first() else { return Err(run.shape(FITS, "RankTable")) };
        let mut joined = JoinedRows::default();
        for (t, piece) in steps {
            let row = |x: &Tensor| (x.dtype(), x.dims().get(1..).map(<[_]>::to_vec));
            if row(&list[t]) != row(like) {
                return Err(run.shape("every step must have rows of one shape", "RankTable"));
            }
            joined.push(&list[t], piece);
        }
        let mut lengths = vec![0; table.len()];
        for ranked in &table {
            let length = lengths.get_mut(ranked.which);
            *length.ok_or_else(|| run.shape(FITS, "RankTable"))? = ranked.len;
        }
        let mut outer = run.input("RankTable")?.lod().lengths();
        outer.push(lengths);
        let out = joined.into_tensor(like, outer);
        run.put("Out", out);
        Ok(())
    }

    /// The gradient of a step is put together from those of the sequences.
    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let d_x = grad.input_grad("X");
        let op = OpDesc::new("array_to_lod_tensor_grad").input("X", grad.input("X"));
        let op = op.input("RankTable", grad.input("RankTable")).input("X@GRAD", d_x.clone());
        grad.emit(op.input("Out@GRAD", grad.output_grad("Out")).output("X@GRAD", d_x))
    }
}

impl Kernel for ArrayToLodTensorGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (table, _) = ranked(run)?;
        let list = array_at(run, "X")?;
        let steps = steps_in_order(list, &table).ok_or_else(|| run.shape(FITS, "RankTable"))?;
        let d_out = run.input("Out@GRAD")?;
        let total: usize = steps.iter().map(|(_, piece)| piece.rows.len()).sum();
        if n_rows(d_out) != total {
            return Err(run.shape("a gradient must be like the sequences", "Out@GRAD"));
        }
        let n_steps = table.iter().map(|ranked| ranked.len).max().unwrap_or(0);
        let mut parts: Vec<Tensor> = list[..n_steps].iter().map(zeros).collect();
        let mut row = 0;
        for (t, SequencePiece { rows, .. }) in steps {
            let from = bytes(d_out, &(row..row + rows.len()));
            let width = from.len() / rows.len().max(1);
            let to = parts[t].bytes_mut().get_mut(rows.start * width..rows.end * width);
            let to = to.filter(|to| to.len() == from.len());
            to.ok_or_else(|| run.shape(FITS, "Out@GRAD"))?.copy_from_slice(from);
            row += rows.len();
        }
        let lods: Vec<Lod> = list[..n_steps].iter().map(|step| step.lod().clone()).collect();
        for (t, (mut part, lod)) in parts.into_iter().zip(lods).enumerate() {
            part.set_lod(lod);
            add_element(run, "X@GRAD", t, &part)?;
        }
        Ok(())
    }
}

impl Op for ShrinkRnnMemory {
    traits!(Never, "I": [I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let mut x = infer.input("X")?;
        if let Some(rows) = x.dims.first_mut() {
            *rows = -1;
        }
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (table, _) = ranked(run)?;
        let at = run.scalar("I")?;
        let n = table.iter().take_while(|ranked| ranked.len as f64 > at).count();
        let x = run.input("X")?;
        let levels = match x.lod().levels() {
            [first, ..] if first.len() > n => x.lod().levels(),
            _ => &[],
        };
        let piece = piece(levels, n_rows(x), 0..n).ok_or_else(|| run.shape(FITS, "X"))?;
        let mut joined = JoinedRows::default();
        joined.push(x, piece);
        let out = joined.into_tensor(x, Vec::new());
        run.put("Out", out);
        Ok(())
    }

    /// What was left out has no gradient.
    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let op = OpDesc::new("shrink_rnn_memory_grad").input("X", grad.input("X"));
        let op = op.input("Out@GRAD", grad.output_grad("Out"));
        grad.emit(op.output("X@GRAD", grad.input_grad("X")))
    }
}

impl Kernel for ShrinkRnnMemoryGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run.fill("X@GRAD", "X", |run, x, d_x| {
            let d_out = run.input("Out@GRAD")?;
            d_x.resize_as(x.dtype(), x.shape());
            let n = d_out.bytes().len();
            if d_out.dtype() != x.dtype() || n > d_x.bytes().len() {
                return Err(run.shapes("the gradient must be a part", "X", "Out@GRAD"));
            }
            let (kept, lost) = d_x.bytes_mut().split_at_mut(n);
            kept.copy_from_slice(d_out.bytes());
            lost.fill(0);
            Ok(())
        })
    }
}

/// Pieces of X in the order of the table: sequences of the first level, or rows.
fn in_rank_order(run: &Run<'_>, x: &Tensor) -> Result<Vec<SequencePiece>> {
    let (table, _) = ranked(run)?;
    let levels = x.lod().levels();
    let pieces = table.iter().map(|ranked| {
        let end = ranked.which.checked_add(1)?;
        piece(levels, n_rows(x), ranked.which..end)
    });
    let pieces: Option<Vec<SequencePiece>> = pieces.collect();
    pieces.ok_or_else(|| run.shape(FITS, "X"))
}

impl Op for ReorderLodTensorByRank {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let x = run.input("X")?;
        let mut joined = JoinedRows::default();
        in_rank_order(run, x)?.into_iter().for_each(|piece| joined.push(x, piece));
        let out = joined.into_tensor(x, Vec::new());
        run.put("Out", out);
        Ok(())
    }

    /// The gradients of the pieces go back to their places.
    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let op = OpDesc::new("reorder_lod_tensor_by_rank_grad").input("X", grad.input("X"));
        let op = op.input("RankTable", grad.input("RankTable"));
        let op = op.input("Out@GRAD", grad.output_grad("Out"));
        grad.emit(op.output("X@GRAD", grad.input_grad("X")))
    }
}

impl Kernel for ReorderLodTensorByRankGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run.fill("X@GRAD", "X", |run, x, d_x| {
            let d_out = run.input("Out@GRAD")?;
            let pieces = in_rank_order(run, x)?;
            let total: usize = pieces.iter().map(|piece| piece.rows.len()).sum();
            if n_rows(d_out) != total || d_out.dtype() != x.dtype() {
                return Err(run.shapes("the gradient must have the pieces", "X", "Out@GRAD"));
            }
            d_x.resize_as(x.dtype(), x.shape());
            d_x.bytes_mut().fill(0);
            let width = x.bytes().len() / n_rows(x).max(1);
            let mut row = 0;
            for SequencePiece { rows, .. } in pieces {
                let from = bytes(d_out, &(row..row + rows.len()));
                let to = d_x.bytes_mut().get_mut(rows.start * width..rows.end * width);
                let to = to.filter(|to| to.len() == from.len());
                to.ok_or_else(|| run.shapes("rows must be alike", "X", "Out@GRAD"))?
                    .copy_from_slice(from);
                row += rows.len();
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::op::check::{check, ids, seq, t};

    fn x() -> Tensor {
        seq(t(&[6, 1], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), &[1, 3, 2])
    }

    fn table() -> Tensor {
        ids(&[3, 2], &[1, 3, 2, 2, 0, 1])
    }

    #[test]
    fn sequences_become_steps_and_steps_sequences() {
        let list = check("lod_tensor_to_array").input("X", x()).input("RankTable", table());
        let list = list.output("Out").run("Out");
        let steps = [t(&[3, 1], &[2.0, 5.0, 1.0]), t(&[2, 1], &[3.0, 6.0]), t(&[1, 1], &[4.0])];
        assert_eq!(list, Value::Array(steps.to_vec()));
        let back = check("array_to_lod_tensor").input("X", list).input("RankTable", table());
        assert_eq!(back.output("Out").run("Out"), Value::Tensor(x()));
    }

    #[test]
    fn a_memory_shrinks_with_the_sequences() {
        let shrink = |at: i64| {
            let op = check("shrink_rnn_memory").input("X", t(&[3, 1], &[1.0, 2.0, 3.0]));
            op.input("RankTable", table()).input("I", ids(&[1], &[at]))
        };
        shrink(0).gives("Out", t(&[3, 1], &[1.0, 2.0, 3.0]));
        shrink(1).gives("Out", t(&[2, 1], &[1.0, 2.0]));
        shrink(2).output("Out").grad(&["X"]);
    }

    #[test]
    fn pieces_take_the_order_of_the_table() {
        let op = |x: Tensor| {
            check("reorder_lod_tensor_by_rank").input("X", x).input("RankTable", table())
        };
        op(t(&[3, 1], &[1.0, 2.0, 3.0])).gives("Out", t(&[3, 1], &[2.0, 3.0, 1.0]));
        let sorted = seq(t(&[6, 1], &[2.0, 3.0, 4.0, 5.0, 6.0, 1.0]), &[3, 2, 1]);
        op(x()).gives("Out", sorted);
        op(x()).output("Out").grad(&["X"]);
        let error = op(t(&[2, 1], &[1.0, 2.0])).output("Out").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
    }
}
