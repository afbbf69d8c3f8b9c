//! Events of a journal as bytes: those that repeat are written once, with how often.
//!
//! A script that trains does the same again and again. Where whole stretches are equal, down to the answers, their number
//! is written instead of them. Where only numbers in an answer differ, those are: a loss takes seven bytes.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

use base::bytes::{ByteReader, ByteWriter};

use super::bytes::{ReadValues, WriteValues};
use super::print::{EventKind, EventPrint};
use crate::error::{Error, Result};

/// The longest stretch that is found to repeat: so many events of a step.
const PERIOD_MAX: usize = 64;
/// Events that must have been repeated before that is written: a shorter stretch may be part of a longer one.
const REPEATED_MIN: usize = 2 * PERIOD_MAX;
/// Events of a stretch that is written once: a reader holds as many.
const ONCE_MAX: usize = 256;

/// Marks of an event.
const LIKE_BEFORE: u8 = 1;
const HAS_LABEL: u8 = 2;
const IS_ERROR: u8 = 4;
const IS_CHANGE: u8 = 8;
/// The change is at the place of the last change of such an event.
const SAME_PLACE: u8 = 16;
/// The feeds equal those of the last such event.
const SAME_VALUES: u8 = 32;

/// Places of changes grow to this size before another place is written.
const PLACE_BYTES_MAX: usize = 16;

/// How an event ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// With this answer.
    Answer(Vec<u8>),
    /// With an error of these words.
    Error(String),
}

/// An event as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Past {
    pub(super) print: EventPrint,
    pub(super) label: String,
    pub(super) outcome: Outcome,
}

/// A stretch of events, and how often it was done.
#[derive(Debug)]
pub(super) struct Stretch {
    pub(super) events: Vec<Past>,
    pub(super) n_times: u64,
}

/// Writes events in their order.
#[derive(Debug)]
pub(super) struct RunsWriter {
    n_events: u64,
    body: ByteWriter,
    known: KnownEvents,
    /// Events that are not written yet, and no repetition so far.
    open: Vec<Past>,
    /// For each period: how many of the last events are equal to the one so many before.
    n_equal: [usize; PERIOD_MAX + 1],
    /// A stretch that repeats, and how far its next repetition is.
    repeats: Option<(Stretch, usize)>,
}

impl Default for RunsWriter {
    fn default() -> Self {
        Self {
            n_events: 0,
            body: ByteWriter::default(),
            known: KnownEvents::default(),
            open: Vec::new(),
            n_equal: [0; PERIOD_MAX + 1],
            repeats: None,
        }
    }
}

impl RunsWriter {
    /// The next event.
    pub(super) fn push(&mut self, event: Past) {
        self.n_events += 1;
        if let Some((stretch, at)) = &mut self.repeats {
            if stretch.events[*at] == event {
                *at += 1;
                if *at == stretch.events.len() {
                    (stretch.n_times, *at) = (stretch.n_times + 1, 0);
                }
                return;
            }
            self.end_repeats();
        }
        self.open.push(event);
        self.look_back();
    }

    /// A stretch that was written before.
    pub(super) fn push_stretch(&mut self, Stretch { events, n_times }: Stretch) {
        for n_left in (1..=n_times).rev() {
            let repeated = self.repeats.as_mut().filter(|(_, at)| *at == 0);
            if let Some((stretch, _)) = repeated.filter(|(stretch, _)| stretch.events == events) {
                stretch.n_times += n_left;
                self.n_events += n_left * events.len() as u64;
                return;
            }
            events.iter().cloned().for_each(|event| self.push(event));
        }
    }

    /// Whether the last events repeat those before.
    fn look_back(&mut self) {
        let n_open = self.open.len();
        let Some(last) = self.open.last() else { return };
        let mut found = None;
        for period in 1..=PERIOD_MAX {
            let is_equal = n_open > period && self.open[n_open - 1 - period] == *last;
            self.n_equal[period] = if is_equal { self.n_equal[period] + 1 } else { 0 };
            if found.is_none() && self.n_equal[period] >= REPEATED_MIN {
                found = Some(period);
            }
        }
        if let Some(period) = found {
            let n_times = (self.n_equal[period] + period) / period;
            let start = n_open - n_times * period;
            let events = self.open.split_off(start).split_off((n_times - 1) * period);
            self.write_open();
            self.repeats = Some((Stretch { events, n_times: n_times as u64 }, 0));
        } else if n_open >= ONCE_MAX + REPEATED_MIN + PERIOD_MAX {
            // No repetition begins with these.
            let rest = self.open.split_off(ONCE_MAX);
            let first = std::mem::replace(&mut self.open, rest);
            self.write(&Stretch { events: first, n_times: 1 });
        }
    }

    fn write_open(&mut self) {
        let open = std::mem::take(&mut self.open);
        self.n_equal = [0; PERIOD_MAX + 1];
        let mut events = open.into_iter().peekable();
        while events.peek().is_some() {
            let some = events.by_ref().take(ONCE_MAX).collect();
            self.write(&Stretch { events: some, n_times: 1 });
        }
    }

    /// The next event is not the next of the repetition.
    fn end_repeats(&mut self) {
        if let Some((stretch, at)) = self.repeats.take() {
            self.write(&stretch);
            self.open = stretch.events[..at].to_vec();
            self.n_equal = [0; PERIOD_MAX + 1];
        }
    }

    fn write(&mut self, Stretch { events, n_times }: &Stretch) {
        number(&mut self.body, events.len() as u64);
        number(&mut self.body, *n_times);
        events.iter().for_each(|event| self.known.write(&mut self.body, event));
    }

    /// How many events there are, and their bytes.
    pub(super) fn finish(mut self) -> (u64, Vec<u8>) {
        self.end_repeats();
        self.write_open();
        (self.n_events, self.body.0)
    }
}

/// Reads stretches in their order.
#[derive(Debug, Default)]
pub(super) struct RunsReader {
    known: KnownEvents,
    /// Events have whole digests, as the form before had.
    has_digests: bool,
}

impl RunsReader {
    /// A reader of the present form, or of the form before.
    pub(super) fn new(has_digests: bool) -> Self {
        Self { has_digests, ..Self::default() }
    }

    /// The next stretch.
    pub(super) fn next(&mut self, from: &mut ByteReader<'_>) -> Result<Stretch> {
        let (n, n_times) = (read_number(from)?, read_number(from)?);
        // Each event has bytes: a length that cannot be is found before anything is made for it.
        if n == 0 || n_times == 0 || n > from.n_left() as u64 {
            return Err(Error::BadState("a stretch of events without events"));
        }
        let has_digests = self.has_digests;
        let events = (0..n).map(|_| self.known.read(from, has_digests)).collect::<Result<_>>()?;
        Ok(Stretch { events, n_times })
    }
}

/// Earlier events, to compare a new one with.
#[derive(Debug, Default)]
struct KnownEvents {
    /// The event before.
    last: Option<(EventKind, u64)>,
    /// By the names of events: the names in words, and the last answer.
    named: HashMap<u64, KnownEvent>,
}

#[derive(Debug, Default)]
struct KnownEvent {
    label: String,
    answer: Vec<u8>,
    values: u64,
    /// Where the last change was.
    place: Range<usize>,
}

impl KnownEvent {
    /// Notes where a change was written. An answer that is equal says nothing of the next.
    fn changed_at(&mut self, place: Range<usize>) {
        if !place.is_empty() {
            self.place = place;
        }
    }

    /// Where a change is written: at the place of the last one, if it is there, or at one that holds both.
    fn place_of(&self, change: &Range<usize>) -> Range<usize> {
        let last = &self.place;
        let both = change.start.min(last.start)..change.end.max(last.end);
        let is_near = both.len() <= PLACE_BYTES_MAX.max(change.len() + change.len() / 2);
        let is_known = !last.is_empty() && last.end <= self.answer.len();
        if is_known && is_near && !change.is_empty() { both } else { change.clone() }
    }
}

impl KnownEvents {
    fn write(&mut self, to: &mut ByteWriter, Past { print, label, outcome }: &Past) {
        let is_like =
            self.last.replace((print.kind, print.names)) == Some((print.kind, print.names));
        let entry = self.named.entry(print.names);
        let is_new = matches!(entry, Entry::Vacant(_));
        let known = entry.or_default();
        let change = match outcome {
            Outcome::Answer(answer) => changed(&known.answer, answer),
            Outcome::Error(_) => None,
        };
        let place = change.map(|change| known.place_of(&change));
        let is_last = |place: &Range<usize>| !place.is_empty() && *place == known.place;
        let is_same_place = place.as_ref().is_some_and(is_last);
        let is_same_values = !is_new && known.values == print.values;
        known.values = print.values;
        let mark = |is_so: bool, mark: u8| if is_so { mark } else { 0 };
        let has_label = is_new && !label.is_empty();
        to.u8(mark(is_like, LIKE_BEFORE)
            | mark(has_label, HAS_LABEL)
            | mark(matches!(outcome, Outcome::Error(_)), IS_ERROR)
            | mark(place.is_some(), IS_CHANGE)
            | mark(is_same_place, SAME_PLACE)
            | mark(is_same_values, SAME_VALUES));
        if !is_like {
            to.u8(print.kind.code());
            to.u64(print.names);
        }
        if !is_same_values {
            to.u16(print.values as u16);
        }
        if has_label {
            to.str(label);
            known.label.clone_from(label);
        }
        match (outcome, place) {
            (Outcome::Answer(answer), Some(at)) => {
                if !is_same_place {
                    number(to, at.start as u64);
                    number(to, at.len() as u64);
                }
                to.raw(&answer[at.clone()]);
                known.changed_at(at);
            }
            (Outcome::Answer(answer), None) => {
                to.bytes(answer);
            }
            (Outcome::Error(text), _) => to.str(text),
        }
        if let Outcome::Answer(answer) = outcome {
            known.answer.clone_from(answer);
        }
    }

    fn read(&mut self, from: &mut ByteReader<'_>, has_digests: bool) -> Result<Past> {
        let marks = from.u8()?;
        let has = |mark: u8| marks & mark != 0;
        let (kind, names) = match (has(LIKE_BEFORE), self.last) {
            (true, Some(last)) => last,
            (true, None) => return Err(Error::BadState("an event like none")),
            (false, _) => {
                let kind = EventKind::from_code(from.u8()?);
                (kind.ok_or(Error::BadState("an event of unknown kind"))?, from.u64()?)
            }
        };
        self.last = Some((kind, names));
        let known = self.named.entry(names).or_default();
        let values = if has(SAME_VALUES) {
            known.values
        } else if has_digests {
            from.u64()?
        } else {
            from.u16()?.into()
        };
        known.values = values;
        let print = EventPrint { kind, names, values }.kept();
        if has(HAS_LABEL) {
            known.label = from.str()?.to_string();
        }
        let outcome = match (has(IS_ERROR), has(IS_CHANGE)) {
            (true, _) => Outcome::Error(from.str()?.to_string()),
            (false, false) => Outcome::Answer(from.bytes()?.to_vec()),
            (false, true) => {
                let mut at = known.place.clone();
                if !has(SAME_PLACE) {
                    let (start, n) = (read_number(from)? as usize, read_number(from)? as usize);
                    at = start..start.saturating_add(n);
                }
                let bytes = from.take(at.len())?;
                known.changed_at(at.clone());
                let place = known.answer.get_mut(at);
                let place =
                    place.ok_or(Error::BadState("an answer that changes more than it has"))?;
                place.copy_from_slice(bytes);
                Outcome::Answer(known.answer.clone())
            }
        };
        if let Outcome::Answer(answer) = &outcome {
            known.answer.clone_from(answer);
        }
        Ok(Past { print, label: known.label.clone(), outcome })
    }
}

/// Where an answer differs from the one before, if both are of one length and most is equal.
fn changed(before: &[u8], now: &[u8]) -> Option<Range<usize>> {
    if before.len() != now.len() || now.is_empty() {
        return None;
    }
    let differs = |at: &usize| before[*at] != now[*at];
    let start = (0..now.len()).find(differs).unwrap_or(0);
    let end = (0..now.len()).rev().find(differs).map_or(start, |last| last + 1);
    Some(start..end)
}

/// A number in as few bytes as it needs.
fn number(to: &mut ByteWriter, mut value: u64) {
    while value >= 0x80 {
        to.u8(value as u8 | 0x80);
        value >>= 7;
    }
    to.u8(value as u8);
}

fn read_number(from: &mut ByteReader<'_>) -> Result<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = from.u8()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Error::BadState("a number without an end"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(names: u64, values: u64, answer: &[u8]) -> Past {
        let print = EventPrint { kind: EventKind::Run, names, values };
        let (print, label) = (print.kept(), format!("names {names}"));
        Past { print, label, outcome: Outcome::Answer(answer.to_vec()) }
    }

    fn written(events: impl IntoIterator<Item = Past>) -> (u64, Vec<u8>) {
        let mut writer = RunsWriter::default();
        events.into_iter().for_each(|event| writer.push(event));
        writer.finish()
    }

    fn stretches(bytes: &[u8]) -> Vec<Stretch> {
        let mut from = ByteReader::new(bytes);
        let mut reader = RunsReader::default();
        let mut all = Vec::new();
        while !from.is_empty() {
            all.push(reader.next(&mut from).unwrap());
        }
        all
    }

    fn read(bytes: &[u8]) -> Vec<Past> {
        let repeated = |one: Stretch| {
            let n = usize::try_from(one.n_times).unwrap();
            std::iter::repeat_n(one.events, n).flatten().collect::<Vec<_>>()
        };
        stretches(bytes).into_iter().flat_map(repeated).collect()
    }

    #[test]
    fn equal_steps_take_as_many_bytes_however_many_there_are() {
        for period in [1, 2, 3, 7, 64] {
            let step = |at: usize| event((at % period) as u64, 7, &[(at % period) as u8; 60]);
            let (n, short) = written((0..1_000).map(step));
            assert_eq!((n, read(&short).len()), (1_000, 1_000));
            let (n, long) = written((0..100_000).map(step));
            assert_eq!(n, 100_000);
            assert!(
                long.len() <= short.len() + 64 * 120,
                "{period}: {}, {}",
                short.len(),
                long.len()
            );
            let events: Vec<Past> = (0..100_000).map(step).collect();
            assert!(read(&long) == events, "period {period}");
        }
    }

    #[test]
    fn a_loss_takes_a_few_bytes() {
        let step = |at: u64| {
            let mut answer = vec![9; 60];
            answer[50..54].copy_from_slice(&(at as f32).to_le_bytes());
            event(1, at.wrapping_mul(0x9e37_79b9_7f4a_7c15), &answer)
        };
        let (_, bytes) = written((0..10_000).map(step));
        assert!(bytes.len() < 7 * 10_000 + 1_000, "{} bytes", bytes.len());
        assert!(read(&bytes) == (0..10_000).map(step).collect::<Vec<_>>());
        // Without other feeds.
        let (_, bytes) = written((0..10_000).map(|at| {
            let Past { print, label, outcome } = step(at);
            Past { print: EventPrint { values: 7, ..print }, label, outcome }
        }));
        assert!(bytes.len() < 5 * 10_000 + 1_000, "{} bytes", bytes.len());
    }

    /// Numbers at several places, at each step other ones.
    #[test]
    fn changes_are_where_they_were() {
        let mut random = 9u64;
        let steps: Vec<Past> = (0..5_000)
            .map(|at| {
                let mut answer = vec![3; 100];
                for _ in 0..at % 4 {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    answer[(random >> 40) as usize % 100] = (random >> 33) as u8;
                }
                event(1 + at % 2, at, &answer)
            })
            .collect();
        let (n, bytes) = written(steps.clone());
        assert_eq!(n, 5_000);
        assert!(read(&bytes) == steps);
    }

    #[test]
    fn what_was_written_in_parts_is_written_as_one() {
        let step = |at: usize| event((at % 3) as u64, 7, &[(at % 3) as u8; 9]);
        let mut writer = RunsWriter::default();
        let mut all = Vec::new();
        for part in 0..50 {
            let events: Vec<Past> = (part * 500..(part + 1) * 500).map(step).collect();
            let (_, bytes) = written(events.clone());
            stretches(&bytes).into_iter().for_each(|stretch| writer.push_stretch(stretch));
            all.extend(events);
        }
        let (n, bytes) = writer.finish();
        assert_eq!(n, 25_000);
        assert!(bytes.len() < 20_000, "{} bytes", bytes.len());
        assert!(read(&bytes) == all);
    }

    #[test]
    fn whatever_comes_is_read_as_it_was() {
        let mut random = 7u64;
        let mut draw = |n: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % n
        };
        for _ in 0..20 {
            let mut events = Vec::new();
            while events.len() < 3_000 {
                let period = 1 + draw(5);
                for at in 0..draw(600) {
                    let answer = vec![(at % period) as u8; draw(2) as usize * 3 + 1];
                    events.push(event(at % period, draw(2) / 2, &answer));
                }
                let error = Outcome::Error("it failed".to_string());
                events.push(Past { outcome: error, ..event(draw(3), 1, &[]) });
            }
            let (n, bytes) = written(events.iter().cloned());
            assert_eq!(n, events.len() as u64);
            assert!(read(&bytes) == events);
            for end in 0..bytes.len().min(300) {
                let (mut from, mut reader) =
                    (ByteReader::new(&bytes[..end]), RunsReader::default());
                while !from.is_empty() && reader.next(&mut from).is_ok() {}
            }
        }
    }
}
