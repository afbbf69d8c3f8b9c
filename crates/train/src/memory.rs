//! Fluid's `memory_optimize`: which variables of a program may share memory.
//!
//! The executor shares the memory of variables that are never alive together in every program, and
//! renames none, so gradients keep their names for servers. This says which variables must not share,
//! tells what is shared, and keeps Fluid's rules of when to call it.

use base::DidYouMean;
use program::Program;
use transpile::server_op;

use crate::error::{Error, Result};
use crate::executor;

/// Checks that this is the time and place; the variables of `skip` keep memory of their own from now
/// on. Returns the variables of each place that several share.
pub fn optimize(program: &mut Program, skip: &[String]) -> Result<Vec<Vec<String>>> {
    check(program)?;
    let known = |name: &String| program.list_vars().any(|var| var.name == *name);
    if let Some(var) = skip.iter().find(|name| !known(name)) {
        let near = DidYouMean::among(var, program.list_vars().map(|var| var.name.as_str()));
        return Err(Error::SkipUnknown { var: var.clone(), near });
    }
    program.keep_apart(skip.iter().cloned());
    executor::sharing(program)
}

/// Whether memory may be optimised here and now.
pub fn check(program: &Program) -> Result<()> {
    if server_op(program).is_some() {
        return Err(Error::MemoryOrder {
            problem: "was called for the program of a parameter server",
        });
    }
    if program.distributed.is_some() {
        return Err(Error::MemoryOrder { problem: "was called after transpile" });
    }
    Ok(())
}
