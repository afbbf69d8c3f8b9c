//! Tables whose rows are spread over servers by id: the server of an id is `id % n_servers`, or a hash
//! of it where `spread` is "hash".
//!
//! `split_ids`: Out[s] = what of Ids belongs to server s: of ids, each once and ascending; of keyed
//! rows (a gradient), the rows, ids as they are. `merge_ids`: Out[i] = the rows of Ids[i], where
//! server s was asked for the ids Rows[s] and answered X[s]. `lookup_sparse_table`: Out = the rows
//! of the keyed table W; with `auto_grown_table` an unknown id gets a row, up to `capacity` rows,
//! which starts as the table's initializer would fill it at that place.

use std::collections::{BTreeSet, HashMap};

use tensor::{DType, Distribution, RowInit, Rows, Shape, Tensor, Value};

use super::sizes::{bad_attr, integers};
use super::{Op, Run, traits};
use crate::attr::Attrs;
use crate::distributed::{Spread, server_of};
use crate::error::{Error, Result};

pub(super) struct SplitIds;
pub(super) struct MergeIds;
pub(super) struct LookupSparseTable;

impl Op for SplitIds {
    traits!(Never; serves_look_up);

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let n_shards = run.n_outputs("Out");
        if n_shards == 0 {
            let (op, port) = (run.op().kind.clone(), "Out".to_string());
            return Err(Error::MissingOutput { op, port });
        }
        let shards = Shards { n: n_shards, spread: Spread::of(run.attrs())? };
        let shards = match run.value("Ids")? {
            Value::Rows(rows) => split_rows(rows, shards),
            _ => split_ids(run, shards)?,
        };
        for (index, shard) in shards.into_iter().enumerate() {
            run.put_value_at("Out", index, shard);
        }
        Ok(())
    }
}

/// How many servers share a table, and how.
#[derive(Clone, Copy)]
struct Shards {
    n: usize,
    spread: Spread,
}

impl Shards {
    fn of(self, id: i64) -> usize {
        match self.spread {
            Spread::Hash => server_of(id, self.n),
            Spread::Range => id.rem_euclid(self.n as i64) as usize,
        }
    }
}

fn split_rows(rows: &Rows, shards: Shards) -> Vec<Value> {
    let row_bytes = rows.width() * rows.value.dtype().size();
    let mut places = vec![Vec::new(); shards.n];
    rows.ids.iter().enumerate().for_each(|(at, &id)| places[shards.of(id)].push(at));
    let shard = |mine: Vec<usize>| {
        let mut part = Rows::default();
        part.resize_like(rows, mine.len());
        part.ids = mine.iter().map(|&at| rows.ids[at]).collect();
        for (to, &at) in part.value.bytes_mut().chunks_mut(row_bytes.max(1)).zip(&mine) {
            to.copy_from_slice(&rows.value.bytes()[at * row_bytes..][..row_bytes]);
        }
        Value::Rows(part)
    };
    places.into_iter().map(shard).collect()
}

fn split_ids(run: &Run<'_>, shards: Shards) -> Result<Vec<Value>> {
    let mut sets = vec![BTreeSet::new(); shards.n];
    for index in 0..run.n_inputs("Ids") {
        let name = run.input_name_at("Ids", index);
        for id in integers(run.input_at("Ids", index)?, name)? {
            sets[shards.of(id)].insert(id);
        }
    }
    let tensor = |shard: BTreeSet<i64>| {
        let ids: Vec<i64> = shard.into_iter().collect();
        Ok(Value::Tensor(Tensor::new([ids.len(), 1], &ids)?))
    };
    sets.into_iter().map(tensor).collect()
}

impl Op for MergeIds {
    traits!(Never; serves_look_up);

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let places = places(run)?;
        let padding = Some(run.attrs().int("padding_idx", -1)?).filter(|&id| id != -1);
        for index in 0..run.n_inputs("Ids") {
            let mut out = run.take_at("Out", index);
            let ids = run.input_at("Ids", index)?;
            let wanted = integers(ids, run.input_name_at("Ids", index))?;
            let first = run.input_at("X", 0)?;
            let (dtype, width) = (first.dtype(), first.shape().flatten_2d(1).1);
            let row_bytes = width * dtype.size();
            out.try_resize_as(dtype, Shape::from([wanted.len(), width]))?;
            for (to, id) in out.bytes_mut().chunks_mut(row_bytes.max(1)).zip(&wanted) {
                let &(shard, at) = places.get(id).ok_or_else(|| Error::BadValue {
                    rule: "an id that no server was asked for",
                    var: run.input_name_at("Ids", index).to_string(),
                    position: 0,
                    value: *id as f64,
                })?;
                if Some(*id) == padding {
                    to.fill(0);
                    continue;
                }
                let rows = run.input_at("X", shard)?.bytes();
                let row = rows.get(at * row_bytes..(at + 1) * row_bytes);
                to.copy_from_slice(row.ok_or_else(|| run.shapes(ANSWER_RULE, "X", "Rows"))?);
            }
            out.set_lod(ids.lod().clone());
            run.put_at("Out", index, out);
        }
        Ok(())
    }
}

const ANSWER_RULE: &str = "a server must answer with one row for each id";

/// Where each id's row is: which server's answer, and which row of it.
fn places(run: &Run<'_>) -> Result<HashMap<i64, (usize, usize)>> {
    let mut places = HashMap::new();
    for shard in 0..run.n_inputs("Rows") {
        let ids = integers(run.input_at("Rows", shard)?, run.input_name_at("Rows", shard))?;
        places.extend(ids.into_iter().enumerate().map(|(at, id)| (id, (shard, at))));
    }
    Ok(places)
}

impl Op for LookupSparseTable {
    traits!(Never; knows_is_test);

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let attrs = run.attrs();
        let grows = attrs.bool("auto_grown_table", true)? && !attrs.bool("is_test", false)?;
        let padding = Some(attrs.int("padding_idx", -1)?).filter(|&id| id != -1);
        let ids = integers(run.input("Ids")?, run.input_name("Ids"))?;
        let mut out = run.take("Out");
        let mut empty = Rows::default();
        let table = match run.value("W")? {
            Value::Rows(table) => table,
            Value::Empty => {
                let width = attrs.int("width", 0)?.max(0) as usize;
                empty.value.resize_as(DType::F32, Shape::from([0, width]));
                &empty
            }
            _ => return Err(run.shape("a table spread by id is keyed rows", "W")),
        };
        let (width, held) = (table.width(), table.value.shape());
        // There may be more rows than ids, for ids to come; not fewer.
        if held.dims().first().is_none_or(|&n_rows| n_rows < table.ids.len()) {
            let (expected, actual) = (table.ids.len().saturating_mul(width), held.n_elements());
            let short = tensor::Error::Length { shape: held, expected, actual };
            return Err(run.in_var("W", short.into()));
        }
        let mut index: HashMap<i64, usize> =
            table.ids.iter().enumerate().map(|(at, &id)| (id, at)).collect();
        let known = table.ids.len();
        let mut fresh = Vec::new();
        if grows {
            for &id in ids.iter().filter(|&&id| Some(id) != padding) {
                index.entry(id).or_insert_with(|| {
                    fresh.push(id);
                    known + fresh.len() - 1
                });
            }
        }
        let rows = out.try_resize_zeroed::<f32>(Shape::from([ids.len(), width]))?;
        let grown = grow(run, table, &fresh)?;
        let values = grown.as_ref().unwrap_or(table).value.data::<f32>()?;
        for (row, id) in rows.chunks_mut(width.max(1)).zip(&ids) {
            if let Some(&at) = index.get(id).filter(|_| Some(*id) != padding) {
                row.copy_from_slice(&values[at * width..][..width]);
            }
        }
        run.put("Out", out);
        if let Some(grown) = grown {
            run.put_value_at("WOut", 0, Value::Rows(grown));
        }
        Ok(())
    }
}

/// The table with rows for these ids too; `None` if there are none.
fn grow(run: &Run<'_>, table: &Rows, fresh: &[i64]) -> Result<Option<Rows>> {
    if fresh.is_empty() {
        return Ok(None);
    }
    let capacity = run.attrs().int("capacity", i64::MAX)?;
    let n = table.ids.len() + fresh.len();
    if i64::try_from(n).unwrap_or(i64::MAX) > capacity {
        let table = run.input_name("W").to_string();
        return Err(Error::TableFull { table, capacity: capacity.max(0) as usize });
    }
    let width = table.width();
    let mut grown = Rows::default();
    Tensor::check_room(DType::F32, Shape::from([n, width]))?;
    grown.resize_like(table, n);
    grown.ids.extend(table.ids.iter().chain(fresh));
    let n_known = table.ids.len() * width;
    let (old, new) = grown.value.data_mut::<f32>()?.split_at_mut(n_known);
    old.copy_from_slice(&table.value.data::<f32>()?[..n_known]);
    let init = init(run.attrs())?;
    for (row, &id) in new.chunks_mut(width.max(1)).zip(fresh) {
        init.fill(id as u64, row);
    }
    Ok(Some(grown))
}

/// How rows of a `lookup_sparse_table` start.
fn init(attrs: &Attrs) -> Result<RowInit> {
    let kind = attrs.str("init", "fill_constant")?;
    let rule = "an op that fills row by row: uniform_random, gaussian_random, fill_constant";
    row_init(kind, attrs)?.ok_or_else(|| bad_attr("init", rule, kind))
}

/// How a table's rows start, from the attributes of the op that fills it whole; `None` if it does not
/// fill row by row.
pub fn row_init(kind: &str, attrs: &Attrs) -> Result<Option<RowInit>> {
    let drawn = |shape| -> Result<Option<RowInit>> {
        let seed = attrs.int("seed", 0)? as u32;
        let offset = attrs.int("stream_offset", 0)?.max(0) as u64;
        Ok(Some(RowInit::Drawn { shape, seed, offset }))
    };
    let (mean, std) = (attrs.float("mean", 0.0)?, attrs.float("std", 1.0)?);
    match kind {
        "fill_constant" if attrs.str("str_value", "")?.is_empty() => {
            Ok(Some(RowInit::Constant(attrs.float("value", 0.0)?)))
        }
        "uniform_random" if attrs.int("diag_num", 0)? <= 0 => {
            drawn(Distribution::Uniform(attrs.float("min", -1.0)?, attrs.float("max", 1.0)?))
        }
        "gaussian_random" => drawn(Distribution::Normal(mean, std)),
        "truncated_gaussian_random" => drawn(Distribution::Truncated(mean, std)),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::OpDesc;
    use crate::op::check::ids;
    use crate::op::remote_log::{RemoteLog, run_op};

    fn names(name: &str) -> Vec<String> {
        vec![format!("{name}0"), format!("{name}1")]
    }

    fn floats(dims: &[usize], data: &[f32]) -> Value {
        Value::Tensor(Tensor::new(dims, data).unwrap())
    }

    #[test]
    fn ids_go_to_their_server_and_rows_come_back() {
        let split = OpDesc::new("split_ids").input("Ids", names("C")).output("Out", names("s"));
        let slots = [ids(&[3, 1], &[5, 2, 5]), ids(&[2, 1], &[0, 3])].map(Value::Tensor);
        let [c0, c1] = slots;
        let given = [("C0", c0.clone()), ("C1", c1.clone())];
        let shards = run_op(&split, &given, &mut RemoteLog::default()).unwrap();
        assert_eq!(shards["s0"], Value::Tensor(ids(&[2, 1], &[0, 2])));
        assert_eq!(shards["s1"], Value::Tensor(ids(&[2, 1], &[3, 5])));
        let merge = OpDesc::new("merge_ids")
            .input("Ids", names("C"))
            .input("Rows", names("s"))
            .input("X", names("x"))
            .output("Out", names("out"));
        let given = [
            ("C0", c0),
            ("C1", c1),
            ("s0", shards["s0"].clone()),
            ("s1", shards["s1"].clone()),
            ("x0", floats(&[2, 1], &[0.0, 20.0])),
            ("x1", floats(&[2, 1], &[30.0, 50.0])),
        ];
        let out = run_op(&merge, &given, &mut RemoteLog::default()).unwrap();
        assert_eq!(out["out0"], floats(&[3, 1], &[50.0, 20.0, 50.0]));
        assert_eq!(out["out1"], floats(&[2, 1], &[0.0, 30.0]));
    }

    #[test]
    fn a_gradient_keeps_its_ids() {
        let value = Tensor::new([3, 1], &[1.0f32, 2.0, 3.0]).unwrap();
        let rows = Rows { ids: vec![4, 7, 2], height: 9, value };
        let split = OpDesc::new("split_ids").input("Ids", "g").output("Out", names("s"));
        let given = [("g", Value::Rows(rows))];
        let shards = run_op(&split, &given, &mut RemoteLog::default()).unwrap();
        assert_eq!(shards["s0"].rows().unwrap().ids, [4, 2]);
        assert_eq!(shards["s1"].rows().unwrap().ids, [7]);
        assert_eq!(shards["s1"].rows().unwrap().value, Tensor::new([1, 1], &[2.0f32]).unwrap());
    }

    #[test]
    fn a_gradient_is_dealt_out_by_hash_where_its_table_is() {
        let value = Tensor::new([3, 1], &[1.0f32, 2.0, 3.0]).unwrap();
        let rows = Rows { ids: vec![0, 1, 2], height: 9, value };
        let split = OpDesc::new("split_ids").attr("spread", "hash").input("Ids", "g");
        let given = [("g", Value::Rows(rows))];
        let outs: Vec<String> = (0..3).map(|n| format!("s{n}")).collect();
        let shards = run_op(&split.output("Out", outs), &given, &mut RemoteLog::default()).unwrap();
        let ids = |name: &str| shards[name].rows().unwrap().ids.clone();
        assert_eq!((ids("s0"), ids("s1"), ids("s2")), (vec![], vec![0, 2], vec![1]));
        assert_eq!(shards["s2"].rows().unwrap().value, Tensor::new([1, 1], &[2.0f32]).unwrap());
    }

    fn lookup(capacity: i64) -> OpDesc {
        OpDesc::new("lookup_sparse_table")
            .input("W", "w")
            .input("Ids", "ids")
            .output("Out", "out")
            .output("WOut", "w")
            .attr("capacity", capacity)
            .attr("init", "uniform_random")
            .attr("seed", 90)
            .attr("min", -0.5f32)
            .attr("max", 0.5f32)
    }

    fn table() -> Value {
        let value = Tensor::new::<f32>([0, 2], &[]).unwrap();
        Value::Rows(Rows { ids: Vec::new(), height: 100, value })
    }

    #[test]
    fn a_table_grows_with_rows_that_depend_on_their_id_alone() {
        let given = [("w", table()), ("ids", Value::Tensor(ids(&[2, 1], &[1, 0])))];
        let vars = run_op(&lookup(2), &given, &mut RemoteLog::default()).unwrap();
        // The stream of seed 90 begins so: see `uniform_random`.
        let rows = [-0.378_265_53_f32, -0.254_985_06, -0.497_977, 0.152_920_42];
        assert_eq!(vars["out"], floats(&[2, 2], &rows));
        assert_eq!(vars["w"].rows().unwrap().ids, [1, 0]);
        let test = lookup(2).attr("is_test", true);
        let given = [("w", table()), ("ids", Value::Tensor(ids(&[1, 1], &[1])))];
        let vars = run_op(&test, &given, &mut RemoteLog::default()).unwrap();
        assert_eq!(vars["out"], floats(&[1, 2], &[0.0, 0.0]));
    }

    #[test]
    fn a_full_table_says_so() {
        let given = [("w", table()), ("ids", Value::Tensor(ids(&[2, 1], &[1, 0])))];
        let error = run_op(&lookup(1), &given, &mut RemoteLog::default()).unwrap_err();
        assert!(matches!(error, Error::TableFull { capacity: 1, .. }), "{error}");
    }

    /// Rows as Fluid's tables have them: room for more than there are ids.
    #[test]
    fn a_table_may_have_room_but_must_have_its_rows() {
        let held = |n_rows: usize| {
            let value = Tensor::full([n_rows, 2], 7.0f32);
            Value::Rows(Rows { ids: vec![5, 6], height: 100, value })
        };
        let asked = || Value::Tensor(ids(&[2, 1], &[6, 1]));
        let given = [("w", held(4)), ("ids", asked())];
        let vars = run_op(&lookup(3), &given, &mut RemoteLog::default()).unwrap();
        let grown = vars["w"].rows().unwrap();
        assert_eq!((&grown.ids[..], grown.value.dims()), (&[5, 6, 1][..], &[3, 2][..]));
        let out = vars["out"].tensor().unwrap();
        assert_eq!(out.data::<f32>().unwrap()[..2], [7.0, 7.0]);
        let given = [("w", held(1)), ("ids", asked())];
        let error = run_op(&lookup(3), &given, &mut RemoteLog::default()).unwrap_err();
        let root = error.root();
        assert!(matches!(root, Error::Tensor(tensor::Error::Length { .. })), "{error}");
    }
}
