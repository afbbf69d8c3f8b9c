//! `sequence_conv`: a convolution over the steps of each sequence.

use crate::block::OpDesc;
use crate::builder::{Builder, NewParam, Var};
use crate::error::{Error, Result};
use crate::layers::{activate, fc::add_bias};
use crate::param::{Initializer, ParamAttr};

/// Options of [`sequence_conv`]; defaults as in `fluid.layers.sequence_conv`.
#[derive(Clone, Debug)]
pub struct SequenceConv<'a> {
    /// How many steps a window covers.
    pub filter_size: i32,
    /// How far windows are apart; only 1 is known, as in Fluid.
    pub filter_stride: i32,
    /// First step of the window relative to the current one; centred if `None`.
    pub padding_start: Option<i32>,
    /// `None` for no bias.
    pub bias_attr: Option<ParamAttr>,
    /// How the weights are named, filled and trained.
    pub param_attr: ParamAttr,
    /// The activation that is applied to the result.
    pub act: Option<&'a str>,
    /// Start of the names of its variables; a new one is made if `None`.
    pub name: Option<&'a str>,
}

impl Default for SequenceConv<'_> {
    fn default() -> Self {
        Self {
            filter_size: 3,
            filter_stride: 1,
            padding_start: None,
            bias_attr: Some(ParamAttr::default()),
            param_attr: ParamAttr::default(),
            act: None,
            name: None,
        }
    }
}

/// `act(windows of x times the filter + bias)`, `num_filters` numbers per step.
pub fn sequence_conv(
    b: &mut Builder<'_>,
    x: &Var,
    num_filters: i64,
    options: SequenceConv<'_>,
) -> Result<Var> {
    let layer = b.layer_name("sequence_conv", options.name);
    let meta = b.meta(x)?;
    let width = meta.dims.get(1).copied().filter(|_| meta.dims.len() == 2);
    let width = width.ok_or_else(|| Error::BadArgument {
        layer: "sequence_conv",
        argument: "input",
        rule: "must have two dimensions",
        actual: format!("{:?}", meta.dims),
    })?;
    let filter = b.parameter(&NewParam {
        layer: &layer,
        suffix: "w",
        attr: &options.param_attr,
        dims: &[i64::from(options.filter_size) * width, num_filters],
        dtype: meta.dtype,
        default_init: Initializer::XAVIER,
    })?;
    let out = b.temp(&layer, meta.dtype);
    b.op(OpDesc::new("sequence_conv")
        .input("X", x)
        .input("Filter", &filter)
        .output("Out", &out)
        .attr("contextStride", options.filter_stride)
        .attr("contextStart", options.padding_start.unwrap_or(-(options.filter_size / 2)))
        .attr("contextLength", options.filter_size)
        .attr("paddingTrainable", false))?;
    let out = match &options.bias_attr {
        Some(attr) => add_bias(b, &layer, &out, attr, 1)?,
        None => out,
    };
    activate(b, &layer, out, options.act)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;
    use crate::layers::{self, Data};

    #[test]
    fn names_and_shapes_follow_fluid() {
        let mut net = Net::default();
        let mut b = net.builder();
        let data = Data { lod_level: 1, ..Data::default() };
        let x = layers::data(&mut b, "x", &[2], data).unwrap();
        let options = SequenceConv { act: Some("relu"), ..SequenceConv::default() };
        let out = sequence_conv(&mut b, &x, 3, options).unwrap();
        assert_eq!(out.name(), "sequence_conv_0.tmp_2");
        let meta = b.meta(&out).unwrap();
        assert_eq!((meta.dims, meta.lod_level), (vec![-1, 3], 1));
        let op = &net.main.block(0).ops[0];
        assert_eq!(op.attrs.int("contextStart", 0).unwrap(), -1);
        let params: Vec<_> = net.main.parameters().map(|p| (&*p.name, &*p.meta.dims)).collect();
        let expected =
            [("sequence_conv_0.w_0", &[6i64, 3] as &[i64]), ("sequence_conv_0.b_0", &[3])];
        assert_eq!(params, expected);
    }
}
