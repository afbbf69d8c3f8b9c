//! `lod_rank_table`: Out = the sequences of X at a level, the longest first: (which, how long).
//! Equally long ones stay in their order. `max_sequence_len`: Out = the length of the longest.

use tensor::{DType, Lod, Shape};

use super::{Infer, Op, Run, no_gradient, traits};
use crate::error::Result;
use crate::var::{Meta, VarKind};

pub(super) struct LodRankTable;
pub(super) struct MaxSequenceLen;

impl Op for LodRankTable {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let meta = Meta { kind: VarKind::LodRankTable, ..Meta::dense(DType::I64, &[-1, 2]) };
        infer.set_output("Out", meta)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let level = usize::try_from(run.attrs().int("level", 0)?).unwrap_or(usize::MAX);
        let mut out = run.take("Out");
        let x = run.input("X")?;
        let Some(offsets) = x.lod().levels().get(level) else {
            return Err(run.shape("it must have sequences at this level", "X"));
        };
        let outer = x.lod().levels()[..level].to_vec();
        let coarse = if outer.is_empty() { Lod::NONE } else { Lod::from_offsets(outer) };
        let lengths = offsets.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
        let mut table: Vec<(usize, usize)> = lengths.enumerate().collect();
        table.sort_by_key(|&(_, length)| std::cmp::Reverse(length));
        let rows = out.resize::<i64>(Shape::from([table.len(), 2]));
        for (row, (which, length)) in rows.chunks_exact_mut(2).zip(table) {
            row.copy_from_slice(&[which as i64, length as i64]);
        }
        // The levels around the sequences: those that are made from its steps have them again.
        out.set_lod(coarse);
        run.put("Out", out);
        Ok(())
    }

    no_gradient!();
}

impl Op for MaxSequenceLen {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        infer.set_output("Out", Meta::dense(DType::I64, &[1]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut out = run.take("Out");
        let longest = run.data::<i64>("RankTable")?.get(1).copied().unwrap_or(0);
        out.resize::<i64>(Shape::from([1]))[0] = longest;
        run.put("Out", out);
        Ok(())
    }

    no_gradient!();
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{check, ids, seq, t};

    #[test]
    fn the_longest_sequence_comes_first() {
        let x = seq(t(&[6], &[0.0; 6]), &[1, 3, 2]);
        let table = ids(&[3, 2], &[1, 3, 2, 2, 0, 1]);
        check("lod_rank_table").input("X", x).gives("Out", table.clone());
        check("max_sequence_len").input("RankTable", table).gives("Out", ids(&[1], &[3]));
    }

    #[test]
    fn without_sequences_there_is_no_table() {
        let error = check("lod_rank_table").input("X", t(&[2], &[1.0, 2.0])).output("Out").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
    }
}
