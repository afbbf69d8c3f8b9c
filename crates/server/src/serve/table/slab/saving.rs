//! Saves of a table of which the touched rows exist. The table is held for moments only, however many rows it has.

use tensor::DType;
use train::Scope;
use train::io::rows::Form;

use super::Slab;
use crate::serve::table::cut::RowsCut;
use crate::serve::table::saving::SavedRows;

impl Slab {
    /// What the files of a save need to know of the rows as they are now.
    pub(in crate::serve::table) fn saved(&self, scope: &Scope, weights_only: bool) -> SavedRows {
        let n_vars = self.plan.n_saved(weights_only);
        let mut files = self.files();
        files.vars.truncate(n_vars);
        files.waiting = files.waiting.filter(|_| !weights_only);
        SavedRows {
            files,
            n_rows: self.n_rows(),
            first: self.plan.extent.share.first(),
            form: Form {
                height: self.plan.extent.origin_height,
                width: self.plan.width(),
                dtype: DType::F32,
            },
            rules: (0..n_vars).map(|at| self.rule(scope, at)).collect(),
        }
    }

    /// The bytes of rows of a variable as they were when the save began, by their places in the index.
    pub(in crate::serve::table) fn rows_at(
        &mut self,
        scope: &Scope,
        cut: &RowsCut,
        var: usize,
        places: &[u32],
    ) -> Option<Vec<u8>> {
        let absent = self.absent;
        let at = |&place: &u32| place as usize + usize::from(place as usize >= absent);
        let vars = self.plan.row_vars(scope);
        self.tracking.rows_at(&vars, cut.capture, var, places.iter().map(at))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tensor::{Distribution, RowInit, Value};

    use super::super::cut::N_NAMES;
    use super::super::{Extent, SlabVar};
    use super::*;
    use crate::serve::table::tracking;
    use train::folder::{About, Folder, Transaction};
    use train::io::rows::{self, Naming, Share};

    const SAVE: tracking::Extent = tracking::Extent::Save { weights_only: false };

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
        slab.updates.changes_all = changes_all;
        let all: Vec<i64> = (0..N).map(number).collect();
        slab.look_up(scope, &all).unwrap();
        slab
    }

    /// A step: a row that is there changes, and another is made.
    fn step(slab: &mut Slab, scope: &Scope, at: usize) {
        let places = slab.look_up(scope, &[number(at), number(N + at)]).unwrap();
        slab.keep(scope, &places[..1]);
        slab.keep_all(scope);
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
        let saved = locked().saved(&scope, false);
        let mut cut = locked().mark(SAVE);
        let (files, form) = (saved.files.clone(), saved.form);
        step(&mut locked(), &scope, 0);
        let mut n_parts = 0;
        let listed = saved.listed(|| {
            n_parts += 1;
            step(&mut locked(), &scope, n_parts);
            locked().next_chunk(&scope, &mut cut, SAVE)
        });
        // The sort was in there, and steps went on.
        assert_eq!(n_parts, N.div_ceil(N_NAMES) + 1, "parts and the end, though rows are made");
        step(&mut locked(), &scope, 50);
        let save = Transaction::begin(dir.path()).unwrap();
        let mut n_chunks = 100;
        let written = listed.unwrap().write(save.stage(), |var, places| {
            n_chunks += 1;
            step(&mut locked(), &scope, n_chunks);
            locked().rows_at(&scope, &cut, var, places)
        });
        written.unwrap();
        locked().end_cut(cut, SAVE, true);
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
        let extent = tracking::Extent::Save { weights_only: true };
        let (mut cut, saved) = (slab.mark(extent), slab.saved(&scope, true));
        slab.begin_load();
        assert!(saved.listed(|| slab.next_chunk(&scope, &mut cut, extent)).is_none());
        assert!(slab.rows_at(&scope, &cut, 0, &[1]).is_none());
        assert!(slab.end_cut(cut, extent, true).is_none());
    }
}
