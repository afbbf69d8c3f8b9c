//! Errors name the user's own ops, even if several were fused into one.

use program::{Error as ProgramError, Program};

use crate::error::Error;

/// Says which op of the program an error is about. A fused op stands where the first of its parts
/// stood; the part to name is the first from there on that reads the variable in question.
pub(super) fn users_op(error: Error, program: &Program) -> Error {
    let Error::Program(ProgramError::InOp { block, index, kind, op, site, source }) = error else {
        return error;
    };
    let ops = program.blocks().get(block).map_or(&[] as &[_], |block| &block.ops);
    let is_fused = ops.get(index).is_some_and(|user| user.kind != kind);
    let reader = || {
        let var = source.var()?;
        (index..ops.len()).find(|&at| ops[at].reads().any(|read| read == var))
    };
    let index = if is_fused { reader().unwrap_or(index) } else { index };
    let (kind, op, site) = match ops.get(index) {
        Some(user) if is_fused => (user.kind.clone(), user.to_string(), user.built_at()),
        _ => (kind, op, site),
    };
    Error::Program(ProgramError::InOp { block, index, kind, op, site, source })
}
