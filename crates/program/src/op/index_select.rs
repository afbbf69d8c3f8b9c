//! `index_select`: Out = the parts of X along `dim` that Index names.
//!
//! `index_sample`: Out[i, j] = X[i, Index[i, j]]. Gradient of both: dX at a place is the sum of dOut that
//! came from there.

use tensor::Shape;

use super::dims;
use super::moves::{Moves, moves};
use super::sizes;
use super::{Infer, Run};
use crate::error::{Error, Result};

moves! { IndexSelect, IndexSelectGrad: "X" -> "Out", reads ["X", "Index"];
    traits(Never, "X": [F32, F64, I32, I64], "Index": [I32, I64]); infer_select; plan_select
}

moves! { IndexSample, IndexSampleGrad: "X" -> "Out", reads ["X", "Index"];
    traits(All(&["X", "Index"]), "X": [F32, F64, I32, I64], "Index": [I32, I64]);
    infer_sample; plan_sample
}

const LIST: &str = "the index must be a list";
const MATRICES: &str = "both must be matrices with as many rows";

fn infer_select(infer: &mut Infer<'_>) -> Result<()> {
    let (x, index) = (infer.input("X")?, infer.input("Index")?);
    let dim = dims::axis(infer.attrs(), "dim", 0, x.dims.len())?;
    let &[n] = &index.dims[..] else { return Err(infer.shape(LIST, "Index")) };
    let mut dims = x.dims.clone();
    dims[dim] = n;
    infer.set_output("Out", x.with_dims(dims).with_lod_level(0))
}

fn infer_sample(infer: &mut Infer<'_>) -> Result<()> {
    let (x, index) = (infer.input("X")?, infer.input("Index")?);
    let fits = x.dims.len() == 2 && index.dims.len() == 2;
    if !fits || !dims::agree(&x.dims[..1], &index.dims[..1]) {
        return Err(infer.shapes(MATRICES, "X", "Index"));
    }
    infer.set_output("Out", x.with_dims(index.dims))
}

/// The places that Index names, each below `size`.
fn places(run: &Run<'_>, size: usize) -> Result<Vec<usize>> {
    let index = sizes::integers(run.input("Index")?, run.input_name("Index"))?;
    let place = |(position, value): (usize, &i64)| match usize::try_from(*value) {
        Ok(place) if place < size => Ok(place),
        _ => Err(Error::BadValue {
            rule: "a place must be within the dimension that is indexed",
            var: run.input_name("Index").to_string(),
            position,
            value: *value as f64,
        }),
    };
    index.iter().enumerate().map(place).collect()
}

struct Select {
    x: Shape,
    out: Shape,
    dim: usize,
    places: Vec<usize>,
}

fn plan_select(run: &Run<'_>) -> Result<Select> {
    let x = run.input("X")?.shape();
    let dim = dims::axis(run.attrs(), "dim", 0, x.rank())?;
    if run.input("Index")?.shape().rank() != 1 {
        return Err(run.shape(LIST, "Index"));
    }
    let places = places(run, x.dim(dim))?;
    Ok(Select { x, out: x.with_dim(dim, places.len()), dim, places })
}

impl Moves for Select {
    fn shape(&self) -> Shape {
        self.out
    }

    fn source(&self, at: &[usize]) -> Option<usize> {
        Some(at.iter().enumerate().fold(0, |place, (axis, &i)| {
            let i = if axis == self.dim { self.places[i] } else { i };
            place * self.x.dim(axis) + i
        }))
    }
}

struct Sample {
    width: usize,
    out: Shape,
    places: Vec<usize>,
}

fn plan_sample(run: &Run<'_>) -> Result<Sample> {
    let (x, out) = (run.input("X")?.shape(), run.input("Index")?.shape());
    if x.rank() != 2 || out.rank() != 2 || x.dim(0) != out.dim(0) {
        return Err(run.shapes(MATRICES, "X", "Index"));
    }
    Ok(Sample { width: x.dim(1), out, places: places(run, x.dim(1))? })
}

impl Moves for Sample {
    fn shape(&self) -> Shape {
        self.out
    }

    fn source(&self, at: &[usize]) -> Option<usize> {
        Some(at[0] * self.width + self.places[at[0] * self.out.dim(1) + at[1]])
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, ids, t};

    fn op(kind: &str, index: tensor::Tensor) -> Check {
        let x = t(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        check(kind).input("X", x).input("Index", index)
    }

    #[test]
    fn takes_parts_by_number() {
        let rows = op("index_select", ids(&[3], &[1, 0, 1]));
        rows.gives("Out", t(&[3, 3], &[4.0, 5.0, 6.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
        let columns = op("index_select", ids(&[2], &[2, 2])).attr("dim", 1);
        columns.gives("Out", t(&[2, 2], &[3.0, 3.0, 6.0, 6.0]));
        let each = op("index_sample", ids(&[2, 2], &[2, 0, 1, 1]));
        each.gives("Out", t(&[2, 2], &[3.0, 1.0, 5.0, 5.0]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        op("index_select", ids(&[3], &[1, 0, 1])).output("Out").grad(&["X"]);
        op("index_select", ids(&[2], &[2, 2])).attr("dim", -1).output("Out").grad(&["X"]);
        op("index_sample", ids(&[2, 2], &[2, 0, 1, 1])).output("Out").grad(&["X"]);
    }

    #[test]
    fn refuses_places_outside_and_other_ranks() {
        for (kind, index) in
            [("index_select", ids(&[1], &[2])), ("index_sample", ids(&[2, 1], &[0, -1]))]
        {
            let error = op(kind, index).output("Out").fails();
            assert!(matches!(error.root(), Error::BadValue { .. }), "{error}");
        }
        let error = op("index_select", ids(&[1, 1], &[0])).output("Out").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
        let error = op("index_sample", ids(&[1, 1], &[0])).output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
