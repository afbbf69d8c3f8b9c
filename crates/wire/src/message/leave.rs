//! `complete` and `leave`: a trainer ends its job, or its process ends without having said so.
//! Numbered, served once.

use super::empty;

/// The trainer's job is done. Rounds continue without it, and the server ends with the last
/// trainer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complete;

/// The trainer's process ends in order. Rounds continue without it, and the server stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leave;

empty!(change Complete, Leave);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::check::survives;

    #[test]
    fn survives_the_wire() {
        survives(Complete);
        survives(Leave);
    }
}
