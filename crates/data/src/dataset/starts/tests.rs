use std::io::Write;

use super::*;
use crate::feed::Feed;
use crate::pass::Skipped;
use crate::random::Random;
use crate::slot::Slot;

/// The input of a dataset, and its settings.
struct Case {
    name: &'static str,
    kind: DatasetKind,
    files: Vec<String>,
    command: &'static str,
    slots: Vec<Slot>,
    skips_max: u64,
    n_shuffles: usize,
}

impl Case {
    /// As a new process would.
    fn dataset(&self, batch_size: usize) -> Dataset {
        let mut dataset = Dataset::new(self.kind);
        let settings = dataset.settings_mut();
        (settings.files, settings.slots) = (self.files.clone(), self.slots.clone());
        (settings.batch_size, settings.skips_max) = (batch_size, self.skips_max);
        (settings.pipe_command, settings.seed) = (self.command.to_string(), 7);
        if self.kind == DatasetKind::InMemory {
            dataset.load().unwrap();
        }
        (0..self.n_shuffles).for_each(|_| dataset.local_shuffle().unwrap());
        dataset
    }
}

fn write(folder: &tempfile::TempDir, name: &str, bytes: &[u8]) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_string()
}

fn gzip(text: &str) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(text.as_bytes()).unwrap();
    packed.finish().unwrap()
}

/// Files of different lengths, one of them empty, one packed; now and then a line that is bad, if
/// wanted.
fn texts(folder: &tempfile::TempDir, with_bad: bool) -> Vec<String> {
    let lengths = [11, 0, 3, 25, 1, 8, 17];
    let text = |file: usize, n: usize| -> String {
        let line = |at: usize| match (with_bad && (at + file) % 4 == 3, at % 3) {
            (true, _) => "0 bad\n".to_string(),
            (_, 0) => format!("1 {} 2 {at} {file}\n", file * 100 + at),
            _ => format!("2 {} {at} 1 .5\n", file * 100 + at),
        };
        (0..n).map(line).collect()
    };
    let file = |(at, &n): (usize, &usize)| {
        let (name, text) = (format!("part-{with_bad}-{at}"), text(at, n));
        let bytes = if at == 3 { gzip(&text) } else { text.into_bytes() };
        write(folder, &name, &bytes)
    };
    lengths.iter().enumerate().map(file).collect()
}

/// Tables as text, with a header; the first of them also has a bad one before it.
fn tables(folder: &tempfile::TempDir) -> Vec<String> {
    let rows = |file: usize| -> String {
        let row = |at: usize| match at % 5 {
            4 => "x,no,number\n".to_string(),
            _ => format!("{at}.5,{file},{}\n", at % 2),
        };
        (0..9 + file).map(row).collect()
    };
    let table = |file: usize| {
        let (before, rows) = (if file == 0 { "other,names\n" } else { "" }, rows(file));
        let text = format!("{before}price,city,label\n{rows}");
        write(folder, &format!("table-{file}"), text.as_bytes())
    };
    (0..4).map(table).collect()
}

fn cases(folder: &tempfile::TempDir) -> Vec<Case> {
    let slots = vec![Slot::ids("c"), Slot::floats("x")];
    let case = |name, kind, command, with_bad: bool| Case {
        name,
        kind,
        files: texts(folder, with_bad),
        command,
        slots: slots.clone(),
        skips_max: if with_bad { 100 } else { 0 },
        n_shuffles: 0,
    };
    let clicks = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/tests/fixtures/clicks.parquet");
    let price = Slot::floats("price").dense(&[-1, 1]);
    vec![
        case("stream", DatasetKind::Queue, "cat", false),
        case("stream with bad lines", DatasetKind::Queue, "cat", true),
        case("pipe command", DatasetKind::Queue, "sed s/.5/.25/ | cat", true),
        Case {
            files: tables(folder),
            slots: vec![price, Slot::ids("city"), Slot::ids("label")],
            ..case(
                "csv",
                DatasetKind::Queue,
                "paddlewheel csv-reader price=price city=city:hash/100 label=label:id",
                true,
            )
        },
        Case {
            files: vec![clicks.to_string(); 5],
            slots: vec![Slot::ids("c")],
            ..case("parquet", DatasetKind::Queue, "paddlewheel parquet-reader c=text:id", true)
        },
        case("memory", DatasetKind::InMemory, "cat", true),
        Case { n_shuffles: 3, ..case("shuffled memory", DatasetKind::InMemory, "cat", false) },
    ]
}

/// A batch in full, bit by bit.
type Bits = Vec<(String, Vec<usize>, Vec<u8>, Vec<Vec<usize>>)>;

fn bits(batch: &Feed) -> Bits {
    let tensor = |(name, tensor): (&str, &tensor::Tensor)| {
        let (dims, bytes) = (tensor.dims().to_vec(), tensor.bytes().to_vec());
        (name.to_string(), dims, bytes, tensor.lod().levels().to_vec())
    };
    batch.iter().map(tensor).collect()
}

/// The batches of a reader until there are none, or so many; gives memory back.
fn some(reader: &mut Reader, n: usize) -> Vec<Bits> {
    let mut read = Vec::new();
    while read.len() < n
        && let Some(batch) = reader.next().unwrap()
    {
        read.push(bits(&batch));
        reader.recycle(batch);
    }
    read
}

fn rest(readers: &mut [Reader]) -> Vec<Vec<Bits>> {
    readers.iter_mut().map(|reader| some(reader, usize::MAX)).collect()
}

/// Reads a pass in several processes, each of which reads a random part; it is that of one.
fn check(case: &Case, n_threads: usize, batch_size: usize, random: &mut Random) {
    let what = format!("{} with {n_threads} threads, batches of {batch_size}", case.name);
    let mut whole = case.dataset(batch_size);
    let (mut readers, mut positions) = whole.start_at(n_threads, None).unwrap();
    let expected = rest(&mut readers);
    let mut found = vec![Vec::new(); positions.len()];
    for _ in 0..3 {
        let mut dataset = case.dataset(batch_size);
        let (mut readers, _) = dataset.start_at(n_threads, Some(&positions)).unwrap();
        for (at, reader) in readers.iter_mut().enumerate() {
            found[at].extend(some(reader, random.below(5)));
            // Batches that lie ready do not count.
            assert!(reader.ready(std::time::Duration::from_secs(60)));
            positions.set(at, reader.position().unwrap().clone());
        }
        positions = Positions::from_bytes(&positions.to_bytes()).unwrap();
    }
    let mut last = case.dataset(batch_size);
    let (mut readers, begun) = last.start_at(99, Some(&positions)).unwrap();
    assert_eq!(begun, positions, "{what}");
    for (at, batches) in rest(&mut readers).into_iter().enumerate() {
        found[at].extend(batches);
    }
    assert!(found == expected, "{what}: other batches from {positions:?} on");
    let counts = |skipped: Skipped| (skipped.n_lines, skipped.n_files, skipped.first.is_empty());
    assert_eq!(counts(last.skipped()), counts(whole.skipped()), "{what}");
    let n_batches: Vec<u64> =
        readers.iter().map(|reader| reader.position().unwrap().n_batches).collect();
    let expected: Vec<u64> = expected.iter().map(|batches| batches.len() as u64).collect();
    assert_eq!(n_batches, expected, "{what}");
}

#[test]
fn a_pass_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random::new(1);
    for case in cases(&folder) {
        // Starting a shell takes a moment.
        let n_tries = if case.name == "pipe command" { 1 } else { 4 };
        for n_threads in [1, 2, 3, 8] {
            (0..n_tries).for_each(|_| {
                let batch_size = 1 + random.below(9);
                check(&case, n_threads, batch_size, &mut random);
            });
        }
    }
}

#[test]
fn threads_read_the_same_files_in_every_run() {
    let folder = tempfile::tempdir().unwrap();
    let case = &cases(&folder)[0];
    let expected = {
        let (mut readers, _) = case.dataset(2).start_at(3, None).unwrap();
        rest(&mut readers)
    };
    // The last thread is done before the others begin.
    let (mut readers, _) = case.dataset(2).start_at(3, None).unwrap();
    let mut found: Vec<_> =
        readers.iter_mut().rev().map(|reader| some(reader, usize::MAX)).collect();
    found.reverse();
    assert!(found == expected);
    // Without positions, a free thread takes the next file: there is no position to tell.
    let readers = case.dataset(2).start(3).unwrap();
    assert!(readers.iter().all(|reader| reader.position().is_none()));
}

#[test]
fn a_pass_at_its_end_has_no_more_batches() {
    let folder = tempfile::tempdir().unwrap();
    for case in cases(&folder) {
        let (mut readers, mut positions) = case.dataset(3).start_at(2, None).unwrap();
        for (at, reader) in readers.iter_mut().enumerate() {
            some(reader, usize::MAX);
            positions.set(at, reader.position().unwrap().clone());
        }
        let (mut readers, _) = case.dataset(3).start_at(2, Some(&positions)).unwrap();
        assert!(rest(&mut readers).concat().is_empty(), "{}", case.name);
    }
}

#[test]
fn other_data_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for case in cases(&folder) {
        let positions = case.dataset(2).start_at(2, None).unwrap().1;
        let refused = |change: &dyn Fn(&mut Dataset)| {
            let mut dataset = case.dataset(2);
            change(&mut dataset);
            dataset.start_at(2, Some(&positions)).err().unwrap()
        };
        let error = refused(&|dataset| dataset.settings_mut().batch_size = 3);
        assert!(matches!(error, Error::OtherData { about: "batch size" }), "{error}");
        let error = refused(&|dataset| dataset.settings_mut().files.truncate(3));
        assert!(matches!(error, Error::OtherData { about: "list of files" }), "{error}");
        if case.kind == DatasetKind::InMemory {
            let error = refused(&|dataset| dataset.local_shuffle().unwrap());
            assert!(matches!(error, Error::OtherData { about: "samples in memory" }), "{error}");
        }
        let mut swapped = positions.clone();
        swapped.set(0, positions.readers()[1].clone());
        swapped.set(1, positions.readers()[0].clone());
        let error = case.dataset(2).start_at(2, Some(&swapped)).err().unwrap();
        assert!(matches!(error, Error::BadPositions { .. }), "{}: {error}", case.name);
        let none = Positions::new(positions.facts, Vec::new());
        assert!(case.dataset(2).start_at(2, Some(&none)).is_err());
    }
}

#[test]
fn a_file_that_became_shorter_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let lines = "1 1\n".repeat(10);
    let path = write(&folder, "part-0", lines.as_bytes());
    for command in ["cat", "sed s/x/y/"] {
        write(&folder, "part-0", lines.as_bytes());
        let mut dataset = Dataset::new(DatasetKind::Queue);
        let settings = dataset.settings_mut();
        (settings.files, settings.slots) = (vec![path.clone()], vec![Slot::ids("c")]);
        // That a bad file may be left out does not help: samples of it were used.
        (settings.batch_size, settings.skips_max) = (4, 9);
        settings.pipe_command = command.to_string();
        let (mut readers, mut positions) = dataset.start_at(1, None).unwrap();
        some(&mut readers[0], 2);
        positions.set(0, readers[0].position().unwrap().clone());
        drop(readers);
        write(&folder, "part-0", &lines.as_bytes()[..4 * 7]);
        let (mut readers, _) = dataset.start_at(1, Some(&positions)).unwrap();
        let error = readers[0].next().unwrap_err();
        let Error::FileShorter { expected, found, .. } = &error else { panic!("{error}") };
        assert_eq!((*expected, *found), (8, 7));
    }
}
