//! The memory of a deep program in which variables that are never alive together share it, against the same
//! without: Fluid's `memory_optimize`.
//!
//! `BENCH memory_optimize ratio=…`: the most memory that a process of its own had, in megabytes, less what it had
//! before the first step. Training needs the outputs of all layers for its gradients; a pass forward does not.
#![allow(clippy::print_stdout, missing_docs)]

use std::process::Command;

use program::Net;
use program::backward::Limits;
use program::layers::{self, Data, Fc};
use program::optimizer::{Optimizer, Sgd};
use tensor::Tensor;
use train::{Executor, Feed, Options, Scope};

const N_LAYERS: usize = 64;
const WIDTH: usize = 128;
const BATCH: usize = 4096;
/// Says to a process what to measure: `training share`, for example.
const VARIABLE: &str = "MEMORY_BENCH";

fn main() {
    if let Ok(what) = std::env::var(VARIABLE) {
        println!("{}", measure(what.contains("training"), what.contains("share")));
        return;
    }
    for (name, what) in [("memory_optimize", "training"), ("memory_optimize_forward", "forward")] {
        let (ours, theirs) = (child(&format!("{what} share")), child(what));
        println!(
            "BENCH {name} ratio={:.3} ours={ours:.0} against=unshared={theirs:.0}",
            ours / theirs
        );
    }
}

fn child(what: &str) -> f64 {
    let own = std::env::current_exe().expect("a path");
    let output = Command::new(own).env(VARIABLE, what).output().expect("a process");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().expect("a number")
}

/// Megabytes that steps take.
fn measure(trains: bool, shares: bool) -> f64 {
    let mut net = Net::with_seed(1);
    let mut b = net.builder();
    let mut x = layers::data(&mut b, "x", &[WIDTH as i64], Data::default()).expect("data");
    for _ in 0..N_LAYERS {
        let options = Fc { act: Some("relu"), ..Fc::default() };
        x = layers::fc(&mut b, &[x], WIDTH as i64, options).expect("a layer");
    }
    let loss = layers::mean(&mut b, &x, None).expect("a mean");
    if trains {
        Optimizer::new(Sgd, 0.01).minimize(&mut b, &loss, &Limits::default()).expect("gradients");
    }
    let options = Options { reuse_memory: shares, ..Options::default() };
    let (mut exe, scope) = (Executor::with_options(options), Scope::new());
    exe.run(&net.startup, &scope, &mut Feed::new(), &[]).expect("a start");
    let numbers = vec![0.5_f32; BATCH * WIDTH];
    let mut feed = Feed::new().with("x", Tensor::new([BATCH, WIDTH], &numbers).expect("numbers"));
    let before = peak();
    for _ in 0..3 {
        exe.run(&net.main, &scope, &mut feed, &[loss.name()]).expect("a step");
    }
    peak() - before
}

/// The most memory that this process had, in megabytes.
fn peak() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kilobytes / 1024.0
}
