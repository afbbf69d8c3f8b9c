//! `affine_channel`: Out = X Scale + Bias, a number of both for each channel.

use tensor::Shape;

use super::layout::channels_last;
use super::{Grad, Infer, Keep, Kernel, Op, Run, dims, for_float, traits};
use crate::error::Result;

pub(super) struct AffineChannel;
pub(super) struct AffineChannelGrad;

const RULE: &str = "one number for each channel is needed";
const RANK: &str = "2 dimensions, or 4, are needed";

/// The dimension of the channels.
fn axis(last: bool, rank: usize) -> Option<usize> {
    let fits = rank == 2 || rank == 4;
    fits.then(|| if last { rank - 1 } else { 1 })
}

fn channels(run: &Run<'_>) -> Result<usize> {
    let x = run.input("X")?.shape();
    let last = channels_last(run.attrs(), "data_layout")?;
    let axis = axis(last, x.rank()).ok_or_else(|| run.shape(RANK, "X"))?;
    for port in ["Scale", "Bias"] {
        if run.opt_input(port).is_some_and(|given| given.dims() != [x.dim(axis)]) {
            return Err(run.shapes(RULE, port, "X"));
        }
    }
    Ok(axis)
}

impl Op for AffineChannel {
    traits!(Rows("X"), "X": [F32, F64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        let last = channels_last(infer.attrs(), "data_layout")?;
        let axis = axis(last, x.dims.len()).ok_or_else(|| infer.shape(RANK, "X"))?;
        for port in ["Scale", "Bias"] {
            if !dims::agree(&infer.input(port)?.dims, &[x.dims[axis]]) {
                return Err(infer.shapes(RULE, port, "X"));
            }
        }
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let axis = channels(run)?;
        run.fill("Out", "X", |run, x, out| {
            let around = x.shape().around(axis);
            for_float!(x.dtype(), run.input_name("X"), T => {
                let (scale, bias) = (run.data::<T>("Scale")?, run.data::<T>("Bias")?);
                let (data, out) = (x.data::<T>()?, out.resize::<T>(x.shape()));
                for (at, (out, &x)) in out.iter_mut().zip(data).enumerate() {
                    let channel = at / around.inner % around.size;
                    *out = x * scale[channel] + bias[channel];
                }
                Ok(())
            })
        })
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let keep = Keep::grads(&["Out"], &["X", "Scale", "Bias"]);
        grad.emit_usual(keep.inputs(&["X", "Scale", "Bias"]))
    }
}

/// dX = dOut Scale; dScale = sum of dOut X, dBias = sum of dOut, for each channel.
impl Kernel for AffineChannelGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let [mut d_x, mut d_scale, mut d_bias] =
            ["X@GRAD", "Scale@GRAD", "Bias@GRAD"].map(|port| run.take(port));
        let axis = channels(run)?;
        dims::run_same(run, "X", "Out@GRAD")?;
        let x = run.input("X")?;
        let around = x.shape().around(axis);
        for_float!(x.dtype(), run.input_name("X"), T => {
            let (data, d_out) = (x.data::<T>()?, run.data::<T>("Out@GRAD")?);
            let scale = run.data::<T>("Scale")?;
            let per_channel = Shape::from([around.size]);
            let d_x = d_x.resize::<T>(x.shape());
            let d_scale = d_scale.resize_zeroed::<T>(per_channel);
            let d_bias = d_bias.resize_zeroed::<T>(per_channel);
            for (at, (&x, &d)) in data.iter().zip(d_out).enumerate() {
                let channel = at / around.inner % around.size;
                d_x[at] = d * scale[channel];
                d_scale[channel] += d * x;
                d_bias[channel] += d;
            }
            Ok(())
        })?;
        run.put("X@GRAD", d_x);
        run.put("Scale@GRAD", d_scale);
        run.put("Bias@GRAD", d_bias);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, some, t};

    fn op(x: tensor::Tensor, layout: &str) -> Check {
        let op = check("affine_channel").input("X", x).attr("data_layout", layout);
        op.input("Scale", t(&[2], &[2.0, 3.0])).input("Bias", t(&[2], &[0.0, 1.0]))
    }

    #[test]
    fn scales_channels() {
        let x = || t(&[1, 2, 1, 2], &[1.0, 2.0, 3.0, 4.0]);
        op(x(), "NCHW").gives("Out", t(&[1, 2, 1, 2], &[2.0, 4.0, 10.0, 13.0]));
        op(x(), "NHWC").gives("Out", t(&[1, 2, 1, 2], &[2.0, 7.0, 6.0, 13.0]));
        op(some(&[2, 2, 1, 2]), "NCHW").output("Out").grad(&["X", "Scale", "Bias"]);
        op(some(&[3, 2]), "NHWC").output("Out").grad(&["X", "Scale", "Bias"]);
    }

    #[test]
    fn refuses_other_sizes() {
        let error = op(some(&[1, 3, 1, 1]), "NCHW").output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
        let error = op(some(&[2, 2, 2]), "NCHW").output("Out").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
    }
}
