//! `soak [TARGET|all] [FIRST SEED] [N]`: broken bytes to all that reads bytes of others; exits with 1
//! if anything panicked. The printed line repeats a failure.

#![allow(clippy::print_stdout, clippy::print_stderr)] // A command speaks to its user.

use std::process::ExitCode;

use testing::soak::{Failure, targets};

/// Executions of all targets together, unless another number is given.
const N: u64 = 10_000_000;
/// Executions between two lines about how far it is.
const STRIDE: u64 = 50_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let word = |at: usize| arguments.get(at).filter(|word| !word.is_empty());
    let number = |at: usize| word(at).map(|word| word.parse::<u64>());
    let wanted = word(0).filter(|name| *name != "all");
    let (Ok(first), Ok(n)) = (number(1).transpose(), number(2).transpose()) else {
        eprintln!("usage: soak [TARGET|all] [FIRST SEED] [N]");
        return ExitCode::from(2);
    };
    let (first, n) = (first.unwrap_or(0), n.unwrap_or(N));
    let all: Vec<_> =
        targets().into_iter().filter(|t| wanted.is_none_or(|name| *name == t.name)).collect();
    if all.is_empty() {
        let names: Vec<_> = targets().iter().map(|target| target.name).collect();
        eprintln!("no such target; there are {}", names.join(", "));
        return ExitCode::from(2);
    }
    let shares: u64 = all.iter().map(|target| target.share).sum();
    let mut failures: Vec<Failure> = Vec::new();
    for target in all {
        let end = first + (n * target.share).div_ceil(shares);
        println!("{}: seeds {first} to {}", target.name, end - 1);
        for from in (first..end).step_by(STRIDE as usize) {
            let found = target.run(from..end.min(from + STRIDE));
            found.iter().for_each(|failure| println!("{failure}"));
            failures.extend(found);
            println!("{}: {} of {}", target.name, end.min(from + STRIDE) - first, end - first);
        }
    }
    println!("{} panics", failures.len());
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
