//! Changes that GEO has learnt and servers do not know, for a cut.
//!
//! A trainer's values are x = old + d. At a cut the servers keep their values, and the trainer keeps d.
//! After a rollback old is the value of the servers, and x is old + d: it contains the changes of
//! others up to the cut, as after an exchange.

use std::ops::Sub;
use std::sync::Arc;

use program::Distributed;
use tensor::{DType, Element, Rows, Tensor};

use super::held::held_tables;
use super::{Geo, origins, put};
use crate::recover::{GeoState, GeoTable};
use crate::remote::rows_of::{add_tensor, pick, subtract};
use crate::row_set::RowSet;
use crate::scope::Scope;

impl Geo {
    /// The state to keep; nothing if no parameter was noted yet. Copies only learnt changes: a table may be large, and a step
    /// waits for this.
    pub(in crate::remote) fn save(&mut self, scope: &Scope) -> Option<GeoState> {
        let job = self.job.clone()?;
        let mut state = GeoState { n_steps: self.n_steps, ..GeoState::default() };
        for origin in origins(&job) {
            let Some(old) = self.old.get(origin) else { continue };
            let (touched, used) = (self.touched.get(origin), self.used.get_mut(origin));
            scope.read(origin, |value| match (value.tensor(), touched, used) {
                (Some(x), Some(touched), Some(used)) => {
                    used.unite(touched);
                    let rows = learnt(x, old, used);
                    // The others are what servers have; the next cut need not look at them.
                    *used = RowSet::default();
                    rows.ids.iter().for_each(|&row| used.insert(row.max(0) as usize));
                    let touched = touched.rows().map(|row| row as i64).collect();
                    state.tables.insert(origin.to_string(), GeoTable { touched, rows });
                }
                // Before the first step nobody knows what is a table.
                (Some(x), _, _) if !self.has_stepped && x.bytes() == old.bytes() => {}
                (Some(x), _, _) => {
                    let mut d = x.clone();
                    subtract(&mut d, old);
                    state.dense.insert(origin.to_string(), d);
                }
                _ => {}
            });
        }
        self.save_held(scope, &mut state);
        Some(state)
    }

    /// Goes on with what was kept, from the values that servers have.
    pub(in crate::remote) fn restore(
        &mut self,
        job: &Arc<Distributed>,
        scope: &Scope,
        params: impl Iterator<Item = (String, Tensor)>,
        state: &GeoState,
    ) {
        *self = Self { job: Some(job.clone()), held: held_tables(job), ..Self::default() };
        self.learn(scope, params, state);
    }

    fn learn(
        &mut self,
        scope: &Scope,
        params: impl Iterator<Item = (String, Tensor)>,
        state: &GeoState,
    ) {
        self.n_steps = state.n_steps;
        self.has_stepped = !state.tables.is_empty();
        for (name, old) in params {
            let mut x = old.clone();
            if let Some(d) = state.dense.get(&name).filter(|d| d.dims() == x.dims()) {
                add_tensor(&mut x, d);
            }
            if let Some(table) = state.tables.get(&name) {
                self.relearn(&name, &mut x, table);
            }
            self.old.insert(name.clone(), old);
            scope.set(&name, x);
        }
    }

    fn relearn(&mut self, name: &str, x: &mut Tensor, table: &GeoTable) {
        let height = x.dims().first().copied().unwrap_or(0);
        let is_here = |row: &usize| *row < height;
        let set = |rows: &[i64]| {
            let mut set = RowSet::default();
            let rows = rows.iter().filter_map(|&row| usize::try_from(row).ok()).filter(is_here);
            rows.for_each(|row| set.insert(row));
            set
        };
        self.touched.insert(name.to_string(), set(&table.touched));
        self.used.insert(name.to_string(), set(&table.rows.ids));
        let positions: Vec<usize> = table.rows.ids.iter().map(|&row| row.max(0) as usize).collect();
        if positions.iter().all(is_here) {
            let mut rows = pick(x, &positions);
            add_tensor(&mut rows, &table.rows.value);
            put(x, &positions, &rows);
        }
    }
}

/// x - old of the rows that were used, where that is not zero. Each row is read once and written once: a step
/// waits for this.
fn learnt(x: &Tensor, old: &Tensor, used: &RowSet) -> Rows {
    let mut rows = Rows { ids: Vec::with_capacity(used.len()), ..Rows::default() };
    rows.height = x.shape().flatten_2d(1).0 as i64;
    rows.value.resize_as(x.dtype(), x.shape().with_dim(0, used.len()));
    match x.dtype() {
        DType::F32 => learn_rows::<f32>(x, old, used, &mut rows),
        DType::F64 => learn_rows::<f64>(x, old, used, &mut rows),
        _ => {}
    }
    rows.value.truncate_rows(rows.ids.len());
    rows
}

fn learn_rows<T: Element + Sub<Output = T> + PartialEq>(
    x: &Tensor,
    old: &Tensor,
    used: &RowSet,
    to: &mut Rows,
) {
    let width = x.shape().flatten_2d(1).1.max(1);
    let (Ok(x), Ok(old)) = (x.data::<T>(), old.data::<T>()) else { return };
    let Ok(value) = to.value.data_mut::<T>() else { return };
    let mut out = value.chunks_exact_mut(width);
    for row in used.rows() {
        let at = row * width..(row + 1) * width;
        let (Some(x), Some(old)) = (x.get(at.clone()), old.get(at)) else { break };
        if x == old {
            continue;
        }
        let Some(out) = out.next() else { break };
        to.ids.push(row as i64);
        for ((out, x), old) in out.iter_mut().zip(x).zip(old) {
            *out = *x - *old;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(values: &[f32]) -> Tensor {
        Tensor::new([values.len(), 1], values).unwrap()
    }

    #[test]
    fn what_was_learnt_is_added_to_what_servers_have() {
        let (x, old) = (table(&[1.0, 2.0, 3.5, 4.0]), table(&[1.0, 1.0, 1.0, 1.0]));
        let mut used = RowSet::default();
        [0, 2, 3].into_iter().for_each(|row| used.insert(row));
        let rows = learnt(&x, &old, &used);
        assert_eq!((rows.ids.clone(), rows.value.clone()), (vec![2, 3], table(&[2.5, 3.0])));
        let tables = [("t".to_string(), GeoTable { touched: vec![0, 3], rows })].into();
        let dense = [("w".to_string(), table(&[0.5]))].into();
        let state = GeoState { n_steps: 7, dense, tables };
        let scope = Scope::new();
        let params = [("t", table(&[10.0, 20.0, 30.0, 40.0])), ("w", table(&[1.0]))];
        let mut geo = Geo::default();
        let named = params.into_iter().map(|(name, value)| (name.to_string(), value));
        geo.learn(&scope, named, &state);
        assert_eq!(scope.get("t"), Some(table(&[10.0, 20.0, 32.5, 43.0]).into()));
        assert_eq!(scope.get("w"), Some(table(&[1.5]).into()));
        assert_eq!((geo.n_steps, geo.touched["t"].rows().collect::<Vec<_>>()), (7, vec![0, 3]));
        assert_eq!(geo.used["t"].rows().collect::<Vec<_>>(), [2, 3]);
        assert_eq!(geo.old["t"], table(&[10.0, 20.0, 30.0, 40.0]));
    }
}
