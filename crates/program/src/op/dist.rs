//! `dist`: Out = the p-norm of X - Y, each repeated where it has dimensions of 1 or none.
//!
//! `p` 0 counts the numbers that differ; infinite ones take the largest or the smallest distance.

use tensor::{Float, Shape};

use super::moves::for_each_place;
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::error::Result;

pub(super) struct Dist;
pub(super) struct DistGrad;

const RULE: &str = "sizes, compared from the last on, must be equal or 1";

/// The shape that both have when they are repeated.
fn broadcast(x: &[i64], y: &[i64]) -> Option<Vec<i64>> {
    let rank = x.len().max(y.len());
    let at = |dims: &[i64], axis: usize| {
        (axis + dims.len()).checked_sub(rank).map_or(1, |axis| dims[axis])
    };
    let size = |axis| match (at(x, axis), at(y, axis)) {
        (1, size) | (size, 1) => Some(size),
        (size, other) if size == other || other < 0 => Some(size),
        (size, other) if size < 0 => Some(other),
        _ => None,
    };
    (0..rank).map(size).collect()
}

fn shape(run: &Run<'_>) -> Result<Shape> {
    let (x, y) = (run.input("X")?.shape(), run.input("Y")?.shape());
    let dims = broadcast(&x.to_i64(), &y.to_i64()).ok_or_else(|| run.shapes(RULE, "X", "Y"))?;
    Ok(Shape::from_dims(&dims)?)
}

/// The place of a number that is repeated up to these coordinates.
fn place(shape: Shape, at: &[usize]) -> usize {
    let skipped = at.len() - shape.rank();
    at[skipped..].iter().enumerate().fold(0, |place, (axis, &i)| {
        let size = shape.dim(axis);
        place * size + if size == 1 { 0 } else { i }
    })
}

fn norm<T: Float>(p: f64, distances: impl Iterator<Item = T>) -> T {
    let larger = |a: T, b: T| if b > a { b } else { a };
    let smaller = |a: T, b: T| if b < a { b } else { a };
    if p == 0.0 {
        return T::of(distances.filter(|&d| d != T::zero()).count() as f64);
    }
    if p.is_infinite() {
        let kept = if p > 0.0 { distances.reduce(larger) } else { distances.reduce(smaller) };
        return kept.unwrap_or(T::zero());
    }
    let sum = distances.fold(T::zero(), |sum, d| sum + d.powf(T::of(p)));
    sum.powf(T::of(1.0 / p))
}

impl Op for Dist {
    traits!(Never, "X": [F32, F64], "Y": [F32, F64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let (x, y) = (infer.input("X")?, infer.input("Y")?);
        broadcast(&x.dims, &y.dims).ok_or_else(|| infer.shapes(RULE, "X", "Y"))?;
        infer.set_output("Out", x.with_dims(vec![1]).with_lod_level(0))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let p = f64::from(run.attrs().float("p", 2.0)?);
        run.make("Out", |run, out| {
            let all = shape(run)?;
            let (x, y) = (run.input("X")?, run.input("Y")?);
            for_float!(x.dtype(), run.input_name("X"), T => {
                let (a, b) = (x.data::<T>()?, run.data::<T>("Y")?);
                let mut distances = Vec::with_capacity(all.n_elements());
                for_each_place(all, |_, at| {
                    distances.push((a[place(x.shape(), at)] - b[place(y.shape(), at)]).abs());
                });
                out.resize::<T>(Shape::from([1]))[0] = norm(p, distances.into_iter());
                Ok(())
            })
        })
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X", "Y"]).inputs(&["X", "Y"]).outputs(&["Out"]))
    }
}

/// How the norm `out` changes with a difference.
fn slope<T: Float>(p: f64, difference: T, out: T) -> T {
    let distance = difference.abs();
    let is_one = p.is_infinite() && distance == out;
    if p == 0.0 || difference == T::zero() || (p.is_infinite() && !is_one) {
        return T::zero();
    }
    let size = if is_one { T::one() } else { (distance / out).powf(T::of(p - 1.0)) };
    if difference > T::zero() { size } else { -size }
}

impl Kernel for DistGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let p = f64::from(run.attrs().float("p", 2.0)?);
        let (mut d_x, mut d_y) = (run.take("X@GRAD"), run.take("Y@GRAD"));
        let all = shape(run)?;
        let (x, y) = (run.input("X")?, run.input("Y")?);
        for_float!(x.dtype(), run.input_name("X"), T => {
            let (a, b) = (x.data::<T>()?, run.data::<T>("Y")?);
            let (Some(&out), Some(&d_out)) =
                (run.data::<T>("Out")?.first(), run.data::<T>("Out@GRAD")?.first())
            else {
                return Err(run.shapes("one number is needed", "Out", "Out@GRAD"));
            };
            let d_x = d_x.resize_zeroed::<T>(x.shape());
            let d_y = d_y.resize_zeroed::<T>(y.shape());
            for_each_place(all, |_, at| {
                let (i, j) = (place(x.shape(), at), place(y.shape(), at));
                let d = d_out * slope(p, a[i] - b[j], out);
                d_x[i] += d;
                d_y[j] -= d;
            });
            Ok(())
        })?;
        run.put("X@GRAD", d_x);
        run.put("Y@GRAD", d_y);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, some, t};

    fn dist(p: f32) -> Check {
        let op = check("dist").input("X", t(&[2, 2], &[3.0, 3.0, 3.0, 1.0])).attr("p", p);
        op.input("Y", t(&[2, 1], &[3.0, 7.0]))
    }

    #[test]
    fn norms_of_the_difference() {
        for (p, norm) in [
            (2.0, 52f64.sqrt()),
            (0.0, 2.0),
            (1.0, 10.0),
            (f32::INFINITY, 6.0),
            (f32::NEG_INFINITY, 0.0),
        ] {
            dist(p).gives("Out", t(&[1], &[norm]));
        }
    }

    #[test]
    fn gradient_matches_finite_differences() {
        for p in [1.0, 2.0, 3.5, f32::INFINITY] {
            let x = t(&[2, 3], &[0.5, -1.0, 2.0, 3.0, 0.25, -4.0]);
            let op = check("dist").input("X", x).input("Y", t(&[3], &[0.1, 0.7, -0.2]));
            op.attr("p", p).output("Out").grad(&["X", "Y"]);
        }
    }

    #[test]
    fn refuses_sizes_that_differ() {
        let bad = check("dist").input("X", some(&[2, 3])).input("Y", some(&[2])).output("Out");
        let error = bad.fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
