//! Rows that other servers had: those that are this one's now.

use tensor::{RowInit, Value};
use train::Scope;

use crate::table::RowIndex;

use super::{GROW_ROWS, Slab};
use crate::serve::table::cut::RowsImport;

/// Where a row is among those that come, and in the table.
struct RowPlace {
    there: usize,
    here: usize,
}

impl Slab {
    /// Takes rows of another server's part of the table; the error is what is wrong with them.
    pub(in crate::serve::table) fn import(
        &mut self,
        scope: &Scope,
        import: &RowsImport<'_>,
    ) -> Result<(), &'static str> {
        if import.values.len() != self.plan.vars.len() || import.inits.len() != self.plan.vars.len()
        {
            return Err("a table has other variables");
        }
        let places = self.places(scope, import)?;
        let (row_bytes, n_rows) =
            (self.plan.row_bytes(), (self.n_rows() + 1).next_multiple_of(GROW_ROWS));
        for (var, values) in self.plan.vars.iter().zip(&import.values) {
            scope.write(&var.name, |value| {
                value.unshare();
                let Value::Tensor(tensor) = value else { return Err("a table has no rows") };
                tensor.grow_rows(n_rows);
                let to = tensor.bytes_mut();
                for &RowPlace { there, here } in &places {
                    let start = there.saturating_mul(row_bytes);
                    let row = values.get(start..start.saturating_add(row_bytes));
                    let row = row.ok_or("a row is missing")?;
                    to[here * row_bytes..(here + 1) * row_bytes].copy_from_slice(row);
                }
                Ok(())
            })?;
        }
        if let Some(filter) = &mut self.filter {
            for &(row, count) in &import.waiting {
                if import.is_update { filter.renew(row, count) } else { filter.wait(row, count) }
            }
            filter.set_dropped(filter.n_dropped() + import.n_dropped);
        }
        Ok(())
    }

    /// Where rows are there and here. Those that are new here are made. What an update changes is noted: it belongs to
    /// the next cut.
    fn places(
        &mut self,
        scope: &Scope,
        import: &RowsImport<'_>,
    ) -> Result<Vec<RowPlace>, &'static str> {
        let mut places = Vec::with_capacity(import.rows.len() + 1);
        if let Some(head) = import.head {
            if import.is_update {
                self.filter.iter_mut().for_each(|filter| filter.set_dropped(0))
            } else {
                self.begin_import(import)?
            }
            self.updates.has_stepped = head.has_stepped;
            // What became of rows that do not exist.
            match import.absent {
                Some(there) => places.push(RowPlace { there, here: self.absent }),
                None if import.is_update => {}
                None => return Err("no row stands for those that do not exist"),
            }
        }
        let mut made = Vec::new();
        for &(there, number) in &import.rows {
            let found = self.index.find_or_make(number);
            let found = found.filter(|&(_, is_new)| is_new || import.is_update);
            let (place, is_new) = found.ok_or("a row is there twice, or there is no such row")?;
            let here = self.at(place);
            places.push(RowPlace { there, here });
            if is_new && import.is_update {
                made.push((here, number));
            }
        }
        if import.is_update {
            let changed: Vec<i64> = places.iter().map(|place| place.here as i64).collect();
            self.tracking.touch(&self.plan.row_vars(scope), &changed);
            self.note_made(scope, &made);
        }
        Ok(places)
    }

    /// No row exists, and new ones start as they did there.
    fn begin_import(&mut self, import: &RowsImport<'_>) -> Result<(), &'static str> {
        self.index = RowIndex::new(self.index.height());
        (self.absent, self.made) = (0, Vec::new());
        if let Some(filter) = &mut self.filter {
            filter.clear();
            filter.set_dropped(0);
        }
        let width = self.plan.width() as i64;
        for (var, text) in self.plan.vars.iter_mut().zip(&import.inits) {
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
