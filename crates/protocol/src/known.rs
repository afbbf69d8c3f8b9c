//! The key of the first process that came with each number: no other process can use the number afterwards.

use std::collections::BTreeMap;

use wire::Millis;

use crate::public_key::PublicKey;

/// The key that a process has shown, and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownKey {
    /// The key.
    pub key: PublicKey,
    /// The address of the process.
    pub from: String,
}

/// A key that is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownKey {
    /// The key that was shown.
    pub shown: ShownKey,
    /// When.
    pub since: Millis,
}

/// The keys of the processes that have each number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownKeys(BTreeMap<u32, KnownKey>);

impl KnownKeys {
    /// The other process that has this number, if there is one.
    pub fn rival(&self, number: u32, key: PublicKey) -> Option<&KnownKey> {
        self.0.get(&number).filter(|known| known.shown.key != key)
    }

    /// Whether a process with this key has a number.
    pub fn has(&self, key: PublicKey) -> bool {
        self.0.values().any(|known| known.shown.key == key)
    }

    /// Remembers the first key of a number; whether it is a new one.
    pub fn keep(&mut self, number: u32, shown: &ShownKey, now: Millis) -> bool {
        let is_new = !self.0.contains_key(&number);
        let known = || KnownKey { shown: shown.clone(), since: now };
        self.0.entry(number).or_insert_with(known);
        is_new
    }

    /// A line for each number: the number, the key and the address.
    pub fn to_text(&self) -> String {
        let line = |(number, known): (&u32, &KnownKey)| {
            format!("{number} {} {}\n", known.shown.key, known.shown.from)
        };
        self.0.iter().map(line).collect()
    }

    /// Reads what was written; lines that are none are left out.
    pub fn from_text(text: &str) -> Self {
        let known = |line: &str| {
            let mut fields = line.splitn(3, ' ');
            let number = fields.next()?.parse().ok()?;
            let key = PublicKey::read(fields.next()?)?;
            let from = fields.next()?.to_string();
            Some((number, KnownKey { shown: ShownKey { key, from }, since: Millis(0) }))
        };
        Self(text.lines().filter_map(known).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_one_has_the_number() {
        let shown = |byte| ShownKey { key: PublicKey([byte; 32]), from: format!("10.0.0.{byte}") };
        let (one, other) = (shown(1), shown(2));
        let mut known = KnownKeys::default();
        assert!(known.rival(0, other.key).is_none());
        assert!(known.keep(0, &one, Millis(5)) && !known.keep(0, &other, Millis(6)));
        assert_eq!(known.rival(0, one.key), None);
        let rival = known.rival(0, other.key).unwrap();
        assert_eq!((rival.shown.from.as_str(), rival.since), ("10.0.0.1", Millis(5)));
        assert!(known.has(one.key) && !known.has(other.key));
        let again = KnownKeys::from_text(&format!("{}\nnonsense\n7 zz a\n", known.to_text()));
        assert!(again.rival(0, one.key).is_none() && again.rival(0, other.key).is_some());
        assert!(again.rival(7, one.key).is_none());
    }
}
