//! A server's disk: what was reported durable survives a crash; what was under way may be there, torn or
//! lost, in any order.

use std::collections::{BTreeMap, BTreeSet};

use ps::server::{CutRecord, OnDisk};

use super::Rng;
use super::ledger::Ledger;

/// What a server keeps of a cut.
#[derive(Clone, Debug)]
pub struct File {
    /// What the protocol gave.
    pub record: CutRecord,
    /// What the store held.
    pub ledger: Ledger,
    /// The journals of all cuts up to this one.
    pub journal: Vec<u8>,
    /// Whether its checksum is right.
    is_whole: bool,
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
    /// What is begun is durable at once: for servers that are driven by sockets.
    pub is_prompt: bool,
    /// A planted bug: torn files are not noticed.
    pub trusts_all: bool,
    /// A planted bug: what was written last is said to be durable and is not.
    pub is_lazy: bool,
}

impl Disk {
    /// What a process that starts finds.
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

    /// Begins to write a cut, and to remove those that are of no use any more.
    pub fn begin_cut(&mut self, record: CutRecord, ledger: Ledger) {
        self.settle();
        let before = self.files.range(..record.cut).next_back();
        let mut journal = before.map_or_else(Vec::new, |(_, file)| file.journal.clone());
        journal.extend_from_slice(&record.journal.to_vec());
        let old = self.files.range(..record.complete).map(|(&cut, _)| Write::Delete(cut));
        let old: Vec<Write> = old.collect();
        self.under_way.push(Write::Cut(Box::new(File { record, ledger, journal, is_whole: true })));
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

    /// What was begun is durable now.
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
            Write::Cut(file) => drop(self.files.insert(file.record.cut, *file)),
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
