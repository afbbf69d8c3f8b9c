//! Look-ups in tables that live on servers.
//!
//! `distributed_lookup_table`: Outputs[i] = the rows that Ids[i] name, all slots in one request.
//! With an output `W`, the trainer holds rows of the table itself, and those that are missing come into it.
//! `prefetch`: Out[i] = the rows of the ids X[i], one request per server (`epmap`).
//! `lookup_table` and `lookup_table_v2` come here too once they have `epmap` and `table_names`.

use std::sync::Arc;

use tensor::{DType, Shape, Tensor, Value};

use super::sizes::integers;
use super::{Infer, Op, Run, traits};
use crate::attr::Attrs;
use crate::distributed::route::{LookUpRoute, Route};
use crate::error::{Error, Result};
use crate::remote::HeldLookUp;
use crate::var::{Meta, VarKind};

pub(super) struct DistributedLookupTable;
pub(super) struct Prefetch;

const IDS_RULE: &str = "the last dimension of the ids must be 1";

impl Op for DistributedLookupTable {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let w = infer.input("W")?;
        let width = w.dims.last().copied().unwrap_or(-1);
        let plain = has_plain_ids(infer.attrs())?;
        for (index, ids) in infer.inputs("Ids")?.into_iter().enumerate() {
            let outer = match ids.dims.split_last() {
                _ if plain => &ids.dims[..],
                Some((1 | -1, outer)) => outer,
                _ => return Err(infer.shape(IDS_RULE, "Ids")),
            };
            let dims = [outer, &[width]].concat();
            let lod_level = ids.lod_level;
            let meta = Meta { kind: VarKind::LodTensor, dtype: w.dtype, dims, lod_level };
            infer.set_output_at("Outputs", index, meta)?;
        }
        Ok(())
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        match run.route() {
            Some(Route::LookUp(route)) => look_up(run, route, "Outputs"),
            _ => Err(run.no_servers()),
        }
    }
}

/// Whether ids come without the dimension of 1 at their end.
fn has_plain_ids(attrs: &Attrs) -> Result<bool> {
    Ok(attrs.str("lookup_table_version", "lookup_table")? == "lookup_table_v2")
}

/// Asks the servers for the rows of every `Ids`.
pub(super) fn look_up(run: &mut Run<'_>, route: &Arc<LookUpRoute>, outputs: &str) -> Result<()> {
    let op = run.op();
    let n = run.n_inputs("Ids");
    // Ids of either width are asked for in the wide one.
    let wide = (0..n).map(|index| widen(run, index)).collect::<Result<Vec<_>>>()?;
    let mut out: Vec<Tensor> = (0..n).map(|index| run.take_at(outputs, index)).collect();
    let mut held = if run.n_outputs("W") > 0 { run.take_output_value("W") } else { Value::Empty };
    let (remote, values) = run.remote_with("Ids")?;
    let ids: Vec<&Tensor> = wide
        .iter()
        .zip(&values)
        .filter_map(|(wide, value)| wide.as_ref().or_else(|| value.tensor()))
        .collect();
    let found = match &mut held {
        Value::Keyed(table) => {
            let held = HeldLookUp { route, ids: &ids, table: Arc::make_mut(table) };
            remote.look_up_held(held, &mut out)
        }
        _ => remote.prefetch(route, &ids, &mut out),
    };
    let shaped = found.and_then(|()| shape(&op.kind, route, &ids, &mut out));
    if run.n_outputs("W") > 0 {
        run.put_value_at("W", 0, held);
    }
    shaped?;
    for (index, tensor) in out.into_iter().enumerate() {
        run.put_at(outputs, index, tensor);
    }
    Ok(())
}

/// Gives rows the shape of their ids.
fn shape(op: &str, route: &LookUpRoute, ids: &[&Tensor], out: &mut [Tensor]) -> Result<()> {
    for (ids, out) in ids.iter().zip(out) {
        let &[n_rows, width] = out.dims() else { return Err(not_rows(op, out)) };
        if n_rows != ids.len() {
            return Err(not_rows(op, out));
        }
        let dims = ids.dims();
        let outer = if route.plain_ids { dims } else { &dims[..dims.len().saturating_sub(1)] };
        let shape = [outer, &[width]].concat();
        if shape.len() > tensor::RANK_MAX {
            return Err(tensor::Error::RankTooHigh { rank: shape.len() }.into());
        }
        out.reshape(Shape::new(&shape))?;
        out.set_lod(ids.lod().clone());
    }
    Ok(())
}

/// The ids at `Ids` as 64-bit integers, unless they are already.
fn widen(run: &Run<'_>, index: usize) -> Result<Option<Tensor>> {
    let ids = run.input_at("Ids", index)?;
    if ids.dtype() == DType::I64 {
        return Ok(None);
    }
    let data = integers(ids, run.input_name_at("Ids", index))?;
    let mut wide = Tensor::new(ids.shape(), &data)?;
    wide.set_lod(ids.lod().clone());
    Ok(Some(wide))
}

fn not_rows(op: &str, out: &Tensor) -> Error {
    let rule = "a server must answer with one row for each id";
    Error::Shape { rule, var: op.to_string(), dims: out.shape().to_i64() }
}

impl Op for Prefetch {
    traits!(Never; serves_look_up);

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let Some(Route::LookUp(route)) = run.route() else { return Err(run.no_servers()) };
        let n = run.n_inputs("X");
        (0..n).try_for_each(|index| run.input_at("X", index).map(drop))?;
        let mut out: Vec<Tensor> = (0..n).map(|index| run.take_at("Out", index)).collect();
        let (remote, values) = run.remote_with("X")?;
        let ids: Vec<&Tensor> = values.iter().filter_map(|value| value.tensor()).collect();
        remote.prefetch(route, &ids, &mut out)?;
        for (index, tensor) in out.into_iter().enumerate() {
            run.put_at("Out", index, tensor);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::OpDesc;
    use crate::op::check::{ids, seq};
    use crate::op::remote_log::{RemoteLog, run_op};

    fn value(tensor: Tensor) -> Value {
        Value::Tensor(tensor)
    }

    #[test]
    fn all_slots_are_one_request() {
        let names = |name: &str| vec![format!("{name}0"), format!("{name}1")];
        let op = OpDesc::new("distributed_lookup_table")
            .input("Ids", names("C"))
            .input("W", "table")
            .output("Outputs", names("out"))
            .attr("padding_idx", 5i64);
        let narrow = Tensor::new([1, 1], &[3i32]).unwrap();
        let given = [("C0", value(seq(ids(&[2, 1], &[4, 5]), &[2, 0]))), ("C1", value(narrow))];
        let mut log = RemoteLog::default();
        let vars = run_op(&op, &given, &mut log).unwrap();
        assert_eq!(log.calls, ["prefetch 2"]);
        let rows = Tensor::new([2, 2], &[4.0f32, -4.0, 0.0, 0.0]).unwrap();
        assert_eq!(vars["out0"], value(seq(rows, &[2, 0])));
        assert_eq!(vars["out1"], value(Tensor::new([1, 2], &[3.0f32, -3.0]).unwrap()));
        assert_eq!(vars["table"], Value::Empty);
    }

    #[test]
    fn a_lookup_with_servers_goes_there() {
        let op = OpDesc::new("lookup_table_v2")
            .input("W", "table")
            .input("Ids", "C")
            .output("Out", "out")
            .attr("epmap", vec!["127.0.0.1:1".to_string()])
            .attr("table_names", vec!["table".to_string()]);
        let given = [("C", value(ids(&[1, 2], &[1, 2])))];
        let vars = run_op(&op, &given, &mut RemoteLog::default()).unwrap();
        let rows = Tensor::new([1, 2, 2], &[1.0f32, -1.0, 2.0, -2.0]).unwrap();
        assert_eq!(vars["out"], value(rows));
    }

    #[test]
    fn prefetch_keeps_rows_per_server() {
        let op = OpDesc::new("prefetch")
            .input("X", vec!["a".to_string(), "b".to_string()])
            .output("Out", vec!["c".to_string(), "d".to_string()]);
        let given = [("a", value(ids(&[1, 1], &[2]))), ("b", value(ids(&[0, 1], &[])))];
        let vars = run_op(&op, &given, &mut RemoteLog::default()).unwrap();
        assert_eq!(vars["c"], value(Tensor::new([1, 2], &[2.0f32, -2.0]).unwrap()));
        assert_eq!(vars["d"], value(Tensor::new::<f32>([0, 2], &[]).unwrap()));
    }
}
