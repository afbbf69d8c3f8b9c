//! Programs of which a run needs a part only (`Executor.run(use_prune=True)`).

use std::sync::Arc;

use program::{OpDesc, Program, role};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

use crate::error::from_program;
use crate::feed::{feed_name, fetch_name, warn};
use crate::framework::operator::PyOperator;
use crate::framework::variable::PyVariable;

/// Parts that are kept; older ones are made again.
const KEPT_MAX: usize = 64;

/// The targets of a run.
#[derive(Default)]
pub(crate) struct Targets {
    /// The variables that it returns.
    pub(crate) names: Vec<String>,
    /// Ops that change parameters: these and no others do. None: all of them.
    ops: Vec<OpPlace>,
    /// Whether ops that none of the targets need are left out.
    prunes: bool,
}

/// The place of an op in its program.
#[derive(Clone, Copy, PartialEq, Eq)]
struct OpPlace {
    block: usize,
    index: usize,
}

impl Targets {
    /// Reads a `fetch_list`: variables, names and ops that change parameters; also lists of these, and
    /// the result of `minimize`. With ops, the program is pruned as in Fluid.
    pub(crate) fn read(list: Option<&Bound<'_, PyAny>>, use_prune: bool) -> PyResult<Self> {
        let mut targets = Self { prunes: use_prune, ..Self::default() };
        let Some(list) = list.filter(|list| !list.is_none()) else { return Ok(targets) };
        if list.is_instance_of::<PyVariable>() || list.is_instance_of::<PyString>() {
            targets.add(list)?;
            return Ok(targets);
        }
        // Lists, and what a dictionary of metrics has as `values()`.
        let Ok(items) = list.try_iter() else {
            targets.add(list)?;
            return Ok(targets);
        };
        for item in items {
            let item = item?;
            if item.is_instance_of::<PyList>() {
                item.try_iter()?.try_for_each(|inner| targets.add(&inner?))?;
            } else if item.is_instance_of::<PyTuple>() {
                // The ops, and pairs of parameters and gradients, which are not needed.
                item.get_item(0)?.try_iter()?.try_for_each(|inner| targets.add(&inner?))?;
            } else {
                targets.add(&item)?;
            }
        }
        targets.prunes |= !targets.ops.is_empty();
        Ok(targets)
    }

    fn add(&mut self, item: &Bound<'_, PyAny>) -> PyResult<()> {
        let Ok(op) = item.cast::<PyOperator>() else {
            self.names.push(fetch_name(item)?);
            return Ok(());
        };
        let op = &op.get().0;
        if op.read(OpDesc::role)? & role::OPTIMIZE == 0 {
            let text = "The operator in fetch_list is not an optimize_op";
            return Err(PyTypeError::new_err(text));
        }
        self.ops.push(OpPlace { block: op.block, index: op.idx()? });
        Ok(())
    }
}

/// The part of a program that targets need, with what it was made for.
struct ProgramPart {
    /// The program, and how often it had been changed.
    id: u64,
    version: u64,
    names: Vec<String>,
    ops: Vec<OpPlace>,
    feeds: Vec<String>,
    part: Arc<Program>,
}

/// Parts of programs, so that each is made once.
#[derive(Default)]
pub(crate) struct Pruned(Vec<ProgramPart>);

impl Pruned {
    /// The program itself, or the part of it that the targets need if what is fed is known.
    pub(crate) fn of(
        &mut self,
        program: Arc<Program>,
        targets: &Targets,
        feed: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Arc<Program>> {
        if !targets.prunes {
            return Ok(program);
        }
        let id = program.id();
        let version = program.version();
        let feeds = fed(feed)?;
        let known = self.0.iter().find(|part| {
            part.id == id
                && part.version == version
                && part.feeds == feeds
                && part.names == targets.names
                && part.ops == targets.ops
        });
        if let Some(known) = known {
            return Ok(known.part.clone());
        }
        let part = Arc::new(prune(&program, targets, &feeds)?);
        if self.0.len() == KEPT_MAX {
            self.0.remove(0);
        }
        let (names, ops) = (targets.names.clone(), targets.ops.clone());
        self.0.push(ProgramPart { id, version, names, ops, feeds, part: part.clone() });
        Ok(part)
    }
}

fn prune(program: &Program, targets: &Targets, feeds: &[String]) -> PyResult<Program> {
    // Ops that send to servers change parameters, too.
    const CHANGES: i32 = role::OPTIMIZE | role::RPC | role::DIST;
    let ops = targets.ops.iter();
    let asked: Vec<_> = ops
        .filter_map(|place| Some(program.blocks().get(place.block)?.ops.get(place.index)?.id))
        .collect();
    let is_target = |op: &OpDesc| {
        if asked.is_empty() {
            op.role() & CHANGES != 0
        } else {
            asked.iter().any(|&id| op.id.is(id))
        }
    };
    let names: Vec<&str> = targets.names.iter().map(String::as_str).collect();
    let feeds: Vec<&str> = feeds.iter().map(String::as_str).collect();
    program.prune_to(&names, &feeds, is_target).map_err(from_program)
}

/// The names that are fed, sorted: keys of a dict, or of all dicts of a list.
fn fed(feed: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<String>> {
    let mut names = Vec::new();
    let Some(feed) = feed.filter(|feed| !feed.is_none()) else { return Ok(names) };
    let mut add = |part: &Bound<'_, PyAny>| -> PyResult<()> {
        if let Ok(part) = part.cast::<PyDict>() {
            for name in part.keys() {
                names.push(feed_name(&name)?);
            }
        }
        Ok(())
    };
    if feed.is_instance_of::<PyDict>() {
        add(feed)?;
    } else {
        feed.try_iter()?.try_for_each(|part| add(&part?))?;
    }
    names.sort();
    names.dedup();
    Ok(names)
}

/// Says which inputs the targets need besides the feeds: predictions without them fail, and Fluid says
/// so only then.
pub(crate) fn warn_of_unfed(
    py: Python<'_>,
    program: &Program,
    feeds: &[&str],
    targets: &[&str],
) -> PyResult<()> {
    // The save refuses a program that cannot be pruned, with the reason.
    let Ok(pruned) = program.prune(targets, feeds) else { return Ok(()) };
    let unfed = pruned.inference_optimize(true).unfed(feeds);
    if unfed.is_empty() {
        return Ok(());
    }
    let text = format!(
        "save_inference_model: {} must be fed to compute {}, but feeded_var_names has only {feeds:?}: \
         predictions with the saved model will fail",
        unfed.join(", "),
        targets.join(", "),
    );
    warn(py, &text)
}
