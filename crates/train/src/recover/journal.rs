//! What a script asked for and the answers it got: a script that is started again gets the same
//! answers without any computation.
//!
//! A trainer sends its journal in parts, one with each cut. A part begins at the last cut that the
//! server is known to have kept, so parts may overlap. The overlap is the same in both.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;

use super::bytes::{ByteReader, ByteWriter};
use super::print::{EventKind, EventPrint};
use crate::error::{Error, Result};

/// The form of a part.
const VERSION: u8 = 1;

/// How an event ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// With this answer.
    Answer(Vec<u8>),
    /// With an error of these words.
    Error(String),
}

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
        let (mut body, mut labels) = (ByteWriter::default(), HashSet::new());
        let first = events.start.max(self.first);
        let at = |event: u64| (event.saturating_sub(self.first) as usize).min(self.entries.len());
        let (start, end) = (at(first), at(events.end));
        body.u64(first);
        body.count(end.saturating_sub(start));
        for JournalEntry { print, outcome } in self.entries.range(start..end.max(start)) {
            body.u8(print.kind.code());
            body.u64(print.names);
            body.u64(print.values);
            let is_new = labels.insert(print.names);
            body.u8(u8::from(is_new));
            if is_new {
                body.str(self.labels.get(&print.names).map_or("", String::as_str));
            }
            match outcome {
                Outcome::Answer(bytes) => {
                    body.u8(0);
                    body.bytes(bytes);
                }
                Outcome::Error(text) => {
                    body.u8(1);
                    body.str(text);
                }
            }
        }
        let mut part = ByteWriter::default();
        part.u8(VERSION);
        part.bytes(&body.0);
        part.0
    }
}

/// Answers of events that were, in order.
#[derive(Debug, Default)]
pub(super) struct Answers {
    parts: VecDeque<Vec<u8>>,
    /// Bytes of the first part that were read, and events that are left in it.
    at: usize,
    n_left: usize,
    /// The event that comes next.
    next: u64,
    labels: HashMap<u64, String>,
}

/// An event as it was.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Past {
    pub(super) print: EventPrint,
    pub(super) label: String,
    pub(super) outcome: Outcome,
}

impl Answers {
    /// Reads parts, in any order, that together tell of all events from the first to `end`.
    pub(super) fn read(journal: &[u8], end: u64) -> Result<Self> {
        let (mut reader, mut parts) = (ByteReader::new(journal), Vec::new());
        while !reader.is_empty() {
            if reader.u8()? != VERSION {
                return Err(Error::BadState("a journal of another release"));
            }
            let part = reader.bytes()?;
            let mut body = ByteReader::new(part);
            let (first, n) = (body.u64()?, body.count()? as u64);
            for _ in 0..n {
                read_entry(&mut body)?;
            }
            parts.push((first, first.saturating_add(n), part.to_vec()));
        }
        parts.sort_by_key(|(first, _, _)| *first);
        let mut known = 0;
        for (first, after, _) in &parts {
            if *first > known {
                return Err(Error::BadState("a part of the journal is missing"));
            }
            known = known.max(*after);
        }
        let parts = parts.into_iter().map(|(_, _, part)| part).collect();
        match known >= end {
            true => Ok(Self { parts, ..Self::default() }),
            false => Err(Error::BadState("the end of the journal is missing")),
        }
    }

    /// The event that comes next.
    pub(super) fn next(&mut self) -> Result<Past> {
        let over = Error::BadState("the journal is over");
        loop {
            let Some(part) = self.parts.front() else { return Err(over) };
            let mut body = ByteReader::new(&part[self.at..]);
            if self.at == 0 {
                let (first, n) = (body.u64()?, body.count()?);
                self.at = 16;
                self.n_left = n;
                // What an earlier part has told.
                for _ in 0..self.next.saturating_sub(first).min(n as u64) {
                    let n_bytes = self.skip(&mut body)?;
                    self.at += n_bytes;
                    self.n_left -= 1;
                }
            }
            if self.n_left == 0 {
                self.parts.pop_front();
                self.at = 0;
                continue;
            }
            let (past, n_bytes) = self.take()?;
            (self.at, self.n_left, self.next) = (self.at + n_bytes, self.n_left - 1, self.next + 1);
            return Ok(past);
        }
    }

    fn take(&mut self) -> Result<(Past, usize)> {
        let part = self.parts.front().map_or(&[][..], |part| &part[self.at..]);
        let mut body = ByteReader::new(part);
        let ReadEvent { print, label, outcome } = read_entry(&mut body)?;
        let n_bytes = part.len() - body.n_left();
        if let Some(label) = label {
            self.labels.insert(print.names, label);
        }
        let label = self.labels.get(&print.names).cloned().unwrap_or_default();
        Ok((Past { print, label, outcome }, n_bytes))
    }

    fn skip(&self, body: &mut ByteReader<'_>) -> Result<usize> {
        let n_before = body.n_left();
        read_entry(body)?;
        Ok(n_before - body.n_left())
    }
}

/// An event as it was read.
struct ReadEvent {
    print: EventPrint,
    /// The names in it, if they were not known before.
    label: Option<String>,
    outcome: Outcome,
}

fn read_entry(body: &mut ByteReader<'_>) -> Result<ReadEvent> {
    let kind =
        EventKind::from_code(body.u8()?).ok_or(Error::BadState("an event of unknown kind"))?;
    let print = EventPrint { kind, names: body.u64()?, values: body.u64()? };
    let label = match body.u8()? {
        0 => None,
        _ => Some(body.str()?.to_string()),
    };
    let outcome = match body.u8()? {
        0 => Outcome::Answer(body.bytes()?.to_vec()),
        _ => Outcome::Error(body.str()?.to_string()),
    };
    Ok(ReadEvent { print, label, outcome })
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
