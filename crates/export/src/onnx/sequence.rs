//! Sequences. ONNX has none. Where each has exactly one step, these ops change nothing.

use super::convert::Convert;
use crate::error::Result;

const ONE_ID: &str =
    "If every sequence has exactly one id, say so: --one-id (one_id=True in Python)";

/// Whatever is done with a sequence of one step gives that step.
pub(super) fn keeps(c: &mut Convert<'_>) -> Result<()> {
    one_step(c, "Out")
}

pub(super) fn reverse(c: &mut Convert<'_>) -> Result<()> {
    one_step(c, "Y")
}

fn one_step(c: &mut Convert<'_>, port: &str) -> Result<()> {
    if !c.options.one_id {
        return Err(c.refuse("ONNX has no sequences of different lengths", ONE_ID));
    }
    let x = c.input("X")?;
    c.out(port, "Identity", &[&x], Vec::new())
}
