//! Exchanges with other trainers that run beside other ops: one op begins, another one waits.
//!
//! The wait stands before the first op that touches the variable. So gradients travel during the
//! backward pass, and an update waits for its own gradient only.

use std::collections::{HashMap, HashSet};

use program::op::{Kernel, Run};
use program::trainers::Collective;
use program::{OpDesc, Result};

use crate::executor::plan::{BlockPlan, Planned};

/// Begins to exchange X.
struct Begin;
/// Waits for what X came to.
struct Finish;

impl Kernel for Begin {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        match program::op::collective::asked(run.op())? {
            Some(asked) => run.begin_exchange(asked.collective),
            None => Ok(()),
        }
    }
}

impl Kernel for Finish {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run.finish_exchange()
    }
}

/// Streams do not exist here: ops that wait for one are dropped, where they change nothing.
pub(super) fn drop_syncs(plan: &mut BlockPlan) {
    let is_sync = |planned: &Planned| {
        let in_place = planned.desc.input_names("X") == planned.desc.output_names("Out");
        in_place && program::op::collective::waits_for_stream(&planned.desc)
    };
    plan.ops.retain(|planned| !is_sync(planned));
}

/// The name of the op that waits for an exchange.
const WAIT: &str = "wait for";

/// Variables that are exchanged in the background. Other trainers read their memory meanwhile.
pub(in crate::executor) fn exchanged(plan: &BlockPlan) -> impl Iterator<Item = &String> {
    let waits = plan.ops.iter().filter(|planned| planned.desc.kind == WAIT);
    waits.flat_map(|planned| planned.desc.input_names("X"))
}

/// Updates that come last and do not touch what others touch get the order in which exchanges of their
/// gradients begin: the first ones are there while the last is still on its way.
fn sort_updates(plan: &mut BlockPlan) {
    let begins = |planned: &Planned| program::op::collective::asked(&planned.desc).ok().flatten();
    let begun: HashMap<String, usize> = plan
        .ops
        .iter()
        .enumerate()
        .filter_map(|(at, planned)| Some((begins(planned)?.var, at)))
        .collect();
    let grad_of = |planned: &Planned| match planned.desc.input_names("Grad") {
        [grad] => begun.get(grad).copied(),
        _ => None,
    };
    let mut touched: HashSet<&str> = HashSet::new();
    let mut written: HashSet<&str> = HashSet::new();
    let mut first = plan.ops.len();
    while let Some(planned) = first.checked_sub(1).map(|at| &plan.ops[at]) {
        let desc = &planned.desc;
        let is_apart = desc.writes().all(|var| !touched.contains(var))
            && desc.reads().all(|var| !written.contains(var));
        if grad_of(planned).is_none() || !is_apart || !desc.sub_blocks().is_empty() {
            break;
        }
        touched.extend(desc.reads().chain(desc.writes()));
        written.extend(desc.writes());
        first -= 1;
    }
    plan.ops[first..].sort_by_key(grad_of);
}

/// Lets exchanges of temporaries go on in the background.
pub(super) fn overlap(plan: &mut BlockPlan) {
    sort_updates(plan);
    let uses = plan.uses();
    let mut waits: Vec<Vec<Planned>> = Vec::new();
    waits.resize_with(plan.ops.len() + 1, Vec::new);
    let mut begun = Vec::new();
    for (at, planned) in plan.ops.iter().enumerate() {
        let asked = program::op::collective::asked(&planned.desc);
        let Ok(Some(asked)) = asked else { continue };
        let var = &asked.var;
        let in_place = planned.desc.output_names("Out") == std::slice::from_ref(var);
        // A variable that outlives the run must exist even if the exchange fails.
        if !in_place
            || plan.pinned.contains(var)
            || !matches!(asked.collective, Collective::AllReduce(_))
        {
            continue;
        }
        let touching = uses.readers(var).iter().chain(uses.writers(var)).chain(uses.barriers());
        let next = touching.copied().filter(|&other| other > at).min().unwrap_or(plan.ops.len());
        let desc = OpDesc::new(WAIT).input("X", var.as_str()).output("Out", var.as_str());
        waits[next].push(Planned { desc, op: &Finish, index: planned.index, route: None });
        begun.push(at);
    }
    for &at in &begun {
        plan.ops[at].op = &Begin;
    }
    let ops = std::mem::take(&mut plan.ops);
    for (planned, waits) in ops.into_iter().map(Some).chain([None]).zip(waits) {
        plan.ops.extend(waits);
        plan.ops.extend(planned);
    }
}
