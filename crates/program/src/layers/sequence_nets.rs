//! Composites over sequences (`fluid.nets`).

use crate::builder::{Builder, Var};
use crate::error::Result;
use crate::layers::{SequenceConv, SequencePool, sequence_conv, sequence_pool};
use crate::param::ParamAttr;

/// Options of [`sequence_conv_pool`]; defaults as in `fluid.nets.sequence_conv_pool`.
#[derive(Clone, Debug)]
pub struct SequenceConvPool<'a> {
    /// How the weights are named, filled and trained.
    pub param_attr: ParamAttr,
    /// The activation that is applied to the result.
    pub act: &'a str,
    /// How steps become one: `sum`, `average`, `sqrt`, `max`, `last` or `first`.
    pub pool_type: &'a str,
    /// `None` for no bias.
    pub bias_attr: Option<ParamAttr>,
}

impl Default for SequenceConvPool<'_> {
    fn default() -> Self {
        Self {
            param_attr: ParamAttr::default(),
            act: "sigmoid",
            pool_type: "max",
            bias_attr: Some(ParamAttr::default()),
        }
    }
}

/// A convolution of `num_filters` over windows of `filter_size` steps, then one row per sequence.
pub fn sequence_conv_pool(
    b: &mut Builder<'_>,
    x: &Var,
    num_filters: i64,
    filter_size: i32,
    options: SequenceConvPool<'_>,
) -> Result<Var> {
    let conv = SequenceConv {
        filter_size,
        param_attr: options.param_attr,
        bias_attr: options.bias_attr,
        act: Some(options.act),
        ..SequenceConv::default()
    };
    let convolved = sequence_conv(b, x, num_filters, conv)?;
    sequence_pool(b, &convolved, options.pool_type, SequencePool::default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;
    use crate::layers::{self, Data};

    #[test]
    fn convolves_then_pools() {
        let mut net = Net::default();
        let mut b = net.builder();
        let data = Data { lod_level: 1, ..Data::default() };
        let x = layers::data(&mut b, "x", &[2], data).unwrap();
        let options = SequenceConvPool { act: "relu", ..SequenceConvPool::default() };
        let out = sequence_conv_pool(&mut b, &x, 3, 3, options).unwrap();
        assert_eq!(out.name(), "sequence_pool_0.tmp_0");
        let kinds: Vec<_> = net.main.block(0).ops.iter().map(|op| &*op.kind).collect();
        assert_eq!(kinds, ["sequence_conv", "elementwise_add", "relu", "sequence_pool"]);
    }
}
