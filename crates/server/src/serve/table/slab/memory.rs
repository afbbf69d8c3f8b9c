//! Memory for new rows, asked for before any is made: a process that grows without asking is ended by the system.

use tensor::Value;
use train::Scope;
use wire::Refusal;

use super::plan::SlabPlan;
use super::{GROW_ROWS, Slab};

/// Bytes of a row in the index, at most.
const INDEX_BYTES: usize = 32;

/// The rows that there is memory for.
#[derive(Debug, Default)]
pub(super) struct ReservedRows {
    n_rows: usize,
}

impl ReservedRows {
    /// Reserves memory for so many rows in all; false if there is none.
    fn reserve(&mut self, plan: &SlabPlan, scope: &Scope, n_rows: usize) -> bool {
        let n_rows = n_rows.next_multiple_of(GROW_ROWS);
        let mut index: Vec<u8> = Vec::new();
        let has_index = index.try_reserve_exact(n_rows.saturating_mul(INDEX_BYTES)).is_ok();
        let reserve = |value: &mut Value| match value {
            Value::Tensor(tensor) => tensor.reserve_rows(n_rows).is_ok(),
            _ => true,
        };
        let has_room = has_index && plan.vars.iter().all(|var| scope.write(&var.name, reserve));
        if has_room {
            self.n_rows = n_rows;
        }
        has_room
    }
}

impl Slab {
    /// Makes sure that there is memory for the rows of these numbers that do not exist yet.
    pub(in crate::serve::table) fn make_room(
        &mut self,
        scope: &Scope,
        rows: &[i64],
    ) -> Result<(), Refusal> {
        let n_all = self.n_rows().saturating_add(rows.len()).saturating_add(1);
        let n_reserved = self.reserved.n_rows;
        if n_all <= n_reserved {
            return Ok(());
        }
        // Seldom, and without looking at the rows: memory that is not used costs addresses only.
        let n_wanted = n_all.max(n_reserved + n_reserved / 4);
        if self.reserved.reserve(&self.plan, scope, n_wanted) {
            return Ok(());
        }
        let is_new = |row: &&i64| self.index.find(**row as u64).is_none();
        let n_rows = self.n_rows() + rows.iter().filter(is_new).count() + 1;
        if n_rows <= n_reserved || self.reserved.reserve(&self.plan, scope, n_rows) {
            Ok(())
        } else {
            Err(Refusal::Failed(self.no_room(n_rows)))
        }
    }

    fn no_room(&self, n_rows: usize) -> String {
        let row_bytes = self.plan.row_bytes() * self.plan.vars.len() + INDEX_BYTES;
        format!(
            "there is no memory for table `{}`: it has {} rows and needs room for {n_rows}, {} MiB in all. Give the \
             servers more memory, use more servers, or let fewer rows in (an entry rule, smaller ids)",
            self.plan.weights(),
            self.n_rows(),
            n_rows.saturating_mul(row_bytes) >> 20
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::slab;
    use super::*;

    #[test]
    fn memory_is_there_before_rows_are_made() {
        let scope = Scope::new();
        let mut slab = slab(&scope);
        slab.make_room(&scope, &[3, 4]).unwrap();
        assert_eq!(slab.n_rows(), 0);
        let n_reserved = slab.reserved.n_rows;
        slab.look_up(&scope, &[3, 4]).unwrap();
        slab.make_room(&scope, &[3, 4]).unwrap();
        assert_eq!((slab.n_rows(), slab.reserved.n_rows), (2, n_reserved));
        // More than any machine has.
        assert!(!slab.reserved.reserve(&slab.plan, &scope, usize::MAX / 1024));
        let text = slab.no_room(1 << 40);
        assert!(text.contains("no memory for table `w`") && text.contains("servers"), "{text}");
        assert_eq!(slab.look_up(&scope, &[3, 4]), Ok(vec![1, 2]), "it goes on as it was");
    }
}
