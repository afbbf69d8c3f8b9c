//! Small ops and variables that several programs need.

use program::{OpDesc, VarDesc};

pub(super) use program::distributed::ops::with_role;

/// A variable that only orders ops.
pub(super) fn control(number: usize) -> VarDesc {
    VarDesc { name: format!("__control_var@{number}"), ..VarDesc::default() }
}

/// Joins the blocks of a parameter again.
pub(super) fn concat(blocks: Vec<String>, whole: &str, number: i32) -> OpDesc {
    let op = OpDesc::new("concat").input("X", blocks).output("Out", whole).attr("axis", 0);
    with_role(op, number)
}
