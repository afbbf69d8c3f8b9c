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
mod rule;
mod saving;

use tensor::{RowInit, Rows, Shape, Tensor, Value, is_row};
use train::Scope;
use train::io::overlay;
use train::io::rows::{Naming, Share, WAITING};

use crate::table::{EntryFilter, RowIndex};

use self::loading::SlabLoad;
use super::saving::{Files, Moment};
use super::tracking::{RowVars, Tracking};
use crate::error::{Error, Result};

/// Slabs grow by so many rows.
const GROW_ROWS: usize = 1024;
/// The place of a row that the table has not taken in.
pub(super) const ABSENT: i64 = -1;

/// One variable of a table: its weights or a state of its optimizer.
#[derive(Debug)]
pub(super) struct SlabVar {
    pub(super) name: String,
    pub(super) init: RowInit,
    /// What it is part of.
    pub(super) origin: String,
    /// How its files are called.
    pub(super) naming: Naming,
}

/// Which rows of a table a server has, and what their files are called.
#[derive(Clone, Debug)]
pub(super) struct Extent {
    pub(super) share: Share,
    /// Rows of the whole table.
    pub(super) origin_height: i64,
    pub(super) width: usize,
    /// Which piece it is, of how many.
    pub(super) number: usize,
    pub(super) n: usize,
}

#[derive(Debug)]
pub(super) struct Slab {
    index: RowIndex,
    /// The weights, then the states of the optimizer.
    vars: Vec<SlabVar>,
    extent: Extent,
    filter: Option<EntryFilter>,
    /// Updates compute weights from state alone.
    forgets: bool,
    has_stepped: bool,
    /// Where the row is that stands for all that do not exist.
    absent: usize,
    /// Updates change rows that no gradient lists.
    changes_all: bool,
    /// What is being saved.
    moment: Option<Moment>,
    /// What changed since the last cut, if there are cuts.
    tracking: Option<Tracking>,
    /// Rows made since the last cut, in order of their places.
    made: Vec<u64>,
    /// Numbers of rows, while a cut is loaded.
    loading: SlabLoad,
    /// Rows that there is memory for.
    n_reserved: usize,
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
        let forgets = false;
        let has_stepped = false;
        let index = RowIndex::new(index_height(&extent.share));
        let mut slab = Self {
            index,
            vars,
            extent,
            filter,
            forgets,
            has_stepped,
            absent: 0,
            changes_all: false,
            moment: None,
            tracking: None,
            made: Vec::new(),
            loading: SlabLoad::default(),
            n_reserved: 0,
        };
        slab.start(scope);
        slab
    }

    /// Only rows that the rule takes in exist.
    pub(super) fn set_filter(&mut self, filter: EntryFilter) {
        self.filter = Some(filter);
    }

    /// Updates change rows that no gradient lists.
    pub(super) fn change_all(&mut self) {
        self.changes_all = true;
    }

    /// Updates compute weights from state alone.
    pub(super) fn forget(&mut self) {
        self.forgets = true;
    }

    /// An update was run.
    pub(super) fn note_step(&mut self) {
        self.has_stepped = true;
    }

    /// Whether a variable is one of this table's.
    pub(super) fn holds(&self, name: &str) -> bool {
        self.vars.iter().any(|var| var.name == name)
    }

    /// The variables of this table, the weights first.
    pub(super) fn var_names(&self) -> Vec<String> {
        self.vars.iter().map(|var| var.name.clone()).collect()
    }

    /// The variable with the weights.
    pub(super) fn weights(&self) -> &str {
        self.vars.first().map_or("", |var| &var.name)
    }

    /// Numbers in a row.
    pub(super) fn width(&self) -> usize {
        self.extent.width
    }

    /// Rows that there would be if all existed, as near as need be.
    pub(super) fn n_rows_max(&self) -> usize {
        usize::try_from(self.extent.share.n_rows()).unwrap_or(usize::MAX)
    }

    /// Which rows are here.
    pub(super) fn share(&self) -> &Share {
        &self.extent.share
    }

    /// Whether a row, by the number that this server gives it, is here.
    pub(super) fn has(&self, row: i64) -> bool {
        is_row(row, self.extent.share.height())
            && self.extent.share.has(row.saturating_add(self.extent.share.first()))
    }

    /// Rows that exist.
    pub(super) fn n_rows(&self) -> usize {
        self.index.n_rows()
    }

    /// Bytes of these rows, of the index, and of what waits.
    pub(super) fn n_bytes(&self) -> usize {
        let rows = self.n_rows() * self.width() * size_of::<f32>() * self.vars.len();
        rows + self.index.n_bytes() + self.filter.as_ref().map_or(0, EntryFilter::n_bytes)
    }

    /// Rows that were named and not taken in.
    pub(super) fn n_waiting(&self) -> u64 {
        self.filter.as_ref().map_or(0, |filter| filter.n_waiting() as u64)
    }

    /// Rows of gradients that were dropped.
    pub(super) fn n_dropped(&self) -> u64 {
        self.filter.as_ref().map_or(0, EntryFilter::n_dropped)
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
        if let Some(&row) = rows.iter().find(|row| !self.has(**row)) {
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
            let number = self.has(row).then_some(row as u64).ok_or(row)?;
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
        for var in &self.vars {
            scope.write(&var.name, |value| {
                let mut tensor = Tensor::default();
                tensor.resize::<f32>(Shape::from([0, self.width()]));
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
        let (width, n_rows) = (self.width(), (self.n_rows() + 1).next_multiple_of(GROW_ROWS));
        for (at, var) in self.vars.iter().enumerate() {
            scope.write(&var.name, |value| {
                value.unshare();
                let Value::Tensor(tensor) = value else { return };
                tensor.grow_rows(n_rows);
                let Ok(data) = tensor.data_mut::<f32>() else { return };
                for &(place, row) in made {
                    if self.starts_fresh(at) || place == self.absent {
                        var.init.fill(row, &mut data[place * width..(place + 1) * width])
                    } else {
                        let absent = self.absent * width..(self.absent + 1) * width;
                        data.copy_within(absent, place * width);
                    }
                }
            });
        }
    }

    /// Whether a new row of a variable is what its init says, or what became of those not listed.
    fn starts_fresh(&self, var: usize) -> bool {
        var == 0 && !(self.forgets && self.has_stepped)
    }

    /// A variable as the whole table would have it: all rows that are here, in order.
    pub(super) fn whole(&self, scope: &Scope, name: &str) -> Option<Tensor> {
        let at = self.vars.iter().position(|var| var.name == name)?;
        let width = self.width();
        let numbers: Vec<i64> =
            (0..self.extent.share.height()).filter(|&row| self.has(row)).collect();
        let mut whole = Tensor::default();
        let rows = whole.resize::<f32>(Shape::from([numbers.len(), width]));
        let copied = scope.read(name, |value| {
            let data = value.tensor().and_then(|tensor| tensor.data::<f32>().ok()).unwrap_or(&[]);
            let row_at = |place: usize| data.get(place * width..(place + 1) * width);
            for (&row, out) in numbers.iter().zip(rows.chunks_exact_mut(width.max(1))) {
                let place = self.index.find(row as u64).map(|place| self.at(place));
                let is_known = place.is_some() || !self.starts_fresh(at);
                match row_at(place.unwrap_or(self.absent)).filter(|_| is_known) {
                    Some(values) => out.copy_from_slice(values),
                    None => self.vars[at].init.fill(row as u64, out),
                }
            }
        });
        copied.map(|()| whole)
    }

    /// The files of the table.
    pub(super) fn files(&self) -> Files {
        let waiting = self.filter.as_ref().zip(self.vars.first());
        Files {
            vars: self.vars.iter().map(|var| (var.origin.clone(), var.naming)).collect(),
            waiting: waiting.map(|(_, weights)| format!("{}{WAITING}", weights.origin)),
            number: self.extent.number,
            n: self.extent.n,
            spread: self.extent.share.spread(),
        }
    }

    /// Rows at these places are about to change.
    pub(super) fn keep(&mut self, scope: &Scope, places: &[i64]) {
        if let Some(moment) = &mut self.moment {
            moment.keep(scope, self.vars.iter().map(|var| var.name.as_str()), places);
        }
        if let Some(tracking) = self.tracking.as_mut().filter(|_| !self.changes_all) {
            tracking.touch(&row_vars(scope, &self.vars), places);
        }
    }

    /// An update is about to run.
    pub(super) fn keep_all(&mut self, scope: &Scope) {
        if let Some(tracking) = self.tracking.as_mut().filter(|_| self.changes_all) {
            tracking.touch_all(&row_vars(scope, &self.vars));
        }
    }

    /// Rows of the width of this table, from those that were saved.
    fn completed(&self, var: &SlabVar, rows: &[i64], saved: Option<Tensor>) -> Tensor {
        let width = self.width();
        let saved = match saved {
            Some(saved) if saved.shape().flatten_2d(1).1 == width => return saved,
            saved => saved.unwrap_or_default(),
        };
        let mut whole = Tensor::default();
        let data = whole.resize::<f32>(Shape::from([rows.len(), width]));
        for (&row, out) in rows.iter().zip(data.chunks_exact_mut(width.max(1))) {
            var.init.fill(row as u64, out);
        }
        overlay(&mut whole, &saved, 0);
        whole
    }

    /// Takes rows that were loaded into the scope, all variables in one order, and those that wait. States
    /// that were not saved, and numbers that are new in a row, are what their rule says.
    pub(super) fn load(
        &mut self,
        scope: &Scope,
        mut loaded: Vec<Option<Rows>>,
        waiting: &Rows,
    ) -> Result<()> {
        let (Some(Some(first)), Some(weights)) = (loaded.first(), self.vars.first()) else {
            return Ok(());
        };
        let first = first.ids.clone();
        let misfit = |detail: &str| Error::LoadedTable {
            table: weights.origin.clone(),
            server: self.extent.number as i64,
            detail: detail.to_string(),
        };
        let is_alike = |rows: &Option<Rows>| rows.as_ref().is_none_or(|rows| rows.ids == first);
        if loaded.len() != self.vars.len() || !loaded.iter().all(is_alike) {
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
        self.has_stepped = true;
        for (var, rows) in self.vars.iter().zip(&mut loaded) {
            let saved = rows.take().map(|rows| rows.value);
            scope.set(&var.name, self.completed(var, &first, saved));
        }
        self.fill(scope, &[(self.absent, 0)]);
        if self.forgets {
            // What an update makes of rows that have learnt nothing.
            scope.write(self.weights(), |value| {
                let Value::Tensor(tensor) = value else { return };
                let row = self.absent * self.width()..(self.absent + 1) * self.width();
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

/// The variables of a table, in its scope.
fn row_vars<'a>(scope: &'a Scope, vars: &'a [SlabVar]) -> RowVars<'a> {
    RowVars { scope, names: vars.iter().map(|var| var.name.as_str()).collect() }
}

#[cfg(test)]
mod tests {
    use program::distributed::EntryRule;
    use tensor::{DType, Distribution};

    use super::*;
    use train::folder::{About, Folder, Transaction};
    use train::io::rows::{self, Form};

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
        slab.forget();
        slab.look_up(&scope, &[3]).unwrap();
        for (var, at) in [("m", 0), ("m", 1), ("w", 0), ("w", 1)] {
            set(&scope, var, at, 0.25);
        }
        slab.look_up(&scope, &[4]).unwrap();
        slab.note_step();
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
        assert_eq!((slab.n_rows(), slab.n_waiting(), slab.n_dropped()), (1, 0, 1));
        let mut waits = Slab::new(&scope, vars(), half.clone());
        waits.set_filter(EntryFilter::new(EntryRule::Count(3), 0, "w", 100));
        waits.count(&scope, &[8, 9]);
        assert_eq!((waits.n_waiting(), waits.n_dropped()), (2, 2));
        waits.count(&scope, &[9]);
        set(&scope, "w", 2, 6.5);
        let snapshot = waits.begin_save(&scope, false);
        let (files, form) = (snapshot.files.clone(), snapshot.form);
        let save = Transaction::begin(dir.path()).unwrap();
        let listed = snapshot.listed(|| waits.next_names()).unwrap();
        listed.write(save.stage(), false, |var, rows| waits.chunk(&scope, var, rows)).unwrap();
        waits.end_save();
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
