//! Appends gradient ops to a program.
//!
//! Gradients are ops like any others, so that pruning, printing and transpiling see them. The order
//! laid down here is the order of Fluid 1.8: last op first, sums where a variable was used twice.

mod accumulate;
mod loops;
mod path;
mod steps;

use std::collections::{HashMap, HashSet};

use crate::block::OpDesc;
use crate::error::{Error, Result};
use crate::names::{self, EMPTY};
use crate::op::{self, Grad};
use crate::program::{BlockId, Program};
use crate::role;
use crate::var::{VarDesc, VarKind};

/// A parameter and the variable that holds its gradient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamGrad {
    /// Name of the parameter.
    pub param: String,
    /// Name of its gradient.
    pub grad: String,
}

/// The variables to leave out of a backward pass.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Only these parameters are wanted; all trainable ones if `None`.
    pub parameters: Option<Vec<String>>,
    /// Gradients do not pass these variables.
    pub no_grad: HashSet<String>,
}

/// Adds the ops that compute the gradient of `loss` for each parameter, and says which variable
/// holds which gradient, in order of the parameters' creation.
pub fn append_backward(
    program: &mut Program,
    loss: &str,
    limits: &Limits,
) -> Result<Vec<ParamGrad>> {
    let block = program.current_block();
    if program.find_var(block, loss).is_none()
        && program.blocks().iter().any(|b| b.var(loss).is_some())
    {
        return Err(Error::LossInBlock { var: loss.to_string() });
    }
    let meta = &program.need_var(block, loss)?.meta;
    if meta.dims != [1] {
        return Err(Error::LossShape { var: loss.to_string(), dims: meta.dims.clone() });
    }
    let writes_loss = |op: &OpDesc| op.writes().any(|var| var == loss);
    let home = program.owner_of(block, loss).unwrap_or(0);
    let producer = program.block(home).ops.iter().rposition(writes_loss);
    let producer = producer.ok_or_else(|| Error::LossNotComputed { var: loss.to_string() })?;
    let forward = &mut program.block_mut(home).ops[producer];
    let forward_role = forward.role();
    forward.attrs.set(role::ROLE, forward_role | role::LOSS);

    let dtype = program.need_var(block, loss)?.meta.dtype;
    let seed = OpDesc::new("fill_constant")
        .output("Out", names::grad(loss))
        .attr("shape", vec![1i64])
        .attr("value", 1.0f32)
        .attr("dtype", dtype.code())
        .attr("force_cpu", false)
        .attr(role::ROLE, role::BACKWARD | role::LOSS);
    let mut no_grad = stopped(program);
    no_grad.extend(limits.no_grad.iter().cloned());
    let (outputs, seeds) = (vec![loss.to_string()], vec![seed]);
    let targets = Targets { outputs, seeds, ..Targets::default() };
    let written = append(program, block, &targets, no_grad)?;
    collect_parameters(program, block, limits, &written)
}

/// Adds the ops that compute the gradient of the sum of `targets` for each of `inputs`; `None`
/// where an input does not reach a target.
pub fn gradients(
    program: &mut Program,
    targets: &[String],
    inputs: &[String],
    target_grads: &[Option<String>],
    no_grad: &HashSet<String>,
) -> Result<Vec<Option<String>>> {
    let mut stopped = stopped(program);
    stopped.extend(no_grad.iter().cloned());
    stopped.retain(|var| !inputs.contains(var));
    let mut seeds = Vec::new();
    for (k, target) in targets.iter().enumerate() {
        program.need_var(0, target)?;
        let grad = names::grad(target);
        let seed = match target_grads.get(k).and_then(Option::as_ref) {
            Some(given) => OpDesc::new("assign").input("X", given),
            None => OpDesc::new("fill_any_like").input("X", target).attr("value", 1.0f32),
        };
        seeds.push(seed.output("Out", grad).attr(role::ROLE, role::BACKWARD));
    }
    let (outputs, inputs) = (targets.to_vec(), inputs.to_vec());
    let targets = Targets { outputs, inputs: Some(inputs.clone()), seeds, ..Targets::default() };
    let written = append(program, 0, &targets, stopped)?;
    let grad = |var: &String| written.last(&names::grad(var));
    Ok(inputs.iter().map(grad).collect())
}

/// The gradient ops of one op, as its rule emits them.
pub fn grad_ops(
    program: &Program,
    block: BlockId,
    op: &OpDesc,
    no_grad: &dyn Fn(&str) -> bool,
) -> Result<Vec<OpDesc>> {
    let mut grad = Grad::new(program, block, op, no_grad);
    op::find(&op.kind)?.grad(&mut grad)?;
    Ok(grad.into_ops())
}

/// Where a pass begins and ends, and the ops that start it.
#[derive(Default)]
struct Targets {
    outputs: Vec<String>,
    inputs: Option<Vec<String>>,
    seeds: Vec<OpDesc>,
    /// Variables that the op around a block hands to it, each with a variable that it is like.
    given: Vec<(String, String)>,
}

/// Names of gradients as a pass wrote them.
struct GradNames {
    /// A second pass over one program puts this before its names.
    prefix: String,
    names: HashSet<String>,
}

impl GradNames {
    /// The final name of a gradient, if this pass computed it.
    fn last(&self, grad: &str) -> Option<String> {
        self.names.contains(grad).then(|| format!("{}{grad}", self.prefix))
    }
}

/// Variables that gradients do not pass by the user's own word.
fn stopped(program: &Program) -> HashSet<String> {
    let stopped = program.list_vars().filter(|var| var.stop_gradient);
    stopped.map(|var| var.name.clone()).collect()
}

fn append(
    program: &mut Program,
    block: BlockId,
    targets: &Targets,
    mut no_grad: HashSet<String>,
) -> Result<GradNames> {
    let own = with_ops_around(program, block, targets, &no_grad)?;
    let collected = collect(program, block, targets, &mut no_grad, &Undo::default());
    if let Some(own) = own {
        program.block_mut(block).ops = own;
    }
    let (mut ops, names) = collected?;
    let ends = loops::keep_last(program, block, &mut ops)?;
    ops.extend(ends);
    let prefix = "grad/".repeat(program.n_backwards as usize);
    program.n_backwards += 1;
    for op in ops {
        append_grad_op(program, block, op, &names, &prefix)?;
    }
    Ok(GradNames { prefix, names })
}

/// Puts the ops of the blocks around a branch before its own, so that gradients go through all of them. Returns its
/// own ops; `None` for the outermost block.
fn with_ops_around(
    program: &mut Program,
    block: BlockId,
    targets: &Targets,
    no_grad: &HashSet<String>,
) -> Result<Option<Vec<OpDesc>>> {
    let (mut around, mut at) = (Vec::new(), block);
    while let Ok(parent) = usize::try_from(program.block(at).parent) {
        around.splice(0..0, program.block(parent).ops.iter().cloned());
        at = parent;
    }
    if block == 0 {
        return Ok(None);
    }
    let own = std::mem::take(&mut program.block_mut(block).ops);
    let n_around = around.len();
    around.extend(own.iter().cloned());
    program.block_mut(block).ops = around;
    let path = path::find(program, block, targets, &mut no_grad.clone());
    let all = &mut program.block_mut(block).ops;
    let runs_blocks = |op: &OpDesc| !op.sub_blocks().is_empty();
    let is_deep = path.iter().any(|&at| at < n_around && runs_blocks(&all[at]));
    let mut nth = 0;
    all.retain(|op| {
        nth += 1;
        nth > n_around || !runs_blocks(op)
    });
    if is_deep {
        program.block_mut(block).ops = own;
        let var = targets.outputs.first().cloned().unwrap_or_default();
        return Err(Error::LossInBlock { var });
    }
    Ok(Some(own))
}

/// The gradient ops of a block, in order, and the gradients that they write.
fn collect(
    program: &mut Program,
    block: BlockId,
    targets: &Targets,
    no_grad: &mut HashSet<String>,
    undo: &Undo,
) -> Result<(Vec<OpDesc>, HashSet<String>)> {
    let path = path::find(program, block, targets, no_grad);
    let counters = loops::undo_counters(program, block, &path);
    let mut ops = targets.seeds.clone();
    let mut written: HashSet<String> = targets.outputs.iter().map(|var| names::grad(var)).collect();
    for index in (0..program.block(block).ops.len()).rev() {
        let forward = program.block(block).ops[index].clone();
        let undone = undo.get(&index).or_else(|| counters.get(&index));
        // The gradient of a loop begins with what the loop left; that of another op needs what the op read.
        let reads = |var: &str| forward.reads().any(|read| read == var);
        let is_first = |op: &OpDesc| forward.sub_blocks().is_empty() && op.writes().any(reads);
        let (first, after): (Vec<OpDesc>, Vec<OpDesc>) =
            undone.into_iter().flatten().cloned().partition(is_first);
        ops.extend(first);
        if path.binary_search(&index).is_err() {
            ops.extend(after);
            continue;
        }
        let emitted =
            differentiate(program, OpPlace { block, index }, &forward, no_grad, &written)?;
        for mut op in emitted {
            // Errors name the line of the layer, not the line where it was differentiated.
            op.site = forward.site.clone();
            if !forward.sub_blocks().is_empty() {
                steps::leave_out(&mut op, &written);
            }
            ops.extend(complete(op, &forward, &mut written));
        }
        ops.extend(after);
    }
    let is_list = |grad: &str| is_list_gradient(program, block, grad);
    Ok((accumulate::sum_repeated(ops, is_list), written))
}

/// Ops that give variables back what they held before the op at a position changed them.
type Undo = HashMap<usize, Vec<OpDesc>>;

/// Where an op stands.
#[derive(Clone, Copy)]
struct OpPlace {
    block: BlockId,
    index: usize,
}

/// Whether a gradient is that of a list of tensors: there is one for all blocks, and ops add to it.
fn is_list_gradient(program: &Program, block: BlockId, grad: &str) -> bool {
    let origin = grad.rsplit_once(names::GRAD).map_or(grad, |(var, _)| var);
    let var = program.find_var(block, origin);
    var.is_some_and(|var| var.meta.kind == VarKind::LodTensorArray)
}

fn differentiate(
    program: &mut Program,
    place: OpPlace,
    forward: &OpDesc,
    no_grad: &HashSet<String>,
    written: &HashSet<String>,
) -> Result<Vec<OpDesc>> {
    let OpPlace { block, index } = place;
    let unwanted = |var: &str| no_grad.contains(var);
    if forward.reads().all(unwanted) {
        return Ok(Vec::new());
    }
    let ops = match forward.kind.as_str() {
        "recurrent" => steps::grad(program, forward, no_grad),
        "conditional_block" => steps::grad_of_branch(program, forward, no_grad),
        "while" => loops::grad(program, forward, no_grad, written),
        _ => grad_ops(program, block, forward, &unwanted),
    };
    ops.map_err(|source| forward.failed(block, index, source))
}

/// Drops a gradient op that nothing reaches or that is not wanted; fills in zeros for those of its
/// incoming gradients that no op computes.
fn complete(op: OpDesc, forward: &OpDesc, written: &mut HashSet<String>) -> Vec<OpDesc> {
    let incoming: Vec<(String, String)> = forward
        .writes()
        .map(|var| (var.to_string(), names::grad(var)))
        .filter(|(_, grad)| op.reads().any(|read| read == grad))
        .collect();
    let wanted = op.writes().next().is_some();
    let reached = incoming.is_empty() || incoming.iter().any(|(_, grad)| written.contains(grad));
    if !wanted || !reached {
        return Vec::new();
    }
    let missing = incoming.into_iter().filter(|(_, grad)| !written.contains(grad));
    let mut ops: Vec<OpDesc> = missing
        .map(|(var, grad)| OpDesc::new("fill_zeros_like").input("X", var).output("Out", grad))
        .collect();
    ops.push(op);
    for op in &ops {
        written.extend(op.writes().map(str::to_string));
    }
    ops
}

fn append_grad_op(
    program: &mut Program,
    block: BlockId,
    mut op: OpDesc,
    written: &HashSet<String>,
    prefix: &str,
) -> Result<()> {
    for (_, vars) in &op.outputs {
        for var in vars.iter().filter(|var| *var != EMPTY) {
            let name = format!("{prefix}{var}");
            declare(program, block, var, name)?;
        }
    }
    if !prefix.is_empty() {
        add_prefix(&mut op, written, prefix);
    }
    let role = op.attrs.int(role::ROLE, 0)? as i32;
    // Only the seed of the pass has the role of the loss; ops with copied attributes of the loss op
    // do not.
    let is_seed = role == role::BACKWARD | role::LOSS;
    op.attrs.set(role::ROLE, if is_seed { role } else { role::BACKWARD });
    op.attrs.remove(role::ROLE_VAR);
    let written_here: Vec<String> = op.writes().map(str::to_string).collect();
    program.append_op(block, op)?;
    for grad in &written_here {
        clip_error(program, block, grad)?;
    }
    Ok(())
}

/// Renames what this pass wrote (and the parts of sums) so that an earlier pass stays as it was.
fn add_prefix(op: &mut OpDesc, written: &HashSet<String>, prefix: &str) {
    let ours = |var: &str| written.contains(var) || var.contains(accumulate::RENAME);
    for (_, vars) in op.inputs.iter_mut().chain(&mut op.outputs) {
        for var in vars.iter_mut().filter(|var| ours(var)) {
            *var = format!("{prefix}{var}");
        }
    }
}

/// Declares a gradient with the shape of its variable.
fn declare(program: &mut Program, block: BlockId, grad: &str, name: String) -> Result<()> {
    // One of the same name in a block around is another: that of the whole, not of one step.
    if program.block(block).var(&name).is_some() {
        return Ok(());
    }
    let Some((origin, _)) = grad.rsplit_once(names::GRAD) else {
        // An op that undoes a change writes the variable itself.
        return program.need_var(block, grad).map(|_| ());
    };
    let block = match program.owner_of(block, origin) {
        Some(owner) if is_list_gradient(program, block, grad) => owner,
        _ => block,
    };
    if program.block(block).var(&name).is_some() {
        return Ok(());
    }
    let meta = program.need_var(block, origin)?.meta.clone();
    program.block_mut(block).put_var(VarDesc::new(&name, meta));
    Ok(())
}

/// `error_clip` of a variable: bounds its gradient before the next op reads it.
fn clip_error(program: &mut Program, block: BlockId, grad: &str) -> Result<()> {
    let Some(origin) = grad.strip_suffix(names::GRAD) else { return Ok(()) };
    let clip = program.find_var(block, origin).and_then(|var| var.error_clip);
    let Some((min, max)) = clip else { return Ok(()) };
    let op = OpDesc::new("clip")
        .input("X", grad)
        .output("Out", grad)
        .attr("min", min)
        .attr("max", max)
        .attr(role::ROLE, role::BACKWARD);
    program.append_op(block, op)
}

fn collect_parameters(
    program: &mut Program,
    home: BlockId,
    limits: &Limits,
    written: &GradNames,
) -> Result<Vec<ParamGrad>> {
    let names: Vec<String> = match &limits.parameters {
        Some(wanted) => wanted.clone(),
        None => program.parameters().map(|param| param.name.clone()).collect(),
    };
    let mut pairs = Vec::new();
    for param in names {
        program.need_var(0, &param)?;
        let Some(grad) = written.last(&names::grad(&param)) else { continue };
        let trainable = |var: &VarDesc| var.param.as_ref().is_none_or(|info| info.trainable);
        if limits.no_grad.contains(&param) || !program.find_var(0, &param).is_some_and(trainable) {
            continue;
        }
        let block = program.block_mut(home);
        let producer = block.ops.iter_mut().rev().find(|op| op.writes().any(|var| var == grad));
        if let Some(op) = producer {
            // One op may make the gradients of several parameters: the newest pair stands first.
            let others = op.attrs.strs(role::ROLE_VAR).unwrap_or(&[]).iter().cloned();
            let pair = [param.clone(), grad.clone()];
            let all: Vec<String> = pair.into_iter().chain(others).collect();
            op.attrs.set(role::ROLE_VAR, all);
        }
        pairs.push(ParamGrad { param, grad });
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests;
