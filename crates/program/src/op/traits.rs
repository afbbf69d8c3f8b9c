//! The facts about an op that other code needs to check, batch, move or cut it, or to place it on a server.
//!
//! Each op states them in its own file. No other code keeps lists of op names (a tidy test checks
//! it).

use tensor::DType;

use super::{BySample, find};
use crate::block::OpDesc;

/// The types that a layer takes at a port.
pub type PortTypes = (&'static str, &'static [DType]);

/// The facts about an op beyond its rules. Every op states how it treats the samples of a batch and which
/// types its layer takes ([`Traits::new`]); the rest is seldom true.
#[derive(Clone, Copy, Debug)]
pub struct Traits {
    /// How the rows of its results follow from those of its inputs.
    pub by_sample: BySample,
    /// Which element types the layer of Fluid 1.8.5 takes; it takes all types at other ports.
    pub types: &'static [PortTypes],
    /// It changes a parameter by its gradient; this is what it does to rows the gradient leaves out.
    pub update: Option<Untouched>,
    /// It reads rows of a table by id.
    pub looks_up: bool,
    /// It is the gradient of an op that does.
    pub is_lookup_grad: bool,
    /// It is a step of looking rows up on servers.
    pub serves_look_up: bool,
    /// It draws random numbers one after the other, so that a part can start in the middle.
    pub draws_stream: bool,
    /// The world outside of the program sees that it ran, and in which order.
    pub has_side_effect: bool,
    /// It behaves differently in training and in testing: it gets the attribute `is_test`.
    pub knows_is_test: bool,
    /// It needs all of its input at once: a part computed alone would come out differently.
    pub needs_whole: bool,
    /// It reads or writes files, here or on servers: nothing that a model does that is only used.
    pub uses_files: bool,
    /// It computes with gradients alone, whatever stands in the parameter.
    pub keeps_to_gradients: bool,
    /// The parameters that it writes stay as they are wherever it computes by sample.
    pub keeps_averages: bool,
}

/// The effect of an update on the rows of a table that its gradient does not list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untouched {
    /// Nothing.
    Stay,
    /// Nothing, as long as their state is zero.
    StayAtZero,
    /// Their weights follow from their state alone: zero state gives the same weights everywhere.
    Forget,
    /// The effect depends on all rows.
    Change,
}

impl Traits {
    /// An op that treats samples like this, whose layer takes these types.
    pub const fn new(by_sample: BySample, types: &'static [PortTypes]) -> Self {
        Self {
            by_sample,
            types,
            update: None,
            looks_up: false,
            is_lookup_grad: false,
            serves_look_up: false,
            draws_stream: false,
            has_side_effect: false,
            knows_is_test: false,
            needs_whole: false,
            uses_files: false,
            keeps_to_gradients: false,
            keeps_averages: false,
        }
    }

    /// An op that only computes: a gradient, or a kernel of the executor.
    pub const fn of_kernel() -> Self {
        Self::new(BySample::Never, &[])
    }

    /// An update with its effect on rows that are not listed.
    pub(crate) const fn update(untouched: Untouched) -> Self {
        Self { update: Some(untouched), ..Self::of_kernel() }
    }

    /// The types that the layer takes at a port, if it does not take all.
    pub fn types_at(&self, port: &str) -> Option<&'static [DType]> {
        let (_, types) = self.types.iter().find(|(name, _)| *name == port)?;
        (!types.is_empty()).then_some(*types)
    }
}

/// Answers for an op: how it treats samples, the types that its layer takes at a port (none: all types), and
/// the traits that are true.
///
/// `traits!(Rows("X"), "X": [F32, F64]; knows_is_test);`
macro_rules! traits {
    ($by_sample:expr $(, $port:literal: [$($dtype:ident),*])* $(; $($flag:ident),+)?) => {
        fn traits(&self, _attrs: &$crate::attr::Attrs) -> $crate::op::Traits {
            #[allow(unused_imports)]
            use $crate::op::BySample::*;
            #[allow(unused_imports)]
            use tensor::DType::*;
            $crate::op::Traits {
                $($($flag: true,)+)?
                ..$crate::op::Traits::new($by_sample, &[$(($port, &[$($dtype),*])),*])
            }
        }
    };
}
pub(crate) use traits;

impl OpDesc {
    /// The facts about this op; none of an op that does not exist.
    pub fn traits(&self) -> Traits {
        match find(&self.kind) {
            Ok(op) => op.traits(&self.attrs),
            Err(_) => Traits::of_kernel(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{OPS, proto};
    use super::*;
    use crate::attr::Attrs;

    #[test]
    fn an_unknown_op_has_no_traits() {
        let traits = OpDesc::new("no_such_op").traits();
        assert!(matches!(traits.by_sample, BySample::Never) && traits.types.is_empty());
    }

    #[test]
    fn lazy_adam_leaves_rows_alone() {
        let adam = |lazy: bool| OpDesc::new("adam").attr("lazy_mode", lazy).traits().update;
        assert_eq!(adam(false), Some(Untouched::StayAtZero));
        assert_eq!(adam(true), Some(Untouched::Stay));
    }

    #[test]
    fn every_port_with_types_or_rows_exists() {
        for (name, op) in OPS {
            let traits = op.traits(&Attrs::default());
            let Some(proto) = proto(name) else { continue };
            let has = |port: &str| proto.inputs.iter().any(|known| known.name == port);
            for (port, _) in traits.types {
                assert!(has(port), "{name} has no {port}");
                let n_answers = traits.types.iter().filter(|(other, _)| other == port).count();
                assert_eq!(n_answers, 1, "{name}: {port}");
            }
            let rows: &[&str] = match &traits.by_sample {
                BySample::Rows(port) | BySample::Inner(port, ..) => &[*port],
                BySample::All(ports) => ports,
                BySample::Never | BySample::Constant | BySample::When(_) => &[],
            };
            assert!(rows.iter().all(|port| has(port)), "{name}: {rows:?}");
        }
    }
}
