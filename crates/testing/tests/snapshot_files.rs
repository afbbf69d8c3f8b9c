//! The files of a server's snapshots: when they are written and removed, and what happens when one is
//! damaged, missing, foreign or cannot be written.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use program::optimizer::{LearningRate, Optimizer, Sgd};
use protocol::server::{CutRecord, Store, WrittenCut};
use server::{BadSnapshot, Error, SnapshotSettings};
use tempfile::TempDir;
use testing::stores::{Model, OUTPUTS, Servers, TableKind};
use testing::{big_table, kept_snapshots};
use transpile::Config;
use wire::Refusal;

fn model() -> Model {
    let optimizer = |rate: LearningRate| Optimizer::new(Sgd, rate);
    let filtered = TableKind::Filtered("count_filter_entry:2");
    // Most of it stays as it is, so that cuts are increments.
    let tables =
        vec![TableKind::Touched, filtered, TableKind::Whole, TableKind::Whole, TableKind::Whole];
    Model { optimizer, tables, outputs: OUTPUTS, falls: false, seed: 90 }
}

fn start() -> Servers {
    Servers::start(&model(), &Config::default(), 1, 2)
}

/// A server that keeps cuts, and one that never does.
struct Pair {
    kept: Servers,
    plain: Servers,
    folder: TempDir,
    said: Arc<Mutex<Vec<String>>>,
    n_steps: u64,
}

impl Pair {
    fn new() -> Self {
        let (folder, said) = (tempfile::tempdir().unwrap(), Arc::default());
        let kept = open(folder.path(), &said).unwrap();
        Self { kept, plain: start(), folder, said, n_steps: 0 }
    }

    fn step(&mut self) {
        self.n_steps += 1;
        assert_eq!(self.kept.step(self.n_steps), self.plain.step(self.n_steps));
    }

    fn store(&self) -> &impl Store {
        &self.kept.all[0].store
    }

    fn cut(&self, number: u64, complete: u64) -> Result<WrittenCut, Refusal> {
        self.store().mark(number)?;
        let (state, journal) = (vec![number as u8].into(), vec![number as u8].into());
        self.store().write_cut(&CutRecord { cut: number, term: 1, complete, state, journal })
    }

    fn cuts(&self) -> Vec<u64> {
        self.store().on_disk().unwrap().cuts
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("server.0").join(name)
    }

    fn names(&self) -> BTreeSet<String> {
        let entries = fs::read_dir(self.path("")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name != "lock" && !name.ends_with(".again")).collect()
    }

    /// Another process takes the folder over.
    fn reopen(self) -> Result<Self, Error> {
        let Self { kept, plain, folder, said, n_steps } = self;
        drop(kept);
        let kept = open(folder.path(), &said)?;
        Ok(Self { kept, plain, folder, said, n_steps })
    }

    fn was_said(&self, words: &str) -> bool {
        self.said.lock().unwrap().iter().any(|line| line.contains(words))
    }
}

fn open(folder: &Path, said: &Arc<Mutex<Vec<String>>>) -> Result<Servers, Error> {
    let (mut servers, said) = (start(), said.clone());
    let log = Arc::new(move |line: &net::lines::Line| said.lock().unwrap().push(line.text.clone()));
    servers.all[0].store.keep(&SnapshotSettings::new(folder), log)?;
    Ok(servers)
}

#[track_caller]
fn assert_same(left: &Servers, right: &Servers) {
    assert!(left.observe() == right.observe(), "they differ");
}

fn flip(path: &Path, from_end: usize) {
    let mut bytes = fs::read(path).unwrap();
    let at = bytes.len() - from_end;
    bytes[at] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

fn wait_for(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "it did not happen");
        thread::yield_now();
    }
}

/// A chain of many increments gets a new base, beside which cuts continue; obsolete files are removed,
/// but two bases stay; journals of all cuts are there for ever.
#[test]
fn chains_are_made_short_and_old_files_go() {
    let mut pair = Pair::new();
    pair.cut(0, 0).unwrap();
    let mut last = 0;
    let n_bases = |pair: &Pair| pair.names().iter().filter(|name| name.starts_with("base")).count();
    while n_bases(&pair) < 3 {
        last += 1;
        assert!(last < 1000, "no base is written: {:?}", pair.names());
        pair.step();
        pair.cut(last, 0).unwrap();
    }
    assert_eq!(pair.cuts().first(), Some(&0), "not all servers have gone beyond it");
    wait_for(|| {
        pair.cut(last + 1, last).is_ok() && {
            last += 1;
            !pair.names().contains("cut.1")
        }
    });
    let names = pair.names();
    assert!(!names.contains("base.0") && names.contains(&format!("cut.{last}")), "{names:?}");
    assert!(n_bases(&pair) >= 2, "{names:?}");
    let first = pair.cuts()[0];
    let all: Vec<u8> = (0..=last).map(|cut| cut as u8).collect();
    assert_eq!(pair.store().journal(last).unwrap(), all);
    let mut pair = pair.reopen().unwrap();
    assert_eq!(pair.store().journal(last).unwrap(), all);
    assert_eq!(pair.store().roll_back(last, 2).unwrap(), [last as u8]);
    assert_same(&pair.kept, &pair.plain);
    pair.step();
    pair.store().roll_back(first, 3).unwrap();
    assert_eq!(pair.store().journal(first).unwrap(), all[..=first as usize]);
}

/// A base would have as much of it again.
#[test]
fn what_trainers_give_is_no_reason_for_a_new_base() {
    let mut pair = Pair::new();
    for cut in 0..6 {
        pair.step();
        pair.store().mark(cut).unwrap();
        let state = vec![cut as u8; 20 << 20].into();
        let record = CutRecord { cut, term: 1, state, ..CutRecord::default() };
        pair.store().write_cut(&record).unwrap();
    }
    let is_base = |name: &&String| name.starts_with("base");
    let names = pair.names();
    assert_eq!(names.iter().filter(is_base).collect::<Vec<_>>(), ["base.0"], "{names:?}");
}

#[test]
fn a_damaged_cut_is_put_aside_and_the_one_before_counts() {
    for name in ["cut.2", "cut.1"] {
        let mut pair = Pair::new();
        pair.cut(0, 0).unwrap();
        pair.step();
        pair.cut(1, 0).unwrap();
        let then = pair.plain.observe();
        pair.step();
        pair.cut(2, 0).unwrap();
        flip(&pair.path(name), 100);
        flip(&pair.path(&format!("{name}.again")), 100);
        let pair = pair.reopen().unwrap();
        assert_eq!(pair.cuts(), [0, 1, 2], "nobody has looked");
        let refused = pair.store().roll_back(2, 2).unwrap_err().to_string();
        assert!(refused.contains(name) && refused.contains("damaged"), "{refused}");
        let left = if name == "cut.2" { vec![0, 1] } else { vec![0] };
        assert_eq!(pair.cuts(), left);
        assert!(pair.was_said(name) && pair.names().contains(&format!("damaged.{name}")));
        let last = *left.last().unwrap();
        pair.store().roll_back(last, 2).unwrap();
        if last == 1 {
            assert!(pair.kept.observe() == then);
        }
    }
}

/// One of two copies of a file is damaged, wherever: nothing is lost, and both are whole again.
#[test]
fn a_second_copy_takes_the_place_of_a_damaged_file() {
    let mut pair = Pair::new();
    pair.cut(0, 0).unwrap();
    pair.step();
    pair.cut(1, 0).unwrap();
    pair.step();
    pair.cut(2, 0).unwrap();
    let journal = pair.store().journal(2).unwrap();
    let mut pair = pair.reopen().unwrap();
    for name in ["base.0", "cut.1", "cut.2"] {
        let bytes = fs::read(pair.path(name)).unwrap();
        for bit in (0..8 * bytes.len()).step_by(8 * bytes.len() / 40 + 1) {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            fs::write(pair.path(name), &damaged).unwrap();
            pair = if bit % 3 == 0 { pair.reopen().unwrap() } else { pair };
            assert_eq!(pair.store().journal(2).unwrap(), journal, "{name}, bit {bit}");
            pair.store().roll_back(2, 2).unwrap();
            assert_same(&pair.kept, &pair.plain);
            assert_eq!(fs::read(pair.path(name)).unwrap(), bytes, "{name}, bit {bit}");
        }
    }
}

/// A cut does not wait for the second copy of a large file: it comes a moment later, and again after a rollback if a process
/// died before it was made.
#[test]
fn large_files_get_their_second_copies_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join("server.0").join(name);
    let mut store = big_table::store(16);
    store.keep(&SnapshotSettings::new(folder.path()), Arc::new(|_| ())).unwrap();
    big_table::fill(&store, 200_000);
    store.mark(0).unwrap();
    let record = CutRecord { term: 1, ..CutRecord::default() };
    assert!(store.write_cut(&record).unwrap().bytes > 12 << 20);
    let bytes = fs::read(path("base.0")).unwrap();
    let is_copied = || fs::read(path("base.0.again")).is_ok_and(|copy| copy == bytes);
    wait_for(is_copied);
    for name in ["base.0", "base.0.again"] {
        flip(&path(name), 1000);
        big_table::fill(&store, 200_001);
        store.roll_back(0, 2).unwrap();
        assert!(fs::read(path("base.0")).unwrap() == bytes && is_copied(), "{name}");
    }
    fs::remove_file(path("base.0.again")).unwrap();
    big_table::fill(&store, 200_001);
    store.roll_back(0, 3).unwrap();
    wait_for(is_copied);
}

/// A journal that is damaged in both copies is damage of every cut that needs it, and of no other.
#[test]
fn a_cut_whose_journal_is_damaged_is_not_offered_again() {
    let mut pair = Pair::new();
    pair.cut(0, 0).unwrap();
    for cut in 1..4 {
        pair.step();
        pair.cut(cut, 0).unwrap();
    }
    let name = "cut.2";
    let bytes = fs::read(pair.path(name)).unwrap();
    // The journal is one of the first sections: loading does not read it.
    for path in [pair.path(name), pair.path("cut.2.again")] {
        let mut damaged = bytes.clone();
        let head = [&11u32.to_le_bytes()[..], &[0; 4], &1u64.to_le_bytes()].concat();
        let at = bytes.windows(head.len()).position(|part| part == head).unwrap();
        damaged[at + head.len()] ^= 1;
        fs::write(path, &damaged).unwrap();
    }
    let refused = pair.store().journal(3).unwrap_err().to_string();
    assert!(refused.contains(name) && refused.contains("damaged"), "{refused}");
    assert_eq!(pair.cuts(), [0, 1]);
    assert!(pair.store().journal(1).is_ok());
    pair.store().roll_back(1, 2).unwrap();
}

/// Two bases: either brings the cut back.
#[test]
fn a_damaged_base_is_made_up_for_by_the_one_before() {
    let mut pair = Pair::new();
    pair.cut(0, 0).unwrap();
    let mut last = 0;
    let newest = |pair: &Pair| {
        let base = |name: &String| name.strip_prefix("base.")?.parse::<u64>().ok();
        pair.names().iter().filter_map(base).max().unwrap_or(0)
    };
    while newest(&pair) == 0 {
        last += 1;
        pair.step();
        pair.cut(last, 0).unwrap();
    }
    let name = format!("base.{}", newest(&pair));
    flip(&pair.path(&name), 300);
    let pair = pair.reopen().unwrap();
    pair.store().roll_back(last, 2).unwrap();
    assert_same(&pair.kept, &pair.plain);
    assert!(pair.was_said(&name) && pair.names().contains(&format!("damaged.{name}")));
}

#[test]
fn what_does_not_fit_is_refused_at_the_start() {
    let cut_twice = || {
        let mut pair = Pair::new();
        for cut in 0..3 {
            pair.cut(cut, 0).unwrap();
            pair.step();
        }
        pair
    };
    // A file in the middle is gone.
    let pair = cut_twice();
    fs::remove_file(pair.path("cut.1")).unwrap();
    let error = pair.reopen().err().unwrap();
    let is_gap = matches!(error, Error::Snapshot(BadSnapshot::Gap { .. }));
    assert!(is_gap && error.to_string().contains("cut.2"), "{error}");
    // A file of the same number from another run.
    let (pair, other) = (cut_twice(), cut_twice());
    fs::copy(other.path("cut.2"), pair.path("cut.2")).unwrap();
    let error = pair.reopen().err().unwrap();
    assert!(matches!(error, Error::Snapshot(BadSnapshot::Gap { .. })), "{error}");
    // A later release wrote it.
    let pair = cut_twice();
    let mut bytes = fs::read(pair.path("base.0")).unwrap();
    bytes[8] = 2;
    fs::write(pair.path("base.0"), bytes).unwrap();
    let error = pair.reopen().err().unwrap();
    let is_newer =
        matches!(error, Error::Snapshot(BadSnapshot::Newer { version: 2, known: 1, .. }));
    assert!(is_newer, "{error}");
    // Another process writes there.
    let pair = cut_twice();
    let error = open(pair.folder.path(), &Arc::default()).unwrap_err();
    assert!(matches!(error, Error::Snapshot(BadSnapshot::InUse { .. })), "{error}");
    // It is not a folder.
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = open(file.path(), &Arc::default()).unwrap_err();
    assert!(matches!(error, Error::Snapshot(BadSnapshot::NotWritable { .. })), "{error}");
}

#[test]
fn what_a_crash_left_over_is_removed() {
    let mut pair = Pair::new();
    for cut in 0..3 {
        pair.cut(cut, 0).unwrap();
        pair.step();
    }
    let late = fs::read(pair.path("cut.2")).unwrap();
    pair.store().roll_back(1, 2).unwrap();
    // As if the machine had stopped before it was removed, and in the middle of a write.
    fs::write(pair.path("cut.2"), late).unwrap();
    fs::write(pair.path(".cut.3.12-0-0123456789abcdef.new"), b"PWSNAP").unwrap();
    fs::write(pair.path("base.3.new"), b"").unwrap();
    let pair = pair.reopen().unwrap();
    assert_eq!(pair.cuts(), [0, 1]);
    assert_eq!(pair.store().on_disk().unwrap().term, 2);
    let names = ["base.0", "cut.1", "term.1.2"].map(str::to_string);
    assert_eq!(pair.names(), BTreeSet::from(names));
}

/// A folder that is away, a file that cannot be placed, and then neither. Full disks: `test_bad_snapshots.py`.
#[test]
fn a_cut_that_failed_is_made_up_for_by_the_next() {
    let mut pair = Pair::new();
    pair.cut(0, 0).unwrap();
    pair.step();
    let away = pair.folder.path().join("away");
    fs::rename(pair.path(""), &away).unwrap();
    let refused = pair.cut(1, 0).unwrap_err().to_string();
    assert!(refused.contains("cannot be written"), "{refused}");
    fs::rename(&away, pair.path("")).unwrap();
    assert_eq!(pair.cuts(), [0]);
    pair.step();
    fs::create_dir(pair.path("cut.2")).unwrap();
    let refused = pair.cut(2, 0).unwrap_err().to_string();
    assert!(refused.contains("cannot be written"), "{refused}");
    fs::remove_dir(pair.path("cut.2")).unwrap();
    pair.step();
    // Marked, and never written.
    pair.store().mark(3).unwrap();
    pair.step();
    pair.cut(4, 0).unwrap();
    let journal = pair.store().journal(4).unwrap();
    assert_eq!(journal, [0, 4]);
    let pair = pair.reopen().unwrap();
    assert_eq!(pair.cuts(), [0, 4]);
    pair.store().roll_back(4, 2).unwrap();
    assert_same(&pair.kept, &pair.plain);
}

#[test]
fn no_first_cut_is_an_error_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("server.0");
    fs::create_dir(&own).unwrap();
    std::os::unix::fs::symlink("/dev/full", own.join(".base.0.1-0-0.new")).unwrap();
    let servers = open(folder.path(), &Arc::default()).unwrap();
    // It was left over from a crash, as far as anybody knows.
    assert!(fs::symlink_metadata(own.join(".base.0.1-0-0.new")).is_err());
    fs::create_dir(own.join("base.0")).unwrap();
    let store = &servers.all[0].store;
    store.mark(0).unwrap();
    let refused =
        store.write_cut(&CutRecord { term: 1, ..CutRecord::default() }).unwrap_err().to_string();
    assert!(refused.contains("cannot be written"), "{refused}");
}

/// Threads train while cuts are written.
#[test]
fn cuts_are_moments_whoever_trains_meanwhile() {
    let mut pair = Pair::new();
    pair.cut(0, 0).unwrap();
    for cut in 1..6 {
        (0..3).for_each(|_| pair.step());
        let then = pair.plain.observe();
        let (kept, is_done) = (&pair.kept, AtomicBool::new(false));
        let store = &kept.all[0].store;
        store.mark(cut).unwrap();
        let n_steps = thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let record = CutRecord { cut, term: cut, ..CutRecord::default() };
                store.write_cut(&record).unwrap();
                is_done.store(true, Ordering::Relaxed);
            });
            let mut n_steps = 0;
            while !is_done.load(Ordering::Relaxed) || n_steps < 3 {
                n_steps += 1;
                kept.step(1000 * cut + n_steps);
            }
            writer.join().unwrap();
            n_steps
        });
        assert!(n_steps >= 3);
        store.roll_back(cut, cut + 1).unwrap();
        assert!(kept.observe() == then, "cut {cut} after {n_steps} steps");
    }
}

/// Snapshots of all versions of the format that there ever were.
#[test]
fn what_older_versions_wrote_is_loaded() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/snapshots_v1");
    for case in kept_snapshots::cases() {
        let folder = tempfile::tempdir().unwrap();
        for server in ["server.0", "server.1"] {
            fs::create_dir(folder.path().join(server)).unwrap();
            for entry in fs::read_dir(golden.join(case.name).join(server)).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap();
                fs::copy(&path, folder.path().join(server).join(name)).unwrap();
            }
        }
        let servers = case.open(folder.path());
        for server in &servers.all {
            let state = server.store.roll_back(kept_snapshots::LAST, 2).unwrap();
            assert_eq!(state, [kept_snapshots::LAST as u8; 4]);
            let journal = server.store.journal(kept_snapshots::LAST).unwrap();
            assert_eq!(journal, [0, 0, 1, 1, 2, 2, 3, 3]);
        }
        let expected = fs::read_to_string(golden.join(case.name).join("expected.txt")).unwrap();
        assert_eq!(kept_snapshots::described(&servers), expected, "{}", case.name);
    }
}
