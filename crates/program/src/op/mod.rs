//! Operators: one file each, listed in [`OPS`].
//!
//! An op is a row of rules: its name, how shapes follow, how numbers follow, and which ops compute
//! its gradient. Names are resolved once, when a program is prepared.

mod broadcast;
#[cfg(test)]
pub(crate) mod check;
mod dispatch;
mod grad;
mod host;
mod infer;
mod run;
mod table;
mod wiring;

// One file per op (a few hold a family); `table.rs` lists what they define.
mod elementwise_add;
mod fill_constant;
mod load;
mod mean;
mod mul;
mod relu;
mod save;

pub(crate) use dispatch::{for_float, for_int, for_number};
pub use grad::{Grad, Keep};
pub use host::{Host, NoHost, host_error};
pub use infer::Infer;
pub(crate) use infer::infer;
pub use run::{Run, Spare};
pub use table::OPS;
pub use wiring::Wiring;

use crate::error::{Error, Result};

/// The rules of one operator.
pub trait Op: Sync {
    /// Its name in programs.
    fn name(&self) -> &'static str;

    /// Says shape and type of each output, when the op is added to a program.
    ///
    /// Gradient ops may leave it out: backward gives a gradient the shape of its variable.
    fn infer(&self, _infer: &mut Infer<'_>) -> Result<()> {
        Ok(())
    }

    /// Computes the outputs.
    fn run(&self, run: &mut Run<'_>) -> Result<()>;

    /// Adds the ops that compute the gradients of the inputs from those of the outputs.
    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        Err(Error::NotDifferentiable { op: grad.op().kind.clone() })
    }
}

/// Looks an op up; called when a program is built or prepared, not while it runs.
pub fn find(name: &str) -> Result<&'static dyn Op> {
    match OPS.binary_search_by(|op| op.name().cmp(name)) {
        Ok(at) => Ok(OPS[at]),
        Err(_) => Err(Error::UnknownOp(name.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_without_repeats() {
        for pair in OPS.windows(2) {
            assert!(pair[0].name() < pair[1].name(), "{} < {}", pair[0].name(), pair[1].name());
        }
    }

    #[test]
    fn an_unknown_op_is_named() {
        let error = find("no_such_op").err().expect("there is none");
        assert!(matches!(error, Error::UnknownOp(ref name) if name == "no_such_op"));
    }
}
