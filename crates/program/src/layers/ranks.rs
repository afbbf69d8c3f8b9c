//! Small questions about a variable: is it empty, how long are its sequences; parts of it; places.

use tensor::DType;

use super::append::one_op;
use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::Result;
use crate::var::{Meta, VarDesc, VarKind};

layers! { questions;
    /// Whether a variable has no elements, in `cond` if it is given.
    fn is_empty(x: Input; cond: MaybeInput = None) -> Var { |b|
        let Some(cond) = cond else {
            return one_op(b, "is_empty", None).input("X", x).out_stopped("Out", DType::Bool);
        };
        b.op(OpDesc::new("is_empty").input("X", x).output("Out", cond))?;
        Ok(cond.clone())
    }

    /// The sequences of a variable at a level, the longest first.
    fn lod_rank_table(x: Input; level: i32 = 0) -> Var { |b, kind|
        let table = special(b, kind, VarKind::LodRankTable);
        b.op(OpDesc::new(kind).input("X", x).output("Out", &table).attr("level", level))?;
        Ok(table)
    }

    /// The length of the longest sequence in a table of `lod_rank_table`.
    fn max_sequence_len(rank_table: Input) -> Var { |b, kind|
        let op = one_op(b, "max_seqence_len", None).of(kind).input("RankTable", rank_table);
        op.out_stopped("Out", DType::I64)
    }

    /// Sequences as a list of their steps, in the order of a table of `lod_rank_table`.
    fn lod_tensor_to_array(x: Input, table: Input) -> Var { |b, kind|
        b.layer_name(kind, None);
        let name = b.names.generate(kind);
        let meta = Meta { kind: VarKind::LodTensorArray, ..b.meta(x)? };
        let block = b.main.current_block();
        b.main.block_mut(block).put_var(VarDesc::new(&name, meta));
        b.op(OpDesc::new(kind).input("X", x).input("RankTable", table).output("Out", &name))?;
        Ok(Var::from(name))
    }

    /// The sequences whose steps are the tensors of a list, in the order of a table of `lod_rank_table`.
    fn array_to_lod_tensor(x: Input, table: Input) -> Var { |b, kind|
        one_op(b, kind, None).input("X", x).input("RankTable", table).out("Out")
    }

    /// The rows of a memory of sequences that have a step `i`, in the order of a table of `lod_rank_table`.
    fn shrink_memory(x: Input, i: Input, table: Input) -> Var { |b, kind|
        let op = one_op(b, kind, None).of("shrink_rnn_memory").input("X", x).input("I", i);
        op.input("RankTable", table).out("Out")
    }

    /// Sequences (or rows) in the order of a table of `lod_rank_table`.
    fn reorder_lod_tensor_by_rank(x: Input, rank_table: Input) -> Var { |b, kind|
        one_op(b, kind, None).input("X", x).input("RankTable", rank_table).out("Out")
    }

    /// The rows (or sequences) for which a mask holds, and the others.
    fn split_lod_tensor(input: Input, mask: Input; level: i32 = 0) -> (Var, Var) { |b, kind|
        let op = one_op(b, kind, None).input("X", input).input("Mask", mask).attr("level", level);
        op.also("OutTrue")?.also("OutFalse")?.pair()
    }

    /// Rows (or sequences) put together again, in the order of a mask.
    fn merge_lod_tensor(in_true: Input, in_false: Input, x: Input, mask: Input; level: i32 = 0)
    -> Var { |b, kind|
        let op = one_op(b, kind, None).input("InTrue", in_true).input("InFalse", in_false);
        op.input("X", x).input("Mask", mask).attr("level", level).out("Out")
    }

    /// The processors of a run.
    fn get_places(; device_count: MaybeI32 = None, device_type: Name = None) -> Var { |b, kind|
        let places = special(b, kind, VarKind::PlaceList);
        let op = OpDesc::new(kind).attr("device_count", device_count.unwrap_or(0));
        b.op(op.output("Out", &places).attr("device_type", device_type.unwrap_or("AUTO")))?;
        Ok(places)
    }
}

/// A variable of a kind that is no tensor.
fn special(b: &mut Builder<'_>, layer: &str, kind: VarKind) -> Var {
    b.layer_name(layer, None);
    let name = b.names.generate(layer);
    let block = b.main.current_block();
    b.main.block_mut(block).put_var(VarDesc::new(&name, Meta { kind, ..Meta::default() }));
    Var::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;
    use crate::layers::{Data, data};

    #[test]
    fn tables_and_places_are_no_tensors() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = data(&mut b, "x", &[2], Data::default()).unwrap();
        let table = lod_rank_table(&mut b, &x, 0).unwrap();
        let longest = max_sequence_len(&mut b, &table).unwrap();
        let places = get_places(&mut b, Some(2), Some("CPU")).unwrap();
        assert_eq!(b.meta(&table).unwrap().kind, VarKind::LodRankTable);
        assert_eq!(b.meta(&longest).unwrap().dims, [1]);
        assert_eq!(b.meta(&places).unwrap().kind, VarKind::PlaceList);
    }
}
