//! From an [`Initializer`] to the op that the startup program runs.

use tensor::DType;

use crate::block::OpDesc;
use crate::error::Result;
use crate::param::Initializer;
use crate::var::VarDesc;

/// Fan in and fan out of a parameter's shape.
pub fn fans(dims: &[i64]) -> (f32, f32) {
    match dims {
        [] => (1.0, 1.0),
        [n] => (*n as f32, *n as f32),
        [fan_in, fan_out] => (*fan_in as f32, *fan_out as f32),
        [n_out, n_in, field @ ..] => {
            let receptive = crate::var::n_elements(field);
            (n_in.saturating_mul(receptive) as f32, n_out.saturating_mul(receptive) as f32)
        }
    }
}

/// The op that fills `var`; `program_seed` stands in for a seed of 0.
pub fn op(initializer: &Initializer, var: &VarDesc, program_seed: i32) -> Result<OpDesc> {
    let (fan_in, fan_out) = fans(&var.meta.dims);
    let uniform = |limit: f64, seed| {
        random("uniform_random", ("min", -limit as f32), ("max", limit as f32), seed)
    };
    let normal =
        |std: f64, seed| random("gaussian_random", ("mean", 0.0), ("std", std as f32), seed);
    let (op, seed) = match initializer {
        Initializer::Constant { value } => {
            (OpDesc::new("fill_constant").attr("value", *value).attr("force_cpu", false), 0)
        }
        Initializer::Uniform { low, high, seed } => {
            random("uniform_random", ("min", *low), ("max", *high), *seed)
        }
        Initializer::Normal { loc, scale, seed } => {
            random("gaussian_random", ("mean", *loc), ("std", *scale), *seed)
        }
        Initializer::TruncatedNormal { loc, scale, seed } => {
            random("truncated_gaussian_random", ("mean", *loc), ("std", *scale), *seed)
        }
        Initializer::Xavier { uniform: flat, fan_in: i, fan_out: o, seed } => {
            let sum = f64::from(i.unwrap_or(fan_in)) + f64::from(o.unwrap_or(fan_out));
            if *flat {
                uniform((6.0 / sum).sqrt(), *seed)
            } else {
                normal((2.0 / sum).sqrt(), *seed)
            }
        }
        Initializer::Msra { uniform: flat, fan_in: i, seed } => {
            let fan = f64::from(i.unwrap_or(fan_in));
            if *flat {
                uniform((6.0 / fan).sqrt(), *seed)
            } else {
                normal((2.0 / fan).sqrt(), *seed)
            }
        }
        Initializer::Bilinear | Initializer::Array(_) => return assign_value(initializer, var),
    };
    let mut op = op
        .output("Out", &var.name)
        .attr("shape", var.meta.dims.clone())
        .attr("dtype", var.meta.dtype.code());
    if op.kind != "fill_constant" {
        op = op.attr("seed", if seed == 0 { program_seed } else { seed });
    }
    Ok(op)
}

fn random(kind: &str, a: (&str, f32), b: (&str, f32), seed: i32) -> (OpDesc, i32) {
    (OpDesc::new(kind).attr(a.0, a.1).attr(b.0, b.1), seed)
}

/// `assign_value` carries the numbers themselves, under the attribute of their type.
fn assign_value(initializer: &Initializer, var: &VarDesc) -> Result<OpDesc> {
    let values: Vec<f64> = match initializer {
        Initializer::Array(tensor) => (0..tensor.len()).map(|i| tensor.get_f64(i)).collect(),
        _ => bilinear(&var.meta.dims).into_iter().map(f64::from).collect(),
    };
    let op = OpDesc::new("assign_value")
        .output("Out", &var.name)
        .attr("shape", var.meta.dims.iter().map(|&dim| dim as i32).collect::<Vec<i32>>())
        .attr("dtype", var.meta.dtype.code());
    let ints = || values.iter().map(|&x| x as i32).collect::<Vec<i32>>();
    Ok(match (var.meta.dtype, initializer) {
        (DType::Bool, _) => op.attr("bool_values", ints()),
        (DType::I32, _) => op.attr("int32_values", ints()),
        // Not through doubles: an id may have more digits than they hold.
        (DType::I64, Initializer::Array(tensor)) if tensor.dtype() == DType::I64 => {
            op.attr("int64_values", tensor.data::<i64>()?.to_vec())
        }
        (DType::I64, _) => {
            op.attr("int64_values", values.iter().map(|&x| x as i64).collect::<Vec<i64>>())
        }
        _ => op.attr("fp32_values", values.iter().map(|&x| x as f32).collect::<Vec<f32>>()),
    })
}

/// Weights with which a transposed convolution interpolates: a tent over the last two dimensions.
fn bilinear(dims: &[i64]) -> Vec<f32> {
    let n = crate::var::n_elements(dims);
    let size = dims.last().copied().unwrap_or(1).max(1);
    let factor = (size as f32 / 2.0).ceil();
    let center = (2.0 * factor - 1.0 - factor % 2.0) / (2.0 * factor);
    let tent = |at: i64| 1.0 - (at as f32 / factor - center).abs();
    (0..n).map(|i| tent(i % size) * tent(i / size % size)).collect()
}
