//! Optimizer ops move up to where their gradient was just computed: it is still in the cache, and
//! its memory is free for the next one. The numbers are the same.

use super::plan::BlockPlan;

/// Moves each update behind the last op that writes what it reads, or that reads or writes what it
/// writes, or that runs another block and so may do either.
pub(super) fn hoist(plan: &mut BlockPlan) {
    let uses = plan.uses();
    let mut behind: Vec<Vec<usize>> = vec![Vec::new(); plan.ops.len()];
    let mut moved = vec![false; plan.ops.len()];
    for (at, planned) in plan.ops.iter().enumerate() {
        if planned.desc.traits().update.is_none() {
            continue;
        }
        let written = planned.desc.writes();
        let touched = written.flat_map(|var| uses.readers(var).iter().chain(uses.writers(var)));
        let needed = planned.desc.reads().flat_map(|var| uses.writers(var));
        let before = touched.chain(needed).chain(uses.barriers());
        if let Some(&last) = before.filter(|&&other| other < at).max() {
            behind[last].push(at);
            moved[at] = true;
        }
    }
    let mut ops: Vec<_> = std::mem::take(&mut plan.ops).into_iter().map(Some).collect();
    for at in 0..ops.len() {
        if !moved[at] {
            plan.ops.extend(ops[at].take());
        }
        for &update in &behind[at] {
            plan.ops.extend(ops[update].take());
        }
    }
}
