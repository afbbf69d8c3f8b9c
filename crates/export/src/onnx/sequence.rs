//! Sequences. ONNX has none. Where each has exactly one step, these ops change nothing.

use super::convert::{CUT, Convert};
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

/// The weights of one step are 1.
pub(super) fn softmax(c: &mut Convert<'_>) -> Result<()> {
    must_be_one_step(c)?;
    let x = c.input("X")?;
    // 1 for every finite number, and no number where X is none.
    let difference = c.node("Sub", &[&x, &x], Vec::new());
    c.out("Out", "Exp", &[&difference], Vec::new())
}

/// The window meets the one step in one of its places, and nothing in the others.
pub(super) fn conv(c: &mut Convert<'_>) -> Result<()> {
    must_be_one_step(c)?;
    if c.has("PaddingData") {
        return Err(c.refuse("it learns what is before and after a sequence", CUT));
    }
    let attrs = &c.op.attrs;
    let (start, length) = (attrs.int("contextStart", 0)?, attrs.int("contextLength", 1)?);
    let width = c.meta("X")?.dims.last().copied().unwrap_or(-1);
    if width < 0 {
        return Err(c.refuse("the width of a step is not known", CUT));
    }
    let (x, filter) = (c.input("X")?, c.input("Filter")?);
    let place = -start;
    if !(0..length).contains(&place) {
        return Err(c.refuse("its window does not meet the step", CUT));
    }
    let (starts, ends) = (c.graph.ints(&[place * width]), c.graph.ints(&[(place + 1) * width]));
    let axes = c.graph.ints(&[0]);
    let weights = c.node("Slice", &[&filter, &starts, &ends, &axes], Vec::new());
    c.out("Out", "MatMul", &[&x, &weights], Vec::new())
}

fn must_be_one_step(c: &Convert<'_>) -> Result<()> {
    if c.options.one_id {
        Ok(())
    } else {
        Err(c.refuse("ONNX has no sequences of different lengths", ONE_ID))
    }
}

fn one_step(c: &mut Convert<'_>, port: &str) -> Result<()> {
    must_be_one_step(c)?;
    let x = c.input("X")?;
    c.out(port, "Identity", &[&x], Vec::new())
}
