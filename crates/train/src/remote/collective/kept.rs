//! The state that trainers without servers keep of each other, so that one that died can come back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tensor::Value;

use crate::error::Result;
use crate::recover::{
    ByteReader, ByteWriter, LocalState, ReadValues, WriteValues, compacted, digest_tensor,
};

/// Shorter values are not compared: every trainer keeps those of all.
const COMPARED_BYTES_MIN: usize = 1024;

/// When a journal has so many parts, they become one.
const PARTS_MAX: usize = 64;

/// Variables by the number of their scope and their name.
type Variables = BTreeMap<u64, BTreeMap<String, Value>>;

/// A cut: what puts any trainer where it was. All trainers have the same one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct KeptCut {
    /// Its number; 0 is the state before anything.
    pub(super) number: u64,
    /// Variables that are the same on all trainers.
    common: Variables,
    /// By rank, what only that trainer has.
    own: Vec<Vec<u8>>,
    /// By rank, the journal of its script, in the parts that came with cuts.
    journals: Vec<Vec<Arc<[u8]>>>,
}

/// A trainer's message to the others at a cut.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Told {
    /// The state that only it has.
    pub(super) own: Vec<u8>,
    /// Its journal since the last cut.
    pub(super) journal: Vec<u8>,
    /// Milliseconds since the last cut.
    pub(super) elapsed_ms: u64,
}

impl Told {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut to = ByteWriter::default();
        to.bytes(&self.own);
        to.bytes(&self.journal);
        to.u64(self.elapsed_ms);
        to.0
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut from = ByteReader::new(bytes);
        let (own, journal) = (from.bytes()?.to_vec(), from.bytes()?.to_vec());
        Ok(Self { own, journal, elapsed_ms: from.u64()? })
    }
}

/// Names and digests of the long variables of a state.
pub(super) fn digests(state: &LocalState) -> Vec<u8> {
    let mut to = ByteWriter::default();
    for (scope, vars) in &state.scopes {
        for (name, value) in vars {
            let tensor = value.tensor().filter(|own| own.bytes().len() >= COMPARED_BYTES_MIN);
            if let Some(tensor) = tensor {
                to.u64(*scope);
                to.str(name);
                to.u64(digest_tensor(0, tensor));
            }
        }
    }
    to.0
}

/// Takes out of a state the variables that are equal on all trainers, by the digests that they sent.
pub(super) fn take_common(state: &mut LocalState, all: &[Vec<u8>]) -> Result<Variables> {
    let mut common: Option<BTreeSet<(u64, &str, u64)>> = None;
    for bytes in all {
        let (mut from, mut own) = (ByteReader::new(bytes), BTreeSet::new());
        while !from.is_empty() {
            own.insert((from.u64()?, from.str()?, from.u64()?));
        }
        common = Some(match common {
            Some(common) => common.intersection(&own).copied().collect(),
            None => own,
        });
    }
    let mut taken = Variables::new();
    for (scope, name, _) in common.unwrap_or_default() {
        let vars = state.scopes.get_mut(&scope);
        if let Some((name, value)) = vars.and_then(|vars| vars.remove_entry(name)) {
            taken.entry(scope).or_default().insert(name, value);
        }
    }
    Ok(taken)
}

impl KeptCut {
    /// The cut after this one.
    pub(super) fn next(&self, common: Variables, told: Vec<Told>) -> Self {
        let mut journals = self.journals.clone();
        journals.resize(told.len(), Vec::new());
        let mut own = Vec::with_capacity(told.len());
        for (journal, told) in journals.iter_mut().zip(told) {
            journal.push(told.journal.into());
            // Repeated parts take no memory.
            if journal.len() >= PARTS_MAX
                && let Some(one) = compacted(&journal.concat())
            {
                *journal = vec![one.into()];
            }
            own.push(told.own);
        }
        Self { number: self.number + 1, common, own, journals }
    }

    /// The state of a trainer.
    pub(super) fn state(&self, rank: usize) -> Result<LocalState> {
        let own = self.own.get(rank).map(Vec::as_slice).unwrap_or_default();
        let mut state = LocalState::from_bytes(own)?;
        for (scope, vars) in &self.common {
            let all = vars.iter().map(|(name, value)| (name.clone(), value.clone()));
            state.scopes.entry(*scope).or_default().extend(all);
        }
        Ok(state)
    }

    /// The journal of a trainer.
    pub(super) fn journal(&self, rank: usize) -> Vec<u8> {
        self.journals.get(rank).map(|parts| parts.concat()).unwrap_or_default()
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut to = ByteWriter::default();
        to.u64(self.number);
        to.count(self.common.len());
        for (scope, vars) in &self.common {
            to.u64(*scope);
            to.count(vars.len());
            for (name, value) in vars {
                to.str(name);
                to.value(value);
            }
        }
        to.count(self.own.len());
        self.own.iter().fold(&mut to, |to, bytes| to.bytes(bytes));
        to.count(self.journals.len());
        (0..self.journals.len()).fold(&mut to, |to, rank| to.bytes(&self.journal(rank)));
        to.0
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut from = ByteReader::new(bytes);
        let mut cut = Self { number: from.u64()?, ..Self::default() };
        for _ in 0..from.count()? {
            let vars = cut.common.entry(from.u64()?).or_default();
            for _ in 0..from.count()? {
                let name = from.str()?.to_string();
                vars.insert(name, from.value()?);
            }
        }
        for _ in 0..from.count()? {
            cut.own.push(from.bytes()?.to_vec());
        }
        for _ in 0..from.count()? {
            cut.journals.push(vec![from.bytes()?.into()]);
        }
        Ok(cut)
    }
}

/// The cut that all go back to: the newest that every trainer has, apart from trainers that have just begun. `None` if all have
/// just begun, or have no cut in common.
pub(super) fn base<'a>(lists: impl Iterator<Item = &'a [u64]>) -> Option<u64> {
    let mut common: Option<Vec<u64>> = None;
    for list in lists.filter(|list| !list.is_empty()) {
        common = Some(match common {
            Some(common) => common.into_iter().filter(|cut| list.contains(cut)).collect(),
            None => list.to_vec(),
        });
    }
    common.unwrap_or_default().into_iter().max()
}

#[cfg(test)]
mod tests {
    use tensor::Tensor;

    use super::*;

    fn state(own: f32) -> LocalState {
        let vars = [("w", 1.0, 300), ("mean", own, 300), ("b", 2.0, 3)];
        let vars = vars.map(|(name, x, n)| (name.to_string(), Value::from(Tensor::full([n], x))));
        LocalState { scopes: [(0, vars.into())].into(), ..LocalState::default() }
    }

    #[test]
    fn what_all_have_is_kept_once() {
        let states = [state(5.0), state(6.0)];
        let all = states.each_ref().map(digests).to_vec();
        let cuts = states.each_ref().map(|state| {
            let mut rest = state.clone();
            let common = take_common(&mut rest, &all).unwrap();
            assert_eq!(common[&0].keys().collect::<Vec<_>>(), ["w"], "`b` is too short");
            (common, rest)
        });
        let told: Vec<Told> = cuts
            .iter()
            .map(|(_, rest)| Told { own: rest.to_bytes(), journal: vec![7], elapsed_ms: 1 })
            .collect();
        assert_eq!(Told::from_bytes(&told[1].to_bytes()).unwrap(), told[1]);
        let [one, other] = cuts.map(|(common, _)| KeptCut::default().next(common, told.clone()));
        assert_eq!(one, other, "all have the same");
        let back = KeptCut::from_bytes(&one.to_bytes()).unwrap();
        assert_eq!(back, one);
        for (rank, state) in states.iter().enumerate() {
            assert_eq!(back.state(rank).unwrap(), *state);
        }
        let next = back.next(Variables::new(), told);
        assert_eq!((next.number, next.journal(1)), (2, vec![7, 7]));
    }

    #[test]
    fn all_go_back_to_the_newest_that_they_share() {
        let check = |lists: &[&[u64]], expected| {
            assert_eq!(base(lists.iter().copied()), expected, "{lists:?}");
        };
        check(&[&[3, 4], &[4, 5], &[]], Some(4));
        check(&[&[0], &[0, 1]], Some(0));
        check(&[&[], &[]], None);
        check(&[&[3], &[4]], None);
    }
}
