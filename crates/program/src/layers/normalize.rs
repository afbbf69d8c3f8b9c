//! `batch_norm`, `layer_norm`, `data_norm`, `l2_normalize`.

use tensor::DType;

use super::activate;
use super::append::one_op;
use crate::block::OpDesc;
use crate::builder::{Builder, NewParam, Var};
use crate::error::{Error, Result};
use crate::param::{Initializer, ParamAttr};
use crate::var::{Meta, VarDesc};

const ONE: Initializer = Initializer::Constant { value: 1.0 };

/// Options of [`batch_norm`]; defaults as in `fluid.layers.batch_norm`.
#[derive(Clone, Debug)]
pub struct BatchNorm<'a> {
    /// The activation that is applied to the result.
    pub act: Option<&'a str>,
    /// The running statistics are used, not those of the batch.
    pub is_test: bool,
    /// How much of the running statistics stays in each step.
    pub momentum: f32,
    /// A variable in the place of the number `momentum`.
    pub momentum_var: Option<&'a Var>,
    /// Added to the variance.
    pub epsilon: f32,
    /// How the scale is named, filled and trained.
    pub param_attr: ParamAttr,
    /// How the bias is named, filled and trained.
    pub bias_attr: ParamAttr,
    /// `NCHW` or `NHWC`.
    pub data_layout: &'a str,
    /// Changes nothing here; the program keeps it for Fluid.
    pub in_place: bool,
    /// Start of the names of its variables; a new one is made if `None`.
    pub name: Option<&'a str>,
    /// Name of the running mean; a new one is made if `None`.
    pub moving_mean_name: Option<&'a str>,
    /// Name of the running variance; a new one is made if `None`.
    pub moving_variance_name: Option<&'a str>,
    /// The running statistics take part in model averages.
    pub do_model_average_for_mean_and_var: bool,
    /// The running statistics are used in training, too.
    pub use_global_stats: bool,
}

impl Default for BatchNorm<'_> {
    fn default() -> Self {
        Self {
            act: None,
            is_test: false,
            momentum: 0.9,
            momentum_var: None,
            epsilon: 1e-5,
            param_attr: ParamAttr::default(),
            bias_attr: ParamAttr::default(),
            data_layout: "NCHW",
            in_place: false,
            name: None,
            moving_mean_name: None,
            moving_variance_name: None,
            do_model_average_for_mean_and_var: true,
            use_global_stats: false,
        }
    }
}

impl BatchNorm<'_> {
    /// A running statistic: a parameter that is not trained.
    fn running(&self, name: Option<&str>, value: f32) -> ParamAttr {
        ParamAttr {
            name: name.map(str::to_string),
            initializer: Some(Initializer::Constant { value }),
            trainable: false,
            do_model_average: self.do_model_average_for_mean_and_var,
            ..ParamAttr::default()
        }
    }
}

/// Each channel with mean 0 and variance 1 over the batch, then scaled and shifted.
pub fn batch_norm(b: &mut Builder<'_>, input: &Var, options: BatchNorm<'_>) -> Result<Var> {
    let meta = b.meta(input)?;
    let channels = match options.data_layout {
        "NCHW" => meta.dims.get(1),
        "NHWC" => meta.dims.last(),
        other => {
            let layer = "batch_norm";
            let argument = "data_layout";
            let rule = "must be NCHW or NHWC";
            return Err(Error::BadArgument { layer, argument, rule, actual: other.to_string() });
        }
    };
    let dims = [channels.copied().unwrap_or(-1)];
    let layer = b.layer_name("batch_norm", options.name);
    let mut param = |suffix: &str, attr: &ParamAttr, default_init: Initializer| {
        let (layer, dims) = (layer.as_str(), &dims);
        b.parameter(&NewParam { layer, suffix, attr, dims, dtype: meta.dtype, default_init })
    };
    let scale = param("w", &options.param_attr, ONE)?;
    let bias = param("b", &options.bias_attr, Initializer::ZERO)?;
    let mean = param("w", &options.running(options.moving_mean_name, 0.0), Initializer::ZERO)?;
    let variance = param("w", &options.running(options.moving_variance_name, 1.0), ONE)?;
    let saved = [(); 2].map(|()| b.temp_stopped(&layer, meta.dtype));
    let y = if options.in_place { input.clone() } else { b.temp(&layer, meta.dtype) };
    let mut op = OpDesc::new("batch_norm").input("X", input);
    if let Some(momentum) = options.momentum_var {
        op = op.input("MomentumTensor", momentum);
    }
    b.op(op
        .input("Scale", &scale)
        .input("Bias", &bias)
        .input("Mean", &mean)
        .input("Variance", &variance)
        .output("Y", &y)
        .output("MeanOut", &mean)
        .output("VarianceOut", &variance)
        .output("SavedMean", &saved[0])
        .output("SavedVariance", &saved[1])
        .attr("momentum", options.momentum)
        .attr("epsilon", options.epsilon)
        .attr("is_test", options.is_test)
        .attr("data_layout", options.data_layout)
        .attr("use_global_stats", options.use_global_stats))?;
    activate(b, &layer, y, options.act)
}

/// Options of [`layer_norm`]; defaults as in `fluid.layers.layer_norm`.
#[derive(Clone, Debug)]
pub struct LayerNorm<'a> {
    /// Whether there is a scale.
    pub scale: bool,
    /// Whether there is a bias.
    pub shift: bool,
    /// The first dimension that is normalised.
    pub begin_norm_axis: i32,
    /// Added to the variance.
    pub epsilon: f32,
    /// How the scale is named, filled and trained.
    pub param_attr: ParamAttr,
    /// How the bias is named, filled and trained.
    pub bias_attr: ParamAttr,
    /// The activation that is applied to the result.
    pub act: Option<&'a str>,
    /// Start of the names of its variables; a new one is made if `None`.
    pub name: Option<&'a str>,
}

impl Default for LayerNorm<'_> {
    fn default() -> Self {
        Self {
            scale: true,
            shift: true,
            begin_norm_axis: 1,
            epsilon: 1e-5,
            param_attr: ParamAttr::default(),
            bias_attr: ParamAttr::default(),
            act: None,
            name: None,
        }
    }
}

/// Each example with mean 0 and variance 1, then scaled and shifted.
pub fn layer_norm(b: &mut Builder<'_>, input: &Var, options: LayerNorm<'_>) -> Result<Var> {
    let meta = b.meta(input)?;
    let layer = b.layer_name("layer_norm", options.name);
    let width = meta.dims.get(options.begin_norm_axis.max(0) as usize..).unwrap_or(&[]);
    let dims = [crate::var::n_elements(width)];
    let mut op = OpDesc::new("layer_norm").input("X", input);
    let mut param = |suffix: &str, attr: &ParamAttr, default_init: Initializer| {
        let (layer, dims) = (layer.as_str(), &dims);
        b.parameter(&NewParam { layer, suffix, attr, dims, dtype: meta.dtype, default_init })
    };
    if options.scale {
        op = op.input("Scale", &param("w", &options.param_attr, ONE)?);
    }
    if options.shift {
        op = op.input("Bias", &param("b", &options.bias_attr, Initializer::ZERO)?);
    }
    let [mean, variance] = [(); 2].map(|()| b.temp_stopped(&layer, meta.dtype));
    let y = b.temp(&layer, meta.dtype);
    b.op(op
        .output("Y", &y)
        .output("Mean", &mean)
        .output("Variance", &variance)
        .attr("epsilon", options.epsilon)
        .attr("begin_norm_axis", options.begin_norm_axis))?;
    activate(b, &layer, y, options.act)
}

/// Options of [`group_norm`]; defaults as in `fluid.layers.group_norm`.
#[derive(Clone, Debug)]
pub struct GroupNorm<'a> {
    /// Added to the variance.
    pub epsilon: f32,
    /// `None` for no scale.
    pub param_attr: Option<ParamAttr>,
    /// `None` for no shift.
    pub bias_attr: Option<ParamAttr>,
    /// The activation that is applied to the result.
    pub act: Option<&'a str>,
    /// `NCHW` or `NHWC`.
    pub data_layout: &'a str,
    /// Start of the names of its variables; a new one is made if `None`.
    pub name: Option<&'a str>,
}

impl Default for GroupNorm<'_> {
    fn default() -> Self {
        let data_layout = "NCHW";
        Self {
            epsilon: 1e-5,
            param_attr: None,
            bias_attr: None,
            act: None,
            data_layout,
            name: None,
        }
    }
}

/// Each of `groups` groups of channels of an image with mean 0 and variance 1, then scaled and shifted if asked.
pub fn group_norm(
    b: &mut Builder<'_>,
    input: &Var,
    groups: i32,
    options: GroupNorm<'_>,
) -> Result<Var> {
    let meta = b.meta(input)?;
    let channels = match options.data_layout {
        "NCHW" => meta.dims.get(1),
        "NHWC" => meta.dims.last(),
        other => {
            let (layer, argument) = ("group_norm", "data_layout");
            let (rule, actual) = ("must be NCHW or NHWC", other.to_string());
            return Err(Error::BadArgument { layer, argument, rule, actual });
        }
    };
    let dims = [channels.copied().unwrap_or(-1)];
    let (layer, dtype) = (b.layer_name("group_norm", options.name), meta.dtype);
    let mut op = OpDesc::new("group_norm").input("X", input);
    let one = Initializer::Constant { value: 1.0 };
    for (port, suffix, attr, default_init) in [
        ("Scale", "w", &options.param_attr, one),
        ("Bias", "b", &options.bias_attr, Initializer::ZERO),
    ] {
        let Some(attr) = attr else { continue };
        let new = NewParam { layer: &layer, suffix, attr, dims: &dims, dtype, default_init };
        op = op.input(port, &b.parameter(&new)?);
    }
    let (mean, variance) = (unnamed(b, dtype, true), unnamed(b, dtype, true));
    let y = unnamed(b, dtype, false);
    b.op(op
        .output("Y", &y)
        .output("Mean", &mean)
        .output("Variance", &variance)
        .attr("epsilon", options.epsilon)
        .attr("groups", groups)
        .attr("data_layout", options.data_layout))?;
    activate(b, &layer, y, options.act)
}

/// Options of [`instance_norm`]; defaults as in `fluid.layers.instance_norm`.
#[derive(Clone, Debug)]
pub struct InstanceNorm<'a> {
    /// Added to the variance.
    pub epsilon: f32,
    /// How the scale is named, filled and trained.
    pub param_attr: ParamAttr,
    /// How the shift is named, filled and trained.
    pub bias_attr: ParamAttr,
    /// Start of the names of its variables; a new one is made if `None`.
    pub name: Option<&'a str>,
}

impl Default for InstanceNorm<'_> {
    fn default() -> Self {
        let (param_attr, bias_attr) = (ParamAttr::default(), ParamAttr::default());
        Self { epsilon: 1e-5, param_attr, bias_attr, name: None }
    }
}

/// Each channel of each image with mean 0 and variance 1, then scaled and shifted.
pub fn instance_norm(b: &mut Builder<'_>, input: &Var, options: InstanceNorm<'_>) -> Result<Var> {
    let meta = b.meta(input)?;
    let dims = [meta.dims.get(1).copied().unwrap_or(-1)];
    let (layer, dtype) = (b.layer_name("instance_norm", options.name), meta.dtype);
    let mut param = |suffix: &str, attr: &ParamAttr, value: f32| {
        let default_init = Initializer::Constant { value };
        b.parameter(&NewParam { layer: &layer, suffix, attr, dims: &dims, dtype, default_init })
    };
    let scale = param("w", &options.param_attr, 1.0)?;
    let bias = param("b", &options.bias_attr, 0.0)?;
    let (mean, variance) = (b.temp_stopped(&layer, dtype), b.temp_stopped(&layer, dtype));
    let y = b.temp(&layer, dtype);
    b.op(OpDesc::new("instance_norm")
        .input("X", input)
        .input("Scale", &scale)
        .input("Bias", &bias)
        .output("Y", &y)
        .output("SavedMean", &mean)
        .output("SavedVariance", &variance)
        .attr("epsilon", options.epsilon))?;
    Ok(y)
}

/// Options of [`data_norm`]; defaults as in `fluid.layers.data_norm`.
#[derive(Clone, Debug)]
pub struct DataNorm<'a> {
    /// The activation that is applied to the result.
    pub act: Option<&'a str>,
    /// Added to the sum of squares for each sample.
    pub epsilon: f32,
    /// The count of samples starts here.
    pub batch_size: f32,
    /// The sums start here.
    pub batch_sum: f32,
    /// The sums of squares start here.
    pub batch_square: f32,
    /// Start of the names of the sums; `dn` if `None`.
    pub name: Option<&'a str>,
    /// How many columns a slot has; its first one counts shows. -1 if columns stand alone.
    pub slot_dim: i32,
    /// Changes nothing here; the program keeps it for Fluid.
    pub summary_decay_rate: f32,
}

impl Default for DataNorm<'_> {
    fn default() -> Self {
        Self {
            act: None,
            epsilon: 1e-5,
            batch_size: 1e4,
            batch_sum: 0.0,
            batch_square: 1e4,
            name: None,
            slot_dim: -1,
            summary_decay_rate: 0.999_999_9,
        }
    }
}

/// Each column normalised with sums over all data; the sums are `<name>.batch_size` and so on.
pub fn data_norm(b: &mut Builder<'_>, input: &Var, options: DataNorm<'_>) -> Result<Var> {
    let meta = b.meta(input)?;
    let layer = b.layer_name("data_norm", options.name);
    let prefix = options.name.unwrap_or("dn");
    let dims = [meta.dims.get(1).copied().unwrap_or(-1)];
    let mut sum = |suffix: &str, value: f32| {
        let initializer = Some(Initializer::Constant { value });
        let name = Some(format!("{prefix}.{suffix}"));
        let attr = ParamAttr { name, initializer, ..ParamAttr::default() };
        let layer = layer.as_str();
        let dtype = meta.dtype;
        let default_init = Initializer::ZERO;
        b.parameter(&NewParam { layer, suffix: "w", attr: &attr, dims: &dims, dtype, default_init })
    };
    let batch_size = sum("batch_size", options.batch_size)?;
    let batch_sum = sum("batch_sum", options.batch_sum)?;
    let batch_square = sum("batch_square_sum", options.batch_square)?;
    let (means, scales) = (unnamed(b, meta.dtype, true), unnamed(b, meta.dtype, true));
    let y = unnamed(b, meta.dtype, false);
    b.op(OpDesc::new("data_norm")
        .input("X", input)
        .input("BatchSize", &batch_size)
        .input("BatchSum", &batch_sum)
        .input("BatchSquareSum", &batch_square)
        .output("Y", &y)
        .output("Means", &means)
        .output("Scales", &scales)
        .attr("epsilon", options.epsilon)
        .attr("slot_dim", options.slot_dim)
        .attr("summary_decay_rate", options.summary_decay_rate))?;
    activate(b, &layer, y, options.act)
}

/// A variable of the kind that layers create without a name of their own.
fn unnamed(b: &mut Builder<'_>, dtype: DType, stop_gradient: bool) -> Var {
    let name = b.names.generate("_generated_var");
    let meta = Meta { dtype, ..Meta::default() };
    let block = b.main.current_block();
    b.main.block_mut(block).put_var(VarDesc { stop_gradient, ..VarDesc::new(&name, meta) });
    Var::from(name)
}

layers! { norms;
    /// Counts of shows and clicks in the first two columns become logs, or go (`use_cvm` False).
    fn continuous_value_model(input: Input, cvm: Input; use_cvm: Flag = true) -> Var { |b|
        let y = unnamed(b, b.meta(input)?.dtype, false);
        let op = OpDesc::new("cvm").input("X", input).input("CVM", cvm);
        b.op(op.output("Y", &y).attr("use_cvm", use_cvm))?;
        Ok(y)
    }

    /// Each vector along an axis (1 if None) with length 1.
    fn l2_normalize(x: Floats, axis: MaybeI32; epsilon: f32 = 1e-12, name: Name = None) -> Var { |b|
        let axis = if b.meta(x)?.dims.len() == 1 { 0 } else { axis.unwrap_or(1) };
        let op = one_op(b, "l2_normalize", name).of("norm").input("X", x);
        op.attr("axis", axis).attr("epsilon", epsilon).also("Out")?.also("Norm")?.first()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;
    use crate::layers::{self, Data};

    fn params(net: &Net) -> Vec<(&str, &[i64])> {
        net.main.parameters().map(|p| (&*p.name, &*p.meta.dims)).collect()
    }

    #[test]
    fn batch_norm_names_follow_fluid() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[3, 4, 4], Data::default()).unwrap();
        let options = BatchNorm { act: Some("relu"), ..BatchNorm::default() };
        let y = batch_norm(&mut b, &x, options).unwrap();
        assert_eq!(y.name(), "batch_norm_0.tmp_3");
        let names =
            ["batch_norm_0.w_0", "batch_norm_0.b_0", "batch_norm_0.w_1", "batch_norm_0.w_2"];
        assert_eq!(params(&net), names.map(|name| (name, &[3i64][..])));
        let op = &net.main.block(0).ops[0];
        assert_eq!(op.output_names("VarianceOut"), ["batch_norm_0.w_2"]);
        assert_eq!(op.output_names("SavedMean"), ["batch_norm_0.tmp_0"]);
        assert!(net.main.block(0).var("batch_norm_0.w_1").unwrap().stop_gradient);
    }

    #[test]
    fn layer_norm_names_follow_fluid() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[3, 4], Data::default()).unwrap();
        let y = layer_norm(&mut b, &x, LayerNorm::default()).unwrap();
        assert_eq!(y.name(), "layer_norm_0.tmp_2");
        let expected = [("layer_norm_0.w_0", &[12i64][..]), ("layer_norm_0.b_0", &[12])];
        assert_eq!(params(&net), expected);
    }

    #[test]
    fn data_norm_names_follow_fluid() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[3], Data::default()).unwrap();
        let y = data_norm(&mut b, &x, DataNorm::default()).unwrap();
        assert_eq!(y.name(), "_generated_var_2");
        let z = continuous_value_model(&mut b, &y, &x, false).unwrap();
        assert_eq!((z.name(), &*b.meta(&z).unwrap().dims), ("_generated_var_3", &[-1i64, 1][..]));
        let names = ["dn.batch_size", "dn.batch_sum", "dn.batch_square_sum"];
        assert_eq!(params(&net), names.map(|name| (name, &[3i64][..])));
    }

    #[test]
    fn norms_of_images_follow_fluid() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[4, 3, 3], Data::default()).unwrap();
        let options = GroupNorm { param_attr: Some(ParamAttr::default()), ..GroupNorm::default() };
        let y = group_norm(&mut b, &x, 2, options).unwrap();
        assert_eq!(y.name(), "_generated_var_2");
        let y = instance_norm(&mut b, &x, InstanceNorm::default()).unwrap();
        assert_eq!(y.name(), "instance_norm_0.tmp_2");
        let names = ["group_norm_0.w_0", "instance_norm_0.w_0", "instance_norm_0.b_0"];
        assert_eq!(params(&net), names.map(|name| (name, &[4i64][..])));
    }

    #[test]
    fn refuses_an_unknown_layout() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[3], Data::default()).unwrap();
        let options = BatchNorm { data_layout: "CNHW", ..BatchNorm::default() };
        let error = batch_norm(&mut b, &x, options).unwrap_err();
        assert!(matches!(error, Error::BadArgument { argument: "data_layout", .. }), "{error}");
        let unit = l2_normalize(&mut b, &x, Some(1), 1e-12, None).unwrap();
        assert_eq!(unit.name(), "l2_normalize_0.tmp_0");
    }
}
