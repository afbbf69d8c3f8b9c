//! Ops that make each number of Out from the number of X at the same place, be X dense or rows.

use tensor::{Rows, Tensor};

use super::{Run, dims, for_float};
use crate::error::{Error, Result};

/// Fills Out from X with `fill(x, out)`, which also shapes its target. Out keeps the ragged offsets
/// of a tensor, or the ids of keyed rows.
pub(super) fn map(
    run: &mut Run<'_>,
    fill: impl Fn(&Run<'_>, &Tensor, &mut Tensor) -> Result<()>,
) -> Result<()> {
    if run.value("X")?.rows().is_none() {
        let mut out = run.take("Out");
        let x = run.input("X")?;
        fill(run, x, &mut out)?;
        // Broadcasting may have given Out other rows.
        if out.dims().first() == x.dims().first() {
            out.set_lod(x.lod().clone());
        }
        run.put("Out", out);
        return Ok(());
    }
    let mut out = run.take_rows("Out");
    if let Some(rows) = run.value("X")?.rows() {
        out.ids.clone_from(&rows.ids);
        out.height = rows.height;
        fill(run, &rows.value, &mut out.value)?;
    }
    run.put_rows("Out", out);
    Ok(())
}

/// Like [`map`], for an op that needs each row id of X once: rows with equal ids are added up first.
pub(super) fn map_merged(
    run: &mut Run<'_>,
    fill: impl Fn(&Run<'_>, &Tensor, &mut Tensor) -> Result<()>,
) -> Result<()> {
    if run.value("X")?.rows().is_none() {
        return map(run, fill);
    }
    let mut scratch = std::mem::take(&mut run.spare().merge);
    let mut merged = Rows { value: run.spare().tensor(), ..Rows::default() };
    let mut out = run.take_rows("Out");
    if let Some(rows) = run.value("X")?.rows() {
        merged.height = rows.height;
        for_float!(rows.value.dtype(), run.input_name("X"), T => {
            let values = rows.value.data::<T>()?;
            let pairs = std::iter::once((rows.ids.as_slice(), values));
            tensor::rows::merge(pairs, rows.width(), &mut scratch, &mut merged);
            Ok(())
        })?;
    }
    fill(run, &merged.value, &mut out.value)?;
    out.height = merged.height;
    std::mem::swap(&mut out.ids, &mut merged.ids);
    run.spare().merge = scratch;
    run.spare().keep(merged.value);
    run.put_rows("Out", out);
    Ok(())
}

/// `out[i] = f(x[i])`.
pub(super) fn apply<T: Copy, U>(x: &[T], out: &mut [U], f: impl Fn(T) -> U) {
    out.iter_mut().zip(x).for_each(|(out, &x)| *out = f(x));
}

/// `out[i] = f(x[i], y[i])`.
pub(super) fn apply_2<T: Copy, U>(x: &[T], y: &[T], out: &mut [U], f: impl Fn(T, T) -> U) {
    for ((out, &x), &y) in out.iter_mut().zip(x).zip(y) {
        *out = f(x, y);
    }
}

/// Writes the gradient of X from the tensor at `port` (X or Out) and the gradient of Out, which
/// must have the same shape; `fill` shapes its target.
pub(super) fn map_grad(
    run: &mut Run<'_>,
    port: &str,
    fill: impl Fn(&Tensor, &Tensor, &mut Tensor) -> Result<()>,
) -> Result<()> {
    let mut d_x = run.take("X@GRAD");
    let (known, d_out) = (run.input(port)?, run.input("Out@GRAD")?);
    dims::run_same(run, port, "Out@GRAD")?;
    fill(known, d_out, &mut d_x).map_err(|source| run.in_var(port, source))?;
    d_x.set_lod(known.lod().clone());
    run.put("X@GRAD", d_x);
    Ok(())
}

/// A number attribute that must be there.
pub(super) fn needed_float(run: &Run<'_>, attr: &str) -> Result<f32> {
    if run.attrs().get(attr).is_none() {
        return Err(Error::MissingAttr { attr: attr.to_string() });
    }
    run.attrs().float(attr, 0.0)
}
