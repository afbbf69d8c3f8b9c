//! Linear regression on the Boston housing prices, the first chapter of every Fluid course.
//!
//! `cargo run --release --example fit_a_line`: trains until the squared error of a pass is below 10
//! (exit code 0), or gives up after 100 passes (exit code 1).

#![allow(clippy::print_stdout)] // An example talks to its user.

use std::error::Error;
use std::process::ExitCode;

use paddlewheel::program::Net;
use paddlewheel::program::backward::Limits;
use paddlewheel::program::layers::{self, Data, Fc};
use paddlewheel::program::optimizer::{Optimizer, Sgd};
use paddlewheel::tensor::Tensor;
use paddlewheel::train::{Executor, Feed, Scope, io};

const N_FEATURES: usize = 13;
const N_TRAIN: usize = 404;
const BATCH: usize = 20;
const PASSES_MAX: usize = 100;
const GOOD_LOSS: f64 = 10.0;

/// Blank-separated text: 13 features and the price in every line.
const HOUSING: &str = include_str!("../python/paddlewheel/dataset/data/housing.data");

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let rows = normalized(HOUSING)?;
    let mut model = Model::new()?;
    let folder = std::env::temp_dir().join(format!("fit_a_line_{}", std::process::id()));
    let mut order: Vec<usize> = (0..N_TRAIN).collect();
    let mut random = Random(90);
    for pass in 1..=PASSES_MAX {
        random.shuffle(&mut order);
        let mut sum = 0.0;
        for batch in order.chunks(BATCH) {
            let loss = model.step(&rows, batch)?;
            sum += loss * batch.len() as f64;
            if loss < GOOD_LOSS {
                println!(
                    "pass {pass:3}: the loss of a batch is {loss:.4}, below {GOOD_LOSS}: done"
                );
                std::fs::remove_dir_all(&folder).ok();
                return Ok(ExitCode::SUCCESS);
            }
        }
        println!("pass {pass:3}: mean loss {:.4}", sum / N_TRAIN as f64);
        // As the course does it: what was learnt goes to disk and comes back.
        model.save_and_load(&folder)?;
    }
    println!("no batch came below {GOOD_LOSS} in {PASSES_MAX} passes");
    Ok(ExitCode::FAILURE)
}

/// The programs, and what runs them.
struct Model {
    net: Net,
    loss: String,
    exe: Executor,
    scope: Scope,
    feed: Feed,
}

impl Model {
    /// `mean((fc(x) - y)^2)`, trained by SGD; parameters are filled.
    fn new() -> Result<Self, Box<dyn Error>> {
        let mut net = Net::with_seed(90);
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[N_FEATURES as i64], Data::default())?;
        let y = layers::data(&mut b, "y", &[1], Data::default())?;
        let predicted = layers::fc(&mut b, &[x], 1, Fc::default())?;
        let cost = layers::square_error_cost(&mut b, &predicted, &y)?;
        let loss = layers::mean(&mut b, &cost, None)?;
        Optimizer::new(Sgd, 0.001).minimize(&mut b, &loss, &Limits::default())?;
        let (mut exe, scope) = (Executor::new(), Scope::new());
        exe.run(&net.startup, &scope, &mut Feed::new(), &[])?;
        let feed = Feed::new().with("x", Tensor::default()).with("y", Tensor::default());
        Ok(Self { net, loss: loss.name().to_string(), exe, scope, feed })
    }

    /// One step on these rows; the loss before it.
    fn step(&mut self, rows: &[Row], batch: &[usize]) -> Result<f64, Box<dyn Error>> {
        let chosen = || batch.iter().map(|&row| &rows[row]);
        let x: Vec<f32> = chosen().flat_map(|row| row.features).collect();
        let y: Vec<f32> = chosen().map(|row| row.price).collect();
        self.feed.set("x", Tensor::new([batch.len(), N_FEATURES], &x)?);
        self.feed.set("y", Tensor::new([batch.len(), 1], &y)?);
        let fetched = self.exe.run(&self.net.main, &self.scope, &mut self.feed, &[&self.loss])?;
        Ok(fetched[0].get_f64(0))
    }

    fn save_and_load(&self, folder: &std::path::Path) -> Result<(), Box<dyn Error>> {
        io::save_persistables(&self.scope, folder, &self.net.main, None)?;
        io::load_persistables(&self.scope, folder, &self.net.main, None)?;
        Ok(())
    }
}

/// One house.
struct Row {
    features: [f32; N_FEATURES],
    price: f32,
}

/// Reads the text; each feature becomes (x - mean) / (max - min) over the whole file.
fn normalized(text: &str) -> Result<Vec<Row>, Box<dyn Error>> {
    let numbers: Result<Vec<f64>, _> = text.split_whitespace().map(str::parse).collect();
    let mut table: Vec<f64> = numbers?;
    let width = N_FEATURES + 1;
    let n_rows = (table.len() / width) as f64;
    for column in 0..N_FEATURES {
        let values = || table.iter().skip(column).step_by(width).copied();
        let mean = values().sum::<f64>() / n_rows;
        let span = values().fold(f64::MIN, f64::max) - values().fold(f64::MAX, f64::min);
        table.iter_mut().skip(column).step_by(width).for_each(|x| *x = (*x - mean) / span);
    }
    let row = |values: &[f64]| Row {
        features: std::array::from_fn(|k| values[k] as f32),
        price: values[N_FEATURES] as f32,
    };
    Ok(table.chunks_exact(width).map(row).collect())
}

/// A small generator with a seed, so that every run of the example is the same.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((self.0 >> 33) as usize) % n
    }

    fn shuffle(&mut self, order: &mut [usize]) {
        for last in (1..order.len()).rev() {
            order.swap(last, self.below(last + 1));
        }
    }
}
