//! When gradients are applied, and so which trainers wait for which.

/// When gradients are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Apply {
    /// When they come.
    AtOnce,
    /// All at once, when every active trainer has closed its part of a round.
    ByRound {
        /// Questions for what a round led to are answered so many rounds earlier: trainers may be so
        /// many rounds ahead of the slowest.
        ahead: u32,
    },
}

impl Apply {
    /// Whether trainers wait for each other.
    pub(super) fn waits(self) -> bool {
        self != Apply::AtOnce
    }

    /// Rounds that trainers may be ahead of the slowest.
    pub(super) fn ahead(self) -> u32 {
        match self {
            Apply::AtOnce => 0,
            Apply::ByRound { ahead } => ahead,
        }
    }

    /// Whether what a trainer asks for can be answered, when so many rounds were applied.
    pub(super) fn answers(self, after: u64, applied: u64) -> bool {
        match self {
            Apply::AtOnce => true,
            Apply::ByRound { ahead } => after <= applied.saturating_add(ahead.into()),
        }
    }
}
