//! `mul` + `elementwise_add` of a bias (+ `relu`): one product, one pass over its result.

use program::op::{Kernel, Run, for_float};
use program::{OpDesc, Program, Result};
use tensor::gemm::{Matrix, gemm};
use tensor::{DType, Finish, Float, wide};

use super::{is_bias, is_private, only};
use crate::executor::plan::{BlockPlan, Planned, Replacement, Uses};

/// Out = X W + Bias, then `relu` if the attribute says so.
struct Fc;

const BIAS_RULE: &str = "the bias must be as long as a row";

impl Kernel for Fc {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let x_rows = run.attrs().int("x_num_col_dims", 1)? as usize;
        let relu = run.attrs().bool("relu", false)?;
        let mut out = run.take("Out");
        let (x, w) = (run.input("X")?, run.input("W")?);
        let ((m, k), (k_w, n)) = (x.shape().flatten_2d(x_rows), w.shape().flatten_2d(1));
        if k != k_w {
            return Err(run.shapes("the columns of X must equal the rows of Y", "X", "W"));
        }
        let shape = x.shape().flattened_to(x_rows, n);
        if let Some(packed) = run.packed("W").filter(|_| x.dtype() == DType::F32) {
            let bias = run.data::<f32>("Bias")?;
            if bias.len() != n {
                return Err(run.shapes(BIAS_RULE, "W", "Bias"));
            }
            let finish = Finish { bias: Some(bias), relu };
            packed.multiply(x.data()?, finish, out.resize::<f32>(shape));
            out.set_lod(x.lod().clone());
            run.put("Out", out);
            return Ok(());
        }
        for_float!(x.dtype(), run.input_name("X"), T => {
            let bias = run.data::<T>("Bias")?;
            if bias.len() != n {
                return Err(run.shapes(BIAS_RULE, "W", "Bias"));
            }
            let out = out.resize::<T>(shape);
            let (x, w) = (Matrix::new(x.data::<T>()?, m, k), Matrix::new(run.data::<T>("W")?, k, n));
            gemm(1.0, x, w, 0.0, out);
            wide(|| add_bias(out, bias, relu));
            Ok(())
        })?;
        out.set_lod(x.lod().clone());
        run.put("Out", out);
        Ok(())
    }
}

#[inline(always)]
fn add_bias<T: Float>(out: &mut [T], bias: &[T], relu: bool) {
    for row in out.chunks_exact_mut(bias.len().max(1)) {
        if relu {
            row.iter_mut().zip(bias).for_each(|(out, &b)| *out = (*out + b).max(T::zero()));
        } else {
            row.iter_mut().zip(bias).for_each(|(out, &b)| *out += b);
        }
    }
}

/// The pattern that begins with the `mul` at `at`.
pub(super) fn find(
    plan: &BlockPlan,
    program: &Program,
    uses: &Uses,
    at: usize,
) -> Option<Replacement> {
    let mul = &plan.ops[at].desc;
    if mul.kind != "mul" || mul.attrs.int("y_num_col_dims", 1).ok()? != 1 {
        return None;
    }
    let product = only(mul.output_names("Out"))?;
    let &[add_at] = uses.readers(product) else { return None };
    let add = &plan.ops[add_at].desc;
    let (w, bias) = (only(mul.input_names("Y"))?, only(add.input_names("Y"))?);
    let x_rows = mul.attrs.int("x_num_col_dims", 1).ok()?;
    let axis = add.attrs.int("axis", -1).ok()?;
    let along_rows = axis == x_rows || axis == -1;
    if add.kind != "elementwise_add" || !along_rows || !is_bias(program, bias, w) {
        return None;
    }
    if only(add.input_names("X")) != Some(product) || !is_private(plan, uses, product, at, add_at) {
        return None;
    }
    let sum = only(add.output_names("Out"))?;
    let relu_at = uses.readers(sum).first().copied().filter(|&relu_at| {
        plan.ops[relu_at].desc.kind == "relu" && is_private(plan, uses, sum, add_at, relu_at)
    });
    let last = relu_at.unwrap_or(add_at);
    let x = only(mul.input_names("X"))?;
    if ![x, w, bias].iter().all(|var| uses.unwritten(var, at, last)) {
        return None;
    }
    let out = only(plan.ops[last].desc.output_names("Out"))?;
    let desc = OpDesc::new("fused fc")
        .input("X", x)
        .input("W", w)
        .input("Bias", bias)
        .output("Out", out)
        .attr("x_num_col_dims", x_rows)
        .attr("relu", relu_at.is_some());
    let by = Planned { desc, op: &Fc, index: plan.ops[at].index, route: None };
    Some(Replacement { gone: vec![at, add_at, last], at: last, by })
}
