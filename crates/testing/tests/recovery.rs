//! Servers and trainers die at any moment, and the job continues as if they had not.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use std::sync::Mutex;

use program::distributed::Mode;
use program::optimizer::{Adam, Optimizer};
use program::{Meta, Net, OpDesc, Var, VarDesc};
use tensor::{Lod, Tensor, mix};
use testing::close::{Tolerance, assert_tensor};
use testing::linear::{self, COMMON, LR, Linear, N_FEATURES, ROW_GRAD, own_row};
use testing::models::{self, Ctr};
use testing::recovery::{Death, Died, Outcome, Plan, Trainer as Process, Victim, run, run_script};
use train::parallel::{LossScale, Parallel, split};
use train::{Error, Feed};
use transpile::Config;

use Victim::{Server, Trainer};

/// Enough for some cuts.
const N_STEPS: usize = 250;
const N_QUICK_STEPS: usize = 800;
const NET: Linear = Linear { table: true, is_distributed: false, halving: false };

fn plan(config: Config, deaths: &[Death]) -> Plan {
    Plan {
        n_servers: 2,
        n_trainers: 2,
        config,
        n_steps: vec![N_STEPS; 2],
        cut_every_ms: 20,
        deaths: deaths.to_vec(),
    }
}

/// After a step of a trainer, with so many cuts kept.
fn death(by: usize, step: usize, n_cuts: u64, victim: Victim) -> Death {
    Death { by, step, n_cuts, victim }
}

fn ctr() -> (Net, Var) {
    let model = Ctr {
        n_slots: 3,
        n_dense: 4,
        n_rows: 500,
        dim: 4,
        hidden: vec![8],
        num_thresholds: 255,
        slide_steps: 1,
        pooled: true,
        is_sparse: true,
    };
    let mut net = Net::with_seed(7);
    let vars = models::ctr(&mut net, &model, Optimizer::new(Adam::default(), 0.01)).unwrap();
    (net, vars.loss)
}

/// Eight samples that depend on nothing but their number.
fn clicks(id: usize, step: usize) -> Feed {
    let n = 8;
    let draw = |what: usize, at: usize| {
        mix(((id * 1_000_003 + step) * 64 + what) as u64 ^ (at as u64) << 40)
    };
    let mut feed = Feed::new();
    for slot in 0..3 {
        let ids: Vec<i64> = (0..n).map(|at| (draw(slot, at) % 500) as i64).collect();
        let mut ids = Tensor::new([n, 1], &ids).unwrap();
        ids.set_lod(Lod::from_lengths(vec![1; n]));
        feed.set(&format!("C{}", slot + 1), ids);
    }
    let dense: Vec<f32> = (0..4 * n).map(|at| (draw(9, at) % 1000) as f32 / 1000.0).collect();
    let labels: Vec<i64> = (0..n).map(|at| (draw(8, at) % 2) as i64).collect();
    feed.set("dense_input", Tensor::new([n, 4], &dense).unwrap());
    feed.set("label", Tensor::new([n, 1], &labels).unwrap());
    feed
}

/// The same model, and every trainer saw the same losses, as in a job without deaths.
#[track_caller]
fn same_as_calm(plan: &Plan) {
    same_by(plan, |plan| run(plan, ctr, clicks));
}

#[track_caller]
fn same_by(plan: &Plan, run: impl Fn(&Plan) -> Outcome) {
    let (disturbed, calm) = (run(plan), run(&Plan { deaths: Vec::new(), ..plan.clone() }));
    let log = || disturbed.lines.join("\n");
    assert_deaths(plan, &disturbed);
    assert_eq!(disturbed.losses, calm.losses, "{}", log());
    assert!(calm.saved.len() > 8, "{:?}", calm.saved.keys());
    assert_eq!(disturbed.saved, calm.saved, "{}", log());
}

/// All planned deaths have happened.
#[track_caller]
fn assert_deaths(plan: &Plan, outcome: &Outcome) {
    let n = outcome.lines.iter().filter(|line| line.contains(" dies after step ")).count();
    assert_eq!(n, plan.deaths.len(), "{}", outcome.lines.join("\n"));
}

#[test]
fn a_killed_server_changes_nothing_in_sync() {
    let deaths = [death(0, 10, 1, Server(1)), death(1, 120, 0, Server(0))];
    same_as_calm(&plan(Config::default(), &deaths));
}

#[test]
fn a_killed_trainer_changes_nothing_in_sync() {
    let deaths = [death(0, 10, 1, Trainer(0)), death(0, 120, 0, Trainer(1))];
    same_as_calm(&plan(Config::default(), &deaths));
}

#[test]
fn who_dies_before_the_first_cut_begins_anew() {
    let deaths = [death(1, 3, 0, Trainer(1)), death(0, 6, 0, Server(0))];
    same_as_calm(&plan(Config::default(), &deaths));
}

#[test]
fn all_may_die_at_once() {
    let at = |victim| death(1, 60, 1, victim);
    let deaths = [at(Server(0)), at(Server(1)), at(Trainer(0)), at(Trainer(1))];
    same_as_calm(&plan(Config::default(), &deaths));
}

#[test]
fn trainers_may_end_at_different_times() {
    let deaths =
        [death(0, 150, 1, Trainer(1)), death(0, 220, 0, Server(1)), death(0, 240, 0, Trainer(0))];
    same_as_calm(&Plan { n_steps: vec![280, 200], ..plan(Config::default(), &deaths) });
}

/// The sum of every step of every trainer, once each.
#[track_caller]
fn counted_once(plan: &Plan) {
    let outcome = run(plan, || NET.build(), |id, step| NET.feed(id, step));
    assert_deaths(plan, &outcome);
    let log = || outcome.lines.join("\n");
    let share = if plan.config.mode.waits_for_all() { 0.5 } else { 1.0 };
    let all = (0..2).flat_map(|id| (0..N_QUICK_STEPS).map(move |step| (id, step)));
    let w = linear::sum(all).map(|sum| 1.0 - LR * share * sum);
    assert_eq!(outcome.saved["w"], Tensor::new([N_FEATURES, 1], &w).unwrap(), "{}", log());
    let table = outcome.saved["table"].data::<f32>().unwrap();
    let after = |n: usize| [0.5 - LR * ROW_GRAD * share * n as f32; 4];
    assert_eq!(table[COMMON as usize * 4..][..4], after(2 * N_QUICK_STEPS), "{}", log());
    for id in 0..2 {
        assert_eq!(table[own_row(id) as usize * 4..][..4], after(N_QUICK_STEPS), "{}", log());
    }
}

/// A job with many quick steps, in which every process dies once.
fn quick(mode: Mode) -> Plan {
    let deaths = [
        death(0, 10, 1, Server(0)),
        death(0, 80, 0, Trainer(1)),
        death(0, 150, 0, Trainer(0)),
        death(1, 200, 0, Server(1)),
    ];
    Plan { n_steps: vec![N_QUICK_STEPS; 2], ..plan(Config::of(mode), &deaths) }
}

#[test]
fn every_step_counts_once_in_bounded_staleness() {
    counted_once(&quick(Mode::Ssp { staleness: 2 }));
}

#[test]
fn every_step_counts_once_in_half_async() {
    counted_once(&quick(Mode::HalfAsync));
}

#[test]
fn every_step_counts_once_in_async() {
    counted_once(&quick(Mode::Async));
}

#[test]
fn every_step_counts_once_in_geo() {
    let plan = quick(Mode::Geo { push_every: 3 });
    let train = |plan: &Plan| run(plan, || NET.build(), |id, step| NET.feed(id, step));
    let (disturbed, calm) = (train(&plan), train(&Plan { deaths: Vec::new(), ..plan.clone() }));
    assert_deaths(&plan, &disturbed);
    for name in ["w", "table"] {
        let what = format!("{name}\n{}", disturbed.lines.join("\n"));
        assert_tensor(&what, &disturbed.saved[name], &calm.saved[name], Tolerance::of(1e-5));
    }
}

/// Counters that a script sets back by itself, metrics that all trainers have together, and several
/// devices with statistics of their own.
#[test]
fn what_a_script_does_between_steps_comes_back_too() {
    let deaths =
        [death(0, 60, 1, Server(1)), death(1, 110, 0, Trainer(0)), death(1, 160, 0, Trainer(1))];
    same_by(&plan(Config::default(), &deaths), |plan| run_script(plan, ctr, by_hand));
}

fn by_hand(trainer: &Process<'_>, _: &mut train::Trainer) -> Result<Vec<f64>, Died> {
    let fail = |error: Error| -> ! { panic!("trainer {}: {error}", trainer.id) };
    let mut losses = Vec::new();
    let mut parallel = Parallel::new(2, Some(LossScale::PerDevice));
    parallel.set_job(trainer.cluster);
    let ops = &trainer.net.main.block(0).ops;
    let stat = ops.iter().find_map(|op| op.input_names("StatPos").first().cloned()).unwrap();
    for step in 0..N_STEPS {
        let feed = clicks(trainer.id, step);
        let (mut feeds, fetch) =
            (split(&feed, 2, false, |_| false).unwrap(), [trainer.loss.name()]);
        let ran = parallel.run(&trainer.net.main, trainer.scope, &mut feeds, &fetch);
        let parts = ran.unwrap_or_else(|error| fail(error)).remove(0);
        losses.extend(parts.iter().map(|part| part.get_f64(0)));
        if step % 10 == 9 {
            let bring = &mut || {
                let sum = trainer.scope.read(&stat, |value| value.tensor().map(total));
                Ok(sum.flatten().unwrap_or(-1.0).to_le_bytes().to_vec())
            };
            let gathered = trainer.cluster.all_gather_with("sum", bring);
            let gathered = gathered.unwrap_or_else(|error| fail(error));
            let bytes =
                gathered.iter().map(|bytes| f64::from_le_bytes(bytes[..8].try_into().unwrap()));
            losses.extend(bytes);
            // In a repeated script nothing was computed: there is nothing to set back.
            trainer.scope.write(&stat, |value| {
                if let Some(tensor) = value.tensor() {
                    *value = Tensor::full(tensor.shape(), 0i64).into();
                }
            });
        }
        trainer.stepped(step)?;
    }
    Ok(losses)
}

/// Numbers of a variable that only the trainer has: more than goes in one message.
const N_LARGE: usize = 5 << 20;

#[test]
fn what_a_trainer_keeps_may_be_larger_than_a_message() {
    let deaths = [death(0, 25, 2, Server(1)), death(1, 35, 0, Trainer(1))];
    let plan = Plan { n_steps: vec![60; 2], ..plan(Config::default(), &deaths) };
    same_by(&plan, |plan| run_script(plan, ctr, with_large_variable));
}

fn with_large_variable(trainer: &Process<'_>, exe: &mut train::Trainer) -> Result<Vec<f64>, Died> {
    let mut losses = Vec::new();
    for step in 0..60 {
        if step % 20 == 0 {
            let numbers: Vec<f32> =
                (0..N_LARGE).map(|at| (at % 1000 + step) as f32 + 0.5).collect();
            trainer.scope.set("large", Tensor::new([N_LARGE], &numbers).unwrap());
        }
        let (mut feed, fetch) = (clicks(trainer.id, step), [trainer.loss.name()]);
        let ran = exe.run(&trainer.net.main, trainer.scope, &mut feed, &fetch);
        let values = ran.unwrap_or_else(|error| panic!("trainer {}: {error}", trainer.id));
        losses.push(values[0].get_f64(0));
        trainer.stepped(step)?;
    }
    losses.extend(trainer.scope.read("large", |value| value.tensor().map(total)).flatten());
    Ok(losses)
}

fn total(tensor: &Tensor) -> f64 {
    (0..tensor.shape().n_elements()).map(|at| tensor.get_f64(at)).sum()
}

/// A script that does something else when it is started again must not continue.
#[test]
fn a_script_that_does_not_repeat_itself_is_told_so() {
    let plan = Plan {
        n_trainers: 1,
        // It dies when there is a cut, and not before.
        n_steps: vec![0],
        ..plan(Config::default(), &[death(0, 50, 3, Trainer(0))])
    };
    let told = Mutex::new(Vec::new());
    let outcome = run_script(&plan, ctr, |trainer, exe| {
        for step in 0..1500 {
            let (is_other, is_shorter) = (trainer.n_starts == 2, trainer.n_starts == 3);
            let mut feed = clicks(usize::from(is_other && step == 0), step);
            let loss = [trainer.loss.name()];
            let fetch = if is_shorter && step == 1 { &[][..] } else { &loss };
            let ran = exe.run(&trainer.net.main, trainer.scope, &mut feed, fetch);
            if let Err(error) = ran {
                told.lock().unwrap().push(error);
                return Err(Died);
            }
            trainer.stepped(step)?;
        }
        Ok(Vec::new())
    });
    assert_eq!(outcome.n_starts, [4]);
    // Event 0 is the startup program.
    let told = told.into_inner().unwrap();
    assert!(matches!(told[0], Error::OtherValues { event: 1, .. }), "{}", told[0]);
    assert!(matches!(told[1], Error::OtherEvent { event: 2, .. }), "{}", told[1]);
    let text = told[1].to_string();
    assert!(text.contains(&format!("fetches {}", trainer_loss())), "{text}");
    assert!(text.contains("fetches nothing"), "{text}");
}

/// Batches that a program reads by itself cannot be read again.
#[test]
fn a_program_that_reads_by_itself_is_refused() {
    struct Endless;
    impl train::BatchSource for Endless {
        fn next(&mut self) -> train::Result<Option<Vec<Tensor>>> {
            Ok(Some(vec![Tensor::full([1], 1.0f32)]))
        }
    }
    let one = Plan { n_trainers: 1, n_steps: vec![1], ..plan(Config::default(), &[]) };
    run_script(&one, ctr, |trainer, exe| {
        let mut net = Net::with_seed(1);
        let b = net.builder();
        b.main.block_mut(0).put_var(VarDesc::new("r", Meta::default()));
        b.main.block_mut(0).put_var(VarDesc::new("x", Meta::default()));
        b.main.block_mut(0).ops.push(OpDesc::new("read").input("Reader", "r").output("Out", "x"));
        trainer.scope.attach_reader("r", Box::new(Endless));
        let ran = exe.run(&net.main, trainer.scope, &mut Feed::new(), &["x"]);
        assert!(matches!(ran, Err(Error::ReadsInside { .. })), "{ran:?}");
        Ok(Vec::new())
    });
}

fn trainer_loss() -> String {
    ctr().1.name().to_string()
}
