//! `top_k`: the k largest elements of each row (last dimension), and where they were.
//!
//! Largest first; of equal ones the first comes first. k is the attribute, or input K. `top_k_v2`
//! gives the smallest, smallest first, if `largest` is false; its `axis` must be the last.

use tensor::{DType, Number};

use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, for_number, traits};
use crate::error::{Error, Result};

pub(super) struct TopK;
pub(super) struct TopKV2;
pub(super) struct TopKGrad;

impl Op for TopK {
    traits!(When(|op| op.rank("X").is_some_and(|rank| rank > 1) && op.only_rows("X")));

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        infer_top(infer)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run_top(run, true)
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(KEEP)
    }
}

impl Op for TopKV2 {
    traits!(When(|op| op.rank("X").is_some_and(|rank| rank > 1) && op.only_rows("X")));

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        check_axis(infer.attrs().int("axis", -1)?, infer.input("X")?.dims.len())?;
        infer_top(infer)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        check_axis(run.attrs().int("axis", -1)?, run.input("X")?.shape().rank())?;
        let largest = run.attrs().bool("largest", true)?;
        run_top(run, largest)
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(KEEP)
    }
}

const KEEP: Keep<'static> = Keep::grads(&["Out"], &["X"]).inputs(&["X"]).outputs(&["Indices"]);

fn check_axis(axis: i64, rank: usize) -> Result<()> {
    if axis == -1 || axis + 1 == rank as i64 {
        return Ok(());
    }
    Err(super::sizes::bad_attr("axis", "the last axis", axis))
}

fn infer_top(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.input("X")?;
    let Some(&n) = x.dims.last() else {
        return Err(infer.shape("top_k needs a dimension to choose from", "X"));
    };
    // What a variable will hold is not known yet.
    let k = match infer.opt_input("K")? {
        Some(_) => -1,
        None => check_k(infer.attrs().int("k", 1)?, if n < 0 { i64::MAX } else { n })?,
    };
    let mut dims = x.dims.clone();
    dims[x.dims.len() - 1] = k;
    let out = x.with_dims(dims);
    infer.set_output("Indices", out.with_dtype(DType::I64))?;
    infer.set_output("Out", out)
}

fn run_top(run: &mut Run<'_>, is_largest: bool) -> Result<()> {
    let (mut out, mut indices) = (run.take("Out"), run.take("Indices"));
    let x = run.input("X")?;
    let n = x.shape().last();
    let k = match run.opt_input("K") {
        Some(_) => run.scalar("K")? as i64,
        None => run.attrs().int("k", 1)?,
    };
    let k = check_k(k, n as i64)? as usize;
    let shape = x.shape().with_dim(x.shape().rank() - 1, k);
    for_number!(x.dtype(), run.input_name("X"), T => {
        let rows = x.data::<T>()?.chunks_exact(n);
        let outputs = out.resize::<T>(shape).chunks_exact_mut(k);
        let outputs = outputs.zip(indices.resize::<i64>(shape).chunks_exact_mut(k));
        rows.zip(outputs).for_each(|(x, (out, indices))| {
            if is_largest {
                first(x, out, indices, |a, b| a > b);
            } else {
                first(x, out, indices, |a, b| a < b);
            }
        });
        Ok(())
    })?;
    out.set_lod(x.lod().clone());
    indices.set_lod(x.lod().clone());
    run.put("Out", out);
    run.put("Indices", indices);
    Ok(())
}

fn check_k(k: i64, n: i64) -> Result<i64> {
    if (1..=n).contains(&k) {
        return Ok(k);
    }
    let expected = format!("between 1 and the {n} elements of a row");
    Err(Error::BadAttr { attr: "k".to_string(), expected, actual: k.to_string() })
}

/// Keeps those that come first in order while walking over the row; `k` is small.
fn first<T: Number>(
    x: &[T],
    out: &mut [T],
    indices: &mut [i64],
    comes_before: impl Fn(T, T) -> bool,
) {
    let mut n_kept = 0;
    for (index, &x) in x.iter().enumerate() {
        let enters = n_kept < out.len() || comes_before(x, out[n_kept - 1]);
        if !enters {
            continue;
        }
        n_kept = (n_kept + 1).min(out.len());
        let mut at = n_kept - 1;
        while at > 0 && comes_before(x, out[at - 1]) {
            (out[at], indices[at]) = (out[at - 1], indices[at - 1]);
            at -= 1;
        }
        (out[at], indices[at]) = (x, index as i64);
    }
}

/// dX = dOut at the places that Indices names, 0 elsewhere.
impl Kernel for TopKGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut d_x = run.take("X@GRAD");
        super::dims::run_same(run, "Indices", "Out@GRAD")?;
        let (x, indices) = (run.input("X")?, run.input("Indices")?);
        let (n, k) = (x.shape().last(), indices.shape().last());
        if indices.len() * n != x.len() * k {
            return Err(run.shapes("a row of indices for each row is needed", "X", "Indices"));
        }
        for_float!(x.dtype(), run.input_name("X"), T => {
            let (indices, d_out) = (run.data::<i64>("Indices")?, run.data::<T>("Out@GRAD")?);
            let d_x = d_x.resize_zeroed::<T>(x.shape());
            for (at, (&index, &d_out)) in indices.iter().zip(d_out).enumerate() {
                let index = check_index(run, at, index, n)?;
                d_x[at / k * n + index] = d_out;
            }
            Ok::<(), Error>(())
        })?;
        d_x.set_lod(x.lod().clone());
        run.put("X@GRAD", d_x);
        Ok(())
    }
}

/// An index as a place in a row of `n`.
pub(super) fn check_index(run: &Run<'_>, position: usize, index: i64, n: usize) -> Result<usize> {
    usize::try_from(index).ok().filter(|&index| index < n).ok_or_else(|| Error::BadValue {
        rule: "an index must lie inside of its row",
        var: run.input_name("Indices").to_string(),
        position,
        value: index as f64,
    })
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, ids, t};

    fn top() -> Check {
        check("top_k").input("X", t(&[2, 4], &[0.2, 0.5, 0.5, 0.1, 1.0, 3.0, 2.0, 4.0]))
    }

    #[test]
    fn the_first_of_equal_ones_comes_first() {
        top()
            .attr("k", 3)
            .gives("Out", t(&[2, 3], &[0.5, 0.5, 0.2, 4.0, 3.0, 2.0]))
            .gives("Indices", ids(&[2, 3], &[1, 2, 0, 3, 1, 2]));
    }

    #[test]
    fn k_may_be_an_input() {
        top().input("K", ids(&[1], &[1])).gives("Out", t(&[2, 1], &[0.5, 4.0]));
    }

    #[test]
    fn version_2_gives_the_smallest_too() {
        let x = || t(&[2, 3], &[3.0, 1.0, 2.0, 4.0, 6.0, 5.0]);
        let of =
            |largest: bool| check("top_k_v2").input("X", x()).attr("k", 2).attr("largest", largest);
        of(true).output("Indices").gives("Out", t(&[2, 2], &[3.0, 2.0, 6.0, 5.0]));
        of(false).output("Out").gives("Indices", ids(&[2, 2], &[1, 2, 0, 2]));
        of(true).output("Out").output("Indices").grad(&["X"]);
        let error = of(true).attr("axis", 0).output("Out").output("Indices").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
    }

    #[test]
    fn a_nan_leaves_no_hole() {
        let check = check("top_k").input("X", t(&[1, 3], &[f64::NAN, 1.0, 2.0])).attr("k", 2);
        check.output("Out").gives("Indices", ids(&[1, 2], &[0, 2]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        let check = check("top_k").input("X", t(&[1, 4], &[0.2, 0.7, 0.5, 0.1])).attr("k", 2);
        check.output("Out").output("Indices").grad(&["X"]);
    }

    #[test]
    fn refuses_more_than_there_is() {
        let error = top().attr("k", 5).output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        let error = top().input("K", ids(&[1], &[0])).output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
    }
}
