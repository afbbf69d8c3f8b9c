//! `group_norm`: Y = Scale (X - mean) / sqrt(variance + epsilon) + Bias, over each of `groups` groups of channels of
//! an image. Mean and Variance are those of the groups.
//!
//! `instance_norm`: the same with a group for each channel. SavedMean and SavedVariance, which is
//! 1 / sqrt(variance + epsilon), have a number for each channel of each image.

use tensor::{Float, Shape, Tensor};

use super::layout::channels_last;
use super::sizes::bad_attr;
use super::{Grad, Infer, Keep, Kernel, Op, Run, dims, for_float, traits};
use crate::error::Result;

pub(super) struct GroupNorm;
pub(super) struct GroupNormGrad;
pub(super) struct InstanceNorm;
pub(super) struct InstanceNormGrad;

const RANK: &str = "images and channels need 2 dimensions at least";
const CHANNELS: &str = "one number for each channel is needed";

/// Images in groups of channels.
#[derive(Clone, Copy)]
struct Groups {
    n_images: usize,
    channels: usize,
    groups: usize,
    pixels: usize,
    last: bool,
}

impl Groups {
    /// None if the shape does not fit.
    fn new(shape: Shape, groups: Option<i64>, last: bool) -> Option<Self> {
        let &[n_images, .., end] = shape.dims() else { return None };
        let channels = if last { end } else { shape.dim(1) };
        let groups = groups.map_or(Some(channels), |groups| usize::try_from(groups).ok())?;
        if groups == 0 || channels % groups != 0 {
            return None;
        }
        let pixels = shape.n_elements() / (n_images * channels).max(1);
        Some(Self { n_images, channels, groups, pixels, last })
    }

    fn n_sets(&self) -> usize {
        self.n_images * self.groups
    }

    /// Calls `f(place, channel)` for all numbers of a group of an image.
    fn for_each(&self, set: usize, mut f: impl FnMut(usize, usize)) {
        let (image, group) = (set / self.groups, set % self.groups);
        let width = self.channels / self.groups;
        for channel in group * width..(group + 1) * width {
            for pixel in 0..self.pixels {
                let place = if self.last {
                    (image * self.pixels + pixel) * self.channels + channel
                } else {
                    (image * self.channels + channel) * self.pixels + pixel
                };
                f(place, channel);
            }
        }
    }

    /// The mean and the variance of a group of an image.
    fn moments<T: Float>(&self, set: usize, x: &[T]) -> (T, T) {
        let n = T::of((self.channels / self.groups * self.pixels).max(1) as f64);
        let mut sum = T::zero();
        self.for_each(set, |place, _| sum += x[place]);
        let mean = sum / n;
        let mut squares = T::zero();
        self.for_each(set, |place, _| squares += (x[place] - mean) * (x[place] - mean));
        (mean, squares / n)
    }
}

/// The names of one of the two ops.
struct NormPorts {
    mean: &'static str,
    variance: &'static str,
    is_instance: bool,
}

const GROUP: NormPorts = NormPorts { mean: "Mean", variance: "Variance", is_instance: false };
const INSTANCE: NormPorts =
    NormPorts { mean: "SavedMean", variance: "SavedVariance", is_instance: true };

fn infer(infer: &mut Infer<'_>, names: &NormPorts) -> Result<()> {
    let x = infer.input("X")?;
    if x.dims.len() < 2 {
        return Err(infer.shape(RANK, "X"));
    }
    let attrs = infer.attrs();
    let last = !names.is_instance && channels_last(attrs, "data_layout")?;
    let channels = if last { x.dims[x.dims.len() - 1] } else { x.dims[1] };
    let mut of_sets = vec![x.dims[0], attrs.int("groups", 1)?];
    if names.is_instance {
        of_sets = vec![if x.dims[0] < 0 || channels < 0 { -1 } else { x.dims[0] * channels }];
    } else if of_sets[1] < 1 || (channels >= 0 && channels % of_sets[1] != 0) {
        return Err(bad_attr("groups", "a divisor of the channels", of_sets[1]));
    }
    for port in ["Scale", "Bias"] {
        if infer.opt_input(port)?.is_some_and(|meta| !dims::agree(&meta.dims, &[channels])) {
            return Err(infer.shapes(CHANNELS, port, "X"));
        }
    }
    let saved = x.with_dims(of_sets).with_lod_level(0);
    infer.set_output(names.mean, saved.clone())?;
    infer.set_output(names.variance, saved)?;
    infer.set_output("Y", x)
}

fn groups(run: &Run<'_>, names: &NormPorts) -> Result<Groups> {
    let (attrs, x) = (run.attrs(), run.input("X")?.shape());
    let last = !names.is_instance && channels_last(attrs, "data_layout")?;
    let asked = if names.is_instance { None } else { Some(attrs.int("groups", 1)?) };
    let groups = Groups::new(x, asked, last).ok_or_else(|| run.shape(RANK, "X"))?;
    for port in ["Scale", "Bias"] {
        if run.opt_input(port).is_some_and(|given| given.len() != groups.channels) {
            return Err(run.shapes(CHANNELS, port, "X"));
        }
    }
    Ok(groups)
}

fn run(run: &mut Run<'_>, names: &NormPorts) -> Result<()> {
    let [mut y, mut mean, mut variance] = ["Y", names.mean, names.variance].map(|p| run.take(p));
    let groups = groups(run, names)?;
    let epsilon = run.attrs().float("epsilon", 1e-5)?;
    let x = run.input("X")?;
    let n = groups.n_sets();
    let shape = if names.is_instance {
        Shape::from([n])
    } else {
        Shape::from([groups.n_images, groups.groups])
    };
    for_float!(x.dtype(), run.input_name("X"), T => {
        let (data, out) = (x.data::<T>()?, y.resize::<T>(x.shape()));
        let (scale, bias) = (run.opt_data::<T>("Scale")?, run.opt_data::<T>("Bias")?);
        let (means, variances) = (mean.resize::<T>(shape), variance.resize::<T>(shape));
        for set in 0..n {
            let (mean, variance) = groups.moments(set, data);
            let inverse = 1.0 / (variance + epsilon as T).sqrt();
            groups.for_each(set, |place, channel| {
                let scale = scale.map_or(1.0, |scale| scale[channel]);
                let bias = bias.map_or(0.0, |bias| bias[channel]);
                out[place] = (data[place] - mean) * inverse * scale + bias;
            });
            means[set] = mean;
            variances[set] = if names.is_instance { inverse } else { variance };
        }
        Ok(())
    })?;
    y.set_lod(x.lod().clone());
    run.put("Y", y);
    run.put(names.mean, mean);
    run.put(names.variance, variance);
    Ok(())
}

/// dBias = sum dY; dScale = sum dY x'; dX = (g - mean(g) - x' mean(g x')) / deviation, with g = dY Scale.
fn run_grad(run: &mut Run<'_>, names: &NormPorts) -> Result<()> {
    let [mut d_x, mut d_scale, mut d_bias] =
        ["X@GRAD", "Scale@GRAD", "Bias@GRAD"].map(|port| run.take(port));
    dims::run_same(run, "X", "Y@GRAD")?;
    let groups = groups(run, names)?;
    let epsilon = run.attrs().float("epsilon", 1e-5)?;
    let x = run.input("X")?;
    for_float!(x.dtype(), run.input_name("X"), T => {
        let (data, d_y) = (x.data::<T>()?, run.data::<T>("Y@GRAD")?);
        let scale = run.opt_data::<T>("Scale")?;
        let out = d_x.resize::<T>(x.shape());
        let per_channel = Shape::from([groups.channels]);
        let (to_scale, to_bias) =
            (d_scale.resize_zeroed::<T>(per_channel), d_bias.resize_zeroed::<T>(per_channel));
        let n = (groups.channels / groups.groups * groups.pixels).max(1) as T;
        for set in 0..groups.n_sets() {
            let (mean, variance) = groups.moments(set, data);
            let inverse = 1.0 / (variance + epsilon as T).sqrt();
            let (mut sum, mut product): (T, T) = (0.0, 0.0);
            groups.for_each(set, |place, channel| {
                let unit = (data[place] - mean) * inverse;
                let g = d_y[place] * scale.map_or(1.0, |scale| scale[channel]);
                sum += g;
                product += g * unit;
                to_scale[channel] += d_y[place] * unit;
                to_bias[channel] += d_y[place];
            });
            groups.for_each(set, |place, channel| {
                let unit = (data[place] - mean) * inverse;
                let g = d_y[place] * scale.map_or(1.0, |scale| scale[channel]);
                out[place] = inverse * (g - sum / n - unit * product / n);
            });
        }
        Ok(())
    })?;
    d_x.set_lod(x.lod().clone());
    put_all(run, [("X@GRAD", d_x), ("Scale@GRAD", d_scale), ("Bias@GRAD", d_bias)]);
    Ok(())
}

fn put_all<const N: usize>(run: &mut Run<'_>, all: [(&str, Tensor); N]) {
    all.into_iter().for_each(|(port, tensor)| run.put(port, tensor));
}

/// The gradient op reads X, Scale and Bias, as far as they are there.
fn grad(grad: &mut Grad<'_>) -> Result<()> {
    let has = |port: &&str| !grad.op().input_names(port).is_empty();
    let read: Vec<&str> = ["X", "Scale", "Bias"].into_iter().filter(has).collect();
    grad.emit_usual(Keep::grads(&["Y"], &read).inputs(&read))
}

macro_rules! norm {
    ($op:ident, $grad_op:ident, $names:ident) => {
        impl Op for $op {
            traits!(Rows("X"), "X": [F32, F64]);

            fn infer(&self, i: &mut Infer<'_>) -> Result<()> {
                infer(i, &$names)
            }

            fn run(&self, r: &mut Run<'_>) -> Result<()> {
                run(r, &$names)
            }

            fn grad(&self, g: &mut Grad<'_>) -> Result<()> {
                grad(g)
            }
        }

        impl Kernel for $grad_op {
            fn run(&self, r: &mut Run<'_>) -> Result<()> {
                run_grad(r, &$names)
            }
        }
    };
}

norm!(GroupNorm, GroupNormGrad, GROUP);
norm!(InstanceNorm, InstanceNormGrad, INSTANCE);

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, some, t};

    fn group(dims: &[usize], layout: &str) -> Check {
        let op = check("group_norm").input("X", some(dims)).attr("groups", 2);
        op.attr("data_layout", layout).attr("epsilon", 0.1f32)
    }

    #[test]
    fn mean_0_and_variance_1() {
        let op = check("group_norm").input("X", t(&[1, 2, 1, 2], &[1.0, 3.0, 10.0, 30.0]));
        let op = op.attr("groups", 2).attr("epsilon", 0.0f32);
        let op = op.input("Scale", t(&[2], &[1.0, 2.0])).input("Bias", t(&[2], &[0.0, 5.0]));
        op.gives("Y", t(&[1, 2, 1, 2], &[-1.0, 1.0, 3.0, 7.0]))
            .gives("Mean", t(&[1, 2], &[2.0, 20.0]))
            .gives("Variance", t(&[1, 2], &[1.0, 100.0]));
        let op = check("instance_norm").input("X", t(&[1, 1, 2], &[1.0, 5.0]));
        let op = op.input("Scale", t(&[1], &[1.0])).input("Bias", t(&[1], &[1.0]));
        let op = op.attr("epsilon", 0.0f32).gives("Y", t(&[1, 1, 2], &[0.0, 2.0]));
        op.gives("SavedMean", t(&[1], &[3.0])).gives("SavedVariance", t(&[1], &[0.5]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        let with = |op: Check, channels: usize| {
            op.input("Scale", some(&[channels])).input("Bias", some(&[channels])).output("Y")
        };
        let op = with(group(&[2, 4, 1, 3], "NCHW"), 4);
        op.aux("Mean").aux("Variance").grad(&["X", "Scale", "Bias"]);
        let op = with(group(&[2, 3, 1, 2], "NHWC"), 2);
        op.aux("Mean").aux("Variance").grad(&["X", "Scale", "Bias"]);
        group(&[1, 2, 3], "NCHW").output("Y").aux("Mean").aux("Variance").grad(&["X"]);
        let op = check("instance_norm").input("X", some(&[2, 2, 3])).attr("epsilon", 0.1f32);
        let op = with(op, 2).aux("SavedMean").aux("SavedVariance");
        op.grad(&["X", "Scale", "Bias"]);
    }

    #[test]
    fn refuses_groups_and_scales_that_do_not_fit() {
        let error = group(&[1, 3, 2], "NCHW").output("Y").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        let error = group(&[1, 4, 2], "NCHW").input("Scale", some(&[3])).output("Y").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
        let error = group(&[4], "NCHW").output("Y").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
    }
}
