//! Click-through rate with a deep network: 26 slots of ids that share one sparse table, 13 numbers,
//! three hidden layers, AUC.
//!
//! `cargo run --release --example ctr_dnn`: the clicks are made up in memory, the same ones in every
//! run, by a rule the model can learn; the AUC is that of the samples as they come, seen for the
//! first time.

#![allow(clippy::print_stdout)] // An example talks to its user.

use std::error::Error;
use std::time::Instant;

use paddlewheel::program::backward::Limits;
use paddlewheel::program::layers::{self, Auc, CrossEntropy, Data, Embedding, Fc, Reduce};
use paddlewheel::program::optimizer::{Adagrad, Optimizer};
use paddlewheel::program::{self, Initializer, Net, ParamAttr, Var};
use paddlewheel::tensor::{self, DType, Lod, Tensor};
use paddlewheel::train::{Executor, Feed, Scope};

const N_SLOTS: usize = 26;
const N_DENSE: usize = 13;
const N_ROWS: i64 = 100_001;
const DIM: i64 = 10;
const HIDDEN: [i64; 3] = [400, 400, 400];
const BATCH: usize = 200;
const N_BATCHES: usize = 600;
const REPORT_EVERY: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let mut net = Net::with_seed(90);
    let fetch = build(&mut net)?;
    let fetch: Vec<&str> = fetch.iter().map(Var::name).collect();
    let (mut exe, scope) = (Executor::new(), Scope::new());
    exe.run(&net.startup, &scope, &mut Feed::new(), &[])?;

    let mut clicks = Clicks::new(2024);
    let mut fetched = Vec::new();
    let mut loss = 0.0;
    let mut seconds = 0.0;
    for batch in 1..=N_BATCHES {
        let mut feed = clicks.next()?;
        let start = Instant::now();
        exe.run_into(&net.main, &scope, &mut feed, &fetch, &mut fetched)?;
        seconds += start.elapsed().as_secs_f64();
        loss += fetched[0].get_f64(0) / BATCH as f64;
        if batch % REPORT_EVERY == 0 {
            println!(
                "batch {batch:4}: loss {:.4}, AUC {:.4} (the last 20 batches {:.4}), {:.0} samples/s",
                loss / REPORT_EVERY as f64,
                fetched[1].get_f64(0),
                fetched[2].get_f64(0),
                (REPORT_EVERY * BATCH) as f64 / seconds,
            );
            (loss, seconds) = (0.0, 0.0);
        }
    }
    Ok(())
}

/// The model; returns what to fetch: the summed loss, the AUC so far, the AUC of late.
fn build(net: &mut Net) -> program::Result<[Var; 3]> {
    let mut builder = net.builder();
    let b = &mut builder;
    let id = Data { dtype: DType::I64, lod_level: 1, ..Data::default() };
    let mut parts = Vec::new();
    for slot in 0..N_SLOTS {
        let ids = layers::data(b, &slot_name(slot), &[1], id.clone())?;
        let table = Embedding {
            is_sparse: true,
            param_attr: ParamAttr {
                initializer: Some(Initializer::Uniform { low: -0.1, high: 0.1, seed: 0 }),
                ..ParamAttr::named("SparseFeatFactors")
            },
            ..Embedding::default()
        };
        parts.push(layers::embedding(b, &ids, [N_ROWS, DIM], table)?);
    }
    parts.push(layers::data(b, "dense_input", &[N_DENSE as i64], Data::default())?);
    let label = Data { dtype: DType::I64, ..Data::default() };
    let label = layers::data(b, "label", &[1], label)?;
    let mut hidden = layers::concat(b, &parts, 1, None)?;
    for width in HIDDEN {
        hidden = layers::fc(b, &[hidden], width, Fc { act: Some("relu"), ..Fc::default() })?;
    }
    let predicted = layers::fc(b, &[hidden], 2, Fc { act: Some("softmax"), ..Fc::default() })?;
    let cost = layers::cross_entropy(b, &predicted, &label, CrossEntropy::default())?;
    let loss = layers::reduce_sum(b, &cost, Reduce::default())?;
    let auc = Auc { num_thresholds: 4096, slide_steps: 20, ..Auc::default() };
    let auc = layers::auc(b, &predicted, &label, auc)?;
    Optimizer::new(Adagrad::default(), 0.01).minimize(b, &loss, &Limits::default())?;
    Ok([loss, auc.auc, auc.batch_auc])
}

fn slot_name(slot: usize) -> String {
    format!("C{}", slot + 1)
}

/// Made-up clicks: every id and every number has a hidden weight, and the sum decides how likely a
/// click is.
struct Clicks {
    state: u64,
    one_id_each: Lod,
}

impl Clicks {
    fn new(seed: u64) -> Self {
        Self { state: seed, one_id_each: Lod::from_lengths(std::iter::repeat_n(1, BATCH)) }
    }

    /// The next batch.
    fn next(&mut self) -> tensor::Result<Feed> {
        let mut feed = Feed::new();
        let mut scores = vec![0.0; BATCH];
        for slot in 0..N_SLOTS {
            let mut ids = Vec::with_capacity(BATCH);
            for score in &mut scores {
                // Few ids are frequent, many are rare, as in life.
                let rank = (1000.0 * self.uniform().powi(3)) as u64;
                let id = mix(slot as u64 * 7919 + rank + 1) % N_ROWS as u64;
                *score += 0.7 * (2.0 * unit(mix(id + 1)) - 1.0);
                ids.push(id as i64);
            }
            let mut ids = Tensor::new([BATCH, 1], &ids)?;
            ids.set_lod(self.one_id_each.clone());
            feed.set(&slot_name(slot), ids);
        }
        let mut dense = Vec::with_capacity(BATCH * N_DENSE);
        for score in &mut scores {
            for k in 0..N_DENSE {
                let x = self.uniform();
                *score += (x - 0.5) * if k % 2 == 0 { 1.0 } else { -0.5 };
                dense.push(x as f32);
            }
        }
        feed.set("dense_input", Tensor::new([BATCH, N_DENSE], &dense)?);
        let clicked = |score: &f64| i64::from(self.uniform() < 1.0 / (1.0 + (-score).exp()));
        let labels: Vec<i64> = scores.iter().map(clicked).collect();
        feed.set("label", Tensor::new([BATCH, 1], &labels)?);
        Ok(feed)
    }

    /// A number in [0, 1).
    fn uniform(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        unit(mix(self.state))
    }
}

fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

/// Spreads bits: neighbours become strangers.
fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
