//! Ragged offsets ("level of detail"): where each sequence of a batch begins and ends.

use std::sync::Arc;

use crate::{Error, Result, list_or_give_up};

/// Offsets per level, outermost first: `[[0, 2, 5]]` is a sequence of 2 rows and one of 3.
///
/// Copying one is copying a pointer; a tensor without sequences holds none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lod(Option<Arc<Vec<Vec<usize>>>>);

impl Lod {
    /// No sequences.
    pub const NONE: Lod = Lod(None);

    /// Offsets as given; [`Lod::check`] says whether they describe a tensor.
    pub fn from_offsets(levels: Vec<Vec<usize>>) -> Self {
        if levels.is_empty() { Lod(None) } else { Lod(Some(Arc::new(levels))) }
    }

    /// One level from the length of each sequence.
    pub fn from_lengths(lengths: impl IntoIterator<Item = usize>) -> Self {
        Self::from_offsets(vec![offsets(lengths)])
    }

    /// All levels from the lengths of the sequences, outermost first.
    pub fn from_recursive_lengths(levels: &[Vec<usize>]) -> Self {
        Self::from_offsets(levels.iter().map(|level| offsets(level.iter().copied())).collect())
    }

    /// The offsets, outermost level first.
    pub fn levels(&self) -> &[Vec<usize>] {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }

    /// Lengths of the sequences per level.
    pub fn lengths(&self) -> Vec<Vec<usize>> {
        let level = |offsets: &Vec<usize>| list_or_give_up(offsets.windows(2).map(|w| w[1] - w[0]));
        self.levels().iter().map(level).collect()
    }

    /// How many levels.
    pub fn n_levels(&self) -> usize {
        self.levels().len()
    }

    /// Whether there are no sequences.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The innermost offsets: they count rows of the tensor.
    pub fn last(&self) -> Option<&[usize]> {
        self.levels().last().map(Vec::as_slice)
    }

    /// The offsets without their innermost level, as pooling leaves them.
    pub fn without_last(&self) -> Self {
        match self.levels() {
            [] | [_] => Self::NONE,
            [outer @ .., _] => Self::from_offsets(outer.to_vec()),
        }
    }

    /// Checks that offsets begin at 0, never fall, nest, and end at `n_rows`.
    pub fn check(&self, n_rows: usize) -> Result<()> {
        let bad = |why: String| Err(Error::BadLod(why));
        let levels = self.levels();
        for (depth, offsets) in levels.iter().enumerate() {
            if offsets.len() < 2 || offsets[0] != 0 {
                return bad(format!(
                    "level {depth} must begin with 0 and hold two offsets or more"
                ));
            }
            if offsets.windows(2).any(|w| w[1] < w[0]) {
                return bad(format!("the offsets of level {depth} fall"));
            }
            let end = offsets[offsets.len() - 1];
            let below = levels.get(depth + 1).map_or(n_rows, |next| next.len().saturating_sub(1));
            if end != below {
                return bad(format!("level {depth} ends at {end}, but there are {below} below it"));
            }
        }
        Ok(())
    }
}

fn offsets(lengths: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let mut end = 0;
    let ends = lengths.into_iter().map(|length| {
        end += length;
        end
    });
    list_or_give_up(std::iter::once(0).chain(ends))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_become_offsets_and_back() {
        let lod = Lod::from_lengths([2, 0, 3]);
        assert_eq!(lod.levels(), &[vec![0, 2, 2, 5]]);
        assert_eq!(lod.lengths(), vec![vec![2, 0, 3]]);
        assert!(lod.check(5).is_ok());
    }

    #[test]
    fn refuses_offsets_that_do_not_fit() {
        assert!(Lod::from_lengths([2, 3]).check(6).is_err());
        assert!(Lod::from_offsets(vec![vec![0, 3, 2]]).check(2).is_err());
        assert!(Lod::from_offsets(vec![vec![0, 2], vec![0, 1]]).check(1).is_err());
        assert!(Lod::from_offsets(vec![vec![1, 2]]).check(2).is_err());
        assert!(Lod::from_offsets(vec![vec![0, 0], vec![]]).check(0).is_err());
    }
}
