//! The effect of strangers and strange models on files: none. docs/reference/security.md names the
//! tests.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use predict::Predictor;
use program::layers::{self, Data, Fc};
use program::{Net, OpDesc, Program};
use protocol::server::Store;
use server::BlockStore;
use testing::linear::Linear;
use testing::session::Session;
use train::io::{self, SaveInference};
use train::{Error, Scope};
use transpile::{Config, Job, RoundRobin, server_op, transpile};
use wire::Refusal;
use wire::message::{Phase, Save};

const SERVER: &str = "127.0.0.1:7001";

/// A server with a table that it saves itself, below this folder only.
fn store(root: &Path) -> BlockStore {
    let (mut net, _) = Linear { table: true, is_distributed: true, halving: false }.build();
    let (main, startup) = (&mut net.main, &mut net.startup);
    let job = Job::new(0, SERVER, 1);
    let split = transpile(main, startup, &Config::default(), &job, &mut RoundRobin::default());
    let (main, scope) = testing::stores::started_server(&split.unwrap(), SERVER);
    let mut store = BlockStore::new(&main, server_op(&main).unwrap(), &scope).unwrap();
    store.save_below(&[root.to_path_buf()]);
    store
}

fn save(store: &BlockStore, dir: &Path, phase: Phase) -> Result<(), Refusal> {
    let dir = dir.join(".paddlewheel.saving/stage-1").to_string_lossy().into_owned();
    store.save(&Save { table: "table".to_string(), dir, phase, weights_only: false })
}

#[test]
fn a_save_elsewhere_is_refused_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (root, outside) = (folder.path().join("models"), folder.path().join("outside"));
    [&root, &outside].into_iter().for_each(|dir| fs::create_dir_all(dir).unwrap());
    symlink(&outside, root.join("leaves")).unwrap();
    let store = store(&root);
    let escapes: [PathBuf; 4] =
        [root.join("../outside"), outside.clone(), root.join("leaves"), root.join("leaves/new")];
    for escape in escapes {
        for phase in [Phase::Write, Phase::Place, Phase::GiveUp] {
            let refused = save(&store, &escape, phase);
            assert!(matches!(refused, Err(Refusal::Elsewhere { .. })), "{escape:?} {refused:?}");
        }
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    let good = root.join("epoch/1");
    fs::create_dir_all(good.join(".paddlewheel.saving/stage-1")).unwrap();
    save(&store, &good, Phase::Write).unwrap();
    save(&store, &good, Phase::Place).unwrap();
    assert!(fs::read_dir(&good).unwrap().count() > 0);
}

/// A model with one more op, which writes or reads a file.
fn model_with(dir: &Path, op: OpDesc) {
    let mut net = Net::with_seed(7);
    let b = &mut net.builder();
    let x = layers::data(b, "x", &[2], Data::default()).unwrap();
    let out = layers::fc(b, &[x], 1, Fc::default()).unwrap();
    let session = Session::start(net);
    let (feeds, targets) = (["x"], [out.name()]);
    let options = SaveInference { feeds: &feeds, targets: &targets, ..SaveInference::default() };
    io::save_inference_model(&session.scope, dir, &session.net.main, &options).unwrap();
    let path = dir.join("__model__");
    let mut program = Program::from_bytes(&fs::read(&path).unwrap()).unwrap();
    program.block_mut(0).ops.push(op);
    fs::write(&path, program.to_bytes()).unwrap();
    // As another program would have written it.
    fs::remove_file(dir.join(".paddlewheel")).unwrap();
}

#[test]
fn a_loaded_model_leaves_files_alone() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("written").to_string_lossy().into_owned();
    for (at, kind) in ["save", "save_combine", "load", "load_combine", "checkpoint_notify"]
        .into_iter()
        .enumerate()
    {
        let dir = folder.path().join(format!("model{at}"));
        let port = if kind.starts_with("load") {
            OpDesc::new(kind).output("Out", "x")
        } else {
            OpDesc::new(kind).input("X", "x")
        };
        model_with(&dir, port.attr("file_path", target.as_str()));
        let error = io::load_inference_model(&Scope::new(), &dir, None, None).unwrap_err();
        assert!(matches!(&error, Error::FileOp { op, .. } if op == kind), "{error}");
        let error = Predictor::load(&dir).unwrap_err().to_string();
        assert!(error.contains(kind) && error.contains("files"), "{error}");
    }
    assert!(!Path::new(&target).exists());
}
