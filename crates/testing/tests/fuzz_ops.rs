//! Every op of the table with random variables and attributes: a result or a typed error, never a
//! panic.
//!
//! `make soak` runs it for longer; `FUZZ_SEED=n` starts elsewhere. A failure is printed with the
//! whole case.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

#[path = "fuzz_ops/case.rs"]
mod case;
#[path = "fuzz_ops/random.rs"]
mod random;
#[path = "fuzz_ops/vocabulary.rs"]
mod vocabulary;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe};

use case::Case;
use random::Random;
use vocabulary::Words;

/// Executions of `make test`.
const EXECUTIONS: u64 = 40_000;
/// Cases of an op that are kept to be changed further.
const KEPT_MAX: usize = 24;

thread_local! {
    /// Where the last panic happened, and what it said.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Cases of one op that went further than others.
#[derive(Default)]
struct Pool {
    cases: Vec<Case>,
    /// How each kind of ending was reached already: as many cases are enough.
    seen: BTreeMap<String, usize>,
}

impl Pool {
    fn next(&self, kind: &str, words: &Words, random: &mut Random) -> Case {
        if self.cases.is_empty() || random.percent(30) {
            return Case::new(kind, words, random);
        }
        let mut case = random.one(&self.cases).clone();
        for _ in 0..=random.below(2) {
            case = case.changed(words, random);
        }
        case
    }

    /// Keeps a case that ended well, or in a way that is new.
    fn learn(&mut self, case: Case, ending: &str, random: &mut Random) {
        let seen = self.seen.entry(ending.to_string()).or_default();
        *seen += 1;
        if *seen > 2 && !(ending.is_empty() && random.percent(10)) {
            return;
        }
        match self.cases.len() {
            KEPT_MAX => {
                let at = random.below(KEPT_MAX);
                self.cases[at] = case;
            }
            _ => self.cases.push(case),
        }
    }
}

/// The first words of an error: its kind.
fn ending(result: &program::Result<()>) -> String {
    match result {
        Ok(()) => String::new(),
        Err(error) => format!("{error:?}").chars().take(24).collect(),
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

#[test]
fn no_op_panics_whatever_it_is_given() {
    let words = vocabulary::all();
    let ops: Vec<&str> = program::op::names().collect();
    let mut pools: BTreeMap<&str, Pool> = BTreeMap::new();
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    let mut random = Random::new(number("FUZZ_SEED", testing::seeds::of_commit()));
    panic::set_hook(Box::new(|info| PANIC.set(Some(info.to_string()))));
    let (mut n_ok, mut n_refused) = (0u64, 0u64);
    for execution in 0..number("FUZZ_EXECUTIONS", EXECUTIONS) {
        let kind = ops[execution as usize % ops.len()];
        let pool = pools.entry(kind).or_default();
        let case = pool.next(kind, &words[kind], &mut random);
        match panic::catch_unwind(AssertUnwindSafe(|| case.run())) {
            Ok(result) => {
                let ending = ending(&result);
                if ending.is_empty() {
                    n_ok += 1
                } else {
                    n_refused += 1
                }
                pool.learn(case, &ending, &mut random);
            }
            Err(_) => {
                let said = PANIC.take().unwrap_or_default();
                // Sums of integers wrap in what is shipped, as Fluid's do; only tests are told.
                if said.contains("with overflow") {
                    continue;
                }
                let said = format!("{kind} {}", said.lines().next().unwrap_or_default());
                found.entry(said).or_insert_with(|| format!("{case:?}"));
            }
        }
    }
    drop(panic::take_hook());
    println!("{n_ok} results, {n_refused} refusals, {} kinds of panics", found.len());
    let without: Vec<&str> =
        pools.iter().filter(|(_, pool)| !pool.seen.contains_key("")).map(|(&op, _)| op).collect();
    println!("never a result: {without:?}");
    let found: Vec<String> = found.iter().map(|(said, case)| format!("{said}\n  {case}")).collect();
    assert!(found.is_empty(), "{} panics:\n{}", found.len(), found.join("\n"));
}
