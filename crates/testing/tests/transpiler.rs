//! The transpiler against the programs that Fluid 1.8.5 made, op by op.
//!
//! The differences, and their reasons:
//!
//! - `send.trainer_id` is the trainer's number; Fluid leaves it 0.
//! - `job` is ours: a trainer of another job is refused.
//! - Control variables that no op uses are not made.
//! - Per-trainer counters start at 0 on servers (1 in Fluid): the rate of the first step is that of
//!   step 0, as on one machine, and each step received counts one.
//! - An attribute at its default may be left out: `bias` of the decay's `scale`.
//! - `grad_to_block_id` is in order of the blocks; in Fluid the order is that of a hash map.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use std::collections::{BTreeMap, HashMap};

use program::distributed::{Mode, PlacedKind, Spread, Switches};
use program::{Attr, Net, OpDesc, Program};
use serde_json::{Value as Json, json};
use tensor::{Tensor, Value};
use testing::{golden, nets};
use train::{Executor, Feed, Scope};
use transpile::Error;
use transpile::{Config, Dispatch, HashName, Job, RoundRobin, Threads, Transpiled, slice_variable};

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

fn config(case: &Json) -> Result<Config, Error> {
    let flag = |name: &str, default| case["config"][name].as_bool().unwrap_or(default);
    let switches = Switches {
        sync_mode: flag("sync_mode", true),
        runtime_split_send_recv: flag("runtime_split_send_recv", false),
        half_async: flag("half_async", false),
        completely_not_async: flag("completely_not_async", false),
        geo_sgd_mode: flag("geo_sgd_mode", false),
        ..Switches::default()
    };
    let config = Config {
        slice_var_up: flag("slice_var_up", true),
        enable_dc_asgd: flag("enable_dc_asgd", false),
        fluid_block_init: flag("fluid_block_init", false),
        ..Config::default()
    };
    config.switched(&switches, case["sync_mode"].as_bool().unwrap_or(true))
}

fn job(case: &Json) -> Job {
    Job {
        trainer_id: case["trainer_id"].as_u64().unwrap_or(0) as usize,
        n_trainers: case["trainers"].as_u64().unwrap_or(2) as usize,
        endpoints: strings(&case["pservers"]),
        current_endpoint: None,
    }
}

fn split(case: &Json) -> Result<(Net, Transpiled), Error> {
    split_with(case, &mut RoundRobin::default())
}

fn split_with(case: &Json, dispatch: &mut dyn Dispatch) -> Result<(Net, Transpiled), Error> {
    let (mut net, _) = nets::build(case).unwrap();
    let (config, job) = (config(case)?, job(case));
    let split = transpile::transpile(&mut net.main, &mut net.startup, &config, &job, dispatch)?;
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
            let value = op.attrs.get(name).map(plain);
            let default = if name == "bias" { json!(0.0) } else { Json::Null };
            let value = value.unwrap_or(default);
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
        // Numbers are of 32 bits on both sides; json readers differ in the last bit of 64.
        Json::Number(number) if number.is_f64() => {
            json!(f64::from(number.as_f64().unwrap() as f32))
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
        let rows: Vec<i64> = cuts.iter().map(|rows| rows.end - rows.start).collect();
        let width: i64 = dims.iter().skip(1).product();
        let elements: Vec<i64> = rows.iter().map(|n| n * width).collect();
        assert_eq!(json!(elements), case["elements"], "{case}");
        assert_eq!(json!(rows), case["rows"], "{case}");
    }
}

/// Two trainers and these servers.
fn case(n_servers: usize, more: Json) -> Json {
    let endpoints: Vec<String> =
        (0..n_servers).map(|k| format!("127.0.0.1:{}", 6174 + k)).collect();
    let mut case = json!({
        "net": {"kind": "fit", "features": 13, "hidden": [1300]},
        "optimizer": "sgd",
        "trainers": 2,
        "pservers": endpoints,
    });
    for (name, value) in more.as_object().unwrap() {
        case[name] = value.clone();
    }
    case
}

fn kinds(program: &Program, block: usize) -> Vec<&str> {
    program.block(block).ops.iter().map(|op| op.kind.as_str()).collect()
}

fn server(split: &Transpiled, endpoint: &str) -> Program {
    split.server_main(endpoint, Threads::default()).unwrap()
}

fn op<'a>(program: &'a Program, block: usize, kind: &str) -> &'a OpDesc {
    let found = program.block(block).ops.iter().find(|op| op.kind == kind);
    found.unwrap_or_else(|| panic!("no {kind} in {:?}", kinds(program, block)))
}

/// Runs a startup program and reads a variable.
fn started(startup: &Program, names: &[String]) -> Vec<Tensor> {
    let scope = Scope::new();
    Executor::default().run(startup, &scope, &mut Feed::new(), &[]).unwrap();
    let tensor = |name: &String| match scope.get(name) {
        Some(Value::Tensor(tensor)) => tensor,
        other => panic!("{name}: {other:?}"),
    };
    names.iter().map(tensor).collect()
}

#[test]
fn blocks_start_as_parts_of_the_whole_for_any_number_of_servers() {
    for net in [
        json!({"kind": "fit", "features": 13, "hidden": [1300]}),
        json!({"kind": "ctr", "slots": 2, "rows": 10001, "dim": 4}),
    ] {
        let whole = case(1, json!({"net": net, "optimizer": "adam", "seed": 90}));
        let (local, _) = nets::build(&whole).unwrap();
        for n_servers in 1..=3 {
            let case = case(n_servers, json!({"net": net, "optimizer": "adam", "seed": 90}));
            let (_, split) = split(&case).unwrap();
            for endpoint in &split.job().endpoints {
                let mut startup = split.server_startup(endpoint, None).unwrap();
                // Rows of tables start when they are touched; here all of them at once.
                for op in &mut startup.block_mut(0).ops {
                    op.attrs.remove("on_touch");
                }
                for placed in split.job().on(endpoint) {
                    let piece = &started(&startup, std::slice::from_ref(&placed.piece.name))[0];
                    let all = &started(&local.startup, std::slice::from_ref(&placed.origin))[0];
                    let at = placed.offset() as usize * 4;
                    assert_eq!(piece.shape().to_i64(), placed.dims(), "{placed:?}");
                    assert_eq!(
                        piece.bytes(),
                        &all.bytes()[at..][..piece.bytes().len()],
                        "{placed:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn fluids_restart_of_the_stream_is_to_be_had() {
    let again = json!({"seed": 90, "config": {"fluid_block_init": true}});
    let (_, split) = split(&case(2, again)).unwrap();
    let first = split.server_startup("127.0.0.1:6175", None).unwrap();
    let second = split.server_startup("127.0.0.1:6174", None).unwrap();
    let first = &started(&first, &["fc_0.w_0.block0".to_string()])[0];
    let second = &started(&second, &["fc_0.w_0.block1".to_string()])[0];
    assert_eq!(&first.bytes()[..second.bytes().len()], second.bytes());
}

#[test]
fn placement_says_where_everything_is() {
    let net = json!({"kind": "ctr", "slots": 2, "rows": 10001, "dim": 4});
    let (net, split) = split(&case(2, json!({"net": net, "optimizer": "adam"}))).unwrap();
    let job = net.main.distributed.clone().unwrap();
    assert_eq!((job.mode, job.n_trainers, job.is_chief()), (Mode::Sync, 2, true));
    let table: Vec<_> = job.pieces("SparseFeatFactors").collect();
    assert!(table.iter().all(|placed| placed.kind == PlacedKind::RemotePrefetch));
    assert_eq!(table[1].piece.name, "SparseFeatFactors.block1");
    assert_eq!((table[1].offset(), table[1].dims()), (5001 * 4, vec![5000, 4]));
    let moments: Vec<_> = job.pieces("SparseFeatFactors_moment1_0").collect();
    assert_eq!((moments[1].offset(), moments[1].kind), (5001 * 4, PlacedKind::Optimizer));
    let powers: Vec<_> = job.pieces("SparseFeatFactors_beta1_pow_acc_0").collect();
    assert!(powers.iter().all(|placed| placed.is_whole() && placed.offset() == 0));
    assert_eq!(job.pieces("learning_rate_0").count(), 2);
    // A copy remembers, and a server knows which one it is.
    assert_eq!(net.main.clone().distributed, net.main.distributed);
    let main = server(&split, "127.0.0.1:6175");
    assert_eq!(main.distributed.unwrap().ps_endpoint.as_deref(), Some("127.0.0.1:6175"));
    let listen = op(&server(&split, "127.0.0.1:6175"), 0, "listen_and_serv").clone();
    let sent = op(&net.main, 0, "send");
    assert_eq!(sent.attrs.str("job", "").unwrap(), listen.attrs.str("job", "?").unwrap());
}

#[test]
fn one_trainer_needs_no_names_of_its_own() {
    let (net, split) = split(&case(1, json!({"trainers": 1}))).unwrap();
    assert_eq!(op(&net.main, 0, "send").input_names("X"), ["fc_1.b_0@GRAD"]);
    assert!(kinds(&net.main, 0).contains(&"send_barrier"));
    let main = server(&split, "127.0.0.1:6174");
    assert_eq!(kinds(&main, 1), ["sgd"]);
    let listen = op(&main, 0, "listen_and_serv");
    assert_eq!(listen.input_names("X")[0], "fc_0.b_0@GRAD");
}

#[test]
fn halves_come_in_any_order_and_again() {
    let case = case(2, json!({}));
    let (net, split) = split(&case).unwrap();
    let before = server(&split, "127.0.0.1:6174");
    assert_eq!(server(&split, "127.0.0.1:6174"), before);
    let startup = split.server_startup("127.0.0.1:6174", Some(&net.startup)).unwrap();
    assert_eq!(split.server_startup("127.0.0.1:6174", None).unwrap(), startup);
    let text = before.to_text();
    assert!(text.contains("listen_and_serv") && text.contains("127.0.0.1:6174"), "{text}");
}

#[test]
fn clips_by_value_and_norm_are_the_servers() {
    let (net, split) = split(&case(2, json!({"clip_value": 1.0, "l2": 0.01}))).unwrap();
    assert!(!kinds(&net.main, 0).contains(&"clip"));
    let sends = net.main.block(0).ops.iter().filter(|op| op.kind == "send");
    assert!(sends.flat_map(|op| op.reads()).all(|var| var.contains("@GRAD")));
    let main = server(&split, "127.0.0.1:6174");
    assert_eq!(kinds(&main, 2), ["sum", "scale", "clip", "scale", "sum", "sgd"]);
    let clip = op(&main, 2, "clip");
    assert_eq!(clip.input_names("X"), ["fc_0.w_0@GRAD.block1"]);
    let clipped = &clip.output_names("Out")[0];
    assert_eq!(op(&main, 2, "sgd").input_names("Grad"), std::slice::from_ref(clipped));
    assert_eq!(main.block(0).var(clipped).unwrap().meta.dims, [6, 1300]);
    // A norm is of the whole: the parameter is not cut.
    let (_, split) = self::split(&case(2, json!({"clip_norm": 1.0}))).unwrap();
    assert_eq!(split.job().pieces("fc_0.w_0").count(), 1);
}

#[test]
fn clip_by_the_norm_of_all_stays_with_the_trainer() {
    let (net, split) = split(&case(2, json!({"clip_global": 1.0, "l2": 0.01}))).unwrap();
    let ops = kinds(&net.main, 0);
    let at = |kind: &str| ops.iter().position(|op| *op == kind).unwrap();
    assert!(at("elementwise_div") < at("send"), "{ops:?}");
    assert!(!ops.contains(&"sgd"));
    let main = server(&split, "127.0.0.1:6174");
    assert_eq!(kinds(&main, 1), ["sum", "scale", "scale", "sum", "sgd"]);
}

#[test]
fn geo_trainers_train_alone() {
    let net = json!({"kind": "ctr", "slots": 2, "rows": 10001, "dim": 4});
    let more = json!({"net": net, "config": {"geo_sgd_mode": true, "sync_mode": false}});
    let (net, split) = split(&case(2, more)).unwrap();
    assert_eq!(net.main.distributed.as_ref().unwrap().mode, Mode::Geo { push_every: 100 });
    let ops = kinds(&net.main, 0);
    assert!(ops.contains(&"sgd") && ops.contains(&"lookup_table"), "{ops:?}");
    let send = net.main.block(0).ops.last().unwrap();
    assert_eq!(
        (send.kind.as_str(), send.input_names("X")),
        ("send", &["C1", "C2"].map(String::from)[..])
    );
    assert_eq!(kinds(&net.startup, 0).last(), Some(&"send"));
    let main = server(&split, "127.0.0.1:6174");
    let listen = op(&main, 0, "listen_and_serv");
    assert_eq!(listen.attrs.int("distributed_mode", -1).unwrap(), 3);
    let first = &listen.attrs.strs("grad_to_block_id").unwrap()[0];
    assert_eq!(first, "SparseFeatFactors.block0.delta:1");
    assert_eq!(kinds(&main, 1), ["sum"]);
}

#[test]
fn delayed_gradients_are_corrected() {
    let more = json!({"config": {"enable_dc_asgd": true, "sync_mode": false}});
    let (_, split) = split(&case(1, more)).unwrap();
    let main = server(&split, "127.0.0.1:6174");
    let expected = [
        "ref_by_trainer_id",
        "elementwise_sub",
        "elementwise_mul",
        "elementwise_mul",
        "elementwise_add",
        "sgd",
    ];
    assert_eq!(kinds(&main, 1), expected);
    assert_eq!(op(&main, 1, "sgd").input_names("Grad"), ["tmp_dc_output_3"]);
    let startup = split.server_startup("127.0.0.1:6174", None).unwrap();
    assert_eq!(started(&startup, &["fc_0.b_0.trainer_1_bak".to_string()])[0].dims(), [1300]);
    let sync = json!({"config": {"enable_dc_asgd": true}});
    let error = self::split(&case(1, sync)).unwrap_err();
    assert!(matches!(error, Error::BadConfig { field: "enable_dc_asgd", .. }), "{error}");
}

#[test]
fn a_table_spread_by_id_is_asked_by_id() {
    let net = json!({"kind": "ctr", "slots": 2, "rows": 10001, "dim": 4, "is_distributed": true});
    let (net, split) =
        split(&case(2, json!({"net": net, "optimizer": "adam", "seed": 90}))).unwrap();
    let ops = kinds(&net.main, 0);
    assert_eq!(ops[0], "distributed_lookup_table");
    assert!(ops.contains(&"split_ids") && !ops.contains(&"split_selected_rows"), "{ops:?}");
    assert_eq!(split.warnings(), [] as [String; 0]);
    let main = server(&split, "127.0.0.1:6175");
    let listen = op(&main, 0, "listen_and_serv");
    let grads = listen.attrs.strs("grad_to_block_id").unwrap();
    let of_table = |entry: &&String| entry.starts_with("SparseFeatFactors@GRAD.block1:");
    let entry = grads.iter().find(of_table).unwrap();
    let id: usize = entry.rsplit(':').next().unwrap().parse().unwrap();
    // Gradients are added up and not divided, as in Fluid; the optimizer is the program's.
    assert_eq!(kinds(&main, id)[..2], ["sum", "adam"]);
    assert_eq!(kinds(&net.startup, 0).last(), Some(&"fake_init"));
    let job = split.job();
    let pieces: Vec<_> = job.pieces("SparseFeatFactors").collect();
    assert_eq!(pieces.len(), 2);
    assert!(pieces.iter().all(|piece| piece.spread == Spread::Hash && piece.is_whole()));
    let states = job.by_rows.iter().filter(|var| var.contains("moment"));
    assert_eq!((job.by_rows[0].as_str(), states.count()), ("SparseFeatFactors", 2));
}

#[test]
fn two_blocks_on_one_server_keep_their_state_apart() {
    struct First;
    impl Dispatch for First {
        fn dispatch(&mut self, blocks: &[String], endpoints: &[String]) -> Vec<String> {
            vec![endpoints[0].clone(); blocks.len()]
        }
    }
    let case = case(2, json!({"optimizer": "momentum"}));
    let (_, split) = split_with(&case, &mut First).unwrap();
    let main = server(&split, "127.0.0.1:6174");
    for block in ["fc_0.w_0_velocity_0.block0", "fc_0.w_0_velocity_0.block1"] {
        assert!(main.block(0).var(block).is_some(), "{block}");
    }
    assert!(split.is_idle("127.0.0.1:6175"));
    let idle = server(&split, "127.0.0.1:6175");
    assert_eq!((idle.blocks().len(), idle.block(1).ops.len()), (2, 0));
    let (_, hashed) = split_with(&case, &mut HashName).unwrap();
    assert_eq!(hashed.job().pieces("fc_0.w_0").count(), 2);
}

#[test]
fn a_schedule_with_blocks_of_its_own_moves_with_them() {
    use program::backward::Limits;
    use program::layers::{self, Data, Fc};
    use program::optimizer::{Optimizer, Sgd};
    let mut net = Net::default();
    let mut b = net.builder();
    let x = layers::data(&mut b, "x", &[13], Data::default()).unwrap();
    let y = layers::fc(&mut b, &[x], 1, Fc::default()).unwrap();
    let loss = layers::mean(&mut b, &y, None).unwrap();
    let rate = layers::piecewise_decay(&mut b, &[3.0, 6.0], &[0.1, 0.05, 0.01]).unwrap();
    Optimizer::new(Sgd, rate).minimize(&mut b, &loss, &Limits::default()).unwrap();
    let job = Job::new(0, "127.0.0.1:6174", 2);
    let (main, startup) = (&mut net.main, &mut net.startup);
    let config = Config::default();
    let split =
        transpile::transpile(main, startup, &config, &job, &mut RoundRobin::default()).unwrap();
    assert!(!kinds(&net.main, 0).contains(&"conditional_block"));
    let main = server(&split, "127.0.0.1:6174");
    let inner = op(&main, 1, "conditional_block").sub_blocks();
    assert_eq!(main.block(inner[0]).parent, 1);
    assert_eq!(kinds(&main, inner[0]), ["assign"]);
    let listen = op(&main, 0, "listen_and_serv");
    assert_eq!(listen.attrs.int("lr_decay_block_id", -1).unwrap(), 1);
    let update: usize = listen.attrs.ints("optimize_blocks").unwrap()[1].try_into().unwrap();
    assert_eq!(
        (main.block(update).parent, op(&main, update, "sgd").input_names("LearningRate").len()),
        (1, 1)
    );
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |more: Json| split(&case(2, more)).unwrap_err();
    let error = refused(json!({"trainer_id": 2}));
    assert!(matches!(error, Error::TrainerId { trainer_id: 2, n_trainers: 2 }), "{error}");
    let error = refused(json!({"pservers": ["127.0.0.1"]}));
    assert!(matches!(error, Error::Endpoint { .. }), "{error}");
    let error = refused(json!({"pservers": []}));
    assert!(matches!(error, Error::NoEndpoints), "{error}");
    let error = refused(json!({"pservers": ["a:1", "a:1"]}));
    assert!(matches!(error, Error::EndpointTwice { .. }), "{error}");
    let error = refused(json!({"config": {"runtime_split_send_recv": true}}));
    assert!(matches!(error, Error::BadConfig { field: "runtime_split_send_recv", .. }), "{error}");
    let small = Config { min_block_size: 8191, ..Config::default() };
    let error = small.check().unwrap_err();
    assert!(matches!(error, Error::BadConfig { field: "min_block_size", .. }), "{error}");
    let (mut net, split) = split(&case(2, json!({}))).unwrap();
    let error = split.server_main("127.0.0.1:1", Threads::default()).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("127.0.0.1:1`") && text.contains("127.0.0.1:6174,127.0.0.1:6175"),
        "{text}"
    );
    assert!(matches!(error, Error::UnknownEndpoint { .. }));
    let job = Job::new(0, "127.0.0.1:6174", 2);
    let again = |net: &mut Net| {
        let config = Config::default();
        let (main, startup) = (&mut net.main, &mut net.startup);
        transpile::transpile(main, startup, &config, &job, &mut RoundRobin::default())
    };
    assert!(matches!(again(&mut net), Err(Error::TranspiledTwice)));
    assert!(matches!(again(&mut Net::default()), Err(Error::NothingToOptimize)));
}

#[test]
fn a_second_distributed_table_is_refused() {
    use program::backward::Limits;
    use program::layers::{self, Data, Embedding};
    use program::optimizer::{Optimizer, Sgd};
    let mut net = Net::default();
    let mut b = net.builder();
    let ids = Data { dtype: tensor::DType::I64, ..Data::default() };
    let x = layers::data(&mut b, "x", &[1], ids).unwrap();
    let options = Embedding { is_sparse: true, is_distributed: true, ..Embedding::default() };
    let one = layers::embedding(&mut b, &x, [10, 2], options.clone()).unwrap();
    let two = layers::embedding(&mut b, &x, [10, 2], options).unwrap();
    let both = layers::concat(&mut b, &[one, two], 1, None).unwrap();
    let loss = layers::mean(&mut b, &both, None).unwrap();
    Optimizer::new(Sgd, 0.1).minimize(&mut b, &loss, &Limits::default()).unwrap();
    let (config, job) = (Config::default(), Job::new(0, "127.0.0.1:6174", 1));
    let (main, startup) = (&mut net.main, &mut net.startup);
    let before = main.clone();
    let error = transpile::transpile(main, startup, &config, &job, &mut RoundRobin::default());
    assert!(matches!(error, Err(Error::SeveralTables { .. })));
    assert_eq!(*main, before, "a refused program is left as it was");
}
