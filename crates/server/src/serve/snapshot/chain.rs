//! Which cuts the files of a folder can bring back, by which files, and which files are of no use.
//!
//! A base has everything at its cut. An increment has what changed since the cut that it follows. Rules
//! without a disk.

use super::header::{CutId, FileKind, Header};

/// A file of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::serve) struct Known {
    pub(in crate::serve) kind: FileKind,
    pub(in crate::serve) at: CutId,
    /// The cut before, of an increment.
    pub(in crate::serve) after: CutId,
    pub(in crate::serve) n_bytes: u64,
    /// The job can go back to it; else it only has what a cut behind it follows.
    pub(in crate::serve) is_cut: bool,
}

impl Known {
    /// The file with this header.
    pub(in crate::serve) fn new(header: &Header, n_bytes: u64) -> Self {
        let Header { kind, at, after, .. } = *header;
        Self { kind, at, after, n_bytes, is_cut: header.is_cut() }
    }

    /// Its name in the folder. What is no cut may have the number of a file that others wrote there.
    pub(in crate::serve) fn name(&self) -> String {
        let word = if self.kind == FileKind::Base { "base" } else { "cut" };
        if self.is_cut {
            format!("{word}.{}", self.at.cut)
        } else {
            format!("{word}.{}.{:016x}", self.at.cut, self.at.id)
        }
    }
}

/// Bases that are kept of those that all servers have gone beyond: if one turns out to be damaged, the
/// other one and the increments since bring back the same.
const BASES_KEPT: usize = 2;

/// The files of a folder, ascending by cut, a base behind the increment of the same cut.
#[derive(Debug, Default)]
pub(in crate::serve) struct Chain(Vec<Known>);

impl Chain {
    /// Adds a file.
    pub(in crate::serve) fn add(&mut self, file: Known) {
        let place = |known: &Known| (known.at.cut, known.kind == FileKind::Base);
        let at = self.0.partition_point(|known| place(known) < place(&file));
        self.0.insert(at, file);
    }

    /// Removes a file.
    pub(in crate::serve) fn remove(&mut self, file: &Known) {
        self.0.retain(|known| known != file);
    }

    /// The files.
    pub(in crate::serve) fn files(&self) -> &[Known] {
        &self.0
    }

    fn bases(&self) -> impl DoubleEndedIterator<Item = &Known> {
        self.0.iter().filter(|file| file.kind == FileKind::Base)
    }

    fn increments(&self) -> impl DoubleEndedIterator<Item = &Known> {
        self.0.iter().filter(|file| file.kind == FileKind::Increment)
    }

    /// Whether a file has a second copy. A base beside an increment of the same cut has none: the cut comes back without it.
    pub(in crate::serve) fn is_copied(&self, file: &Known) -> bool {
        file.kind == FileKind::Increment || !self.increments().any(|other| other.at == file.at)
    }

    /// A base and the increments that follow it, one after the other.
    fn from<'a>(&'a self, base: &'a Known) -> impl Iterator<Item = &'a Known> {
        let mut last = base.at;
        let follow = self.increments().filter(move |file| {
            let follows = file.after == last;
            if follows {
                last = file.at;
            }
            follows
        });
        std::iter::once(base).chain(follow)
    }

    /// Cuts that can be brought back, ascending.
    pub(in crate::serve) fn cuts(&self) -> Vec<CutId> {
        let files = self.bases().flat_map(|base| self.from(base)).filter(|file| file.is_cut);
        let mut cuts: Vec<CutId> = files.map(|file| file.at).collect();
        cuts.sort_unstable_by_key(|at| (at.cut, at.id));
        cuts.dedup();
        cuts
    }

    /// The ways to bring a cut back, the shortest first: the files in the order in which they are read.
    pub(in crate::serve) fn ways_to(&self, cut: u64) -> Vec<Vec<Known>> {
        let way = |base: &Known| {
            let files: Vec<Known> =
                self.from(base).take_while(|file| file.at.cut <= cut).cloned().collect();
            files.last().is_some_and(|last| last.at.cut == cut).then_some(files)
        };
        self.bases().rev().filter_map(way).collect()
    }

    /// The increment that follows nothing that is here, if there is one, with what is here instead: the
    /// last cut before it.
    pub(in crate::serve) fn gap(&self) -> Option<(&Known, Option<CutId>)> {
        let is_known = |at: CutId| self.0.iter().any(|file| file.at == at);
        let first = self.bases().next().map_or(0, |base| base.at.cut);
        let mut later = self.increments().filter(|file| file.at.cut > first);
        let alone = later.find(|file| !is_known(file.after))?;
        let before = self.0.iter().rfind(|file| file.at.cut < alone.at.cut).map(|file| file.at);
        Some((alone, before))
    }

    /// Files that nobody will ask for when all servers have kept a cut.
    pub(in crate::serve) fn useless(&self, complete: u64) -> Vec<Known> {
        let mut older = self.bases().rev().filter(|base| base.at.cut <= complete);
        let Some(first) = older.nth(BASES_KEPT - 1).map(|base| base.at.cut) else {
            return Vec::new();
        };
        let is_older = |file: &&Known| match file.kind {
            FileKind::Base => file.at.cut < first,
            _ => file.at.cut <= first,
        };
        self.0.iter().filter(is_older).cloned().collect()
    }

    /// Files of cuts after this one.
    pub(in crate::serve) fn after(&self, cut: u64) -> Vec<Known> {
        self.0.iter().filter(|file| file.at.cut > cut).cloned().collect()
    }

    /// What would have to be read.
    pub(in crate::serve) fn weight(&self) -> Weight {
        let Some(base) = self.bases().next_back() else { return Weight::default() };
        let since = || self.increments().filter(|file| file.at.cut > base.at.cut);
        Weight {
            base: base.n_bytes,
            since: since().map(|file| file.n_bytes).sum(),
            n_since: since().count() as u64,
        }
    }
}

/// Bytes of the newest base, and of the increments since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::serve) struct Weight {
    pub(in crate::serve) base: u64,
    pub(in crate::serve) since: u64,
    /// How many increments there are.
    pub(in crate::serve) n_since: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(cut: u64) -> CutId {
        CutId { cut, id: 100 + cut }
    }

    fn base(cut: u64) -> Known {
        let (kind, after) = (FileKind::Base, CutId::default());
        Known { kind, at: at(cut), after, n_bytes: 10, is_cut: true }
    }

    fn cut(after: u64, cut: u64) -> Known {
        let (kind, after) = (FileKind::Increment, at(after));
        Known { kind, at: at(cut), after, n_bytes: 1, is_cut: true }
    }

    fn chain(files: impl IntoIterator<Item = Known>) -> Chain {
        let mut chain = Chain::default();
        files.into_iter().for_each(|file| chain.add(file));
        chain
    }

    fn cuts(chain: &Chain) -> Vec<u64> {
        chain.cuts().iter().map(|at| at.cut).collect()
    }

    fn names(files: &[Known]) -> Vec<String> {
        files.iter().map(Known::name).collect()
    }

    #[test]
    fn a_cut_comes_back_by_the_newest_base_before_it() {
        // Cut 3 failed.
        let chain = chain([cut(4, 5), base(0), cut(0, 1), base(2), cut(1, 2), cut(2, 4)]);
        assert_eq!(cuts(&chain), [0, 1, 2, 4, 5]);
        let ways = chain.ways_to(4);
        assert_eq!(names(&ways[0]), ["base.2", "cut.4"]);
        assert_eq!(names(&ways[1]), ["base.0", "cut.1", "cut.2", "cut.4"]);
        assert_eq!(chain.ways_to(3), Vec::<Vec<Known>>::new());
        assert_eq!(chain.gap(), None);
        assert_eq!(chain.weight(), Weight { base: 10, since: 2, n_since: 2 });
        assert_eq!(names(&chain.after(2)), ["cut.4", "cut.5"]);
    }

    #[test]
    fn what_is_no_cut_is_followed_by_cuts_and_not_gone_back_to() {
        let no_cut = |file: Known| Known { is_cut: false, ..file };
        let mut chain = chain([no_cut(base(3)), no_cut(cut(3, 5))]);
        assert_eq!((cuts(&chain), chain.gap()), (vec![], None));
        chain.add(cut(5, 9));
        assert_eq!((cuts(&chain), chain.gap()), (vec![9], None));
        let way = names(&chain.ways_to(9)[0]);
        assert_eq!(way, ["base.3.0000000000000067", "cut.5.0000000000000069", "cut.9"]);
    }

    #[test]
    fn what_follows_nothing_is_a_gap() {
        let mut chain = chain([base(0), cut(0, 1), cut(2, 3), cut(3, 4)]);
        assert_eq!(cuts(&chain), [0, 1]);
        let (alone, before) = chain.gap().unwrap();
        assert_eq!((alone.name(), before), ("cut.3".to_string(), Some(at(1))));
        chain.add(base(2));
        assert_eq!(chain.gap(), None);
        assert_eq!(cuts(&chain), [0, 1, 2, 3, 4], "nobody misses cut 2 of the first base");
        let foreign = Known { after: CutId { cut: 4, id: 7 }, ..cut(4, 5) };
        chain.add(foreign.clone());
        assert_eq!(chain.gap(), Some((&foreign, Some(at(4)))));
        assert_eq!(cuts(&chain), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn two_bases_are_kept_and_all_that_somebody_may_ask_for() {
        let files = [base(0), cut(0, 1), cut(1, 2), base(2), cut(2, 3), cut(3, 4), base(4)];
        let all = chain(files.into_iter().chain([cut(4, 5), cut(5, 6), base(6)]));
        assert_eq!(all.useless(3), [], "base.2 is the only one that may be gone back to");
        assert_eq!(names(&all.useless(4)), ["base.0", "cut.1", "cut.2"]);
        assert_eq!(names(&all.useless(5)), ["base.0", "cut.1", "cut.2"]);
        assert_eq!(
            names(&all.useless(6)),
            ["base.0", "cut.1", "cut.2", "base.2", "cut.3", "cut.4"]
        );
        let mut rest = Chain(all.files().to_vec());
        all.useless(4).iter().for_each(|file| rest.remove(file));
        assert_eq!((cuts(&rest), rest.gap()), (vec![2, 3, 4, 5, 6], None));
        // Removed in order, and the machine stopped after the first.
        let mut rest = Chain(all.files().to_vec());
        rest.remove(&base(0));
        assert_eq!(rest.gap(), None, "what is before the first base is of no use");
        assert_eq!(cuts(&rest), [2, 3, 4, 5, 6]);
    }
}
