//! Small questions about shapes: axes that count from the end, shapes that must agree.

use super::{Infer, Run};
use crate::attr::Attrs;
use crate::error::Result;

const SAME: &str = "both inputs must have the same shape";
/// The rule that a gradient of a loss breaks.
pub(super) const LOSS: &str = "a loss has one number per row";

/// The axis that an attribute names in a tensor of this rank; negative ones count from the end.
pub(super) fn axis(attrs: &Attrs, name: &str, default: i64, rank: usize) -> Result<usize> {
    super::sizes::axis(name, attrs.int(name, default)?, rank)
}

/// Whether two shapes may turn out to be the same once their unknown sizes are known.
pub(super) fn agree(left: &[i64], right: &[i64]) -> bool {
    left.len() == right.len() && left.iter().zip(right).all(|(&l, &r)| l == r || l < 0 || r < 0)
}

/// Fails unless two inputs may have the same shape.
pub(super) fn infer_same(infer: &Infer<'_>, left: &str, right: &str) -> Result<()> {
    if agree(&infer.input(left)?.dims, &infer.input(right)?.dims) {
        return Ok(());
    }
    Err(infer.shapes(SAME, left, right))
}

/// Fails unless two inputs have the same shape.
pub(super) fn run_same(run: &Run<'_>, left: &str, right: &str) -> Result<()> {
    if run.input(left)?.shape() == run.input(right)?.shape() {
        return Ok(());
    }
    Err(run.shapes(SAME, left, right))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn axes_count_from_both_ends() {
        let mut attrs = Attrs::default();
        assert_eq!(axis(&attrs, "axis", -1, 3).unwrap(), 2);
        attrs.set("axis", 3);
        assert!(matches!(axis(&attrs, "axis", -1, 3), Err(Error::BadAttr { .. })));
        attrs.set("axis", -4);
        assert!(matches!(axis(&attrs, "axis", -1, 3), Err(Error::BadAttr { .. })));
    }

    #[test]
    fn an_unknown_size_agrees_with_any() {
        assert!(agree(&[-1, 2], &[5, 2]));
        assert!(!agree(&[-1, 2], &[5, 3]));
        assert!(!agree(&[2], &[2, 1]));
    }
}
