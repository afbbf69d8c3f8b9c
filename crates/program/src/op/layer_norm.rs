//! `layer_norm`: Y = (X - Mean) / sqrt(Variance + epsilon) * Scale + Bias.
//!
//! Mean and Variance (biased) are those of the dimensions from `begin_norm_axis` on.

use tensor::{Float, Shape};

use super::{Grad, Infer, Keep, Kernel, Op, Run, dims, for_float, traits};
use crate::attr::Attrs;
use crate::error::{Error, Result};

pub(super) struct LayerNorm;
pub(super) struct LayerNormGrad;

const WIDTH: &str = "a scale or bias needs one number for each that is normalised together";

fn begin(attrs: &Attrs, rank: usize) -> Result<usize> {
    let axis = attrs.int("begin_norm_axis", 1)?;
    match usize::try_from(axis) {
        Ok(begin) if begin > 0 && begin < rank => Ok(begin),
        _ => Err(Error::BadAttr {
            attr: "begin_norm_axis".to_string(),
            expected: format!("an axis after the first of a tensor of rank {rank}"),
            actual: axis.to_string(),
        }),
    }
}

/// The product of sizes, unknown if one of them is.
fn product(dims: &[i64]) -> i64 {
    if dims.iter().any(|&dim| dim < 0) { -1 } else { crate::var::n_elements(dims) }
}

impl Op for LayerNorm {
    traits!(Inner("X", "begin_norm_axis", 1), "X": [F32, F64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        let begin = begin(infer.attrs(), x.dims.len())?;
        let width = product(&x.dims[begin..]);
        for port in ["Scale", "Bias"] {
            let Some(param) = infer.opt_input(port)? else { continue };
            if !dims::agree(&[width], &[product(&param.dims)]) {
                return Err(infer.shapes(WIDTH, "X", port));
            }
        }
        let stat = x.with_dims(vec![product(&x.dims[..begin])]).with_lod_level(0);
        infer.set_output("Mean", stat.clone())?;
        infer.set_output("Variance", stat)?;
        infer.set_output("Y", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let epsilon = run.attrs().float("epsilon", 1e-5)?;
        let mut y = run.take("Y");
        let mut mean = run.take("Mean");
        let mut variance = run.take("Variance");
        let (n_rows, width) = sizes(run)?;
        let x = run.input("X")?;
        let stat = Shape::from([n_rows]);
        for_float!(x.dtype(), run.input_name("X"), T => {
            let params = (run.opt_data::<T>("Scale")?, run.opt_data::<T>("Bias")?);
            let rows = x.data::<T>()?.chunks_exact(width.max(1));
            let outputs = y.resize::<T>(x.shape()).chunks_exact_mut(width.max(1));
            let stats = mean.resize::<T>(stat).iter_mut().zip(variance.resize::<T>(stat));
            for ((x, y), (mean, variance)) in rows.zip(outputs).zip(stats) {
                (*mean, *variance) = moments(x);
                let inv_std = 1.0 / (*variance + T::from(epsilon)).sqrt();
                for (k, (y, &x)) in y.iter_mut().zip(x).enumerate() {
                    let scale = params.0.map_or(1.0, |scale| scale[k]);
                    *y = (x - *mean) * inv_std * scale + params.1.map_or(0.0, |bias| bias[k]);
                }
            }
            Ok(())
        })?;
        y.set_lod(x.lod().clone());
        run.put("Y", y);
        run.put("Mean", mean);
        run.put("Variance", variance);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(
            Keep::grads(&["Y"], &["X", "Scale", "Bias"])
                .inputs(&["X", "Scale", "Bias"])
                .outputs(&["Mean", "Variance"]),
        )
    }
}

/// Rows and how many numbers are normalised together, the parameters checked.
fn sizes(run: &Run<'_>) -> Result<(usize, usize)> {
    let x = run.input("X")?.shape();
    let (n_rows, width) = x.flatten_2d(begin(run.attrs(), x.rank())?);
    for port in ["Scale", "Bias"] {
        if run.opt_input(port).is_some_and(|param| param.len() != width) {
            return Err(run.shapes(WIDTH, "X", port));
        }
    }
    Ok((n_rows, width))
}

/// Mean and biased variance.
pub(super) fn moments<T: Float>(x: &[T]) -> (T, T) {
    let n = T::of(x.len() as f64);
    let mean = x.iter().fold(T::zero(), |sum, &x| sum + x) / n;
    let squares = x.iter().fold(T::zero(), |sum, &x| sum + (x - mean) * (x - mean));
    (mean, squares / n)
}

/// With x̂ the normalised X and g = dY Scale: dX = (g - mean(g) - x̂ mean(g x̂)) / std,
/// dScale = sum of dY x̂ over the rows, dBias = sum of dY.
impl Kernel for LayerNormGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut d_x = run.take("X@GRAD");
        let mut d_scale = run.take("Scale@GRAD");
        let mut d_bias = run.take("Bias@GRAD");
        let epsilon = run.attrs().float("epsilon", 1e-5)?;
        dims::run_same(run, "X", "Y@GRAD")?;
        let (n_rows, width) = sizes(run)?;
        for port in ["Mean", "Variance"] {
            if run.input(port)?.len() != n_rows {
                return Err(run.shapes("one number per row is needed", "X", port));
            }
        }
        let x = run.input("X")?;
        for_float!(x.dtype(), run.input_name("X"), T => {
            let rows = NormRows {
                x: x.data::<T>()?,
                d_y: run.data::<T>("Y@GRAD")?,
                mean: run.data::<T>("Mean")?,
                variance: run.data::<T>("Variance")?,
                epsilon: T::from(epsilon),
                width,
            };
            if run.wants("X@GRAD") {
                rows.input_grad(run.opt_data("Scale")?, d_x.resize::<T>(x.shape()));
            }
            if run.wants("Scale@GRAD") || run.wants("Bias@GRAD") {
                let shape = Shape::from([width]);
                let (d_scale, d_bias) = (d_scale.resize_zeroed(shape), d_bias.resize_zeroed(shape));
                rows.param_grads(d_scale, d_bias);
            }
            Ok(())
        })?;
        d_x.set_lod(x.lod().clone());
        run.put("X@GRAD", d_x);
        run.put("Scale@GRAD", d_scale);
        run.put("Bias@GRAD", d_bias);
        Ok(())
    }
}

/// The inputs of the gradient.
struct NormRows<'a, T> {
    x: &'a [T],
    d_y: &'a [T],
    mean: &'a [T],
    variance: &'a [T],
    epsilon: T,
    width: usize,
}

/// One row of them.
struct NormRow<'a, T> {
    x: &'a [T],
    d_y: &'a [T],
    mean: T,
    inv_std: T,
}

impl<T: Float> NormRows<'_, T> {
    fn iter(&self) -> impl Iterator<Item = NormRow<'_, T>> {
        let width = self.width.max(1);
        let rows = self.x.chunks_exact(width).zip(self.d_y.chunks_exact(width));
        let stats = self.mean.iter().zip(self.variance);
        rows.zip(stats).map(|((x, d_y), (&mean, &variance))| NormRow {
            x,
            d_y,
            mean,
            inv_std: T::one() / (variance + self.epsilon).sqrt(),
        })
    }

    fn input_grad(&self, scale: Option<&[T]>, d_x: &mut [T]) {
        let n = T::of(self.width as f64);
        let outputs = d_x.chunks_exact_mut(self.width.max(1));
        for (NormRow { x, d_y, mean, inv_std }, d_x) in self.iter().zip(outputs) {
            let (mut sum, mut dot) = (T::zero(), T::zero());
            for k in 0..x.len() {
                let g = d_y[k] * scale.map_or(T::one(), |scale| scale[k]);
                sum += g;
                dot += g * (x[k] - mean) * inv_std;
            }
            for k in 0..x.len() {
                let g = d_y[k] * scale.map_or(T::one(), |scale| scale[k]);
                d_x[k] = inv_std * (g - sum / n - (x[k] - mean) * inv_std * dot / n);
            }
        }
    }

    fn param_grads(&self, d_scale: &mut [T], d_bias: &mut [T]) {
        for NormRow { x, d_y, mean, inv_std } in self.iter() {
            for k in 0..x.len() {
                d_scale[k] += d_y[k] * (x[k] - mean) * inv_std;
                d_bias[k] += d_y[k];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, t};

    fn norm() -> Check {
        check("layer_norm")
            .input("X", t(&[2, 2, 2], &[1.0, 3.0, 2.0, 6.0, 0.5, 0.0, -1.0, 0.7]))
            .attr("epsilon", 0.0f32)
    }

    fn params(check: Check, n: usize) -> Check {
        let scale: Vec<f64> = (0..n).map(|k| 0.5 + k as f64).collect();
        check.input("Scale", t(&[n], &scale)).input("Bias", t(&[n], &scale))
    }

    #[test]
    fn normalises_rows() {
        check("layer_norm")
            .input("X", t(&[2, 2], &[1.0, 3.0, 2.0, 6.0]))
            .input("Scale", t(&[2], &[1.0, 10.0]))
            .input("Bias", t(&[2], &[0.0, 0.5]))
            .attr("epsilon", 0.0f32)
            .gives("Y", t(&[2, 2], &[-1.0, 10.5, -1.0, 10.5]))
            .gives("Mean", t(&[2], &[2.0, 4.0]))
            .gives("Variance", t(&[2], &[1.0, 4.0]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        let outputs = |check: Check| check.output("Y").aux("Mean").aux("Variance");
        outputs(params(norm(), 4)).grad(&["X", "Scale", "Bias"]);
        let inner = params(norm(), 2).attr("begin_norm_axis", 2).attr("epsilon", 0.1f32);
        outputs(inner).grad(&["X", "Scale", "Bias"]);
        outputs(norm()).grad(&["X"]);
    }

    #[test]
    fn refuses_parameters_of_another_width_and_a_bad_axis() {
        let error = params(norm(), 3).output("Y").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
        let error = norm().attr("begin_norm_axis", 3).output("Y").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
    }
}
