//! Made-up click logs in Criteo's format, for demos and tests: the real ones may not be passed on.
//!
//! Few values are frequent and many are rare, as in life; frequent ones and large numbers have hidden
//! weights, and their sum decides how likely a click is. Row `i` of a seed is the same on every
//! machine and for any number of files; the weights are the same for all seeds, so that a model
//! trained on one log can be judged by another.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use metrics::Phase;
use tensor::{mix, unit};

use crate::error::{Error, Result};

/// A number: values lie below 2^octaves, and how many per cent are missing.
const NUMBERS: [(u64, u64); 13] = [
    (5, 45),
    (9, 0),
    (7, 21),
    (6, 22),
    (16, 3),
    (9, 22),
    (7, 4),
    (6, 0),
    (9, 4),
    (3, 45),
    (4, 4),
    (3, 76),
    (6, 22),
];
/// The column that may be negative, and how far.
const NEGATIVE: (usize, i64) = (1, -3);
/// A slot: it has 2^octaves values, and how many per cent are missing.
const TEXTS: [(u64, u64); 26] = [
    (10, 0),
    (9, 0),
    (17, 3),
    (16, 3),
    (8, 0),
    (4, 12),
    (13, 0),
    (9, 0),
    (2, 0),
    (15, 0),
    (12, 0),
    (17, 3),
    (11, 0),
    (5, 0),
    (13, 0),
    (17, 3),
    (4, 0),
    (12, 0),
    (11, 44),
    (2, 44),
    (17, 3),
    (4, 76),
    (4, 0),
    (15, 3),
    (7, 44),
    (14, 44),
];
/// Values of a slot beyond this rank have no weight: they are too rare to be learned.
const WEIGHED_RANKS: u64 = 64;
/// The largest weight of a value, and of a number.
const WEIGHT_MAX: f64 = 1.0;
const NUMBER_WEIGHT_MAX: f64 = 0.8;
/// The score of a row in which nothing speaks for or against a click.
const BASE_SCORE: f64 = -1.3;

/// A generated log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClickLog {
    /// The number of rows.
    pub n_rows: u64,
    /// The number of files, in order.
    pub n_files: usize,
    /// The same seed gives the same log.
    pub seed: u64,
}

/// Rows between two reports of progress.
const TOLD_EVERY: u64 = 1 << 10;

impl Default for ClickLog {
    fn default() -> Self {
        Self { n_rows: 200_000, n_files: 4, seed: 1 }
    }
}

impl ClickLog {
    /// Writes `part-0`, `part-1`, …; returns how many bytes. Nothing else may be in the folder:
    /// scripts count its files to know their names.
    pub fn write(&self, folder: &Path) -> Result<u64> {
        fs::create_dir_all(folder).map_err(|source| cannot_write(folder, source))?;
        self.check_folder(folder)?;
        let phase = Phase::begin("making data", "rows");
        phase.set_total(self.n_rows);
        let mut n_bytes = 0;
        for nth in 0..self.n_files as u64 {
            let path = folder.join(format!("part-{nth}"));
            let first = |nth: u64| {
                let at = u128::from(self.n_rows) * u128::from(nth) / self.n_files as u128;
                at as u64
            };
            let made = self.write_file(&path, first(nth)..first(nth + 1), &phase);
            n_bytes += made.map_err(|source| cannot_write(&path, source))?;
        }
        Ok(n_bytes)
    }

    fn check_folder(&self, folder: &Path) -> Result<()> {
        let failed = |source| cannot_write(folder, source);
        for entry in fs::read_dir(folder).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let nth = name.to_str().and_then(|name| name.strip_prefix("part-")?.parse().ok());
            if nth.is_none_or(|nth: usize| nth >= self.n_files) {
                let name = name.to_string_lossy().into_owned();
                return Err(Error::ForeignFile { folder: folder.display().to_string(), name });
            }
        }
        Ok(())
    }

    fn write_file(
        &self,
        path: &Path,
        rows: std::ops::Range<u64>,
        phase: &Phase,
    ) -> io::Result<u64> {
        let mut file = BufWriter::with_capacity(1 << 18, File::create(path)?);
        let (mut line, mut n_bytes) = (Vec::new(), 0);
        for at in rows {
            line.clear();
            self.push_row(at, &mut line)?;
            n_bytes += line.len() as u64;
            file.write_all(&line)?;
            if at.is_multiple_of(TOLD_EVERY) {
                phase.set(at);
            }
        }
        file.flush()?;
        Ok(n_bytes)
    }

    /// Appends row `at` to `out`.
    pub fn push_row(&self, at: u64, out: &mut Vec<u8>) -> io::Result<()> {
        let mut draws = Draws(mix(self.seed) ^ mix(at.wrapping_add(1) << 1));
        let label_at = out.len();
        out.push(b'0');
        let mut score = BASE_SCORE;
        for (column, (octaves, missing)) in NUMBERS.into_iter().enumerate() {
            out.push(b'\t');
            if draws.below(100) < missing {
                continue;
            }
            let (x, octave) = draws.skewed(octaves);
            let lowest = if column == NEGATIVE.0 { NEGATIVE.1 } else { 0 };
            write!(out, "{}", x as i64 + lowest)?;
            let size = octave as f64 / (octaves - 1) as f64;
            score += weight(NUMBER_WEIGHT_MAX, [u64::MAX, column as u64]) * (size - 0.5);
        }
        for (slot, (octaves, missing)) in TEXTS.into_iter().enumerate() {
            out.push(b'\t');
            if draws.below(100) < missing {
                continue;
            }
            let (rank, _) = draws.skewed(octaves);
            push_hex(name(slot as u64, rank), out);
            if rank < WEIGHED_RANKS {
                score += weight(WEIGHT_MAX, [slot as u64, rank]);
            }
        }
        out.push(b'\n');
        if draws.unit() < 1.0 / (1.0 + libm::exp(-score)) {
            out[label_at] = b'1';
        }
        Ok(())
    }
}

fn cannot_write(path: &Path, source: io::Error) -> Error {
    Error::WriteFile { file: path.display().to_string(), source }
}

/// The text of a value: eight hexadecimal digits, no two the same within a slot.
fn name(slot: u64, rank: u64) -> u32 {
    // Both factors are odd, so that each step can be undone.
    let x = (rank as u32).wrapping_mul(0x9e37_79b1) ^ mix(slot) as u32;
    (x ^ (x >> 15)).wrapping_mul(0x85eb_ca6b)
}

fn push_hex(x: u32, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend((0..8).rev().map(|nibble| DIGITS[(x >> (4 * nibble) & 15) as usize]));
}

/// The hidden weight of a thing, between -max and max.
fn weight(max: f64, [kind, which]: [u64; 2]) -> f64 {
    max * (2.0 * unit(mix(mix(kind) ^ mix(which.wrapping_add(77)))) - 1.0)
}

/// Random numbers without a state shared between rows.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    fn unit(&mut self) -> f64 {
        unit(self.next())
    }

    /// A number below 2^octaves and its octave. Each octave is as likely as any other, so that x
    /// comes about as often as 1 / (x + 1), as words of a language do; only whole numbers are
    /// needed for it, which are the same on every machine.
    fn skewed(&mut self, octaves: u64) -> (u64, u64) {
        let octave = self.below(octaves);
        ((1 << octave) - 1 + self.below(1 << octave), octave)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::native::Native;

    fn rows(log: &ClickLog) -> Vec<u8> {
        let mut out = Vec::new();
        (0..log.n_rows).for_each(|at| log.push_row(at, &mut out).unwrap());
        out
    }

    #[test]
    fn the_same_on_every_machine() {
        let log = ClickLog { n_rows: 1000, ..ClickLog::default() };
        let text = rows(&log);
        let first = text.split(|byte| *byte == b'\n').next().unwrap();
        assert_eq!(std::str::from_utf8(first).unwrap(), FIRST_ROW);
        assert_eq!(crc32fast::hash(&text), CHECKSUM);
        assert_ne!(rows(&ClickLog { seed: 2, ..log }), text);
    }

    #[test]
    fn any_number_of_files_holds_the_same_rows() {
        let log = ClickLog { n_rows: 10, ..ClickLog::default() };
        for n_files in [1, 3, 12] {
            let folder = tempfile::tempdir().unwrap();
            let n_bytes = ClickLog { n_files, ..log }.write(folder.path()).unwrap();
            let part = |nth| fs::read(folder.path().join(format!("part-{nth}"))).unwrap();
            let joined: Vec<u8> = (0..n_files).flat_map(part).collect();
            assert_eq!(joined, rows(&log), "{n_files}");
            assert_eq!(n_bytes, joined.len() as u64);
            let again = ClickLog { n_files, ..log }.write(folder.path());
            assert!(again.is_ok(), "its own files may be written again");
        }
    }

    #[test]
    fn our_reader_reads_it_and_about_one_in_four_is_clicked() {
        let log = ClickLog { n_rows: 4000, ..ClickLog::default() };
        let reader = Native::from_words(&["criteo-reader", "1000001"]).unwrap().unwrap();
        let mut samples = Vec::new();
        reader.run(rows(&log).as_slice(), &mut samples).unwrap();
        let samples = String::from_utf8(samples).unwrap();
        assert_eq!(samples.lines().count(), 4000);
        let n_clicks = samples.lines().filter(|line| line.ends_with(" 1 1")).count();
        assert!((800..1300).contains(&n_clicks), "{n_clicks}");
    }

    /// How often each value of a slot comes, and how often it is clicked.
    fn counts(text: &[u8], slot: usize) -> BTreeMap<String, (u32, u32)> {
        let mut counts = BTreeMap::new();
        for line in std::str::from_utf8(text).unwrap().lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            let (seen, clicked) = counts.entry(fields[14 + slot].to_string()).or_default();
            *seen += 1;
            *clicked += u32::from(fields[0] == "1");
        }
        counts
    }

    #[test]
    fn few_values_are_frequent_and_they_matter() {
        let text = rows(&ClickLog { n_rows: 20_000, ..ClickLog::default() });
        let large = counts(&text, 2);
        let most = large.values().map(|(seen, _)| *seen).max().unwrap();
        assert!(large.len() > 5000 && most > 1000, "{} values, {most}", large.len());
        let rates = counts(&text, 5);
        let rates = rates.values().filter(|(seen, _)| *seen > 400);
        let rates: Vec<f64> = rates.map(|(seen, hit)| f64::from(*hit) / f64::from(*seen)).collect();
        let spread = rates.iter().fold(0.0, |max: f64, rate| max.max(*rate))
            - rates.iter().fold(1.0, |min: f64, rate| min.min(*rate));
        assert!(spread > 0.1, "{rates:?}");
    }

    #[test]
    fn refuses_a_folder_with_other_files() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("part-4"), "").unwrap();
        let error = ClickLog::default().write(folder.path()).unwrap_err();
        assert!(matches!(&error, Error::ForeignFile { name, .. } if name == "part-4"), "{error}");
        let error = ClickLog::default().write(&folder.path().join("part-4")).unwrap_err();
        assert!(matches!(error, Error::WriteFile { .. }), "{error}");
    }

    const FIRST_ROW: &str = "0\t\t36\t2\t\t1707\t44\t1\t0\t2\t\t2\t\t\t4baf3621\tb92777ec\t9eb8b7f6\t\
        6b1d4edb\t257f6586\t6e73e483\t6734a101\te516a7a4\t2be186b4\t797ef504\ta9915817\t\
        162f1b36\tc4aab915\ta540e269\ta664b672\t9f86e211\ta4cabc5d\t82c6321e\t\t\t\
        6bb4a52a\t\tfa0756b3\t5d5930ae\ta935ff03\t1a0c2d36";
    const CHECKSUM: u32 = 0xd199ab2f;
}
