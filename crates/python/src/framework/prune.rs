//! The part of a program that targets need (`Program._prune`).

use program::{OpDesc, Program};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::operator::PyOperator;
use super::variable::name_of;
use crate::error::from_program;

const NO_NAMES: &str = "All feeded_var_names of Program._prune_with_input() can only be str.";

/// The part of a program that targets need besides the feeds; ops that change parameters only if
/// they are targets.
pub(super) fn pruned(
    program: &Program,
    feeds: &Bound<'_, PyAny>,
    targets: &Bound<'_, PyAny>,
) -> PyResult<Program> {
    let feeds: Vec<String> = match feeds.extract::<String>() {
        Ok(one) => vec![one],
        Err(_) => feeds.extract::<Vec<String>>().map_err(|_| PyValueError::new_err(NO_NAMES))?,
    };
    let is_list = targets.is_instance_of::<PyList>() || targets.is_instance_of::<PyTuple>();
    let items: Vec<Bound<'_, PyAny>> =
        if is_list { targets.try_iter()?.collect::<PyResult<_>>()? } else { vec![targets.clone()] };
    let (mut names, mut ops) = (Vec::new(), Vec::new());
    for item in &items {
        match item.cast::<PyOperator>() {
            Ok(op) => ops.push(op.get().0.id),
            Err(_) => names.push(name_of(item).map_err(|_| {
                let text = "All targets of prune() can only be Variable or Operator, but received";
                PyValueError::new_err(format!("{text} {}.", item.get_type()))
            })?),
        }
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let feeds: Vec<&str> = feeds.iter().map(String::as_str).collect();
    let is_target = |op: &OpDesc| op.is_target || ops.iter().any(|&id| op.id.is(id));
    program.prune_to(&names, &feeds, is_target).map_err(from_program)
}
