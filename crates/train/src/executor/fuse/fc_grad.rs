//! (`relu_grad` +) `elementwise_add_grad` of a bias + `mul_grad`: one pass, two products.

use program::op::{Kernel, Run, for_float};
use program::{OpDesc, Program, Result};
use tensor::gemm::{Matrix, gemm};
use tensor::{Float, wide};

use super::{is_bias, is_private, only};
use crate::executor::plan::{BlockPlan, Planned, Replacement, Uses};

/// With D = dOut (where Out > 0, if `relu`): dX = D Wᵀ, dW = Xᵀ D, dBias = column sums of D.
struct FcGrad;

impl Kernel for FcGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let x_rows = run.attrs().int("x_num_col_dims", 1)? as usize;
        let relu = run.attrs().bool("relu", false)?;
        let (mut d_x, mut d_w) = (run.take("X@GRAD"), run.take("W@GRAD"));
        let (mut d_bias, mut mid) = (run.take("Bias@GRAD"), run.take("Mid@GRAD"));
        let x = run.input("X")?;
        let w = run.input("W")?;
        let d_out = run.input("Out@GRAD")?;
        let ((m, k), (_, n)) = (x.shape().flatten_2d(x_rows), w.shape().flatten_2d(1));
        if d_out.len() != m * n {
            return Err(run.shapes("the gradient must be as long as X W", "X", "Out@GRAD"));
        }
        for_float!(x.dtype(), run.input_name("X"), T => {
            let d_out = run.data::<T>("Out@GRAD")?;
            let d_bias = d_bias.resize_zeroed::<T>([n].into());
            let mid = if relu {
                let mid = mid.resize::<T>(run.input("Out@GRAD")?.shape());
                let out = run.data::<T>("Out")?;
                wide(|| mask(out, d_out, mid, d_bias));
                &*mid
            } else {
                add_rows(d_out, d_bias);
                d_out
            };
            let mid = Matrix::new(mid, m, n);
            if run.wants("X@GRAD") {
                let w = Matrix::new(run.data::<T>("W")?, k, n);
                gemm(1.0, mid, w.t(), 0.0, d_x.resize::<T>(x.shape()));
            }
            if run.wants("W@GRAD") {
                let x = Matrix::new(x.data::<T>()?, m, k);
                gemm(1.0, x.t(), mid, 0.0, d_w.resize::<T>(w.shape()));
            }
            Ok(())
        })?;
        d_x.set_lod(x.lod().clone());
        run.put("X@GRAD", d_x);
        run.put("W@GRAD", d_w);
        run.put("Bias@GRAD", d_bias);
        run.put("Mid@GRAD", mid);
        Ok(())
    }
}

/// Passes the gradient where the output is positive, and adds up its rows on the way.
#[inline(always)]
fn mask<T: Float>(out: &[T], d_out: &[T], mid: &mut [T], sums: &mut [T]) {
    let width = sums.len().max(1);
    let rows = out.chunks_exact(width).zip(d_out.chunks_exact(width));
    for (mid, (out, d_out)) in mid.chunks_exact_mut(width).zip(rows) {
        for (((mid, sum), &out), &d) in mid.iter_mut().zip(&mut *sums).zip(out).zip(d_out) {
            *mid = if out > T::zero() { d } else { T::zero() };
            *sum += *mid;
        }
    }
}

fn add_rows<T: Float>(rows: &[T], sums: &mut [T]) {
    for row in rows.chunks_exact(sums.len().max(1)) {
        sums.iter_mut().zip(row).for_each(|(sum, &x)| *sum += x);
    }
}

/// The pattern that ends with the `mul_grad` at `at`.
pub(super) fn find(
    plan: &BlockPlan,
    program: &Program,
    uses: &Uses,
    at: usize,
) -> Option<Replacement> {
    let mul = &plan.ops[at].desc;
    if mul.kind != "mul_grad" || mul.attrs.int("y_num_col_dims", 1).ok()? != 1 {
        return None;
    }
    let (x, w) = (only(mul.input_names("X"))?, only(mul.input_names("Y"))?);
    let mid = only(mul.input_names("Out@GRAD"))?;
    let &[add_at] = uses.writers(mid) else { return None };
    let add = &plan.ops[add_at].desc;
    let bias = only(add.input_names("Y"))?;
    let fits = add.kind == "elementwise_add_grad"
        && only(add.output_names("X@GRAD")) == Some(mid)
        && is_bias(program, bias, w)
        && is_private(plan, uses, mid, add_at, at);
    if !fits {
        return None;
    }
    let d_bias = only(add.output_names("Y@GRAD"))?;
    let (first, relu) = match relu_before(plan, uses, add_at) {
        Some(relu_at) => (relu_at, Some(&plan.ops[relu_at].desc)),
        None => (add_at, None),
    };
    let d_out = only(relu.unwrap_or(add).input_names("Out@GRAD"))?;
    let mut desc = OpDesc::new("fused fc_grad").input("X", x).input("W", w);
    if let Some(relu) = relu {
        desc = desc.input("Out", relu.input_names("Out")).output("Mid@GRAD", mid);
    }
    let desc = desc
        .input("Out@GRAD", d_out)
        .output("X@GRAD", mul.output_names("X@GRAD"))
        .output("W@GRAD", mul.output_names("Y@GRAD"))
        .output("Bias@GRAD", d_bias)
        .attr("x_num_col_dims", mul.attrs.int("x_num_col_dims", 1).ok()?)
        .attr("relu", relu.is_some());
    // Everything moves down to the product: nobody may read the bias gradient or change what is
    // read here before that.
    let early = uses.readers(d_bias).iter().any(|&reader| reader < at);
    if early || !desc.reads().all(|var| uses.unwritten(var, first, at)) {
        return None;
    }
    let by = Planned { desc, op: &FcGrad, index: plan.ops[first].index, route: None };
    Some(Replacement { gone: vec![first, add_at, at], at, by })
}

/// The `relu_grad` whose result only this `elementwise_add_grad` reads.
fn relu_before(plan: &BlockPlan, uses: &Uses, add_at: usize) -> Option<usize> {
    let incoming = only(plan.ops[add_at].desc.input_names("Out@GRAD"))?;
    let &[relu_at] = uses.writers(incoming) else { return None };
    let is_relu = plan.ops[relu_at].desc.kind == "relu_grad";
    (is_relu && is_private(plan, uses, incoming, relu_at, add_at)).then_some(relu_at)
}
