//! A server's program taken apart: one small program for each of its blocks.

use std::collections::BTreeSet;

use program::{Block, OpDesc, Program, VarDesc, VarKind};
use ps::message::Held;

use crate::error::Result;

/// One optimize block, ready to run by itself.
#[derive(Debug)]
pub(super) struct Update {
    pub(super) program: Program,
    /// Gradients it takes from the wire.
    pub(super) grads: Vec<VarDesc>,
    /// Variables it changes.
    pub(super) writes: Vec<String>,
    /// Inputs that say which trainer a gradient came from.
    pub(super) trainer_ids: Vec<String>,
}

/// Everything a server runs.
#[derive(Debug)]
pub(super) struct Blocks {
    /// Computes the learning rate.
    pub(super) lr: Option<Program>,
    pub(super) updates: Vec<Update>,
}

impl Blocks {
    pub(super) fn new(program: &Program, op: &OpDesc) -> Result<Self> {
        let lr_block = op.attrs.int("lr_decay_block_id", -1)?;
        let mut wire: BTreeSet<&str> = op.input_names("X").iter().map(String::as_str).collect();
        if wire.is_empty() {
            // Differences of GEO are no inputs of the op; only the table of blocks names them.
            let table = op.attrs.strs("grad_to_block_id")?;
            wire.extend(table.iter().filter_map(|entry| Some(entry.rsplit_once(':')?.0)));
        }
        let (mut lr, mut updates) = (None, Vec::new());
        for id in op.attrs.ints("optimize_blocks")? {
            let Some(block) = program.blocks().get(id.max(0) as usize) else { continue };
            let alone = alone(program, block, &wire);
            if id == lr_block {
                lr = Some(alone);
                continue;
            }
            updates.push(Update::new(alone, block, &wire));
        }
        Ok(Self { lr, updates })
    }
}

impl Update {
    /// Whether gradients come as keyed rows.
    pub(super) fn takes_rows(&self) -> bool {
        self.grads.iter().any(|grad| grad.meta.kind == VarKind::SelectedRows)
    }

    /// Every variable that its ops name.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let mut seen = BTreeSet::new();
        let ops = self.program.block(0).ops.iter();
        ops.flat_map(|op| op.reads().chain(op.writes())).filter(move |name| seen.insert(*name))
    }

    /// The parameter it changes.
    pub(super) fn param(&self) -> Option<&VarDesc> {
        let mut ops = self.program.block(0).ops.iter();
        let name = ops.find_map(|op| op.input_names("Param").first())?;
        self.program.find_var(0, name)
    }

    /// What trainers know of it: its parameter, or what differences are added to.
    pub(super) fn params(&self) -> Vec<Held> {
        let held = |var: &VarDesc| Held { name: var.name.clone(), dims: var.meta.dims.clone() };
        match self.param() {
            Some(param) => vec![held(param)],
            None => self
                .writes
                .iter()
                .filter_map(|name| self.program.find_var(0, name))
                .map(held)
                .collect(),
        }
    }

    /// The parameter and its state, without what is only computed on the way to them.
    pub(super) fn holds(&self) -> Vec<&String> {
        let ops = self.program.block(0).ops.iter();
        let updates = ops.filter(|op| !op.input_names("Param").is_empty());
        let held: Vec<&String> =
            updates.flat_map(|op| op.outputs.iter().flat_map(|(_, vars)| vars)).collect();
        // A difference is added to its parameter by an op that knows of no parameters.
        if held.is_empty() { self.writes.iter().collect() } else { held }
    }

    fn new(program: Program, block: &Block, wire: &BTreeSet<&str>) -> Self {
        let read = block.ops.iter().flat_map(|op| op.reads());
        let mut names: Vec<&str> = read.filter(|name| wire.contains(name)).collect();
        let mut seen = BTreeSet::new();
        names.retain(|name| seen.insert(*name));
        let grads = names.iter().filter_map(|name| program.find_var(0, name).cloned()).collect();
        let writes = block.ops.iter().flat_map(|op| op.writes()).map(str::to_string).collect();
        let ids = block.ops.iter().flat_map(|op| op.input_names("TrainerId"));
        let trainer_ids = ids.cloned().collect();
        Self { program, grads, writes, trainer_ids }
    }
}

/// A block as a program of its own. Variables are the scope's: what one block computes (a learning
/// rate, say) the others find there. What a block makes and nobody else names is its own affair.
fn alone(program: &Program, block: &Block, wire: &BTreeSet<&str>) -> Program {
    let mut alone = program.clone();
    let mut vars: Vec<VarDesc> = block.vars().to_vec();
    let mut parent = block.parent;
    while let Some(outer) = usize::try_from(parent).ok().and_then(|id| program.blocks().get(id)) {
        vars.extend(outer.vars().iter().cloned());
        parent = outer.parent;
    }
    let passing = passing(program, block, wire);
    let root = alone.block_mut(0);
    root.ops = block.ops.clone();
    for mut var in vars {
        var.persistable = !passing.contains(var.name.as_str());
        root.put_var(var);
    }
    alone
}

/// Sums of gradients on the way from the wire to an update, which no other block names.
fn passing<'a>(program: &'a Program, block: &'a Block, wire: &BTreeSet<&str>) -> BTreeSet<&'a str> {
    let sums = block.ops.iter().filter(|op| op.kind == "sum");
    let of_gradients = sums.filter(|op| op.reads().all(|var| wire.contains(var)));
    let mut passing: BTreeSet<&str> = of_gradients.flat_map(|op| op.writes()).collect();
    let others = program.blocks().iter().filter(|other| other.idx != block.idx);
    let named = others.flat_map(|other| &other.ops).flat_map(|op| op.reads().chain(op.writes()));
    for var in named.chain(wire.iter().copied()) {
        passing.remove(var);
    }
    passing
}
