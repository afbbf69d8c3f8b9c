//! A table as it was at one moment, while it is written and others go on changing it; and which rows changed since the
//! last cut. Cuts, saves and the take-over of other servers all read a table in this way.
//!
//! Nothing is copied when a capture begins. An update that changes a row which was not read yet keeps the old values of
//! that row; one that changes all rows shares the table and continues with a copy.

use std::collections::HashMap;
use std::sync::Arc;

use tensor::{Tensor, Value};
use train::Scope;
use train::row_set::RowSet;

use crate::bad_snapshot::BadSnapshot;
use crate::serve::snapshot::{FileReader, Places, RowsChunk, read_places, read_rows};

/// Bytes that are copied at once, while nobody changes the table.
const CHUNK_BYTES: usize = 1 << 20;

/// The variables of a table that have a row for each place, in the scope that holds them.
pub(super) struct RowVars<'a> {
    pub(super) scope: &'a Scope,
    pub(super) names: Vec<&'a str>,
}

impl RowVars<'_> {
    /// Looks at each of them, with the bytes of a row.
    fn each(&self, mut look: impl FnMut(usize, &[u8], usize)) {
        for (at, name) in self.names.iter().enumerate() {
            self.scope.read(name, |value| {
                if let Some(tensor) = value.tensor() {
                    look(at, tensor.bytes(), row_bytes(tensor));
                }
            });
        }
    }

    /// Bytes of a row, all of them together.
    pub(super) fn row_bytes(&self) -> usize {
        let mut sum = 0;
        self.each(|_, _, row_bytes| sum += row_bytes);
        sum
    }

    /// The variables, with the bytes of a row of each.
    pub(super) fn described(&self) -> Vec<(String, u32)> {
        let mut vars = Vec::new();
        self.each(|at, _, row_bytes| vars.push((self.names[at].to_string(), row_bytes as u32)));
        vars
    }

    /// Reads a section with rows of a table that has so many places.
    pub(super) fn load(&self, file: &mut FileReader, n_places: usize) -> Result<(), BadSnapshot> {
        let places = read_places(file, self.row_bytes(), n_places)?;
        for name in &self.names {
            self.scope.write(name, |value| {
                value.unshare();
                let Value::Tensor(tensor) = value else { return Ok(()) };
                let row_bytes = row_bytes(tensor);
                read_rows(file, &places, tensor.bytes_mut(), row_bytes)
            })?;
        }
        Ok(())
    }

    /// Lets others read the first of them. An update that changes one makes a copy first.
    fn share(&self, n_vars: usize) -> Vec<Arc<Tensor>> {
        let share = |name: &&str| self.scope.write(name, Value::share).unwrap_or_default();
        self.names.iter().take(n_vars).map(share).collect()
    }
}

pub(super) fn row_bytes(tensor: &Tensor) -> usize {
    tensor.shape().flatten_2d(1).1 * tensor.dtype().size()
}

/// The part of a table that is captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) enum Extent {
    /// What changed since the last cut.
    Changed,
    /// Everything; the next cut has what changes from now on.
    Whole,
    /// Everything; what the next cut has is not touched by it.
    Copy,
    /// The files of a save; what the next cut has is not touched by it.
    Save {
        /// Without the states of its optimizer.
        weights_only: bool,
    },
}

impl Extent {
    /// Whether it has nothing to do with the next cut.
    pub(super) fn is_copy(self) -> bool {
        matches!(self, Extent::Copy | Extent::Save { .. })
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Tracking {
    /// What changed since the last cut, if there are cuts.
    noted: Option<NotedRows>,
    captures: Vec<Capture>,
    n_captures: u64,
}

/// Rows that changed since the last cut.
#[derive(Debug, Default)]
struct NotedRows {
    touched: RowSet,
    /// All of them did.
    is_all_touched: bool,
}

/// The rows of a table at one moment, while they are read: in the order of their places ([`Tracking::chunk`]), or those
/// that are asked for, variable by variable ([`Tracking::rows_at`]).
#[derive(Debug)]
pub(in crate::serve) struct Capture {
    id: u64,
    extent: Extent,
    /// Those that had changed; none: all.
    changed: Option<RowSet>,
    n_places: usize,
    /// All rows before were read.
    next: usize,
    /// All variables before were read.
    first_var: usize,
    /// Rows that changed before they were read, and what they were, by variable.
    left_behind: RowSet,
    places: Vec<u32>,
    values: Vec<Vec<u8>>,
    /// Where a row is among those, as far as that was asked for.
    slots: HashMap<u32, usize>,
    /// Where the others are, once the table has changed as a whole.
    shared: Option<Vec<Arc<Tensor>>>,
}

impl Tracking {
    /// Notes what changes from now on.
    pub(super) fn noting() -> Self {
        Self { noted: Some(NotedRows::default()), ..Self::default() }
    }

    /// Whether changes are noted for cuts.
    pub(super) fn is_noting(&self) -> bool {
        self.noted.is_some()
    }

    /// Whether nobody has to know what changes.
    pub(super) fn is_idle(&self) -> bool {
        self.noted.is_none() && self.captures.is_empty()
    }

    /// Rows at these places are about to change.
    pub(super) fn touch(&mut self, vars: &RowVars<'_>, places: &[i64]) {
        if let Some(noted) = self.noted.as_mut().filter(|noted| !noted.is_all_touched) {
            let there = places.iter().filter_map(|&place| usize::try_from(place).ok());
            there.for_each(|place| noted.touched.insert(place));
        }
        for capture in &mut self.captures {
            capture.keep(vars, places);
        }
    }

    /// All rows of some variables are about to change. Captures keep the values, and the table continues with copies.
    pub(super) fn touch_all(&mut self, vars: &RowVars<'_>) {
        if let Some(noted) = &mut self.noted {
            noted.is_all_touched = true;
        }
        for capture in &mut self.captures {
            let n_vars = capture.values.len();
            capture.shared.get_or_insert_with(|| vars.share(n_vars));
        }
    }

    /// Rows that the next cut will have, of so many.
    pub(super) fn n_touched(&self, n_places: usize) -> usize {
        match &self.noted {
            None => 0,
            Some(noted) if noted.is_all_touched => n_places,
            Some(noted) => noted.touched.len(),
        }
    }

    /// Captures a table with so many places, and its first variables.
    pub(super) fn mark(&mut self, n_vars: usize, n_places: usize, extent: Extent) -> u64 {
        let mut changed = None;
        if !extent.is_copy() {
            let NotedRows { touched, is_all_touched } =
                std::mem::take(self.noted.get_or_insert_default());
            changed = (!is_all_touched).then_some(touched);
        }
        self.n_captures += 1;
        let id = self.n_captures;
        self.captures.push(Capture {
            id,
            extent,
            changed,
            n_places,
            next: 0,
            first_var: 0,
            left_behind: RowSet::default(),
            places: Vec::new(),
            values: vec![Vec::new(); n_vars],
            slots: HashMap::new(),
            shared: None,
        });
        id
    }

    fn capture(&mut self, id: u64) -> Option<&mut Capture> {
        self.captures.iter_mut().find(|capture| capture.id == id)
    }

    /// Whether a capture can still be read: the table was not loaded since.
    pub(super) fn has(&self, id: u64) -> bool {
        self.captures.iter().any(|capture| capture.id == id)
    }

    /// The next rows of a capture: nothing if it cannot be read any more, no rows at its end.
    pub(super) fn chunk(&mut self, vars: &RowVars<'_>, id: u64) -> Option<Option<RowsChunk>> {
        let capture = self.capture(id)?;
        Some(capture.left().or_else(|| capture.chunk(vars)))
    }

    /// The bytes of the rows at these places of a variable; nothing if the capture cannot be read any more. Variables are
    /// asked for one after the other.
    pub(super) fn rows_at(
        &mut self,
        vars: &RowVars<'_>,
        id: u64,
        var: usize,
        places: impl Iterator<Item = usize>,
    ) -> Option<Vec<u8>> {
        self.capture(id)?.rows_at(vars, var, places)
    }

    /// Ends a capture. If it is of a cut and not durable, the next cut has its rows too. What was held for it may be much:
    /// the caller drops it where nobody waits.
    pub(super) fn end(&mut self, id: u64, is_durable: bool) -> Option<Capture> {
        let at = self.captures.iter().position(|capture| capture.id == id)?;
        let mut capture = self.captures.swap_remove(at);
        if !is_durable && !capture.extent.is_copy() {
            let noted = self.noted.get_or_insert_default();
            match capture.changed.take() {
                Some(changed) => noted.touched.unite(&changed),
                None => noted.is_all_touched = true,
            }
        }
        Some(capture)
    }

    /// Forgets everything: the table has been loaded.
    pub(super) fn reset(&mut self) {
        self.noted = self.noted.take().map(|_| NotedRows::default());
        self.captures.clear();
    }
}

impl Capture {
    /// Those that belong to it; none: all.
    fn listed(&self) -> Option<&RowSet> {
        self.changed.as_ref().filter(|_| self.extent == Extent::Changed)
    }

    /// Whether a row is still to be read.
    fn has(&self, place: usize) -> bool {
        let is_listed = self.listed().is_none_or(|listed| listed.contains(place));
        is_listed && (self.next..self.n_places).contains(&place)
    }

    /// Keeps what rows are that are about to change.
    fn keep(&mut self, vars: &RowVars<'_>, changing: &[i64]) {
        if self.shared.is_some() {
            return;
        }
        let n_before = self.places.len();
        for place in changing.iter().filter_map(|&place| usize::try_from(place).ok()) {
            if self.has(place) && self.left_behind.is_new(place) {
                self.places.push(place as u32);
            }
        }
        let places = &self.places[n_before..];
        if places.is_empty() {
            return;
        }
        let wanted = self.first_var..self.values.len();
        let values = &mut self.values;
        vars.each(|var, table, row_bytes| {
            if wanted.contains(&var) {
                let rows = places.iter().map(|&place| &table[place as usize * row_bytes..]);
                rows.for_each(|row| values[var].extend_from_slice(&row[..row_bytes]));
            }
        });
    }

    /// See [`Tracking::rows_at`].
    fn rows_at(
        &mut self,
        vars: &RowVars<'_>,
        var: usize,
        places: impl Iterator<Item = usize>,
    ) -> Option<Vec<u8>> {
        for read in self.values.iter_mut().take(var).skip(self.first_var) {
            *read = Vec::new();
        }
        self.first_var = self.first_var.max(var);
        let n_known = self.slots.len();
        self.slots.extend(self.places.iter().copied().zip(0..).skip(n_known));
        let (slots, old) = (&self.slots, self.values.get(var)?);
        let gather = |table: &[u8], row_bytes: usize| {
            let mut rows = Vec::with_capacity(places.size_hint().0 * row_bytes);
            for place in places {
                let (from, at) = match slots.get(&(place as u32)) {
                    Some(&slot) => (&old[..], slot),
                    None => (table, place),
                };
                rows.extend_from_slice(from.get(at * row_bytes..(at + 1) * row_bytes)?);
            }
            Some(rows)
        };
        match &self.shared {
            Some(tensors) => {
                let tensor = tensors.get(var)?;
                gather(tensor.bytes(), row_bytes(tensor))
            }
            None => vars.scope.read(vars.names.get(var)?, |value| {
                let tensor = value.tensor()?;
                gather(tensor.bytes(), row_bytes(tensor))
            })?,
        }
    }

    /// Rows that were left behind.
    fn left(&mut self) -> Option<RowsChunk> {
        if self.places.is_empty() {
            return None;
        }
        let places = Places::List(std::mem::take(&mut self.places));
        let values = self.values.iter_mut().map(std::mem::take).collect();
        Some(RowsChunk { places, values })
    }

    /// The next rows that did not change.
    fn chunk(&mut self, vars: &RowVars<'_>) -> Option<RowsChunk> {
        let row_bytes = match &self.shared {
            None => vars.row_bytes(),
            Some(tensors) => tensors.iter().map(|tensor| self::row_bytes(tensor)).sum(),
        };
        let places = self.take_places((CHUNK_BYTES / row_bytes.max(1)).max(1));
        if places.len() == 0 {
            return None;
        }
        let mut values = vec![Vec::new(); vars.names.len()];
        match &self.shared {
            None => vars.each(|var, table, row_bytes| {
                values[var] = gathered(table, row_bytes, &places);
            }),
            Some(tensors) => {
                for (values, tensor) in values.iter_mut().zip(tensors) {
                    *values = gathered(tensor.bytes(), self::row_bytes(tensor), &places);
                }
            }
        }
        Some(RowsChunk { places, values })
    }

    /// The first place not before `from` that belongs to the cut.
    fn next_from(&self, from: usize) -> Option<usize> {
        let next = match self.listed() {
            Some(listed) => listed.next_from(from)?,
            None => from,
        };
        (next < self.n_places).then_some(next)
    }

    /// The next places, which are written then.
    fn take_places(&mut self, n_max: usize) -> Places {
        let (mut places, mut next) = (Vec::with_capacity(n_max), self.next);
        while places.len() < n_max {
            let Some(place) = self.next_from(next) else {
                next = self.n_places;
                break;
            };
            if !self.left_behind.contains(place) {
                places.push(place as u32);
            }
            next = place + 1;
        }
        self.next = next;
        match (places.first(), places.last()) {
            (Some(&first), Some(&last)) if (last - first) as usize == places.len() - 1 => {
                Places::Run(first as usize..last as usize + 1)
            }
            _ => Places::List(places),
        }
    }
}

fn gathered(table: &[u8], row_bytes: usize, places: &Places) -> Vec<u8> {
    match places {
        Places::Run(run) => table[run.start * row_bytes..run.end * row_bytes].to_vec(),
        Places::List(list) => {
            let mut values = Vec::with_capacity(list.len() * row_bytes);
            for &place in list {
                values.extend_from_slice(&table[place as usize * row_bytes..][..row_bytes]);
            }
            values
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const N: usize = 500;

    fn scope() -> Scope {
        let scope = Scope::new();
        let values: Vec<f32> = (0..2 * N).map(|n| n as f32).collect();
        scope.set("w", Tensor::new([N, 2], &values).unwrap());
        scope.set("m", Tensor::new([N, 1], &values[..N]).unwrap());
        scope
    }

    fn vars(scope: &Scope) -> RowVars<'_> {
        RowVars { scope, names: vec!["w", "m"] }
    }

    fn set(scope: &Scope, place: usize, to: f32) {
        for (name, width) in [("w", 2), ("m", 1)] {
            scope.write(name, |value| {
                value.unshare();
                let Value::Tensor(tensor) = value else { panic!("a tensor") };
                tensor.data_mut::<f32>().unwrap()[place * width..(place + 1) * width].fill(to);
            });
        }
    }

    /// Puts a chunk into a copy of the table.
    fn put(chunk: &RowsChunk, to: &Scope) {
        let places: Vec<usize> = match &chunk.places {
            Places::Run(run) => run.clone().collect(),
            Places::List(list) => list.iter().map(|&place| place as usize).collect(),
        };
        for (name, values) in ["w", "m"].into_iter().zip(&chunk.values) {
            to.write(name, |value| {
                let Value::Tensor(tensor) = value else { panic!("a tensor") };
                let row_bytes = row_bytes(tensor);
                assert_eq!(values.len(), places.len() * row_bytes);
                for (at, place) in places.iter().enumerate() {
                    let row = &values[at * row_bytes..][..row_bytes];
                    tensor.bytes_mut()[place * row_bytes..][..row_bytes].copy_from_slice(row);
                }
            });
        }
    }

    /// While rows change at random, cuts are written, and some of them are given up. A copy that gets what
    /// each cut wrote is the table as it was at the cut.
    #[test]
    fn cuts_are_moments_however_rows_change_meanwhile() {
        let (scope, copy) = (scope(), scope());
        let (mut tracking, mut random) = (Tracking::noting(), 0);
        let mut change = |tracking: &mut Tracking, n: usize| {
            for _ in 0..n {
                random += 1;
                let place = (tensor::mix(random) % N as u64) as usize;
                match random % 97 {
                    0 => tracking.touch_all(&vars(&scope)),
                    _ => tracking.touch(&vars(&scope), &[place as i64, -1, place as i64]),
                }
                set(&scope, place, random as f32);
            }
        };
        for cut in 0..60 {
            change(&mut tracking, 40);
            let now = ["w", "m"].map(|name| scope.get(name).unwrap());
            let base = (cut % 7 == 3).then(|| tracking.mark(2, N, Extent::Copy));
            let extent = if cut % 4 == 1 { Extent::Whole } else { Extent::Changed };
            let id = tracking.mark(2, N, extent);
            let whole = Scope::new();
            ["w", "m"].iter().for_each(|name| whole.set(name, copy.get(name).unwrap()));
            loop {
                change(&mut tracking, 3);
                match tracking.chunk(&vars(&scope), id).unwrap() {
                    Some(chunk) => put(&chunk, &whole),
                    None => break,
                }
            }
            assert_eq!(["w", "m"].map(|name| whole.get(name).unwrap()), now, "cut {cut}");
            let is_durable = cut % 5 != 2;
            tracking.end(id, is_durable);
            if is_durable {
                ["w", "m"].iter().for_each(|name| copy.set(name, whole.get(name).unwrap()));
            }
            if let Some(base) = base {
                change(&mut tracking, 5);
                let whole = self::scope();
                while let Some(chunk) = tracking.chunk(&vars(&scope), base).unwrap() {
                    put(&chunk, &whole);
                }
                assert_eq!(["w", "m"].map(|name| whole.get(name).unwrap()), now, "base {cut}");
                tracking.end(base, true);
            }
        }
        let id = tracking.mark(2, N, Extent::Changed);
        tracking.reset();
        assert!(tracking.chunk(&vars(&scope), id).is_none(), "it is given up");
        tracking.end(id, false);
        assert_eq!(tracking.n_touched(N), 0);
    }

    /// A save asks for rows in the order of their numbers, variable by variable, while rows change at random.
    #[test]
    fn a_save_has_the_rows_of_its_moment_in_any_order() {
        for touches_all in [false, true] {
            let (scope, mut tracking) = (scope(), Tracking::default());
            let mut random = 0;
            let mut change = |tracking: &mut Tracking| {
                random += 1;
                let place = (tensor::mix(random) % N as u64) as usize;
                if touches_all && random > 20 {
                    tracking.touch_all(&vars(&scope));
                } else {
                    tracking.touch(&vars(&scope), &[place as i64, -1]);
                }
                set(&scope, place, -(random as f32));
            };
            (0..10).for_each(|_| change(&mut tracking));
            let now = ["w", "m"].map(|name| scope.get(name).unwrap());
            let id = tracking.mark(2, N, Extent::Save { weights_only: false });
            let weights = tracking.mark(1, N, Extent::Save { weights_only: true });
            for (var, now) in now.iter().enumerate() {
                let now = now.tensor().unwrap();
                for part in (0..N).collect::<Vec<_>>().chunks(50).rev() {
                    (0..20).for_each(|_| change(&mut tracking));
                    let expected: Vec<u8> = part
                        .iter()
                        .flat_map(|&place| {
                            now.bytes()[place * row_bytes(now)..][..row_bytes(now)].to_vec()
                        })
                        .collect();
                    let places = || part.iter().copied();
                    let read = tracking.rows_at(&vars(&scope), id, var, places());
                    assert_eq!(read.as_ref(), Some(&expected), "{var} {part:?}");
                    let read = tracking.rows_at(&vars(&scope), weights, var, places());
                    assert_eq!(read, (var == 0).then_some(expected), "the weights alone");
                }
            }
            let held = tracking.end(id, true).unwrap();
            assert!(held.values[0].is_empty(), "a variable that was read is not held any more");
            assert!(!held.values[1].is_empty(), "rows changed before they were read");
            assert!(tracking.rows_at(&vars(&scope), id, 1, 0..1).is_none(), "it has ended");
            assert!(tracking.end(weights, true).is_some() && tracking.is_idle());
        }
    }

    #[test]
    fn only_what_changed_is_written() {
        let (scope, mut tracking) = (scope(), Tracking::noting());
        tracking.touch(&vars(&scope), &[7, 8, 9, 300, 9]);
        assert_eq!(tracking.n_touched(N), 4);
        let id = tracking.mark(2, N, Extent::Changed);
        let chunk = tracking.chunk(&vars(&scope), id).unwrap().unwrap();
        assert_eq!((chunk.places, chunk.values[1].len()), (Places::List(vec![7, 8, 9, 300]), 16));
        assert!(tracking.chunk(&vars(&scope), id).unwrap().is_none());
        let id = tracking.mark(2, N, Extent::Copy);
        let chunk = tracking.chunk(&vars(&scope), id).unwrap().unwrap();
        assert_eq!(chunk.places, Places::Run(0..N));
    }
}
