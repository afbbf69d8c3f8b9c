//! `fused_embedding_seq_pool`: Out = for each sequence of Ids the sum of the rows of W that it names, column of Ids by column. The
//! id `padding_idx` is left out.
//!
//! The gradient with `is_sparse` is keyed rows, the ids as they stand; otherwise it is dense.

use tensor::{Shape, is_row};

use super::ragged;
use super::sizes::bad_attr;
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::error::{Error, Result};
use crate::var::{Meta, VarKind};

pub(super) struct FusedEmbeddingSeqPool;
pub(super) struct FusedEmbeddingSeqPoolGrad;

const OP: &str = "FusedEmbeddingSeqPoolOp";
const TABLE: &str = "a table has two dimensions";

impl Op for FusedEmbeddingSeqPool {
    traits!(Rows("Ids"), "Ids": [I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let (w, ids) = (infer.input("W")?, infer.input("Ids")?);
        let [_, width] = *w.dims else { return Err(infer.shape(TABLE, "W")) };
        let columns = ids.dims.iter().skip(1).product::<i64>();
        combiner(infer.attrs())?;
        infer.set_output("Out", Meta::dense(w.dtype, &[-1, width * columns]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        combiner(run.attrs())?;
        run.make("Out", |run, out| {
            let batch = IdBatch::of(run)?;
            let w = run.input("W")?;
            for_float!(w.dtype(), run.input_name("W"), T => {
                let width = batch.width;
                let shape = Shape::from([batch.offsets.len() - 1, width * batch.columns]);
                let (table, out) = (w.data::<T>()?, out.try_resize_zeroed::<T>(shape)?);
                batch.each(|id, to| {
                    let row = &table[id * width..(id + 1) * width];
                    out[to * width..(to + 1) * width].iter_mut().zip(row).for_each(|(o, &x)| *o += x);
                });
                Ok(())
            })
        })
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["W"]).inputs(&["W", "Ids"]))
    }
}

fn combiner(attrs: &crate::attr::Attrs) -> Result<()> {
    match attrs.str("combiner", "sum")? {
        "sum" => Ok(()),
        other => Err(bad_attr("combiner", "sum", other)),
    }
}

/// The ids of a batch, each of them a row of the table.
struct IdBatch<'r> {
    ids: &'r [i64],
    offsets: &'r [usize],
    columns: usize,
    width: usize,
    padding: Option<i64>,
}

impl<'r> IdBatch<'r> {
    fn of(run: &'r Run<'_>) -> Result<Self> {
        let &[height, width] = run.input("W")?.dims() else { return Err(run.shape(TABLE, "W")) };
        let offsets = ragged::only_offsets(run, OP, "Ids")?;
        let columns = ragged::width(run.input("Ids")?);
        let ids = run.data::<i64>("Ids")?;
        let padding = Some(run.attrs().int("padding_idx", -1)?).filter(|&id| id != -1);
        let bad = |id: &i64| Some(*id) != padding && !is_row(*id, height as i64);
        if let Some(position) = ids.iter().position(bad) {
            let var = run.input_name("Ids").to_string();
            return Err(Error::IdOutOfRange {
                var,
                position,
                id: ids[position],
                height: height as i64,
            });
        }
        Ok(Self { ids, offsets, columns, width, padding })
    }

    /// Calls with each id and with the row of the result, cut into rows of the table, that it counts for.
    fn each(&self, mut call: impl FnMut(usize, usize)) {
        for (sequence, pair) in self.offsets.windows(2).enumerate() {
            for at in pair[0] * self.columns..pair[1] * self.columns {
                if Some(self.ids[at]) != self.padding {
                    call(self.ids[at] as usize, sequence * self.columns + at % self.columns);
                }
            }
        }
    }
}

impl Kernel for FusedEmbeddingSeqPoolGrad {
    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let w = infer.input("W")?;
        let sparse = infer.attrs().bool("is_sparse", false)?;
        let kind = if sparse { VarKind::SelectedRows } else { VarKind::LodTensor };
        infer.set_output("W@GRAD", Meta { kind, ..w })
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let batch = IdBatch::of(run)?;
        let n = (batch.offsets.len() - 1) * batch.columns * batch.width;
        if run.input("Out@GRAD")?.len() != n {
            return Err(run.shapes("the gradient has a row for each sequence", "Out@GRAD", "Ids"));
        }
        if run.attrs().bool("is_sparse", false)? { sparse_grad(run) } else { dense_grad(run) }
    }
}

fn dense_grad(run: &mut Run<'_>) -> Result<()> {
    run.make("W@GRAD", |run, d_w| {
        let batch = IdBatch::of(run)?;
        let (w, width) = (run.input("W")?, batch.width);
        for_float!(w.dtype(), run.input_name("W"), T => {
            let (d_w, d_out) = (d_w.resize_zeroed::<T>(w.shape()), run.data::<T>("Out@GRAD")?);
            batch.each(|id, to| {
                let d = &d_out[to * width..(to + 1) * width];
                d_w[id * width..(id + 1) * width].iter_mut().zip(d).for_each(|(sum, &d)| *sum += d);
            });
            Ok(())
        })
    })
}

fn sparse_grad(run: &mut Run<'_>) -> Result<()> {
    let mut rows = run.take_rows("W@GRAD");
    let batch = IdBatch::of(run)?;
    let (w, width) = (run.input("W")?, batch.width);
    rows.height = w.shape().dim(0) as i64;
    rows.ids.clear();
    batch.each(|id, _| rows.ids.push(id as i64));
    let shape = Shape::from([rows.ids.len(), width]);
    for_float!(w.dtype(), run.input_name("W"), T => {
        let (mut values, d_out) = (rows.value.try_resize::<T>(shape)?, run.data::<T>("Out@GRAD")?);
        batch.each(|_, to| {
            let (row, rest) = std::mem::take(&mut values).split_at_mut(width);
            row.copy_from_slice(&d_out[to * width..(to + 1) * width]);
            values = rest;
        });
        Ok(())
    })?;
    run.put_rows("W@GRAD", rows);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, ids, seq, some, t};

    fn pooled(sparse: bool) -> Check {
        check("fused_embedding_seq_pool")
            .input("W", t(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
            .input("Ids", seq(ids(&[3, 2], &[0, 1, 2, 2, 1, 1]), &[2, 1]))
            .attr("is_sparse", sparse)
    }

    #[test]
    fn adds_rows_column_by_column() {
        pooled(false).gives("Out", t(&[2, 4], &[6.0, 8.0, 8.0, 10.0, 3.0, 4.0, 3.0, 4.0]));
        pooled(false)
            .attr("padding_idx", 1i64)
            .gives("Out", t(&[2, 4], &[6.0, 8.0, 5.0, 6.0, 0.0, 0.0, 0.0, 0.0]));
    }

    #[test]
    fn gradients_match_finite_differences() {
        for sparse in [false, true] {
            pooled(sparse).output("Out").grad(&["W"]);
            pooled(sparse).attr("padding_idx", 1i64).output("Out").grad(&["W"]);
        }
    }

    #[test]
    fn refuses_ids_and_combiners_that_are_not_there() {
        let beyond = seq(ids(&[1, 1], &[3]), &[1]);
        let error = pooled(false).input("Ids", beyond).output("Out").fails();
        assert!(matches!(error.root(), Error::IdOutOfRange { id: 3, .. }), "{error}");
        let error = pooled(false).input("Ids", ids(&[1, 1], &[0])).output("Out").fails();
        assert!(matches!(error.root(), Error::NoLod { .. }), "{error}");
        let error = pooled(false).attr("combiner", "mean").output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        let error = pooled(false).input("W", some(&[3])).output("Out").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
    }
}
