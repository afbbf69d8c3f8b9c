//! Samples in memory: one flat list of words, a sample behind the other.
//!
//! A sample is its key (two words; 0 if it has no name), then for each slot that is used the number
//! of its values and the values: a float is a word, an id two. So a sample lies in one piece, can be
//! shuffled by an index and sent to another trainer as it is.

use std::io::Write;

use tensor::room_or_give_up;

use crate::slot::{Slot, SlotKind};

/// Words before the slots.
const KEY_WORDS: usize = 2;
/// Words that a sample finds room for when it begins.
const ROOM_WORDS: usize = 4096;

/// Samples, one after another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    words: Vec<u32>,
    ends: Vec<usize>,
}

impl Records {
    /// Begins a sample; one that was begun and not committed is dropped.
    pub(crate) fn begin(&mut self, key: u64) {
        self.words.truncate(self.ends.last().copied().unwrap_or(0));
        if self.words.capacity() - self.words.len() < ROOM_WORDS {
            room_or_give_up(&mut self.words, ROOM_WORDS);
            room_or_give_up(&mut self.ends, 1);
        }
        self.words.extend([key as u32, (key >> 32) as u32]);
    }

    #[inline]
    pub(crate) fn push(&mut self, word: u32) {
        self.words.push(word);
    }

    #[inline]
    pub(crate) fn push_id(&mut self, id: i64) {
        self.words.extend([id as u32, (id >> 32) as u32]);
    }

    /// A slot of one id.
    #[inline]
    pub(crate) fn push_one_id(&mut self, id: i64) {
        self.words.extend_from_slice(&[1, id as u32, (id >> 32) as u32]);
    }

    pub(crate) fn extend(&mut self, words: &[u32]) {
        self.words.extend_from_slice(words);
    }

    /// Ends the sample that was begun.
    pub fn commit(&mut self) {
        self.ends.push(self.words.len());
    }

    /// Removes all samples and keeps the memory.
    pub fn clear(&mut self) {
        self.words.clear();
        self.ends.clear();
    }

    /// Gives back memory that is not used.
    pub(crate) fn shrink(&mut self) {
        self.words.truncate(self.ends.last().copied().unwrap_or(0));
        self.words.shrink_to_fit();
        self.ends.shrink_to_fit();
    }

    /// How many samples.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of memory that samples take.
    pub fn bytes(&self) -> usize {
        self.words.len() * size_of::<u32>() + self.ends.len() * size_of::<usize>()
    }

    pub(crate) fn n_words(&self) -> usize {
        self.words.len()
    }

    pub(crate) fn get(&self, at: usize) -> &[u32] {
        let from = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.words[from..self.ends[at]]
    }

    pub(crate) fn key(&self, at: usize) -> u64 {
        let record = self.get(at);
        u64::from(record[0]) | u64::from(record[1]) << 32
    }

    /// Takes the zeros out of the sequences of the last sample; `slots` are those of the samples. A
    /// sequence that has nothing else is empty then.
    pub(crate) fn drop_zeros(&mut self, slots: &[Slot]) {
        let Some(last) = self.ends.len().checked_sub(1) else { return };
        let from = if last == 0 { 0 } else { self.ends[last - 1] };
        let (mut next, mut end) = (from + FIRST_SLOT, from + FIRST_SLOT);
        for slot in slots {
            let (width, values) = (slot.width(), next + 1);
            next = values + self.words[next] as usize * width;
            let count_at = end;
            end += 1;
            for value in (values..next).step_by(width) {
                let behind = value + width;
                if slot.dense.is_none() && is_zero(slot.kind, &self.words[value..behind]) {
                    continue;
                }
                if end != value {
                    self.words.copy_within(value..behind, end);
                }
                end += width;
            }
            self.words[count_at] = ((end - count_at - 1) / width) as u32;
        }
        self.words.truncate(end);
        self.ends[last] = end;
    }

    /// Writes a sample as a line of counted slots; `slots` are those of the samples.
    pub(crate) fn write_text(&self, at: usize, slots: &[Slot], out: &mut Vec<u8>) {
        let from = out.len();
        for (slot, values) in fields(self.get(at), slots) {
            let count = values.len() / slot.width();
            // Writing to memory does not fail.
            let _ = write!(out, "{}{count}", if out.len() == from { "" } else { " " });
            for value in values.chunks_exact(slot.width()) {
                let _ = match slot.kind {
                    SlotKind::Float => write!(out, " {}", f32::from_bits(value[0])),
                    // Fluid's files call the type uint64.
                    SlotKind::Id => write!(out, " {}", id(value).cast_unsigned()),
                };
            }
        }
        out.push(b'\n');
    }

    /// A sample as bytes, for another trainer.
    pub(crate) fn write_bytes(&self, at: usize, out: &mut Vec<u8>) {
        let record = self.get(at);
        out.extend((record.len() as u32).to_le_bytes());
        out.extend(record.iter().flat_map(|word| word.to_le_bytes()));
    }

    /// Adds samples that [`Records::write_bytes`] wrote; `None` if they are not of these slots.
    pub(crate) fn read_bytes(&mut self, mut bytes: &[u8], slots: &[Slot]) -> Option<()> {
        while !bytes.is_empty() {
            let (n_words, rest) = bytes.split_first_chunk::<4>()?;
            let n_bytes = (u32::from_le_bytes(*n_words) as usize).checked_mul(4)?;
            let (record, rest) = rest.split_at_checked(n_bytes)?;
            let word = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            self.words.extend(record.chunks_exact(4).map(word));
            self.commit();
            if !fits(self.get(self.len() - 1), slots) {
                return None;
            }
            bytes = rest;
        }
        Some(())
    }
}

/// Fluid's zeros: an id 0, a number smaller than 1e-6.
fn is_zero(kind: SlotKind, words: &[u32]) -> bool {
    match kind {
        SlotKind::Float => f64::from(f32::from_bits(words[0])).abs() < 1e-6,
        SlotKind::Id => id(words) == 0,
    }
}

/// An id of its two words.
#[inline]
pub(crate) fn id(words: &[u32]) -> i64 {
    (u64::from(words[0]) | u64::from(words[1]) << 32) as i64
}

/// Where the slots of a sample begin.
pub(crate) const FIRST_SLOT: usize = KEY_WORDS;

/// The slots of a sample with the words of their values.
pub(crate) fn fields<'a>(
    record: &'a [u32],
    slots: &'a [Slot],
) -> impl Iterator<Item = (&'a Slot, &'a [u32])> {
    let mut rest = &record[FIRST_SLOT..];
    slots.iter().filter(|slot| slot.used).map(move |slot| {
        let (values, behind) = rest[1..].split_at(rest[0] as usize * slot.width());
        rest = behind;
        (slot, values)
    })
}

/// Whether a sample has these slots and nothing more.
fn fits(record: &[u32], slots: &[Slot]) -> bool {
    let Some(mut rest) = record.get(FIRST_SLOT..) else { return false };
    for slot in slots.iter().filter(|slot| slot.used) {
        let Some((&count, values)) = rest.split_first() else { return false };
        let n_words = (count as usize).saturating_mul(slot.width());
        let Some((_, behind)) = values.split_at_checked(n_words) else { return false };
        let is_empty = count == 0 && slot.dense.is_some();
        if is_empty || slot.n_dense().is_some_and(|n| n != count as usize) {
            return false;
        }
        rest = behind;
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::multi_slot::MultiSlot;

    fn slots() -> Vec<Slot> {
        vec![Slot::floats("x"), Slot::ids("c")]
    }

    fn read(lines: &[&str]) -> Records {
        let (parser, mut records) = (MultiSlot::new(&slots()).unwrap(), Records::default());
        for line in lines {
            if parser.parse(line.as_bytes(), &mut records).is_ok() {
                records.commit();
            }
        }
        records
    }

    #[test]
    fn what_was_not_committed_is_dropped() {
        let records = read(&["1 0.5 1 7", "1 0.5 1 x", "2 1 2 1 -9"]);
        assert_eq!(records.len(), 2);
        let mut text = Vec::new();
        (0..2).for_each(|at| records.write_text(at, &slots(), &mut text));
        assert_eq!(text, b"1 0.5 1 7\n2 1 2 1 18446744073709551607\n");
    }

    #[test]
    fn bytes_come_back_and_others_are_refused() {
        let records = read(&["1 0.5 1 7", "2 1 2 1 -9"]);
        let mut bytes = Vec::new();
        (0..2).for_each(|at| records.write_bytes(at, &mut bytes));
        let mut back = Records::default();
        back.read_bytes(&bytes, &slots()).unwrap();
        assert_eq!(back, records);
        assert!(Records::default().read_bytes(&bytes[..bytes.len() - 1], &slots()).is_none());
        assert!(Records::default().read_bytes(&bytes, &[Slot::ids("c")]).is_none());
        assert!(Records::default().read_bytes(&[255; 8], &slots()).is_none());
    }
}
