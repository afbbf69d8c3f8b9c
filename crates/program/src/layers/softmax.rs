//! `softmax`: scores to probabilities.

use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::Result;

/// Options of [`softmax`]; defaults as in `fluid.layers.softmax`.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // The names are Fluid's.
pub struct Softmax<'a> {
    pub use_cudnn: bool,
    pub name: Option<&'a str>,
    pub axis: i32,
}

impl Default for Softmax<'_> {
    fn default() -> Self {
        Self { use_cudnn: false, name: None, axis: -1 }
    }
}

/// Probabilities along an axis of scores.
pub fn softmax(b: &mut Builder<'_>, x: &Var, options: Softmax<'_>) -> Result<Var> {
    let layer = b.layer_name("softmax", options.name);
    let out = b.temp(&layer, b.meta(x)?.dtype);
    b.op(OpDesc::new("softmax")
        .input("X", x)
        .output("Out", &out)
        .attr("axis", options.axis)
        .attr("use_cudnn", options.use_cudnn))?;
    Ok(out)
}
