//! `roll`: Out = X moved by `shifts` along `dims`; numbers that leave at one end come in at the other.
//!
//! Gradient: dOut moved back.

use tensor::Shape;

use super::moves::{Moves, moves};
use super::sizes::{self, bad_attr};
use super::{Infer, Run};
use crate::attr::Attrs;
use crate::error::Result;

moves! { Rotate, RotateGrad: "X" -> "Out", reads ["X"];
    traits(When(|op| op.axes_are_inner("X", "dims") && op.only_rows("X"))); infer; plan
}

/// How far each dimension moves.
fn shifts(attrs: &Attrs, rank: usize) -> Result<Vec<i64>> {
    let (shifts, dims) = (attrs.ints("shifts")?, attrs.ints("dims")?);
    if shifts.len() != dims.len() {
        return Err(bad_attr("shifts", "one for each of `dims`", shifts));
    }
    let mut moved = vec![0i64; rank];
    for (shift, dim) in shifts.into_iter().zip(dims) {
        let axis = sizes::axis("dims", dim, rank)?;
        moved[axis] = moved[axis].wrapping_add(shift);
    }
    Ok(moved)
}

fn infer(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.input("X")?;
    shifts(infer.attrs(), x.dims.len())?;
    infer.set_output("Out", x)
}

struct RotatePlan {
    shape: Shape,
    shifts: Vec<i64>,
}

fn plan(run: &Run<'_>) -> Result<RotatePlan> {
    let shape = run.input("X")?.shape();
    let mut shifts = shifts(run.attrs(), shape.rank())?;
    for (shift, &size) in shifts.iter_mut().zip(shape.dims()) {
        *shift = shift.rem_euclid(size.max(1) as i64);
    }
    Ok(RotatePlan { shape, shifts })
}

impl Moves for RotatePlan {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn source(&self, at: &[usize]) -> Option<usize> {
        Some(at.iter().enumerate().fold(0, |place, (axis, &i)| {
            let size = self.shape.dim(axis);
            place * size + (i + size - self.shifts[axis] as usize) % size
        }))
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, t};

    fn roll(shifts: &[i64], dims: &[i64]) -> Check {
        let data: Vec<f64> = (0..12).map(f64::from).collect();
        let op = check("roll").input("X", t(&[3, 4], &data));
        op.attr("shifts", shifts.to_vec()).attr("dims", dims.to_vec())
    }

    /// What Fluid 1.8.5 gives.
    #[test]
    fn moves_around_the_ends() {
        let out = [11.0, 8.0, 9.0, 10.0, 3.0, 0.0, 1.0, 2.0, 7.0, 4.0, 5.0, 6.0];
        roll(&[1, 5], &[0, -1]).gives("Out", t(&[3, 4], &out));
        roll(&[-2, 1], &[0, 1]).output("Out").grad(&["X"]);
    }

    #[test]
    fn refuses_axes_without_a_shift() {
        for bad in [roll(&[1], &[0, 1]), roll(&[1], &[2])] {
            let error = bad.output("Out").fails();
            assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        }
    }
}
