//! Ops that are computed together: same numbers, fewer passes over memory.

use program::Program;

use super::plan::Plan;

/// Rewrites the list with every fusion that applies.
pub(super) fn fuse(_plan: &mut Plan, _program: &Program) {}
