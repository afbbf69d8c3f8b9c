//! `sum` + `scale` of what trainers sent, and the `sgd` step behind them: one pass.

use program::op::{Kernel, Run, for_float};
use program::{OpDesc, Program, Result, VarKind};
use tensor::{Float, Number, Tensor, wide};

use super::{is_private, only};
use crate::executor::plan::{BlockPlan, Planned, Replacement, Uses};

/// Out = scale (X₀ + X₁ + …) + bias, added in the order listed.
struct Average;

/// Param -= lr (scale (X₀ + X₁ + …) + bias).
struct AverageSgd;

/// Elements that are added up before they are used: they stay in the nearest cache.
const STRIP: usize = 1024;

impl Kernel for Average {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut out = run.take("Out");
        let like = run.input("X")?;
        let (shape, lod) = (like.shape(), like.lod().clone());
        for_float!(like.dtype(), run.input_name("X"), T => {
            let rule = ScaleBias::<T>::of(run)?;
            let inputs = inputs::<T>(run, like)?;
            let out = out.resize::<T>(shape);
            wide(|| each_strip(&inputs, rule, |at, values| {
                out[at..at + values.len()].copy_from_slice(values);
            }));
            Ok(())
        })?;
        out.set_lod(lod);
        run.put("Out", out);
        Ok(())
    }
}

impl Kernel for AverageSgd {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run.update([("Param", "ParamOut")], |run, [param]| {
            for_float!(param.dtype(), run.input_name("Param"), T => {
                let (rule, lr) = (ScaleBias::<T>::of(run)?, T::of(run.scalar("LearningRate")?));
                let inputs = inputs::<T>(run, param)?;
                let param = param.data_mut::<T>()?;
                wide(|| each_strip(&inputs, rule, |at, values| {
                    let params = param[at..at + values.len()].iter_mut();
                    params.zip(values).for_each(|(p, &g)| *p -= lr * g);
                }));
                Ok(())
            })
        })
    }
}

/// The operation on a sum.
#[derive(Clone, Copy)]
struct ScaleBias<T> {
    scale: T,
    bias: T,
}

impl<T: Float> ScaleBias<T> {
    fn of(run: &Run<'_>) -> Result<Self> {
        let (scale, bias) = (run.attrs().float("scale", 1.0)?, run.attrs().float("bias", 0.0)?);
        Ok(Self { scale: T::of(f64::from(scale)), bias: T::of(f64::from(bias)) })
    }
}

/// The numbers at X, all of one shape.
fn inputs<'r, T: Float>(run: &'r Run<'_>, like: &Tensor) -> Result<Vec<&'r [T]>> {
    let each = (0..run.n_inputs("X")).map(|index| {
        let x = run.input_at("X", index)?;
        if x.shape() != like.shape() {
            return Err(program::Error::Shapes {
                rule: "the inputs of a sum must have one shape",
                left: run.input_name("X").to_string(),
                left_dims: like.shape().to_i64(),
                right: run.input_name_at("X", index).to_string(),
                right_dims: x.shape().to_i64(),
            });
        }
        Ok(x.data::<T>()?)
    });
    each.collect()
}

/// Hands out the result strip by strip, with the position of each.
#[inline(always)]
fn each_strip<T: Float>(inputs: &[&[T]], rule: ScaleBias<T>, mut take: impl FnMut(usize, &[T])) {
    let Some((first, rest)) = inputs.split_first() else { return };
    let mut strip = [T::zero(); STRIP];
    for at in (0..first.len()).step_by(STRIP) {
        let end = first.len().min(at + STRIP);
        let values = &mut strip[..end - at];
        values.copy_from_slice(&first[at..end]);
        for more in rest {
            values.iter_mut().zip(&more[at..end]).for_each(|(sum, &x)| *sum += x);
        }
        values.iter_mut().for_each(|x| *x = *x * rule.scale + rule.bias);
        take(at, values);
    }
}

/// The `sum` at `at` of dense gradients and the `scale` that alone reads it.
pub(super) fn find(
    plan: &BlockPlan,
    program: &Program,
    uses: &Uses,
    at: usize,
) -> Option<Replacement> {
    let sum = &plan.ops[at].desc;
    if sum.kind != "sum" {
        return None;
    }
    let total = only(sum.output_names("Out"))?;
    let &scale_at = uses.readers(total).first()?;
    let scale = &plan.ops[scale_at].desc;
    let is_scale = scale.kind == "scale"
        && scale_at > at
        && only(scale.input_names("X")) == Some(total)
        && scale.input_names("ScaleTensor").is_empty()
        && scale.attrs.bool("bias_after_scale", true).ok()?;
    let out = only(scale.output_names("Out")).filter(|_| is_scale)?;
    // Scaling in place or not: nobody but the scale sees the bare sum.
    let is_unseen = if out == total {
        uses.writers(total) == [at, scale_at] && uses.readers(total)[0] == scale_at
    } else {
        is_private(plan, uses, total, at, scale_at)
    };
    let is_dense = |var: &String| {
        let kind = program.find_var(0, var).map(|desc| desc.meta.kind);
        kind == Some(VarKind::LodTensor)
    };
    let steady = sum.input_names("X").iter().all(|var| uses.unwritten(var, at, scale_at));
    if !is_unseen || !steady || !sum.input_names("X").iter().all(is_dense) {
        return None;
    }
    let desc = OpDesc::new("fused average")
        .input("X", sum.input_names("X"))
        .output("Out", out)
        .attr("scale", scale.attrs.float("scale", 1.0).ok()?)
        .attr("bias", scale.attrs.float("bias", 0.0).ok()?);
    let by = Planned { desc, op: &Average, index: plan.ops[at].index, route: None };
    Some(Replacement { gone: vec![at, scale_at], at: scale_at, by })
}

/// The average at `at` that only one `sgd` step reads.
pub(super) fn find_sgd(
    plan: &BlockPlan,
    _: &Program,
    uses: &Uses,
    at: usize,
) -> Option<Replacement> {
    let average = &plan.ops[at].desc;
    if average.kind != "fused average" {
        return None;
    }
    let grad = only(average.output_names("Out"))?;
    let &[sgd_at] = uses.readers(grad) else { return None };
    let sgd = &plan.ops[sgd_at].desc;
    let fits = sgd.kind == "sgd"
        && only(sgd.input_names("Grad")) == Some(grad)
        && is_private(plan, uses, grad, at, sgd_at)
        && average.reads().all(|var| uses.unwritten(var, at, sgd_at));
    if !fits {
        return None;
    }
    let desc = OpDesc::new("fused average sgd")
        .input("X", average.input_names("X"))
        .input("Param", sgd.input_names("Param"))
        .input("LearningRate", sgd.input_names("LearningRate"))
        .output("ParamOut", sgd.output_names("ParamOut"))
        .attr("scale", average.attrs.float("scale", 1.0).ok()?)
        .attr("bias", average.attrs.float("bias", 0.0).ok()?);
    let by = Planned { desc, op: &AverageSgd, index: plan.ops[at].index, route: None };
    Some(Replacement { gone: vec![at, sgd_at], at: sgd_at, by })
}

#[cfg(test)]
mod tests {
    use program::{Meta, OpDesc, Program, VarDesc};
    use tensor::{DType, Tensor};

    use crate::executor::{Executor, Feed, Options};
    use crate::scope::Scope;

    /// Two gradients of more than one strip, averaged, and a step with the average.
    fn step(fuse: bool, fetched: bool) -> (Vec<f32>, usize) {
        const N: usize = super::STRIP + 7;
        let (mut program, scope) = (Program::default(), Scope::new());
        let numbers = |seed: usize| -> Vec<f32> {
            let number = |i: usize| ((i * 7919 + seed * 104_729) % 1009) as f32 / 331.0 - 1.5;
            (0..N).map(number).collect()
        };
        for (seed, name) in ["g.0", "g.1", "p"].into_iter().enumerate() {
            let meta = Meta::dense(DType::F32, &[N as i64]);
            program.block_mut(0).put_var(VarDesc::new(name, meta).persistable());
            scope.set(name, Tensor::new([N], &numbers(seed)).unwrap());
        }
        let meta = Meta::dense(DType::F32, &[1]);
        program.block_mut(0).put_var(VarDesc::new("lr", meta).persistable());
        scope.set("lr", Tensor::full([1], 0.3f32));
        let sum = OpDesc::new("sum").input("X", ["g.0", "g.1"].map(String::from).to_vec());
        let scale = OpDesc::new("scale").input("X", "g").output("Out", "g");
        let sgd = OpDesc::new("sgd").input("Param", "p").input("Grad", "g");
        for op in [
            sum.output("Out", "g"),
            scale.attr("scale", 1.0f32 / 3.0),
            sgd.input("LearningRate", "lr").output("ParamOut", "p"),
        ] {
            program.append_op(0, op).unwrap();
        }
        let mut exe = Executor::with_options(Options { fuse, ..Options::default() });
        let fetch: &[&str] = if fetched { &["g"] } else { &[] };
        let n_ops = exe.prepare(&program, &Feed::new(), fetch).unwrap().n_ops();
        exe.run(&program, &scope, &mut Feed::new(), fetch).unwrap();
        let param = scope.get("p").unwrap();
        (param.tensor().unwrap().data::<f32>().unwrap().to_vec(), n_ops)
    }

    #[test]
    fn one_pass_steps_as_three_do() {
        let (separate, n_separate) = step(false, false);
        let (fused, n_fused) = step(true, false);
        assert_eq!((n_separate, n_fused), (3, 1));
        assert!(separate.iter().zip(&fused).all(|(a, b)| a.to_bits() == b.to_bits()));
        let (seen, n_seen) = step(true, true);
        assert_eq!((seen == separate, n_seen), (true, 2), "somebody looks at the average");
    }
}
