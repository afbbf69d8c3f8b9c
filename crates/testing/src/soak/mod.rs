//! Loops that hand broken bytes to everything that reads what strangers send or hand in.
//!
//! An execution is a target and a seed: the seed decides which good input is taken and what is done
//! to it, so that two words repeat a failure. To add a loop, add a function that makes a [`Target`]
//! and a line to [`targets`].

mod exchanged;
mod mutate;
mod proofs;
mod readers;
mod saved;
mod wire;

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Mutex;

use crate::sim::Rng;
use base::EvenIfPoisoned;
use mutate::mutated;

/// Reads an input.
pub type Read = Box<dyn Fn(&[u8])>;

/// Something that reads bytes of others, and must never panic.
pub struct Target {
    /// By which it is asked for.
    pub name: &'static str,
    /// Good inputs to start from.
    pub inputs: Vec<Vec<u8>>,
    /// Words that often decide something in such inputs.
    pub words: &'static [&'static [u8]],
    /// Reads an input; a panic is a failure, an error is not.
    pub read: Read,
    /// How many of a thousand executions this target gets.
    pub share: u64,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target {} with {} inputs", self.name, self.inputs.len())
    }
}

/// All targets. Their shares make a thousand.
pub fn targets() -> Vec<Target> {
    vec![
        proofs::proofs(),
        wire::requests(),
        wire::replies(),
        wire::peers(),
        readers::program(),
        readers::blocks(),
        readers::variables(),
        readers::feed_desc(),
        readers::text(),
        readers::positions(),
        readers::kept(),
        readers::rendezvous(),
        saved::manifest(),
        saved::snapshots(),
        readers::csv(),
        readers::parquet(),
        readers::lists(),
        readers::zstd(),
        exchanged::safetensors(),
        exchanged::table_rows(),
        exchanged::predictions(),
    ]
}

/// A panic, and how to see it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The target.
    pub target: &'static str,
    /// The seed that determines the input.
    pub seed: u64,
    /// The message of the panic, and its place.
    pub panic: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target, seed, panic } = self;
        write!(
            f,
            "{target}, seed {seed}: {panic}\n  again: make soak TARGET={target} SEED={seed} N=1"
        )
    }
}

impl Target {
    /// The input of a seed.
    pub fn input(&self, seed: u64) -> Vec<u8> {
        let name = self.name.bytes().fold(7, |hash: u64, byte| hash * 31 + u64::from(byte));
        let mut rng = Rng::new(seed.wrapping_mul(0x9e37_79b9) ^ (name << 20));
        let at = rng.below(self.inputs.len() as u64) as usize;
        let base = self.inputs.get(at).cloned().unwrap_or_default();
        mutated(base, &self.inputs, self.words, &mut rng)
    }

    /// Runs these seeds; returns what panicked.
    pub fn run(&self, seeds: Range<u64>) -> Vec<Failure> {
        // The hook is the process's.
        static TURN: Mutex<()> = Mutex::new(());
        thread_local!(static SAID: RefCell<String> = const { RefCell::new(String::new()) });
        let _turn = TURN.lock().even_if_poisoned();
        let usual = panic::take_hook();
        panic::set_hook(Box::new(|info| SAID.with(|said| *said.borrow_mut() = info.to_string())));
        let mut failures = Vec::new();
        for seed in seeds {
            let input = self.input(seed);
            if panic::catch_unwind(AssertUnwindSafe(|| (self.read)(&input))).is_err() {
                let panic = SAID.with(|said| std::mem::take(&mut *said.borrow_mut()));
                failures.push(Failure { target: self.name, seed, panic });
            }
        }
        panic::set_hook(usual);
        failures
    }
}
