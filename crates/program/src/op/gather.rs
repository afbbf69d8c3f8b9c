//! `gather`: Out[i] = X[Index[i]], by rows of X.
//!
//! `gather_nd`: the last dimension of Index holds places in the first dimensions of X, and Out has
//! the elements there. Gradient of both: dX[Index[i]] += dOut[i]; but `gather` with `overwrite`,
//! which is Fluid's default, lets the last of equal indices win: dX[Index[i]] = dOut[i].

use tensor::{DType, Element, Shape, Tensor, list_or_give_up};

use super::gather_rows::{BadId, check_ids, gather_rows, scatter_add_rows};
use super::sizes;
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::error::{Error, Result};
use crate::var::Meta;

pub(super) struct Gather;
pub(super) struct GatherGrad;
pub(super) struct GatherNd;
pub(super) struct GatherNdGrad;

const KEEP: Keep<'static> = Keep::grads(&["Out"], &["X"]).inputs(&["X", "Index"]);
const INDEX_RULE: &str = "the index must be a list, or a column of 1";
const ND_RULE: &str = "the last dimension of Index must be within the rank of X";

/// Whether these dims are those of a list: `[n]` or `[n, 1]`.
fn is_list(dims: &[i64]) -> bool {
    matches!(dims, [_] | [_, 1] | [_, -1])
}

impl Op for Gather {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let (x, index) = (infer.input("X")?, infer.input("Index")?);
        if !is_list(&index.dims) || x.dims.is_empty() {
            return Err(infer.shapes(INDEX_RULE, "Index", "X"));
        }
        let mut dims = x.dims.clone();
        dims[0] = index.dims[0];
        infer.set_output("Out", Meta::dense(x.dtype, &dims))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (x, index) = (run.input("X")?.shape(), run.input("Index")?);
        if !is_list(&index.shape().to_i64()) {
            return Err(run.shape(INDEX_RULE, "Index"));
        }
        let rows = sizes::integers(index, run.input_name("Index"))?;
        collect(run, &rows, x.with_dim(0, rows.len()), x.flatten_2d(1).1)
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(KEEP)
    }
}

impl Op for GatherNd {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let (x, index) = (infer.input("X")?, infer.input("Index")?);
        let Some((&depth, outer)) = index.dims.split_last() else {
            return Err(infer.shape(ND_RULE, "Index"));
        };
        let Some(inner) = usize::try_from(depth).ok().and_then(|depth| x.dims.get(depth..)) else {
            return Err(infer.shapes(ND_RULE, "Index", "X"));
        };
        let mut dims = [outer, inner].concat();
        if dims.is_empty() {
            dims.push(1);
        }
        infer.set_output("Out", Meta::dense(x.dtype, &dims))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (x, index) = (run.input("X")?.shape(), run.input("Index")?.shape());
        let depth = index.last();
        let Some(inner) = x.dims().get(depth..) else {
            return Err(run.shapes(ND_RULE, "Index", "X"));
        };
        let outer = index.dims().split_last().map_or(&[][..], |(_, outer)| outer);
        let dims: Vec<i64> = outer.iter().chain(inner).map(|&dim| dim as i64).collect();
        let shape = if dims.is_empty() { Shape::from([1]) } else { Shape::from_dims(&dims)? };
        let rows = places(run, x, depth)?;
        collect(run, &rows, shape, x.flatten_2d(depth).1)
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(KEEP)
    }
}

/// The places in Index as row numbers of X flattened after `depth` dimensions.
pub(super) fn places(run: &Run<'_>, x: Shape, depth: usize) -> Result<Vec<i64>> {
    let index = run.input("Index")?;
    let all = sizes::integers(index, run.input_name("Index"))?;
    if depth == 0 {
        let n = index.shape().flatten_2d(index.shape().rank() - 1).0;
        Tensor::check_room(DType::I64, Shape::from([n]))?;
        return Ok(list_or_give_up(std::iter::repeat_n(0, n)));
    }
    for (position, &at) in all.iter().enumerate() {
        if at < 0 || at >= x.dim(position % depth) as i64 {
            return Err(not_there(run, BadId { position, id: at }));
        }
    }
    let row = |at: &[i64]| at.iter().zip(x.dims()).fold(0, |row, (i, &dim)| row * dim as i64 + i);
    Ok(list_or_give_up(all.chunks_exact(depth).map(row)))
}

fn collect(run: &mut Run<'_>, rows: &[i64], shape: Shape, width: usize) -> Result<()> {
    let mut out: Tensor = run.take("Out");
    let x = run.input("X")?;
    out.try_resize_as(x.dtype(), shape)?;
    let row_bytes = width * x.dtype().size();
    gather_rows(x.bytes(), row_bytes, rows, None, out.bytes_mut())
        .map_err(|bad| not_there(run, bad))?;
    run.put("Out", out);
    Ok(())
}

fn not_there(run: &Run<'_>, bad: BadId) -> Error {
    Error::BadValue {
        rule: "an index must lie in X",
        var: run.input_name("Index").to_string(),
        position: bad.position,
        value: bad.id as f64,
    }
}

/// Gives the gradient of Out back to the rows it came from.
fn give_back(run: &mut Run<'_>, rows: &[i64], width: usize, overwrite: bool) -> Result<()> {
    let mut d_x = run.take("X@GRAD");
    let (x, d_out) = (run.input("X")?, run.input("Out@GRAD")?);
    if d_out.len() != rows.len() * width {
        return Err(run.shapes("the gradient must have a row for each index", "Out@GRAD", "Index"));
    }
    for_float!(d_out.dtype(), run.input_name("Out@GRAD"), T => {
        let (table, d_out) = (d_x.resize_zeroed::<T>(x.shape()), d_out.data::<T>()?);
        let given = if overwrite {
            put_rows(table, width, rows, d_out)
        } else {
            scatter_add_rows(table, width, rows, None, d_out)
        };
        given.map_err(|bad| not_there(run, bad))
    })?;
    d_x.set_lod(x.lod().clone());
    run.put("X@GRAD", d_x);
    Ok(())
}

/// Copies row `i` of `values` to row `rows[i]` of the table, in the order listed.
fn put_rows<T: Element>(
    table: &mut [T],
    width: usize,
    rows: &[i64],
    values: &[T],
) -> std::result::Result<(), BadId> {
    let width = width.max(1);
    check_ids(rows, table.len() / width, None)?;
    for (&row, value) in rows.iter().zip(values.chunks_exact(width)) {
        table[row as usize * width..][..width].copy_from_slice(value);
    }
    Ok(())
}

impl Kernel for GatherGrad {
    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        infer.set_output("X@GRAD", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let rows = sizes::integers(run.input("Index")?, run.input_name("Index"))?;
        let width = run.input("X")?.shape().flatten_2d(1).1;
        let overwrite = run.attrs().bool("overwrite", true)?;
        give_back(run, &rows, width, overwrite)
    }
}

impl Kernel for GatherNdGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (x, index) = (run.input("X")?.shape(), run.input("Index")?.shape());
        if index.last() > x.rank() {
            return Err(run.shapes(ND_RULE, "Index", "X"));
        }
        let rows = places(run, x, index.last())?;
        give_back(run, &rows, x.flatten_2d(index.last()).1, false)
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, ids, t};
    use tensor::Tensor;

    fn gather(kind: &str, index: Tensor) -> Check {
        let x = t(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        check(kind).input("X", x).input("Index", index)
    }

    #[test]
    fn picks_rows_or_places() {
        let rows = || t(&[3, 2], &[5.0, 6.0, 1.0, 2.0, 5.0, 6.0]);
        gather("gather", ids(&[3], &[2, 0, 2])).gives("Out", rows());
        gather("gather", ids(&[3, 1], &[2, 0, 2])).gives("Out", rows());
        let narrow = Tensor::new([3], &[2i32, 0, 2]).unwrap();
        gather("gather", narrow).gives("Out", rows());
        gather("gather_nd", ids(&[3, 1], &[2, 0, 2])).gives("Out", rows());
        gather("gather_nd", ids(&[2, 2], &[2, 0, 0, 1])).gives("Out", t(&[2], &[5.0, 2.0]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        let added = gather("gather", ids(&[3], &[2, 0, 2])).attr("overwrite", false);
        added.output("Out").grad(&["X"]);
        gather("gather", ids(&[2], &[2, 0])).output("Out").grad(&["X"]);
        gather("gather_nd", ids(&[3, 1], &[2, 0, 2])).output("Out").grad(&["X"]);
        gather("gather_nd", ids(&[2, 2], &[2, 0, 0, 1])).output("Out").grad(&["X"]);
    }

    #[test]
    fn the_last_of_equal_indices_wins_as_in_fluid() {
        let d_out = t(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let grad = gather("gather_grad", ids(&[3], &[2, 0, 2])).input("Out@GRAD", d_out);
        grad.gives("X@GRAD", t(&[3, 2], &[3.0, 4.0, 0.0, 0.0, 5.0, 6.0]));
    }

    #[test]
    fn refuses_an_index_outside_of_x() {
        for (kind, index) in [
            ("gather", ids(&[2], &[0, 3])),
            ("gather", ids(&[1], &[-1])),
            ("gather_nd", ids(&[1, 2], &[0, 2])),
            ("gather_nd", ids(&[1, 1], &[-1])),
        ] {
            let error = gather(kind, index).output("Out").fails();
            assert!(matches!(error.root(), Error::BadValue { .. }), "{error}");
        }
        for (kind, index) in
            [("gather", ids(&[1, 2], &[0, 0])), ("gather_nd", ids(&[1, 3], &[0, 0, 0]))]
        {
            let error = gather(kind, index).output("Out").fails();
            let known = matches!(error.root(), Error::Shapes { .. } | Error::Shape { .. });
            assert!(known, "{error}");
        }
        let error = gather("gather", t(&[1], &[0.0])).output("Out").fails();
        assert!(matches!(error.root(), Error::DType { .. }), "{error}");
    }
}
