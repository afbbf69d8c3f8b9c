//! Cuts of a table of which the touched rows exist.

use tensor::RowInit;

use crate::table::{EntryFilter, NamesCursor, RowNames};

use super::loading::SlabLoad;
use super::memory::ReservedRows;
use super::{GROW_ROWS, Slab};
use crate::bad_snapshot::BadSnapshot;
use crate::serve::snapshot::{FileReader, Kind, RowsHead, read_waiting};
use crate::serve::table::cut::{CutChunk, CutStep, RowsCut};
use crate::serve::table::tracking::{Capture, Extent, Tracking};
use train::Scope;

/// Rows whose numbers are copied at once, while nobody changes the table.
pub(super) const N_NAMES: usize = 1 << 17;

/// Whether all of these rows were made since there were so many: others make rows as fast as they are listed.
fn is_behind(names: &RowNames, n_rows: usize) -> bool {
    matches!(names, RowNames::ByPlace { first, .. } if *first >= n_rows)
}

impl Slab {
    /// From now on what changes is noted.
    pub(in crate::serve::table) fn track(&mut self) {
        self.tracking = Tracking::noting();
        if let Some(filter) = &mut self.filter {
            filter.track();
        }
    }

    /// Notes rows that were just made.
    pub(super) fn note_made(&mut self, scope: &Scope, made: &[(usize, u64)]) {
        // Captures have no rows that were made later.
        if !self.tracking.is_noting() {
            return;
        }
        let places: Vec<i64> = made.iter().map(|&(place, _)| place as i64).collect();
        self.tracking.touch(&self.plan.row_vars(scope), &places);
        self.made.extend(made.iter().map(|&(_, row)| row));
    }

    /// Bytes that a cut of this extent would have, about.
    pub(in crate::serve::table) fn n_cut_bytes(&self, extent: Extent) -> u64 {
        let n_places = self.n_rows() + 1;
        let n_rows = match extent {
            Extent::Changed => self.tracking.n_touched(n_places),
            _ => n_places,
        };
        n_rows as u64 * (self.plan.row_bytes() * self.plan.vars.len() + size_of::<u64>()) as u64
    }

    /// Begins a cut or a save.
    pub(in crate::serve::table) fn mark(&mut self, extent: Extent) -> RowsCut {
        let head = RowsHead {
            is_whole: extent != Extent::Changed,
            n_rows: self.n_rows() as u64,
            absent: Some(self.absent as u64),
            has_stepped: self.updates.has_stepped,
            n_dropped: self.filter().map_or(0, EntryFilter::n_dropped),
            vars: self
                .plan
                .vars
                .iter()
                .map(|var| (var.name.clone(), self.plan.row_bytes() as u32))
                .collect(),
            inits: self.plan.vars.iter().map(|var| var.init.to_text()).collect(),
        };
        let weights_only = extent == Extent::Save { weights_only: true };
        let (n_vars, n_places) = (self.plan.n_saved(weights_only), self.n_rows() + 1);
        let capture = self.tracking.mark(n_vars, n_places, extent);
        let step = match extent {
            Extent::Changed => CutStep::Rows,
            _ => CutStep::Names(NamesCursor::default()),
        };
        let mut cut = RowsCut::new(head, capture, step);
        if let Some(filter) = &mut self.filter {
            if extent != Extent::Changed {
                cut.scan = Some(filter.begin_scan());
            }
            if !extent.is_copy() {
                cut.waiting = filter.take_changes();
            }
        }
        if !extent.is_copy() {
            cut.made = std::mem::take(&mut self.made);
            cut.first_made = self.n_rows() - cut.made.len();
        }
        cut
    }

    /// The next part of a cut. The rows of a save are fetched by [`Slab::rows_at`].
    pub(in crate::serve::table) fn next_chunk(
        &mut self,
        scope: &Scope,
        cut: &mut RowsCut,
        extent: Extent,
    ) -> CutChunk {
        if !self.tracking.has(cut.capture) {
            return CutChunk::GivenUp;
        }
        loop {
            match &mut cut.step {
                CutStep::Names(cursor) => match self.index.names(cursor, N_NAMES) {
                    Some(names) if !is_behind(&names, cut.head.n_rows as usize) => {
                        return CutChunk::Names(names);
                    }
                    _ if matches!(extent, Extent::Save { .. }) => cut.step = CutStep::Waiting,
                    _ => cut.step = CutStep::Rows,
                },
                CutStep::Rows => {
                    let vars = self.plan.row_vars(scope);
                    match self.tracking.chunk(&vars, cut.capture) {
                        None => return CutChunk::GivenUp,
                        Some(Some(chunk)) => return CutChunk::Rows(chunk),
                        Some(None) => cut.step = CutStep::Waiting,
                    }
                }
                CutStep::Waiting => match self.filter.as_mut().zip(cut.scan) {
                    None => cut.step = CutStep::End,
                    Some((filter, scan)) => {
                        let mut found = filter.scan(scan, N_NAMES);
                        if found.is_empty() {
                            found = filter.end_scan(scan);
                            cut.step = CutStep::End;
                        }
                        return CutChunk::Waiting(found);
                    }
                },
                CutStep::End => return CutChunk::End,
            }
        }
    }

    /// Ends a cut; if it is not durable, the next one has all of it too.
    pub(in crate::serve::table) fn end_cut(
        &mut self,
        cut: RowsCut,
        extent: Extent,
        is_durable: bool,
    ) -> Option<Capture> {
        let capture = self.tracking.end(cut.capture, is_durable);
        let is_taken = !extent.is_copy() && !is_durable;
        if let Some(filter) = &mut self.filter {
            if let Some(scan) = cut.scan {
                filter.end_scan(scan);
            }
            if is_taken {
                filter.put_back(cut.waiting);
            }
        }
        if is_taken {
            let newer = std::mem::replace(&mut self.made, cut.made);
            self.made.extend(newer);
        }
        capture
    }

    /// Begins to load a cut.
    pub(in crate::serve::table) fn begin_load(&mut self) {
        self.tracking.reset();
        self.made.clear();
        self.loading = SlabLoad::default();
        if let Some(filter) = &mut self.filter {
            filter.clear();
        }
    }

    /// Takes a section of a file.
    pub(in crate::serve::table) fn load_section(
        &mut self,
        scope: &Scope,
        kind: Kind,
        file: &mut FileReader,
    ) -> Result<(), BadSnapshot> {
        match kind {
            Kind::RowsHead => {
                let head = RowsHead::read(file)?;
                self.load_head(scope, &head).map_err(|problem| file.damaged(problem))
            }
            Kind::NamesByPlace | Kind::NamesByRow => self.loading.numbers().read(file, kind),
            Kind::Rows => {
                self.loading.begin_index(&self.index);
                self.plan.row_vars(scope).load(file, self.loading.n_rows() + 1)
            }
            Kind::Waiting => {
                let waiting = read_waiting(file)?;
                if let Some(filter) = &mut self.filter {
                    waiting.into_iter().for_each(|(row, count)| filter.wait(row, count));
                }
                Ok(())
            }
            _ => Err(file.damaged("a table has parts that it does not have here")),
        }
    }

    fn load_head(&mut self, scope: &Scope, head: &RowsHead) -> Result<(), &'static str> {
        let inits = head.inits.iter().map(|text| RowInit::from_text(text, 0));
        let inits: Option<Vec<RowInit>> = inits.collect();
        let inits = inits.filter(|inits| inits.len() == self.plan.vars.len());
        let inits = inits.filter(|_| {
            let names = head.vars.iter().map(|(name, _)| name);
            names.eq(self.plan.vars.iter().map(|var| &var.name))
        });
        let inits = inits.ok_or("a table has other variables")?;
        let n_rows = usize::try_from(head.n_rows).ok().filter(|&n| u32::try_from(n).is_ok());
        let n_rows = n_rows.ok_or("a table has too many rows")?;
        let absent = head.absent.filter(|&absent| absent <= head.n_rows);
        self.absent = absent.ok_or("no row stands for those that do not exist")? as usize;
        self.updates.has_stepped = head.has_stepped;
        for (var, init) in self.plan.vars.iter_mut().zip(inits) {
            var.init = init;
        }
        if let Some(filter) = &mut self.filter {
            filter.set_dropped(head.n_dropped);
        }
        self.loading.resize(n_rows)?;
        self.reserved = ReservedRows::default();
        self.plan.resize(scope, (n_rows + 1).next_multiple_of(GROW_ROWS), head.is_whole);
        Ok(())
    }

    /// All files were read.
    pub(in crate::serve::table) fn end_load(&mut self) -> Result<(), &'static str> {
        std::mem::take(&mut self.loading).finish(&mut self.index)
    }
}
