//! Rows that other servers had: those that are this one's now.

use ps::table::RowIndex;
use tensor::{RowInit, Value};

use super::{GROW_ROWS, Slab};
use crate::scope::Scope;
use crate::serve::table::cut::RowsImport;

impl Slab {
    /// Takes rows of another server's part of the table; the error is what is wrong with them.
    pub(in crate::serve::table) fn import(
        &mut self,
        scope: &Scope,
        import: &RowsImport<'_>,
    ) -> Result<(), &'static str> {
        if import.values.len() != self.vars.len() || import.inits.len() != self.vars.len() {
            return Err("a table has other variables");
        }
        let row_bytes = self.row_bytes();
        let row = |values: &'_ [u8], place: usize| {
            let start = place.saturating_mul(row_bytes);
            let row = values.get(start..start.saturating_add(row_bytes));
            row.map(<[u8]>::to_vec).ok_or("a row is missing")
        };
        let mut places = Vec::with_capacity(import.rows.len() + 1);
        if let Some(head) = import.head {
            self.begin_import(import)?;
            self.has_stepped = head.has_stepped;
            // What became of rows that do not exist.
            let absent = import.absent.ok_or("no row stands for those that do not exist")?;
            places.push((absent, self.absent));
        }
        for &(there, number) in &import.rows {
            match self.index.find_or_make(number) {
                Some((place, true)) => places.push((there, self.at(place))),
                _ => return Err("a row is there twice, or there is no such row"),
            }
        }
        let n_rows = (self.n_rows() + 1).next_multiple_of(GROW_ROWS);
        for (var, values) in self.vars.iter().zip(&import.values) {
            scope.write(&var.name, |value| {
                value.unshare();
                let Value::Tensor(tensor) = value else { return Err("a table has no rows") };
                tensor.grow_rows(n_rows);
                for &(there, here) in &places {
                    let to = &mut tensor.bytes_mut()[here * row_bytes..(here + 1) * row_bytes];
                    to.copy_from_slice(&row(values, there)?);
                }
                Ok(())
            })?;
        }
        if let Some(filter) = &mut self.filter {
            import.waiting.iter().for_each(|&(row, count)| filter.wait(row, count));
            filter.set_dropped(filter.n_dropped() + import.n_dropped);
        }
        Ok(())
    }

    /// No row exists, and new ones start as they did there.
    fn begin_import(&mut self, import: &RowsImport<'_>) -> Result<(), &'static str> {
        self.index = RowIndex::new(self.index.height());
        (self.absent, self.made) = (0, Vec::new());
        if let Some(filter) = &mut self.filter {
            filter.clear();
            filter.set_dropped(0);
        }
        let width = self.width() as i64;
        for (var, text) in self.vars.iter_mut().zip(&import.inits) {
            let theirs = RowInit::from_text(text, 0).ok_or("nobody knows how its rows start")?;
            match (&mut var.init, theirs) {
                // A seed that the program gives is the same on all servers.
                (RowInit::Drawn { seed, .. }, RowInit::Drawn { seed: theirs, .. })
                    if *seed == theirs => {}
                // One that a process made up goes along.
                (own, RowInit::Drawn { shape, seed, offset }) => {
                    let offset = offset.saturating_add_signed(import.n_rows_after * width);
                    *own = RowInit::Drawn { shape, seed, offset };
                }
                (own, theirs) => *own = theirs,
            }
        }
        Ok(())
    }
}
