//! Which variables may share memory: those that are never alive at the same time.

use std::collections::HashMap;

use program::{Program, VarKind};

use super::plan::BlockPlan;

/// For each variable that may share, the number of the place it shares.
pub(super) struct Sharing {
    pub(super) place_of: HashMap<String, usize>,
    pub(super) n_places: usize,
}

/// A place between two uses.
struct Free {
    place: usize,
    kind: VarKind,
    size: i64,
}

/// Walks the list once: a variable takes a place when it is first written and gives it back after
/// its last use. Among free places the one nearest in size is taken.
pub(super) fn share(
    plan: &BlockPlan,
    program: &Program,
    may_share: impl Fn(&str) -> bool,
) -> Sharing {
    let mut last_use: HashMap<&str, usize> = HashMap::new();
    for (at, planned) in plan.ops.iter().enumerate() {
        for var in planned.desc.reads().chain(planned.desc.writes()) {
            last_use.insert(var, at);
        }
    }
    let mut sharing = Sharing { place_of: HashMap::new(), n_places: 0 };
    let mut free: Vec<Free> = Vec::new();
    for (at, planned) in plan.ops.iter().enumerate() {
        for var in planned.desc.writes().filter(|var| may_share(var)) {
            if sharing.place_of.contains_key(var) {
                continue;
            }
            let (kind, size) = kind_and_size(program, var);
            let place = take(&mut free, kind, size).unwrap_or_else(|| {
                sharing.n_places += 1;
                sharing.n_places - 1
            });
            sharing.place_of.insert(var.to_string(), place);
        }
        let mut ended: Vec<&str> = planned.desc.reads().chain(planned.desc.writes()).collect();
        ended.retain(|var| last_use.get(var) == Some(&at));
        ended.sort_unstable();
        ended.dedup();
        for var in ended {
            if let Some(&place) = sharing.place_of.get(var) {
                let (kind, size) = kind_and_size(program, var);
                free.push(Free { place, kind, size });
            }
        }
    }
    sharing
}

fn take(free: &mut Vec<Free>, kind: VarKind, size: i64) -> Option<usize> {
    let fits = free.iter().enumerate().filter(|(_, f)| f.kind == kind);
    let (at, _) = fits.min_by_key(|(_, f)| (f.size - size).abs())?;
    Some(free.swap_remove(at).place)
}

/// Elements of a variable, a batch dimension counted as one.
fn kind_and_size(program: &Program, var: &str) -> (VarKind, i64) {
    match program.find_var(0, var) {
        Some(desc) => {
            let sizes = desc.meta.dims.iter().map(|&dim| dim.max(1));
            let size = sizes.fold(1, i64::saturating_mul);
            (desc.meta.kind, size)
        }
        None => (VarKind::LodTensor, 1),
    }
}
