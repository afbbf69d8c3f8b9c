//! `train_from_dataset` on two threads, with AUC, against the ceiling on two threads; and the same
//! from raw text by the native reader against samples that lie parsed in memory.

use std::io::{BufWriter, Write};
use std::path::Path;

use ::data::{Criteo, Dataset, DatasetKind};
use program::Net;
use tensor::Tensor;
use train::from_dataset::{Observer, Pass, PassOptions};
use train::{Feed, Scope};

use crate::ceiling::Ceiling;
use crate::cluster::ceiling;
use crate::data::{N_DENSE, N_SLOTS, Samples};
use crate::report::bench_rounds;
use crate::{LR, N_ROWS, N_SAMPLES, model};

const N_ROUNDS: usize = 11;
const N_THREADS: usize = 2;
const NATIVE: &str = "paddlewheel criteo-reader 1000001 --hash crc32 --dense log";

struct Nobody;

impl Observer for Nobody {
    fn fetched(&mut self, _: &[Tensor]) {}
}

pub(crate) fn all(samples: &Samples) {
    let folder = tempfile::tempdir().expect("a folder");
    let raw = write_raw(samples, folder.path());
    for batch in [100, 1000] {
        let mut trainer = Trainer::new();
        let mut parsed = dataset(DatasetKind::InMemory, &raw, batch);
        parsed.load().expect("the samples load");
        let mut streamed = dataset(DatasetKind::Queue, &raw, batch);
        let mut ceilings: Vec<Ceiling> =
            (0..N_THREADS).map(|_| Ceiling::new(N_ROWS, batch, LR)).collect();
        let (mut local, mut native) = (Vec::new(), Vec::new());
        for round in 0..=N_ROUNDS {
            let by_hand = ceiling(&mut ceilings, samples, batch);
            let in_memory = trainer.pass(&mut parsed);
            let from_text = trainer.pass(&mut streamed);
            if round > 0 {
                local.push((in_memory, by_hand));
                native.push((from_text, in_memory));
            }
        }
        let name = format!("train_from_dataset_2_threads_batch{batch}");
        bench_rounds(&name, "ceiling_2_threads_samples_per_s", &local);
        bench_rounds(&format!("{name}_native_reader"), "parsed_samples_per_s", &native);
    }
}

struct Trainer {
    net: Net,
    scope: Scope,
    exe: train::Trainer,
}

impl Trainer {
    fn new() -> Self {
        let mut net = Net::with_seed(90);
        model::build_with_auc(&mut net, N_ROWS as i64, LR).expect("the model builds");
        let (scope, mut exe) = (Scope::new(), train::Trainer::new());
        exe.run(&net.startup, &scope, &mut Feed::new(), &[]).expect("the startup program runs");
        Self { net, scope, exe }
    }

    fn pass(&mut self, dataset: &mut Dataset) -> f64 {
        let options = PassOptions::default();
        let pass = Pass { program: &self.net.main, scope: &self.scope, options: &options };
        let report = self.exe.run_dataset(pass, dataset, &mut Nobody);
        let report = report.expect("a pass");
        assert_eq!(report.waited.len(), N_THREADS, "each thread has its reader");
        assert_eq!(report.n_samples, N_SAMPLES as u64);
        report.n_samples as f64 / report.seconds
    }
}

fn dataset(kind: DatasetKind, files: &[String], batch: usize) -> Dataset {
    let mut dataset = Dataset::new(kind);
    let settings = dataset.settings_mut();
    settings.slots = Criteo::slots();
    settings.files = files.to_vec();
    settings.pipe_command = NATIVE.to_string();
    settings.batch_size = batch;
    settings.n_threads = N_THREADS;
    dataset
}

/// The samples as click logs, a file for each thread.
fn write_raw(samples: &Samples, folder: &Path) -> Vec<String> {
    let half = samples.len() / N_THREADS;
    (0..N_THREADS).map(|part| write_part(samples, part * half..(part + 1) * half, folder)).collect()
}

fn write_part(samples: &Samples, rows: std::ops::Range<usize>, folder: &Path) -> String {
    let path = folder.join(format!("part-{}", rows.start));
    let mut out = BufWriter::new(std::fs::File::create(&path).expect("a file"));
    for row in rows {
        write!(out, "{}", samples.labels[row]).expect("written");
        for x in &samples.dense[row * N_DENSE..(row + 1) * N_DENSE] {
            write!(out, "\t{}", (x * 1000.0) as i64).expect("written");
        }
        for id in &samples.ids[row * N_SLOTS..(row + 1) * N_SLOTS] {
            write!(out, "\t{:08x}", (*id as u32).wrapping_mul(2_654_435_761)).expect("written");
        }
        out.write_all(b"\n").expect("written");
    }
    out.flush().expect("written");
    path.to_string_lossy().into_owned()
}
