//! Which variables of the store a trainer's numbers stand for.
//!
//! A greeting lists names, once for each connection. Frames have places in that list, and from
//! [`VarNumbers::resolve`] on a server has places in the list of its store.

use std::collections::{BTreeMap, HashMap};

use wire::message::VarInfo;
use wire::{Refusal, TrainerId, VarId};

#[derive(Debug)]
pub(super) struct VarNumbers {
    /// Those of the store, by number.
    pub(super) ours: Vec<VarInfo>,
    by_name: HashMap<String, VarId>,
    theirs: BTreeMap<TrainerId, TrainerVars>,
}

/// The variables that a trainer named.
#[derive(Debug, Default)]
struct TrainerVars {
    /// The numbers of the store, by the trainer's; none if the store has no such variable.
    vars: Vec<Option<VarId>>,
    /// Names that the store does not have, by the trainer's numbers: they may never be used.
    unknown: BTreeMap<u32, String>,
}

impl VarNumbers {
    pub(super) fn new(ours: Vec<VarInfo>) -> Self {
        let ids = (0..).map(VarId);
        let by_name = ours.iter().zip(ids).map(|(held, id)| (held.name.clone(), id)).collect();
        Self { ours, by_name, theirs: BTreeMap::new() }
    }

    /// A trainer was admitted with these variables.
    pub(super) fn greet(&mut self, trainer: TrainerId, theirs: Vec<VarInfo>) {
        let mut named = TrainerVars::default();
        for (number, held) in (0..).zip(theirs) {
            let ours = self.by_name.get(&held.name).copied();
            named.vars.push(ours);
            if ours.is_none() {
                named.unknown.insert(number, held.name);
            }
        }
        self.theirs.insert(trainer, named);
    }

    /// Turns a trainer's number into the store's.
    pub(super) fn resolve(&self, trainer: TrainerId, var: &mut VarId) -> Result<(), Refusal> {
        let named = self.theirs.get(&trainer);
        let (vars, number) = (named.map_or(&[][..], |named| &named.vars), var.0);
        let n_vars = vars.len() as u32;
        let ours = vars.get(number as usize).ok_or(Refusal::UnknownNumber { number, n_vars })?;
        let unknown = || named.and_then(|named| named.unknown.get(&number)).cloned();
        *var = ours.ok_or_else(|| Refusal::UnknownVar(unknown().unwrap_or_default()))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(vars: &VarNumbers, trainer: u32, number: u32) -> Result<VarId, Refusal> {
        let mut var = VarId(number);
        vars.resolve(TrainerId(trainer), &mut var).map(|()| var)
    }

    #[test]
    fn each_trainer_has_numbers_of_its_own() {
        let mut vars = VarNumbers::new(vec![VarInfo::param("a", &[1]), VarInfo::other("b")]);
        vars.greet(
            TrainerId(0),
            vec![VarInfo::other("b"), VarInfo::other("x"), VarInfo::other("a")],
        );
        vars.greet(TrainerId(1), vec![VarInfo::other("a")]);
        assert_eq!(resolve(&vars, 0, 0), Ok(VarId(1)));
        assert_eq!(resolve(&vars, 0, 2), Ok(VarId(0)));
        assert_eq!(resolve(&vars, 0, 1), Err(Refusal::UnknownVar("x".to_string())));
        let unknown = |number, n_vars| Err(Refusal::UnknownNumber { number, n_vars });
        assert_eq!(resolve(&vars, 1, 1), unknown(1, 1));
        assert_eq!(resolve(&vars, 2, 0), unknown(0, 0), "a stranger");
        vars.greet(TrainerId(1), vec![VarInfo::other("x"), VarInfo::other("b")]);
        assert_eq!(resolve(&vars, 1, 1), Ok(VarId(1)), "it named again");
    }
}
