//! Gradients of ops that run a block: step by step (`recurrent`), or on a condition.

use std::collections::HashSet;

use super::{Targets, Undo, append_grad_op, collect, declare};
use crate::attr::Attr;
use crate::block::OpDesc;
use crate::error::{Error, Result};
use crate::names::{self, EMPTY};
use crate::program::{BlockId, Program};
use crate::var::VarDesc;

/// Adds a block that computes the gradients of one step, and gives the op that runs it for each.
pub(super) fn grad(
    program: &mut Program,
    op: &OpDesc,
    no_grad: &HashSet<String>,
) -> Result<Vec<OpDesc>> {
    let mut outputs = op.output_names("outputs").to_vec();
    outputs.extend(op.attrs.strs("states")?.iter().cloned());
    let targets = Targets { outputs, ..Targets::default() };
    let (backward, _) = inside(program, op, targets, no_grad, &Undo::default())?;
    Ok(vec![op_for(op, backward, no_grad)])
}

/// Adds a block with the gradient ops of the block that `op` runs.
pub(super) fn inside(
    program: &mut Program,
    op: &OpDesc,
    targets: Targets,
    no_grad: &HashSet<String>,
    undo: &Undo,
) -> Result<(BlockId, HashSet<String>)> {
    let forward = op.attrs.block("sub_block")?;
    program.check_blocks()?;
    let backward = program.append_block(forward);
    program.block_mut(backward).forward_idx = forward as i32;
    for var in &targets.outputs {
        declare(program, backward, &names::grad(var), names::grad(var))?;
    }
    for (name, like) in &targets.given {
        let meta = program.need_var(forward, like)?.meta.clone();
        program.block_mut(backward).put_var(VarDesc::new(name, meta));
    }
    let mut stays = no_grad.clone();
    // The result of a step is not the variable of the same name outside.
    stays.retain(|var| !targets.outputs.contains(var));
    let (ops, written) = collect(program, forward, &targets, &mut stays, undo)?;
    for step_op in ops {
        append_grad_op(program, backward, step_op, &written, "")?;
    }
    Ok((backward, written))
}

/// The gradient of a block that runs on a condition: its own block, run on the same condition.
pub(super) fn grad_of_branch(
    program: &mut Program,
    op: &OpDesc,
    no_grad: &HashSet<String>,
) -> Result<Vec<OpDesc>> {
    let (inputs, outs) = (op.input_names("Input"), op.output_names("Out"));
    // Running statistics and counts pass no gradient: a branch may change them.
    let has_gradient = |out: &&String| !no_grad.contains(*out);
    if outs.iter().filter(has_gradient).any(|out| inputs.contains(out)) {
        // The value before the block changed it is lost.
        return Err(Error::NotDifferentiable { op: op.kind.clone() });
    }
    let outputs = outs.iter().filter(has_gradient).cloned().collect();
    let targets = Targets { outputs, ..Targets::default() };
    let (backward, _) = inside(program, op, targets, no_grad, &Undo::default())?;
    let mut grad = OpDesc::new("conditional_block_grad");
    for port in ["Cond", "Input"] {
        grad = grad.input(port, op.input_names(port));
    }
    for port in ["Out", "Scope"] {
        grad = grad.input(port, op.output_names(port));
    }
    grad = grad.input("Out@GRAD", outs.iter().map(|out| names::grad(out)).collect::<Vec<_>>());
    let name =
        |var: &String| if no_grad.contains(var) { EMPTY.to_string() } else { names::grad(var) };
    grad = grad.output("Input@GRAD", inputs.iter().map(name).collect::<Vec<_>>());
    grad.attrs = op.attrs.clone();
    grad.attrs.set("sub_block", Attr::Block(backward as i32));
    Ok(vec![grad])
}

/// A result of a branch that leads nowhere has no gradient; nor may it be looked at, since it holds
/// nothing if the branch was not taken.
pub(super) fn leave_out(op: &mut OpDesc, written: &HashSet<String>) {
    for (port, vars) in &mut op.inputs {
        if port == "Out@GRAD" {
            for var in vars.iter_mut().filter(|var| !written.contains(*var)) {
                *var = EMPTY.to_string();
            }
        }
    }
}

fn op_for(forward: &OpDesc, backward: BlockId, no_grad: &HashSet<String>) -> OpDesc {
    let mut op = OpDesc::new("recurrent_grad");
    for port in ["inputs", "initial_states", "parameters"] {
        op = op.input(port, forward.input_names(port));
    }
    for port in ["outputs", "step_scopes"] {
        op = op.input(port, forward.output_names(port));
    }
    let arriving = forward.output_names("outputs").iter().map(|var| names::grad(var));
    op = op.input("outputs@GRAD", arriving.collect::<Vec<_>>());
    for port in ["inputs", "initial_states", "parameters"] {
        let name =
            |var: &String| if no_grad.contains(var) { EMPTY.to_string() } else { names::grad(var) };
        let grads: Vec<String> = forward.input_names(port).iter().map(name).collect();
        op = op.output(&names::grad(port), grads);
    }
    op.attrs = forward.attrs.clone();
    op.attrs.set("sub_block", Attr::Block(backward as i32));
    op
}
