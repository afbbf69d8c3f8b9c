//! Which keys are asked for most, in little memory: a few counters, of which the smallest is given to a
//! key that has none (the "space saving" algorithm). Keys that are really hot keep theirs.

use std::collections::BTreeMap;

/// Keys with a counter.
const COUNTED: usize = 128;
/// Keys that count as the hottest.
const HOTTEST: usize = 16;
/// Keys of one look-up that are counted; they are spread over it.
const OF_ONE: usize = 16;
/// After so many, old ones count half.
const FADE: u64 = 1 << 20;

#[derive(Debug)]
pub(crate) struct HotKeys {
    counts: BTreeMap<i64, u64>,
    n: u64,
    /// Which of the keys of a look-up are counted changes.
    turn: usize,
}

impl HotKeys {
    pub(crate) const fn new() -> Self {
        Self { counts: BTreeMap::new(), n: 0, turn: 0 }
    }

    /// Counts some of these keys.
    pub(crate) fn see(&mut self, keys: &[i64]) {
        let every = keys.len().div_ceil(OF_ONE).max(1);
        self.turn = self.turn.wrapping_add(1);
        for &key in keys.iter().skip(self.turn % every).step_by(every) {
            self.count(key);
        }
        if self.n >= FADE {
            self.n /= 2;
            self.counts.values_mut().for_each(|count| *count /= 2);
        }
    }

    fn count(&mut self, key: i64) {
        self.n += 1;
        if let Some(count) = self.counts.get_mut(&key) {
            *count += 1;
        } else if self.counts.len() < COUNTED {
            self.counts.insert(key, 1);
        } else if let Some((&least, &count)) = self.counts.iter().min_by_key(|(_, count)| **count) {
            self.counts.remove(&least);
            self.counts.insert(key, count + 1);
        }
    }

    /// The share of the hottest keys; what a counter may have from others is not theirs.
    pub(crate) fn share(&self) -> f64 {
        let mut counts: Vec<u64> = self.counts.values().copied().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let least = if counts.len() < COUNTED { 0 } else { counts.last().copied().unwrap_or(0) };
        let hot: u64 = counts.iter().take(HOTTEST).map(|count| count.saturating_sub(least)).sum();
        hot as f64 / self.n.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_keys_have_no_hot_ones() {
        let mut hot = HotKeys::new();
        assert_eq!(hot.share(), 0.0);
        for batch in 0..1000 {
            let keys: Vec<i64> = (0..100).map(|at| batch * 100 + at).collect();
            hot.see(&keys);
        }
        assert!(hot.share() < 0.02, "{}", hot.share());
        assert_eq!(hot.counts.len(), COUNTED);
    }

    #[test]
    fn hot_keys_are_found_among_many() {
        let mut hot = HotKeys::new();
        for batch in 0..2000 {
            // Half of the keys are the same ten in every batch.
            let keys: Vec<i64> = (0..20)
                .map(|at| if at % 2 == 0 { at / 2 } else { 1000 + batch * 20 + at })
                .collect();
            hot.see(&keys);
        }
        let share = hot.share();
        assert!((0.4..0.6).contains(&share), "{share}");
    }
}
