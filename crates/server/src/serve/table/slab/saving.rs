//! Saves of a table of which the touched rows exist. The table is held for moments only, however many rows it has.

use tensor::DType;
use train::Scope;
use train::io::rows::Form;

use crate::table::RowNames;

use super::Slab;
use super::cut::N_NAMES;
use crate::serve::table::saving::{ListStep, Moment, RowsSnapshot, SavedNames};

/// Whether all of these rows were made since there were so many: others make rows as fast as they are listed.
pub(super) fn is_behind(names: &RowNames, n_rows: usize) -> bool {
    matches!(names, RowNames::ByPlace { first, .. } if *first >= n_rows)
}

impl Slab {
    /// Begins a save: the rows as they are now, to be listed by [`Slab::next_names`] and fetched by [`Slab::chunk`]
    /// until [`Slab::end_save`].
    pub(in crate::serve::table) fn begin_save(
        &mut self,
        scope: &Scope,
        weights_only: bool,
    ) -> RowsSnapshot {
        let n_vars = if weights_only { 1 } else { self.vars.len() };
        let names = self.vars.iter().take(n_vars).map(|var| var.name.as_str());
        self.moment = Some(if self.changes_all {
            Moment::shared(scope, names, self.n_rows())
        } else {
            Moment::kept(n_vars, self.n_rows())
        });
        if let (Some(filter), Some(moment)) = (&mut self.filter, &mut self.moment) {
            moment.scan = Some(filter.begin_scan());
        }
        RowsSnapshot {
            files: self.files(),
            n_rows: self.n_rows(),
            first: self.extent.share.first(),
            form: Form {
                height: self.extent.origin_height,
                width: self.width(),
                dtype: DType::F32,
            },
            rules: (0..n_vars).map(|at| self.rule(scope, at)).collect(),
        }
    }

    /// Some more rows of a save: no more at its end, nothing if the save was given up.
    pub(in crate::serve::table) fn next_names(&mut self) -> Option<Option<SavedNames>> {
        let moment = self.moment.as_mut()?;
        if let ListStep::Rows { cursor, n_rows } = &mut moment.step {
            let names = self.index.names(cursor, N_NAMES);
            if let Some(names) = names.filter(|names| !is_behind(names, *n_rows)) {
                return Some(Some(SavedNames::Rows(names)));
            }
            moment.step = ListStep::Waiting;
        }
        let Some((filter, scan)) = self.filter.as_mut().zip(moment.scan) else {
            return Some(None);
        };
        let mut found = filter.scan(scan, N_NAMES);
        if found.is_empty() {
            found = filter.end_scan(scan);
            moment.scan = None;
        }
        Some(Some(SavedNames::Waiting(found)))
    }

    /// The bytes of rows of a variable as they were when the save began, by their places in the index.
    pub(in crate::serve::table) fn chunk(
        &mut self,
        scope: &Scope,
        var: usize,
        places: &[u32],
    ) -> Option<Vec<u8>> {
        let absent = self.absent;
        let at = |&place: &u32| place as usize + usize::from(place as usize >= absent);
        let name = &self.vars.get(var)?.name;
        self.moment.as_mut()?.chunk(scope, var, name, places.iter().map(at))
    }

    /// Ends a save, finished or not.
    pub(in crate::serve::table) fn end_save(&mut self) -> Option<Moment> {
        let moment = self.moment.take();
        let scan = moment.as_ref().and_then(|moment| moment.scan);
        if let Some((filter, scan)) = self.filter.as_mut().zip(scan) {
            filter.end_scan(scan);
        }
        moment
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tensor::{Distribution, RowInit, Value};

    use super::super::{Extent, SlabVar};
    use super::*;
    use train::folder::{About, Folder, Transaction};
    use train::io::rows::{self, Naming, Share};

    /// More than are listed at once, in a table that has many more.
    const N: usize = 2 * N_NAMES + 77;
    const HEIGHT: i64 = 1 << 40;

    /// Rows that are far apart and come in no order.
    fn number(at: usize) -> i64 {
        (at as i64 * 7_919_000_003) % HEIGHT
    }

    fn extent() -> Extent {
        let share = Share::Range(0..HEIGHT);
        Extent { share, origin_height: HEIGHT, width: 1, number: 0, n: 1 }
    }

    fn slab(scope: &Scope, changes_all: bool) -> Slab {
        let init = RowInit::Drawn { shape: Distribution::Uniform(-1.0, 1.0), seed: 9, offset: 0 };
        let (name, origin) = ("w".to_string(), "w".to_string());
        let vars = vec![SlabVar { name, init, origin, naming: Naming::Counted }];
        let mut slab = Slab::new(scope, vars, extent());
        if changes_all {
            slab.change_all();
        }
        let all: Vec<i64> = (0..N).map(number).collect();
        slab.look_up(scope, &all).unwrap();
        slab
    }

    /// A step: a row that is there changes, and another is made.
    fn step(slab: &mut Slab, scope: &Scope, at: usize) {
        let places = slab.look_up(scope, &[number(at), number(N + at)]).unwrap();
        slab.keep(scope, &places[..1]);
        scope.write("w", |value| {
            value.unshare();
            let Value::Tensor(tensor) = value else { panic!("a slab") };
            tensor.data_mut::<f32>().unwrap()[places[0] as usize] = 77.0;
        });
    }

    fn saved_while_steps_go_on(changes_all: bool) {
        let (scope, dir) = (Scope::new(), tempfile::tempdir().unwrap());
        let table = Mutex::new(slab(&scope, changes_all));
        let locked =
            || table.try_lock().expect("nobody holds the table between two parts of a save");
        let before = scope.get("w").unwrap();
        let snapshot = locked().begin_save(&scope, false);
        let (files, form) = (snapshot.files.clone(), snapshot.form);
        step(&mut locked(), &scope, 0);
        let mut n_parts = 0;
        let listed = snapshot.listed(|| {
            n_parts += 1;
            step(&mut locked(), &scope, n_parts);
            locked().next_names()
        });
        // The sort was in there, and steps went on.
        assert_eq!(n_parts, N.div_ceil(N_NAMES) + 1, "parts and the end, though rows are made");
        step(&mut locked(), &scope, 50);
        let save = Transaction::begin(dir.path()).unwrap();
        let mut n_chunks = 100;
        let written = listed.unwrap().write(save.stage(), false, |var, places| {
            n_chunks += 1;
            step(&mut locked(), &scope, n_chunks);
            locked().chunk(&scope, var, places)
        });
        written.unwrap();
        locked().end_save();
        save.commit(About::new("tables")).unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let piece = files.piece("w", Naming::Counted);
        let read = rows::read_pieces(&folder, piece, form, &extent().share).unwrap().unwrap();
        assert_eq!(read.ids.len(), N, "rows that were made meanwhile are not saved");
        let before = before.tensor().unwrap().data::<f32>().unwrap();
        let places = locked().peek(&read.ids).unwrap();
        let expected: Vec<f32> = places.iter().map(|&place| before[place as usize]).collect();
        assert_eq!(read.value.data::<f32>().unwrap(), expected);
        assert!(read.ids.is_sorted());
    }

    #[test]
    fn look_ups_and_steps_are_served_between_any_two_parts_of_a_save() {
        saved_while_steps_go_on(false);
        saved_while_steps_go_on(true);
    }

    #[test]
    fn a_save_of_a_table_that_was_loaded_is_given_up() {
        let scope = Scope::new();
        let mut slab = slab(&scope, false);
        let snapshot = slab.begin_save(&scope, true);
        slab.begin_load();
        assert!(snapshot.listed(|| slab.next_names()).is_none());
        assert!(slab.chunk(&scope, 0, &[1]).is_none());
        assert!(slab.end_save().is_none());
    }
}
