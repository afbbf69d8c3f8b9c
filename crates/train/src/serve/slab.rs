//! A table of which only the touched rows exist, under the names of the whole one.
//!
//! The program's optimize block runs on the slab as it would on the whole table: gradients come with
//! the places of their rows instead of their numbers. Rows that do not exist are not missed, because
//! a table is only kept this way where a step without a gradient leaves a fresh row as it is.

use ps::table::{RowIndex, RowInit};
use tensor::{Shape, Tensor, Value};

use crate::scope::Scope;

/// Slabs grow by so many rows.
const GROW_ROWS: usize = 1024;

#[derive(Debug)]
pub(super) struct Slab {
    index: RowIndex,
    width: usize,
    /// The weights, then the states of the optimizer.
    vars: Vec<(String, RowInit)>,
}

impl Slab {
    /// An empty table; its variables have no memory yet.
    pub(super) fn new(height: usize, width: usize, vars: Vec<(String, RowInit)>) -> Self {
        Self { index: RowIndex::new(height), width, vars }
    }

    /// Whether a variable is one of this table's.
    pub(super) fn holds(&self, name: &str) -> bool {
        self.vars.iter().any(|(var, _)| var == name)
    }

    /// Rows that exist.
    pub(super) fn n_rows(&self) -> usize {
        self.index.n_rows()
    }

    /// Bytes of these rows and of the index.
    pub(super) fn n_bytes(&self) -> usize {
        self.n_rows() * self.width * 4 * self.vars.len() + self.index.height() * 4
    }

    /// Where rows are in the slabs; those that do not exist are made. The number of a row that the
    /// table does not have is the error.
    pub(super) fn places(&mut self, scope: &Scope, rows: &[i64]) -> Result<Vec<i64>, i64> {
        let mut made = Vec::new();
        let mut places = Vec::with_capacity(rows.len());
        for &row in rows {
            let number = usize::try_from(row).map_err(|_| row)?;
            let (place, is_new) = self.index.find_or_make(number).ok_or(row)?;
            if is_new {
                made.push((place, number));
            }
            places.push(place as i64);
        }
        if !made.is_empty() {
            self.fill(scope, &made);
        }
        Ok(places)
    }

    fn fill(&self, scope: &Scope, made: &[(usize, usize)]) {
        let (width, n_rows) = (self.width, self.index.n_rows().next_multiple_of(GROW_ROWS));
        for (name, init) in &self.vars {
            scope.write(name, |value| {
                value.unshare();
                if !matches!(value, Value::Tensor(_)) {
                    let mut empty = Tensor::default();
                    empty.resize::<f32>(Shape::from([0, width]));
                    *value = Value::Tensor(empty);
                }
                let Value::Tensor(tensor) = value else { return };
                tensor.grow_rows(n_rows);
                let Ok(data) = tensor.data_mut::<f32>() else { return };
                for &(place, row) in made {
                    init.fill(row, &mut data[place * width..(place + 1) * width]);
                }
            });
        }
    }

    /// A variable as the whole table would have it.
    pub(super) fn whole(&self, scope: &Scope, name: &str) -> Option<Tensor> {
        let init = self.vars.iter().find(|(var, _)| var == name)?.1;
        let (height, width) = (self.index.height(), self.width);
        let mut whole = Tensor::default();
        let rows = whole.resize::<f32>(Shape::from([height, width]));
        let copied = scope.read(name, |value| {
            let data = value.tensor().and_then(|tensor| tensor.data::<f32>().ok()).unwrap_or(&[]);
            for (row, out) in rows.chunks_exact_mut(width.max(1)).enumerate() {
                match self.index.find(row).and_then(|at| data.get(at * width..(at + 1) * width)) {
                    Some(values) => out.copy_from_slice(values),
                    None => init.fill(row, out),
                }
            }
        });
        copied.map(|()| whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_touched_rows_exist_and_the_rest_is_as_if_it_did() {
        let scope = Scope::new();
        let uniform = RowInit::Uniform { low: -1.0, high: 1.0, seed: 9, offset: 0 };
        let vars = vec![("w".to_string(), uniform), ("m".to_string(), RowInit::Constant(0.5))];
        let mut slab = Slab::new(5000, 2, vars);
        let whole = slab.whole(&scope, "w");
        assert_eq!(whole, None, "nobody has declared it");
        scope.var("w");
        let fresh = slab.whole(&scope, "w").unwrap();
        assert_eq!(slab.places(&scope, &[4000, 3, 4000]), Ok(vec![0, 1, 0]));
        assert_eq!(slab.n_rows(), 2);
        assert_eq!(slab.whole(&scope, "w").unwrap(), fresh, "touching changes nothing");
        scope.write("w", |value| {
            let Value::Tensor(tensor) = value else { panic!("a slab") };
            tensor.data_mut::<f32>().unwrap()[2] = 8.0;
        });
        let changed = slab.whole(&scope, "w").unwrap();
        assert_eq!(changed.data::<f32>().unwrap()[6], 8.0, "row 3, place 1");
        assert_eq!(slab.whole(&scope, "m").unwrap(), Tensor::full([5000, 2], 0.5f32));
        assert_eq!(slab.places(&scope, &[5000]), Err(5000));
        assert_eq!(slab.places(&scope, &[-1]), Err(-1));
    }
}
