//! Rows of click logs a second, from a file to batches, by one thread that reads; against the
//! obvious reader (lines, split, parse of the standard library) in the same run, in turns.
#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

#[path = "training/report.rs"]
mod report;

use std::fs;
use std::time::Instant;

use data::{Criteo, Dataset, DatasetKind, Native, Slot};

const N_ROWS: usize = 100_000;
const N_ROUNDS: usize = 11;
const COMMAND: &str = "paddlewheel criteo-reader 1000001 --hash crc32 --dense log";

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let (raw, slots) = (folder.path().join("raw"), folder.path().join("slots"));
    let text = click_log();
    let native = Native::from_words(&["criteo-reader", "1000001", "--hash", "crc32"]);
    let mut counted = Vec::new();
    native.unwrap().unwrap().run(text.as_bytes(), &mut counted).unwrap();
    fs::write(&raw, text).unwrap();
    fs::write(&slots, counted).unwrap();
    let (raw, slots) = (raw.to_str().unwrap(), slots.to_str().unwrap());
    let mut multi_slot = Vec::new();
    let mut criteo = Vec::new();
    for round in 0..=N_ROUNDS {
        let turn = (rate(|| ours(slots, "cat")), rate(|| naive_slots(slots)));
        let other = (rate(|| ours(raw, COMMAND)), rate(|| naive_criteo(raw)));
        // The first turn warms up.
        if round > 0 {
            multi_slot.push(turn);
            criteo.push(other);
        }
    }
    report::bench_rounds("parse_multi_slot", "naive_rows_per_s", &multi_slot);
    report::bench_rounds("parse_criteo", "naive_rows_per_s", &criteo);
    report::bench("bytes_per_row", bytes(slots), "raw", bytes(raw));
}

fn bytes(path: &str) -> f64 {
    fs::metadata(path).unwrap().len() as f64 / N_ROWS as f64
}

fn rate(run: impl FnOnce() -> usize) -> f64 {
    let start = Instant::now();
    assert_eq!(run(), N_ROWS);
    N_ROWS as f64 / start.elapsed().as_secs_f64()
}

/// Rows that look like Criteo's: small counts, some missing, ids of eight hex digits.
fn click_log() -> String {
    let mut state = 1u64;
    let mut next = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let mut text = String::new();
    for _ in 0..N_ROWS {
        text += if next() % 4 == 0 { "1" } else { "0" };
        for _ in 0..13 {
            text.push('\t');
            if next() % 5 > 0 {
                text += &(next() >> (16 + next() % 14)).to_string();
            }
        }
        for _ in 0..26 {
            text.push('\t');
            if next() % 10 > 0 {
                text += &format!("{:08x}", next() % 100_000 * 42_949);
            }
        }
        text.push('\n');
    }
    text
}

fn ours(path: &str, command: &str) -> usize {
    let mut dataset = Dataset::new(DatasetKind::Queue);
    let settings = dataset.settings_mut();
    settings.slots = Criteo::slots();
    settings.files = vec![path.to_string()];
    settings.pipe_command = command.to_string();
    settings.batch_size = 1000;
    let mut reader = dataset.start(1).unwrap().remove(0);
    let (mut batch, mut n_rows) = (data::Feed::new(), 0);
    while reader.next_into(&mut batch).unwrap() {
        n_rows += batch.tensors().last().unwrap().len();
    }
    n_rows
}

/// The contents of a batch of the obvious reader: numbers, ids.
type Naive = (Vec<f32>, Vec<i64>);

fn naive_slots(path: &str) -> usize {
    let slots: Vec<Slot> = Criteo::slots();
    let mut kept: Naive = Default::default();
    let mut n_rows = 0;
    for line in fs::read_to_string(path).unwrap().lines() {
        let mut words = line.split(' ');
        for slot in &slots {
            let count: usize = words.next().unwrap().parse().unwrap();
            for _ in 0..count {
                let word = words.next().unwrap();
                match slot.kind {
                    data::SlotKind::Float => kept.0.push(word.parse().unwrap()),
                    data::SlotKind::Id => kept.1.push(word.parse().unwrap()),
                }
            }
        }
        n_rows += 1;
        forget_a_full_batch(&mut kept, n_rows);
    }
    n_rows
}

fn naive_criteo(path: &str) -> usize {
    use std::hash::Hasher;
    let mut kept: Naive = Default::default();
    let mut n_rows = 0;
    for line in fs::read_to_string(path).unwrap().lines() {
        for (at, field) in line.split('\t').enumerate() {
            match at {
                0 => kept.1.push(field.parse().unwrap()),
                1..14 => kept.0.push(field.parse::<f32>().unwrap_or(0.0).ln_1p() * 0.125),
                _ => {
                    let mut hash = std::hash::DefaultHasher::new();
                    hash.write(field.as_bytes());
                    kept.1.push((hash.finish() % 1_000_001) as i64);
                }
            }
        }
        n_rows += 1;
        forget_a_full_batch(&mut kept, n_rows);
    }
    n_rows
}

fn forget_a_full_batch(kept: &mut Naive, n_rows: usize) {
    if n_rows.is_multiple_of(1000) {
        std::hint::black_box(&kept);
        kept.0.clear();
        kept.1.clear();
    }
}
