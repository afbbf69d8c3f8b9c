//! `similarity_focus`: Out is 0 and 1 in the shape of X (four dimensions). For each of `indexes` along `axis`, a matrix of X is left; its largest
//! numbers are taken one after the other, no row and no column twice, and Out is 1 at their places, all along `axis`.

use super::sizes::bad_attr;
use super::{Infer, Op, Run, for_float, no_gradient, traits};
use crate::attr::Attrs;
use crate::error::Result;

pub(super) struct SimilarityFocus;

const RANK: &str = "X has four dimensions";

/// What the attributes say.
struct Focus {
    axis: usize,
    indexes: Vec<usize>,
}

impl Focus {
    fn of(attrs: &Attrs, dims: &[i64]) -> Result<Self> {
        let axis = attrs.int("axis", 1)?;
        if !(1..=3).contains(&axis) {
            return Err(bad_attr("axis", "1, 2 or 3", axis));
        }
        let indexes = attrs.ints("indexes")?;
        let size = dims[axis as usize];
        let beyond = |index: &i64| *index < 0 || (size >= 0 && *index >= size);
        if indexes.is_empty() || indexes.iter().any(beyond) {
            return Err(bad_attr("indexes", &format!("places of {size}"), indexes));
        }
        let indexes = indexes.into_iter().map(|index| index as usize).collect();
        Ok(Self { axis: axis as usize, indexes })
    }
}

impl Op for SimilarityFocus {
    traits!(Rows("X"), "X": [F32, F64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        if x.dims.len() != 4 {
            return Err(infer.shape(RANK, "X"));
        }
        Focus::of(infer.attrs(), &x.dims)?;
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run.fill("Out", "X", |run, x, out| {
            let &[n_samples, ref sizes @ ..] = x.dims() else { return Err(run.shape(RANK, "X")) };
            if sizes.len() != 3 {
                return Err(run.shape(RANK, "X"));
            }
            let focus = Focus::of(run.attrs(), &x.shape().to_i64())?;
            let strides = [sizes[1] * sizes[2], sizes[2], 1];
            let along = focus.axis - 1;
            // The two dimensions of the matrix that is left.
            let [a, b] = [[1, 2], [0, 2], [0, 1]][along];
            for_float!(x.dtype(), run.input_name("X"), T => {
                let (data, out) = (x.data::<T>()?, out.resize_zeroed::<T>(x.shape()));
                let place = |k: usize| k / sizes[b] * strides[a] + k % sizes[b] * strides[b];
                for sample in 0..n_samples {
                    let start = sample * strides[0] * sizes[0];
                    for index in &focus.indexes {
                        let start_of_matrix = start + index * strides[along];
                        let mut order: Vec<usize> = (0..sizes[a] * sizes[b]).collect();
                        let value = |k: usize| data[start_of_matrix + place(k)];
                        order.sort_by(|&k, &l| value(l).total_cmp(&value(k)));
                        let (mut rows, mut columns) = (vec![false; sizes[a]], vec![false; sizes[b]]);
                        for k in order {
                            let (row, column) = (k / sizes[b], k % sizes[b]);
                            if rows[row] || columns[column] {
                                continue;
                            }
                            rows[row] = true;
                            columns[column] = true;
                            let all = (0..sizes[along]).map(|j| start + place(k) + j * strides[along]);
                            all.for_each(|at| out[at] = 1.0);
                        }
                    }
                }
                Ok(())
            })
        })
    }

    no_gradient!();
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, some, t};

    fn focus(axis: i32, indexes: Vec<i32>) -> Check {
        let x = [0.8, 0.1, 0.4, 0.5, 0.9, 0.7, 0.9, 0.9];
        let check = check("similarity_focus").input("X", t(&[1, 2, 2, 2], &x));
        check.attr("axis", axis).attr("indexes", indexes)
    }

    #[test]
    fn marks_the_largest_of_rows_and_columns() {
        focus(1, vec![0]).gives("Out", t(&[1, 2, 2, 2], &[1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0]));
        focus(3, vec![0]).gives("Out", t(&[1, 2, 2, 2], &[0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0]));
        focus(2, vec![1]).gives("Out", t(&[1, 2, 2, 2], &[0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0]));
    }

    #[test]
    fn refuses_places_that_are_not_there() {
        for (axis, indexes) in [(0, vec![0]), (1, vec![2]), (1, vec![]), (1, vec![-1])] {
            let error = focus(axis, indexes).output("Out").fails();
            assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        }
        let error = focus(1, vec![0]).input("X", some(&[2, 2])).output("Out").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
    }
}
