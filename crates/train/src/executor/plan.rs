//! A block's ops as a list that fusions may rewrite before places are given out.

use std::collections::{HashMap, HashSet};

use program::distributed::route::{Route, Servers};
use program::op::{self, Op};
use program::{OpDesc, Program};

use crate::error::Result;

/// One op that will run: the user's, or one that stands for several of them.
#[derive(Clone)]
pub(super) struct Planned {
    pub(super) desc: OpDesc,
    pub(super) op: &'static dyn Op,
    /// Where in the user's block it stands, for messages.
    pub(super) index: usize,
    /// Its message to servers.
    pub(super) route: Option<Route>,
}

/// The ops of one block, and the variables that something outside of the list looks at.
pub(super) struct BlockPlan {
    pub(super) ops: Vec<Planned>,
    /// Persistable, fed, fetched, or seen by another block: they must hold what the user expects.
    pub(super) pinned: HashSet<String>,
}

/// Handled by the executor itself: feeding and fetching go by name.
pub(crate) const NATIVE: [&str; 2] = ["feed", "fetch"];

impl BlockPlan {
    /// The ops of a block as the user wrote them.
    pub(super) fn new(
        block: i32,
        descs: &[OpDesc],
        pinned: HashSet<String>,
        servers: &Servers<'_>,
    ) -> Result<Self> {
        let mut ops = Vec::with_capacity(descs.len());
        for (index, desc) in descs.iter().enumerate() {
            if NATIVE.contains(&desc.kind.as_str()) {
                continue;
            }
            let blame = |source| desc.failed(block.max(0) as usize, index, source);
            let op = op::find(&desc.kind).map_err(blame)?;
            let route = Route::read(desc, servers).map_err(blame)?;
            ops.push(Planned { desc: desc.clone(), op, index, route });
        }
        Ok(Self { ops, pinned })
    }

    /// The readers and writers of each variable, by position in the list.
    pub(super) fn uses(&self) -> Uses {
        let mut uses = Uses::default();
        for (at, planned) in self.ops.iter().enumerate() {
            if !planned.desc.sub_blocks().is_empty() {
                uses.barriers.push(at);
            }
            for var in planned.desc.reads() {
                uses.readers.entry(var.to_string()).or_default().push(at);
            }
            for var in planned.desc.writes() {
                uses.writers.entry(var.to_string()).or_default().push(at);
            }
        }
        uses
    }

    /// Replaces several ops by one, for each replacement; no op may be in two of them.
    pub(super) fn replace(&mut self, replacements: Vec<Replacement>) {
        let mut gone = HashSet::new();
        let mut fused = HashMap::new();
        for replacement in replacements {
            gone.extend(replacement.gone);
            fused.insert(replacement.at, replacement.by);
        }
        let ops = std::mem::take(&mut self.ops);
        for (at, planned) in ops.into_iter().enumerate() {
            match fused.remove(&at) {
                Some(by) => self.ops.push(by),
                None if gone.contains(&at) => {}
                None => self.ops.push(planned),
            }
        }
    }
}

/// One op that replaces several.
pub(super) struct Replacement {
    /// Positions of the ops it stands for.
    pub(super) gone: Vec<usize>,
    /// The position it takes; one of those.
    pub(super) at: usize,
    pub(super) by: Planned,
}

/// Positions of readers and writers; a position stands twice if an op names the variable twice.
#[derive(Debug, Default)]
pub(super) struct Uses {
    readers: HashMap<String, Vec<usize>>,
    writers: HashMap<String, Vec<usize>>,
    /// Ops that run other blocks: what those touch is not written on the op itself.
    barriers: Vec<usize>,
}

impl Uses {
    pub(super) fn readers(&self, var: &str) -> &[usize] {
        self.readers.get(var).map_or(&[], Vec::as_slice)
    }

    pub(super) fn writers(&self, var: &str) -> &[usize] {
        self.writers.get(var).map_or(&[], Vec::as_slice)
    }

    /// Whether nothing can write the variable at a position in `from..to`.
    pub(super) fn unwritten(&self, var: &str, from: usize, to: usize) -> bool {
        let mut writers = self.writers(var).iter().chain(&self.barriers);
        writers.all(|&at| at < from || at >= to)
    }

    /// Positions of ops that run other blocks.
    pub(super) fn barriers(&self) -> &[usize] {
        &self.barriers
    }
}

/// Variables that more than one block names.
pub(super) fn shared_by_blocks(program: &Program) -> HashSet<String> {
    let mut first: HashMap<&str, i32> = HashMap::new();
    let mut shared = HashSet::new();
    for block in program.blocks() {
        for var in block.ops.iter().flat_map(|op| op.reads().chain(op.writes())) {
            if *first.entry(var).or_insert(block.idx) != block.idx {
                shared.insert(var.to_string());
            }
        }
    }
    shared
}
