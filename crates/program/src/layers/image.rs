//! `conv2d` and `pool2d`.

use super::activate;
use super::append::append;
use super::fc::add_bias;
use crate::block::OpDesc;
use crate::builder::{Builder, NewParam, Var};
use crate::error::{Error, Result};
use crate::op::layout::ImageLayout;
use crate::param::{Initializer, ParamAttr};

/// What surrounds an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Padding {
    /// Height and width, or top, bottom, left and right.
    Explicit(Vec<i32>),
    /// Before and after, for each dimension of the images; zeros for batch and channels.
    Pairs([[i32; 2]; 4]),
    /// As much as keeps the size.
    Same,
    /// None.
    Valid,
}

impl Padding {
    /// Equal padding on both sides of each dimension.
    pub fn both(height: i32, width: i32) -> Self {
        Padding::Explicit(vec![height, width])
    }

    fn attrs(&self, op: OpDesc, layer: &'static str, layout: ImageLayout) -> Result<OpDesc> {
        let (algorithm, paddings) = match self {
            Padding::Explicit(paddings) => ("EXPLICIT", short(paddings.clone())),
            Padding::Pairs(pairs) => ("EXPLICIT", short(of_pairs(pairs, layer, layout)?)),
            Padding::Same => ("SAME", vec![0, 0]),
            Padding::Valid => ("VALID", vec![0, 0]),
        };
        Ok(op.attr("paddings", paddings).attr("padding_algorithm", algorithm))
    }
}

/// Two numbers where they say as much as four, as Fluid's programs have it.
fn short(paddings: Vec<i32>) -> Vec<i32> {
    match paddings[..] {
        [top, bottom, left, right] if top == bottom && left == right => vec![top, left],
        _ => paddings,
    }
}

fn of_pairs(pairs: &[[i32; 2]; 4], layer: &'static str, layout: ImageLayout) -> Result<Vec<i32>> {
    let [batch, channels, height, width] = layout.nchw(*pairs);
    if batch == [0, 0] && channels == [0, 0] {
        return Ok([height, width].concat());
    }
    let (argument, rule) = ("padding", "must hold zeros for the batch and the channels");
    Err(Error::BadArgument { layer, argument, rule, actual: format!("{pairs:?}") })
}

fn layout_named(layer: &'static str, name: &str) -> Result<ImageLayout> {
    let layout = ImageLayout::named(name).filter(|_| name != "AnyLayout");
    let (argument, rule) = ("data_format", "must be NCHW or NHWC");
    layout.ok_or_else(|| Error::BadArgument { layer, argument, rule, actual: name.to_string() })
}

/// Options of [`conv2d`]; defaults as in `fluid.layers.conv2d`.
#[derive(Clone, Debug)]
pub struct Conv2d<'a> {
    /// How far windows are apart, down and across.
    pub stride: [i32; 2],
    /// What surrounds the image.
    pub padding: Padding,
    /// How far the taps of a window are apart, down and across.
    pub dilation: [i32; 2],
    /// How many groups the channels fall into; one if `None`.
    pub groups: Option<i32>,
    /// How the weights are named, filled and trained.
    pub param_attr: ParamAttr,
    /// `None` for no bias.
    pub bias_attr: Option<ParamAttr>,
    /// Changes nothing here; the program keeps it for Fluid.
    pub use_cudnn: bool,
    /// The activation that is applied to the result.
    pub act: Option<&'a str>,
    /// Start of the names of its variables; a new one is made if `None`.
    pub name: Option<&'a str>,
    /// `NCHW` or `NHWC`.
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
    let layout = layout_named("conv2d", options.data_format)?;
    let channels = meta.dims.get(layout.channel_axis()).copied().unwrap_or(-1);
    if channels < 1 {
        let (layer, argument) = ("conv2d", "input");
        let rule = "must have a number of channels that is known";
        return Err(Error::BadArgument {
            layer,
            argument,
            rule,
            actual: format!("{:?}", meta.dims),
        });
    }
    let groups = i64::from(options.groups.unwrap_or(1));
    if groups < 1 || channels % groups != 0 {
        let layer = "conv2d";
        let argument = "groups";
        let rule = "must divide the number of channels";
        return Err(Error::BadArgument { layer, argument, rule, actual: groups.to_string() });
    }
    let alone = options.groups.map(i64::from) == Some(channels);
    let depthwise = alone && num_filters % channels == 0 && !options.use_cudnn;
    let kind = if depthwise { "depthwise_conv2d" } else { "conv2d" };
    let layer = b.layer_name(kind, options.name);
    let [height, width] = filter_size;
    let fan = height as f64 * width as f64 * channels as f64;
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
    b.op(options.padding.attrs(op, "conv2d", layout)?)?;
    let out = match &options.bias_attr {
        Some(attr) => add_bias(b, &layer, &out, attr, layout.channel_axis())?,
        None => out,
    };
    activate(b, &layer, out, options.act)
}

/// Options of [`pool2d`]; defaults as in `fluid.layers.pool2d`.
#[derive(Clone, Debug)]
pub struct Pool2d<'a> {
    /// Height and width of a window; -1 only with `global_pooling`.
    pub pool_size: [i32; 2],
    /// `max` or `avg`.
    pub pool_type: &'a str,
    /// How far windows are apart, down and across.
    pub pool_stride: [i32; 2],
    /// What surrounds the image.
    pub pool_padding: Padding,
    /// One window covers the whole image.
    pub global_pooling: bool,
    /// Changes nothing here; the program keeps it for Fluid.
    pub use_cudnn: bool,
    /// A window that the image ends in counts, too.
    pub ceil_mode: bool,
    /// Start of the names of its variables; a new one is made if `None`.
    pub name: Option<&'a str>,
    /// An average leaves out the padding.
    pub exclusive: bool,
    /// `NCHW` or `NHWC`.
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
    if options.pool_padding == Padding::Valid && options.ceil_mode {
        let (layer, argument) = ("pool2d", "ceil_mode");
        let rule = "must be False when pool_padding is \"VALID\"";
        return Err(Error::BadArgument { layer, argument, rule, actual: "True".to_string() });
    }
    let layout = layout_named("pool2d", options.data_format)?;
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
    let op = options.pool_padding.attrs(op, "pool2d", layout)?;
    append(b, "pool2d", options.name, dtype, op)
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
    append(b, "pool2d", name, dtype, op)
}

pub(super) fn check_pool_type(layer: &'static str, pool_type: &str) -> Result<()> {
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
    fn channels_may_come_last() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[6, 6, 4], Data::default()).unwrap();
        let padding = Padding::Pairs([[0, 0], [0, 0], [1, 1], [0, 0]]);
        let options = Conv2d { data_format: "NHWC", padding, ..Conv2d::default() };
        let y = conv2d(&mut b, &x, 8, [3, 3], options).unwrap();
        assert_eq!(b.meta(&y).unwrap().dims, [-1, 4, 6, 8]);
        let options = Pool2d { global_pooling: true, data_format: "NHWC", ..Pool2d::default() };
        let z = pool2d(&mut b, &x, options).unwrap();
        assert_eq!(b.meta(&z).unwrap().dims, [-1, 1, 1, 4]);
        let params: Vec<_> = net.main.parameters().map(|p| (&*p.name, &*p.meta.dims)).collect();
        assert_eq!(params, [("conv2d_0.w_0", &[8i64, 4, 3, 3][..]), ("conv2d_0.b_0", &[8])]);
        let bias = &net.main.block(0).ops[1];
        assert_eq!((&*bias.kind, bias.attrs.int("axis", 0).unwrap()), ("elementwise_add", 3));
    }

    #[test]
    fn pairs_of_padding_spare_batch_and_channels() {
        let mut net = Net::default();
        let (mut b, x) = image(&mut net);
        let padding = Padding::Pairs([[0, 0], [1, 1], [1, 1], [0, 0]]);
        let options = Conv2d { padding, ..Conv2d::default() };
        let error = conv2d(&mut b, &x, 8, [3, 3], options).unwrap_err();
        assert!(matches!(error, Error::BadArgument { argument: "padding", .. }), "{error}");
        let options = Pool2d { data_format: "NDHWC", pool_size: [2, 2], ..Pool2d::default() };
        let error = pool2d(&mut b, &x, options).unwrap_err();
        assert!(matches!(error, Error::BadArgument { argument: "data_format", .. }), "{error}");
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
