//! A program that was minimised before: allowed, as in Fluid, and often a notebook cell run twice.

use std::collections::{HashMap, HashSet};
use std::fmt;

use crate::backward::ParamGrad;
use crate::block::OpDesc;
use crate::program::Program;
use crate::role;
use crate::site::Site;

/// A parameter that two ops of one program change.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdatedTwice {
    /// The parameter.
    pub param: String,
    /// The op that was there first.
    pub op: String,
    /// Where that one was built.
    pub site: Site,
}

impl fmt::Display for UpdatedTwice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { param, op, site } = self;
        write!(
            f,
            "this program was minimised already: parameter `{param}` is changed by op `{op}`{site}, and \
             now a second time in each run. If that is not meant (a notebook cell that ran twice), build \
             the network in a program of its own: \
             with fluid.program_guard(fluid.Program(), fluid.Program()): ..."
        )
    }
}

/// The first of these parameters that more than one op of the outermost block changes.
pub fn updated_twice(program: &Program, pairs: &[ParamGrad]) -> Option<UpdatedTwice> {
    let mut first: HashMap<&str, &OpDesc> = HashMap::new();
    let mut again = HashSet::new();
    let updates = program.block(0).ops.iter().filter(|op| op.role() & role::OPTIMIZE != 0);
    for (op, param) in
        updates.flat_map(|op| op.output_names("ParamOut").iter().map(move |p| (op, p)))
    {
        if first.insert(param, first.get(param.as_str()).copied().unwrap_or(op)).is_some() {
            again.insert(param.as_str());
        }
    }
    let param =
        pairs.iter().map(|pair| &pair.param).find(|param| again.contains(param.as_str()))?;
    let op = first.get(param.as_str())?;
    Some(UpdatedTwice { param: param.clone(), op: op.kind.clone(), site: op.built_at() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backward::Limits;
    use crate::layers;
    use crate::optimizer::Sgd;
    use crate::{Net, Optimizer, ParamAttr};

    /// Does the work of a notebook cell with a named parameter.
    fn cell(net: &mut Net) -> Vec<ParamGrad> {
        let b = &mut net.builder();
        let x = layers::data(b, "x", &[2], layers::Data::default()).unwrap();
        let param_attr = vec![ParamAttr::named("w")];
        let y = layers::fc(b, &[x], 1, layers::Fc { param_attr, ..Default::default() }).unwrap();
        let loss = layers::mean(b, &y, None).unwrap();
        let mut sgd = Optimizer::new(Sgd, 0.1);
        sgd.minimize(b, &loss, &Limits::default()).unwrap().1
    }

    #[test]
    fn a_cell_that_ran_twice_is_told() {
        let mut net = Net::default();
        let pairs = cell(&mut net);
        assert_eq!(updated_twice(&net.main, &pairs), None);
        let pairs = cell(&mut net);
        let again = updated_twice(&net.main, &pairs).unwrap();
        assert_eq!((again.param.as_str(), again.op.as_str()), ("w", "sgd"));
    }
}
