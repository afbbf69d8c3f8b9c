//! Layers of matching and text models that have weights of their own, and two fused ones.

use tensor::DType;

use super::activate;
use crate::block::OpDesc;
use crate::builder::{Builder, NewParam, Var};
use crate::error::{Error, Result};
use crate::param::{Initializer, ParamAttr};

/// A weight of a layer.
struct NewWeight<'a> {
    layer: &'a str,
    attr: &'a ParamAttr,
    dtype: DType,
}

impl NewWeight<'_> {
    fn of(&self, b: &mut Builder<'_>, dims: &[i64]) -> Result<Var> {
        let &Self { layer, attr, dtype } = self;
        let default_init = Initializer::XAVIER;
        b.parameter(&NewParam { layer, suffix: "w", attr, dims, dtype, default_init })
    }
}

/// The size of a dimension that must be there.
fn size_of(b: &Builder<'_>, var: &Var, axis: usize) -> Result<i64> {
    Ok(b.meta(var)?.dims.get(axis).copied().unwrap_or(-1))
}

/// Options of [`bilinear_tensor_product`]; defaults as in Fluid.
#[derive(Clone, Debug)]
pub struct BilinearTensorProduct<'a> {
    /// The activation that is applied to the result.
    pub act: Option<&'a str>,
    /// Start of the names of its variables; a new one is made if `None`.
    pub name: Option<&'a str>,
    /// How the weights are named, filled and trained.
    pub param_attr: ParamAttr,
    /// `None` for no bias.
    pub bias_attr: Option<ParamAttr>,
}

impl Default for BilinearTensorProduct<'_> {
    fn default() -> Self {
        let bias_attr = Some(ParamAttr::default());
        Self { act: None, name: None, param_attr: ParamAttr::default(), bias_attr }
    }
}

/// `act(x W y + bias)` with `size` matrices W.
pub fn bilinear_tensor_product(
    b: &mut Builder<'_>,
    x: &Var,
    y: &Var,
    size: i64,
    options: BilinearTensorProduct<'_>,
) -> Result<Var> {
    let layer = b.layer_name("bilinear_tensor_product", options.name);
    let dtype = b.meta(x)?.dtype;
    let dims = [size, size_of(b, x, 1)?, size_of(b, y, 1)?];
    let weight = NewWeight { layer: &layer, attr: &options.param_attr, dtype }.of(b, &dims)?;
    let out = b.temp(&layer, dtype);
    let mut op = OpDesc::new("bilinear_tensor_product").input("X", x).input("Y", y);
    op = op.input("Weight", &weight);
    if let Some(attr) = &options.bias_attr {
        let new = NewParam {
            layer: &layer,
            suffix: "b",
            attr,
            dims: &[1, size],
            dtype,
            default_init: Initializer::ZERO,
        };
        op = op.input("Bias", &b.parameter(&new)?);
    }
    b.op(op.output("Out", &out))?;
    activate(b, &layer, out, options.act)
}

/// Each step plus what comes within `future_context_size` steps, each with weights of its own.
pub fn row_conv(
    b: &mut Builder<'_>,
    input: &Var,
    future_context_size: i64,
    param_attr: &ParamAttr,
    act: Option<&str>,
) -> Result<Var> {
    let layer = b.layer_name("row_conv", None);
    let meta = b.meta(input)?;
    let dims = [future_context_size.saturating_add(1), meta.dims.last().copied().unwrap_or(-1)];
    let filter = NewWeight { layer: &layer, attr: param_attr, dtype: meta.dtype }.of(b, &dims)?;
    let out = b.temp(&layer, meta.dtype);
    b.op(OpDesc::new("row_conv").input("X", input).input("Filter", &filter).output("Out", &out))?;
    activate(b, &layer, out, act)
}

/// Options of [`fused_elemwise_activation`]; defaults as in Fluid.
#[derive(Clone, Debug)]
pub struct FusedElemwiseActivation {
    /// Where the dimensions of the shorter input begin.
    pub axis: i32,
    /// The factor of `scale`.
    pub scale: f32,
    /// The inner function's result is kept for the gradient.
    pub save_intermediate_out: bool,
}

impl Default for FusedElemwiseActivation {
    fn default() -> Self {
        Self { axis: -1, scale: 0.0, save_intermediate_out: true }
    }
}

/// A function of one number and one of two, composed in the order of the list.
pub fn fused_elemwise_activation(
    b: &mut Builder<'_>,
    x: &Var,
    y: &Var,
    functor_list: &[String],
    options: FusedElemwiseActivation,
) -> Result<Var> {
    if functor_list.len() != 2 {
        let (layer, argument) = ("fused_elemwise_activation", "functor_list");
        let rule = "functor_list should be a list of str, and the length should be 2.";
        return Err(Error::BadArgument {
            layer,
            argument,
            rule,
            actual: format!("{functor_list:?}"),
        });
    }
    let layer = b.layer_name("fused_elemwise_activation", None);
    let dtype = b.meta(x)?.dtype;
    let (out, inner) = (b.temp(&layer, dtype), b.temp(&layer, dtype));
    b.op(OpDesc::new("fused_elemwise_activation")
        .input("X", x)
        .input("Y", y)
        .output("Out", &out)
        .output("IntermediateOut", &inner)
        .attr("axis", options.axis)
        .attr("scale", options.scale)
        .attr("save_intermediate_out", options.save_intermediate_out)
        .attr("functor_list", functor_list.to_vec()))?;
    Ok(out)
}

/// Options of [`fused_embedding_seq_pool`]; defaults as in Fluid.
#[derive(Clone, Debug)]
pub struct FusedEmbeddingSeqPool<'a> {
    /// Gradients are the rows that were looked up.
    pub is_sparse: bool,
    /// This id is left out; a negative one counts from the end of the table.
    pub padding_idx: Option<i64>,
    /// `sum`; no other is known.
    pub combiner: &'a str,
    /// How the table is named, filled and trained.
    pub param_attr: ParamAttr,
    /// Element type of the table.
    pub dtype: DType,
}

/// The sums of the rows that each sequence of ids names, in a table of `size`.
pub fn fused_embedding_seq_pool(
    b: &mut Builder<'_>,
    input: &Var,
    size: [i64; 2],
    options: FusedEmbeddingSeqPool<'_>,
) -> Result<Var> {
    let layer = b.layer_name("fused_embedding_seq_pool", None);
    let dtype = options.dtype;
    let weight = NewWeight { layer: &layer, attr: &options.param_attr, dtype }.of(b, &size)?;
    let out = b.temp(&layer, dtype);
    let padding = match options.padding_idx {
        None => -1,
        Some(id @ 0..) => id,
        Some(from_end) => size[0] + from_end,
    };
    b.op(OpDesc::new("fused_embedding_seq_pool")
        .input("Ids", input)
        .input("W", &weight)
        .output("Out", &out)
        .attr("is_sparse", options.is_sparse)
        .attr("combiner", options.combiner)
        .attr("padding_idx", padding))?;
    Ok(out)
}

/// Options of [`match_matrix_tensor`]; defaults as in Fluid.
#[derive(Clone, Debug)]
pub struct MatchMatrixTensor<'a> {
    /// The activation that is applied to the result.
    pub act: Option<&'a str>,
    /// How the weights are named, filled and trained.
    pub param_attr: ParamAttr,
    /// Element type of the weights.
    pub dtype: DType,
    /// Start of the names of its variables; a new one is made if `None`.
    pub name: Option<&'a str>,
}

/// Each row of a sequence times weights times each row of another, and the rows times the weights.
pub fn match_matrix_tensor(
    b: &mut Builder<'_>,
    x: &Var,
    y: &Var,
    channel_num: i64,
    options: MatchMatrixTensor<'_>,
) -> Result<(Var, Var)> {
    let layer = b.layer_name("match_matrix_tensor", options.name);
    let dtype = options.dtype;
    let dims = [size_of(b, x, 1)?, channel_num, size_of(b, y, 1)?];
    let weight = NewWeight { layer: &layer, attr: &options.param_attr, dtype }.of(b, &dims)?;
    let (out, tmp) = (b.temp(&layer, dtype), b.temp_stopped(&layer, dtype));
    let op = OpDesc::new("match_matrix_tensor").input("X", x).input("Y", y).input("W", &weight);
    b.op(op.output("Out", &out).output("Tmp", &tmp).attr("dim_t", channel_num as i32))?;
    Ok((activate(b, &layer, out, options.act)?, tmp))
}

/// Options of [`var_conv_2d`]; defaults as in Fluid.
#[derive(Clone, Debug)]
pub struct VarConv2d<'a> {
    /// Channels of the images.
    pub input_channel: i32,
    /// Channels of the result.
    pub output_channel: i32,
    /// Height and width of a window.
    pub filter_size: [i32; 2],
    /// How far windows are apart.
    pub stride: [i32; 2],
    /// How the weights are named, filled and trained.
    pub param_attr: ParamAttr,
    /// The activation that is applied to the result.
    pub act: Option<&'a str>,
    /// Element type of the weights.
    pub dtype: DType,
    /// Start of the names of its variables; a new one is made if `None`.
    pub name: Option<&'a str>,
}

/// A convolution of images of the sizes that the sequences of `row` and `col` have.
pub fn var_conv_2d(
    b: &mut Builder<'_>,
    input: &Var,
    row: &Var,
    col: &Var,
    options: VarConv2d<'_>,
) -> Result<Var> {
    let layer = b.layer_name("var_conv_2d", options.name);
    let (dtype, [height, width]) = (options.dtype, options.filter_size);
    let window = i64::from(options.input_channel) * i64::from(height) * i64::from(width);
    let weight = NewWeight { layer: &layer, attr: &options.param_attr, dtype };
    let weight = weight.of(b, &[i64::from(options.output_channel), window])?;
    let (out, windows) = (b.temp(&layer, dtype), b.temp_stopped(&layer, dtype));
    b.op(OpDesc::new("var_conv_2d")
        .input("X", input)
        .input("ROW", row)
        .input("COLUMN", col)
        .input("W", &weight)
        .output("Out", &out)
        .output("Col", &windows)
        .attr("InputChannel", options.input_channel)
        .attr("OutputChannel", options.output_channel)
        .attr("StrideH", options.stride[0])
        .attr("StrideW", options.stride[1])
        .attr("KernelH", height)
        .attr("KernelW", width))?;
    activate(b, &layer, out, options.act)
}

/// Options of [`tree_conv`]; defaults as in Fluid.
#[derive(Clone, Debug)]
pub struct TreeConv<'a> {
    /// How many convolutions.
    pub num_filters: i64,
    /// How deep a convolution goes below a node.
    pub max_depth: i32,
    /// The activation that is applied to the result.
    pub act: Option<&'a str>,
    /// How the weights are named, filled and trained.
    pub param_attr: ParamAttr,
    /// `None` for no bias.
    pub bias_attr: Option<ParamAttr>,
    /// Start of the names of its variables; a new one is made if `None`.
    pub name: Option<&'a str>,
}

impl Default for TreeConv<'_> {
    fn default() -> Self {
        Self {
            num_filters: 1,
            max_depth: 2,
            act: Some("tanh"),
            param_attr: ParamAttr::default(),
            bias_attr: Some(ParamAttr::default()),
            name: None,
        }
    }
}

/// A convolution over the nodes of trees, `output_size` numbers for each.
pub fn tree_conv(
    b: &mut Builder<'_>,
    nodes_vector: &Var,
    edge_set: &Var,
    output_size: i64,
    options: TreeConv<'_>,
) -> Result<Var> {
    let layer = b.layer_name("tree_conv", options.name);
    let dtype = b.meta(nodes_vector)?.dtype;
    let dims = [size_of(b, nodes_vector, 2)?, 3, output_size, options.num_filters];
    let filter = NewWeight { layer: &layer, attr: &options.param_attr, dtype }.of(b, &dims)?;
    let mut out = b.temp(&layer, dtype);
    b.op(OpDesc::new("tree_conv")
        .input("NodesVector", nodes_vector)
        .input("EdgeSet", edge_set)
        .input("Filter", &filter)
        .output("Out", &out)
        .attr("max_depth", options.max_depth))?;
    if let Some(attr) = &options.bias_attr {
        let dims = b.meta(&out)?.dims;
        let new = NewParam {
            layer: &layer,
            suffix: "b",
            attr,
            dims: dims.get(1..).unwrap_or_default(),
            dtype,
            default_init: Initializer::ZERO,
        };
        let (bias, sum) = (b.parameter(&new)?, b.temp(&layer, dtype));
        let op = OpDesc::new("elementwise_add").input("X", &out).input("Y", &bias);
        b.op(op.output("Out", &sum).attr("axis", 1))?;
        out = sum;
    }
    activate(b, &layer, out, options.act)
}

/// Options of [`search_pyramid_hash`]; they have no defaults in Fluid.
#[derive(Clone, Debug)]
pub struct PyramidHash<'a> {
    /// Numbers in a row.
    pub num_emb: i32,
    /// How many places the hash chooses from.
    pub space_len: i32,
    /// The longest run of tokens.
    pub pyramid_layer: i32,
    /// Numbers taken from one place.
    pub rand_len: i32,
    /// How many runs are left out in training.
    pub drop_out_percent: f32,
    /// Runs are left out; otherwise results are multiplied by `drop_out_percent`.
    pub is_training: bool,
    /// The filters are asked.
    pub use_filter: bool,
    /// Numbers of the filter of runs that are wanted.
    pub white_list_len: i32,
    /// Numbers of the filter of runs that are not.
    pub black_list_len: i32,
    /// What drawing starts from.
    pub seed: i32,
    /// The learning rate of the weights.
    pub lr: f32,
    /// How weights and filters are named and filled: weights, wanted, unwanted.
    pub attrs: [ParamAttr; 3],
    /// Start of the names of its variables; a new one is made if `None`.
    pub name: Option<&'a str>,
    /// Names of those that servers update, with commas between them.
    pub distribute_update_vars: &'a str,
    /// Element type of the weights.
    pub dtype: DType,
}

/// A row for each run of tokens, made of stretches of weights that its hash finds.
pub fn search_pyramid_hash(
    b: &mut Builder<'_>,
    input: &Var,
    options: PyramidHash<'_>,
) -> Result<Var> {
    let layer = b.layer_name("search_pyramid_hash", options.name);
    let dtype = options.dtype;
    let n_weights = i64::from(options.space_len) + i64::from(options.rand_len);
    let lists = [
        ("W", n_weights),
        ("WhiteList", i64::from(options.white_list_len)),
        ("BlackList", i64::from(options.black_list_len)),
    ];
    let mut op = OpDesc::new("pyramid_hash").input("X", input);
    for ((port, n), attr) in lists.into_iter().zip(&options.attrs) {
        if n <= 0 && port != "W" {
            continue;
        }
        let var = NewWeight { layer: &layer, attr, dtype }.of(b, &[n, 1])?;
        if let Some(desc) = b.main.block_mut(0).var_mut(var.name()) {
            desc.stop_gradient = true;
        }
        op = op.input(port, &var);
    }
    let [out, drop_pos, tokens] = [(); 3].map(|()| b.temp(&layer, dtype));
    b.op(op
        .output("Out", &out)
        .output("X_Temp_Out", &tokens)
        .output("DropPos", &drop_pos)
        .attr("num_emb", options.num_emb)
        .attr("space_len", options.space_len)
        .attr("pyramid_layer", options.pyramid_layer)
        .attr("rand_len", options.rand_len)
        .attr("drop_out_percent", options.drop_out_percent)
        .attr("is_training", i32::from(options.is_training))
        .attr("use_filter", options.use_filter)
        .attr("white_list_len", options.white_list_len)
        .attr("black_list_len", options.black_list_len)
        .attr("seed", options.seed)
        .attr("lr", options.lr)
        .attr("distribute_update_vars", options.distribute_update_vars))?;
    Ok(out)
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
        let lod = Data { lod_level: 1, ..Data::default() };
        let x = layers::data(&mut b, "x", &[3], lod.clone()).unwrap();
        let y = layers::data(&mut b, "y", &[4], lod).unwrap();
        let out =
            bilinear_tensor_product(&mut b, &x, &y, 5, BilinearTensorProduct::default()).unwrap();
        assert_eq!(
            (out.name(), b.meta(&out).unwrap().dims),
            ("bilinear_tensor_product_0.tmp_0", vec![-1, 5])
        );
        let out = row_conv(&mut b, &x, 2, &ParamAttr::default(), Some("relu")).unwrap();
        assert_eq!((out.name(), b.meta(&out).unwrap().dims), ("row_conv_0.tmp_1", vec![-1, 3]));
        let options = MatchMatrixTensor {
            act: None,
            param_attr: ParamAttr::default(),
            dtype: DType::F32,
            name: None,
        };
        let (out, tmp) = match_matrix_tensor(&mut b, &x, &y, 2, options).unwrap();
        assert_eq!(
            (out.name(), tmp.name()),
            ("match_matrix_tensor_0.tmp_0", "match_matrix_tensor_0.tmp_1")
        );
        let params: Vec<_> = b.main.parameters().map(|p| (&*p.name, &*p.meta.dims)).collect();
        let expected: [(&str, &[i64]); 4] = [
            ("bilinear_tensor_product_0.w_0", &[5, 3, 4]),
            ("bilinear_tensor_product_0.b_0", &[1, 5]),
            ("row_conv_0.w_0", &[3, 3]),
            ("match_matrix_tensor_0.w_0", &[3, 2, 4]),
        ];
        assert_eq!(params, expected);
    }

    #[test]
    fn refuses_lists_that_are_not_two_functions() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[3], Data::default()).unwrap();
        let one = ["relu".to_string()];
        let error =
            fused_elemwise_activation(&mut b, &x, &x, &one, FusedElemwiseActivation::default());
        assert!(matches!(error.unwrap_err(), Error::BadArgument { argument: "functor_list", .. }));
    }
}
