//! A map from 64-bit keys to positions: open addressing with five bytes per slot.
//!
//! Keys are in a list in the order of their positions. A slot holds a position and eight bits of
//! the key's hash, so a look-up reads one line of slots and one key. Slots are in segments that
//! grow one at a time, by a quarter: a map of a hundred million keys never stops to move all of
//! them, and never holds twice the memory. A key costs 8 bytes and 6.3 to 7.8 bytes of slots.

use tensor::mix;

/// A place plus one (0: the slot is empty), then bits of the hash.
type HashSlot = [u8; 5];

const N_SEGMENTS_LOG2: u32 = 6;
const EMPTY: HashSlot = [0; 5];
/// Slots of a segment at first.
const SLOTS_MIN: usize = 16;

/// Distinct keys, numbered in the order in which they were added.
#[derive(Debug)]
pub struct KeyMap {
    /// By place.
    keys: Vec<u64>,
    segments: Vec<Segment>,
}

/// Where a key is to be.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Placed {
    key: u64,
    place: u32,
    _unused: u32,
}

#[derive(Clone, Debug, Default)]
struct Segment {
    slots: Vec<HashSlot>,
    n_keys: usize,
}

impl Default for KeyMap {
    fn default() -> Self {
        Self { keys: Vec::new(), segments: vec![Segment::default(); 1 << N_SEGMENTS_LOG2] }
    }
}

impl KeyMap {
    /// A map of keys in the order of their positions, faster than adding them one by one; `None` if
    /// a key occurs twice, or if there are too many.
    pub fn from_keys(keys: Vec<u64>) -> Option<Self> {
        u32::try_from(keys.len()).ok()?.checked_add(1)?;
        let mut ends = [0; 1 << N_SEGMENTS_LOG2];
        keys.iter().for_each(|&key| ends[segment_of(mix(key))] += 1);
        let mut segments: Vec<Segment> = ends.iter().map(|&n| Segment::with_room(n)).collect();
        // Segment by segment: what is filled together stays in the processor's cache.
        let mut n_before = 0;
        for end in &mut ends {
            (*end, n_before) = (n_before, n_before + *end);
        }
        let mut sorted: Vec<Placed> = bytemuck::zeroed_vec(keys.len());
        for (&key, place) in keys.iter().zip(0..) {
            let end = &mut ends[segment_of(mix(key))];
            sorted[*end] = Placed { key, place, _unused: 0 };
            *end += 1;
        }
        for Placed { key, place, .. } in sorted {
            let hash = mix(key);
            let segment = &mut segments[segment_of(hash)];
            if segment.slot_of(&keys, key, hash).is_some() {
                return None;
            }
            segment.n_keys += 1;
            segment.put(hash, place + 1);
        }
        Some(Self { keys, segments })
    }

    /// Removes all keys except the first `n`.
    pub fn truncate(&mut self, n: usize) {
        while let Some(&last) = self.keys.get(n..).and_then(<[u64]>::last) {
            self.remove(last);
        }
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The keys by their positions.
    pub fn keys(&self) -> &[u64] {
        &self.keys
    }

    /// Bytes in use.
    pub fn n_bytes(&self) -> usize {
        let slots: usize = self.segments.iter().map(|segment| segment.slots.len()).sum();
        self.keys.len() * size_of::<u64>() + slots * size_of::<HashSlot>()
    }

    /// The position of a key.
    pub fn find(&self, key: u64) -> Option<usize> {
        let hash = mix(key);
        let segment = &self.segments[segment_of(hash)];
        segment.slot_of(&self.keys, key, hash).map(|at| place(segment.slots[at]))
    }

    /// The position of a key, and whether it was added just now. `None` if there are too many.
    pub fn find_or_make(&mut self, key: u64) -> Option<(usize, bool)> {
        let hash = mix(key);
        let segment = &mut self.segments[segment_of(hash)];
        if let Some(at) = segment.slot_of(&self.keys, key, hash) {
            return Some((place(segment.slots[at]), false));
        }
        let new = u32::try_from(self.keys.len() + 1).ok()?;
        self.keys.push(key);
        segment.n_keys += 1;
        if segment.n_keys * 5 > segment.slots.len() * 4 {
            segment.grow(&self.keys);
        }
        segment.put(hash, new);
        Some((self.keys.len() - 1, true))
    }

    /// Removes a key. The last key moves to its position, which is returned.
    pub fn remove(&mut self, key: u64) -> Option<usize> {
        let hash = mix(key);
        let segment = &mut self.segments[segment_of(hash)];
        let at = segment.slot_of(&self.keys, key, hash)?;
        let freed = place(segment.slots[at]);
        segment.clear(at, &self.keys);
        let last = self.keys.len() - 1;
        if freed != last {
            let hash = mix(self.keys[last]);
            let segment = &mut self.segments[segment_of(hash)];
            if let Some(at) = segment.slot_of(&self.keys, self.keys[last], hash) {
                segment.slots[at] = slot(freed as u32 + 1, hash);
            }
        }
        self.keys.swap_remove(freed);
        Some(freed)
    }
}

fn segment_of(hash: u64) -> usize {
    (hash >> (64 - N_SEGMENTS_LOG2)) as usize
}

fn slot(place_plus_one: u32, hash: u64) -> HashSlot {
    let [a, b, c, d] = place_plus_one.to_le_bytes();
    [a, b, c, d, hash as u8]
}

fn place([a, b, c, d, _]: HashSlot) -> usize {
    u32::from_le_bytes([a, b, c, d]) as usize - 1
}

impl Segment {
    /// An empty segment that so many keys fit into.
    fn with_room(n_keys: usize) -> Self {
        let n_slots = if n_keys == 0 { 0 } else { (n_keys + n_keys / 3).max(SLOTS_MIN) };
        Self { slots: vec![EMPTY; n_slots], n_keys: 0 }
    }

    /// The slot where a search begins: the bits below those that choose the segment, scaled.
    fn home(&self, hash: u64) -> usize {
        let fraction = u128::from(hash << N_SEGMENTS_LOG2);
        ((fraction * self.slots.len() as u128) >> 64) as usize
    }

    fn next(&self, at: usize) -> usize {
        if at + 1 == self.slots.len() { 0 } else { at + 1 }
    }

    fn slot_of(&self, keys: &[u64], key: u64, hash: u64) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let mut at = self.home(hash);
        loop {
            let slot = self.slots[at];
            if slot[..4] == EMPTY[..4] {
                return None;
            }
            if slot[4] == hash as u8 && keys[place(slot)] == key {
                return Some(at);
            }
            at = self.next(at);
        }
    }

    fn put(&mut self, hash: u64, place_plus_one: u32) {
        let mut at = self.home(hash);
        while self.slots[at][..4] != EMPTY[..4] {
            at = self.next(at);
        }
        self.slots[at] = slot(place_plus_one, hash);
    }

    fn grow(&mut self, keys: &[u64]) {
        let n_slots = (self.slots.len() + self.slots.len() / 4).max(SLOTS_MIN);
        let old = std::mem::replace(&mut self.slots, vec![EMPTY; n_slots]);
        for slot in old.into_iter().filter(|slot| slot[..4] != EMPTY[..4]) {
            let place = place(slot);
            self.put(mix(keys[place]), place as u32 + 1);
        }
    }

    /// Empties a slot. Later slots that may use it move up, so that no search ends early.
    fn clear(&mut self, mut hole: usize, keys: &[u64]) {
        self.n_keys -= 1;
        let n = self.slots.len();
        let mut at = self.next(hole);
        while self.slots[at][..4] != EMPTY[..4] {
            let home = self.home(mix(keys[place(self.slots[at])]));
            // How far a slot is from where its search began, and from the hole.
            if (at + n - home) % n >= (at + n - hole) % n {
                self.slots[hole] = self.slots[at];
                hole = at;
            }
            at = self.next(at);
        }
        self.slots[hole] = EMPTY;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn behaves_like_a_map_that_fills_holes_from_its_end() {
        let (mut map, mut model) = (KeyMap::default(), HashMap::new());
        let mut listed: Vec<u64> = Vec::new();
        for step in 0..60_000u64 {
            // Keys repeat, and some are as large as keys get.
            let key = (mix(step) % 9_000).wrapping_sub(4_500);
            if mix(step * 3 + 1).is_multiple_of(4) {
                let freed = map.remove(key);
                assert_eq!(freed, model.remove(&key), "step {step}");
                if let Some(freed) = freed {
                    listed.swap_remove(freed);
                    if let Some(moved) = listed.get(freed) {
                        model.insert(*moved, freed);
                    }
                }
            } else {
                let is_new = !model.contains_key(&key);
                let place = *model.entry(key).or_insert(listed.len());
                if is_new {
                    listed.push(key);
                }
                assert_eq!(map.find_or_make(key), Some((place, is_new)), "step {step}");
            }
        }
        assert_eq!(map.keys(), listed);
        assert!(listed.len() > 5_000);
        for key in (0..9_000u64).map(|key| key.wrapping_sub(4_500)) {
            assert_eq!(map.find(key), model.get(&key).copied());
        }
    }

    #[test]
    fn a_map_of_many_keys_is_the_same_as_one_by_one() {
        for n in [0, 1, 15, 16, 17, 50_000u64] {
            let keys: Vec<u64> = (0..n).map(|n| mix(n) >> (n % 60)).collect();
            let mut one_by_one = KeyMap::default();
            let is_twice =
                keys.iter().any(|&key| !one_by_one.find_or_make(key).is_some_and(|(_, new)| new));
            let unique = one_by_one.keys().to_vec();
            let mut map = KeyMap::from_keys(unique.clone()).unwrap();
            for (&key, place) in unique.iter().zip(0..) {
                assert_eq!(map.find(key), Some(place));
            }
            assert_eq!(map.find(u64::MAX), None);
            for key in (0..2000).map(|key| key * 977) {
                assert_eq!(map.find_or_make(key), one_by_one.find_or_make(key));
            }
            assert_eq!(KeyMap::from_keys(keys).is_none(), is_twice);
            map.truncate(unique.len());
            assert_eq!(map.keys(), unique);
            assert!(unique.iter().zip(0..).all(|(&key, place)| map.find(key) == Some(place)));
            map.truncate(3);
            assert_eq!((map.len(), map.find(u64::MAX - 1)), (unique.len().min(3), None));
        }
    }

    #[test]
    fn a_key_costs_sixteen_bytes_at_most() {
        let mut map = KeyMap::default();
        for n in 1..200_000u64 {
            map.find_or_make(n * 1_000_003);
            if n > 20_000 {
                assert!(map.n_bytes() as u64 <= 16 * n, "{} bytes for {n} keys", map.n_bytes());
            }
        }
    }
}
