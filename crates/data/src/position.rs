//! The positions of the readers of a pass, so that a new process can begin right there.
//!
//! A position is behind the last batch that a reader gave out. Batches that were read ahead do not
//! count: a reader that begins there reads them again.

use base::bytes::{ByteReader, ByteWriter};
use base::formats::POSITIONS;

use crate::error::{Error, Result};
use crate::pass::{Before, Skipped};
use crate::random::{hash, mix};
use crate::settings::{DatasetKind, Settings};

/// Readers of a pass, at most: more threads than any machine has.
const READERS_MAX: usize = 1 << 16;
/// More than can be counted in any file: sums of such numbers are numbers.
const NUMBER_MAX: u64 = 1 << 62;
/// Bytes of a text about lines that were left out.
const TEXT_BYTES_MAX: usize = 4096;

/// The position of one reader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Batches it has given out.
    pub n_batches: u64,
    /// Samples in them.
    pub n_samples: u64,
    /// The file in progress, by its number in the list; none of a dataset in memory.
    pub(crate) file: u64,
    /// Lines or rows of that file that were read; in memory, the next sample.
    pub(crate) at: u64,
    /// The byte of that file where they end; 0 if it is not known, because the file is packed or goes
    /// through a command. Then it is read from its beginning.
    pub(crate) byte: u64,
    /// The version of that file, 0 if it is not known.
    pub(crate) version: u64,
    /// The lines and files that were left out before.
    pub(crate) skipped: Skipped,
}

impl Position {
    pub(crate) fn before(&self) -> Before {
        Before { n_lines: self.at, byte: self.byte, version: self.version }
    }

    pub(crate) fn set_before(&mut self, before: Before) {
        let Before { n_lines, byte, version } = before;
        (self.at, self.byte, self.version) = (n_lines, byte, version);
    }
}

/// The positions of all readers of a pass, and the facts about their data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Positions {
    pub(crate) facts: Facts,
    readers: Vec<Position>,
}

/// Samples in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldSamples {
    pub(crate) n_samples: u64,
    /// How often they were shuffled.
    pub(crate) n_shuffles: u64,
}

/// The facts that determine the samples of a pass, and their batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts([u64; 6]);

/// The names of these facts, in their order.
const ABOUT: [&str; 6] =
    ["kind", "list of files", "slots", "way of reading", "batch size", "samples in memory"];

impl Facts {
    /// As bytes.
    pub(crate) const N_BYTES: usize = 8 * ABOUT.len();

    /// Those of a dataset; `memory` of one that holds samples.
    pub(crate) fn of(kind: DatasetKind, settings: &Settings, memory: HeldSamples) -> Self {
        let Settings { files, slots, pipe_command, download, hadoop, .. } = settings;
        let names = (settings.ins_id, settings.content, settings.skips_max > 0);
        let shuffled = mix(settings.seed ^ mix(memory.n_shuffles)) ^ mix(memory.n_samples);
        Self([
            u64::from(kind == DatasetKind::InMemory),
            hash(files.join("\n").as_bytes()) ^ left_out(settings),
            hash(format!("{slots:?}").as_bytes()),
            hash(format!("{pipe_command:?} {download:?} {hadoop:?} {names:?}").as_bytes()),
            settings.batch_size as u64,
            if kind == DatasetKind::InMemory { shuffled } else { 0 },
        ])
    }

    /// Refuses what was found out about other data.
    pub(crate) fn check(&self, other: &Self) -> Result<()> {
        let mut differing = self.0.iter().zip(&other.0).zip(ABOUT).filter(|((a, b), _)| a != b);
        match differing.next() {
            Some((_, about)) => Err(Error::OtherData { about }),
            None => Ok(()),
        }
    }

    pub(crate) fn digest(&self) -> u64 {
        self.0.iter().fold(0, |sum, &fact| mix(sum ^ fact).wrapping_add(1))
    }

    /// To be kept in a file.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        self.0.iter().flat_map(|fact| fact.to_le_bytes()).collect()
    }

    pub(crate) fn read(bytes: &mut ByteReader<'_>) -> Option<Self> {
        let mut facts = [0; ABOUT.len()];
        for fact in &mut facts {
            *fact = bytes.u64().ok()?;
        }
        Some(Self(facts))
    }
}

impl Positions {
    pub(crate) fn new(facts: Facts, readers: Vec<Position>) -> Self {
        Self { facts, readers }
    }

    /// How many readers there are.
    pub fn len(&self) -> usize {
        self.readers.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.readers.is_empty()
    }

    /// The position of each reader.
    pub fn readers(&self) -> &[Position] {
        &self.readers
    }

    /// A reader has moved on.
    pub fn set(&mut self, reader: usize, position: Position) {
        self.readers[reader] = position;
    }

    /// Samples of all batches that were given out.
    pub fn n_samples(&self) -> u64 {
        self.readers.iter().fold(0, |sum, reader| sum.saturating_add(reader.n_samples))
    }

    /// The lines and files that all readers have left out before.
    pub(crate) fn skipped(&self) -> Skipped {
        let mut sum = Skipped::default();
        for Position { skipped, .. } in &self.readers {
            sum.n_lines = sum.n_lines.saturating_add(skipped.n_lines);
            sum.n_files = sum.n_files.saturating_add(skipped.n_files);
            if sum.first.is_empty() {
                sum.first.clone_from(&skipped.first);
            }
        }
        sum
    }

    /// To be kept; [`Positions::from_bytes`] reads it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut to = ByteWriter::default();
        to.u8(POSITIONS.byte()).raw(&self.facts.to_bytes()).count_u32(self.readers.len());
        for Position { n_batches, n_samples, file, at, byte, version, skipped } in &self.readers {
            let numbers =
                [*n_batches, *n_samples, *file, *at, skipped.n_lines, skipped.n_files, *byte];
            numbers.into_iter().fold(&mut to, ByteWriter::u64);
            to.u64(*version).text_up_to(&skipped.first, TEXT_BYTES_MAX);
        }
        to.0
    }

    /// Reads the bytes of [`Positions::to_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let bad = |reason: &str| Error::BadPositions { reason: reason.to_string() };
        let mut rest = ByteReader::new(bytes);
        let Ok(version) = rest.u8() else { return Err(bad("no bytes")) };
        if !POSITIONS.can_read(version) {
            let known = POSITIONS.version;
            return Err(bad(&format!("version {version}, and {known} is the newest known here")));
        }
        let read =
            read(&mut rest).ok_or_else(|| bad("they end early or hold numbers too large"))?;
        if rest.is_empty() { Ok(read) } else { Err(bad("there are bytes behind the last")) }
    }
}

/// A number for what is left out of files; 0 for nothing.
fn left_out(settings: &Settings) -> u64 {
    let one =
        |sum: u64, (file, n_lines): (&String, &u64)| mix(sum ^ hash(file.as_bytes()) ^ n_lines);
    settings.left_out.iter().fold(0, one)
}

fn read(bytes: &mut ByteReader<'_>) -> Option<Positions> {
    let facts = Facts::read(bytes)?;
    let n = bytes.count_u32().ok().filter(|&n| n <= READERS_MAX)?;
    let mut readers = Vec::new();
    for _ in 0..n {
        let mut next = || bytes.u64().ok().filter(|&number| number <= NUMBER_MAX);
        let n_batches = next()?;
        let n_samples = next()?;
        let file = next()?;
        let at = next()?;
        let n_lines = next()?;
        let n_files = next()?;
        let byte = next()?;
        let version = bytes.u64().ok()?;
        let first = bytes.text_up_to(TEXT_BYTES_MAX).ok()?.to_string();
        let skipped = Skipped { n_lines, n_files, first };
        readers.push(Position { n_batches, n_samples, file, at, byte, version, skipped });
    }
    Some(Positions { facts, readers })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::Slot;

    fn held(n_samples: u64, n_shuffles: u64) -> HeldSamples {
        HeldSamples { n_samples, n_shuffles }
    }

    fn settings() -> Settings {
        let files = vec!["a".to_string(), "b".to_string()];
        Settings { slots: vec![Slot::ids("c")], files, ..Settings::default() }
    }

    fn positions() -> Positions {
        let skipped = Skipped { n_lines: 3, n_files: 1, first: "a:3: \u{e9}".to_string() };
        let (byte, version) = (80, u64::MAX);
        let first =
            Position { n_batches: 7, n_samples: 13, file: 2, at: 5, byte, version, skipped };
        let second = Position { file: 1, n_samples: 2, ..Position::default() };
        Positions::new(Facts::of(DatasetKind::Queue, &settings(), held(0, 0)), vec![first, second])
    }

    #[test]
    fn bytes_come_back() {
        let positions = positions();
        assert_eq!(Positions::from_bytes(&positions.to_bytes()).unwrap(), positions);
        assert_eq!((positions.n_samples(), positions.skipped().n_lines), (15, 3));
    }

    #[test]
    fn broken_bytes_are_refused() {
        let bytes = positions().to_bytes();
        let refused = |bytes: &[u8]| {
            assert!(matches!(Positions::from_bytes(bytes), Err(Error::BadPositions { .. })));
        };
        (0..bytes.len()).for_each(|n| refused(&bytes[..n]));
        refused(&[&bytes[..], &[0]].concat());
        refused(&[&[POSITIONS.byte() + 1], &bytes[1..]].concat());
        // More readers than bytes are there for.
        let n_readers = 1 + Facts::N_BYTES;
        let many = [&bytes[..n_readers], &[255; 4], &bytes[n_readers + 4..]].concat();
        refused(&many);
    }

    #[test]
    fn a_long_text_is_shortened() {
        let mut long = positions();
        long.readers[0].skipped.first = "\u{e9}".repeat(TEXT_BYTES_MAX);
        let back = Positions::from_bytes(&long.to_bytes()).unwrap();
        assert_eq!(back.readers[0].skipped.first.len(), TEXT_BYTES_MAX);
        assert_eq!(back.readers[1], long.readers[1]);
    }

    #[test]
    fn other_data_is_named() {
        let facts = |change: fn(&mut Settings)| {
            let mut settings = settings();
            change(&mut settings);
            Facts::of(DatasetKind::InMemory, &settings, held(10, 1))
        };
        let own = facts(|_| {});
        let refused = |other: Facts| match own.check(&other) {
            Err(Error::OtherData { about }) => about,
            found => panic!("{found:?}"),
        };
        own.check(&facts(|settings| settings.n_threads = 5)).unwrap();
        assert_eq!(refused(facts(|settings| settings.files.reverse())), "list of files");
        assert_eq!(refused(facts(|settings| settings.batch_size = 5)), "batch size");
        assert_eq!(refused(facts(|settings| settings.seed = 5)), "samples in memory");
        assert_eq!(
            refused(Facts::of(DatasetKind::InMemory, &settings(), held(10, 2))),
            "samples in memory"
        );
        assert_eq!(refused(Facts::of(DatasetKind::Queue, &settings(), held(10, 1))), "kind");
    }
}
