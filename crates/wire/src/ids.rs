//! Numbers that must not be mixed up.

use std::fmt;

/// A trainer's rank, `0..n_trainers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrainerId(pub u32);

impl fmt::Display for TrainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "trainer {}", self.0)
    }
}

/// A variable, by its position in a list that both sides know. In frames that is the list of the
/// trainer's greeting; inside a server it is the list of its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VarId(pub u32);

/// A connection, by a number of the server. A number is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

/// Milliseconds since some start. The driver of a state machine passes the time in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub u64);

impl Millis {
    /// Milliseconds from `earlier` until this.
    pub fn since(self, earlier: Millis) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl std::ops::Add<u64> for Millis {
    type Output = Millis;

    fn add(self, ms: u64) -> Millis {
        Millis(self.0 + ms)
    }
}
