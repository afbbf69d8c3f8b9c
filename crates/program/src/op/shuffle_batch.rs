//! `shuffle_batch`: row i of X becomes row ShuffleIdx[i] of Out.
//!
//! A row is the last dimension. The order follows from Seed (`startup_seed` while Seed is empty), and
//! SeedOut is the seed of the next shuffle.

use tensor::rng::Rng;
use tensor::{DType, Element, Shape};

use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, for_number, traits};
use crate::error::{Error, Result};
use crate::var::Meta;

pub(super) struct ShuffleBatch;
pub(super) struct ShuffleBatchGrad;

impl Op for ShuffleBatch {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        infer.set_output("Out", x)?;
        infer.set_output("ShuffleIdx", Meta::dense(DType::I64, &[-1]))?;
        infer.set_output("SeedOut", Meta::dense(DType::I64, &[1]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let seed = match run.opt_input("Seed").filter(|seed| !seed.is_empty()) {
            Some(_) => run.data::<i64>("Seed")?[0],
            None => run.attrs().int("startup_seed", 0)?,
        };
        let mut rng = Rng::older(seed as u32);
        let (mut out, mut order) = (run.take("Out"), run.take("ShuffleIdx"));
        let mut next = run.take("SeedOut");
        let x = run.input("X")?;
        let (n, width) = rows_of(x.shape());
        let places = order.resize::<i64>(Shape::from([n]));
        shuffle(&mut rng, places);
        for_number!(x.dtype(), run.input_name("X"), T => {
            let out = out.resize::<T>(x.shape());
            for (row, &to) in x.data::<T>()?.chunks_exact(width.max(1)).zip(places.iter()) {
                out[to as usize * width..][..width].copy_from_slice(row);
            }
            Ok(())
        })?;
        next.resize::<i64>(Shape::from([1]))[0] = i64::from(rng.draw());
        out.set_lod(x.lod().clone());
        run.put("Out", out);
        run.put("ShuffleIdx", order);
        run.put("SeedOut", next);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X"]).outputs(&["ShuffleIdx"]))
    }
}

/// All but the last dimension, and the last.
fn rows_of(shape: Shape) -> (usize, usize) {
    shape.flatten_2d(shape.rank().saturating_sub(1))
}

/// 0, 1, … in a random order: each place in turn swaps with itself or one before it.
fn shuffle(rng: &mut Rng, places: &mut [i64]) {
    places.iter_mut().zip(0..).for_each(|(place, i)| *place = i);
    for i in 1..places.len() {
        places.swap(i, rng.between(0, i as i64) as usize);
    }
}

/// dX[i] = dOut[ShuffleIdx[i]].
impl Kernel for ShuffleBatchGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut d_x = run.take("X@GRAD");
        let (d_out, order) = (run.input("Out@GRAD")?, run.data::<i64>("ShuffleIdx")?);
        let (n, width) = rows_of(d_out.shape());
        if order.len() != n {
            return Err(run.shapes("one place for each row", "Out@GRAD", "ShuffleIdx"));
        }
        for_float!(d_out.dtype(), run.input_name("Out@GRAD"), T => {
            gather(order, d_out.data::<T>()?, width, d_x.resize::<T>(d_out.shape()))
                .map_err(|(position, value)| Error::BadValue {
                    rule: "a place must be a row of the batch",
                    var: run.input_name("ShuffleIdx").to_string(),
                    position,
                    value: value as f64,
                })
        })?;
        run.put("X@GRAD", d_x);
        Ok(())
    }
}

/// Copies the rows listed; fails with the position and number of the first that is not there.
fn gather<T: Element>(
    rows: &[i64],
    from: &[T],
    width: usize,
    to: &mut [T],
) -> std::result::Result<(), (usize, i64)> {
    for (at, (&row, to)) in rows.iter().zip(to.chunks_exact_mut(width.max(1))).enumerate() {
        let start = usize::try_from(row).ok().and_then(|row| row.checked_mul(width));
        let from = start.and_then(|start| from.get(start..start.checked_add(width)?));
        to.copy_from_slice(from.ok_or((at, row))?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::op::check::{check, ids, t};

    fn seven() -> crate::op::check::Check {
        check("shuffle_batch")
            .input("X", t(&[7, 1], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
            .attr("startup_seed", 5)
    }

    #[test]
    fn shuffles_as_fluid_does() {
        seven()
            .gives("Out", t(&[7, 1], &[2.0, 6.0, 4.0, 5.0, 1.0, 3.0, 0.0]))
            .gives("ShuffleIdx", ids(&[7], &[6, 4, 0, 5, 2, 3, 1]))
            .gives("SeedOut", ids(&[1], &[505_137_720]));
        seven()
            .input("Seed", ids(&[1], &[505_137_720]))
            .gives("ShuffleIdx", ids(&[7], &[1, 6, 3, 5, 4, 0, 2]))
            .gives("SeedOut", ids(&[1], &[371_215_210]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        seven().outputs("Out", 1).output("ShuffleIdx").grad(&["X"]);
    }
}
