//! `mean`: the average of all elements.

use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::Result;

/// The average of all elements, shape [1].
pub fn mean(b: &mut Builder<'_>, x: &Var) -> Result<Var> {
    let layer = b.layer_name("mean", None);
    let out = b.temp(&layer, b.meta(x)?.dtype);
    b.op(OpDesc::new("mean").input("X", x).output("Out", &out))?;
    Ok(out)
}
