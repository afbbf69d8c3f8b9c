//! Servers that continue from the snapshots of another number of servers: each takes its share, and
//! training continues to the same bits.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use std::path::Path;
use std::sync::{Arc, Mutex};

use program::distributed::Mode;
use program::optimizer::*;
use protocol::server::{CutRecord, Server, ServerConfig, Store};
use server::{BadSnapshot, Error, SnapshotSettings};
use testing::stores::{Model, OUTPUTS, Servers, TableKind};
use train::remote::Log;
use transpile::Config;

type MakeOptimizer = fn(LearningRate) -> Optimizer;

fn sgd(rate: LearningRate) -> Optimizer {
    Optimizer::new(Sgd, rate)
}

const ALL_TABLES: [TableKind; 5] = [
    TableKind::Touched,
    TableKind::Spread,
    TableKind::Whole,
    TableKind::Filtered("count_filter_entry:3"),
    TableKind::Filtered("probability_entry:0.5"),
];

fn model(optimizer: MakeOptimizer) -> Model {
    Model { optimizer, tables: ALL_TABLES.to_vec(), outputs: OUTPUTS, falls: true, seed: 90 }
}

/// A job with so many servers.
struct Job<'a> {
    model: &'a Model,
    config: &'a Config,
    n_servers: usize,
    n_trainers: usize,
}

impl Job<'_> {
    fn start(&self) -> Servers {
        Servers::start(self.model, self.config, self.n_servers, self.n_trainers)
    }

    /// Servers that keep cuts in a folder, and resume from another one.
    fn keep(&self, folder: &Path, resume: Option<&Path>) -> Result<Servers, Error> {
        let mut servers = self.start();
        let resume = resume.map(Path::to_path_buf);
        let keeping = SnapshotSettings { resume, ..SnapshotSettings::new(folder) };
        for server in &mut servers.all {
            server.store.keep(&keeping, Arc::new(|_| ()))?;
        }
        Ok(servers)
    }
}

/// The state of the protocol on a server before anything happened.
fn first_state() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let plain = Model { tables: Vec::new(), falls: false, ..model(sgd) };
    let config = Config::default();
    let job = Job { model: &plain, config: &config, n_servers: 1, n_trainers: 1 };
    let own = job.keep(folder.path(), None).unwrap();
    let store = &own.all[0].store;
    let config = ServerConfig { recovers: true, ..ServerConfig::default() };
    Server::start(config, store.vars().to_vec(), store).unwrap();
    store.roll_back(0, 2).unwrap()
}

/// Every server's part of a cut.
fn cut(servers: &Servers, number: u64) {
    let state = first_state();
    for server in &servers.all {
        server.store.mark(number).unwrap();
        let (state, complete) = (state.clone().into(), number.saturating_sub(1));
        let term = server.store.on_disk().unwrap().term.max(1);
        let record = CutRecord { cut: number, term, complete, state, ..CutRecord::default() };
        server.store.write_cut(&record).unwrap();
    }
}

/// Goes back to the last cut, in a new term.
fn go_back(servers: &Servers) -> u64 {
    let cuts: Vec<u64> = servers
        .all
        .iter()
        .map(|server| {
            let on_disk = server.store.on_disk().unwrap();
            let last = *on_disk.cuts.last().unwrap();
            server.store.roll_back(last, on_disk.term + 1).unwrap();
            last
        })
        .collect();
    assert!(cuts.iter().all(|cut| *cut == cuts[0]), "{cuts:?}");
    cuts[0]
}

#[track_caller]
fn assert_same(left: &Servers, right: &Servers, what: &str) {
    let ((left, left_size), (right, right_size)) = (left.observe(), right.observe());
    for (name, value) in &left {
        assert!(right.get(name) == Some(value), "{what}: {name} differs");
    }
    assert_eq!((left.len(), left_size), (right.len(), right_size), "{what}");
}

/// Servers that stand by, and what each has said.
struct Newcomers {
    servers: Servers,
    keeping: SnapshotSettings,
    said: Arc<Mutex<Vec<String>>>,
}

impl Newcomers {
    fn start(job: &Job<'_>, folder: &Path) -> Self {
        let resume = Some(folder.to_path_buf());
        let keeping = SnapshotSettings { resume, ..SnapshotSettings::new(folder) };
        Self { servers: job.start(), keeping, said: Arc::default() }
    }

    fn log(&self) -> Log {
        let said = self.said.clone();
        Arc::new(move |line| said.lock().unwrap().push(line.text.clone()))
    }

    /// Each takes over what is new; how many had something to take.
    fn catch_up(&mut self) -> usize {
        let (keeping, log) = (self.keeping.clone(), self.log());
        let all = self.servers.all.iter_mut();
        let taken = all.map(|server| server.store.catch_up(&keeping, log.clone()).unwrap());
        taken.filter(|is_taken| *is_taken).count()
    }

    /// It is their turn.
    fn serve(mut self) -> (Servers, Vec<String>) {
        let (keeping, log) = (self.keeping.clone(), self.log());
        for server in &mut self.servers.all {
            server.store.keep(&keeping, log.clone()).unwrap();
        }
        let said = self.said.lock().unwrap().clone();
        (self.servers, said)
    }
}

/// Bytes that were read before the turn and at it, by what servers said.
fn read_bytes(said: &[String]) -> Vec<(u64, u64)> {
    let number = |text: &str| text.trim().parse::<u64>().unwrap();
    let of_line = |line: &String| {
        let (_, rest) = line.split_once(", of which ")?;
        let (before, now) = rest.split_once(" bytes were read before and ")?;
        Some((number(before), number(now.strip_suffix(" now")?)))
    };
    said.iter().filter_map(of_line).collect()
}

/// The names of all files below a folder.
fn names_below(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            names.extend(names_below(&entry.path()))
        } else {
            names.push(entry.file_name().into_string().unwrap())
        }
    }
    names.sort();
    names
}

/// A model of which most stays as it is, so that cuts are increments.
fn still_model(optimizer: MakeOptimizer) -> Model {
    let mut tables = ALL_TABLES.to_vec();
    tables.extend([TableKind::Whole; 3]);
    Model { tables, outputs: 5, ..model(optimizer) }
}

/// The job changes its servers while it runs: the new ones fill their tables while the old ones train on.
fn check_standby(from: &Job<'_>, to: &Job<'_>) {
    let folder = tempfile::tempdir().unwrap();
    let first = from.keep(folder.path(), None).unwrap();
    cut(&first, 0);
    (0..4).for_each(|step| drop(first.step(step)));
    cut(&first, 1);
    let before = names_below(folder.path());
    let mut newcomers = Newcomers::start(to, folder.path());
    assert_eq!(newcomers.catch_up(), to.n_servers);
    assert_eq!(newcomers.catch_up(), 0, "there is nothing new");
    (4..7).for_each(|step| drop(first.step(step)));
    cut(&first, 2);
    assert_eq!(newcomers.catch_up(), to.n_servers);
    (7..9).for_each(|step| drop(first.step(step)));
    cut(&first, 3);
    first.step(100);
    drop(first);
    let (second, said) = newcomers.serve();
    assert_eq!(go_back(&second), 4);
    let read = read_bytes(&said);
    assert_eq!(read.len(), to.n_servers, "{said:?}");
    assert!(read.iter().all(|(before, now)| 0 < *now && now < before), "{said:?}");
    let whole = to.start();
    (0..9).for_each(|step| drop(whole.step(step)));
    assert_same(&second, &whole, "standing by");
    assert_eq!(second.step(9), whole.step(9));
    cut(&second, 5);
    drop(second);
    assert!(
        before.iter().any(|name| name == "base.0")
            && !folder.path().join("standby.server.0").exists()
    );

    // The files on disk are the same.
    let third = to.keep(folder.path(), Some(folder.path())).unwrap();
    assert_eq!(go_back(&third), 5);
    assert_same(&third, &whole, "started again");
    assert_eq!(third.step(10), whole.step(10));
}

#[test]
fn servers_that_stand_by_take_over_what_changes() {
    let adam = |rate| Optimizer::new(Adam { lazy_mode: true, ..Adam::default() }, rate);
    let config = Config::default();
    let cases: [(MakeOptimizer, usize, usize); 3] = [(sgd, 2, 3), (adam, 3, 1), (sgd, 1, 2)];
    for (optimizer, n_before, n_after) in cases {
        let model = &still_model(optimizer);
        let job = |n_servers| Job { model, config: &config, n_servers, n_trainers: 2 };
        check_standby(&job(n_before), &job(n_after));
    }
    let tables = vec![TableKind::Touched, TableKind::Whole, TableKind::Whole];
    let exchanged = &Model { tables, ..still_model(sgd) };
    let geo = &Config::of(Mode::Geo { push_every: 1 });
    let job = |n_servers| Job { model: exchanged, config: geo, n_servers, n_trainers: 3 };
    check_standby(&job(2), &job(3));
}

/// All rows change with every step: no increments are written, and rows that were taken before are
/// obsolete.
#[test]
fn what_changes_as_a_whole_is_taken_as_a_whole() {
    let momentum = |rate| Optimizer::new(Momentum { momentum: 0.9, use_nesterov: false }, rate);
    let (model, config) = (&model(momentum), &Config::default());
    let job = |n_servers| Job { model, config, n_servers, n_trainers: 2 };
    let folder = tempfile::tempdir().unwrap();
    let first = job(2).keep(folder.path(), None).unwrap();
    let mut newcomers = Newcomers::start(&job(3), folder.path());
    for number in 0..8 {
        first.step(number);
        cut(&first, number);
        newcomers.catch_up();
    }
    first.step(8);
    cut(&first, 8);
    drop(first);
    let (second, _) = newcomers.serve();
    assert_eq!(go_back(&second), 9);
    let whole = job(3).start();
    (0..9).for_each(|step| drop(whole.step(step)));
    assert_same(&second, &whole, "standing by");
}

/// The job goes back to a cut while servers stand by: they drop the cuts after it that they have taken.
#[test]
fn who_stands_by_forgets_what_the_job_has_gone_back_from() {
    let (model, config) = (&still_model(sgd), &Config::default());
    let job = |n_servers| Job { model, config, n_servers, n_trainers: 2 };
    let folder = tempfile::tempdir().unwrap();
    let first = job(2).keep(folder.path(), None).unwrap();
    (0..3).for_each(|step| drop(first.step(step)));
    cut(&first, 0);
    first.step(100);
    cut(&first, 1);
    let mut newcomers = Newcomers::start(&job(3), folder.path());
    assert_eq!(newcomers.catch_up(), 3);
    for server in &first.all {
        server.store.roll_back(0, 2).unwrap();
    }
    first.step(3);
    cut(&first, 1);
    // Half of them have seen it, the others have not.
    let keeping = newcomers.keeping.clone();
    assert!(newcomers.servers.all[0].store.catch_up(&keeping, Arc::new(|_| ())).unwrap());
    first.step(4);
    cut(&first, 2);
    drop(first);
    let (second, said) = newcomers.serve();
    assert_eq!(read_bytes(&said).len(), 1, "{said:?}");
    assert_eq!(go_back(&second), 3);
    let whole = job(3).start();
    (0..5).for_each(|step| drop(whole.step(step)));
    assert_same(&second, &whole, "standing by");
}

/// A process dies at any moment between two writes of its first cut: it starts again, and nothing that it had taken over
/// before counts.
#[test]
fn what_was_taken_over_counts_only_with_a_cut_behind_it() {
    let (model, config) = (&still_model(sgd), &Config::default());
    let job = |n_servers| Job { model, config, n_servers, n_trainers: 2 };
    let folder = tempfile::tempdir().unwrap();
    let first = job(2).keep(folder.path(), None).unwrap();
    (0..3).for_each(|step| drop(first.step(step)));
    cut(&first, 0);
    let mut newcomers = Newcomers::start(&job(3), folder.path());
    assert_eq!(newcomers.catch_up(), 3);
    first.step(3);
    cut(&first, 1);
    drop(first);
    let whole = job(3).start();
    (0..4).for_each(|step| drop(whole.step(step)));
    // It died while it wrote aside, or before it had moved anything.
    let aside = |server: usize| folder.path().join(format!("standby.server.{server}"));
    let taken = names_below(&aside(1)).into_iter().find(|name| name.starts_with("base.")).unwrap();
    std::fs::write(aside(0).join("cut.1.0123.new"), b"PWSNAP").unwrap();
    // It died when it had moved what it had, without a cut behind it.
    std::fs::copy(aside(1).join(&taken), folder.path().join("server.1").join(&taken)).unwrap();
    drop(newcomers);
    let error = job(3).keep(folder.path(), None).unwrap_err();
    assert!(matches!(error, Error::Snapshot(BadSnapshot::OtherJob { .. })), "{error}");
    let second = job(3).keep(folder.path(), Some(folder.path())).unwrap();
    assert!(!folder.path().join("server.1").join(&taken).exists());
    assert!((0..3).all(|server| !aside(server).exists()));
    assert_eq!(go_back(&second), 2);
    assert_same(&second, &whole, "started again");
}

/// A machine stops before a server has noted its first term, where one of the same numbers has served before: the term of that
/// time says nothing of what the new one took over.
#[test]
fn a_term_of_earlier_servers_removes_nothing_that_was_taken_over() {
    let (model, config) = (&still_model(sgd), &Config::default());
    let job = |n_servers| Job { model, config, n_servers, n_trainers: 2 };
    let folder = tempfile::tempdir().unwrap();
    let first = job(2).keep(folder.path(), None).unwrap();
    first.step(0);
    cut(&first, 0);
    drop(first);
    let second = job(3).keep(folder.path(), Some(folder.path())).unwrap();
    assert_eq!(go_back(&second), 1);
    drop(second);
    let term = folder.path().join("server.0/term.3.2");
    let earlier = std::fs::read(&term).unwrap();
    let third = job(2).keep(folder.path(), Some(folder.path())).unwrap();
    assert_eq!(go_back(&third), 2);
    third.step(1);
    cut(&third, 3);
    let mut newcomers = Newcomers::start(&job(3), folder.path());
    assert_eq!(newcomers.catch_up(), 3);
    third.step(2);
    cut(&third, 4);
    drop(third);
    let (fourth, said) = newcomers.serve();
    assert_eq!(read_bytes(&said).len(), 3, "{said:?}");
    drop(fourth);
    std::fs::write(&term, earlier).unwrap();
    let fifth = job(3).keep(folder.path(), Some(folder.path())).unwrap();
    let cuts = fifth.all.iter().map(|server| server.store.on_disk().unwrap().cuts);
    assert!(cuts.clone().all(|cuts| cuts == [5]), "{:?}", cuts.collect::<Vec<_>>());
    fifth.all.iter().for_each(|server| drop(server.store.roll_back(5, 9).unwrap()));
    let whole = job(3).start();
    (0..3).for_each(|step| drop(whole.step(step)));
    assert_same(&fifth, &whole, "started again");
}

/// Trains with some servers and continues with others. Everything is as if the others had been
/// there from the start.
fn check(from: &Job<'_>, to: &Job<'_>, is_same_folder: bool) {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let new = if is_same_folder { old.path() } else { new.path() };
    let first = from.keep(old.path(), None).unwrap();
    cut(&first, 0);
    (0..4).for_each(|step| drop(first.step(step)));
    cut(&first, 1);
    (4..7).for_each(|step| drop(first.step(step)));
    cut(&first, 2);
    first.step(100);
    drop(first);

    let second = to.keep(new, Some(old.path())).unwrap();
    assert_eq!(go_back(&second), 3, "a cut that nobody had");
    let whole = to.start();
    (0..7).for_each(|step| drop(whole.step(step)));
    assert_same(&second, &whole, "resumed");
    for step in 7..10 {
        assert_eq!(second.step(step), whole.step(step), "step {step}");
    }
    cut(&second, 4);
    drop(second);

    // Processes that are started again resume from their own cuts, though they are told the same.
    let third = to.keep(new, Some(old.path())).unwrap();
    assert_eq!(go_back(&third), 4);
    assert_same(&third, &whole, "started again");
    assert_eq!(third.step(10), whole.step(10));
    cut(&third, 5);
    if is_same_folder {
        let n_folders = std::fs::read_dir(new).unwrap().count();
        assert_eq!(n_folders, to.n_servers, "what nobody needs is removed");
    }
    drop(third);

    // And back.
    if is_same_folder {
        let fourth = from.keep(new, Some(new)).unwrap();
        assert_eq!(go_back(&fourth), 6);
        let whole = from.start();
        (0..11).for_each(|step| drop(whole.step(step)));
        assert_same(&fourth, &whole, "as at first");
    }
}

#[test]
fn any_number_of_servers_goes_on() {
    let adam = |rate| Optimizer::new(Adam { lazy_mode: true, ..Adam::default() }, rate);
    let momentum = |rate| Optimizer::new(Momentum { momentum: 0.9, use_nesterov: false }, rate);
    let config = Config::default();
    let cases: [(MakeOptimizer, usize, usize, bool); 4] =
        [(sgd, 1, 2, false), (adam, 2, 3, true), (momentum, 3, 1, true), (sgd, 2, 1, false)];
    for (optimizer, n_before, n_after, is_same_folder) in cases {
        let model = &model(optimizer);
        let job = |n_servers| Job { model, config: &config, n_servers, n_trainers: 2 };
        check(&job(n_before), &job(n_after), is_same_folder);
    }
}

#[test]
fn every_mode_goes_on() {
    let geo = Config::of(Mode::Geo { push_every: 1 });
    let tables = vec![TableKind::Touched, TableKind::Whole];
    let exchanged = &Model { tables, ..model(sgd) };
    let job = |n_servers| Job { model: exchanged, config: &geo, n_servers, n_trainers: 3 };
    check(&job(2), &job(3), true);
    let compensated = Config { enable_dc_asgd: true, mode: Mode::Async, ..Config::default() };
    let dense = &Model { tables: Vec::new(), ..model(sgd) };
    let job = |n_servers| Job { model: dense, config: &compensated, n_servers, n_trainers: 2 };
    check(&job(2), &job(1), true);
    let asynchronous = Config::of(Mode::Async);
    let model = &model(sgd);
    let job = |n_servers| Job { model, config: &asynchronous, n_servers, n_trainers: 2 };
    check(&job(1), &job(2), false);
}

/// A learning rate that no schedule changes belongs to a table, unless several tables of a server use it.
#[test]
fn what_several_tables_share_there_may_be_one_tables_own_here() {
    let tables = vec![TableKind::Touched];
    let model = &Model { tables, falls: false, ..model(sgd) };
    let config = &Config::default();
    let job = |n_servers| Job { model, config, n_servers, n_trainers: 2 };
    for (n_before, n_after) in [(1, 4), (4, 1), (2, 3), (3, 5)] {
        check(&job(n_before), &job(n_after), true);
    }
}

/// Rows start as they did in the first process, whose seed is known only to it.
#[test]
fn seeds_go_along() {
    let model = &Model { seed: 0, tables: ALL_TABLES.to_vec(), ..model(sgd) };
    let config = &Config::default();
    let job = |n_servers| Job { model, config, n_servers, n_trainers: 2 };
    let folder = tempfile::tempdir().unwrap();
    let first = job(1).keep(folder.path(), None).unwrap();
    (0..4).for_each(|step| drop(first.step(step)));
    cut(&first, 0);
    let second_folder = tempfile::tempdir().unwrap();
    let second = job(3).keep(second_folder.path(), Some(folder.path())).unwrap();
    go_back(&second);
    assert_same(&second, &first, "resumed");
    (4..7).for_each(|step| drop((first.step(step), second.step(step))));
    assert_same(&second, &first, "with rows that were made since");
}

#[test]
fn other_trainers_go_on_without_what_was_the_old_ones() {
    let (model, folder) = (&model(sgd), tempfile::tempdir().unwrap());
    let config = &Config::of(Mode::Async);
    let job = |n_trainers| Job { model, config, n_servers: 2, n_trainers };
    let first = job(2).keep(folder.path(), None).unwrap();
    (0..4).for_each(|step| drop(first.step(step)));
    cut(&first, 0);
    let (mut before, size) = first.observe();
    drop(first);
    let second = job(3).keep(folder.path(), Some(folder.path())).unwrap();
    go_back(&second);
    let (after, size_after) = second.observe();
    before.retain(|name, _| !name.contains(".trainer_"));
    for (name, value) in &before {
        assert!(after.get(name) == Some(value), "{name} differs");
    }
    assert_eq!(size_after, size);
    let steps = |trainer: usize| {
        let name = format!("@LR_DECAY_COUNTER@.trainer_{trainer}");
        i64::from_le_bytes(after[&name].as_slice().try_into().unwrap())
    };
    assert_eq!([0, 1, 2].map(steps), [8, 0, 0], "all steps count");
}

#[test]
fn what_cannot_be_gone_on_from_is_refused() {
    let (own, config) = (model(sgd), Config::default());
    let job = |model, n_servers| Job { model, config: &config, n_servers, n_trainers: 2 };
    let folder = tempfile::tempdir().unwrap();
    let first = job(&own, 2).keep(folder.path(), None).unwrap();
    cut(&first, 0);
    drop(first);
    let error = job(&own, 3).keep(folder.path(), None).unwrap_err();
    let other_job = matches!(error, Error::Snapshot(BadSnapshot::OtherJob { .. }));
    assert!(other_job && error.to_string().contains("2 servers"), "{error}");
    let elsewhere = tempfile::tempdir().unwrap();
    let foreign = Model { tables: vec![TableKind::Touched], ..own.clone() };
    let error = job(&foreign, 3).keep(elsewhere.path(), Some(folder.path())).unwrap_err();
    assert!(matches!(error, Error::Snapshot(BadSnapshot::Incomplete { .. })), "{error}");
    let error = job(&foreign, 2).keep(folder.path(), None).unwrap_err();
    let other_model = matches!(error, Error::Snapshot(BadSnapshot::OtherModel { .. }));
    assert!(other_model && error.to_string().contains("table"), "{error}");
    // A server's folder is missing.
    std::fs::remove_dir_all(folder.path().join("server.1")).unwrap();
    let error = job(&own, 3).keep(elsewhere.path(), Some(folder.path())).unwrap_err();
    assert!(matches!(error, Error::Snapshot(BadSnapshot::Incomplete { .. })), "{error}");
}
