//! Which variables each op borrows when several threads train them.
//!
//! An op borrows what it reads and takes what it writes, in the order of the variables' names and
//! never in another: so no two threads wait for each other.

use std::sync::Arc;

use super::step::Step;
use crate::scope::Lent;

use tensor::Value;

/// For each op of a prepared program, what it borrows.
#[derive(Debug)]
pub(super) struct Borrows {
    lent: Arc<Lent>,
    /// By place of the variable: its cell.
    cells: Vec<Option<usize>>,
    /// By block and op.
    borrows: Vec<Vec<Vec<Borrow>>>,
}

/// A variable that is borrowed, and the cell that it is from. In this order: cells are borrowed in
/// one order by all threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BorrowedSlot {
    cell: usize,
    slot: usize,
}

/// One variable of one op.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Borrow {
    cell: usize,
    slot: usize,
    writes: bool,
}

impl Borrows {
    /// `places` are those of the variables that may be lent, with their names.
    pub(super) fn new<'a>(
        lent: &Arc<Lent>,
        blocks: &[Vec<Step>],
        places: impl Iterator<Item = (usize, &'a str)>,
    ) -> Self {
        let mut cells = Vec::new();
        for (slot, name) in places {
            if cells.len() <= slot {
                cells.resize(slot + 1, None);
            }
            cells[slot] = lent.find(name);
        }
        let mut borrows = Self { lent: lent.clone(), cells, borrows: Vec::new() };
        let of_block = |(block, steps): (usize, &Vec<Step>)| {
            // The runner of a block borrows for all of it; the ops inside find everything there.
            let of_step = |step| if block == 0 { borrows.of(step, blocks, 0) } else { Vec::new() };
            steps.iter().map(of_step).collect()
        };
        borrows.borrows = blocks.iter().enumerate().map(of_block).collect();
        borrows
    }

    /// The borrows of an op and of the blocks that it runs.
    fn of(&self, step: &Step, blocks: &[Vec<Step>], depth: usize) -> Vec<Borrow> {
        let mut borrows: Vec<Borrow> = Vec::new();
        let written = step.wiring.written().map(|slot| (slot, true));
        let all = written.chain(step.wiring.read().map(|slot| (slot, false)));
        let mut add = |slot: usize, writes: bool| {
            let Some(Some(cell)) = self.cells.get(slot).copied() else { return };
            match borrows.iter_mut().find(|borrow| borrow.cell == cell) {
                Some(borrow) => borrow.writes |= writes,
                None => borrows.push(Borrow { cell, slot, writes }),
            }
        };
        all.for_each(|(slot, writes)| add(slot, writes));
        // Blocks of a file may name one another in a circle.
        if depth < blocks.len() {
            let inner = step.desc.sub_blocks().into_iter().filter_map(|block| blocks.get(block));
            for step in inner.flatten() {
                let inner = self.of(step, blocks, depth + 1);
                inner.into_iter().for_each(|borrow| add(borrow.slot, borrow.writes));
            }
        }
        borrows.sort_unstable();
        borrows
    }

    pub(super) fn is_of(&self, lent: &Lent) -> bool {
        self.lent.id() == lent.id()
    }

    pub(super) fn is_lent(&self, slot: usize) -> bool {
        matches!(self.cells.get(slot), Some(Some(_)))
    }

    /// Puts what an op borrows into its variables.
    pub(super) fn lend(&self, block: usize, at: usize, vars: &mut [Value]) -> &[Borrow] {
        let borrows = &self.borrows[block][at];
        for borrow in borrows {
            let cell = self.lent.cell(borrow.cell);
            vars[borrow.slot] = if borrow.writes { cell.take() } else { cell.borrow() };
        }
        borrows
    }

    /// Ends what [`Borrows::lend`] began.
    pub(super) fn take_back(&self, borrows: &[Borrow], vars: &mut [Value]) {
        for borrow in borrows {
            let value = std::mem::take(&mut vars[borrow.slot]);
            let cell = self.lent.cell(borrow.cell);
            if borrow.writes { cell.put(value) } else { cell.hand_back(value) }
        }
    }

    /// Borrows those of the variables that are lent; returns which.
    pub(super) fn borrow_slots(&self, slots: &[usize], vars: &mut [Value]) -> Vec<BorrowedSlot> {
        let borrowed =
            |&slot: &usize| Some(BorrowedSlot { cell: self.cells.get(slot).copied()??, slot });
        let mut lent: Vec<BorrowedSlot> = slots.iter().filter_map(borrowed).collect();
        lent.sort_unstable();
        lent.dedup();
        for &BorrowedSlot { cell, slot } in &lent {
            vars[slot] = self.lent.cell(cell).borrow();
        }
        lent
    }

    /// Ends what [`Borrows::borrow_slots`] began.
    pub(super) fn hand_back_slots(&self, lent: &[BorrowedSlot], vars: &mut [Value]) {
        for &BorrowedSlot { cell, slot } in lent {
            self.lent.cell(cell).hand_back(std::mem::take(&mut vars[slot]));
        }
    }
}
