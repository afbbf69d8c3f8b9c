//! `conv2d` and `pool2d`.

use super::activate;
use super::append::append;
use crate::block::OpDesc;
use crate::builder::{Builder, NewParam, Var};
use crate::error::{Error, Result};
use crate::param::{Initializer, ParamAttr};

/// What surrounds an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Padding {
    /// Height and width, or top, bottom, left and right.
    Explicit(Vec<i32>),
    /// As much as keeps the size.
    Same,
    /// None.
    Valid,
}

impl Padding {
    /// The same on both sides, per dimension.
    pub fn both(height: i32, width: i32) -> Self {
        Padding::Explicit(vec![height, width])
    }

    fn attrs(&self, op: OpDesc) -> OpDesc {
        let (algorithm, paddings) = match self {
            Padding::Explicit(paddings) => ("EXPLICIT", paddings.clone()),
            Padding::Same => ("SAME", vec![0, 0]),
            Padding::Valid => ("VALID", vec![0, 0]),
        };
        op.attr("paddings", paddings).attr("padding_algorithm", algorithm)
    }
}

/// Options of [`conv2d`]; defaults as in `fluid.layers.conv2d`.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // The names are Fluid's.
pub struct Conv2d<'a> {
    pub stride: [i32; 2],
    pub padding: Padding,
    pub dilation: [i32; 2],
    pub groups: Option<i32>,
    pub param_attr: ParamAttr,
    /// `None` for no bias.
    pub bias_attr: Option<ParamAttr>,
    pub use_cudnn: bool,
    pub act: Option<&'a str>,
    pub name: Option<&'a str>,
    pub data_format: &'a str,
}

impl Default for Conv2d<'_> {
    fn default() -> Self {
        Self {
            stride: [1, 1],
            padding: Padding::both(0, 0),
            dilation: [1, 1],
            groups: None,
            param_attr: ParamAttr::default(),
            bias_attr: Some(ParamAttr::default()),
            use_cudnn: true,
            act: None,
            name: None,
            data_format: "NCHW",
        }
    }
}

/// `num_filters` filters slid over images.
pub fn conv2d(
    b: &mut Builder<'_>,
    input: &Var,
    num_filters: i64,
    filter_size: [i64; 2],
    options: Conv2d<'_>,
) -> Result<Var> {
    let meta = b.meta(input)?;
    let channels = meta.dims.get(1).copied().unwrap_or(-1);
    let groups = i64::from(options.groups.unwrap_or(1));
    if groups < 1 || channels % groups != 0 {
        let (layer, argument, rule) = ("conv2d", "groups", "must divide the number of channels");
        return Err(Error::BadArgument { layer, argument, rule, actual: groups.to_string() });
    }
    let depthwise = channels == groups && num_filters % channels == 0 && !options.use_cudnn;
    let kind = if depthwise { "depthwise_conv2d" } else { "conv2d" };
    let layer = b.layer_name(kind, options.name);
    let [height, width] = filter_size;
    let fan = (height * width * channels) as f64;
    let filter = b.parameter(&NewParam {
        layer: &layer,
        suffix: "w",
        attr: &options.param_attr,
        dims: &[num_filters, channels / groups, height, width],
        dtype: meta.dtype,
        default_init: Initializer::Normal { loc: 0.0, scale: (2.0 / fan).sqrt() as f32, seed: 0 },
    })?;
    let out = b.temp(&layer, meta.dtype);
    let op = OpDesc::new(kind)
        .input("Input", input)
        .input("Filter", &filter)
        .output("Output", &out)
        .attr("strides", options.stride.to_vec())
        .attr("dilations", options.dilation.to_vec())
        .attr("groups", groups as i32)
        .attr("use_cudnn", options.use_cudnn)
        .attr("data_format", options.data_format);
    b.op(options.padding.attrs(op))?;
    let out = match &options.bias_attr {
        Some(attr) => add_channel_bias(b, &layer, &out, attr)?,
        None => out,
    };
    activate(b, &layer, out, options.act)
}

fn add_channel_bias(b: &mut Builder<'_>, layer: &str, x: &Var, attr: &ParamAttr) -> Result<Var> {
    let meta = b.meta(x)?;
    let bias = b.parameter(&NewParam {
        layer,
        suffix: "b",
        attr,
        dims: &meta.dims[1..2],
        dtype: meta.dtype,
        default_init: Initializer::ZERO,
    })?;
    let op = OpDesc::new("elementwise_add").input("Y", &bias).attr("axis", 1);
    super::append(b, layer, x, op)
}

/// Options of [`pool2d`]; defaults as in `fluid.layers.pool2d`.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // The names are Fluid's.
pub struct Pool2d<'a> {
    pub pool_size: [i32; 2],
    pub pool_type: &'a str,
    pub pool_stride: [i32; 2],
    pub pool_padding: Padding,
    pub global_pooling: bool,
    pub use_cudnn: bool,
    pub ceil_mode: bool,
    pub name: Option<&'a str>,
    pub exclusive: bool,
    pub data_format: &'a str,
}

impl Default for Pool2d<'_> {
    fn default() -> Self {
        Self {
            pool_size: [-1, -1],
            pool_type: "max",
            pool_stride: [1, 1],
            pool_padding: Padding::both(0, 0),
            global_pooling: false,
            use_cudnn: true,
            ceil_mode: false,
            name: None,
            exclusive: true,
            data_format: "NCHW",
        }
    }
}

/// The largest or average pixel of a sliding window.
pub fn pool2d(b: &mut Builder<'_>, input: &Var, options: Pool2d<'_>) -> Result<Var> {
    check_pool_type("pool2d", options.pool_type)?;
    if !options.global_pooling && options.pool_size.iter().any(|&size| size < 1) {
        let (layer, argument) = ("pool2d", "pool_size");
        let rule = "must be positive unless global_pooling is on";
        let actual = format!("{:?}", options.pool_size);
        return Err(Error::BadArgument { layer, argument, rule, actual });
    }
    let dtype = b.meta(input)?.dtype;
    let op = OpDesc::new("pool2d")
        .input("X", input)
        .attr("pooling_type", options.pool_type)
        .attr("ksize", options.pool_size.to_vec())
        .attr("global_pooling", options.global_pooling)
        .attr("strides", options.pool_stride.to_vec())
        .attr("use_cudnn", options.use_cudnn)
        .attr("ceil_mode", options.ceil_mode)
        .attr("exclusive", options.exclusive)
        .attr("data_format", options.data_format);
    append(b, ("pool2d", options.name), dtype, options.pool_padding.attrs(op))
}

/// Pools an image into `pool_size` windows that share it out.
pub fn adaptive_pool2d(
    b: &mut Builder<'_>,
    input: &Var,
    pool_size: [i32; 2],
    pool_type: &str,
    name: Option<&str>,
) -> Result<Var> {
    check_pool_type("adaptive_pool2d", pool_type)?;
    let dtype = b.meta(input)?.dtype;
    let op = OpDesc::new("pool2d")
        .input("X", input)
        .attr("pooling_type", pool_type)
        .attr("ksize", pool_size.to_vec())
        .attr("adaptive", true);
    append(b, ("pool2d", name), dtype, op)
}

fn check_pool_type(layer: &'static str, pool_type: &str) -> Result<()> {
    if ["max", "avg"].contains(&pool_type) {
        return Ok(());
    }
    let (argument, rule) = ("pool_type", "must be max or avg");
    Err(Error::BadArgument { layer, argument, rule, actual: pool_type.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;
    use crate::layers::{self, Data};

    fn image<'a>(net: &'a mut Net) -> (Builder<'a>, Var) {
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[4, 6, 6], Data::default()).unwrap();
        (b, x)
    }

    #[test]
    fn conv2d_names_follow_fluid() {
        let mut net = Net::default();
        let (mut b, x) = image(&mut net);
        let options = Conv2d { act: Some("relu"), ..Conv2d::default() };
        let y = conv2d(&mut b, &x, 8, [3, 3], options).unwrap();
        assert_eq!(y.name(), "conv2d_0.tmp_2");
        assert_eq!(b.meta(&y).unwrap().dims, [-1, 8, 4, 4]);
        let params: Vec<_> = net.main.parameters().map(|p| (&*p.name, &*p.meta.dims)).collect();
        assert_eq!(params, [("conv2d_0.w_0", &[8i64, 4, 3, 3][..]), ("conv2d_0.b_0", &[8])]);
        let init = &net.startup.block(0).ops[1];
        assert_eq!(init.kind, "gaussian_random");
        assert_eq!(init.attrs.float("std", 0.0).unwrap(), 0.235_702_26);
    }

    #[test]
    fn a_group_per_channel_is_depthwise() {
        let mut net = Net::default();
        let (mut b, x) = image(&mut net);
        let options = Conv2d {
            groups: Some(4),
            use_cudnn: false,
            padding: Padding::Same,
            bias_attr: None,
            ..Conv2d::default()
        };
        let y = conv2d(&mut b, &x, 8, [3, 3], options).unwrap();
        assert_eq!(y.name(), "depthwise_conv2d_0.tmp_0");
        assert_eq!(b.meta(&y).unwrap().dims, [-1, 8, 6, 6]);
    }

    #[test]
    fn pool2d_names_follow_fluid() {
        let mut net = Net::default();
        let (mut b, x) = image(&mut net);
        let options = Pool2d { global_pooling: true, ..Pool2d::default() };
        let y = pool2d(&mut b, &x, options).unwrap();
        assert_eq!(
            (y.name(), &*b.meta(&y).unwrap().dims),
            ("pool2d_0.tmp_0", &[-1i64, 4, 1, 1][..])
        );
        let z = adaptive_pool2d(&mut b, &x, [3, 2], "avg", None).unwrap();
        assert_eq!(b.meta(&z).unwrap().dims, [-1, 4, 3, 2]);
    }

    #[test]
    fn refuses_bad_arguments() {
        let mut net = Net::default();
        let (mut b, x) = image(&mut net);
        let options = Conv2d { groups: Some(3), ..Conv2d::default() };
        let error = conv2d(&mut b, &x, 8, [3, 3], options).unwrap_err();
        assert!(matches!(error, Error::BadArgument { argument: "groups", .. }), "{error}");
        let error = pool2d(&mut b, &x, Pool2d::default()).unwrap_err();
        assert!(matches!(error, Error::BadArgument { argument: "pool_size", .. }), "{error}");
        let error =
            pool2d(&mut b, &x, Pool2d { pool_type: "min", ..Pool2d::default() }).unwrap_err();
        assert!(matches!(error, Error::BadArgument { argument: "pool_type", .. }), "{error}");
    }
}
