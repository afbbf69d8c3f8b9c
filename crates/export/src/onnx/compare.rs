//! Truth values.

use super::convert::Convert;
use super::math::broadcast_y;
use crate::error::Result;

pub(super) fn two(c: &mut Convert<'_>, op: &'static str) -> Result<()> {
    let (x, y) = (c.input("X")?, broadcast_y(c)?);
    c.out("Out", op, &[&x, &y], Vec::new())
}

pub(super) fn not_equal(c: &mut Convert<'_>) -> Result<()> {
    let (x, y) = (c.input("X")?, broadcast_y(c)?);
    let equal = c.node("Equal", &[&x, &y], Vec::new());
    c.out("Out", "Not", &[&equal], Vec::new())
}
