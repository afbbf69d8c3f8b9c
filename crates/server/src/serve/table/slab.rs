//! A table of which only the touched rows exist, under the names of the whole one.
//!
//! The program's optimize block runs on the slab as it would on the whole table: gradients come with
//! the places of their rows instead of their numbers. One more row stands for all that do not exist:
//! nobody's gradient lists it, so that it goes through what a row goes through that is never listed.
//! New rows take over its state, and its weights where the update has forgotten those of the start.

mod cut;
mod import;
mod loading;
mod memory;
mod plan;
mod rule;
mod saving;

use tensor::{Rows, Shape, Tensor, Value};

use crate::table::{EntryFilter, RowIndex};

use self::loading::SlabLoad;
use self::memory::ReservedRows;
use self::plan::SlabPlan;
pub(super) use self::plan::{Extent, SlabVar};
use self::rule::UpdateFacts;
use super::saving::Files;
use super::tracking::Tracking;
use crate::error::{Error, Result};
use train::Scope;
use train::io::rows::Share;

/// Slabs grow by so many rows.
const GROW_ROWS: usize = 1024;
/// The place of a row that the table has not taken in.
pub(super) const ABSENT: i64 = -1;

#[derive(Debug)]
pub(super) struct Slab {
    index: RowIndex,
    plan: SlabPlan,
    filter: Option<EntryFilter>,
    pub(super) updates: UpdateFacts,
    /// Where the row is that stands for all that do not exist.
    absent: usize,
    /// What is being read of it, and what changed since the last cut.
    tracking: Tracking,
    /// Rows made since the last cut, in order of their places.
    made: Vec<u64>,
    /// Numbers of rows, while a cut is loaded.
    loading: SlabLoad,
    reserved: ReservedRows,
}

/// Numbers that rows may have in an index; the highest table has all of 64 bits.
fn index_height(share: &Share) -> u64 {
    match share.height() {
        i64::MAX => RowIndex::ALL,
        height => height.max(0) as u64,
    }
}

impl Slab {
    /// A table of which no row exists.
    pub(super) fn new(scope: &Scope, vars: Vec<SlabVar>, extent: Extent) -> Self {
        let filter = None;
        let index = RowIndex::new(index_height(&extent.share));
        let mut slab = Self {
            index,
            plan: SlabPlan { vars, extent },
            filter,
            updates: UpdateFacts::default(),
            absent: 0,
            tracking: Tracking::default(),
            made: Vec::new(),
            loading: SlabLoad::default(),
            reserved: ReservedRows::default(),
        };
        slab.start(scope);
        slab
    }

    /// Only rows that the rule takes in exist.
    pub(super) fn set_filter(&mut self, filter: EntryFilter) {
        self.filter = Some(filter);
    }

    /// Its variables, and which rows are here.
    pub(super) fn plan(&self) -> &SlabPlan {
        &self.plan
    }

    /// Rows that exist.
    pub(super) fn n_rows(&self) -> usize {
        self.index.n_rows()
    }

    /// Bytes of these rows, of the index, and of what waits.
    pub(super) fn n_bytes(&self) -> usize {
        let rows = self.n_rows() * self.plan.width() * size_of::<f32>() * self.plan.vars.len();
        rows + self.index.n_bytes() + self.filter.as_ref().map_or(0, EntryFilter::n_bytes)
    }

    /// Rows that an entry rule has not taken in, if there is one.
    pub(super) fn filter(&self) -> Option<&EntryFilter> {
        self.filter.as_ref()
    }

    /// Where the index's rows are in the slabs.
    fn at(&self, place: usize) -> usize {
        place + usize::from(place >= self.absent)
    }

    /// Where rows are in the slabs; those that do not exist are made, if they may. The number of a row
    /// that the table does not have is the error.
    pub(super) fn look_up(
        &mut self,
        scope: &Scope,
        rows: &[i64],
    ) -> std::result::Result<Vec<i64>, i64> {
        // Before any is made: a row that was made must be filled.
        if let Some(&row) = rows.iter().find(|row| !self.plan.has(**row)) {
            return Err(row);
        }
        let (mut made, mut places) = (Vec::new(), Vec::with_capacity(rows.len()));
        for &row in rows {
            let number = row as u64;
            if self.filter.as_ref().is_some_and(|filter| !filter.is_open(number)) {
                let place = self.index.find(number).map(|place| self.at(place) as i64);
                places.push(place.unwrap_or(ABSENT));
                continue;
            }
            let Some((place, is_new)) = self.index.find_or_make(number) else {
                self.fill(scope, &made);
                return Err(row);
            };
            if is_new {
                made.push((self.at(place), number));
            }
            places.push(self.at(place) as i64);
        }
        self.fill(scope, &made);
        Ok(places)
    }

    /// Where rows are, without making any.
    pub(super) fn peek(&self, rows: &[i64]) -> std::result::Result<Vec<i64>, i64> {
        let place = |&row: &i64| {
            let number = self.plan.has(row).then_some(row as u64).ok_or(row)?;
            Ok(self.index.find(number).map_or(ABSENT, |place| self.at(place) as i64))
        };
        rows.iter().map(place).collect()
    }

    /// Turns the rows of a gradient into places. Those that the table has not taken in are left out;
    /// they are the answer.
    pub(super) fn take(
        &mut self,
        scope: &Scope,
        grad: &mut Rows,
    ) -> std::result::Result<Vec<i64>, i64> {
        let places = self.look_up(scope, &grad.ids)?;
        let numbers = std::mem::replace(&mut grad.ids, places);
        if self.filter.is_none() {
            return Ok(Vec::new());
        }
        let is_in: Vec<bool> = grad.ids.iter().map(|&place| place != ABSENT).collect();
        grad.retain(|at| is_in[at]);
        let left_out = numbers.iter().zip(&is_in).filter(|(_, is_in)| !**is_in);
        let mut left_out: Vec<i64> = left_out.map(|(&number, _)| number).collect();
        left_out.sort_unstable();
        left_out.dedup();
        Ok(left_out)
    }

    /// Counts rows that were named by a gradient and are not admitted yet. Some are admitted by
    /// that.
    pub(super) fn count(&mut self, scope: &Scope, rows: &[i64]) {
        let Some(filter) = &mut self.filter else { return };
        let enters = |row: &u64| filter.drop_one(*row);
        let entered: Vec<u64> = rows.iter().map(|&row| row as u64).filter(enters).collect();
        let mut made = Vec::new();
        for row in entered {
            if let Some((place, true)) = self.index.find_or_make(row) {
                made.push((self.at(place), row));
            }
        }
        self.fill(scope, &made);
    }

    /// The variables with the one row that stands for all.
    fn start(&mut self, scope: &Scope) {
        for var in &self.plan.vars {
            scope.write(&var.name, |value| {
                let mut tensor = Tensor::default();
                tensor.resize::<f32>(Shape::from([0, self.plan.width()]));
                *value = Value::Tensor(tensor);
            });
        }
        self.fill(scope, &[(self.absent, 0)]);
    }

    fn fill(&mut self, scope: &Scope, made: &[(usize, u64)]) {
        if made.is_empty() {
            return;
        }
        self.note_made(scope, made);
        let (width, n_rows) = (self.plan.width(), (self.n_rows() + 1).next_multiple_of(GROW_ROWS));
        for (at, var) in self.plan.vars.iter().enumerate() {
            scope.write(&var.name, |value| {
                value.unshare();
                let Value::Tensor(tensor) = value else { return };
                tensor.grow_rows(n_rows);
                let Ok(data) = tensor.data_mut::<f32>() else { return };
                for &(place, row) in made {
                    if self.updates.starts_fresh(at) || place == self.absent {
                        var.init.fill(row, &mut data[place * width..(place + 1) * width])
                    } else {
                        let absent = self.absent * width..(self.absent + 1) * width;
                        data.copy_within(absent, place * width);
                    }
                }
            });
        }
    }

    /// A variable as the whole table would have it: all rows that are here, in order.
    pub(super) fn whole(&self, scope: &Scope, name: &str) -> Option<Tensor> {
        let at = self.plan.vars.iter().position(|var| var.name == name)?;
        let width = self.plan.width();
        let numbers: Vec<i64> =
            (0..self.plan.extent.share.height()).filter(|&row| self.plan.has(row)).collect();
        let mut whole = Tensor::default();
        let rows = whole.resize::<f32>(Shape::from([numbers.len(), width]));
        let copied = scope.read(name, |value| {
            let data = value.tensor().and_then(|tensor| tensor.data::<f32>().ok()).unwrap_or(&[]);
            let row_at = |place: usize| data.get(place * width..(place + 1) * width);
            for (&row, out) in numbers.iter().zip(rows.chunks_exact_mut(width.max(1))) {
                let place = self.index.find(row as u64).map(|place| self.at(place));
                let is_known = place.is_some() || !self.updates.starts_fresh(at);
                match row_at(place.unwrap_or(self.absent)).filter(|_| is_known) {
                    Some(values) => out.copy_from_slice(values),
                    None => self.plan.vars[at].init.fill(row as u64, out),
                }
            }
        });
        copied.map(|()| whole)
    }

    /// The files of the table.
    pub(super) fn files(&self) -> Files {
        self.plan.files(self.filter.is_some())
    }

    /// Rows at these places are about to change.
    pub(super) fn keep(&mut self, scope: &Scope, places: &[i64]) {
        if !self.updates.changes_all && !self.tracking.is_idle() {
            self.tracking.touch(&self.plan.row_vars(scope), places);
        }
    }

    /// An update is about to run.
    pub(super) fn keep_all(&mut self, scope: &Scope) {
        if self.updates.changes_all && !self.tracking.is_idle() {
            self.tracking.touch_all(&self.plan.row_vars(scope));
        }
    }

    /// Takes rows that were loaded into the scope, all variables in one order, and those that wait. States
    /// that were not saved, and numbers that are new in a row, are what their rule says.
    pub(super) fn load(
        &mut self,
        scope: &Scope,
        mut loaded: Vec<Option<Rows>>,
        waiting: &Rows,
    ) -> Result<()> {
        let (Some(Some(first)), Some(weights)) = (loaded.first(), self.plan.vars.first()) else {
            return Ok(());
        };
        let first = first.ids.clone();
        let misfit = |detail: &str| Error::LoadedTable {
            table: weights.origin.clone(),
            server: self.plan.extent.number as i64,
            detail: detail.to_string(),
        };
        let is_alike = |rows: &Option<Rows>| rows.as_ref().is_none_or(|rows| rows.ids == first);
        if loaded.len() != self.plan.vars.len() || !loaded.iter().all(is_alike) {
            return Err(misfit("weights and states of its optimizer are not of the same rows"));
        }
        let mut index = RowIndex::new(self.index.height());
        for &row in &first {
            if index.find_or_make(row as u64).is_none_or(|(_, is_new)| !is_new) {
                return Err(misfit("a row is listed twice, or there is no such row"));
            }
        }
        self.absent = index.n_rows();
        self.index = index;
        self.updates.has_stepped = true;
        for (var, rows) in self.plan.vars.iter().zip(&mut loaded) {
            let saved = rows.take().map(|rows| rows.value);
            scope.set(&var.name, self.plan.completed(var, &first, saved));
        }
        self.fill(scope, &[(self.absent, 0)]);
        if self.updates.forgets {
            // What an update makes of rows that have learnt nothing.
            scope.write(self.plan.weights(), |value| {
                let Value::Tensor(tensor) = value else { return };
                let row = self.absent * self.plan.width()..(self.absent + 1) * self.plan.width();
                if let Some(row) = tensor.data_mut::<f32>().ok().and_then(|data| data.get_mut(row))
                {
                    row.fill(0.0);
                }
            });
        }
        if let Some(filter) = &mut self.filter {
            let counts = waiting.value.data::<i64>().unwrap_or(&[]);
            for (&row, &count) in waiting.ids.iter().zip(counts) {
                filter.wait(row as u64, count.clamp(0, u32::MAX.into()) as u32);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use program::distributed::EntryRule;
    use tensor::{DType, Distribution, RowInit};

    use super::*;
    use crate::serve::table::tracking;
    use train::folder::{About, Folder, Transaction};
    use train::io::rows::{self, Form, Naming};

    fn extent() -> Extent {
        Extent { share: Share::Range(0..5000), origin_height: 5000, width: 2, number: 0, n: 1 }
    }

    fn vars() -> Vec<SlabVar> {
        let shape = Distribution::Uniform(-1.0, 1.0);
        let uniform = RowInit::Drawn { shape, seed: 9, offset: 0 };
        let var = |name: &str, init| SlabVar {
            name: name.to_string(),
            init,
            origin: name.to_string(),
            naming: Naming::Counted,
        };
        vec![var("w", uniform), var("m", RowInit::Constant(0.5))]
    }

    fn n_waiting(slab: &Slab) -> usize {
        slab.filter().map_or(0, EntryFilter::n_waiting)
    }

    fn n_dropped(slab: &Slab) -> u64 {
        slab.filter().map_or(0, EntryFilter::n_dropped)
    }

    pub(super) fn slab(scope: &Scope) -> Slab {
        Slab::new(scope, vars(), extent())
    }

    fn set(scope: &Scope, var: &str, at: usize, to: f32) {
        scope.write(var, |value| {
            let Value::Tensor(tensor) = value else { panic!("a slab") };
            tensor.data_mut::<f32>().unwrap()[at] = to;
        });
    }

    #[test]
    fn only_touched_rows_exist_and_the_rest_is_as_if_it_did() {
        let scope = Scope::new();
        let mut slab = slab(&scope);
        let fresh = slab.whole(&scope, "w").unwrap();
        assert_eq!(slab.look_up(&scope, &[4000, 3, 4000]), Ok(vec![1, 2, 1]));
        assert_eq!(slab.n_rows(), 2);
        assert_eq!(slab.whole(&scope, "w").unwrap(), fresh, "touching changes nothing");
        set(&scope, "w", 4, 8.0);
        let changed = slab.whole(&scope, "w").unwrap();
        assert_eq!(changed.data::<f32>().unwrap()[6], 8.0, "row 3, place 2");
        assert_eq!(slab.whole(&scope, "m").unwrap(), Tensor::full([5000, 2], 0.5f32));
        assert_eq!(slab.look_up(&scope, &[5000]), Err(5000));
        assert_eq!(slab.look_up(&scope, &[9, -1]), Err(-1));
        assert_eq!(slab.peek(&[3, 4]), Ok(vec![2, ABSENT]));
        assert_eq!(slab.n_rows(), 2);
    }

    #[test]
    fn new_rows_are_what_became_of_those_not_listed() {
        let scope = Scope::new();
        let mut slab = slab(&scope);
        slab.updates.forgets = true;
        slab.look_up(&scope, &[3]).unwrap();
        for (var, at) in [("m", 0), ("m", 1), ("w", 0), ("w", 1)] {
            set(&scope, var, at, 0.25);
        }
        slab.look_up(&scope, &[4]).unwrap();
        slab.updates.has_stepped = true;
        slab.look_up(&scope, &[5]).unwrap();
        let row = |var: &str, row: usize| {
            let whole = slab.whole(&scope, var).unwrap();
            whole.data::<f32>().unwrap()[2 * row..2 * row + 2].to_vec()
        };
        assert_eq!(
            (row("m", 3), row("m", 4), row("m", 9)),
            (vec![0.5; 2], vec![0.25; 2], vec![0.25; 2])
        );
        assert_ne!(row("w", 4), vec![0.25; 2]);
        assert_eq!((row("w", 5), row("w", 9)), (vec![0.25; 2], vec![0.25; 2]));
    }

    #[test]
    fn rows_are_taken_in_by_rule_and_survive_a_folder() {
        let (scope, dir) = (Scope::new(), tempfile::tempdir().unwrap());
        let share = Share::Range(100..5100);
        let half = Extent { share: share.clone(), origin_height: 9000, number: 1, n: 2, width: 2 };
        let filter = || EntryFilter::new(EntryRule::Count(2), 0, "w", 100);
        let mut slab = Slab::new(&scope, vars(), half.clone());
        slab.set_filter(filter());
        assert_eq!(slab.look_up(&scope, &[7, 8]), Ok(vec![ABSENT; 2]));
        let value = Tensor::new([3, 2], &[1.0f32, 1.0, 2.0, 2.0, 3.0, 3.0]).unwrap();
        let mut grad = Rows { ids: vec![7, 8, 7], height: 5000, value };
        let left_out = slab.take(&scope, &mut grad).unwrap();
        assert_eq!((left_out.clone(), grad.ids.len()), (vec![7, 8], 0));
        slab.count(&scope, &left_out[..1]);
        let value = Tensor::new([2, 2], &[1.0f32, 1.0, 2.0, 2.0]).unwrap();
        let mut grad = Rows { ids: vec![7, 8], height: 5000, value };
        assert_eq!(slab.take(&scope, &mut grad), Ok(vec![8]));
        assert_eq!((grad.ids, grad.value), (vec![1], Tensor::full([1, 2], 1.0f32)));
        assert_eq!((slab.n_rows(), n_waiting(&slab), n_dropped(&slab)), (1, 0, 1));
        let mut waits = Slab::new(&scope, vars(), half.clone());
        waits.set_filter(EntryFilter::new(EntryRule::Count(3), 0, "w", 100));
        waits.count(&scope, &[8, 9]);
        assert_eq!((n_waiting(&waits), n_dropped(&waits)), (2, 2));
        waits.count(&scope, &[9]);
        set(&scope, "w", 2, 6.5);
        let extent = tracking::Extent::Save { weights_only: false };
        let (mut cut, saved) = (waits.mark(extent), waits.saved(&scope, false));
        let (files, form) = (saved.files.clone(), saved.form);
        let save = Transaction::begin(dir.path()).unwrap();
        let listed = saved.listed(|| waits.next_chunk(&scope, &mut cut, extent)).unwrap();
        let rows_at = |var: usize, rows: &[u32]| waits.rows_at(&scope, &cut, var, rows);
        listed.write(save.stage(), rows_at).unwrap();
        waits.end_cut(cut, extent, true);
        save.commit(About::new("tables")).unwrap();
        let before = waits.whole(&scope, "w").unwrap();

        let read = |var: &str, form| {
            let piece = files.piece(var, Naming::Counted);
            let folder = Folder::open(dir.path()).unwrap();
            rows::read_pieces(&folder, piece, form, &share).unwrap().unwrap()
        };
        let loaded = ["w", "m"].map(|var| Some(read(var, form)));
        let waiting = read("w@WAITING", Form { width: 1, dtype: DType::I64, ..form });
        let other = Scope::new();
        let mut again = Slab::new(&other, vars(), half.clone());
        again.set_filter(EntryFilter::new(EntryRule::Count(3), 0, "w", 100));
        again.load(&other, loaded.to_vec(), &waiting).unwrap();
        assert_eq!(again.whole(&other, "w").unwrap(), before);
        assert_eq!(again.look_up(&other, &[9, 8]), Ok(vec![0, ABSENT]));
        again.count(&other, &[8]);
        assert_eq!(again.look_up(&other, &[8]), Ok(vec![2]), "it had been named once before");
        let odd = [Some(read("w", form)), Some(Rows::default())].to_vec();
        let error = again.load(&other, odd, &waiting).unwrap_err();
        assert!(matches!(error, Error::LoadedTable { .. }), "{error}");
    }
}
