//! `conv3d`, `conv2d_transpose`, `conv3d_transpose`, `pool3d`, `adaptive_pool3d`.

use super::activate;
use super::append::append;
use super::fc::add_bias;
use crate::block::OpDesc;
use crate::builder::{Builder, NewParam, Var};
use crate::error::{Error, Result};
use crate::param::{Initializer, ParamAttr};

/// What surrounds an image of any number of dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PaddingNd {
    /// A number for each dimension, or one before and one behind each.
    Explicit(Vec<i32>),
    /// Before and behind, for batch and channels too, where it must be 0.
    Pairs(Vec<[i32; 2]>),
    /// As much as keeps the size.
    Same,
    /// None.
    Valid,
}

fn bad(layer: &'static str, argument: &'static str, rule: &'static str, actual: String) -> Error {
    Error::BadArgument { layer, argument, rule, actual }
}

impl PaddingNd {
    /// Before and behind each of `n` dimensions.
    fn full(&self, layer: &'static str, n: usize, last: bool) -> Result<Vec<i32>> {
        let rule = "must hold a number for each dimension, or one before and one behind each";
        match self {
            PaddingNd::Same | PaddingNd::Valid => Ok(vec![0; 2 * n]),
            PaddingNd::Explicit(list) if list.len() == n => {
                Ok(list.iter().flat_map(|&both| [both, both]).collect())
            }
            PaddingNd::Explicit(list) if list.len() == 2 * n => Ok(list.clone()),
            PaddingNd::Explicit(list) => Err(bad(layer, "padding", rule, format!("{list:?}"))),
            PaddingNd::Pairs(pairs) => {
                let first = if last { 1 } else { 2 };
                let is_inner = |axis: usize| (first..first + n).contains(&axis);
                let outer = pairs.iter().enumerate().filter(|(axis, _)| !is_inner(*axis));
                if pairs.len() != n + 2 || outer.into_iter().any(|(_, pair)| *pair != [0, 0]) {
                    let rule = "must hold zeros for the batch and the channels";
                    return Err(bad(layer, "padding", rule, format!("{pairs:?}")));
                }
                Ok(pairs[first..first + n].concat())
            }
        }
    }

    /// As attributes, short where that says as much, as Fluid's programs have it.
    fn attrs(&self, op: OpDesc, full: &[i32]) -> OpDesc {
        let algorithm = match self {
            PaddingNd::Same => "SAME",
            PaddingNd::Valid => "VALID",
            _ => "EXPLICIT",
        };
        let is_even = full.chunks(2).all(|pair| pair[0] == pair[1]);
        let short =
            if is_even { full.chunks(2).map(|pair| pair[0]).collect() } else { full.to_vec() };
        op.attr("paddings", short).attr("padding_algorithm", algorithm)
    }
}

/// Whether the channels are the last dimension.
fn is_last(layer: &'static str, n: usize, data_format: &str) -> Result<bool> {
    match (n, data_format) {
        (2, "NCHW") | (3, "NCDHW") => Ok(false),
        (2, "NHWC") | (3, "NDHWC") => Ok(true),
        _ => Err(bad(
            layer,
            "data_format",
            "must name a layout of the image",
            data_format.to_string(),
        )),
    }
}

/// Options of [`conv3d`], [`conv2d_transpose`] and [`conv3d_transpose`]; defaults as in Fluid.
#[derive(Clone, Debug)]
pub struct ConvNd<'a, const N: usize> {
    /// The size of the result of a transposed convolution, if it does not follow from the filter.
    pub output_size: Option<[i32; N]>,
    /// How far windows are apart.
    pub stride: [i32; N],
    /// What surrounds the image.
    pub padding: PaddingNd,
    /// How far the taps of a window are apart.
    pub dilation: [i32; N],
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
    /// `NCHW` or `NHWC`; `NCDHW` or `NDHWC`.
    pub data_format: &'a str,
}

impl<const N: usize> Default for ConvNd<'_, N> {
    fn default() -> Self {
        Self {
            output_size: None,
            stride: [1; N],
            padding: PaddingNd::Explicit(vec![0; N]),
            dilation: [1; N],
            groups: None,
            param_attr: ParamAttr::default(),
            bias_attr: Some(ParamAttr::default()),
            use_cudnn: true,
            act: None,
            name: None,
            data_format: if N == 2 { "NCHW" } else { "NCDHW" },
        }
    }
}

/// What is known of the images of a convolution.
struct Images {
    last: bool,
    channels: i64,
    groups: i64,
    sizes: Vec<i64>,
    dtype: tensor::DType,
}

impl Images {
    fn of<const N: usize>(
        b: &Builder<'_>,
        layer: &'static str,
        input: &Var,
        options: &ConvNd<'_, N>,
    ) -> Result<Self> {
        let meta = b.meta(input)?;
        let last = is_last(layer, N, options.data_format)?;
        let text = || format!("{:?}", meta.dims);
        if meta.dims.len() != N + 2 {
            return Err(bad(
                layer,
                "input",
                "must have a dimension for each letter of the layout",
                text(),
            ));
        }
        let channels = meta.dims[if last { N + 1 } else { 1 }];
        if channels < 1 {
            return Err(bad(
                layer,
                "input",
                "must have a number of channels that is known",
                text(),
            ));
        }
        let groups = i64::from(options.groups.unwrap_or(1));
        if groups < 1 || channels % groups != 0 {
            return Err(bad(
                layer,
                "groups",
                "must divide the number of channels",
                groups.to_string(),
            ));
        }
        let first = if last { 1 } else { 2 };
        let sizes = meta.dims[first..first + N].to_vec();
        Ok(Self { last, channels, groups, sizes, dtype: meta.dtype })
    }
}

/// Appends a convolution of a kind, its bias and its activation.
fn convolve<const N: usize>(
    b: &mut Builder<'_>,
    layer: &str,
    op: OpDesc,
    images: &Images,
    options: &ConvNd<'_, N>,
) -> Result<Var> {
    let out = b.temp(layer, images.dtype);
    b.op(op
        .output("Output", &out)
        .attr("strides", options.stride.to_vec())
        .attr("dilations", options.dilation.to_vec())
        .attr("groups", images.groups as i32)
        .attr("use_cudnn", options.use_cudnn)
        .attr("data_format", options.data_format))?;
    let axis = if images.last { N + 1 } else { 1 };
    let out = match &options.bias_attr {
        Some(attr) => add_bias(b, layer, &out, attr, axis)?,
        None => out,
    };
    activate(b, layer, out, options.act)
}

/// `num_filters` filters slid over images of three dimensions.
pub fn conv3d(
    b: &mut Builder<'_>,
    input: &Var,
    num_filters: i64,
    filter_size: [i64; 3],
    options: ConvNd<'_, 3>,
) -> Result<Var> {
    let images = Images::of(b, "conv3d", input, &options)?;
    let layer = b.layer_name("conv3d", options.name);
    let fan = filter_size.iter().product::<i64>() as f64 * images.channels as f64;
    let dims = [&[num_filters, images.channels / images.groups][..], &filter_size].concat();
    let filter = b.parameter(&NewParam {
        layer: &layer,
        suffix: "w",
        attr: &options.param_attr,
        dims: &dims,
        dtype: images.dtype,
        default_init: Initializer::Normal { loc: 0.0, scale: (2.0 / fan).sqrt() as f32, seed: 0 },
    })?;
    let full = options.padding.full("conv3d", 3, images.last)?;
    let op = OpDesc::new("conv3d").input("Input", input).input("Filter", &filter);
    convolve(b, &layer, options.padding.attrs(op, &full), &images, &options)
}

/// `num_filters` filters, each pixel spread over one; the size of the filter or of the result must be given.
pub fn conv2d_transpose(
    b: &mut Builder<'_>,
    input: &Var,
    num_filters: i64,
    filter_size: Option<[i64; 2]>,
    options: ConvNd<'_, 2>,
) -> Result<Var> {
    transposed(
        b,
        "conv2d_transpose",
        input,
        Filters { number: num_filters, size: filter_size },
        options,
    )
}

/// As [`conv2d_transpose`], for images of three dimensions.
pub fn conv3d_transpose(
    b: &mut Builder<'_>,
    input: &Var,
    num_filters: i64,
    filter_size: Option<[i64; 3]>,
    options: ConvNd<'_, 3>,
) -> Result<Var> {
    transposed(
        b,
        "conv3d_transpose",
        input,
        Filters { number: num_filters, size: filter_size },
        options,
    )
}

/// How many filters, of which size.
struct Filters<const N: usize> {
    number: i64,
    size: Option<[i64; N]>,
}

fn transposed<const N: usize>(
    b: &mut Builder<'_>,
    layer: &'static str,
    input: &Var,
    filters: Filters<N>,
    options: ConvNd<'_, N>,
) -> Result<Var> {
    let images = Images::of(b, layer, input, &options)?;
    let full = options.padding.full(layer, N, images.last)?;
    let is_depthwise = N == 2
        && options.groups.map(i64::from) == Some(images.channels)
        && filters.number == images.channels
        && !options.use_cudnn;
    let kind = if is_depthwise { "depthwise_conv2d_transpose" } else { layer };
    let filter_size = match (filters.size, options.output_size) {
        (Some(size), _) => size,
        (None, Some(out)) => std::array::from_fn(|d| {
            let (stride, dilation) = (i64::from(options.stride[d]), i64::from(options.dilation[d]));
            let padding = i64::from(full[2 * d]) + i64::from(full[2 * d + 1]);
            let taps = i64::from(out[d]) - (images.sizes[d] - 1) * stride + padding - 1;
            taps.div_euclid(dilation.max(1)) + 1
        }),
        (None, None) => {
            let rule = "output_size must be set when filter_size is None";
            return Err(bad(layer, "output_size", rule, "None".to_string()));
        }
    };
    let layer = b.layer_name(kind, options.name);
    let dims = [&[images.channels, filters.number / images.groups][..], &filter_size].concat();
    let filter = b.parameter(&NewParam {
        layer: &layer,
        suffix: "w",
        attr: &options.param_attr,
        dims: &dims,
        dtype: images.dtype,
        default_init: Initializer::XAVIER,
    })?;
    let op = OpDesc::new(kind).input("Input", input).input("Filter", &filter);
    let size = options.output_size.map_or(Vec::new(), |size| size.to_vec());
    let op = options.padding.attrs(op.attr("output_size", size), &full);
    convolve(b, &layer, op, &images, &options)
}

/// Options of [`pool3d`]; defaults as in `fluid.layers.pool3d`.
#[derive(Clone, Debug)]
pub struct Pool3d<'a> {
    /// The size of a box; -1 only with `global_pooling`.
    pub pool_size: [i32; 3],
    /// `max` or `avg`.
    pub pool_type: &'a str,
    /// How far boxes are apart.
    pub pool_stride: [i32; 3],
    /// What surrounds the image.
    pub pool_padding: PaddingNd,
    /// One box covers the whole image.
    pub global_pooling: bool,
    /// Changes nothing here; the program keeps it for Fluid.
    pub use_cudnn: bool,
    /// A box that the image ends in counts, too.
    pub ceil_mode: bool,
    /// Start of the names of its variables; a new one is made if `None`.
    pub name: Option<&'a str>,
    /// An average leaves out the padding.
    pub exclusive: bool,
    /// `NCDHW` or `NDHWC`.
    pub data_format: &'a str,
}

impl Default for Pool3d<'_> {
    fn default() -> Self {
        Self {
            pool_size: [-1; 3],
            pool_type: "max",
            pool_stride: [1; 3],
            pool_padding: PaddingNd::Explicit(vec![0; 3]),
            global_pooling: false,
            use_cudnn: true,
            ceil_mode: false,
            name: None,
            exclusive: true,
            data_format: "NCDHW",
        }
    }
}

/// The largest or average number of a sliding box.
pub fn pool3d(b: &mut Builder<'_>, input: &Var, options: Pool3d<'_>) -> Result<Var> {
    super::image::check_pool_type("pool3d", options.pool_type)?;
    if !options.global_pooling && options.pool_size.iter().any(|&size| size < 1) {
        let rule = "must be positive unless global_pooling is on";
        return Err(bad("pool3d", "pool_size", rule, format!("{:?}", options.pool_size)));
    }
    if options.pool_padding == PaddingNd::Valid && options.ceil_mode {
        let rule = "must be False when pool_padding is \"VALID\"";
        return Err(bad("pool3d", "ceil_mode", rule, "True".to_string()));
    }
    let last = is_last("pool3d", 3, options.data_format)?;
    let full = options.pool_padding.full("pool3d", 3, last)?;
    let dtype = b.meta(input)?.dtype;
    let op = OpDesc::new("pool3d")
        .input("X", input)
        .attr("pooling_type", options.pool_type)
        .attr("ksize", options.pool_size.to_vec())
        .attr("global_pooling", options.global_pooling)
        .attr("strides", options.pool_stride.to_vec())
        .attr("use_cudnn", options.use_cudnn)
        .attr("ceil_mode", options.ceil_mode)
        .attr("exclusive", options.exclusive)
        .attr("data_format", options.data_format);
    append(b, "pool3d", options.name, dtype, options.pool_padding.attrs(op, &full))
}

/// Pools an image into `pool_size` boxes that share it out.
pub fn adaptive_pool3d(
    b: &mut Builder<'_>,
    input: &Var,
    pool_size: [i32; 3],
    pool_type: &str,
    name: Option<&str>,
) -> Result<Var> {
    super::image::check_pool_type("adaptive_pool3d", pool_type)?;
    let dtype = b.meta(input)?.dtype;
    let op = OpDesc::new("pool3d")
        .input("X", input)
        .attr("pooling_type", pool_type)
        .attr("ksize", pool_size.to_vec())
        .attr("adaptive", true);
    append(b, "pool3d", name, dtype, op)
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
        let x = layers::data(&mut b, "x", &[4, 5, 6, 6], Data::default()).unwrap();
        let y = layers::data(&mut b, "y", &[4, 6, 6], Data::default()).unwrap();
        let dims = |b: &Builder<'_>, var: &Var| b.meta(var).unwrap().dims;
        let z = conv3d(&mut b, &x, 8, [3, 3, 3], ConvNd::default()).unwrap();
        assert_eq!((z.name(), dims(&b, &z)), ("conv3d_0.tmp_1", vec![-1, 8, 3, 4, 4]));
        let options = ConvNd { stride: [2, 2], groups: Some(2), ..ConvNd::default() };
        let z = conv2d_transpose(&mut b, &y, 6, Some([3, 3]), options).unwrap();
        assert_eq!((z.name(), dims(&b, &z)), ("conv2d_transpose_0.tmp_1", vec![-1, 6, 13, 13]));
        let options = ConvNd { output_size: Some([14, 14]), stride: [2, 2], ..ConvNd::default() };
        let z = conv2d_transpose(&mut b, &y, 6, None, options).unwrap();
        assert_eq!(dims(&b, &z), [-1, 6, 14, 14]);
        let z = conv3d_transpose(&mut b, &x, 2, Some([2, 2, 2]), ConvNd::default()).unwrap();
        assert_eq!((z.name(), dims(&b, &z)), ("conv3d_transpose_0.tmp_1", vec![-1, 2, 6, 7, 7]));
        let options = Pool3d { pool_size: [2; 3], pool_stride: [2; 3], ..Pool3d::default() };
        let z = pool3d(&mut b, &x, options).unwrap();
        assert_eq!((z.name(), dims(&b, &z)), ("pool3d_0.tmp_0", vec![-1, 4, 2, 3, 3]));
        let z = adaptive_pool3d(&mut b, &x, [1, 2, 3], "avg", None).unwrap();
        assert_eq!(dims(&b, &z), [-1, 4, 1, 2, 3]);
        let params: Vec<_> = net.main.parameters().map(|p| (&*p.name, &*p.meta.dims)).collect();
        assert_eq!(params[2], ("conv2d_transpose_0.w_0", &[4i64, 3, 3, 3][..]));
        assert_eq!(params[4].1, [4, 6, 4, 4]);
    }

    #[test]
    fn refuses_bad_arguments() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[4, 6, 6], Data::default()).unwrap();
        for (error, argument) in [
            (conv2d_transpose(&mut b, &x, 6, None, ConvNd::default()).unwrap_err(), "output_size"),
            (conv3d(&mut b, &x, 6, [1; 3], ConvNd::default()).unwrap_err(), "input"),
            (pool3d(&mut b, &x, Pool3d::default()).unwrap_err(), "pool_size"),
        ] {
            let is_it =
                matches!(&error, Error::BadArgument { argument: it, .. } if *it == argument);
            assert!(is_it, "{error}");
        }
        let padding = PaddingNd::Pairs(vec![[0, 0], [1, 1], [0, 0], [0, 0]]);
        let options = ConvNd { padding, ..ConvNd::default() };
        let error = conv2d_transpose(&mut b, &x, 6, Some([1, 1]), options).unwrap_err();
        assert!(matches!(error, Error::BadArgument { argument: "padding", .. }), "{error}");
    }
}
