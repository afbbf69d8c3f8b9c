//! The requests of a script and their answers: a script that is started again gets the same
//! answers without any computation.
//!
//! A trainer sends its journal in parts, one with each cut. A part begins at the last cut that the
//! server is known to have kept, so parts may overlap. The overlap is the same in both.
//!
//! A script may decide by every number that it has fetched, so that all of them are needed to repeat it, however old: a
//! journal of other numbers at each step grows with the steps. It has a limit. Behind that, its last part says so.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use base::bytes::{ByteReader, ByteWriter};
use base::formats::TRAINER_JOURNAL;

use super::bytes::ReadValues;
use super::print::{EventKind, EventPrint};
use super::runs::{Outcome, Past, RunsReader, RunsWriter, Stretch};
use crate::error::{Error, Result};

/// The version before: with whole digests of what was fed, and the place of every change.
const WITH_DIGESTS: u8 = 2;
/// The first version: every event by itself.
const WITHOUT_RUNS: u8 = 1;
/// The version of a part that says that the journal has reached its limit, and from which event on nothing is kept.
const OF_THE_END: u8 = 3;

/// Events since the last cut that all servers have kept.
#[derive(Debug, Default)]
pub(super) struct Journal {
    first: u64,
    entries: VecDeque<JournalEntry>,
    n_bytes: usize,
    /// The names in events, by their digest: most events look like the one before.
    labels: HashMap<u64, String>,
}

#[derive(Debug)]
struct JournalEntry {
    print: EventPrint,
    outcome: Outcome,
}

impl JournalEntry {
    fn n_bytes(&self) -> usize {
        let answer = match &self.outcome {
            Outcome::Answer(bytes) => bytes.len(),
            Outcome::Error(text) => text.len(),
        };
        answer + 32
    }
}

impl Journal {
    /// Begins with this event.
    pub(super) fn starting(first: u64) -> Self {
        Self { first, ..Self::default() }
    }

    pub(super) fn push(&mut self, print: EventPrint, label: &dyn Fn() -> String, outcome: Outcome) {
        self.labels.entry(print.names).or_insert_with(label);
        let entry = JournalEntry { print, outcome };
        self.n_bytes += entry.n_bytes();
        self.entries.push_back(entry);
    }

    /// The job never goes back further than this.
    pub(super) fn forget_before(&mut self, event: u64) {
        while self.first < event
            && let Some(entry) = self.entries.pop_front()
        {
            self.n_bytes -= entry.n_bytes();
            self.first += 1;
        }
    }

    pub(super) fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// These events, as far as they are here, for a server to keep.
    pub(super) fn part(&self, events: Range<u64>) -> Vec<u8> {
        let first = events.start.max(self.first);
        let at = |event: u64| (event.saturating_sub(self.first) as usize).min(self.entries.len());
        let (start, end) = (at(first), at(events.end));
        let mut writer = RunsWriter::default();
        for JournalEntry { print, outcome } in self.entries.range(start..end.max(start)) {
            let label = self.labels.get(&print.names).cloned().unwrap_or_default();
            writer.push(Past { print: print.kept(), label, outcome: outcome.clone() });
        }
        part_of(first, writer)
    }
}

/// A part that says that nothing is kept from this event on, because the journal has as many bytes as it may have.
pub(super) fn end_part(first: u64, n_bytes: u64) -> Vec<u8> {
    let (mut part, mut body) = (ByteWriter::default(), ByteWriter::default());
    body.u64(first);
    body.u64(n_bytes);
    part.u8(OF_THE_END);
    part.bytes(&body.0);
    part.0
}

/// Where a journal ends because it has reached its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct JournalEnd {
    /// The first event that is not kept.
    first: u64,
    /// The limit.
    n_bytes: u64,
}

/// The bytes of a part.
fn part_of(first: u64, writer: RunsWriter) -> Vec<u8> {
    let (n_events, runs) = writer.finish();
    let (mut part, mut body) = (ByteWriter::default(), ByteWriter::default());
    body.u64(first);
    body.u64(n_events);
    body.raw(&runs);
    part.u8(TRAINER_JOURNAL.byte());
    part.bytes(&body.0);
    part.0
}

/// A part that more is added to.
struct OpenPart {
    first: u64,
    /// The event behind its last.
    next: u64,
    writer: RunsWriter,
}

/// Makes one part of many, or as few as there can be: what repeats takes no space. None if they cannot be read.
pub fn compacted(journal: &[u8]) -> Option<Vec<u8>> {
    let (mut all, mut open): (Vec<u8>, Option<OpenPart>) = (Vec::new(), None);
    let (parts, end) = read_parts(journal).ok()?;
    for mut part in parts {
        let first = part.first;
        if let Some(before) = open.take_if(|open| first > open.next) {
            all.extend(part_of(before.first, before.writer));
        }
        let open = open.get_or_insert_with(|| OpenPart {
            first,
            next: first,
            writer: RunsWriter::default(),
        });
        part.skip(open.next.saturating_sub(first)).ok()?;
        while let Some(stretch) = part.next_stretch().ok()? {
            open.next += stretch.n_times * stretch.events.len() as u64;
            open.writer.push_stretch(stretch);
        }
    }
    if let Some(OpenPart { first, writer, .. }) = open {
        all.extend(part_of(first, writer));
    }
    all.extend(end.into_iter().flat_map(|end| end_part(end.first, end.n_bytes)));
    Some(all)
}

/// A part of a journal that is read.
#[derive(Debug)]
struct PartReader {
    version: u8,
    body: Vec<u8>,
    /// Bytes that were read.
    at: usize,
    first: u64,
    /// Events that were not read.
    n_left: u64,
    runs: RunsReader,
    /// Names of events, of parts of the first form.
    labels: HashMap<u64, String>,
    /// The rest of the stretch that was read last, and the place in it.
    stretch: Option<(Stretch, usize)>,
}

impl PartReader {
    fn new(version: u8, body: &[u8]) -> Result<Self> {
        let mut from = ByteReader::new(body);
        let (first, n_left) = (from.u64()?, from.u64()?);
        Ok(Self {
            version,
            body: body.to_vec(),
            at: body.len() - from.n_left(),
            first,
            n_left,
            runs: RunsReader::new(version == WITH_DIGESTS),
            labels: HashMap::new(),
            stretch: None,
        })
    }

    /// The rest of the stretch that was begun, or the next one; nothing behind the last.
    fn next_stretch(&mut self) -> Result<Option<Stretch>> {
        if let Some((Stretch { events, n_times }, at)) = self.stretch.take() {
            if at == 0 {
                return Ok(Some(Stretch { events, n_times }));
            }
            let rest = Stretch { events: events[at..].to_vec(), n_times: 1 };
            if n_times > 1 {
                self.stretch = Some((Stretch { events, n_times: n_times - 1 }, 0));
            }
            return Ok(Some(rest));
        }
        if self.n_left == 0 {
            return Ok(None);
        }
        let mut from = ByteReader::new(&self.body[self.at..]);
        let stretch = match self.version {
            WITHOUT_RUNS => {
                Stretch { events: vec![read_entry(&mut from, &mut self.labels)?], n_times: 1 }
            }
            _ => self.runs.next(&mut from)?,
        };
        self.at = self.body.len() - from.n_left();
        let n = stretch.n_times.checked_mul(stretch.events.len() as u64);
        let n_left = n.and_then(|n| self.n_left.checked_sub(n));
        self.n_left = n_left.ok_or(Error::BadState("more events than the journal says"))?;
        Ok(Some(stretch))
    }

    /// The next event; nothing behind the last.
    fn next_event(&mut self) -> Result<Option<Past>> {
        if self.stretch.is_none() {
            self.stretch = self.next_stretch()?.map(|stretch| (stretch, 0));
        }
        let Some((stretch, at)) = &mut self.stretch else { return Ok(None) };
        let event = stretch.events[*at].clone();
        *at += 1;
        if *at == stretch.events.len() {
            (stretch.n_times, *at) = (stretch.n_times - 1, 0);
        }
        if stretch.n_times == 0 {
            self.stretch = None;
        }
        Ok(Some(event))
    }

    /// Leaves events out.
    fn skip(&mut self, mut n: u64) -> Result<()> {
        // To the end of a stretch that was begun.
        while n > 0 && self.stretch.as_ref().is_some_and(|(_, at)| *at > 0) {
            self.next_event()?;
            n -= 1;
        }
        while n > 0 {
            let Some(mut stretch) = self.next_stretch()? else { return Ok(()) };
            let n_events = stretch.events.len() as u64;
            let n_times = (n / n_events).min(stretch.n_times);
            n -= n_times * n_events;
            stretch.n_times -= n_times;
            if stretch.n_times > 0 {
                self.stretch = Some((stretch, n as usize));
                return Ok(());
            }
        }
        Ok(())
    }

    /// Reads to the end: whether everything can be.
    fn check(&mut self) -> Result<()> {
        while self.next_stretch()?.is_some() {}
        if self.at == self.body.len() {
            Ok(())
        } else {
            Err(Error::BadState("something follows the end of a journal"))
        }
    }
}

/// The parts of a journal, by their first events, and where it ends, if it has reached its limit.
fn read_parts(journal: &[u8]) -> Result<(Vec<PartReader>, Option<JournalEnd>)> {
    let (mut reader, mut parts) = (ByteReader::new(journal), Vec::new());
    let mut end: Option<JournalEnd> = None;
    while !reader.is_empty() {
        let version = reader.u8()?;
        if version == OF_THE_END {
            let body = &mut ByteReader::new(reader.bytes()?);
            let told = JournalEnd { first: body.u64()?, n_bytes: body.u64()? };
            end = end.filter(|end| end.first <= told.first).or(Some(told));
            continue;
        }
        if !TRAINER_JOURNAL.can_read(version) {
            return Err(Error::BadState("a journal of another release"));
        }
        parts.push(PartReader::new(version, reader.bytes()?)?);
    }
    parts.sort_by_key(|part| part.first);
    Ok((parts, end))
}

/// Answers of events that were, in order.
#[derive(Debug, Default)]
pub(super) struct Answers {
    parts: VecDeque<PartReader>,
    /// The event that comes next.
    next: u64,
}

impl Answers {
    /// Reads parts, in any order, that together tell of all events from the first to `end`.
    pub(super) fn read(journal: &[u8], end: u64) -> Result<Self> {
        let mut known = 0;
        let (mut parts, limit) = read_parts(journal)?;
        if let Some(JournalEnd { first, n_bytes }) = limit.filter(|limit| limit.first < end) {
            return Err(Error::JournalFull { event: first, n_bytes });
        }
        for part in &mut parts {
            if part.first > known {
                return Err(Error::BadState("a part of the journal is missing"));
            }
            known = known.max(part.first.saturating_add(part.n_left));
            part.check()?;
        }
        if known >= end {
            Ok(Self { parts: read_parts(journal)?.0.into(), next: 0 })
        } else {
            Err(Error::BadState("the end of the journal is missing"))
        }
    }

    /// The event that comes next.
    pub(super) fn next(&mut self) -> Result<Past> {
        loop {
            let over = Error::BadState("the journal is over");
            let part = self.parts.front_mut().ok_or(over)?;
            // Events that an earlier part has told.
            let n_told = self.next.saturating_sub(part.first);
            part.skip(n_told)?;
            part.first += n_told;
            if let Some(past) = part.next_event()? {
                (self.next, part.first) = (self.next + 1, part.first + 1);
                return Ok(past);
            }
            self.parts.pop_front();
        }
    }
}

/// An event of the first form.
fn read_entry(body: &mut ByteReader<'_>, labels: &mut HashMap<u64, String>) -> Result<Past> {
    let kind =
        EventKind::from_code(body.u8()?).ok_or(Error::BadState("an event of unknown kind"))?;
    let print = EventPrint { kind, names: body.u64()?, values: body.u64()? };
    if body.u8()? != 0 {
        labels.insert(print.names, body.str()?.to_string());
    }
    let outcome = match body.u8()? {
        0 => Outcome::Answer(body.bytes()?.to_vec()),
        _ => Outcome::Error(body.str()?.to_string()),
    };
    let label = labels.get(&print.names).cloned().unwrap_or_default();
    Ok(Past { print: print.kept(), label, outcome })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recover::bytes::WriteValues;

    fn fill(journal: &mut Journal, events: std::ops::Range<u64>) {
        for event in events {
            let print = EventPrint { kind: EventKind::Run, names: event % 2, values: event };
            let outcome = match event % 5 {
                4 => Outcome::Error(format!("event {event} failed")),
                _ => Outcome::Answer(event.to_le_bytes().to_vec()),
            };
            journal.push(print, &|| format!("names {}", event % 2), outcome);
        }
    }

    #[test]
    fn a_journal_in_overlapping_parts_is_one_journal() {
        let mut journal = Journal::default();
        fill(&mut journal, 0..6);
        let mut bytes = journal.part(0..6);
        journal.forget_before(3);
        fill(&mut journal, 6..9);
        bytes.extend(journal.part(0..7));
        bytes.extend(journal.part(5..9));
        bytes.extend(journal.part(9..9));
        journal.forget_before(9);
        assert_eq!(journal.n_bytes(), 0);
        fill(&mut journal, 9..12);
        bytes.extend(journal.part(9..20));
        // Servers may have parts of it in any order.
        let last = journal.part(9..20);
        bytes = [&bytes[bytes.len() - last.len()..], &bytes[..bytes.len() - last.len()]].concat();
        let mut answers = Answers::read(&bytes, 12).unwrap();
        for event in 0..12u64 {
            let past = answers.next().unwrap();
            assert_eq!((past.print.values, past.label), (event, format!("names {}", event % 2)));
            let is_error = matches!(past.outcome, Outcome::Error(_));
            assert_eq!(is_error, event % 5 == 4);
        }
        assert!(answers.next().is_err());
        let again = compacted(&bytes).unwrap();
        assert!(again.len() < bytes.len());
        let mut answers = Answers::read(&again, 12).unwrap();
        (0..12).for_each(|event| assert_eq!(answers.next().unwrap().print.values, event));
    }

    #[test]
    fn a_journal_that_has_reached_its_limit_says_so() {
        let mut journal = Journal::default();
        fill(&mut journal, 0..6);
        let mut bytes = [journal.part(0..6), end_part(6, 1 << 20), end_part(9, 1 << 20)].concat();
        for _ in 0..2 {
            assert!(Answers::read(&bytes, 6).is_ok(), "a cut before the end");
            let error = Answers::read(&bytes, 7).unwrap_err();
            assert!(
                matches!(error, Error::JournalFull { event: 6, n_bytes: 1_048_576 }),
                "{error}"
            );
            bytes = compacted(&bytes).unwrap();
        }
        assert_eq!(compacted(&bytes).unwrap(), bytes);
    }

    #[test]
    fn a_gap_or_a_lost_end_is_found_at_once() {
        let mut journal = Journal::default();
        fill(&mut journal, 0..4);
        let first = journal.part(0..4);
        assert!(Answers::read(&first, 5).is_err());
        let mut later = Journal::starting(5);
        fill(&mut later, 5..7);
        assert!(Answers::read(&[first.clone(), later.part(0..9)].concat(), 7).is_err());
        for end in 1..first.len() {
            assert!(Answers::read(&first[..end], 4).is_err(), "cut at {end}");
        }
        let mut other = first;
        other[0] = 9;
        assert!(Answers::read(&other, 4).is_err(), "of another release");
    }

    /// Parts as the release before wrote them: every event by itself.
    fn old_part(events: Range<u64>) -> Vec<u8> {
        let (mut body, mut part) = (ByteWriter::default(), ByteWriter::default());
        body.u64(events.start);
        body.count((events.end - events.start) as usize);
        for event in events.clone() {
            body.u8(EventKind::Run.code());
            body.u64(event % 2);
            body.u64(event);
            let is_new = event < events.start + 2;
            body.u8(u8::from(is_new));
            if is_new {
                body.str(&format!("names {}", event % 2));
            }
            body.u8(0);
            body.bytes(&event.to_le_bytes());
        }
        part.u8(WITHOUT_RUNS);
        part.bytes(&body.0);
        part.0
    }

    #[test]
    fn journals_of_the_release_before_are_read() {
        let mut journal = Journal::starting(6);
        fill(&mut journal, 6..9);
        let bytes = [old_part(0..5), old_part(3..6), journal.part(6..9)].concat();
        for bytes in [compacted(&bytes).unwrap(), bytes] {
            let mut answers = Answers::read(&bytes, 9).unwrap();
            for event in 0..9u64 {
                let past = answers.next().unwrap();
                assert_eq!(
                    (past.print.values, past.label),
                    (event, format!("names {}", event % 2))
                );
            }
            assert!(answers.next().is_err());
        }
    }

    #[test]
    fn a_loop_of_equal_steps_does_not_grow() {
        let run = |journal: &mut Journal, n: u64| {
            for _ in 0..n {
                let print = EventPrint { kind: EventKind::Run, names: 1, values: 2 };
                let answer = Outcome::Answer(vec![3; 60]);
                journal.push(print, &|| "loss".to_string(), answer);
            }
        };
        let mut journal = Journal::default();
        let mut kept = Vec::new();
        let mut sizes = Vec::new();
        for cut in 0..200u64 {
            run(&mut journal, 1_000);
            // Cuts overlap where the last one was not known to be kept.
            kept.extend(journal.part((cut * 1_000).saturating_sub(300)..(cut + 1) * 1_000));
            kept = compacted(&kept).unwrap();
            journal.forget_before((cut * 1_000).saturating_sub(300) + 700);
            sizes.push(kept.len());
        }
        assert!(sizes[199] <= sizes[1] + 16, "{sizes:?}");
        let mut answers = Answers::read(&kept, 200_000).unwrap();
        let n = (0..200_000).filter(|_| answers.next().is_ok()).count();
        assert_eq!((n, answers.next().is_err()), (200_000, true));
    }
}
