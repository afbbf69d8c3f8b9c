//! A server's disk: writes that were reported durable survive a crash; those under way may be there,
//! torn or lost, in any order.

use std::collections::{BTreeMap, BTreeSet};

use protocol::server::{CutRecord, OnDisk};

use super::Rng;
use super::ledger::Ledger;

/// A server's file of a cut.
#[derive(Clone, Debug)]
pub struct File {
    /// The record of the protocol.
    pub record: CutRecord,
    /// The contents of the store.
    pub ledger: Ledger,
    /// The journals of all cuts up to this one.
    pub journal: Vec<u8>,
    /// Whether its checksum is right.
    is_whole: bool,
    /// It is listed, but cannot be loaded.
    is_damaged: bool,
    /// It can be loaded, but a journal up to it cannot be read.
    lost_journal: bool,
}

/// Something that was begun, and is not durable yet.
#[derive(Debug)]
enum Write {
    Cut(Box<File>),
    Delete(u64),
    Term(u64),
}

/// A disk.
#[derive(Debug, Default)]
pub struct Disk {
    files: BTreeMap<u64, File>,
    term: u64,
    under_way: Vec<Write>,
    /// Writes are durable at once: for servers that are driven by sockets.
    pub is_prompt: bool,
    /// How many cuts it keeps before the one that all servers have kept.
    pub n_older: usize,
    /// Cuts that were written so far.
    n_cuts: u64,
    /// A planted bug: if a cut cannot be loaded, the one before is.
    pub loads_another: bool,
    /// A planted bug: a cut whose journal cannot be read stays listed.
    pub recalls_in_vain: bool,
    /// A planted bug: torn files are not noticed.
    pub trusts_all: bool,
    /// A planted bug: the last write is reported as durable and is not.
    pub is_lazy: bool,
}

impl Disk {
    /// The disk of a server that resumes from a cut of others.
    pub fn from_others(record: CutRecord, ledger: Ledger) -> Self {
        let cut = record.cut;
        let term = record.term;
        let journal = record.journal.to_vec();
        let lost_journal = false;
        let file =
            File { record, ledger, journal, is_whole: true, is_damaged: false, lost_journal };
        Self { files: BTreeMap::from([(cut, file)]), term, ..Self::default() }
    }

    /// Cuts that were written so far.
    pub fn n_cuts(&self) -> u64 {
        self.n_cuts
    }

    /// Whether a cut is being written.
    pub fn writes_cut(&self) -> bool {
        self.under_way.iter().any(|write| matches!(write, Write::Cut(_)))
    }

    /// Whether there are cuts to go back to, should the newest be damaged.
    pub fn has_older(&self) -> bool {
        self.whole().count() >= 3
            && !self.files.values().any(|file| file.is_damaged || file.lost_journal)
    }

    /// Damages the newest cut, so that it cannot be loaded or the trainers' part of its journal cannot be read, unless
    /// there are too few.
    pub fn damage_newest(&mut self, in_journal: bool) -> bool {
        if !self.has_older() {
            return false;
        }
        let newest = self.files.values_mut().rev().find(|file| file.is_whole);
        let damage = |file: &mut File| {
            if in_journal { file.lost_journal = true } else { file.is_damaged = true }
        };
        newest.map(damage).is_some()
    }

    /// The journals of all cuts up to one. If one is damaged, no cut that needs it is listed again.
    pub fn recall(&mut self, cut: u64) -> Option<Vec<u8>> {
        let file = self.file(cut)?;
        if !file.lost_journal {
            return Some(file.journal.clone());
        }
        if !self.recalls_in_vain {
            let needs = self.files.range_mut(cut..).filter(|(_, file)| file.lost_journal);
            needs.for_each(|(_, file)| file.is_whole = false);
        }
        None
    }

    /// The file of a cut, to go back to it. One that is damaged is put aside.
    pub fn load(&mut self, cut: u64) -> Option<File> {
        let file = self.file(cut)?.clone();
        if !file.is_damaged {
            return Some(file);
        }
        if self.loads_another {
            return self.whole().rev().find(|(at, _)| **at < cut).map(|(_, file)| file.clone());
        }
        self.files.entry(cut).and_modify(|file| file.is_whole = false);
        None
    }

    /// The contents that a new process finds.
    pub fn on_disk(&self) -> OnDisk {
        let cuts = self.whole().map(|(&cut, _)| cut).collect();
        let state = self.last().map_or_else(Vec::new, |file| file.record.state.to_vec());
        OnDisk { term: self.term, cuts, state }
    }

    /// Cuts that will be there when what was begun is durable.
    pub fn cuts(&self) -> Vec<u64> {
        let mut cuts: BTreeSet<u64> = self.whole().map(|(&cut, _)| cut).collect();
        for write in &self.under_way {
            match write {
                Write::Cut(file) => drop(cuts.insert(file.record.cut)),
                Write::Delete(cut) => drop(cuts.remove(cut)),
                Write::Term(_) => {}
            }
        }
        cuts.into_iter().collect()
    }

    fn whole(&self) -> impl DoubleEndedIterator<Item = (&u64, &File)> {
        self.files.iter().filter(|(_, file)| file.is_whole || self.trusts_all)
    }

    /// The file of a cut, if it is whole.
    pub fn file(&self, cut: u64) -> Option<&File> {
        self.whole().find(|(at, _)| **at == cut).map(|(_, file)| file)
    }

    /// The last cut that is whole.
    pub fn last(&self) -> Option<&File> {
        self.whole().next_back().map(|(_, file)| file)
    }

    /// Begins to write a cut, and to remove those that are obsolete.
    pub fn begin_cut(&mut self, record: CutRecord, ledger: Ledger) {
        self.settle();
        let before = self.files.range(..record.cut).next_back();
        let lost_journal = before.is_some_and(|(_, file)| file.lost_journal);
        let mut journal = before.map_or_else(Vec::new, |(_, file)| file.journal.clone());
        journal.extend_from_slice(&record.journal.to_vec());
        let old = self.files.range(..record.complete).rev().skip(self.n_older);
        let old: Vec<Write> = old.map(|(&cut, _)| Write::Delete(cut)).collect();
        let file =
            File { record, ledger, journal, is_whole: true, is_damaged: false, lost_journal };
        self.under_way.push(Write::Cut(Box::new(file)));
        self.under_way.extend(old);
        self.settle_if(self.is_prompt);
    }

    /// Begins to go back to a cut.
    pub fn begin_rollback(&mut self, cut: u64, term: u64) {
        self.settle();
        let later: Vec<u64> = self.files.range(cut + 1..).map(|(&later, _)| later).collect();
        self.under_way.extend(later.into_iter().map(Write::Delete));
        self.under_way.push(Write::Term(term));
        self.settle_if(self.is_prompt);
    }

    /// Makes the writes under way durable.
    pub fn commit(&mut self) {
        self.settle_if(!self.is_lazy);
    }

    fn settle_if(&mut self, is_so: bool) {
        if is_so {
            self.settle();
        }
    }

    fn settle(&mut self) {
        for write in std::mem::take(&mut self.under_way) {
            self.apply(write);
        }
    }

    fn apply(&mut self, write: Write) {
        match write {
            Write::Cut(file) => {
                self.n_cuts += 1;
                self.files.insert(file.record.cut, *file);
            }
            Write::Delete(cut) => drop(self.files.remove(&cut)),
            Write::Term(term) => self.term = term,
        }
    }

    /// The machine stops in the middle of what was begun.
    pub fn crash(&mut self, rng: &mut Rng, torn_per_mille: u64) {
        for write in std::mem::take(&mut self.under_way) {
            if !rng.per_mille(torn_per_mille) {
                self.apply(write);
                continue;
            }
            if let Write::Cut(mut file) = write
                && rng.per_mille(500)
            {
                file.is_whole = false;
                file.ledger.applied.pop();
                file.ledger.params.clear();
                self.apply(Write::Cut(file));
            }
        }
    }
}
