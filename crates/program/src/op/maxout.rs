//! `maxout`: Out = the largest of each `groups` channels that lie together; channels are dimension `axis`.
//!
//! Gradient: dOut at the first of the largest.

use super::sizes::{self, bad_attr};
use super::{Grad, Infer, Keep, Kernel, Op, Run, dims, for_float, traits};
use crate::attr::Attrs;
use crate::error::Result;

pub(super) struct Maxout;
pub(super) struct MaxoutGrad;

const RANK: &str = "images need 4 dimensions";

/// The dimension of the channels, and how many are in a group.
fn groups(attrs: &Attrs, dims: &[i64]) -> Result<(usize, i64)> {
    let axis = sizes::axis("axis", attrs.int("axis", 1)?, dims.len())?;
    let groups = attrs.int("groups", 1)?;
    if groups < 1 || (dims[axis] >= 0 && dims[axis] % groups != 0) {
        return Err(bad_attr("groups", "a divisor of the number of channels", groups));
    }
    Ok((axis, groups))
}

impl Op for Maxout {
    traits!(Rows("X"), "X": [F32, F64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        if x.dims.len() != 4 {
            return Err(infer.shape(RANK, "X"));
        }
        let (axis, groups) = groups(infer.attrs(), &x.dims)?;
        let mut dims = x.dims.clone();
        dims[axis] = if dims[axis] < 0 { -1 } else { dims[axis] / groups };
        infer.set_output("Out", x.with_dims(dims))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run.fill("Out", "X", |run, x, out| {
            if x.shape().rank() != 4 {
                return Err(run.shape(RANK, "X"));
            }
            let (axis, groups) = groups(run.attrs(), &x.shape().to_i64())?;
            let groups = groups as usize;
            let shape = x.shape().with_dim(axis, x.shape().dim(axis) / groups);
            let inner = shape.around(axis).inner.max(1);
            for_float!(x.dtype(), run.input_name("X"), T => {
                let (data, out) = (x.data::<T>()?, out.resize::<T>(shape));
                for (at, out) in out.iter_mut().enumerate() {
                    let first = at / inner * groups * inner + at % inner;
                    let all = (0..groups).map(|i| data[first + i * inner]);
                    *out = all.reduce(T::max).unwrap_or(0.0);
                }
                Ok(())
            })
        })
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X"]).inputs(&["X"]).outputs(&["Out"]))
    }
}

impl Kernel for MaxoutGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        dims::run_same(run, "Out", "Out@GRAD")?;
        run.fill("X@GRAD", "X", |run, x, d_x| {
            let (axis, groups) = groups(run.attrs(), &x.shape().to_i64())?;
            let (groups, out) = (groups as usize, run.input("Out")?);
            let shape = x.shape().with_dim(axis, x.shape().dim(axis) / groups);
            if out.shape() != shape {
                return Err(run.shapes("the output must be that of the input", "X", "Out"));
            }
            let inner = shape.around(axis).inner.max(1);
            for_float!(x.dtype(), run.input_name("X"), T => {
                let (data, out) = (x.data::<T>()?, out.data::<T>()?);
                let (d_out, d_x) = (run.data::<T>("Out@GRAD")?, d_x.resize_zeroed::<T>(x.shape()));
                for (at, (&out, &d)) in out.iter().zip(d_out).enumerate() {
                    let first = at / inner * groups * inner + at % inner;
                    let mut places = (0..groups).map(|i| first + i * inner);
                    if let Some(place) = places.find(|&place| data[place] == out) {
                        d_x[place] = d;
                    }
                }
                Ok(())
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, some, t};

    fn maxout(axis: i32) -> Check {
        let x = [1.0, 7.0, 3.0, 2.0, 5.0, 4.0, 6.0, 0.0];
        let dims = if axis == 1 { [1, 4, 1, 2] } else { [1, 1, 2, 4] };
        check("maxout").input("X", t(&dims, &x)).attr("groups", 2).attr("axis", axis)
    }

    #[test]
    fn the_largest_of_each_group() {
        maxout(1).gives("Out", t(&[1, 2, 1, 2], &[3.0, 7.0, 6.0, 4.0]));
        maxout(3).gives("Out", t(&[1, 1, 2, 2], &[7.0, 3.0, 5.0, 6.0]));
        maxout(1).output("Out").grad(&["X"]);
        maxout(3).output("Out").grad(&["X"]);
    }

    #[test]
    fn refuses_groups_that_do_not_fit() {
        let error = maxout(1).attr("groups", 3).output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        let error = check("maxout").input("X", some(&[2, 2])).output("Out").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
    }
}
