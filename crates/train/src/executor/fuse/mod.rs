//! Ops that are computed together: same numbers, fewer passes over memory.
//!
//! Each file finds one pattern in the list of ops and replaces it by one op of its own. A fusion is
//! safe when nothing outside of the pattern sees the variables that vanish, and when moving the
//! pattern's ops to one place passes no op that touches their variables. Fused ops are not in the
//! table of ops: no program can name them. They compute bit for bit what the separate ops do.

mod average;
mod collective;
mod fc;
mod fc_grad;
mod gather;
mod remote;
mod scatter;

use std::collections::HashSet;

use program::Program;

use super::plan::{BlockPlan, Replacement, Uses};
pub(super) use collective::exchanged;

/// Looks for a pattern around the op at a position.
type Find = fn(&BlockPlan, &Program, &Uses, usize) -> Option<Replacement>;

/// Backward goes first: a forward intermediate can only vanish when no gradient op reads it.
const PASSES: [Find; 10] = [
    fc_grad::find,
    fc::find,
    scatter::find,
    scatter::find_concat_grad,
    gather::find,
    gather::find_concat,
    remote::find_send,
    remote::find_recv,
    average::find,
    average::find_sgd,
];

/// Rewrites the list with every fusion that applies.
pub(super) fn fuse(plan: &mut BlockPlan, program: &Program) {
    collective::drop_syncs(plan);
    remote::sink_sends(plan);
    remote::bare_barriers(plan);
    for find in PASSES {
        let uses = plan.uses();
        let mut taken: HashSet<usize> = HashSet::new();
        let mut replacements = Vec::new();
        for at in 0..plan.ops.len() {
            let Some(found) = find(plan, program, &uses, at) else { continue };
            if found.gone.iter().all(|gone| !taken.contains(gone)) {
                taken.extend(&found.gone);
                replacements.push(found);
            }
        }
        plan.replace(replacements);
    }
    remote::send_for_good(plan);
    collective::overlap(plan);
}

/// Whether `var` goes from one op to another and nobody else looks at it.
fn is_private(plan: &BlockPlan, uses: &Uses, var: &str, writer: usize, reader: usize) -> bool {
    !plan.pinned.contains(var) && uses.writers(var) == [writer] && uses.readers(var) == [reader]
}

/// The one variable at a port, if there is exactly one.
fn only(names: &[String]) -> Option<&str> {
    match names {
        [one] if one != program::names::EMPTY => Some(one),
        _ => None,
    }
}

/// Whether `bias` is a vector added along the last dimension of a matrix with `columns`.
fn is_bias(program: &Program, bias: &str, weight: &str) -> bool {
    let dims = |var: &str| program.find_var(0, var).map(|desc| desc.meta.dims.clone());
    matches!((dims(bias).as_deref(), dims(weight).as_deref()), (Some([n]), Some([_, m])) if n == m)
}
