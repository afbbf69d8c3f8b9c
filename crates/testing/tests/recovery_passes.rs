//! Servers and trainers die while trainers make passes over their data, and the job continues as if
//! they had not.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use data::{Dataset, DatasetKind, Slot};
use program::backward::Limits;
use program::distributed::Mode;
use program::layers::{self, Auc, CrossEntropy, Data, Embedding, Fc};
use program::optimizer::{Adam, Optimizer};
use program::{Net, Var};
use tempfile::TempDir;
use tensor::{DType, Tensor};
use testing::close::{Tolerance, assert_tensor};
use testing::linear::{self, COMMON, LR, Linear, N_FEATURES, own_row};
use testing::recovery::{Death, Died, Outcome, Plan, Trainer, Victim, run_script};
use train::from_dataset::{self, Observer, Pass, PassOptions, Progress, Report};
use transpile::Config;

const BATCH: usize = 4;
const N_BATCHES: usize = 320;
const N_PASSES: usize = 3;
const N_WORDS: i64 = 300;
const N_FILES: usize = 4;

/// The counts of the AUC of the last batches. These batches are not determined where there are several
/// threads.
const WINDOWS: [&str; 2] = ["_generated_var_0", "_generated_var_1"];

/// One word and two numbers decide about a click; keeps the AUC.
fn net() -> (Net, Var) {
    let mut net = Net::with_seed(90);
    let b = &mut net.builder();
    let ids = Data { dtype: DType::I64, lod_level: 1, ..Data::default() };
    let word = layers::data(b, "word", &[1], ids.clone()).unwrap();
    let x = layers::data(b, "x", &[2], Data::default()).unwrap();
    let label = layers::data(b, "label", &[1], Data { lod_level: 0, ..ids }).unwrap();
    let table = Embedding { is_sparse: true, ..Embedding::default() };
    let row = layers::embedding(b, &word, [N_WORDS, 3], table).unwrap();
    let all = layers::concat(b, &[row, x], 1, None).unwrap();
    let guess = layers::fc(b, &[all], 2, Fc { act: Some("softmax"), ..Fc::default() }).unwrap();
    let cost = layers::cross_entropy(b, &guess, &label, CrossEntropy::default()).unwrap();
    let loss = layers::mean(b, &cost, None).unwrap();
    layers::auc(b, &guess, &label, Auc::default()).unwrap();
    let adam = Adam { lazy_mode: true, ..Adam::default() };
    Optimizer::new(adam, 0.01).minimize(b, &loss, &Limits::default()).unwrap();
    (net, loss)
}

/// The files of all trainers: one list, of which each has `N_FILES` files.
struct Files(TempDir);

impl Files {
    fn new(n_trainers: usize, line: impl Fn(usize, usize) -> String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let n_lines = N_BATCHES * BATCH / N_FILES;
        for trainer in 0..n_trainers {
            for file in 0..N_FILES {
                let mut text = String::new();
                (0..n_lines).for_each(|at| text += &line(trainer, file * n_lines + at));
                std::fs::write(folder.path().join(format!("{trainer}-{file}")), text).unwrap();
            }
        }
        Self(folder)
    }

    fn clicks() -> Self {
        Self::new(2, |trainer, at| {
            let at = trainer * 7919 + at;
            let word = at * 7 % N_WORDS as usize;
            let a = at * 5 % 11;
            let b = at * 3 % 7;
            let click = u8::from(word.is_multiple_of(3) || a > b + 2);
            format!("1 {word} 2 {} {} 1 {click}\n", a as f32 / 11.0, b as f32 / 7.0)
        })
    }

    /// Samples of [`Linear`]: all of a batch have its gradient.
    fn ledger() -> Self {
        Self::new(2, |trainer, at| {
            let x = linear::grad(trainer, at / BATCH).map(|x| x.to_string()).join(" ");
            let id = if at % 2 == 0 { COMMON } else { own_row(trainer) };
            format!("{N_FEATURES} {x} 1 {id}\n")
        })
    }

    fn dataset(
        &self,
        trainer: usize,
        slots: Vec<Slot>,
        kind: DatasetKind,
        n_threads: usize,
    ) -> Dataset {
        let mut dataset = Dataset::new(kind);
        let settings = dataset.settings_mut();
        settings.slots = slots;
        let path = |file: usize| self.0.path().join(format!("{trainer}-{file}"));
        settings.files =
            (0..N_FILES).map(|file| path(file).to_string_lossy().into_owned()).collect();
        (settings.batch_size, settings.n_threads) = (BATCH, n_threads);
        dataset
    }
}

fn click_slots() -> Vec<Slot> {
    let x = Slot::floats("x").dense(&[-1, 2]);
    vec![Slot::ids("word"), x, Slot::ids("label").dense(&[-1, 1])]
}

/// Sees the losses, and lets others die.
struct Onlooker<'a> {
    trainer: &'a Trainer<'a>,
    n_seen: &'a mut usize,
    died: bool,
}

impl Observer for Onlooker<'_> {
    fn fetched(&mut self, _: &[Tensor]) {
        *self.n_seen += 1;
        self.died |= self.trainer.stepped(*self.n_seen).is_err();
    }

    fn goes_on(&mut self, _: &Progress) -> bool {
        !self.died
    }
}

/// One pass. A trainer that dies ends in the middle of it.
fn pass(
    trainer: &Trainer<'_>,
    exe: &mut train::Trainer,
    dataset: &mut Dataset,
    n_seen: &mut usize,
) -> Result<Report, Died> {
    let fetch = vec![trainer.loss.name().into()];
    let options = PassOptions { fetch, fetch_every: 1, ..PassOptions::default() };
    let pass = Pass { program: &trainer.net.main, scope: trainer.scope, options: &options };
    let mut onlooker = Onlooker { trainer, n_seen, died: false };
    let ran = exe.run_dataset(pass, dataset, &mut onlooker);
    match ran {
        _ if onlooker.died => Err(Died),
        Ok(report) => Ok(report),
        Err(error) => panic!("trainer {}: {error}", trainer.id),
    }
}

fn plan(config: Config, deaths: &[Death]) -> Plan {
    Plan {
        n_servers: 2,
        n_trainers: 2,
        config,
        n_steps: vec![0, 0],
        cut_every_ms: 10,
        deaths: deaths.to_vec(),
    }
}

/// Passes over a dataset; in memory it is shuffled before each. At the end what was learnt is judged.
fn run(config: &Config, kind: DatasetKind, n_threads: usize, deaths: &[Death]) -> Outcome {
    let files = Files::clicks();
    run_script(&plan(config.clone(), deaths), net, |trainer, exe| {
        let mut dataset = files.dataset(trainer.id, click_slots(), kind, n_threads);
        if kind == DatasetKind::InMemory {
            dataset.load().unwrap();
        }
        let mut n_seen = 0;
        for _ in 0..N_PASSES {
            if kind == DatasetKind::InMemory {
                dataset.local_shuffle().unwrap();
            }
            let report = pass(trainer, exe, &mut dataset, &mut n_seen)?;
            assert_eq!(report.n_samples as usize, N_BATCHES * BATCH, "trainer {}", trainer.id);
            assert_eq!(report.waited.len(), n_threads);
        }
        Ok(judged(trainer, exe, &mut dataset))
    })
}

/// The loss over all samples of a trainer, with the parameters that it has; and what its counters of
/// clicks have counted.
fn judged(trainer: &Trainer<'_>, exe: &mut train::Trainer, dataset: &mut Dataset) -> Vec<f64> {
    struct Nobody;
    impl Observer for Nobody {
        fn fetched(&mut self, _: &[Tensor]) {}
    }
    let fetch = vec![trainer.loss.name().into()];
    let options = PassOptions { fetch, infers: true, ..PassOptions::default() };
    let pass = Pass { program: &trainer.net.main, scope: trainer.scope, options: &options };
    let report = exe.run_dataset(pass, dataset, &mut Nobody).unwrap();
    let mut numbers = vec![report.fetched[0].value.get_f64(0)];
    // Those of all batches.
    for name in ["_generated_var_2", "_generated_var_3"] {
        let counted = trainer.scope.get(name).unwrap();
        let counted = counted.tensor().unwrap();
        numbers.push((0..counted.len()).map(|at| counted.get_f64(at)).sum());
        let weighted = |at: usize| counted.get_f64(at) * (at + 1) as f64;
        numbers.push((0..counted.len()).map(weighted).sum());
    }
    numbers
}

/// Both jobs saved the same files, and every trainer has counted the same.
#[track_caller]
fn assert_same(disturbed: &Outcome, calm: &Outcome, n_deaths: usize) {
    let log = || disturbed.lines.join("\n");
    let n_died = disturbed.lines.iter().filter(|line| line.contains(" dies after ")).count();
    assert_eq!(n_died, n_deaths, "{}", log());
    assert_eq!(disturbed.losses, calm.losses, "{}", log());
    for (name, bytes) in calm.files.iter().filter(|(name, _)| !WINDOWS.contains(&name.as_str())) {
        assert!(disturbed.files.get(name) == Some(bytes), "{name}\n{}", log());
    }
}

/// Deaths early, in the middle and late.
const DEATHS: [Death; 3] = [
    Death { by: 0, step: 5, n_cuts: 1, victim: Victim::Trainer(1) },
    Death { by: 1, step: 50, n_cuts: 2, victim: Victim::Server(0) },
    Death { by: 0, step: 250, n_cuts: 2, victim: Victim::Trainer(0) },
];

/// The result is the same, no matter which process dies.
#[track_caller]
fn same_as_calm(kind: DatasetKind, n_threads: usize) {
    let sync = Config::default();
    let calm = run(&sync, kind, n_threads, &[]);
    let disturbed = run(&sync, kind, n_threads, &DEATHS);
    assert_same(&disturbed, &calm, DEATHS.len());
}

#[test]
fn a_sync_pass_over_files_ends_with_the_same_bits() {
    same_as_calm(DatasetKind::Queue, 1);
}

#[test]
fn a_sync_pass_of_two_threads_ends_with_the_same_bits() {
    same_as_calm(DatasetKind::Queue, 2);
}

#[test]
fn a_sync_pass_over_shuffled_memory_ends_with_the_same_bits() {
    same_as_calm(DatasetKind::InMemory, 2);
}

/// Samples change trainers before each pass.
fn run_shuffled(deaths: &[Death]) -> Outcome {
    let files = Files::clicks();
    run_script(&plan(Config::default(), deaths), net, |trainer, exe| {
        let mut dataset = files.dataset(trainer.id, click_slots(), DatasetKind::InMemory, 2);
        dataset.load().unwrap();
        let job = trainer.net.main.distributed.clone().unwrap();
        let folder = trainer.folder.join(format!("trainer.{}", trainer.id));
        let peers = trainer.cluster.peers(&job).keeping_in(Some(folder.clone()));
        let (mut n_seen, n_all) = (0, 2 * (N_BATCHES * BATCH) as u64);
        for at in 0..N_PASSES {
            // Deaths around a shuffle happen at these steps.
            trainer.stepped(1000 * at)?;
            from_dataset::global_shuffle(&mut dataset, &peers).unwrap();
            trainer.stepped(1000 * at + 500)?;
            assert_eq!(dataset.n_shuffled(Some(&peers)).unwrap(), n_all);
            pass(trainer, exe, &mut dataset, &mut n_seen)?;
        }
        Ok(judged(trainer, exe, &mut dataset))
    })
}

#[test]
fn samples_that_changed_trainers_are_there_again() {
    let death = |by, step, victim| Death { by, step, n_cuts: 1, victim };
    let deaths = [
        Death { by: 0, step: 5, n_cuts: 1, victim: Victim::Trainer(1) },
        death(0, 1000, Victim::Server(1)),
        death(1, 1500, Victim::Trainer(1)),
        death(0, 2000, Victim::Trainer(0)),
    ];
    let (disturbed, calm) = (run_shuffled(&deaths), run_shuffled(&[]));
    assert_same(&disturbed, &calm, deaths.len());
    // Their datasets are gone and no process goes back to them, so their samples are removed.
    for (outcome, id) in [(&disturbed, 0), (&disturbed, 1), (&calm, 0), (&calm, 1)] {
        let folder = outcome.folder.path().join(format!("trainer.{id}"));
        let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(Result::unwrap).collect();
        assert!(files.is_empty(), "{files:?}\n{}", outcome.lines.join("\n"));
    }
}

const NET: Linear = Linear { table: true, is_distributed: false, halving: false };

/// The variables that trainer 0 saved after passes over samples with a known sum.
fn ledger(mode: Mode, n_threads: usize, deaths: &[Death]) -> Outcome {
    let files = Files::ledger();
    let outcome = run_script(
        &plan(Config::of(mode), deaths),
        || NET.build(),
        |trainer, exe| {
            let x = Slot::floats("x").dense(&[-1, N_FEATURES as i64]);
            let slots = vec![x, Slot::ids("ids").dense(&[-1, 1])];
            let mut dataset = files.dataset(trainer.id, slots, DatasetKind::Queue, n_threads);
            let mut n_seen = 0;
            for _ in 0..N_PASSES {
                let report = pass(trainer, exe, &mut dataset, &mut n_seen)?;
                assert_eq!(report.n_batches as usize, N_BATCHES, "trainer {}", trainer.id);
            }
            Ok(Vec::new())
        },
    );
    let n_died = outcome.lines.iter().filter(|line| line.contains(" dies after ")).count();
    assert_eq!(n_died, deaths.len(), "{}", outcome.lines.join("\n"));
    outcome
}

/// Every batch of every trainer has been applied once. `share`: the weight of one where several are
/// averaged.
#[track_caller]
fn counted_once(mode: Mode, n_threads: usize, share: f32) {
    let outcome = ledger(mode, n_threads, &DEATHS);
    let log = || outcome.lines.join("\n");
    let steps = (0..2).flat_map(|id| (0..N_BATCHES).map(move |step| (id, step)));
    let w = linear::sum(steps).map(|sum| 1.0 - LR * share * sum * N_PASSES as f32);
    assert_eq!(outcome.saved["w"], Tensor::new([N_FEATURES, 1], &w).unwrap(), "{}", log());
    let table = outcome.saved["table"].data::<f32>().unwrap();
    let n = (N_BATCHES * N_PASSES) as f32;
    let after = |n: f32| [0.5 - LR * share * n / 8.0; 4];
    assert_eq!(table[COMMON as usize * 4..][..4], after(2.0 * n), "{}", log());
    for id in 0..2 {
        assert_eq!(table[own_row(id) as usize * 4..][..4], after(n), "{}", log());
    }
}

#[test]
fn every_batch_counts_once_in_async() {
    counted_once(Mode::Async, 2, 1.0);
}

#[test]
fn every_batch_counts_once_in_half_async() {
    counted_once(Mode::HalfAsync, 2, 0.5);
}

#[test]
fn every_batch_counts_once_in_bounded_staleness() {
    counted_once(Mode::Ssp { staleness: 2 }, 1, 0.5);
}

/// At the end of GEO, a part of what a trainer learnt last stays with it: servers have all the rest.
#[test]
fn every_batch_counts_once_in_geo() {
    let mode = Mode::Geo { push_every: 3 };
    let (disturbed, calm) = (ledger(mode, 1, &DEATHS), ledger(mode, 1, &[]));
    for name in ["w", "table"] {
        let what = format!("{name}\n{}", disturbed.lines.join("\n"));
        assert_tensor(&what, &disturbed.saved[name], &calm.saved[name], Tolerance::of(1e-5));
    }
    // The steps of that part are not determined where there are several threads.
    let disturbed = ledger(mode, 2, &DEATHS);
    let (found, expected) = (&disturbed.saved["w"], &calm.saved["w"]);
    for (at, step) in [0.5, 80.0, 0.125, 0.25].into_iter().enumerate() {
        let away = (found.get_f64(at) - expected.get_f64(at)).abs();
        assert!(away <= 3.0 * step, "w[{at}] is {away} away\n{}", disturbed.lines.join("\n"));
    }
}
