//! The benches of the core: one `BENCH <name> ratio=…` line per figure.
//!
//! Every figure is a ratio of two things measured in the same run, in turns. Works with nothing
//! installed; says which peers were left out and how to name them.
#![allow(clippy::print_stdout, missing_docs)]

mod alloc;
mod ceiling;
mod cluster;
mod data;
mod model;
mod overhead;
mod pass;
mod peer;
mod report;

use std::time::Instant;

use ceiling::Ceiling;
use data::Samples;
use model::Model;
use report::{bench, bench_rounds};
use train::Feed;

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

const N_ROWS: usize = 1_000_001;
const N_SAMPLES: usize = 20_000;
/// Samples of one turn: short, so that a slow second of a shared machine hits both sides alike.
const N_TURN: usize = 4_000;
const N_ROUNDS: usize = 31;
/// Peers in processes of their own take longer turns, in every so many rounds.
const PEER_EVERY: usize = 5;
const LR: f32 = 1e-4;

fn main() {
    if cluster::play_role() {
        return;
    }
    if std::env::args().any(|arg| arg == "cluster") {
        return cluster::all();
    }
    let samples = Samples::new(N_SAMPLES, N_ROWS);
    if std::env::args().any(|arg| arg == "pass") {
        return pass::all(&samples);
    }
    for batch in [100, 1000] {
        ctr_step(&samples, batch);
    }
    pass::all(&samples);
    overhead::prepare();
    overhead::scalar_ops();
    cluster::all();
}

/// The training step against the ceiling, and against the peers that are there.
fn ctr_step(samples: &Samples, batch: usize) {
    let mut ceiling = Ceiling::new(N_ROWS, batch, LR);
    let mut model = Model::new(N_ROWS, LR).expect("the model builds");
    let mut feeds = samples.feeds(batch);
    let mut fluid = peer::Fluid::start(batch);
    let mut hand = Vec::new();
    let mut real = Vec::new();
    let mut probe = Vec::new();
    for round in 0..=N_ROUNDS {
        let turn = Turn { batch, from: round * N_TURN % N_SAMPLES };
        let by_hand = turn.ceiling(&mut ceiling, samples);
        let ours = turn.ours(&mut model, &mut feeds);
        if round == 0 {
            continue; // The first turn of each side prepares and warms up.
        }
        hand.push((ours, by_hand));
        if round % PEER_EVERY == 0 {
            real.extend(fluid.as_mut().and_then(|f| f.round(N_TURN)).map(|rate| (ours, rate)));
            probe.extend(peer::probe(batch).map(|rate| (by_hand, rate)));
        }
    }
    bench_rounds(&format!("ctr_step_batch{batch}"), "ceiling_samples_per_s", &hand);
    if real.is_empty() {
        println!("left out: Fluid 1.8.5 (set FLUID_PYTHON to a Python that has it)");
    } else {
        bench_rounds(&format!("ctr_step_batch{batch}_fluid"), "fluid185_samples_per_s", &real);
    }
    if probe.is_empty() {
        println!("left out: the shared probe `step` (set STEP and STEP_DATA)");
    } else {
        bench_rounds(&format!("ceiling_batch{batch}"), "probe_step_samples_per_s", &probe);
    }
    steady_state(&mut model, &mut feeds, &mut ceiling, samples);
}

/// The allocations of a step that ran before, beyond the packing of the matrix products themselves
/// (the ceiling makes the same products), and the number of gathers that 26 look-ups cost.
fn steady_state(model: &mut Model, feeds: &mut [Feed], ceiling: &mut Ceiling, samples: &Samples) {
    const STEPS: usize = 20;
    let batch = samples.len() / feeds.len();
    let ours = alloc::count(|| {
        for k in 0..STEPS {
            let at = k % feeds.len();
            model.step(&mut feeds[at]);
        }
    });
    let hand = alloc::count(|| {
        for k in 0..STEPS {
            ceiling.step(samples, k % feeds.len() * batch, batch);
        }
    });
    let prepared = model.exe.prepare(&model.net.main, &feeds[0], &[]).expect("prepared before");
    let per_step = ours.saturating_sub(hand) as f64 / STEPS as f64;
    let tensors = prepared.temporary_bytes() as f64;
    bench(&format!("step_allocated_bytes_batch{batch}"), per_step, "tensor_bytes", tensors);
    let gathers = prepared.describe().iter().filter(|op| op.starts_with("fused gather")).count();
    bench(&format!("gathers_batch{batch}"), gathers as f64, "look_ups", data::N_SLOTS as f64);
}

/// The samples of one turn.
struct Turn {
    batch: usize,
    from: usize,
}

impl Turn {
    fn ceiling(&self, ceiling: &mut Ceiling, samples: &Samples) -> f64 {
        let start = Instant::now();
        let mut loss = 0.0;
        for at in (self.from..self.from + N_TURN).step_by(self.batch) {
            loss += ceiling.step(samples, at, self.batch);
        }
        assert!(loss.is_finite(), "the ceiling trains");
        N_TURN as f64 / start.elapsed().as_secs_f64()
    }

    fn ours(&self, model: &mut Model, feeds: &mut [Feed]) -> f64 {
        let first = self.from / self.batch;
        let start = Instant::now();
        for feed in &mut feeds[first..first + N_TURN / self.batch] {
            model.step(feed);
        }
        N_TURN as f64 / start.elapsed().as_secs_f64()
    }
}
