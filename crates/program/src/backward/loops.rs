//! Gradients of loops (`while`): a block with the gradients of one turn, run for each, the last first.
//!
//! A turn reads what the turn before left in variables of the blocks around. So the gradient of such a variable
//! goes from turn to turn, and the variable itself must hold what it held in that turn.

use std::collections::HashSet;

use super::{Targets, Undo, path, steps};
use crate::attr::Attr;
use crate::block::OpDesc;
use crate::error::{Error, Result};
use crate::names::{self, AFTER, BEFORE, EMPTY, LAST};
use crate::program::{BlockId, Program};
use crate::var::{VarDesc, VarKind};

/// Adds a block that computes the gradients of one turn, and gives the op that runs it for each.
pub(super) fn grad(
    program: &mut Program,
    op: &OpDesc,
    no_grad: &HashSet<String>,
    written: &HashSet<String>,
) -> Result<Vec<OpDesc>> {
    let block = op.attrs.block("sub_block")?;
    program.check_blocks()?;
    let outs = op.output_names("Out");
    let arrives = |var: &&String| written.contains(&names::grad(var));
    let arriving: Vec<String> = outs.iter().filter(arrives).cloned().collect();
    if arriving.is_empty() {
        return Ok(Vec::new());
    }
    let outputs = closure(program, block, outs, arriving, no_grad);
    let is_tensor = |var: &&String| kind(program, block, var) == Some(VarKind::LodTensor);
    let carried: Vec<String> = outputs.iter().filter(is_tensor).cloned().collect();
    let seed = |var: &String| {
        let grad = names::grad(var);
        OpDesc::new("assign").input("X", format!("{grad}{AFTER}")).output("Out", grad)
    };
    let seeds = carried.iter().map(seed).collect();
    let mut targets = Targets { outputs, inputs: None, seeds, given: Vec::new() };
    let restored = restored(program, op, block, &targets, no_grad)?;
    let after = carried.iter().map(|var| (format!("{}{AFTER}", names::grad(var)), var.clone()));
    let before = restored.iter().map(|(var, _)| (format!("{var}{BEFORE}"), var.clone()));
    targets.given = after.chain(before).collect();
    let mut undo = Undo::new();
    for (var, writer) in &restored {
        let op = OpDesc::new("assign").input("X", format!("{var}{BEFORE}")).output("Out", var);
        undo.entry(*writer).or_default().push(op);
    }
    let restored: Vec<String> = restored.into_iter().map(|(var, _)| var).collect();
    let (backward, inner) = steps::inside(program, op, targets, no_grad, &undo)?;
    let op = op_for(program, op, backward, &inner, no_grad);
    Ok(vec![op.attr("carried", carried).attr("restored", restored)])
}

fn kind(program: &Program, block: BlockId, var: &str) -> Option<VarKind> {
    program.find_var(block, var).map(|var| var.meta.kind)
}

/// Whether gradients can go from turn to turn through a variable.
fn carries(program: &Program, block: BlockId, var: &str) -> bool {
    program.find_var(block, var).is_some_and(|var| match var.meta.kind {
        VarKind::LodTensorArray => true,
        VarKind::LodTensor => var.meta.dtype.is_float(),
        _ => false,
    })
}

/// The results with a gradient: those that have one outside, and those from which later turns compute these.
fn closure(
    program: &Program,
    block: BlockId,
    outs: &[String],
    mut found: Vec<String>,
    no_grad: &HashSet<String>,
) -> Vec<String> {
    loop {
        let mut stays = no_grad.clone();
        stays.retain(|var| !found.contains(var));
        let targets = Targets { outputs: found.clone(), ..Targets::default() };
        let path = path::find(program, block, &targets, &mut stays);
        let ops = &program.block(block).ops;
        let mut reads = path.iter().flat_map(|&at| ops[at].reads());
        let more = reads.find(|&var| {
            let is_new = !no_grad.contains(var) && found.iter().all(|known| known != var);
            is_new && outs.iter().any(|out| out == var) && carries(program, block, var)
        });
        match more {
            Some(var) => found.push(var.to_string()),
            None => return found,
        }
    }
}

/// The variables of the blocks around that gradients of a turn may read and that one op of the turn changes, with
/// its position.
fn restored(
    program: &Program,
    op: &OpDesc,
    block: BlockId,
    targets: &Targets,
    no_grad: &HashSet<String>,
) -> Result<Vec<(String, usize)>> {
    let mut stays = no_grad.clone();
    stays.retain(|var| !targets.outputs.contains(var));
    let path = path::find(program, block, targets, &mut stays);
    let ops = &program.block(block).ops;
    let mut found = Vec::new();
    for var in op.output_names("Out") {
        let is_read = path.iter().any(|&at| ops[at].reads().any(|read| read == var));
        if kind(program, block, var) != Some(VarKind::LodTensor) || !is_read {
            continue;
        }
        // `while_loop` assigns a variable that a turn changes in place to itself.
        let is_change =
            |op: &OpDesc| op.kind != "assign" || op.input_names("X") != op.output_names("Out");
        let writes = |at: &usize| is_change(&ops[*at]) && ops[*at].writes().any(|to| to == var);
        let writers: Vec<usize> = (0..ops.len()).filter(writes).collect();
        match writers[..] {
            [] => {}
            [one] => found.push((var.clone(), one)),
            _ if writers.iter().all(|&at| ops[at].kind == "increment") => {}
            // What it held between two of them is gone.
            _ => return Err(Error::NotDifferentiable { op: op.kind.clone() }),
        }
    }
    Ok(found)
}

/// Counts down what `increment` counted up, where gradients before it read the counter: places in lists.
pub(super) fn undo_counters(program: &Program, block: BlockId, path: &[usize]) -> Undo {
    let ops = &program.block(block).ops;
    let mut undo = Undo::new();
    for (at, op) in ops.iter().enumerate().filter(|(_, op)| op.kind == "increment") {
        let [counter] = op.output_names("Out") else { continue };
        let Some(var) = program.find_var(block, counter) else { continue };
        let in_place = op.input_names("X") == op.output_names("Out");
        let is_read = || {
            let mut before = path.iter().take_while(|&&index| index < at);
            before.any(|&index| ops[index].input_names("I").contains(counter))
        };
        if in_place && !var.persistable && is_read() {
            let step = op.attrs.float("step", 1.0).unwrap_or(1.0);
            let down = OpDesc::new("increment").input("X", counter).output("Out", counter);
            undo.insert(at, vec![down.attr("step", -step)]);
        }
    }
    undo
}

/// Gradients before a loop need what variables held before it. Afterwards they get back what the loop left: the ops
/// that do so.
pub(super) fn keep_last(
    program: &mut Program,
    block: BlockId,
    ops: &mut [OpDesc],
) -> Result<Vec<OpDesc>> {
    let mut ends = Vec::new();
    let mut seen: HashSet<String> = HashSet::new();
    for op in ops.iter_mut().filter(|op| op.kind == "while_grad") {
        let mut names = Vec::new();
        for var in op.attrs.strs("restored")? {
            // The last loop comes first here, and what it left counts.
            if !seen.insert(var.clone()) {
                names.push(EMPTY.to_string());
                continue;
            }
            let name = format!("{var}{LAST}");
            let meta = program.need_var(block, var)?.meta.clone();
            program.block_mut(block).put_var(VarDesc::new(&name, meta));
            ends.push(OpDesc::new("assign").input("X", &name).output("Out", var));
            names.push(name);
        }
        op.outputs.push(("Last".to_string(), names));
    }
    Ok(ends)
}

fn op_for(
    program: &Program,
    forward: &OpDesc,
    backward: BlockId,
    inner: &HashSet<String>,
    no_grad: &HashSet<String>,
) -> OpDesc {
    let mut op = OpDesc::new("while_grad").input("X", forward.input_names("X"));
    for port in ["Out", "StepScopes"] {
        op = op.input(port, forward.output_names(port));
    }
    let arriving = forward.output_names("Out").iter().map(|var| names::grad(var));
    op = op.input("Out@GRAD", arriving.collect::<Vec<_>>());
    let name = |var: &String| {
        let grad = names::grad(var);
        let is_wanted = !no_grad.contains(var) && inner.contains(&grad);
        if is_wanted && carries_any(program, backward, var) { grad } else { EMPTY.to_string() }
    };
    let grads: Vec<String> = forward.input_names("X").iter().map(name).collect();
    op = op.output("X@GRAD", grads);
    op.attrs = forward.attrs.clone();
    op.attrs.set("sub_block", Attr::Block(backward as i32));
    op
}

/// Whether a variable can have a gradient at all.
fn carries_any(program: &Program, block: BlockId, var: &str) -> bool {
    carries(program, block, var) || kind(program, block, var) == Some(VarKind::SelectedRows)
}
