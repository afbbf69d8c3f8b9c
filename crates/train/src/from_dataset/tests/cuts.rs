//! Passes that are interrupted: they go on where a cut found them.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::*;
use crate::from_dataset::batches::Batches;
use crate::from_dataset::cutting::{CutMaker, Inside};
use crate::from_dataset::resumable::{ResumablePass, Start};

/// Makes a cut every so often; the job dies at some of them.
struct Fake {
    scope: Scope,
    every: u64,
    /// It dies instead of making this cut.
    dies_at: u64,
    state: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    n_asked: u64,
    n_cuts: u64,
    /// The state at the last cut: the progress of the pass, and all variables.
    last: Option<(Vec<u8>, BTreeMap<String, Value>)>,
}

impl Fake {
    fn new(scope: &Scope, every: u64, dies_at: u64) -> Self {
        Self { scope: scope.clone(), every, dies_at, state: Mutex::default() }
    }

    fn vars(&self) -> BTreeMap<String, Value> {
        let vars = self.scope.names().into_iter().map(|name| {
            let value = self.scope.get(&name).unwrap();
            (name, value)
        });
        vars.collect()
    }

    /// The job goes back; returns the place where the pass continues.
    fn go_back(&self, before: &BTreeMap<String, Value>) -> Option<Vec<u8>> {
        let last = self.state.lock().unwrap().last.take();
        let (inside, vars) = match last {
            Some((inside, vars)) => (Some(inside), vars),
            None => (None, before.clone()),
        };
        vars.into_iter().for_each(|(name, value)| self.scope.set(&name, value));
        inside
    }
}

impl CutMaker for Fake {
    fn is_due(&self) -> bool {
        let mut state = self.state.lock().unwrap();
        state.n_asked += 1;
        state.n_asked.is_multiple_of(self.every)
    }

    fn cut(&self, inside: &mut dyn FnMut() -> Result<Vec<u8>>) -> Result<()> {
        let mut state = self.state.lock().unwrap();
        if state.n_cuts == self.dies_at {
            return Err(Error::GoesBack);
        }
        state.n_cuts += 1;
        state.last = Some((inside()?, self.vars()));
        Ok(())
    }
}

/// One pass, interrupted once; in another process from then on, or in the same.
struct Trial {
    kind: DatasetKind,
    n_threads: usize,
    every: u64,
    dies_at: u64,
    is_new: bool,
}

impl Trial {
    /// How many batches were shown, what the report says, and where variables are.
    fn run(&self) -> (usize, Report, Scope) {
        let (net, loss, scope) = model();
        let (mut dataset, _folder) = dataset(4, 50, self.n_threads);
        let mut own = in_kind(&mut dataset, self.kind);
        let options = PassOptions { fetch: vec![loss], fetch_every: 1, ..PassOptions::default() };
        let (mut trainer, mut crowd) = (Trainer::new(), Crowd::default());
        let pass = Pass { program: &net.main, scope: &scope, options: &options };
        let fake = Fake::new(&scope, self.every, self.dies_at);
        let before = fake.vars();
        let mut state = ResumablePass::default();
        let start = Start { dataset: &mut own, cuts: Some(&fake), inside: None };
        let ran = state.run(&mut trainer, pass, start, &mut crowd);
        assert!(matches!(ran, Err(Error::GoesBack)), "{ran:?}");
        let inside = fake.go_back(&before);
        if let Some(inside) = &inside {
            let inside = Inside::from_bytes(inside).unwrap();
            let n_batches = inside.positions.readers().iter().map(|at| at.n_batches).sum::<u64>();
            let n_steps = number(&scope, "steps") - before["steps"].tensor().unwrap().get_f64(0);
            assert_eq!(n_steps, n_batches as f64, "nothing was under way");
        }
        let mut other = in_kind(&mut dataset, self.kind);
        if self.is_new {
            state = ResumablePass::default();
            trainer = Trainer::new();
        }
        let dataset = if self.is_new { &mut other } else { &mut own };
        let never = Fake::new(&scope, self.every, u64::MAX);
        let start = Start { dataset, cuts: Some(&never), inside: inside.as_deref() };
        let ran = state.run(&mut trainer, pass, start, &mut crowd);
        (crowd.n_fetched, ran.unwrap(), scope)
    }
}

/// The same data, read in another way.
fn in_kind(dataset: &mut Dataset, kind: DatasetKind) -> Dataset {
    let mut other = Dataset::new(kind);
    *other.settings_mut() = dataset.settings().clone();
    if kind == DatasetKind::InMemory {
        other.load().unwrap();
        other.local_shuffle().unwrap();
    }
    other
}

/// The variables after a pass that nothing interrupts.
fn undisturbed(kind: DatasetKind) -> Scope {
    let (net, _, scope) = model();
    let (mut dataset, _folder) = dataset(4, 50, 1);
    let mut dataset = in_kind(&mut dataset, kind);
    let options = PassOptions::default();
    let pass = Pass { program: &net.main, scope: &scope, options: &options };
    Trainer::new().run_dataset(pass, &mut dataset, &mut Crowd::default()).unwrap();
    scope
}

#[test]
fn one_thread_goes_on_to_the_same_bits() {
    for kind in [DatasetKind::Queue, DatasetKind::InMemory] {
        let expected = undisturbed(kind);
        for (every, dies_at, is_new) in
            [(7, 2, true), (7, 2, false), (1, 20, false), (5, 0, true), (5, 0, false)]
        {
            let trial = Trial { kind, n_threads: 1, every, dies_at, is_new };
            let (n_shown, report, scope) = trial.run();
            assert_eq!((report.n_batches, report.n_samples), (50, 200));
            for name in expected.names() {
                assert_eq!(scope.get(&name), expected.get(&name), "{name} after {dies_at}");
            }
            // A process that lives tells nothing twice; what died has told what it has told.
            assert!(if is_new { n_shown >= 50 } else { n_shown == 50 }, "{n_shown}");
        }
    }
}

#[test]
fn threads_stop_for_cuts_and_no_batch_is_lost_or_counted_twice() {
    for kind in [DatasetKind::Queue, DatasetKind::InMemory] {
        for (n_threads, every, dies_at, is_new) in [
            (4, 9, 3, true),
            (4, 9, 3, false),
            (3, 2, 5, false),
            (2, 30, 0, true),
            (4, 1, 7, false),
        ] {
            let (_, report, scope) = Trial { kind, n_threads, every, dies_at, is_new }.run();
            // Each thread has a last batch of its own, which may be short: 50 or 100 samples of a
            // file or two, or 66 or 67 in memory.
            let n_batches = [50, 50, 51, 52][n_threads - 1];
            assert_eq!(
                (report.n_batches, report.n_samples),
                (n_batches, 200),
                "{n_threads} threads"
            );
            let before = number(&model().2, "steps");
            assert_eq!(number(&scope, "steps") - before, n_batches as f64);
        }
    }
}

/// How many batches are given out; they are kept in so many bytes.
fn read(batches: &mut Batches, n: usize) -> Vec<Vec<u8>> {
    let mut read = Vec::new();
    while read.len() < n && batches.next(&mut || Ok(())).unwrap() {
        let (feed, _) = batches.present().unwrap();
        read.push(feed.tensors().flat_map(|tensor| tensor.bytes().to_vec()).collect());
    }
    read
}

#[test]
fn batches_are_given_out_again_until_they_are_forgotten() {
    let (mut dataset, _folder) = dataset(1, 40, 1);
    let reader = |dataset: &mut Dataset| dataset.start_at(0, None).unwrap().0.remove(0);
    let mut batches = Batches::kept(reader(&mut dataset), 1);
    let start = batches.position().clone();
    let first = read(&mut batches, 4);
    batches.following().unwrap();
    let middle = batches.position().clone();
    let second = read(&mut batches, 99);
    assert_eq!((first.len(), second.len()), (4, 6));
    assert!(batches.rewind(&middle));
    assert_eq!(read(&mut batches, 99), second);
    assert!(batches.rewind(&start));
    assert_eq!(read(&mut batches, 99), [first, second.clone()].concat());
    assert!(batches.n_bytes() > 0);
    batches.forget_before(middle.n_batches);
    assert!(!batches.rewind(&start), "forgotten");
    assert!(batches.rewind(&middle));
    assert_eq!(read(&mut batches, 99), second);
    // Those that are not kept can be read once.
    let mut once = Batches::new(reader(&mut dataset));
    read(&mut once, 5);
    assert!(!once.rewind(&start));
}
