//! The transpiler against the programs that Fluid 1.8.5 made, op by op.
//!
//! What differs, and why:
//!
//! - `send.trainer_id` is the trainer's number; Fluid leaves it 0.
//! - `job` is ours: a trainer of another job is refused.
//! - Control variables that no op uses are not made.
//! - Per-trainer counters start at 0 on servers (1 in Fluid): the rate of the first step is that of
//!   step 0, as on one machine, and each step received counts one.
//! - `grad_to_block_id` is in order of the blocks; in Fluid the order is that of a hash map.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use std::collections::{BTreeMap, HashMap};

use program::distributed::{Mode, PlacedKind};
use program::{Attr, Net, OpDesc, Program};
use serde_json::{Value as Json, json};
use testing::{golden, nets};
use train::transpile::{
    self, Config, Dispatch, HashName, Job, RoundRobin, Threads, Transpiled, slice_variable,
};
use train::{Error, Executor, Feed, Scope};

const CASES: [&str; 12] = [
    "ctr_async_2x2_runtime_split",
    "ctr_async_2x3_plain",
    "ctr_half_async_2x2",
    "ctr_sync_2x2_adam",
    "ctr_sync_strategy_2x2",
    "fit_async_2x2_decay",
    "fit_async_2x2_sgd",
    "fit_sync_2x1_decay_l2",
    "fit_sync_2x1_sgd",
    "fit_sync_2x2_adam",
    "fit_sync_2x2_noslice",
    "fit_sync_2x2_sliced_momentum",
];

fn strings(list: &Json) -> Vec<String> {
    list.as_array().unwrap().iter().flat_map(Json::as_str).map(str::to_string).collect()
}

fn config(case: &Json) -> Config {
    let flag = |name: &str, default| case["config"][name].as_bool().unwrap_or(default);
    Config {
        sync_mode: flag("sync_mode", true),
        runtime_split_send_recv: flag("runtime_split_send_recv", false),
        slice_var_up: flag("slice_var_up", true),
        enable_dc_asgd: flag("enable_dc_asgd", false),
        half_async: flag("half_async", false),
        completely_not_async: flag("completely_not_async", false),
        geo_sgd_mode: flag("geo_sgd_mode", false),
        fluid_block_init: flag("fluid_block_init", false),
        ..Config::default()
    }
}

fn job(case: &Json) -> Job {
    Job {
        trainer_id: case["trainer_id"].as_u64().unwrap_or(0) as usize,
        n_trainers: case["trainers"].as_u64().unwrap_or(2) as usize,
        endpoints: strings(&case["pservers"]),
        sync_mode: case["sync_mode"].as_bool().unwrap_or(true),
        current_endpoint: None,
    }
}

fn split(case: &Json) -> Result<(Net, Transpiled), Error> {
    split_with(case, &mut RoundRobin::default())
}

fn split_with(case: &Json, dispatch: &mut dyn Dispatch) -> Result<(Net, Transpiled), Error> {
    let (mut net, _) = nets::build(case).unwrap();
    let (config, job) = (config(case), job(case));
    let split = transpile::transpile(&mut net.main, &mut net.startup, (&config, &job), dispatch)?;
    Ok((net, split))
}

/// Stable names for control variables, in the order they are met.
#[derive(Default)]
struct Names(HashMap<String, usize>);

impl Names {
    fn of(&mut self, name: &str) -> String {
        if !name.starts_with("__control_var@") {
            return name.to_string();
        }
        let next = self.0.len();
        format!("__control_var@{}", self.0.entry(name.to_string()).or_insert(next))
    }
}

fn plain(attr: &Attr) -> Json {
    match attr {
        Attr::Int(value) | Attr::Block(value) => json!(value),
        Attr::Long(value) => json!(value),
        Attr::Float(value) => json!(f64::from(*value)),
        Attr::Str(value) => json!(value),
        Attr::Bool(value) => json!(value),
        Attr::Ints(values) | Attr::Blocks(values) => json!(values),
        Attr::Longs(values) => json!(values),
        Attr::Floats(values) => json!(values),
        Attr::Strs(values) => json!(values),
        Attr::Bools(values) => json!(values),
    }
}

/// The ports that have variables.
fn ports(ports: &[(String, Vec<String>)], names: &mut Names) -> Json {
    let mut all = BTreeMap::new();
    let mut sorted: Vec<_> = ports.iter().filter(|(_, vars)| !vars.is_empty()).collect();
    sorted.sort();
    for (port, vars) in sorted {
        all.insert(port.clone(), vars.iter().map(|var| names.of(var)).collect::<Vec<_>>());
    }
    json!(all)
}

fn golden_ports(ports: &Json, names: &mut Names) -> Json {
    let mut all = BTreeMap::new();
    for (port, vars) in ports.as_object().unwrap() {
        all.insert(port.clone(), strings(vars).iter().map(|var| names.of(var)).collect::<Vec<_>>());
    }
    json!(all)
}

/// An op of ours with the attributes that the golden one lists.
fn ours(op: &OpDesc, like: &Json, names: &mut Names) -> Json {
    let mut attrs = BTreeMap::new();
    if let Some(listed) = like["attrs"].as_object() {
        for name in listed.keys() {
            let value = op.attrs.get(name).map_or(Json::Null, plain);
            attrs.insert(name.clone(), sorted(name, value));
        }
    }
    json!({
        "type": op.kind,
        "role": op.role(),
        "role_var": op.attrs.strs("op_role_var").unwrap(),
        "in": ports(&op.inputs, names),
        "out": ports(&op.outputs, names),
        "attrs": attrs,
    })
}

fn sorted(name: &str, value: Json) -> Json {
    match value {
        Json::Array(mut list) if name == "grad_to_block_id" => {
            list.sort_by_key(Json::to_string);
            Json::Array(list)
        }
        other => other,
    }
}

/// The golden op, with the justified differences applied.
fn theirs(op: &Json, names: &mut Names, trainer_id: &Json, is_server: bool) -> Json {
    let mut attrs = BTreeMap::new();
    for (name, value) in op["attrs"].as_object().into_iter().flatten() {
        attrs.insert(name.clone(), sorted(name, value.clone()));
    }
    if op["type"] == "send" {
        attrs.insert("trainer_id".to_string(), trainer_id.clone());
    }
    let is_counter = |var: &Json| var.as_str().is_some_and(|v| v.contains("COUNTER@.trainer_"));
    if is_server && op["type"] == "fill_constant" && is_counter(&op["out"]["Out"][0]) {
        attrs.insert("value".to_string(), json!(0.0));
    }
    json!({
        "type": op["type"],
        "role": op["role"],
        "role_var": if op["role_var"].is_null() { json!([]) } else { op["role_var"].clone() },
        "in": golden_ports(&op["in"], names),
        "out": golden_ports(&op["out"], names),
        "attrs": attrs,
    })
}

#[track_caller]
fn compare(what: &str, program: &Program, golden: &Json, trainer_id: &Json) {
    let is_server = what.contains("server");
    let blocks = golden["blocks"].as_array().unwrap();
    let kinds = |at: usize| -> Vec<&str> {
        program.block(at).ops.iter().map(|op| op.kind.as_str()).collect()
    };
    assert_eq!(program.blocks().len(), blocks.len(), "{what}: blocks");
    let (mut our_names, mut their_names) = (Names::default(), Names::default());
    for (at, block) in blocks.iter().enumerate() {
        assert_eq!(json!(kinds(at)), golden["op_types"][at], "{what}: ops of block {at}");
        assert_eq!(json!(program.block(at).parent), block["parent"], "{what}: parent of {at}");
        for (index, op) in block["ops"].as_array().unwrap().iter().enumerate() {
            let actual = ours(&program.block(at).ops[index], op, &mut our_names);
            let expected = theirs(op, &mut their_names, trainer_id, is_server);
            assert_eq!(actual, expected, "{what}: op {index} of block {at}");
        }
        let mut expected: BTreeMap<String, Json> = BTreeMap::new();
        for (name, desc) in block["vars"].as_object().unwrap() {
            if !name.starts_with("__control_var@") || their_names.0.contains_key(name) {
                expected.insert(their_names.of(name), desc.clone());
            }
        }
        let mut actual = BTreeMap::new();
        for var in program.block(at).vars() {
            let kind = var.meta.kind.name();
            let dims = if var.meta.kind.has_tensor() { json!(var.meta.dims) } else { Json::Null };
            actual.insert(our_names.of(&var.name), json!([kind, dims, var.persistable]));
        }
        for name in expected.keys().chain(actual.keys()) {
            assert_eq!(actual.get(name), expected.get(name), "{what}: variable {name} of {at}");
        }
    }
}

#[test]
fn programs_are_fluids_op_by_op() {
    for name in CASES {
        let file = golden::json(&format!("transpiler_{name}.json"));
        let case = &file["case"];
        let id = &case["trainer_id"];
        let (net, split) = split(case).unwrap_or_else(|error| panic!("{name}: {error}"));
        compare(&format!("{name} trainer"), &net.main, &file["trainer"], id);
        compare(&format!("{name} trainer startup"), &net.startup, &file["trainer_startup"], id);
        for (endpoint, programs) in file["pservers"].as_object().unwrap() {
            let main = split.server_main(endpoint, Threads::default()).unwrap();
            compare(&format!("{name} server {endpoint}"), &main, &programs["main"], id);
            let startup = split.server_startup(endpoint, Some(&net.startup)).unwrap();
            let what = format!("{name} server startup {endpoint}");
            compare(&what, &startup, &programs["startup"], id);
        }
    }
}

#[test]
fn variables_are_cut_as_in_fluid() {
    let file = golden::json("slices.json");
    for case in file["cases"].as_array().unwrap() {
        let dims: Vec<i64> =
            case["shape"].as_array().unwrap().iter().flat_map(Json::as_i64).collect();
        let cuts = slice_variable(&dims, case["servers"].as_u64().unwrap() as usize, 8192);
        let elements: Vec<i64> = cuts.iter().map(|cut| cut.elements).collect();
        assert_eq!(json!(elements), case["elements"], "{case}");
        let width: i64 = dims.iter().skip(1).product();
        let rows: Vec<i64> = elements.iter().map(|n| n / width).collect();
        assert_eq!(json!(rows), case["rows"], "{case}");
    }
}
