//! `conditional_block_grad`: runs a block of gradient ops if the forward block ran; where it did not,
//! the gradients are zeros. `select_output`: the Out that Mask names = X; the others hold nothing.

use tensor::{Bool, Tensor, Value};

use super::{InnerPort, Kernel, Op, Run, step_values, traits};
use crate::block::OpDesc;
use crate::error::{Error, Result};
use crate::names::{self, EMPTY};
use crate::program::Program;

pub(super) struct ConditionalBlockGrad;
pub(super) struct SelectOutput;

impl Kernel for ConditionalBlockGrad {
    fn inner(&self, op: &OpDesc, program: &Program) -> Vec<InnerPort> {
        let block = op.attrs.block("sub_block").ok();
        let Some(block) = block.filter(|&block| block < program.blocks().len()) else {
            return Vec::new();
        };
        let gradients = |port, vars: &[String]| {
            let name = |var: &String| {
                let grad = names::grad(var);
                let known = program.block(block).var(&grad).is_some();
                if known { grad } else { EMPTY.to_string() }
            };
            InnerPort { port, block, vars: vars.iter().map(name).collect() }
        };
        let (outs, inputs) = (op.input_names("Out"), op.input_names("Input"));
        let forward = program.block(block).parent.max(0) as usize;
        vec![
            gradients("out_grads", outs),
            gradients("input_grads", inputs),
            InnerPort {
                port: "list_grads",
                block: forward,
                vars: step_values::lists(program, forward, true),
            },
        ]
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let block = run.attrs().block("sub_block")?;
        let n = run.n_inputs("Input");
        if !ran(run)? {
            for k in 0..n {
                let zeros = zeros(run.value_at("Input", k).ok());
                put(run, k, zeros);
            }
            return Ok(());
        }
        for k in 0..run.n_inputs("out_grads") {
            let grad = run.value_at("Out@GRAD", k).ok().filter(|grad| !grad.is_empty()).cloned();
            let grad = grad.unwrap_or_else(|| zeros(run.value_at("Out", k).ok()));
            run.put_value_at("out_grads", k, grad);
        }
        step_values::clear(run, "input_grads");
        step_values::clear(run, "list_grads");
        run.run_block(block)?;
        for k in 0..n {
            let grad = run.value_at("input_grads", k).ok().filter(|grad| !grad.is_empty()).cloned();
            let grad = grad.unwrap_or_else(|| zeros(run.value_at("Input", k).ok()));
            put(run, k, grad);
        }
        Ok(())
    }
}

/// Gives the variables outside a gradient. That of a list is one for all blocks: ops add to it by themselves.
fn put(run: &mut Run<'_>, index: usize, grad: Value) {
    if !matches!(run.value_at("Input", index), Ok(Value::Array(_))) {
        run.put_value_at("Input@GRAD", index, grad);
    }
}

/// Whether the forward block ran.
fn ran(run: &Run<'_>) -> Result<bool> {
    if run.attrs().bool("is_scalar_condition", false)? {
        return Ok(run.data::<Bool>("Cond")?.first().is_some_and(|truth| truth.get()));
    }
    Ok(run.inputs("Input")?.iter().all(|input| !input.is_empty()))
}

/// Zeros in the shape of a tensor; nothing for what is none.
fn zeros(like: Option<&Value>) -> Value {
    match like.and_then(Value::tensor) {
        Some(like) if like.is_initialized() => {
            let mut tensor = Tensor::default();
            tensor.resize_as(like.dtype(), like.shape());
            tensor.bytes_mut().fill(0);
            Value::Tensor(tensor)
        }
        _ => Value::Empty,
    }
}

impl Op for SelectOutput {
    traits!(Never);

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (mask, n) = (run.scalar("Mask")?, run.n_outputs("Out"));
        if !(mask >= 0.0 && mask < n as f64) {
            let (rule, var) = ("the mask must name an output", run.input_name("Mask").to_string());
            return Err(Error::BadValue { rule, var, position: 0, value: mask });
        }
        let x = run.value("X")?.clone();
        for k in 0..n {
            run.put_value_at("Out", k, Value::Empty);
        }
        run.put_value_at("Out", mask as usize, x);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::check::{check, ids, t};

    #[test]
    fn a_mask_that_names_no_output_is_refused() {
        let op = check("select_output").input("X", t(&[1], &[5.0]));
        let error = op.input("Mask", ids(&[1], &[2])).outputs("Out", 2).fails();
        assert!(matches!(error.root(), Error::BadValue { .. }), "{error}");
    }

    #[test]
    fn what_was_not_computed_has_zeros_for_a_gradient() {
        // `conditional_block_grad` gives these where the block did not run.
        let like = Value::Tensor(t(&[2], &[1.0, 2.0]));
        assert_eq!(zeros(Some(&like)).tensor(), Some(&t(&[2], &[0.0, 0.0])));
        assert!(zeros(None).is_empty());
    }
}
