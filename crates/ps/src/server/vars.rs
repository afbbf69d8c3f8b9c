//! Which variables of the store a trainer's numbers stand for.
//!
//! A greeting lists names, once for each connection. Frames have places in that list, and from
//! [`VarNumbers::resolve`] on a server has places in the list of its store.

use std::collections::{BTreeMap, HashMap};

use crate::ids::{TrainerId, VarId};
use crate::message::{LookUp, Pull, Push, VarInfo};
use crate::refusal::Refusal;

#[derive(Debug)]
pub(super) struct VarNumbers {
    /// Those of the store, by number.
    pub(super) ours: Vec<VarInfo>,
    by_name: HashMap<String, VarId>,
    theirs: BTreeMap<TrainerId, TrainerVars>,
}

/// What a trainer named.
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
    fn resolve(&self, trainer: TrainerId, var: &mut VarId) -> Result<(), Refusal> {
        let named = self.theirs.get(&trainer);
        let (vars, number) = (named.map_or(&[][..], |named| &named.vars), var.0);
        let n_vars = vars.len() as u32;
        let ours = vars.get(number as usize).ok_or(Refusal::UnknownNumber { number, n_vars })?;
        let unknown = || named.and_then(|named| named.unknown.get(&number)).cloned();
        *var = ours.ok_or_else(|| Refusal::UnknownVar(unknown().unwrap_or_default()))?;
        Ok(())
    }

    pub(super) fn resolve_push(&self, trainer: TrainerId, push: &mut Push) -> Result<(), Refusal> {
        push.grads.iter_mut().try_for_each(|grad| self.resolve(trainer, &mut grad.var))
    }

    pub(super) fn resolve_pull(&self, trainer: TrainerId, pull: &mut Pull) -> Result<(), Refusal> {
        pull.vars.iter_mut().try_for_each(|var| self.resolve(trainer, var))
    }

    pub(super) fn resolve_look_up(
        &self,
        trainer: TrainerId,
        look_up: &mut LookUp,
    ) -> Result<(), Refusal> {
        self.resolve(trainer, &mut look_up.table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pull(vars: &[u32]) -> Pull {
        Pull::new(0, vars.iter().copied().map(VarId).collect())
    }

    #[test]
    fn each_trainer_has_numbers_of_its_own() {
        let mut vars = VarNumbers::new(vec![VarInfo::param("a", &[1]), VarInfo::other("b")]);
        vars.greet(
            TrainerId(0),
            vec![VarInfo::other("b"), VarInfo::other("x"), VarInfo::other("a")],
        );
        vars.greet(TrainerId(1), vec![VarInfo::other("a")]);
        let mut asked = pull(&[0, 2, 0]);
        assert_eq!(vars.resolve_pull(TrainerId(0), &mut asked), Ok(()));
        assert_eq!(asked.vars, [VarId(1), VarId(0), VarId(1)]);
        let unknown = vars.resolve_pull(TrainerId(0), &mut pull(&[1]));
        assert_eq!(unknown, Err(Refusal::UnknownVar("x".to_string())));
        let refused = vars.resolve_pull(TrainerId(1), &mut pull(&[1]));
        assert_eq!(refused, Err(Refusal::UnknownNumber { number: 1, n_vars: 1 }));
        let stranger = vars.resolve_pull(TrainerId(2), &mut pull(&[0]));
        assert_eq!(stranger, Err(Refusal::UnknownNumber { number: 0, n_vars: 0 }));
        vars.greet(TrainerId(1), vec![VarInfo::other("x"), VarInfo::other("b")]);
        let mut asked = pull(&[1]);
        assert_eq!(vars.resolve_pull(TrainerId(1), &mut asked), Ok(()), "it named again");
        assert_eq!(asked.vars, [VarId(1)]);
    }
}
