//! The text that holds slots: `<count> <v1> … <vcount>` for each slot of a line.

use crate::error::{Refusal, Result, shown};
use crate::number::{Cursor, Id};
use crate::parse::Parse;
use crate::random::hash;
use crate::records::Records;
use crate::slot::{self, Slot, SlotKind};

/// Reads lines of one list of slots.
#[derive(Clone, Debug)]
pub struct MultiSlot {
    slots: Vec<Slot>,
    n_dense: Vec<Option<usize>>,
    /// How many `1 <text>` come before the slots: the name of the sample, its content.
    n_names: usize,
}

impl MultiSlot {
    /// A reader of lines with these slots.
    pub fn new(slots: &[Slot]) -> Result<Self> {
        slot::check(slots)?;
        let n_dense = slots.iter().map(Slot::n_dense).collect();
        Ok(Self { slots: slots.to_vec(), n_dense, n_names: 0 })
    }

    /// Reads lines that begin with the sample's name, and perhaps with its content.
    pub fn with_names(mut self, ins_id: bool, content: bool) -> Self {
        self.n_names = usize::from(ins_id) + usize::from(content);
        self
    }

    /// Reads one line, without its end, as one more record.
    pub fn parse(&self, line: &[u8], out: &mut Records) -> std::result::Result<(), Refusal> {
        let mut line = Cursor::new(line);
        let key = if self.n_names == 0 { 0 } else { self.names(&mut line)? };
        out.begin(key);
        for (at, slot) in self.slots.iter().enumerate() {
            let count = match line.count() {
                Some(count) if count > 0 => count,
                _ => return Err(self.no_count(line, at)),
            };
            if let Some(expected) = self.n_dense[at]
                && expected != count
            {
                let slot = slot.name.clone();
                return Err(Refusal::DenseCount { slot, expected, found: count });
            }
            if let (1, true, SlotKind::Id) = (count, slot.used, slot.kind)
                && let Id::Is(id) = line.id()
            {
                out.push_one_id(id);
                continue;
            }
            if slot.used {
                out.push(count as u32);
            }
            match slot.kind {
                SlotKind::Float => floats(&mut line, slot, count, out)?,
                SlotKind::Id => ids(&mut line, slot, count, out)?,
            }
        }
        match line.word() {
            [] => Ok(()),
            word => Err(Refusal::Trailing { n_slots: self.slots.len(), found: shown(word) }),
        }
    }

    /// The texts before the slots; the first is the sample's name, and becomes its key.
    fn names(&self, line: &mut Cursor<'_>) -> std::result::Result<u64, Refusal> {
        let mut key = 0;
        for at in 0..self.n_names {
            let slot = if at == 0 { "ins_id" } else { "content" };
            if line.count() != Some(1) {
                let found = shown(line.word());
                return Err(Refusal::Count { slot: slot.to_string(), found });
            }
            let word = line.take_word();
            if word.is_empty() {
                let slot = slot.to_string();
                return Err(Refusal::TooFewValues { slot, expected: 1, found: 0 });
            }
            if at == 0 {
                key = hash(word);
            }
        }
        Ok(key)
    }

    fn no_count(&self, mut line: Cursor<'_>, at: usize) -> Refusal {
        let slot = self.slots[at].name.clone();
        match line.back_to_word() {
            // A blank line is a count that is not there, not a list of slots that is too short.
            [] if at > 0 => Refusal::TooFewSlots { slot, expected: self.slots.len(), found: at },
            word => Refusal::Count { slot, found: shown(word) },
        }
    }
}

impl Parse for MultiSlot {
    fn parse(&mut self, line: &[u8], out: &mut Records) -> std::result::Result<bool, Refusal> {
        MultiSlot::parse(self, line, out).map(|()| true)
    }
}

fn floats(
    line: &mut Cursor<'_>,
    slot: &Slot,
    count: usize,
    out: &mut Records,
) -> std::result::Result<(), Refusal> {
    for at in 0..count {
        let Some(value) = line.float() else {
            return Err(bad_value(line, slot, count, at, "a number"));
        };
        if slot.used {
            out.push(value.to_bits());
        }
    }
    Ok(())
}

fn ids(
    line: &mut Cursor<'_>,
    slot: &Slot,
    count: usize,
    out: &mut Records,
) -> std::result::Result<(), Refusal> {
    for at in 0..count {
        let value = match line.id() {
            Id::Is(value) => value,
            Id::TooLarge => {
                let found = shown(line.word());
                let slot = slot.name.clone();
                return Err(Refusal::IdTooLarge { slot, position: at + 1, found });
            }
            Id::No => return Err(bad_value(line, slot, count, at, "a whole number")),
        };
        if slot.used {
            out.push_id(value);
        }
    }
    Ok(())
}

/// Why there is no value `at` of `count`.
fn bad_value(
    line: &Cursor<'_>,
    slot: &Slot,
    count: usize,
    at: usize,
    expected: &'static str,
) -> Refusal {
    let slot = slot.name.clone();
    match line.word() {
        [] => Refusal::TooFewValues { slot, expected: count, found: at },
        word => Refusal::Value { slot, position: at + 1, expected, found: shown(word) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    fn two() -> Vec<Slot> {
        vec![Slot::floats("x").dense(&[-1, 2]), Slot::ids("c")]
    }

    fn parse(slots: &[Slot], line: &str) -> std::result::Result<String, Refusal> {
        let mut out = Records::default();
        MultiSlot::new(slots).unwrap().parse(line.as_bytes(), &mut out)?;
        out.commit();
        let mut text = Vec::new();
        out.write_text(0, slots, &mut text);
        Ok(String::from_utf8(text).unwrap())
    }

    #[track_caller]
    fn check(line: &str, expected: &str) {
        assert_eq!(parse(&two(), line).unwrap(), format!("{expected}\n"));
    }

    #[track_caller]
    fn refused(line: &str, expected: Refusal) {
        assert_eq!(parse(&two(), line).unwrap_err(), expected);
    }

    fn s(text: &str) -> String {
        text.to_string()
    }

    #[test]
    fn reads_counted_slots() {
        check("2 0.5 -1e3 3 7 8 9", "2 0.5 -1000 3 7 8 9");
        check("2 0 1 1 9223372036854775807", "2 0 1 1 9223372036854775807");
        check("2 0 1 1 -1", "2 0 1 1 18446744073709551615");
        check(
            "2 0 1 2 9223372036854775808 18446744073709551615",
            "2 0 1 2 9223372036854775808 18446744073709551615",
        );
        // Characters that strtol and strtof skip, and those that may stand behind the last value.
        check("  2  .5\t+2. 1 +4 \t\r", "2 0.5 2 1 4");
    }

    #[test]
    fn refuses_a_count_that_is_none() {
        refused("0 1 5", Refusal::Count { slot: s("x"), found: s("0") });
        refused("a 1 5", Refusal::Count { slot: s("x"), found: s("a") });
        refused("-1 5", Refusal::Count { slot: s("x"), found: s("-1") });
        refused("", Refusal::Count { slot: s("x"), found: s("") });
        refused("2 1 2 0", Refusal::Count { slot: s("c"), found: s("0") });
        let huge = "99999999999999999999";
        refused(huge, Refusal::Count { slot: s("x"), found: s(huge) });
    }

    #[test]
    fn refuses_lines_that_are_too_short() {
        refused("2 1 2", Refusal::TooFewSlots { slot: s("c"), expected: 2, found: 1 });
        refused("2 1", Refusal::TooFewValues { slot: s("x"), expected: 2, found: 1 });
        refused("2 1 2 3 4", Refusal::TooFewValues { slot: s("c"), expected: 3, found: 1 });
        // A count may say anything; only what is there costs memory.
        let many = Refusal::TooFewValues { slot: s("c"), expected: 4_000_000_000, found: 1 };
        refused("2 1 2 4000000000 4", many);
    }

    #[test]
    fn refuses_values_that_are_none() {
        let bad = |slot: &str, position, expected, found: &str| Refusal::Value {
            slot: s(slot),
            position,
            expected,
            found: s(found),
        };
        refused("2 1 x 1 1", bad("x", 2, "a number", "x"));
        refused("2 1 1,5 1 1", bad("x", 2, "a number", "1,5"));
        refused("2 1 2 2 1 1.5", bad("c", 2, "a whole number", "1.5"));
        let found = s("18446744073709551616");
        let line = format!("2 1 2 1 {found}");
        refused(&line, Refusal::IdTooLarge { slot: s("c"), position: 1, found });
    }

    #[test]
    fn refuses_other_slots() {
        refused("3 1 2 3 1 1", Refusal::DenseCount { slot: s("x"), expected: 2, found: 3 });
        refused("2 1 2 1 1 1 7", Refusal::Trailing { n_slots: 2, found: s("1") });
        refused("2 1 2 1 1 \u{e9}", Refusal::Trailing { n_slots: 2, found: s("\u{e9}") });
    }

    #[test]
    fn a_slot_that_is_not_used_is_read_and_dropped() {
        let mut slots = two();
        slots[0].used = false;
        assert_eq!(parse(&slots, "2 1 2 1 5").unwrap(), "1 5\n");
        assert!(parse(&slots, "2 1 z 1 5").is_err());
    }

    #[test]
    fn names_stand_before_the_slots() {
        let slots = [Slot::ids("c")];
        let reader = MultiSlot::new(&slots).unwrap().with_names(true, true);
        let mut out = Records::default();
        for line in ["1 first 1 text 1 5", "1 second 1 text 1 6", "1 first 1 text 1 7"] {
            reader.parse(line.as_bytes(), &mut out).unwrap();
            out.commit();
        }
        assert_eq!(out.key(0), out.key(2));
        assert_ne!(out.key(0), out.key(1));
        let error = reader.parse(b"2 first 1 text 1 5", &mut out).unwrap_err();
        assert!(matches!(error, Refusal::Count { slot, .. } if slot == "ins_id"));
    }

    #[test]
    fn refuses_slots_that_cannot_be_read() {
        let refused = |slots: &[Slot]| MultiSlot::new(slots).unwrap_err();
        assert!(matches!(refused(&[]), Error::NoSlots));
        let twice = [Slot::ids("c"), Slot::floats("c")];
        assert!(matches!(refused(&twice), Error::SlotTwice { slot } if slot == "c"));
        for shape in [&[-1, -1][..], &[], &[-1, 0], &[-2, 3], &[-1, i64::MAX, 2]] {
            let slots = [Slot::floats("x").dense(shape)];
            assert!(matches!(refused(&slots), Error::DenseShape { .. }), "{shape:?}");
        }
    }
}
