//! `lrn`: MidOut = k + alpha times the sum of X² over `n` neighbouring channels, Out = X / MidOut^beta.

use tensor::Shape;

use super::layout::ImageLayout;
use super::sizes::bad_attr;
use super::{Grad, Infer, Keep, Kernel, Op, Run, dims, for_float, traits};
use crate::attr::Attrs;
use crate::error::Result;

pub(super) struct Lrn;
pub(super) struct LrnGrad;

const RANK: &str = "images need 4 dimensions";

/// The neighbours of a channel.
#[derive(Clone, Copy)]
struct Neighbours {
    before: usize,
    n: usize,
}

impl Neighbours {
    fn of(attrs: &Attrs) -> Result<Self> {
        match attrs.int("n", 5)? {
            n @ 1.. if n % 2 == 1 => Ok(Self { before: (n as usize - 1) / 2, n: n as usize }),
            other => Err(bad_attr("n", "odd and positive", other)),
        }
    }

    /// The channels whose squares meet in a channel.
    fn around(self, channel: usize, channels: usize) -> std::ops::Range<usize> {
        channel.saturating_sub(self.before)..(channel + self.n - self.before).min(channels)
    }
}

/// Calls `f(channels, place of the first, step)` for each pixel of each image.
fn for_each_pixel(shape: Shape, layout: ImageLayout, mut f: impl FnMut(usize, usize, usize)) {
    let around = shape.around(layout.channel_axis());
    (0..around.n_vectors()).for_each(|at| f(around.size, around.start(at), around.inner));
}

impl Op for Lrn {
    traits!(Rows("X"), "X": [F32]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        Neighbours::of(infer.attrs())?;
        ImageLayout::of(infer.attrs())?;
        if x.dims.len() != 4 {
            return Err(infer.shape(RANK, "X"));
        }
        infer.set_output("MidOut", x.clone())?;
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let attrs = run.attrs();
        let (near, layout) = (Neighbours::of(attrs)?, ImageLayout::of(attrs)?);
        let k = attrs.float("k", 2.0)?;
        let (alpha, beta) = (attrs.float("alpha", 1e-4)?, attrs.float("beta", 0.75)?);
        let (mut out, mut mid) = (run.take("Out"), run.take("MidOut"));
        let x = run.input("X")?;
        if x.shape().rank() != 4 {
            return Err(run.shape(RANK, "X"));
        }
        for_float!(x.dtype(), run.input_name("X"), T => {
            let data = x.data::<T>()?;
            let (out, mid) = (out.resize::<T>(x.shape()), mid.resize::<T>(x.shape()));
            for_each_pixel(x.shape(), layout, |channels, first, step| {
                for channel in 0..channels {
                    let squares = near.around(channel, channels).map(|i| data[first + i * step]);
                    let sum: T = squares.map(|x| x * x).sum();
                    let place = first + channel * step;
                    mid[place] = k as T + alpha as T * sum;
                    out[place] = data[place] * mid[place].powf(-beta as T);
                }
            });
            Ok(())
        })?;
        run.put("Out", out);
        run.put("MidOut", mid);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X"]).inputs(&["X"]).outputs(&["Out", "MidOut"]))
    }
}

/// dX = dOut MidOut^-beta - 2 alpha beta X times the sum of dOut Out / MidOut over the channels that X is near to.
impl Kernel for LrnGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let attrs = run.attrs();
        let (near, layout) = (Neighbours::of(attrs)?, ImageLayout::of(attrs)?);
        let (alpha, beta) = (attrs.float("alpha", 1e-4)?, attrs.float("beta", 0.75)?);
        for port in ["Out", "MidOut", "Out@GRAD"] {
            dims::run_same(run, "X", port)?;
        }
        run.fill("X@GRAD", "X", |run, x, d_x| {
            if x.shape().rank() != 4 {
                return Err(run.shape(RANK, "X"));
            }
            for_float!(x.dtype(), run.input_name("X"), T => {
                let (data, out) = (x.data::<T>()?, run.data::<T>("Out")?);
                let (mid, d_out) = (run.data::<T>("MidOut")?, run.data::<T>("Out@GRAD")?);
                let d_x = d_x.resize::<T>(x.shape());
                for_each_pixel(x.shape(), layout, |channels, first, step| {
                    for channel in 0..channels {
                        let place = first + channel * step;
                        let all = near.around(channel, channels).map(|i| first + i * step);
                        let sum: T = all.map(|at| d_out[at] * out[at] / mid[at]).sum();
                        d_x[place] = d_out[place] * mid[place].powf(-beta as T)
                            - 2.0 * alpha as T * beta as T * data[place] * sum;
                    }
                });
                Ok(())
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, some, t};

    fn lrn(x: tensor::Tensor) -> Check {
        let op = check("lrn").input("X", x).attr("n", 3).attr("k", 1.0f32);
        op.attr("alpha", 0.5f32).attr("beta", 1.0f32)
    }

    #[test]
    fn divides_by_the_neighbours() {
        let op = lrn(t(&[1, 3, 1, 1], &[1.0, 2.0, 4.0]));
        op.gives("MidOut", t(&[1, 3, 1, 1], &[3.5, 11.5, 11.0]))
            .gives("Out", t(&[1, 3, 1, 1], &[1.0 / 3.5, 2.0 / 11.5, 4.0 / 11.0]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        lrn(some(&[1, 4, 2, 1])).output("Out").aux("MidOut").grad(&["X"]);
        let last = lrn(some(&[1, 1, 2, 4])).attr("data_format", "NHWC");
        last.output("Out").aux("MidOut").grad(&["X"]);
    }

    #[test]
    fn refuses_even_neighbours_and_other_ranks() {
        let error = lrn(some(&[1, 2, 1, 1])).attr("n", 2).output("Out").output("MidOut").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        let error = lrn(some(&[2])).output("Out").output("MidOut").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
    }
}
