//! `batch_norm`: Y = (X - mean) / sqrt(variance + epsilon) * Scale + Bias, per channel.
//!
//! In training mean and (biased) variance are those of the batch; SavedMean keeps the mean,
//! SavedVariance 1 / sqrt(variance + epsilon), and the running ones follow:
//! MeanOut = momentum Mean + (1 - momentum) mean. With `is_test` or `use_global_stats` the running
//! ones are used instead and stay as they are. A batch of one number per channel passes unchanged.

use tensor::{AxisSplit, DType, Float, Shape, Tensor};

use super::{BySample, Grad, Infer, Keep, Kernel, Op, Run, Traits, dims, for_float};
use crate::attr::Attrs;
use crate::error::{Error, Result};

pub(super) struct BatchNorm;
pub(super) struct BatchNormGrad;

const RANK: &str = "batch_norm needs 2 to 5 dimensions";
const CHANNELS: &str = "one number per channel is needed";
const STATS: [&str; 4] = ["Scale", "Bias", "Mean", "Variance"];

/// Which dimension holds the channels.
fn channel_axis(attrs: &Attrs, rank: usize) -> Result<usize> {
    match attrs.str("data_layout", "NCHW")? {
        "NCHW" | "AnyLayout" => Ok(1),
        "NHWC" => Ok(rank.saturating_sub(1)),
        other => Err(Error::BadAttr {
            attr: "data_layout".to_string(),
            expected: "NCHW or NHWC".to_string(),
            actual: other.to_string(),
        }),
    }
}

/// Whether the running statistics are used rather than the batch's.
fn uses_running(attrs: &Attrs) -> Result<bool> {
    Ok(attrs.bool("is_test", false)? && !attrs.bool("trainable_statistics", false)?
        || attrs.bool("use_global_stats", false)?)
}

impl Op for BatchNorm {
    fn traits(&self, attrs: &Attrs) -> Traits {
        let is_true = |attr| attrs.bool(attr, false).unwrap_or(false);
        let is_steady = is_true("is_test") || is_true("use_global_stats");
        let by_sample = if is_steady { BySample::Rows("X") } else { BySample::Never };
        let types = &[("X", &[DType::F16, DType::F32, DType::F64] as &[DType])];
        Traits { knows_is_test: true, keeps_averages: true, ..Traits::new(by_sample, types) }
    }

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        if !(2..=5).contains(&x.dims.len()) {
            return Err(infer.shape(RANK, "X"));
        }
        let n_channels = x.dims[channel_axis(infer.attrs(), x.dims.len())?];
        for port in STATS {
            if !dims::agree(&infer.input(port)?.dims, &[n_channels]) {
                return Err(infer.shapes(CHANNELS, "X", port));
            }
        }
        let stat = x.with_dims(vec![n_channels]).with_lod_level(0);
        for port in ["MeanOut", "VarianceOut", "SavedMean", "SavedVariance"] {
            infer.set_output(port, stat.clone())?;
        }
        infer.set_output("Y", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let around = around(run, &STATS)?;
        let mut y = run.take("Y");
        let mut mean = run.take("SavedMean");
        let mut inv_std = run.take("SavedVariance");
        let mut spare = run.spare().tensor();
        let x = run.input("X")?;
        let stat = Shape::from([around.size]);
        let running = uses_running(run.attrs())?;
        let momentum = match run.opt_input("MomentumTensor") {
            Some(_) => run.scalar("MomentumTensor")? as f32,
            None => run.attrs().float("momentum", 0.9)?,
        };
        for_float!(x.dtype(), run.input_name("X"), T => {
            let epsilon = T::from(run.attrs().float("epsilon", 1e-5)?);
            let data = x.data::<T>()?;
            let variance = spare.resize::<T>(stat);
            let mean = mean.resize_zeroed::<T>(stat);
            let inv_std = inv_std.resize_zeroed::<T>(stat);
            let out = y.resize::<T>(x.shape());
            if running {
                variance.copy_from_slice(run.data::<T>("Variance")?);
                variance.iter_mut().for_each(|v| *v = 1.0 / (*v + epsilon).sqrt());
                let stats = Stats { mean: run.data("Mean")?, inv_std: variance, around };
                stats.normalise(run, data, out)?;
            } else if around.n_vectors() == 1 {
                out.copy_from_slice(data);
            } else {
                batch_stats(data, mean, variance, around);
                let pairs = inv_std.iter_mut().zip(&*variance);
                pairs.for_each(|(inv_std, &v)| *inv_std = 1.0 / (v + epsilon).sqrt());
                Stats { mean, inv_std, around }.normalise(run, data, out)?;
            }
            Ok::<(), Error>(())
        })?;
        y.set_lod(x.lod().clone());
        if !running && around.n_vectors() > 1 {
            follow(run, momentum, [&mean, &spare])?;
        }
        run.spare().keep(spare);
        run.put("Y", y);
        run.put("SavedMean", mean);
        run.put("SavedVariance", inv_std);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let batch = ["X", "Scale", "Bias"];
        let running = ["X", "Scale", "Bias", "Mean", "Variance"];
        let uses_running = uses_running(&grad.op().attrs)?;
        grad.emit_usual(Keep {
            inputs: if uses_running { &running } else { &batch },
            outputs: &["SavedMean", "SavedVariance"],
            out_grads: &["Y"],
            in_grads: &["X", "Scale", "Bias"],
        })
    }
}

/// X around its channels; the ports must have a number for each of them.
fn around(run: &Run<'_>, ports: &[&str]) -> Result<AxisSplit> {
    let x = run.input("X")?.shape();
    if !(2..=5).contains(&x.rank()) {
        return Err(run.shape(RANK, "X"));
    }
    let around = x.around(channel_axis(run.attrs(), x.rank())?);
    if around.n_vectors() == 0 {
        return Err(run.shape("statistics of an empty batch are not defined", "X"));
    }
    for port in ports {
        if run.input(port)?.len() != around.size {
            return Err(run.shapes(CHANNELS, "X", port));
        }
    }
    Ok(around)
}

/// Moves the running statistics towards the batch's, in place.
fn follow(run: &mut Run<'_>, momentum: f32, batch: [&Tensor; 2]) -> Result<()> {
    let ports = [("Mean", "MeanOut"), ("Variance", "VarianceOut")];
    run.update(ports, |_, running| {
        for (running, batch) in running.into_iter().zip(batch) {
            for_float!(batch.dtype(), "Mean", T => {
                let momentum = T::from(momentum);
                for (r, &b) in running.data_mut::<T>()?.iter_mut().zip(batch.data::<T>()?) {
                    *r = *r * momentum + b * (1.0 - momentum);
                }
                Ok::<(), Error>(())
            })?;
        }
        Ok(())
    })
}

/// Calls `f(channel, range of elements)` in the order of memory.
fn for_each_channel(around: AxisSplit, mut f: impl FnMut(usize, std::ops::Range<usize>)) {
    let AxisSplit { outer, size: n_channels, inner } = around;
    for block in 0..outer * n_channels {
        f(block % n_channels, block * inner..(block + 1) * inner);
    }
}

/// Mean and biased variance of each channel.
fn batch_stats<T: Float>(x: &[T], mean: &mut [T], variance: &mut [T], around: AxisSplit) {
    let n = T::of(around.n_vectors() as f64);
    mean.fill(T::zero());
    variance.fill(T::zero());
    for_each_channel(around, |c, at| x[at].iter().for_each(|&x| mean[c] += x));
    mean.iter_mut().for_each(|mean| *mean = *mean / n);
    for_each_channel(around, |c, at| {
        x[at].iter().for_each(|&x| variance[c] += (x - mean[c]) * (x - mean[c]));
    });
    variance.iter_mut().for_each(|variance| *variance = *variance / n);
}

/// A mean and 1 / sqrt(variance + epsilon) for each channel.
struct Stats<'a, T> {
    mean: &'a [T],
    inv_std: &'a [T],
    around: AxisSplit,
}

impl<T: Float> Stats<'_, T> {
    fn normalise(&self, run: &Run<'_>, x: &[T], y: &mut [T]) -> Result<()> {
        let (scale, bias) = (run.data::<T>("Scale")?, run.data::<T>("Bias")?);
        for_each_channel(self.around, |c, at| {
            let factor = scale[c] * self.inv_std[c];
            let pairs = y[at.clone()].iter_mut().zip(&x[at]);
            pairs.for_each(|(y, &x)| *y = (x - self.mean[c]) * factor + bias[c]);
        });
        Ok(())
    }
}

/// With x̂ the normalised X: dBias = sum(dY), dScale = sum(dY x̂), and
/// dX = Scale / std (dY - mean(dY) - x̂ mean(dY x̂)); with running statistics dX = Scale / std dY.
impl Kernel for BatchNormGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let running = uses_running(run.attrs())?;
        let (mean, spread) =
            if running { ("Mean", "Variance") } else { ("SavedMean", "SavedVariance") };
        let around = around(run, &["Scale", mean, spread])?;
        dims::run_same(run, "X", "Y@GRAD")?;
        let mut d_x = run.take("X@GRAD");
        let mut d_scale = run.take("Scale@GRAD");
        let mut d_bias = run.take("Bias@GRAD");
        let mut spare = run.spare().tensor();
        let x = run.input("X")?;
        let stat = Shape::from([around.size]);
        for_float!(x.dtype(), run.input_name("X"), T => {
            let epsilon = T::from(run.attrs().float("epsilon", 1e-5)?);
            let inv_std = spare.resize::<T>(stat);
            inv_std.copy_from_slice(run.data::<T>(spread)?);
            if running {
                inv_std.iter_mut().for_each(|v| *v = 1.0 / (*v + epsilon).sqrt());
            }
            let batch = Batch {
                x: x.data::<T>()?,
                d_y: run.data::<T>("Y@GRAD")?,
                stats: Stats { mean: run.data::<T>(mean)?, inv_std, around },
                running,
            };
            let d_scale = d_scale.resize_zeroed::<T>(stat);
            let d_bias = d_bias.resize_zeroed::<T>(stat);
            let d_x = d_x.resize::<T>(x.shape());
            if !running && around.n_vectors() == 1 {
                d_x.copy_from_slice(batch.d_y);
            } else {
                batch.sums(d_scale, d_bias);
                batch.input_grad(run.data::<T>("Scale")?, d_scale, d_bias, d_x);
            }
            Ok::<(), Error>(())
        })?;
        d_x.set_lod(x.lod().clone());
        run.spare().keep(spare);
        run.put("X@GRAD", d_x);
        run.put("Scale@GRAD", d_scale);
        run.put("Bias@GRAD", d_bias);
        Ok(())
    }
}

/// The inputs of the gradient.
struct Batch<'a, T> {
    x: &'a [T],
    d_y: &'a [T],
    stats: Stats<'a, T>,
    /// The statistics are the running ones, which do not depend on X.
    running: bool,
}

impl<T: Float> Batch<'_, T> {
    fn sums(&self, d_scale: &mut [T], d_bias: &mut [T]) {
        let Stats { mean, inv_std, around } = self.stats;
        for_each_channel(around, |c, at| {
            for (&x, &d_y) in self.x[at.clone()].iter().zip(&self.d_y[at]) {
                d_scale[c] += d_y * (x - mean[c]) * inv_std[c];
                d_bias[c] += d_y;
            }
        });
    }

    fn input_grad(&self, scale: &[T], d_scale: &[T], d_bias: &[T], d_x: &mut [T]) {
        let Stats { mean, inv_std, around } = self.stats;
        let n = T::of(around.n_vectors() as f64);
        for_each_channel(around, |c, at| {
            let factor = scale[c] * inv_std[c];
            for i in at {
                let x_hat = (self.x[i] - mean[c]) * inv_std[c];
                let through_stats = (d_bias[c] + x_hat * d_scale[c]) / n;
                d_x[i] =
                    factor * (self.d_y[i] - if self.running { T::zero() } else { through_stats });
            }
        });
    }
}

#[cfg(test)]
mod tests;
