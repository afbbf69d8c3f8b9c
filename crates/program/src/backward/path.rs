//! Which ops lie between the targets and what wants a gradient.

use std::collections::HashSet;

use super::Targets;
use crate::program::{BlockId, Program};
use crate::role;

/// The ops the targets depend on, in program order. Adds to `no_grad` what those ops write without
/// the targets needing it.
pub(super) fn find(
    program: &Program,
    block: BlockId,
    targets: &Targets,
    no_grad: &mut HashSet<String>,
) -> Vec<usize> {
    let ops = &program.block(block).ops;
    let reachable = targets.inputs.as_ref().map(|inputs| forward_of(program, block, inputs));
    let mut needed: HashSet<&str> = targets.outputs.iter().map(String::as_str).collect();
    let mut path = Vec::new();
    for (index, op) in ops.iter().enumerate().rev() {
        // A variable that an earlier `minimize` changes is a parameter all the same: the path ends
        // there.
        if op.role() & role::OPTIMIZE != 0 {
            continue;
        }
        let reached = reachable.as_ref().is_none_or(|set| op.reads().any(|var| set.contains(var)));
        if reached && op.writes().any(|var| needed.contains(var)) {
            needed.extend(op.reads().filter(|var| !no_grad.contains(*var)));
            path.push(index);
        }
    }
    path.reverse();
    for &index in &path {
        let op = &ops[index];
        let unneeded = op.writes().filter(|var| !needed.contains(var));
        no_grad
            .extend(unneeded.filter(|&var| op.reads().all(|read| read != var)).map(String::from));
    }
    path
}

/// Everything computed from `inputs`, and they themselves.
fn forward_of(program: &Program, block: BlockId, inputs: &[String]) -> HashSet<String> {
    let mut reached: HashSet<String> = inputs.iter().cloned().collect();
    for op in &program.block(block).ops {
        if op.reads().any(|var| reached.contains(var)) {
            reached.extend(op.writes().map(str::to_string));
        }
    }
    reached
}
