//! `sequence_pool`, `sequence_first_step`, `sequence_last_step`: one row per sequence.

use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::Result;

/// Options of [`sequence_pool`]; defaults as in `fluid.layers.sequence_pool`.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)] // The names are Fluid's.
pub struct SequencePool {
    pub is_test: bool,
    /// What an empty sequence gives.
    pub pad_value: f32,
}

/// Pools each sequence of `x`; `pool_type` is average, sum, sqrt, max, last or first.
pub fn sequence_pool(
    b: &mut Builder<'_>,
    x: &Var,
    pool_type: &str,
    options: SequencePool,
) -> Result<Var> {
    let layer = b.layer_name("sequence_pool", None);
    let dtype = b.meta(x)?.dtype;
    let out = b.temp(&layer, dtype);
    let kind = pool_type.to_uppercase();
    // Fluid declares the rows with the type of the input, whatever it writes into them.
    let index = if kind == "MAX" { b.temp_stopped(&layer, dtype) } else { b.temp(&layer, dtype) };
    b.op(OpDesc::new("sequence_pool")
        .input("X", x)
        .output("Out", &out)
        .output("MaxIndex", &index)
        .attr("pooltype", kind)
        .attr("is_test", options.is_test)
        .attr("pad_value", options.pad_value))?;
    Ok(out)
}

/// The first step of each sequence.
pub fn sequence_first_step(b: &mut Builder<'_>, x: &Var) -> Result<Var> {
    sequence_pool(b, x, "first", SequencePool::default())
}

/// The last step of each sequence.
pub fn sequence_last_step(b: &mut Builder<'_>, x: &Var) -> Result<Var> {
    sequence_pool(b, x, "last", SequencePool::default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;
    use crate::layers::{self, Data};

    #[test]
    fn names_and_levels_follow_fluid() {
        let mut net = Net::default();
        let mut b = net.builder();
        let data = Data { lod_level: 2, ..Data::default() };
        let x = layers::data(&mut b, "x", &[4], data).unwrap();
        let out = sequence_pool(&mut b, &x, "max", SequencePool::default()).unwrap();
        assert_eq!(out.name(), "sequence_pool_0.tmp_0");
        let meta = b.meta(&out).unwrap();
        assert_eq!((meta.dims, meta.lod_level), (vec![-1, 4], 1));
        assert!(b.desc(&Var::from("sequence_pool_0.tmp_1")).unwrap().stop_gradient);
        assert_eq!(sequence_last_step(&mut b, &x).unwrap().name(), "sequence_pool_1.tmp_0");
    }
}
