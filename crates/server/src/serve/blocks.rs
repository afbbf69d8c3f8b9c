//! A server's program taken apart: one small program for each of its blocks.

use std::collections::{BTreeSet, HashMap};

use program::op::Untouched;
use program::{Block, OpDesc, Program, VarDesc, VarKind};
use wire::message::VarInfo;

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
            // Differences of GEO are not inputs of the op; only the table of blocks names them.
            let table = op.attrs.strs("grad_to_block_id")?;
            wire.extend(table.iter().filter_map(|entry| Some(entry.rsplit_once(':')?.0)));
        }
        let naming = Naming::new(program, &wire);
        let (mut lr, mut updates) = (None, Vec::new());
        for id in op.attrs.ints("optimize_blocks")? {
            let Some(block) = program.blocks().get(id.max(0) as usize) else { continue };
            let alone = naming.alone(block);
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

    /// The variables that trainers know: its parameter, or the one that differences are added to.
    pub(super) fn params(&self) -> Vec<VarInfo> {
        let held = |var: &VarDesc| VarInfo::param(&var.name, &var.meta.dims);
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

    /// Variables that outlive a step: what the block reads before it writes it, and what it updates.
    /// Gradients are not among them.
    pub(super) fn state(&self) -> BTreeSet<&str> {
        let ops = &self.program.block(0).ops;
        let mut state: BTreeSet<&str> = self.holds().into_iter().map(String::as_str).collect();
        let mut written = BTreeSet::new();
        for op in ops {
            state.extend(op.reads().filter(|name| !written.contains(name)));
            // A variable that an inner block writes may stay as it was.
            if op.sub_blocks().is_empty() {
                written.extend(op.writes());
            } else {
                state.extend(op.writes());
            }
        }
        let grads = self.grads.iter().map(|grad| &grad.name);
        for name in grads.chain(&self.trainer_ids) {
            state.remove(name.as_str());
        }
        state
    }

    /// Variables with rows, of which a step changes those alone that gradients list; none if it may
    /// change others too.
    pub(super) fn row_vars(&self) -> Vec<String> {
        let ops = &self.program.block(0).ops;
        if !self.takes_rows() {
            return Vec::new();
        }
        let Some(update) = ops.iter().find(|op| !op.input_names("Param").is_empty()) else {
            // Differences are added, to the rows that they list.
            return self.writes.clone();
        };
        let Some(param) = self.param() else { return Vec::new() };
        let is_like = |name: &str| {
            self.program.find_var(0, name).is_some_and(|var| var.meta.dims == param.meta.dims)
        };
        let is_grad = |name: &str| update.input_names("Grad").iter().any(|grad| grad == name);
        let mut vars: Vec<&str> = update.reads().filter(|name| !is_grad(name)).collect();
        vars.retain(|name| is_like(name));
        let looks = |op: &OpDesc| op.reads().any(|name| vars.contains(&name));
        let is_in_the_way = |op: &OpDesc| !op.traits().keeps_to_gradients || looks(op);
        let mut others = ops.iter().filter(|op| *op != update);
        if update.traits().update == Some(Untouched::Stay) && !others.any(is_in_the_way) {
            vars.into_iter().map(str::to_string).collect()
        } else {
            Vec::new()
        }
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

/// Which blocks of a program name a variable.
struct Naming<'a> {
    program: &'a Program,
    /// The only block that names it; nothing if there are several.
    by_var: HashMap<&'a str, Option<i32>>,
    wire: &'a BTreeSet<&'a str>,
}

impl<'a> Naming<'a> {
    fn new(program: &'a Program, wire: &'a BTreeSet<&'a str>) -> Self {
        let mut by_var: HashMap<&str, Option<i32>> = HashMap::new();
        for block in program.blocks() {
            for var in block.ops.iter().flat_map(|op| op.reads().chain(op.writes())) {
                let only = by_var.entry(var).or_insert(Some(block.idx));
                *only = only.filter(|&idx| idx == block.idx);
            }
        }
        Self { program, by_var, wire }
    }

    /// A block as a program of its own. Variables are the scope's: the others find there the results of one
    /// block (a learning rate, say). Variables that only one block names are its own.
    fn alone(&self, block: &Block) -> Program {
        let has_inner = block.ops.iter().any(|op| !op.sub_blocks().is_empty());
        // Inner blocks are named by their numbers, which must stay.
        let mut alone = if has_inner { self.program.clone() } else { Program::default() };
        alone.random_seed = self.program.random_seed;
        let passing = self.passing(block);
        let vars: Vec<&VarDesc> = if has_inner {
            self.seen_from(block)
        } else {
            let names = block.ops.iter().flat_map(|op| op.reads().chain(op.writes()));
            names.filter_map(|name| self.program.find_var(block.idx as usize, name)).collect()
        };
        let root = alone.block_mut(0);
        root.ops = block.ops.clone();
        for var in vars {
            let persistable = !passing.contains(var.name.as_str());
            root.put_var(VarDesc { persistable, ..var.clone() });
        }
        alone
    }

    /// All variables that a block may name.
    fn seen_from(&self, block: &'a Block) -> Vec<&'a VarDesc> {
        let (mut vars, mut parent) = (block.vars().iter().collect::<Vec<_>>(), block.parent);
        let blocks = self.program.blocks();
        while let Some(outer) = usize::try_from(parent).ok().and_then(|id| blocks.get(id)) {
            vars.extend(outer.vars());
            parent = outer.parent;
        }
        vars
    }

    /// Sums of gradients on the way from the wire to an update, which no other block names.
    fn passing(&self, block: &'a Block) -> BTreeSet<&'a str> {
        let sums = block.ops.iter().filter(|op| op.kind == "sum");
        let of_gradients = sums.filter(|op| op.reads().all(|var| self.wire.contains(var)));
        let written = of_gradients.flat_map(|op| op.writes());
        let is_own = |var: &&str| self.by_var.get(var).is_some_and(Option::is_some);
        written.filter(is_own).filter(|var| !self.wire.contains(var)).collect()
    }
}
