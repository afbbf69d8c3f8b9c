//! `while_grad`: runs a block of gradient ops for each turn of a loop, the last one first.
//!
//! StepScopes has what each turn left in the variables of its block. Variables around it that a turn changes
//! (`restored`) get back what they held before it; Last is what the loop left in them. Gradients of variables that
//! one turn leaves to the next (`carried`) go from turn to turn. Those of lists are not here: there is one for all
//! blocks.

use tensor::Value;

use super::recurrent_block::{add, joined};
use super::step_values::{self, block_of, kept, lists, zeros};
use super::{InnerPort, Kernel, Run};
use crate::block::OpDesc;
use crate::error::{Error, Result};
use crate::names::{self, AFTER, BEFORE, EMPTY};
use crate::program::Program;

pub(super) struct WhileGrad;

impl Kernel for WhileGrad {
    fn inner(&self, op: &OpDesc, program: &Program) -> Vec<InnerPort> {
        let Some(block) = block_of(op, program) else { return Vec::new() };
        let forward = program.block(block).parent.max(0) as usize;
        let strs = |attr| op.attrs.strs(attr).unwrap_or_default();
        let known = |name: String| {
            if program.block(block).var(&name).is_some() { name } else { EMPTY.to_string() }
        };
        let named = |port, vars: Vec<String>| InnerPort {
            port,
            block,
            vars: vars.into_iter().map(&known).collect(),
        };
        let (carried, restored) = (strs("carried"), strs("restored"));
        let outside = |port, vars: Vec<String>| InnerPort { port, block: forward, vars };
        let mut ports = kept(program, forward);
        ports.extend([
            outside("steps", op.input_names("StepScopes").to_vec()),
            outside("list_grads", lists(program, forward, true)),
            outside("restored", restored.to_vec()),
            outside("carried", carried.to_vec()),
            named("before", restored.iter().map(|var| format!("{var}{BEFORE}")).collect()),
            named("after", carried.iter().map(|var| names::grad(var) + AFTER).collect()),
            named("carried_grads", carried.iter().map(|var| names::grad(var)).collect()),
            named("input_grads", op.input_names("X").iter().map(|var| names::grad(var)).collect()),
        ]);
        ports
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let block = run.attrs().block("sub_block")?;
        let mut steps = Value::Empty;
        run.swap_value_at("steps", 0, &mut steps);
        let width = run.n_inputs("saved") + run.n_inputs("restored");
        let result = match &mut steps {
            Value::Steps(steps) if steps.iter().all(|step| step.len() == width) => {
                turns(run, block, steps)
            }
            _ => {
                let (port, var) = ("StepScopes".to_string(), run.input_name("StepScopes"));
                Err(Error::NotInitialized { port, var: var.to_string() })
            }
        };
        run.swap_value_at("steps", 0, &mut steps);
        result
    }
}

/// Gradients as they come together, from the last turn to the first.
struct LoopSums {
    carried: Vec<Value>,
    inputs: Vec<Vec<Value>>,
}

fn turns(run: &mut Run<'_>, block: usize, steps: &mut [Vec<Value>]) -> Result<()> {
    let n_restored = run.n_inputs("restored");
    let mut last = vec![Value::Empty; n_restored];
    for (k, value) in last.iter_mut().enumerate() {
        step_values::copy(run.value_at("restored", k)?, value);
    }
    let mut sums = arriving(run)?;
    for step in steps.iter_mut().rev() {
        turn(run, block, step, &mut sums)?;
    }
    // Gradients before the loop read what variables held before it.
    for (k, value) in last.into_iter().enumerate() {
        run.put_value_at("Last", k, value);
    }
    put(run, sums)
}

/// The gradients with which the last turn begins.
fn arriving(run: &Run<'_>) -> Result<LoopSums> {
    let names = run.attrs().strs("carried")?;
    let outs = run.op().input_names("Out");
    let mut carried = Vec::new();
    for (k, name) in names.iter().enumerate() {
        let at = outs.iter().position(|out| out == name);
        let grad = at.and_then(|at| run.value_at("Out@GRAD", at).ok());
        carried.push(match grad.filter(|grad| !grad.is_empty()) {
            Some(grad) => grad.clone(),
            None => Value::Tensor(zeros(run.input_at("carried", k)?)),
        });
    }
    Ok(LoopSums { carried, inputs: vec![Vec::new(); run.n_inputs("X")] })
}

fn turn(run: &mut Run<'_>, block: usize, step: &mut [Value], sums: &mut LoopSums) -> Result<()> {
    let n_saved = run.n_inputs("saved");
    for (k, value) in step.iter_mut().enumerate() {
        match k.checked_sub(n_saved) {
            None => run.swap_value_at("saved", k, value),
            Some(k) => run.swap_value_at("before", k, value),
        }
    }
    for (k, grad) in sums.carried.iter_mut().enumerate() {
        run.swap_value_at("after", k, grad);
    }
    step_values::clear(run, "input_grads");
    step_values::clear(run, "list_grads");
    let result = run.run_block(block);
    for (k, value) in step.iter_mut().enumerate() {
        match k.checked_sub(n_saved) {
            None => run.swap_value_at("saved", k, value),
            Some(k) => run.swap_value_at("before", k, value),
        }
    }
    result?;
    for (k, grad) in sums.carried.iter_mut().enumerate() {
        step_values::copy(run.value_at("carried_grads", k)?, grad);
    }
    for (k, parts) in sums.inputs.iter_mut().enumerate() {
        match run.value_at("input_grads", k) {
            Ok(Value::Tensor(part)) if part.is_initialized() => add(parts, part)?,
            Ok(Value::Rows(rows)) => parts.push(Value::Rows(rows.clone())),
            _ => {}
        }
    }
    Ok(())
}

/// Gives the variables outside what came together.
fn put(run: &mut Run<'_>, sums: LoopSums) -> Result<()> {
    let names = run.attrs().strs("carried")?;
    let LoopSums { mut carried, inputs } = sums;
    for (k, mut parts) in inputs.into_iter().enumerate() {
        // Ops add to the gradient of a list by themselves.
        if !run.wants_at("X@GRAD", k) || run.value_at("X", k)?.tensor().is_none() {
            continue;
        }
        let at = names.iter().position(|name| *name == run.input_name_at("X", k));
        let total = match (at, parts.len()) {
            (Some(at), _) => std::mem::take(&mut carried[at]),
            (None, 0) => Value::Tensor(zeros(run.input_at("X", k)?)),
            (None, 1) => parts.remove(0),
            (None, _) => joined(parts)?,
        };
        run.put_value_at("X@GRAD", k, total);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attr::Attr;
    use crate::op::{NoHost, Spare, Wiring, find};

    // What it computes is tested where programs run: test_control_flow.py, with the numbers of Fluid.
    #[test]
    fn without_the_steps_of_its_loop_it_is_refused() {
        let op = OpDesc::new("while_grad").input("StepScopes", "steps");
        let op = op.attr("sub_block", Attr::Block(1));
        let wiring = Wiring::new(&op, |_| 0);
        let mut vars = [Value::Empty];
        let (mut spare, mut host) = (Spare::default(), NoHost);
        let mut run = Run::new(&op, &wiring, &mut vars, &mut spare, &mut host);
        let error = find("while_grad").unwrap().run(&mut run).unwrap_err();
        assert!(matches!(error.root(), Error::NotInitialized { .. }), "{error}");
    }
}
