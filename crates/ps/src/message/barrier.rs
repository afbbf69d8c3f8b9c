//! `barrier`: the trainer has sent everything of its part of a round. Numbered, served once.

use super::empty;

/// Answered by an acknowledgement at once; pulls that name the round wait until it is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Barrier;

empty!(Barrier);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::check::survives;

    #[test]
    fn survives_the_wire() {
        survives(Barrier);
    }
}
