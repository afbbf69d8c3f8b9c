//! What the variables of a block held after each of its runs, so that gradients of a step find them again.

use tensor::{Tensor, Value};

use super::{InnerPort, Run};
use crate::block::OpDesc;
use crate::error::{Error, Result};
use crate::names;
use crate::program::{BlockId, Program};
use crate::var::VarKind;

/// The block an op runs; `None` if the program has no such block.
pub(super) fn block_of(op: &OpDesc, program: &Program) -> Option<BlockId> {
    let block = op.attrs.block("sub_block").ok()?;
    (block < program.blocks().len()).then_some(block)
}

/// The port `saved`: variables of a block that its gradients may read, with those of its branches. Loops inside of it
/// keep theirs by themselves.
pub(super) fn kept(program: &Program, block: BlockId) -> Vec<InnerPort> {
    let vars = program.block(block).vars().iter();
    let is_kept = |kind| {
        matches!(kind, VarKind::LodTensor | VarKind::LodTensorArray | VarKind::StepScopes)
            || kind == VarKind::LodRankTable
    };
    let kept = vars.filter(|var| is_kept(var.meta.kind) && !var.name.contains(names::GRAD));
    let vars = kept.map(|var| var.name.clone()).collect();
    let mut ports = vec![InnerPort { port: "saved", block, vars }];
    let branches = program.block(block).ops.iter().filter(|op| op.kind == "conditional_block");
    for branch in branches.filter_map(|op| block_of(op, program)).filter(|&inner| inner > block) {
        ports.extend(self::kept(program, branch));
    }
    ports
}

/// The lists among the variables of a block, those of gradients or the others: each run begins with empty ones.
pub(super) fn lists(program: &Program, block: BlockId, of_gradients: bool) -> Vec<String> {
    let vars = program.block(block).vars().iter();
    let lists = vars.filter(|var| {
        let is_gradient = var.name.contains(names::GRAD);
        var.meta.kind == VarKind::LodTensorArray && is_gradient == of_gradients
    });
    lists.map(|var| var.name.clone()).collect()
}

/// The op of this kind that reads the steps that `op` leaves at `port`.
pub(super) fn gradient_of<'a>(
    op: &OpDesc,
    port: &str,
    by: &str,
    program: &'a Program,
) -> Option<&'a OpDesc> {
    let steps = op.output_names(port);
    let mut ops = program.blocks().iter().flat_map(|block| &block.ops);
    ops.find(|other| other.kind == by && other.input_names(port) == steps)
}

/// The steps at an input port, each with `width` values.
pub(super) fn steps<'a>(run: &'a Run<'_>, port: &str, width: usize) -> Result<&'a [Vec<Value>]> {
    match run.value(port)? {
        Value::Steps(steps) if steps.iter().all(|step| step.len() == width) => Ok(steps),
        _ => {
            let (port, var) = (port.to_string(), run.input_name(port).to_string());
            Err(Error::NotInitialized { port, var })
        }
    }
}

/// Clears every variable at a port.
pub(super) fn clear(run: &mut Run<'_>, port: &str) {
    for k in 0..run.n_outputs(port) {
        run.put_value_at(port, k, Value::Empty);
    }
}

/// Zeros in the shape of a tensor.
pub(super) fn zeros(like: &Tensor) -> Tensor {
    let mut tensor = Tensor::default();
    let dtype = if like.is_initialized() { like.dtype() } else { tensor::DType::F32 };
    tensor.resize_as(dtype, like.shape());
    tensor.bytes_mut().fill(0);
    tensor
}

/// Copies a value into the memory of another.
pub(super) fn copy(from: &Value, to: &mut Value) {
    match (from.tensor(), &mut *to) {
        (Some(from), Value::Tensor(to)) => to.copy_from(from),
        _ => *to = from.clone(),
    }
}
