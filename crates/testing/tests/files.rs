//! Files: those of Fluid 1.8.5 are read, ours for the same values are the same bytes, and an error
//! in a file is reported with its name and the place in it.

#![allow(clippy::unwrap_used)] // Helpers of tests are tests too.

use std::fs;
use std::path::{Path, PathBuf};

use program::layers::{self, Data, Fc};
use program::stream::{self, Problem};
use program::{Error as ProgramError, Net, OpDesc, Program, VarDesc};
use serde_json::Value as Json;
use tensor::{Tensor, Value};
use testing::golden;
use testing::session::Session;
use train::io::{self, SaveInference};
use train::{Error, Executor, Feed, Scope};

const NETS: [&str; 2] = ["fit", "ctr"];

fn golden_file(name: &str) -> PathBuf {
    golden::path("files").join(name)
}

fn golden_program(name: &str) -> Program {
    let bytes = fs::read(golden_file(name)).unwrap();
    Program::from_bytes(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// All numbers of a nested list.
fn flat(json: &Json) -> Vec<f64> {
    match json {
        Json::Array(items) => items.iter().flat_map(flat).collect(),
        number => vec![number.as_f64().expect("a number")],
    }
}

fn numbers(tensor: &Tensor) -> Vec<f64> {
    (0..tensor.len()).map(|i| tensor.get_f64(i)).collect()
}

#[track_caller]
fn check_values(scope: &Scope, expected: &Json, var: &str) {
    let Some(Value::Tensor(tensor)) = scope.get(var) else { panic!("`{var}` was not loaded") };
    // Reading a long decimal may be off by the last bit of a double, never of a float.
    let floats = |list: Vec<f64>| list.into_iter().map(|x| x as f32).collect::<Vec<_>>();
    assert_eq!(floats(numbers(&tensor)), floats(flat(expected)), "{var}");
}

// ---- programs

#[test]
fn golden_programs_survive_reading_and_writing() {
    for net in NETS {
        for file in ["inference/__model__", "inference_combined/model.bin", "pickled/model.pdmodel"]
        {
            let program = golden_program(&format!("{net}/{file}"));
            assert_eq!(program.format_version, 1_008_005);
            assert!(!program.unknown.is_empty(), "the op_compatible_map is kept");
            let bytes = program.to_bytes();
            let again = Program::from_bytes(&bytes).unwrap();
            assert_eq!(again, program, "{net}/{file}");
            assert_eq!(again.to_bytes(), bytes);
        }
    }
}

#[test]
fn golden_models_hold_the_ops_and_variables_fluid_lists() {
    let files = golden::json("files.json");
    for net in NETS {
        let expected = &files[net]["__model__"];
        let program = golden_program(&format!("{net}/inference/__model__"));
        let ops: Vec<_> = program.block(0).ops.iter().map(|op| op.kind.as_str()).collect();
        assert_eq!(Json::from(ops), expected["ops"]);
        let describe = |var: &VarDesc| {
            (
                var.name.clone(),
                Json::from(vec![var.meta.kind.name().into(), Json::from(var.persistable)]),
            )
        };
        let vars: serde_json::Map<_, _> = program.block(0).vars().iter().map(describe).collect();
        assert_eq!(Json::from(vars), expected["vars"]);
    }
}

// ---- variables

/// The files below a directory, by their path in it, except the manifest.
fn tree(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    let mut open = vec![dir.to_path_buf()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if !path.ends_with(".paddlewheel") {
                files.push((path.clone(), fs::read(&path).unwrap()));
            }
        }
    }
    let relative = |(path, bytes): (PathBuf, _)| (path.strip_prefix(dir).unwrap().into(), bytes);
    let mut files: Vec<_> = files.into_iter().map(relative).collect();
    files.sort();
    files
}

#[test]
fn golden_variables_load_and_are_written_as_the_same_bytes() {
    let files = golden::json("files.json");
    for net in NETS {
        let program = golden_program(&format!("{net}/pickled/model.pdmodel"));
        for (dir, filename) in [("separate", None), ("combined", Some("all.bin"))] {
            let from = golden_file(&format!("{net}/{dir}"));
            let scope = Scope::new();
            io::load_persistables(&scope, &from, &program, filename).unwrap();
            for (var, values) in files[net]["persistables"].as_object().unwrap() {
                check_values(&scope, values, var);
            }
            let to = tempfile::tempdir().unwrap();
            io::save_persistables(&scope, to.path(), &program, filename).unwrap();
            assert_eq!(tree(to.path()), tree(&from), "{net}/{dir}");
        }
    }
}

#[test]
fn golden_sequences_and_rows_load_and_are_written_as_the_same_bytes() {
    let expected = &golden::json("files.json")["other"];
    let bytes = fs::read(golden_file("other/lod_var")).unwrap();
    let tensor = stream::tensor_from_bytes(&bytes).unwrap();
    assert_eq!(numbers(&tensor), flat(&expected["lod_var"]["values"]));
    assert_eq!(Json::from(tensor.lod().levels().to_vec()), expected["lod_var"]["lod"]);
    assert_eq!(stream::to_bytes(&Value::Tensor(tensor)), Some(bytes));

    let bytes = fs::read(golden_file("other/rows_var")).unwrap();
    let rows = stream::rows_from_bytes(&bytes).unwrap();
    assert_eq!(numbers(&rows.value), flat(&expected["rows_var"]["values"]));
    assert_eq!(Json::from(rows.ids.clone()), expected["rows_var"]["rows"]);
    assert_eq!(rows.height, expected["rows_var"]["height"]);
    assert_eq!(stream::to_bytes(&Value::Rows(rows)), Some(bytes));
}

#[test]
fn a_slash_in_a_name_makes_a_directory() {
    let (program, scope) = one_var("layer/w");
    let dir = tempfile::tempdir().unwrap();
    io::save_persistables(&scope, dir.path(), &program, None).unwrap();
    assert!(dir.path().join("layer/w").is_file());
    let loaded = Scope::new();
    io::load_persistables(&loaded, dir.path(), &program, None).unwrap();
    assert_eq!(loaded.get("layer/w"), scope.get("layer/w"));
}

// ---- models

fn fed(net: &str) -> Feed {
    let mut feed = Feed::new();
    for (name, value) in golden::json("files.json")[net]["input"].as_object().unwrap() {
        let (data, lengths) = (&value[0], &value[1]);
        let width = data[0].as_array().unwrap().len();
        let data = flat(data);
        let shape = [data.len() / width, width];
        let mut tensor = if data.iter().all(|x| x.fract() == 0.0) {
            Tensor::new(shape, &data.iter().map(|&x| x as i64).collect::<Vec<_>>()).unwrap()
        } else {
            Tensor::new(shape, &data.iter().map(|&x| x as f32).collect::<Vec<_>>()).unwrap()
        };
        if let Some(lengths) = lengths.get(0) {
            let lengths = flat(lengths).into_iter().map(|x| x as usize);
            tensor.set_lod(tensor::Lod::from_lengths(lengths));
        }
        feed = feed.with(name, tensor);
    }
    feed
}

#[test]
fn golden_models_load_and_infer() {
    let files = golden::json("files.json");
    let combined = (Some("model.bin"), Some("params.bin"));
    for net in NETS {
        for (dir, (model, params)) in
            [("inference", (None, None)), ("inference_combined", combined)]
        {
            let scope = Scope::new();
            let dir = golden_file(&format!("{net}/{dir}"));
            let model = io::load_inference_model(&scope, &dir, model, params).unwrap();
            assert_eq!(Json::from(model.feeds.clone()), files[net]["feed_names"]);
            // The name generator of the golden run continued between the two saves.
            assert!(model.fetches[0].starts_with("save_infer_model/scale_0.tmp_"));
            let fetches: Vec<&str> = model.fetches.iter().map(String::as_str).collect();
            let out = Executor::new().run(&model.program, &scope, &mut fed(net), &fetches);
            let out = out.unwrap_or_else(|error| panic!("{net}: {error}"));
            for (ours, theirs) in numbers(&out[0]).iter().zip(flat(&files[net]["output"])) {
                assert!((ours - theirs).abs() < 1e-6, "{net}: {ours} and {theirs}");
            }
        }
    }
}

/// The net of the golden `fit` files, started.
fn fit() -> (Session, String) {
    let mut net = Net::with_seed(1);
    let mut b = net.builder();
    let x = layers::data(&mut b, "x", &[13], Data::default()).unwrap();
    let y = layers::fc(&mut b, &[x], 1, Fc::default()).unwrap();
    let loss = layers::mean(&mut b, &y, None).unwrap();
    program::backward::append_backward(&mut net.main, loss.name(), &Default::default()).unwrap();
    (Session::start(net), y.name().to_string())
}

#[test]
fn a_saved_model_is_the_one_fluid_saves_and_infers_the_same() {
    let (mut session, y) = fit();
    let before = session.net.main.clone();
    let dir = tempfile::tempdir().unwrap();
    let targets = [y.as_str()];
    let options = SaveInference { feeds: &["x"], targets: &targets, ..SaveInference::default() };
    let fetches =
        io::save_inference_model(&session.scope, dir.path(), &session.net.main, &options).unwrap();
    assert_eq!(fetches, ["save_infer_model/scale_0.tmp_0"]);
    assert_eq!(session.net.main, before, "the user's program is untouched");

    let scope = Scope::new();
    let model = io::load_inference_model(&scope, dir.path(), None, None).unwrap();
    let listed = |program: &Program| {
        let mut vars: Vec<_> = program.list_vars().map(|var| var.name.clone()).collect();
        vars.sort();
        // Fluid also lists ports without variables.
        let wires = |op: &OpDesc| {
            let names: Vec<_> = op.reads().chain(op.writes()).map(str::to_string).collect();
            (op.kind.clone(), names)
        };
        (vars, program.block(0).ops.iter().map(wires).collect::<Vec<_>>())
    };
    let theirs = golden_program("fit/inference/__model__");
    assert_eq!(listed(&model.program), listed(&theirs));
    let x = Tensor::full([2, 13], 0.5f32);
    let ours = session.run(&mut Feed::new().with("x", x.clone()), &[&y]);
    let feed = &mut Feed::new().with("x", x);
    let loaded = Executor::new().run(&model.program, &scope, feed, &[&fetches[0]]).unwrap();
    assert_eq!(loaded[0].data::<f32>().unwrap(), ours[0].data::<f32>().unwrap());
}

#[test]
fn a_saved_model_can_be_combined_bare_or_whole() {
    let (session, y) = fit();
    let scope = &session.scope;
    let program = &session.net.main;
    let targets = [y.as_str()];
    let base = SaveInference { feeds: &["x"], targets: &targets, ..SaveInference::default() };
    let files = |options: &SaveInference<'_>| {
        let dir = tempfile::tempdir().unwrap();
        io::save_inference_model(scope, dir.path(), program, options).unwrap();
        let names = tree(dir.path()).into_iter().map(|(path, _)| path.display().to_string());
        names.collect::<Vec<_>>()
    };
    assert_eq!(files(&base), ["__model__", "fc_0.b_0", "fc_0.w_0"]);
    let combined =
        SaveInference { model_filename: Some("m"), params_filename: Some("p"), ..base.clone() };
    assert_eq!(files(&combined), ["m", "p"]);
    assert_eq!(files(&SaveInference { program_only: true, ..base.clone() }), ["__model__"]);
    let whole = SaveInference { export_for_deployment: false, ..base };
    assert_eq!(files(&whole), ["__model__.main_program", "fc_0.b_0", "fc_0.w_0"]);
}

#[test]
fn a_model_refuses_a_feed_or_target_that_is_not_part_of_it() {
    let (session, y) = fit();
    let dir = tempfile::tempdir().unwrap();
    let save = |feeds: &[&str], targets: &[&str]| {
        let options = SaveInference { feeds, targets, ..SaveInference::default() };
        io::save_inference_model(&session.scope, dir.path(), &session.net.main, &options)
            .unwrap_err()
    };
    let error = save(&["x", "label"], &[&y]);
    assert!(matches!(error, Error::FeedNotUsed { index: 1, .. }), "{error}");
    let error = save(&["x"], &["nothing"]);
    assert!(matches!(error, Error::Program(ProgramError::UnknownVar { .. })), "{error}");
    let error = io::load_inference_model(&session.scope, &dir.path().join("no"), None, None);
    assert!(matches!(error, Err(Error::NoDirectory { .. })));
}

// ---- pickled state

/// A program whose persistable variables of these names are parameters, as Python remembers them.
fn with_parameters(mut program: Program, names: &[&str]) -> Program {
    for name in names {
        let var = program.block_mut(0).var_mut(name).expect("the program has it");
        var.param = Some(program::ParamInfo::default());
    }
    program
}

fn golden_trained(net: &str) -> Program {
    let program = golden_program(&format!("{net}/pickled/model.pdmodel"));
    match net {
        "fit" => with_parameters(program, &["fc_0.w_0", "fc_0.b_0"]),
        _ => with_parameters(program, &["fc_0.w_0", "fc_0.b_0", "SparseFeatFactors"]),
    }
}

#[test]
fn golden_pickles_load_and_survive() {
    let files = golden::json("files.json");
    for net in NETS {
        let (program, scope) = (golden_trained(net), Scope::new());
        io::load(&scope, &program, &golden_file(&format!("{net}/pickled/model")), None).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let prefix = dir.path().join("deep/model.v1");
        io::save(&scope, &program, &prefix).unwrap();
        let again = Scope::new();
        io::load(&again, &program, &dir.path().join("deep/model.v1.pdparams"), None).unwrap();
        for (var, values) in files[net]["persistables"].as_object().unwrap() {
            check_values(&scope, values, var);
            check_values(&again, values, var);
        }
        assert_eq!(
            io::load_state(&prefix, None).unwrap().len(),
            files[net]["persistables"].as_object().unwrap().len()
        );
    }
}

#[test]
fn state_loads_from_the_other_kinds_of_files_too() {
    let files = golden::json("files.json");
    let program = golden_trained("fit");
    let scope = Scope::new();
    io::load(&scope, &program, &golden_file("fit/separate"), None).unwrap();
    check_values(&scope, &files["fit"]["persistables"]["fc_0.w_0"], "fc_0.w_0");
    let combined = golden_file("fit/combined/all.bin");
    let error = io::load(&scope, &program, &combined, None).unwrap_err();
    assert!(matches!(error, Error::WhichVars { .. }), "{error}");
    let vars: Vec<String> =
        files["fit"]["persistables"].as_object().unwrap().keys().cloned().collect();
    let vars: Vec<&str> = vars.iter().map(String::as_str).collect();
    let scope = Scope::new();
    io::load(&scope, &program, &combined, Some(&vars)).unwrap();
    check_values(&scope, &files["fit"]["persistables"]["fc_0.w_0"], "fc_0.w_0");
}

#[test]
fn state_says_what_is_missing() {
    let (program, scope) = (golden_trained("fit"), Scope::new());
    let dir = tempfile::tempdir().unwrap();
    let prefix = dir.path().join("model");
    let load = || io::load(&scope, &program, &prefix, None).unwrap_err();
    assert!(matches!(load(), Error::ReadFile { .. }));
    fs::copy(golden_file("fit/pickled/model.pdparams"), prefix.with_extension("pdparams")).unwrap();
    assert!(matches!(load(), Error::NoOptimizerFile { .. }));
    fs::copy(golden_file("ctr/pickled/model.pdopt"), prefix.with_extension("pdopt")).unwrap();
    let error = load();
    assert!(matches!(error, Error::NotInFile { ref var, .. } if var.ends_with("velocity_0")));
    assert_eq!(scope.names(), [] as [&str; 0], "nothing was changed");
    let error = io::save(&scope, &program, Path::new("dir/")).unwrap_err();
    assert!(matches!(error, Error::NoFileName { .. }), "{error}");
}

// ---- bad input

fn one_var(name: &str) -> (Program, Scope) {
    let mut program = Program::default();
    let meta = program::Meta::dense(tensor::DType::F32, &[2, 2]);
    let mut var = VarDesc::new(name, meta).persistable();
    var.param = Some(program::ParamInfo::default());
    program.block_mut(0).put_var(var);
    let scope = Scope::new();
    scope.set(name, Tensor::new([2, 2], &[1.0f32, 2.0, 3.0, 4.0]).unwrap());
    (program, scope)
}

/// The error of loading the file `w` after its bytes were changed; the variable keeps its value.
#[track_caller]
fn damaged(change: impl FnOnce(Vec<u8>) -> Vec<u8>) -> (usize, Problem) {
    let (program, scope) = one_var("w");
    let dir = tempfile::tempdir().unwrap();
    io::save_persistables(&scope, dir.path(), &program, None).unwrap();
    // A file without a checksum.
    fs::remove_file(dir.path().join(".paddlewheel")).unwrap();
    let file = dir.path().join("w");
    fs::write(&file, change(fs::read(&file).unwrap())).unwrap();
    let before = scope.get("w");
    let error = io::load_persistables(&scope, dir.path(), &program, None).unwrap_err();
    assert_eq!(scope.get("w"), before);
    match error {
        Error::InFile { path, source } => match *source {
            ProgramError::BadStream { offset, problem } if path == file => (offset, problem),
            other => panic!("{other}"),
        },
        other => panic!("{other}"),
    }
}

#[test]
fn a_truncated_file() {
    let (offset, problem) = damaged(|bytes| bytes[..bytes.len() - 1].to_vec());
    assert_eq!(offset, 26);
    assert!(matches!(problem, Problem::Truncated { needed: 16, left: 15, .. }), "{problem}");
}

#[test]
fn a_foreign_file() {
    let (offset, problem) = damaged(|_| b"\x80\x02}q\x00(X a pickle".to_vec());
    assert_eq!(offset, 0);
    assert!(matches!(problem, Problem::Version(_)), "{problem}");
}

#[test]
fn a_header_that_claims_more_than_there_is() {
    // The first size becomes 127 of the largest: the bytes must be counted, not believed.
    let (offset, problem) = damaged(|mut bytes| {
        bytes[16..20].copy_from_slice(&12i32.to_le_bytes());
        let huge = [0x08, 0x05, 0x10, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01, 0x10, 0x02];
        bytes.splice(20..26, huge);
        bytes
    });
    assert_eq!(offset, 32);
    assert!(matches!(problem, Problem::Truncated { left: 16, .. }), "{problem}");
}

#[test]
fn a_combined_file_with_the_wrong_number_of_variables() {
    let problem = |n_saved: usize, n_asked: usize| {
        let names = ["a", "b", "c"];
        let vars: Vec<VarDesc> =
            names.iter().map(|name| VarDesc::new(name, program::Meta::default())).collect();
        let scope = Scope::new();
        names.iter().for_each(|name| scope.set(name, Tensor::full([1], 1.0f32)));
        let dir = tempfile::tempdir().unwrap();
        io::save_vars(&scope, dir.path(), &vars[..n_saved], Some("all")).unwrap();
        let error = io::load_vars(&scope, dir.path(), &vars[..n_asked], Some("all")).unwrap_err();
        let Error::InFile { source, .. } = error else { panic!("{error}") };
        source.to_string()
    };
    assert!(problem(2, 3).contains("holds 2 variables, but 3 are asked for"));
    assert!(problem(3, 2).contains(
        "Not allowed to load partial data via load_combine_op, please use load_op instead."
    ));
}

#[test]
fn a_missing_file() {
    let (program, scope) = one_var("w");
    let error = io::load_persistables(&scope, Path::new("/nowhere"), &program, None).unwrap_err();
    assert!(matches!(error, Error::CannotLoad { .. }), "{error}");
    let text = "Load operator fail to open file /nowhere/w, please check whether the model file \
                is complete or damaged.";
    assert!(error.to_string().starts_with(text), "{error}");
    let error = io::load_persistables(&scope, Path::new("/nowhere"), &program, Some("all"));
    assert!(matches!(error, Err(Error::CannotLoadCombined { .. })));
}

#[test]
fn a_parameter_of_another_shape() {
    let (mut program, scope) = one_var("w");
    let dir = tempfile::tempdir().unwrap();
    io::save_persistables(&scope, dir.path(), &program, None).unwrap();
    program.block_mut(0).var_mut("w").unwrap().meta.dims = vec![7];
    let error = io::load_persistables(&scope, dir.path(), &program, None).unwrap_err();
    let text = "Variable's shape does not match, the Program requires a parameter with the shape \
                of ((7,)), while the loaded parameter (namely [ w ]) has a shape of  ((2, 2)).";
    assert_eq!(error.to_string(), text);
}

#[test]
fn a_directory_that_cannot_be_written() {
    let (program, scope) = one_var("w");
    let file = tempfile::NamedTempFile::new().unwrap();
    // Below a regular file: refused even to users that may write everywhere.
    let error = io::save_persistables(&scope, file.path(), &program, None).unwrap_err();
    assert!(matches!(error, Error::WriteFile { .. }), "{error}");
    let below = file.path().join("below");
    let error = io::save_persistables(&scope, &below, &program, Some("all")).unwrap_err();
    assert!(matches!(error, Error::WriteFile { .. }), "{error}");
}

#[test]
fn a_name_that_leads_out_of_the_directory() {
    for name in ["../w", "/tmp/w", "a/../../w"] {
        let (program, scope) = one_var(name);
        let dir = tempfile::tempdir().unwrap();
        let error = io::save_persistables(&scope, dir.path(), &program, None).unwrap_err();
        assert!(matches!(error, Error::UnsafeName { ref var } if var == name), "{error}");
        let error = io::load_persistables(&scope, dir.path(), &program, None).unwrap_err();
        assert!(matches!(error, Error::UnsafeName { .. }), "{error}");
        assert!(tree(dir.path()).is_empty());
    }
}

#[test]
fn a_variable_without_a_value() {
    let (program, _) = one_var("w");
    let dir = tempfile::tempdir().unwrap();
    let error = io::save_persistables(&Scope::new(), dir.path(), &program, None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "The Tensor in the save Op's Input Variable X(w) is not initialized. Run the startup program, or \
         load a model, before saving."
    );
}

#[test]
fn a_damaged_program_or_pickle_names_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("__model__");
    fs::write(&model, &fs::read(golden_file("fit/inference/__model__")).unwrap()[..1000]).unwrap();
    let error = io::load_inference_model(&Scope::new(), dir.path(), None, None).unwrap_err();
    assert!(matches!(error, Error::InFile { ref path, .. } if *path == model), "{error}");
    let pickle = dir.path().join("model.pdparams");
    fs::write(&pickle, b"\x80\x02cos\nsystem\n(X\x02\x00\x00\x00lstR.").unwrap();
    let error = io::load_state(&dir.path().join("model"), None).unwrap_err();
    assert!(matches!(error, Error::BadPickle { offset: 2, .. }), "{error}");
}

#[test]
fn ops_save_and_load_through_the_executor() {
    let (_, scope) = one_var("w");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep/w").display().to_string();
    let mut program = Program::default();
    let meta = program::Meta::dense(tensor::DType::F32, &[2, 2]);
    for name in ["w", "copy"] {
        program.block_mut(0).put_var(VarDesc::new(name, meta.clone()).persistable());
    }
    let save = OpDesc::new("save").input("X", "w").attr("file_path", path.as_str());
    let load = OpDesc::new("load").output("Out", "copy").attr("file_path", path.as_str());
    program.append_op(0, save).unwrap();
    program.append_op(0, load).unwrap();
    Executor::new().run(&program, &scope, &mut Feed::new(), &[]).unwrap();
    assert_eq!(scope.get("copy"), scope.get("w"));
    fs::remove_file(&path).unwrap();
    program.block_mut(0).ops.remove(0);
    let error = Executor::new().run(&program, &scope, &mut Feed::new(), &[]).unwrap_err();
    assert!(error.to_string().contains("Load operator fail to open file"), "{error}");
}
