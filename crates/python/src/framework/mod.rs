//! Programs, blocks, operators and variables as Python sees them.
//!
//! They are one module, as in Fluid: a program hands out its blocks, a block its variables and
//! operators, and each of these says which block and program it is of. Nothing below uses them.

pub(crate) mod attr;
pub(crate) mod context;
pub(crate) mod declare;
pub(crate) mod desc;
pub(crate) mod op_desc;
pub(crate) mod operator;
pub(crate) mod param;
pub(crate) mod program;
mod prune;
pub(crate) mod variable;
