//! `filter_by_instag`: Out = the rows of Ins (or its sequences, with `is_lod`) that have a tag of Filter_tag among
//! their sequence of Ins_tag. LossWeight is 1 for each, and IndexMap says from which rows they come.
//!
//! If nothing passes, Out is one row of `out_val_if_empty` and LossWeight is 0, so that the row does not learn.

use std::collections::HashSet;

use tensor::{DType, Lod, Shape};

use super::ragged;
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_number, traits};
use crate::error::{Error, Result};
use crate::var::Meta;

pub(super) struct FilterByInstag;
pub(super) struct FilterByInstagGrad;

const OP: &str = "FilterByInstagOp";
const MATRIX: &str = "Ins is a matrix";

/// Rows that stay, as many as follow each other.
#[derive(Clone, Copy)]
struct Stretch {
    to: usize,
    from: usize,
    n: usize,
}

impl Op for FilterByInstag {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let ins = infer.input("Ins")?;
        let [_, width] = *ins.dims else { return Err(infer.shape(MATRIX, "Ins")) };
        infer.set_output("Out", ins.with_dims(vec![-1, width]).with_lod_level(1))?;
        infer.set_output("LossWeight", Meta::dense(DType::F32, &[-1, 1]).with_lod_level(1))?;
        infer.set_output("IndexMap", Meta::dense(DType::I64, &[-1, 3]).with_lod_level(1))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (mut out, mut weight) = (run.take("Out"), run.take("LossWeight"));
        let mut map = run.take("IndexMap");
        let ins = run.input("Ins")?;
        let &[_, width] = ins.dims() else { return Err(run.shape(MATRIX, "Ins")) };
        let kept = kept(run)?;
        let n = kept.len().max(1);
        let n_rows = kept.last().map_or(1, |last| last.to + last.n);
        let filler = run.attrs().int("out_val_if_empty", 0)?;
        for_number!(ins.dtype(), run.input_name("Ins"), T => {
            let data = ins.data::<T>()?;
            let out = out.resize::<T>(Shape::from([n_rows, width]));
            out.fill(filler as T);
            for Stretch { to, from, n } in &kept {
                out[to * width..(to + n) * width].copy_from_slice(&data[from * width..(from + n) * width]);
            }
            Ok(())
        })?;
        weight.resize::<f32>(Shape::from([n, 1])).fill(if kept.is_empty() { 0.0 } else { 1.0 });
        let rows = map.resize::<i64>(Shape::from([n, 3]));
        rows.copy_from_slice(&[0, 1, 1].repeat(n));
        for (row, Stretch { to, from, n }) in rows.chunks_exact_mut(3).zip(&kept) {
            row.copy_from_slice(&[*to as i64, *from as i64, *n as i64]);
        }
        if kept.is_empty() {
            out.set_lod(Lod::from_lengths([1]));
        } else {
            out.set_lod(Lod::from_lengths(kept.iter().map(|stretch| stretch.n)));
        }
        weight.set_lod(Lod::from_lengths(vec![1; n]));
        map.set_lod(weight.lod().clone());
        run.put("Out", out);
        run.put("LossWeight", weight);
        run.put("IndexMap", map);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let keep = Keep::grads(&["Out"], &["Ins"]).inputs(&["Ins", "Ins_tag", "Filter_tag"]);
        grad.emit_usual(keep.outputs(&["LossWeight", "IndexMap"]))
    }
}

/// Which rows of Ins stay.
fn kept(run: &Run<'_>) -> Result<Vec<Stretch>> {
    let wanted: HashSet<i64> = run.data::<i64>("Filter_tag")?.iter().copied().collect();
    let tags = run.input("Ins_tag")?;
    let tag_offsets = ragged::offsets(run, OP, "Ins_tag")?;
    let tag_width = ragged::width(tags);
    let tags = run.data::<i64>("Ins_tag")?;
    let n_rows = run.input("Ins")?.shape().dim(0);
    let single: Vec<usize>;
    let offsets = if run.attrs().bool("is_lod", true)? {
        ragged::offsets(run, OP, "Ins")?
    } else {
        single = (0..=n_rows).collect();
        &single
    };
    if offsets.len() < tag_offsets.len() {
        return Err(run.shapes(
            "Ins has a row or a sequence for each sequence of tags",
            "Ins",
            "Ins_tag",
        ));
    }
    let (mut kept, mut to) = (Vec::new(), 0);
    for (own, rows) in tag_offsets.windows(2).zip(offsets.windows(2)) {
        let own = &tags[own[0] * tag_width..own[1] * tag_width];
        if own.iter().any(|tag| wanted.contains(tag)) {
            kept.push(Stretch { to, from: rows[0], n: rows[1] - rows[0] });
            to += rows[1] - rows[0];
        }
    }
    Ok(kept)
}

/// Rows that stayed get dOut, others 0.
impl Kernel for FilterByInstagGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run.fill("Ins@GRAD", "Ins", |run, ins, d_ins| {
            let (d_out, map) = (run.input("Out@GRAD")?, run.data::<i64>("IndexMap")?);
            let width = ragged::width(ins);
            for_number!(ins.dtype(), run.input_name("Ins"), T => {
                let d_ins = d_ins.resize_zeroed::<T>(ins.shape());
                let weights = run.data::<f32>("LossWeight")?;
                if weights == [0.0] {
                    return Ok(());
                }
                let d_out = d_out.data::<T>()?;
                for row in map.chunks_exact(3) {
                    let place = |at: i64| usize::try_from(at).unwrap_or(usize::MAX / 2).saturating_mul(width);
                    let (to, from) = (place(row[0]), place(row[1]));
                    let n = place(row[2]);
                    let parts = (d_ins.get_mut(from..from.saturating_add(n)), d_out.get(to..to.saturating_add(n)));
                    let (Some(d_ins), Some(d_out)) = parts else {
                        let (rule, var) = ("an index map names rows", run.input_name("IndexMap").to_string());
                        return Err(Error::BadValue { rule, var, position: 0, value: row[0] as f64 });
                    };
                    d_ins.copy_from_slice(d_out);
                }
                Ok(())
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use tensor::Tensor;

    use crate::error::Error;
    use crate::op::check::{Check, check, ids, seq, some, t};

    fn filtered(ins: Tensor, tag: i64) -> Check {
        check("filter_by_instag")
            .input("Ins", ins)
            .input("Ins_tag", seq(ids(&[4, 1], &[1, 2, 1, 3]), &[1, 2, 1]))
            .input("Filter_tag", ids(&[1], &[tag]))
            .attr("out_val_if_empty", 7i64)
    }

    #[test]
    fn keeps_rows_with_a_tag() {
        let ins = t(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        filtered(ins, 1)
            .attr("is_lod", false)
            .gives("Out", seq(t(&[2, 2], &[1.0, 2.0, 3.0, 4.0]), &[1, 1]))
            .gives("IndexMap", seq(ids(&[2, 3], &[0, 0, 1, 1, 1, 1]), &[1, 1]))
            .gives("LossWeight", seq(Tensor::new([2, 1], &[1.0f32; 2]).unwrap(), &[1, 1]));
    }

    #[test]
    fn keeps_sequences_with_a_tag() {
        let ins = seq(t(&[4, 1], &[1.0, 2.0, 3.0, 4.0]), &[2, 1, 1]);
        filtered(ins, 1).gives("Out", seq(t(&[3, 1], &[1.0, 2.0, 3.0]), &[2, 1]));
    }

    #[test]
    fn gives_a_row_without_weight_if_nothing_passes() {
        let ins = seq(t(&[4, 1], &[1.0, 2.0, 3.0, 4.0]), &[2, 1, 1]);
        filtered(ins, 9)
            .gives("Out", seq(t(&[1, 1], &[7.0]), &[1]))
            .gives("LossWeight", seq(Tensor::new([1, 1], &[0.0f32]).unwrap(), &[1]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        let ins = seq(some(&[4, 2]), &[2, 1, 1]);
        filtered(ins, 2).output("Out").aux("LossWeight").output("IndexMap").grad(&["Ins"]);
    }

    #[test]
    fn refuses_fewer_rows_than_tags() {
        let error = filtered(some(&[2, 2]), 1).attr("is_lod", false).output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
        let error = filtered(some(&[3, 2]), 1).output("Out").fails();
        assert!(matches!(error.root(), Error::NoLod { .. }), "{error}");
    }
}
