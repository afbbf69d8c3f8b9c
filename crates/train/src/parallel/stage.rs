//! Which ops of a program every device runs, and which run once for all of them.
//!
//! Devices compute predictions, losses and gradients; what the gradients add up to is clipped,
//! sent or applied once. Both kinds may alternate, so a program is a list of stages: first the ops
//! of the devices, then those that run once. Most programs have one stage.

use std::collections::BTreeSet;

use program::{Error as ProgramError, OpDesc, Program, role};

use super::loss::Loss;
use crate::error::Error;
use crate::executor::NATIVE;

/// Names of variables, in an order that does not change.
pub(crate) type Names = BTreeSet<String>;

/// One round: every device, then once for all.
#[derive(Debug)]
pub(crate) struct Stage {
    /// The program of each device.
    pub(crate) local: StageProgram,
    /// The program that runs once, on the scope itself.
    pub(crate) once: StageProgram,
    /// Gradients to add up over the devices in between.
    pub(crate) merge: Names,
    /// Variables that devices only read and that are the same for all.
    pub(crate) lend: Names,
    /// Persistable variables that devices write: each has its own.
    pub(crate) own: Names,
    /// Persistable variables that devices write one after the other: all have the same.
    pub(crate) pass_on: Names,
    /// Values of the devices that the ops that run once read: the first device's.
    pub(crate) hand: Names,
    /// Values that the ops that run once read and no op computes: they may be fed.
    pub(crate) fed: Names,
    /// Those `own` variables that change once for all devices here.
    pub(crate) refresh: Names,
    /// Devices must take turns, for others see in which order they run.
    pub(crate) in_turn: bool,
}

/// Some ops of a program.
#[derive(Debug)]
pub(crate) struct StageProgram {
    pub(crate) program: Program,
    /// Where in the user's program each op stands.
    pub(crate) origin: Vec<usize>,
}

/// A program in stages.
#[derive(Debug)]
pub(crate) struct Stages {
    pub(crate) stages: Vec<Stage>,
    /// Temporaries that exist once for all devices after the last stage.
    pub(crate) common: Names,
    /// Persistable variables of which each device has its own.
    pub(crate) own: Names,
    /// Variables that ops of the devices write.
    written: Names,
}

/// Roles of ops that run once for all devices.
const ONCE: i32 = role::OPTIMIZE | role::RPC | role::DIST | role::LR_SCHED;

impl Stages {
    /// Splits a program into stages; `keep` are the variables that are read afterwards.
    pub(crate) fn new(program: &Program, loss: Loss, keep: &Names) -> Self {
        let drafts = drafts(program, loss);
        let is_persistable =
            |name: &String| program.block(0).var(name).is_some_and(|var| var.persistable);
        let written: Names = drafts.iter().flat_map(|draft| &draft.local.writes).cloned().collect();
        let own: Names = written.iter().filter(|name| is_persistable(name)).cloned().collect();
        let used: Vec<Names> = drafts.iter().map(Draft::used).collect();
        let mut common = Names::new();
        let mut stages = Vec::with_capacity(drafts.len());
        for (at, draft) in drafts.into_iter().enumerate() {
            let Draft { local, mut once, merge, counts } = draft;
            if loss.n_trainers > 1 {
                once.add_up_first(&merge);
            }
            let only_read = |name: &&String| {
                common.contains(*name) || (is_persistable(name) && !own.contains(*name))
            };
            let lend: Names = local.reads.iter().filter(only_read).cloned().collect();
            common.retain(|name| !local.writes.contains(name));
            common.extend(merge.iter().cloned());
            let of_devices = |name: &&String| {
                written.contains(*name) && !common.contains(*name) && !is_persistable(name)
            };
            let hand: Names = once.reads.iter().filter(of_devices).cloned().collect();
            let not_computed = |name: &&String| {
                !written.contains(*name) && !common.contains(*name) && !is_persistable(name)
            };
            let fed: Names = once.reads.iter().filter(not_computed).cloned().collect();
            common.extend(once.writes.difference(&own).cloned());
            let mut visible: Names = keep | &(&(&lend | &hand) | &merge);
            // A variable that another stage needs outlives this one.
            let others = used.iter().enumerate().filter(|(other, _)| *other != at);
            visible.extend(others.flat_map(|(_, names)| names).cloned());
            let written_here: Names = own.intersection(&used[at]).cloned().collect();
            let (pass_on, own_here) =
                if counts { (written_here, Names::new()) } else { (Names::new(), written_here) };
            stages.push(Stage {
                own: own_here,
                pass_on,
                refresh: own.intersection(&once.writes).cloned().collect(),
                in_turn: local.ops.iter().any(|(_, op)| op.traits().has_side_effect),
                local: StageProgram::new(program, local, &visible),
                once: StageProgram::new(program, once, &visible),
                merge,
                lend,
                hand,
                fed,
            });
        }
        common.retain(|name| !own.contains(name));
        Self { stages, common, own, written }
    }

    /// Whether the variable is the same for all devices after the last stage.
    pub(crate) fn is_common(&self, name: &str) -> bool {
        self.common.contains(name) || !self.written.contains(name)
    }

    /// Whether an op writes the variable.
    pub(crate) fn writes(&self, name: &str) -> bool {
        self.common.contains(name) || self.written.contains(name)
    }
}

impl StageProgram {
    /// The program with only these ops; `visible` variables are found in the scope afterwards.
    fn new(program: &Program, share: Share, visible: &Names) -> Self {
        let mut program = program.clone();
        let block = program.block_mut(0);
        let (origin, ops) = share.ops.into_iter().unzip();
        block.ops = ops;
        for name in visible {
            if let Some(var) = block.var_mut(name) {
                var.persistable = true;
            }
        }
        Self { program, origin }
    }

    /// Says where in the user's program an error is.
    pub(crate) fn blame(&self, mut error: Error) -> Error {
        if let Error::Program(ProgramError::InOp { block: 0, index, .. }) = &mut error {
            *index = self.origin.get(*index).copied().unwrap_or(*index);
        }
        error
    }
}

/// One stage while it is filled.
#[derive(Default)]
struct Draft {
    local: Share,
    once: Share,
    merge: Names,
    /// Devices take turns with what they count into.
    counts: bool,
}

/// The ops of one side and what they touch.
#[derive(Default)]
struct Share {
    ops: Vec<(usize, OpDesc)>,
    reads: Names,
    writes: Names,
}

impl Draft {
    fn used(&self) -> Names {
        let of = |share: &Share| &share.reads | &share.writes;
        &of(&self.local) | &of(&self.once)
    }

    /// Whether an op of the devices must wait for what runs once.
    fn must_wait(&self, touched: &Touched) -> bool {
        let common = &self.once.writes | &self.merge;
        let seen = &common | &self.once.reads;
        !touched.reads.is_disjoint(&common) || !touched.writes.is_disjoint(&seen)
    }
}

impl Share {
    /// Adds up gradients of all trainers before anything else is done with them.
    fn add_up_first(&mut self, grads: &Names) {
        let index = self.ops.first().map_or(0, |(index, _)| *index);
        let sum = |grad: &String| {
            let op = OpDesc::new("c_allreduce_sum")
                .input("X", grad.as_str())
                .output("Out", grad.as_str());
            (index, op)
        };
        self.ops.splice(0..0, grads.iter().map(sum));
        self.reads.extend(grads.iter().cloned());
        self.writes.extend(grads.iter().cloned());
    }

    fn push(&mut self, index: usize, op: OpDesc, touched: Touched) {
        self.ops.push((index, op));
        self.reads.extend(touched.reads);
        self.writes.extend(touched.writes);
    }
}

fn drafts(program: &Program, loss: Loss) -> Vec<Draft> {
    let mut drafts = vec![Draft::default()];
    // Nothing but what reads its outcome waits for a metric, so it may come last.
    let mut counting = Draft { counts: true, ..Draft::default() };
    for (index, op) in program.block(0).ops.iter().enumerate() {
        let Some(op) = loss.start(op.clone()) else { continue };
        let touched = Touched::by(program, &op);
        let is_once =
            loss.trains() && (op.role() & ONCE != 0 || exchanges(&op)) && !looks_up(program, &op);
        let counts = loss.counts_together && op.kind == "auc";
        if !is_once && (counts || !touched.reads.is_disjoint(&counting.local.writes)) {
            counting.local.push(index, op, touched);
            continue;
        }
        let waits = !is_once && drafts.last().is_some_and(|draft| draft.must_wait(&touched));
        if waits {
            drafts.push(Draft::default());
        }
        let Some(draft) = drafts.last_mut() else { continue };
        if is_once {
            draft.once.push(index, op, touched);
            continue;
        }
        let is_gradient = loss.trains() && op.is_backward();
        if let (true, Ok(pairs)) = (is_gradient, op.attrs.strs(role::ROLE_VAR)) {
            draft.merge.extend(pairs.iter().skip(1).step_by(2).cloned());
        }
        draft.local.push(index, op, touched);
    }
    if !counting.local.ops.is_empty() {
        drafts.push(counting);
    }
    drafts
}

/// Whether an op exchanges values with other trainers, or would wait for that on a graphics card.
fn exchanges(op: &OpDesc) -> bool {
    let is_exchange = program::op::collective::asked(op).is_ok_and(|asked| asked.is_some());
    is_exchange || program::op::collective::waits_for_stream(op)
}

/// Whether an op fetches rows of a table that is spread by id, or is on the way to it or from it:
/// every device has ids of its own.
fn looks_up(program: &Program, op: &OpDesc) -> bool {
    if !op.traits().serves_look_up {
        return false;
    }
    // Gradients are dealt out by the same op, and sent.
    let fetches = |other: &&OpDesc| other.kind == "prefetch";
    let mut fetching = program.block(0).ops.iter().filter(fetches);
    op.kind != "split_ids"
        || fetching.any(|other| other.reads().any(|var| op.writes().any(|own| own == var)))
}

/// The variables of block 0 that an op reads and writes, itself or in its blocks.
#[derive(Default)]
struct Touched {
    reads: Names,
    writes: Names,
}

impl Touched {
    fn by(program: &Program, op: &OpDesc) -> Self {
        let mut touched = Self::default();
        if !NATIVE.contains(&op.kind.as_str()) {
            touched.add(program, op, 0);
        }
        touched
    }

    fn add(&mut self, program: &Program, op: &OpDesc, depth: usize) {
        let known = |name: &&str| program.block(0).var(name).is_some();
        self.reads.extend(op.reads().filter(known).map(str::to_string));
        self.writes.extend(op.writes().filter(known).map(str::to_string));
        // Blocks of a file may name one another in a circle.
        let blocks = if depth < program.blocks().len() { op.sub_blocks() } else { Vec::new() };
        for block in blocks.into_iter().filter_map(|block| program.blocks().get(block)) {
            block.ops.iter().for_each(|op| self.add(program, op, depth + 1));
        }
    }
}
