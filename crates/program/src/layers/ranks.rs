//! Small questions about a variable: is it empty, how long are its sequences; and places.

use tensor::DType;

use super::append::append_stopped;
use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::Result;
use crate::var::{Meta, VarDesc, VarKind};

/// Whether a variable has no elements, in `cond` if it is given.
pub fn is_empty(b: &mut Builder<'_>, x: &Var, cond: Option<&Var>) -> Result<Var> {
    let op = OpDesc::new("is_empty").input("X", x);
    match cond {
        None => append_stopped(b, ("is_empty", None), DType::Bool, op),
        Some(cond) => {
            b.op(op.output("Out", cond))?;
            Ok(cond.clone())
        }
    }
}

/// A variable of a kind that is no tensor.
fn special(b: &mut Builder<'_>, layer: &str, kind: VarKind) -> Var {
    let name = b.names.generate(layer);
    let block = b.main.current_block();
    b.main.block_mut(block).put_var(VarDesc::new(&name, Meta { kind, ..Meta::default() }));
    Var::from(name)
}

/// The sequences of a variable at a level, the longest first.
pub fn lod_rank_table(b: &mut Builder<'_>, x: &Var, level: i32) -> Result<Var> {
    b.layer_name("lod_rank_table", None);
    let table = special(b, "lod_rank_table", VarKind::LodRankTable);
    b.op(OpDesc::new("lod_rank_table").input("X", x).output("Out", &table).attr("level", level))?;
    Ok(table)
}

/// The length of the longest sequence in a table of [`lod_rank_table`].
pub fn max_sequence_len(b: &mut Builder<'_>, table: &Var) -> Result<Var> {
    let op = OpDesc::new("max_sequence_len").input("RankTable", table);
    append_stopped(b, ("max_seqence_len", None), DType::I64, op)
}

/// The processors of a run.
pub fn get_places(b: &mut Builder<'_>, count: i32, device: &str) -> Result<Var> {
    b.layer_name("get_places", None);
    let places = special(b, "get_places", VarKind::PlaceList);
    let op = OpDesc::new("get_places").output("Out", &places).attr("device_count", count);
    b.op(op.attr("device_type", device))?;
    Ok(places)
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
        let places = get_places(&mut b, 2, "CPU").unwrap();
        assert_eq!(b.meta(&table).unwrap().kind, VarKind::LodRankTable);
        assert_eq!(b.meta(&longest).unwrap().dims, [1]);
        assert_eq!(b.meta(&places).unwrap().kind, VarKind::PlaceList);
    }
}
