//! What the rest of the program must know of an op to move it, cut it, or place it on a server.
//!
//! Each op says it in its own file. Nobody else keeps lists of op names (a tidy test checks it).

use super::find;
use crate::block::OpDesc;

/// What is known of an op beyond its rules. The default is an op of which nothing special is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits {
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
    /// Somebody outside of the program sees that it ran, and in which order.
    pub has_side_effect: bool,
    /// It behaves differently in training and in testing: it gets the attribute `is_test`.
    pub knows_is_test: bool,
    /// It needs all of its input at once: a part computed alone would come out differently.
    pub needs_whole: bool,
    /// It reads or writes files, here or on servers: nothing that a model does that is only used.
    pub uses_files: bool,
    /// It computes with gradients alone, whatever stands in the parameter.
    pub keeps_to_gradients: bool,
}

/// What an update does to the rows of a table that its gradient does not list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untouched {
    /// Nothing.
    Stay,
    /// Nothing, as long as their state is zero.
    StayAtZero,
    /// Their weights follow from their state alone: zero state gives the same weights everywhere.
    Forget,
    /// What it does depends on all rows.
    Change,
}

impl Traits {
    /// An update with its effect on rows that are not listed.
    pub(crate) const fn update(untouched: Untouched) -> Self {
        Self { update: Some(untouched), ..Self::NONE }
    }

    /// Nothing special.
    pub(crate) const NONE: Self = Self {
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
    };
}

impl OpDesc {
    /// What is known of this op. Of an op that does not exist, nothing is.
    pub fn traits(&self) -> Traits {
        find(&self.kind).map(|op| op.traits(&self.attrs)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_op_has_no_traits() {
        assert_eq!(OpDesc::new("no_such_op").traits(), Traits::default());
    }

    #[test]
    fn lazy_adam_leaves_rows_alone() {
        let adam = |lazy: bool| OpDesc::new("adam").attr("lazy_mode", lazy).traits().update;
        assert_eq!(adam(false), Some(Untouched::StayAtZero));
        assert_eq!(adam(true), Some(Untouched::Stay));
    }
}
