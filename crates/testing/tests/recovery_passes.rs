//! Servers and trainers die while trainers make passes over their data, and the job goes on as if they
//! had not.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use data::{Dataset, Kind, Slot};
use program::backward::Limits;
use program::layers::{self, Auc, CrossEntropy, Data, Embedding, Fc};
use program::optimizer::{Adam, Optimizer};
use program::{Net, Var};
use tempfile::TempDir;
use tensor::{DType, Tensor};
use testing::recovery::{Death, Died, Outcome, Plan, Trainer, Victim, run_script};
use train::Executor;
use train::from_dataset::{Audience, Pass, Progress, Report};
use train::transpile::Config;

const BATCH: usize = 4;
const N_BATCHES: usize = 240;
const N_PASSES: usize = 3;
const N_WORDS: i64 = 300;
const N_FILES: usize = 4;

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
            let (word, a, b) = (at * 7 % N_WORDS as usize, at * 5 % 11, at * 3 % 7);
            let click = u8::from(word % 3 == 0 || a > b + 2);
            format!("1 {word} 2 {} {} 1 {click}\n", a as f32 / 11.0, b as f32 / 7.0)
        })
    }

    fn dataset(&self, trainer: usize, kind: Kind, n_threads: usize) -> Dataset {
        let mut dataset = Dataset::new(kind);
        let settings = dataset.settings_mut();
        settings.slots = vec![
            Slot::ids("word"),
            Slot::floats("x").dense(&[-1, 2]),
            Slot::ids("label").dense(&[-1, 1]),
        ];
        let path = |file: usize| self.0.path().join(format!("{trainer}-{file}"));
        settings.files =
            (0..N_FILES).map(|file| path(file).to_string_lossy().into_owned()).collect();
        (settings.batch_size, settings.n_threads) = (BATCH, n_threads);
        dataset
    }
}

/// Sees the losses, and lets others die.
struct Onlooker<'a> {
    trainer: &'a Trainer<'a>,
    losses: &'a mut Vec<f64>,
    died: bool,
}

impl Audience for Onlooker<'_> {
    fn fetched(&mut self, values: &[Tensor]) {
        self.losses.push(values[0].get_f64(0));
        self.died |= self.trainer.stepped(self.losses.len()).is_err();
    }

    fn goes_on(&mut self, _: &Progress) -> bool {
        !self.died
    }
}

/// One pass; what died is not told of it.
fn pass(
    trainer: &Trainer<'_>,
    exe: &mut Executor,
    dataset: &mut Dataset,
    losses: &mut Vec<f64>,
) -> Result<Report, Died> {
    let pass = Pass { fetch: vec![trainer.loss.name().into()], fetch_every: 1, ..Pass::default() };
    let mut onlooker = Onlooker { trainer, losses, died: false };
    let ran = exe.run_dataset((&trainer.net.main, trainer.scope), dataset, &pass, &mut onlooker);
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
fn run(config: &Config, (kind, n_threads): (Kind, usize), deaths: &[Death]) -> Outcome {
    let files = Files::clicks();
    run_script(&plan(config.clone(), deaths), net, |trainer, exe| {
        let mut dataset = files.dataset(trainer.id, kind, n_threads);
        let mut losses = Vec::new();
        if kind == Kind::InMemory {
            dataset.load().unwrap();
        }
        for _ in 0..N_PASSES {
            if kind == Kind::InMemory {
                dataset.local_shuffle().unwrap();
            }
            let report = pass(trainer, exe, &mut dataset, &mut losses)?;
            assert_eq!(report.n_samples as usize, N_BATCHES * BATCH, "trainer {}", trainer.id);
            assert_eq!(report.waited.len(), n_threads);
        }
        Ok(judged(trainer, exe, &mut dataset))
    })
}

/// The loss over all samples of a trainer, with the parameters that it has; and what its counters of
/// clicks have counted.
fn judged(trainer: &Trainer<'_>, exe: &mut Executor, dataset: &mut Dataset) -> Vec<f64> {
    let pass = Pass { fetch: vec![trainer.loss.name().into()], infers: true, ..Pass::default() };
    struct Nobody;
    impl Audience for Nobody {
        fn fetched(&mut self, _: &[Tensor]) {}
    }
    let what = (&trainer.net.main, trainer.scope);
    let report = exe.run_dataset(what, dataset, &pass, &mut Nobody).unwrap();
    let mut numbers = vec![report.fetched[0].value.get_f64(0)];
    for name in trainer.scope.names() {
        let counts = trainer.scope.get(&name).filter(|_| name.starts_with("_generated_var"));
        if let Some(tensor) = counts.as_ref().and_then(|value| value.tensor()) {
            numbers.push((0..tensor.len()).map(|at| tensor.get_f64(at)).sum());
            let weighted = |at: usize| tensor.get_f64(at) * (at + 1) as f64;
            numbers.push((0..tensor.len()).map(weighted).sum());
        }
    }
    numbers
}

/// The same files, and every trainer has counted the same.
#[track_caller]
fn assert_same(disturbed: &Outcome, calm: &Outcome, n_deaths: usize) {
    let log = || disturbed.lines.join("\n");
    let n_died = disturbed.lines.iter().filter(|line| line.contains(" dies after ")).count();
    assert_eq!(n_died, n_deaths, "{}", log());
    assert_eq!(disturbed.losses, calm.losses, "{}", log());
    assert!(disturbed.files == calm.files, "{}", log());
}

/// Somebody dies early, in the middle and late.
const DEATHS: [Death; 3] = [
    Death { by: 0, step: 5, n_cuts: 1, victim: Victim::Trainer(1) },
    Death { by: 1, step: 20, n_cuts: 3, victim: Victim::Server(0) },
    Death { by: 0, step: 25, n_cuts: 3, victim: Victim::Trainer(0) },
];

#[test]
fn sync_passes_of_one_thread_end_with_the_same_bits() {
    let sync = Config::default();
    for kind in [Kind::Queue, Kind::InMemory] {
        let calm = run(&sync, (kind, 1), &[]);
        let disturbed = run(&sync, (kind, 1), &DEATHS);
        assert_same(&disturbed, &calm, DEATHS.len());
    }
}

#[test]
fn sync_passes_of_two_threads_end_with_the_same_bits() {
    let sync = Config::default();
    for kind in [Kind::Queue, Kind::InMemory] {
        let calm = run(&sync, (kind, 2), &[]);
        let disturbed = run(&sync, (kind, 2), &DEATHS);
        assert_same(&disturbed, &calm, DEATHS.len());
    }
}
