//! The fleet without Python: one function, two roles, real sockets.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use std::path::Path;
use std::thread;
use std::time::Duration;

use fleet::lifecycle::{Minimize, Served};
use fleet::ready::Watch;
use fleet::role::{UserDefined, user_defined};
use fleet::{Error, Flags, Fleet, Role, RoleKind, Strategy};
use program::backward::Limits;
use program::distributed::Mode;
use program::layers::{self, Data, Fc};
use program::optimizer::{Momentum, Optimizer};
use program::{Net, Var};
use tensor::Tensor;
use testing::cluster::free_endpoints;
use train::io::SaveInference;
use train::{Feed, Scope, Trainer, TrainerJob};

const N_STEPS: usize = 30;

/// The role of a process of a job; also the number of trainers.
fn role(kind: RoleKind, id: usize, servers: &[String], n_trainers: i64) -> Role {
    let servers = servers.to_vec();
    user_defined(&UserDefined { current_id: id as i64, kind, n_trainers, servers }).unwrap()
}

fn quiet() -> TrainerJob {
    TrainerJob::new(Default::default(), std::sync::Arc::new(|_| {}))
}

/// The script that every process runs, up to `minimize`.
fn build(role: Role, mode: Option<Mode>) -> (Fleet, Net, Var, Var) {
    let flags = Flags::default();
    let strategy = match mode {
        Some(mode) => Strategy::new(mode, &flags, 1),
        None => Strategy::plain(Default::default(), Default::default(), &flags, 1).unwrap(),
    };
    let mut fleet = Fleet::init(role, flags, quiet());
    fleet.set_log(std::sync::Arc::new(|_| {}));
    let mut net = Net::with_seed(7);
    let mut b = net.builder();
    let x = layers::data(&mut b, "x", &[3], Data::default()).unwrap();
    let y = layers::data(&mut b, "y", &[1], Data::default()).unwrap();
    let guess = layers::fc(&mut b, &[x], 1, Fc::default()).unwrap();
    let cost = layers::square_error_cost(&mut b, &guess, &y).unwrap();
    let loss = layers::mean(&mut b, &cost, None).unwrap();
    let mut optimizer = Optimizer::new(Momentum { momentum: 0.5, use_nesterov: false }, 0.03);
    let mut watch = Watch { on_line: &mut |_| {}, stops: &mut || false };
    let (optimizer, limits) = (&mut optimizer, &Limits::default());
    let what = Minimize { optimizer, loss: &loss, limits, strategy };
    fleet.minimize(&mut b, what, &mut watch).unwrap();
    (fleet, net, loss, guess)
}

fn serve(role: Role, mode: Option<Mode>, model: Option<&Path>) {
    let (mut fleet, _net, ..) = build(role, mode);
    let scope = Scope::new();
    fleet.init_server(&scope, model).unwrap();
    assert_eq!(fleet.run_server(&scope).unwrap(), Served::Completed);
}

fn batch(trainer: usize, step: usize) -> Feed {
    let at = |i: usize| ((trainer * 31 + step * 7 + i * 3) % 10) as f32 / 10.0;
    let x: Vec<f32> = (0..12).map(at).collect();
    let y: Vec<f32> = x.chunks(3).map(|row| row.iter().sum::<f32>() - 0.5).collect();
    let mut feed = Feed::new();
    feed.set("x", Tensor::new([4, 3], &x).unwrap());
    feed.set("y", Tensor::new([4, 1], &y).unwrap());
    feed
}

fn train(role: Role, mode: Option<Mode>, dir: &Path) -> Vec<f64> {
    let id = role.id as usize;
    let (mut fleet, net, loss, guess) = build(role, mode);
    let mut printed = Vec::new();
    assert!(fleet.init_worker(&mut |line| printed.push(line.to_string())).unwrap());
    assert_eq!(printed.len(), usize::from(mode.is_some()), "{printed:?}");
    assert!(!fleet.init_worker(&mut |_| {}).unwrap(), "a second call changes nothing");
    let (scope, mut exe) = (Scope::new(), Trainer::new());
    exe.set_job(fleet.trainer_job().clone());
    exe.run(&net.startup, &scope, &mut Feed::new(), &[]).unwrap();
    let mut losses = Vec::new();
    for step in 0..N_STEPS {
        let got = exe.run(&net.main, &scope, &mut batch(id, step), &[loss.name()]).unwrap();
        losses.push(got[0].get_f64(0));
    }
    fleet.barrier_worker().unwrap();
    if mode == Some(Mode::Async) {
        let n_pushes: u64 = fleet.server_stats().unwrap().iter().map(|stats| stats.pushes).sum();
        // Of two trainers, in each step, weights and bias.
        assert_eq!(n_pushes, 2 * N_STEPS as u64 * 2, "what was sent before is served");
    }
    let all = fleet.all_reduce_worker(&[id as f64, 1.0], "sum").unwrap();
    assert_eq!(all, [1.0, 2.0]);
    let most = fleet.all_reduce_worker(&[id as f64], "max").unwrap();
    assert_eq!(most, [1.0]);
    if fleet.role().is_first_trainer() {
        fleet.save_persistables(&scope, &dir.join("model"), &net.main).unwrap();
        let (feeds, targets) = (["x"], [guess.name()]);
        let options = SaveInference { feeds: &feeds, targets: &targets, ..Default::default() };
        fleet.save_inference_model(&scope, &dir.join("infer"), &options).unwrap();
    }
    fleet.stop_worker(&scope).unwrap();
    losses
}

/// Two trainers; their losses.
fn run(mode: Option<Mode>, n_servers: usize, dir: &Path, model: Option<&Path>) -> Vec<Vec<f64>> {
    let servers: Vec<String> = free_endpoints(n_servers).iter().map(ToString::to_string).collect();
    thread::scope(|scope| {
        let servers = &servers;
        let serving: Vec<_> = (0..n_servers)
            .map(|id| {
                scope.spawn(move || serve(role(RoleKind::Server, id, servers, 2), mode, model))
            })
            .collect();
        let training: Vec<_> = (0..2)
            .map(|id| {
                scope.spawn(move || train(role(RoleKind::Trainer, id, servers, 2), mode, dir))
            })
            .collect();
        let losses = training.into_iter().map(|trainer| trainer.join().unwrap()).collect();
        serving.into_iter().for_each(|server| server.join().unwrap());
        losses
    })
}

fn files(dir: &Path) -> Vec<String> {
    let names = std::fs::read_dir(dir).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name != ".paddlewheel").collect();
    names.sort();
    names
}

#[test]
fn every_mode_learns_and_saves() {
    let geo = Mode::Geo { push_every: 2 };
    let ssp = Mode::Ssp { staleness: 1 };
    let modes = [Mode::Sync, ssp, Mode::HalfAsync, Mode::Async, geo].map(Some);
    for mode in [None].into_iter().chain(modes) {
        let dir = tempfile::tempdir().unwrap();
        for losses in run(mode, 2, dir.path(), None) {
            // All start at 3 or so; a trainer that comes late finds what the other has learnt.
            let last: f64 = losses[N_STEPS - 5..].iter().sum::<f64>() / 5.0;
            assert!(last < 0.8, "{mode:?}: {losses:?}");
        }
        let model = files(&dir.path().join("model"));
        let state = ["fc_0.b_0", "fc_0.b_0_velocity_0", "fc_0.w_0", "fc_0.w_0_velocity_0"];
        assert!(state.iter().all(|name| model.contains(&name.to_string())), "{model:?}");
        let infer = files(&dir.path().join("infer"));
        assert_eq!(infer, ["__model__", "fc_0.b_0", "fc_0.w_0"], "{mode:?}");
    }
}

#[test]
fn training_goes_on_from_a_model_on_other_servers() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let before = run(Some(Mode::Sync), 2, first.path(), None);
    let model = first.path().join("model");
    let after = run(Some(Mode::Sync), 1, second.path(), Some(&model));
    assert!(after[0][0] < before[0][0] / 2.0, "{before:?} {after:?}");
}

#[test]
fn what_comes_too_early_or_from_the_wrong_process() {
    let servers = ["127.0.0.1:9".to_string()];
    let scope = Scope::new();
    let mut fleet = Fleet::init(role(RoleKind::Server, 0, &servers, 1), Flags::default(), quiet());
    let early = fleet.init_server(&scope, None);
    assert!(matches!(early, Err(Error::NotMinimized("startup_program"))), "{early:?}");
    let early = fleet.run_server(&scope);
    assert!(matches!(early, Err(Error::NotMinimized("main_program"))), "{early:?}");
    let (mut fleet, net, ..) = build(role(RoleKind::Server, 0, &servers, 1), None);
    let wrong = fleet.init_worker(&mut |_| {});
    assert!(matches!(wrong, Err(Error::WrongRole { wanted: "worker", .. })), "{wrong:?}");
    let nowhere = fleet.init_server(&scope, Some(Path::new("/nowhere")));
    assert!(matches!(nowhere, Err(Error::NoDirectory(_))), "{nowhere:?}");
    let local = fleet.save_persistables(&scope, Path::new("x"), &net.main);
    assert!(matches!(local, Err(Error::LocalProgram(_))), "a server leaves programs alone");
}

#[test]
fn a_wrong_port_ends_in_an_error_that_names_it() {
    let servers: Vec<String> = free_endpoints(1).iter().map(ToString::to_string).collect();
    let mut flags = Flags::default();
    flags.set("wait_server_ready_timeout", "1").unwrap();
    let fleet = Fleet::init(role(RoleKind::Trainer, 0, &servers, 1), flags, quiet());
    let mut said = Vec::new();
    let mut on_line = |line: &str| said.push(line.to_string());
    let waited = fleet.wait_for_servers(&mut Watch { on_line: &mut on_line, stops: &mut || false });
    let Err(Error::NotReady { endpoints, waited, .. }) = waited else { panic!("{waited:?}") };
    assert_eq!(endpoints[0].to_string(), servers[0]);
    assert!(waited < Duration::from_secs(3), "{waited:?}");
    assert_eq!(said[1], format!("not ready endpoints:['{}']", servers[0]));
}
