use std::io::Write;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::error::ExchangeError;
use crate::error::Refusal;
use crate::feed::Feed;
use crate::slot::Slot;

/// A folder with files of the given texts, and their paths.
fn files(texts: &[&str]) -> (tempfile::TempDir, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let write = |(at, text): (usize, &&str)| {
        let path = folder.path().join(format!("part-{at}"));
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_string()
    };
    let paths = texts.iter().enumerate().map(write).collect();
    (folder, paths)
}

/// A dataset of one slot of ids, batches of 2, 2 threads.
fn dataset(kind: DatasetKind, files: Vec<String>, command: &str) -> Dataset {
    let mut dataset = Dataset::new(kind);
    let settings = dataset.settings_mut();
    (settings.slots, settings.files) = (vec![Slot::ids("c")], files);
    (settings.batch_size, settings.n_threads) = (2, 2);
    settings.pipe_command = command.to_string();
    dataset
}

fn ids(batch: &Feed) -> Vec<i64> {
    batch.tensors().next().unwrap().data::<i64>().unwrap().to_vec()
}

/// The batches of every reader, read in turns.
fn batches(dataset: &mut Dataset) -> Result<Vec<Vec<Vec<i64>>>> {
    let mut readers = dataset.start(0)?;
    let mut all = vec![Vec::new(); readers.len()];
    let mut open = vec![true; readers.len()];
    while open.contains(&true) {
        for (at, reader) in readers.iter_mut().enumerate() {
            match reader.next() {
                Ok(Some(batch)) => {
                    all[at].push(ids(&batch));
                    reader.recycle(batch);
                }
                Ok(None) => open[at] = false,
                Err(error) => return Err(error),
            }
        }
    }
    Ok(all)
}

fn sorted(all: Vec<Vec<Vec<i64>>>) -> Vec<i64> {
    let mut all: Vec<i64> = all.into_iter().flatten().flatten().collect();
    all.sort_unstable();
    all
}

fn lines(range: std::ops::Range<i64>) -> String {
    range.map(|id| format!("1 {id}\n")).collect()
}

#[test]
fn a_stream_gives_every_sample_once_and_keeps_the_last_part() {
    let (_folder, paths) = files(&[&lines(0..5), "", &lines(5..6), "1 6"]);
    let mut dataset = dataset(DatasetKind::Queue, paths, "cat");
    for _ in 0..2 {
        let all = batches(&mut dataset).unwrap();
        assert_eq!(all.len(), 2);
        let full = |batches: &Vec<Vec<i64>>| {
            let (last, whole) = batches.split_last().map_or((None, &[][..]), |(l, w)| (Some(l), w));
            whole.iter().all(|batch| batch.len() == 2) && last.is_none_or(|batch| batch.len() <= 2)
        };
        // Batches span files: only the last of a thread is short.
        assert!(all.iter().all(full), "{all:?}");
        assert_eq!(sorted(all), (0..7).collect::<Vec<_>>());
    }
}

#[test]
fn there_are_no_more_readers_than_files() {
    let (_folder, paths) = files(&[&lines(0..5)]);
    let mut dataset = dataset(DatasetKind::Queue, paths, "cat");
    dataset.settings_mut().n_threads = 8;
    assert_eq!(batches(&mut dataset).unwrap(), [[vec![0, 1], vec![2, 3], vec![4]]]);
    assert_eq!(dataset.settings().n_threads, 1);
}

#[test]
fn zero_samples_in_all_are_an_error() {
    let (_folder, paths) = files(&["", ""]);
    for kind in [DatasetKind::Queue, DatasetKind::InMemory] {
        let mut dataset = dataset(kind, paths.clone(), "cat");
        let error = match kind {
            DatasetKind::Queue => batches(&mut dataset).unwrap_err(),
            DatasetKind::InMemory => dataset.load().unwrap_err(),
        };
        assert!(matches!(error, Error::NoRows { n_files: 2, .. }), "{error}");
    }
}

#[test]
fn a_bad_line_is_named() {
    let (_folder, paths) = files(&["1 1\n1 2\n0\n1 4\n"]);
    for command in ["cat", "sed s/x/y/"] {
        let error = batches(&mut dataset(DatasetKind::Queue, paths.clone(), command)).unwrap_err();
        let Error::BadLine { file, line, refusal, text, .. } = &error else { panic!("{error}") };
        assert_eq!((file, *line, text.as_str()), (&paths[0], 3, "0"));
        assert_eq!(*refusal, Refusal::Count { slot: "c".to_string(), found: "0".to_string() });
        assert!(error.to_string().contains("please check this error line: 0"), "{error}");
    }
}

#[test]
fn bad_lines_and_files_are_skipped_if_the_user_wants_it() {
    let (folder, mut paths) = files(&["1 1\nx\n1 3\n", "1 4\n\n"]);
    paths.insert(1, folder.path().join("nowhere").to_str().unwrap().to_string());
    let mut tolerant = dataset(DatasetKind::Queue, paths.clone(), "cat");
    tolerant.settings_mut().skips_max = 3;
    assert_eq!(sorted(batches(&mut tolerant).unwrap()), [1, 3, 4]);
    let skipped = tolerant.skipped();
    assert_eq!((skipped.n_lines, skipped.n_files), (2, 1));
    assert!(skipped.first.contains("part-") || skipped.first.contains("nowhere"));
    tolerant.settings_mut().skips_max = 2;
    let error = batches(&mut tolerant).unwrap_err();
    assert!(matches!(error, Error::TooManySkipped { max: 2, .. }), "{error}");
    let mut strict = dataset(DatasetKind::InMemory, paths.clone(), "cat");
    strict.settings_mut().files.remove(0);
    let error = strict.load().unwrap_err();
    assert!(matches!(&error, Error::ReadFile { file, .. } if *file == paths[1]), "{error}");
}

#[test]
fn pipe_commands_are_run_on_plain_and_packed_files() {
    let (folder, mut paths) = files(&["1 a\n"]);
    let packed = folder.path().join("packed");
    let file = std::fs::File::create(&packed).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    gzip.write_all(b"1 a\n1 a\n").unwrap();
    gzip.finish().unwrap();
    paths.push(packed.to_str().unwrap().to_string());
    let mut dataset = dataset(DatasetKind::Queue, paths, "sed s/a/$WORD/ | cat");
    dataset.settings_mut().shell.variables = vec![("WORD".to_string(), "77".to_string())];
    assert_eq!(sorted(batches(&mut dataset).unwrap()), [77, 77, 77]);
}

#[test]
fn pipe_commands_that_go_wrong_are_named() {
    let (_folder, paths) = files(&[&lines(0..3)]);
    let error = |command: &str| {
        let mut dataset = dataset(DatasetKind::Queue, paths.clone(), command);
        dataset.settings_mut().silence_max = Duration::from_millis(200);
        batches(&mut dataset).unwrap_err()
    };
    let failed = error("cat; echo broken >&2; exit 7");
    let Error::PipeFailed { status, stderr, .. } = &failed else { panic!("{failed}") };
    assert_eq!((status.as_str(), stderr.as_str()), ("exit code 7", "broken"));
    assert!(matches!(error("no-such-command-here"), Error::PipeMissing { .. }));
    assert!(matches!(error("true"), Error::PipeSilent { .. }));
    assert!(matches!(error("sleep 600"), Error::PipeStalled { .. }));
    assert!(matches!(error("cut -f"), Error::PipeFailed { .. }));
}

#[test]
fn a_command_that_never_ends_ends_with_its_reader() {
    let (folder, paths) = files(&["x"]);
    let mark = folder.path().join("pid");
    let command = format!("echo $BASHPID > {}; yes '1 5'", mark.display());
    let mut dataset = dataset(DatasetKind::Queue, paths, &command);
    let start = Instant::now();
    let mut readers = dataset.start(1).unwrap();
    for _ in 0..100 {
        assert_eq!(ids(&readers[0].next().unwrap().unwrap()), [5, 5]);
    }
    let pid = std::fs::read_to_string(&mark).unwrap();
    // The readers alone: the dataset stays.
    drop(readers);
    let stat = Path::new("/proc").join(pid.trim()).join("stat");
    let alive = || std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
    while alive() {
        assert!(start.elapsed() < Duration::from_secs(10), "{stat:?} lives on");
        thread::yield_now();
    }
}

#[test]
fn a_pass_can_be_stopped_from_outside() {
    let (_folder, paths) = files(&["x"]);
    let mut dataset = dataset(DatasetKind::Queue, paths, "sleep 600");
    let mut readers = dataset.start(1).unwrap();
    let stopper = readers[0].stopper();
    let waiting = thread::spawn(move || readers[0].next().map(|batch| batch.is_none()));
    stopper.stop();
    assert!(waiting.join().unwrap().unwrap());
}

#[test]
fn waiting_for_data_is_counted() {
    let (_folder, paths) = files(&[&lines(0..2)]);
    let mut dataset = dataset(DatasetKind::Queue, paths, "sleep 0.2; cat");
    let mut readers = dataset.start(1).unwrap();
    assert!(!readers[0].ready(Duration::from_millis(1)));
    assert!(readers[0].ready(Duration::from_secs(60)));
    readers[0].next().unwrap().unwrap();
    assert!(readers[0].waited() > Duration::from_millis(100), "{:?}", readers[0].waited());
}

#[test]
fn memory_keeps_the_order_of_the_files_whoever_loads_them() {
    let texts: Vec<String> = (0..9).map(|at| lines(at * 3..at * 3 + 3)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let (_folder, paths) = files(&texts);
    let mut dataset = dataset(DatasetKind::InMemory, paths, "cat");
    assert!(matches!(dataset.start(0), Err(Error::NotLoaded)));
    dataset.load().unwrap();
    assert_eq!(dataset.n_rows(None).unwrap(), 27);
    assert!(dataset.bytes() > 27 * 5 * 4);
    let all = batches(&mut dataset).unwrap();
    // 27 = 14 + 13; the first range is one longer.
    assert_eq!(all[0].concat(), (0..14).collect::<Vec<_>>());
    assert_eq!(all[1].concat(), (14..27).collect::<Vec<_>>());
    assert_eq!(batches(&mut dataset).unwrap(), all);
    dataset.release();
    assert_eq!(dataset.n_rows(None).unwrap(), 0);
    assert!(matches!(dataset.start(0), Err(Error::NotLoaded)));
}

#[test]
fn shuffles_are_different_and_repeat() {
    let (_folder, paths) = files(&[&lines(0..100)]);
    let run = |seed: u64| {
        let mut dataset = dataset(DatasetKind::InMemory, paths.clone(), "cat");
        dataset.settings_mut().seed = seed;
        dataset.preload(3).unwrap();
        dataset.wait_loaded().unwrap();
        dataset.local_shuffle().unwrap();
        let first = batches(&mut dataset).unwrap().concat().concat();
        dataset.local_shuffle().unwrap();
        (first, batches(&mut dataset).unwrap().concat().concat())
    };
    let (first, second) = run(1);
    assert_eq!((first.clone(), second.clone()), run(1));
    assert_ne!(first, second);
    assert_ne!(first, run(2).0);
    assert_ne!(first, (0..100).collect::<Vec<_>>());
}

#[test]
fn a_stream_cannot_be_shuffled() {
    let mut dataset = Dataset::new(DatasetKind::Queue);
    let text = dataset.local_shuffle().unwrap_err().to_string();
    let expected = "QueueDataset does not support local shuffle, please use InMemoryDataset for \
                    local_shuffle";
    assert_eq!(text, expected);
    assert!(matches!(dataset.load(), Err(Error::OnlyInMemory { .. })));
    assert!(matches!(dataset.start(1), Err(Error::NoSlots)));
}

/// Trainers of one process: each puts its parts on a table and takes its own from there.
struct Table {
    parts: Mutex<Vec<Vec<Vec<u8>>>>,
    all_here: Barrier,
}

struct Seat<'a>(&'a Table, usize, usize);

impl Exchange for Seat<'_> {
    fn rank(&self) -> usize {
        self.1
    }

    fn n_trainers(&self) -> usize {
        self.2
    }

    fn all_to_all(
        &self,
        _: &str,
        parts: Vec<Vec<u8>>,
    ) -> std::result::Result<Vec<Vec<u8>>, ExchangeError> {
        self.0.parts.lock().unwrap()[self.1] = parts;
        self.0.all_here.wait();
        let got = self.0.parts.lock().unwrap().iter().map(|parts| parts[self.1].clone()).collect();
        self.0.all_here.wait();
        Ok(got)
    }
}

/// The samples of each of three trainers after a global shuffle of their lines.
fn exchanged(texts: &[&str; 3], ready: impl Fn(&mut Dataset) + Sync) -> Vec<Vec<i64>> {
    let table = Table { parts: Mutex::new(vec![Vec::new(); 3]), all_here: Barrier::new(3) };
    thread::scope(|scope| {
        let run = |rank: usize| {
            let (table, ready) = (&table, &ready);
            scope.spawn(move || {
                let (_folder, paths) = files(&[texts[rank]]);
                let mut dataset = dataset(DatasetKind::InMemory, paths, "cat");
                dataset.settings_mut().n_per_exchange = 7;
                ready(&mut dataset);
                dataset.load().unwrap();
                let seat = Seat(table, rank, 3);
                let before = dataset.n_rows(Some(&seat)).unwrap();
                dataset.global_shuffle(Some(&seat)).unwrap();
                assert_eq!(dataset.n_shuffled(Some(&seat)).unwrap(), before);
                assert_eq!(dataset.n_shuffled(None).unwrap(), dataset.n_rows(None).unwrap());
                batches(&mut dataset).unwrap().concat().concat()
            })
        };
        let threads: Vec<_> = (0..3).map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn a_global_shuffle_moves_samples_between_trainers_and_loses_none() {
    // Trainers have different numbers of samples, so they end in different rounds.
    let texts = [lines(0..100), lines(100..110), lines(110..300)];
    let texts = [texts[0].as_str(), &texts[1], &texts[2]];
    let held = exchanged(&texts, |_| {});
    for held in &held {
        assert_eq!(held.len(), 100, "shares are even");
        assert!(held.iter().any(|id| *id < 100) && held.iter().any(|id| *id >= 110));
        assert!(!held.is_sorted());
    }
    let mut all = held.concat();
    all.sort_unstable();
    assert_eq!(all, (0..300).collect::<Vec<_>>());
    assert_eq!(exchanged(&texts, |_| {}), held);
}

#[test]
fn samples_of_one_name_meet_at_one_trainer() {
    let named = |rank: usize| -> String {
        (0..50).map(|at| format!("1 name{at} 1 {}\n", at + 1000 * rank)).collect()
    };
    let texts = [named(0), named(1), named(2)];
    let texts = [texts[0].as_str(), &texts[1], &texts[2]];
    // Trainers that shuffled a different number of times before agree all the same.
    let seeds = AtomicU64::new(0);
    let ready = |dataset: &mut Dataset| {
        dataset.settings_mut().ins_id = true;
        dataset.settings_mut().seed = seeds.fetch_add(1, Ordering::Relaxed);
    };
    for held in exchanged(&texts, ready) {
        let mut names: Vec<i64> = held.iter().map(|id| id % 1000).collect();
        names.sort_unstable();
        assert!(names.chunks(3).all(|same| same.len() == 3 && same[0] == same[2]), "{names:?}");
    }
}

#[test]
fn a_lost_exchange_is_an_error() {
    struct Broken;
    impl Exchange for Broken {
        fn rank(&self) -> usize {
            0
        }
        fn n_trainers(&self) -> usize {
            2
        }
        fn all_to_all(
            &self,
            purpose: &str,
            _: Vec<Vec<u8>>,
        ) -> std::result::Result<Vec<Vec<u8>>, ExchangeError> {
            match purpose {
                "count" => Err("server 1 is gone".into()),
                // As long as what trainers say first, and no samples.
                _ => Ok(vec![vec![0; 16]; 2]),
            }
        }
    }
    let (_folder, paths) = files(&[&lines(0..3)]);
    let mut dataset = dataset(DatasetKind::InMemory, paths, "cat");
    dataset.load().unwrap();
    let error = dataset.n_rows(Some(&Broken)).unwrap_err();
    assert!(matches!(error, Error::Exchange { .. }), "{error}");
    let error = dataset.global_shuffle(Some(&Broken)).unwrap_err();
    assert!(matches!(error, Error::ForeignSamples { from: 0 }), "{error}");
    assert_eq!(dataset.n_rows(None).unwrap(), 3, "what was here stays");
}

#[test]
fn samples_of_one_name_become_one() {
    let text = "1 b 1 5 1 1\n1 a 1 6 1 2\n1 b 2 7 8 1 1\n1 c 1 9 1 3\n1 a 1 4 1 0\n";
    let (_folder, paths) = files(&[text]);
    let mut dataset = dataset(DatasetKind::InMemory, paths, "cat");
    dataset.settings_mut().slots = vec![Slot::ids("c"), Slot::ids("label").dense(&[-1, 1])];
    dataset.set_merge_by_name(Some(2));
    dataset.load().unwrap();
    assert_eq!(dataset.n_rows(None).unwrap(), 5, "not before a shuffle");
    dataset.global_shuffle(None).unwrap();
    // `a` has two labels and `c` one sample: dropped.
    assert_eq!(batches(&mut dataset).unwrap().concat(), [[5, 7, 8]]);
    assert_eq!(dataset.n_unmerged(), 3);
}

#[test]
fn slots_are_mixed_and_get_their_own_back() {
    let text: String = (0..50).map(|id| format!("1 {id} 1 {id}\n")).collect();
    let (_folder, paths) = files(&[&text]);
    let mut dataset = dataset(DatasetKind::InMemory, paths, "cat");
    dataset.settings_mut().slots = vec![Slot::ids("a"), Slot::ids("b")];
    dataset.load().unwrap();
    let mix = |dataset: &mut Dataset, names: &[&str]| {
        dataset.mix_slots(&names.iter().map(|name| name.to_string()).collect::<Vec<_>>())
    };
    assert!(matches!(mix(&mut dataset, &["a"]), Err(Error::NoFeatureEval)));
    dataset.set_mix_candidates(Some(1000));
    let error = mix(&mut dataset, &["z"]).unwrap_err();
    assert!(matches!(&error, Error::NoSuchSlot { slot, .. } if slot == "z"), "{error}");
    let read = |dataset: &mut Dataset| {
        dataset.settings_mut().batch_size = 50;
        let batch = dataset.start(1).unwrap()[0].next().unwrap().unwrap();
        let column = |at: usize| batch.tensors().nth(at).unwrap().data::<i64>().unwrap().to_vec();
        (column(0), column(1))
    };
    let own: Vec<i64> = (0..50).collect();
    mix(&mut dataset, &["a"]).unwrap();
    let (a, b) = read(&mut dataset);
    assert!(a != own && a.iter().all(|id| own.contains(id)) && b == own);
    mix(&mut dataset, &["b"]).unwrap();
    let (a, b) = read(&mut dataset);
    assert!(a == own && b != own);
}

#[test]
fn our_own_readers_need_no_process() {
    let header = "price,city,label\n";
    let (_folder, paths) = files(&[&format!("{header}1.5,x,1\n"), &format!("{header}2.5,y,0\n")]);
    let command = "paddlewheel csv-reader price=price city=city:hash/100 label=label:id";
    let mut dataset = dataset(DatasetKind::Queue, paths, command);
    dataset.settings_mut().slots =
        vec![Slot::floats("price").dense(&[-1, 1]), Slot::ids("city"), Slot::ids("label")];
    let mut readers = dataset.start(1).unwrap();
    let batch = readers[0].next().unwrap().unwrap();
    assert_eq!(batch.tensors().next().unwrap().data::<f32>().unwrap(), [1.5, 2.5]);
    assert_eq!(batch.tensors().nth(1).unwrap().lod().levels(), [vec![0, 1, 2]]);
    assert_eq!(batch.tensors().nth(2).unwrap().data::<i64>().unwrap(), [1, 0]);
    assert!(readers[0].next().unwrap().is_none());
}

#[test]
fn a_batch_gives_its_memory_back() {
    let (_folder, paths) = files(&[&lines(0..100)]);
    let mut dataset = dataset(DatasetKind::InMemory, paths, "cat");
    dataset.load().unwrap();
    let mut reader = dataset.start(1).unwrap().remove(0);
    let mut batch = Feed::new();
    let mut places = std::collections::BTreeSet::new();
    while reader.next_into(&mut batch).unwrap() {
        places.insert(batch.tensors().next().unwrap().bytes().as_ptr());
    }
    assert_eq!(places.len(), 1);
}

#[test]
fn tables_are_read_from_files_and_their_bad_rows_are_counted() {
    let clicks = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/tests/fixtures/clicks.parquet");
    let (folder, paths) = files(&["no table"]);
    let command = "paddlewheel parquet-reader c=text:id";
    let mut good = dataset(DatasetKind::InMemory, vec![clicks.to_string()], command);
    let error = good.load().unwrap_err();
    assert!(matches!(&error, Error::BadRow { row: 3, column, .. } if column == "text"), "{error}");
    assert!(error.to_string().contains(clicks) && error.to_string().contains(command), "{error}");
    good.settings_mut().skips_max = 2;
    good.load().unwrap();
    assert_eq!((good.n_rows(None).unwrap(), good.skipped().n_lines), (4, 1));
    assert_eq!(batches(&mut good).unwrap().concat().concat(), [1, 2, 4, 5]);
    let mut stream = dataset(
        DatasetKind::Queue,
        vec![clicks.to_string(); 3],
        "paddlewheel parquet-reader c=when:id",
    );
    let mut found = batches(&mut stream).unwrap().concat().concat();
    found.sort_unstable();
    assert_eq!(found, [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5]);
    let mut bad = dataset(DatasetKind::InMemory, paths, command);
    let error = bad.load().unwrap_err();
    assert!(matches!(error, Error::BadParquet { .. }), "{error}");
    drop(folder);
}
