//! Layers: functions that create parameters and append ops, with Fluid's names and defaults.
//!
//! One layer per file (families of like ones share a file). A layer takes what it must have as
//! arguments, and the rest as a struct whose `Default` is Fluid's default.

pub mod init;
pub mod math;

mod activation;
mod append;
mod array;
mod compare;
mod control;
mod create;
mod crf;
mod cross_entropy;
mod data;
mod dropout;
pub(crate) mod dtypes;
mod elementwise;
mod embedding;
mod fc;
mod fill;
mod gather;
mod if_else;
mod image;
mod index;
mod join;
mod loss;
mod lr;
mod matmul;
mod mean;
mod metric;
mod nets;
mod normalize;
mod prelu;
mod print;
mod random;
mod ranks;
mod recurrent;
mod reduce;
mod reshape;
mod scale;
mod selected_rows;
mod sequence;
mod sequence_conv;
mod sequence_nets;
mod sequence_pool;
mod sizes;
mod softmax;
mod sorting;
mod static_rnn;
mod tdm;

pub use activation::{
    Brelu, Elu, Gelu, HardShrink, HardSigmoid, HardSwish, LeakyRelu, Pow, Relu6, SoftRelu,
    Softshrink, Stanh, Swish, ThresholdedRelu, abs, acos, asin, atan, brelu, ceil, cos, elu, exp,
    floor, gelu, hard_shrink, hard_sigmoid, hard_swish, leaky_relu, log, logsigmoid, pow,
    reciprocal, relu, relu6, round, rsqrt, sigmoid, sign, sin, soft_relu, softplus, softshrink,
    softsign, sqrt, square, stanh, swish, tanh, tanh_shrink, thresholded_relu,
};
pub use array::{
    TensorArrayToTensor, array_length, array_read, array_write, create_array,
    tensor_array_to_tensor,
};
pub use compare::{
    Logical, equal, greater_equal, greater_than, has_inf, has_nan, isfinite, less_equal, less_than,
    logical_and, logical_not, logical_or, logical_xor, not_equal, where_index,
};
pub use control::{Switch, choose, cond, leave, run_if, run_unless_empty, run_while, while_loop};
pub use create::{
    CreateGlobalVar, CreateParameter, create_global_var, create_parameter, create_tensor,
};
pub use crf::{crf_decoding, linear_chain_crf};
pub use cross_entropy::{
    CrossEntropy, SoftmaxWithCrossEntropy, cross_entropy, softmax_with_cross_entropy,
};
pub use data::{Data, data};
pub use dropout::{Dropout, LabelSmooth, dropout, label_smooth};
pub use elementwise::{
    Elementwise, elementwise_add, elementwise_div, elementwise_floordiv, elementwise_max,
    elementwise_min, elementwise_mod, elementwise_mul, elementwise_pow, elementwise_sub,
    square_error_cost,
};
pub use embedding::{Embedding, SparseEmbedding, embedding, embedding_v2, sparse_embedding};
pub use fc::{Fc, fc};
pub use fill::{
    BatchSizeLike, FillConstant, assign, assign_value, fill_constant,
    fill_constant_batch_size_like, ones, ones_like, range, shape, zeros, zeros_like,
};
pub use gather::{Depth, Updates, gather, gather_nd, one_hot, one_hot_v2, scatter};
pub use if_else::{IfElse, merge_lod_tensor, split_lod_tensor};
pub use image::{Conv2d, Padding, Pool2d, adaptive_pool2d, conv2d, pool2d};
pub use index::{Place, index};
pub use join::{Parts, concat, multiplex, split, stack, sum, sums, unstack};
pub use loss::{
    LOG_LOSS_EPSILON, MarginRankLoss, SigmoidCrossEntropy, SmoothL1, bpr_loss, huber_loss,
    kldiv_loss, log_loss, margin_rank_loss, mse_loss, rank_loss, sigmoid_cross_entropy_with_logits,
    smooth_l1,
};
pub use lr::{
    Decay, PolynomialDecay, StepCounter, autoincreased_step_counter, cosine_decay,
    exponential_decay, inverse_time_decay, linear_lr_warmup, natural_exp_decay, noam_decay,
    piecewise_decay, polynomial_decay,
};
pub use matmul::{Matmul, Mul, cos_sim, matmul, mul};
pub use mean::mean;
pub use metric::{Accuracy, Auc, AucVars, accuracy, auc};
pub use nets::{
    Attention, ConvPoolSizes, ImgConvGroup, SimpleImgConvPool, glu, img_conv_group,
    scaled_dot_product_attention, simple_img_conv_pool,
};
pub use normalize::{
    BatchNorm, DataNorm, L2_NORMALIZE_EPSILON, LayerNorm, batch_norm, continuous_value_model,
    data_norm, l2_normalize, layer_norm,
};
pub use prelu::{Prelu, PreluMode, prelu};
pub use print::{Print, print};
pub use random::{
    GaussianRandom, Randint, UniformRandom, gaussian_random, gaussian_random_batch_size_like,
    randint, shuffle_batch, uniform_random, uniform_random_batch_size_like,
};
pub use ranks::{get_places, is_empty, lod_rank_table, max_sequence_len};
pub use recurrent::{
    DynamicGru, DynamicLstm, GruStep, GruUnit, LstmUnit, dynamic_gru, dynamic_lstm, gru_unit,
    lstm_unit,
};
pub use reduce::{
    Reduce, reduce_all, reduce_any, reduce_max, reduce_mean, reduce_min, reduce_prod, reduce_sum,
};
pub use reshape::{
    Cumsum, Cut, Reshape, cumsum, expand, expand_as, flatten, pad, reshape, reverse, slice,
    squeeze, transpose, unsqueeze,
};
pub use scale::{Increment, Scale, cast, clip, clip_by_norm, increment, scale};
pub use selected_rows::{get_tensor_from_selected_rows, merge_selected_rows};
pub use sequence::{
    MaxLen, Sequences, lod_append, lod_reset, sequence_concat, sequence_enumerate, sequence_expand,
    sequence_expand_as, sequence_mask, sequence_pad, sequence_reshape, sequence_reverse,
    sequence_slice, sequence_softmax, sequence_unpad,
};
pub use sequence_conv::{SequenceConv, sequence_conv};
pub use sequence_nets::{SequenceConvPool, sequence_conv_pool};
pub use sequence_pool::{SequencePool, sequence_first_step, sequence_last_step, sequence_pool};
pub use sizes::{Size, Sizes};
pub use softmax::{Softmax, softmax};
pub use sorting::{Argsort, Count, argmax, argmin, argsort, topk};
pub use static_rnn::{Boot, StaticRnn};
pub use tdm::{Layers, TdmChild, TdmSampler, tdm_child, tdm_sampler, tdm_sampler_list};

use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::Result;

/// Appends the activation op `act` to a layer's result; `None` leaves it as it is.
pub(crate) fn activate(b: &mut Builder<'_>, layer: &str, x: Var, act: Option<&str>) -> Result<Var> {
    match act {
        Some(act) => append(b, layer, &x, OpDesc::new(act)),
        None => Ok(x),
    }
}

/// Appends `op` with `x` at its port X; Out is a new variable of the layer, of x's type.
pub(crate) fn append(b: &mut Builder<'_>, layer: &str, x: &Var, op: OpDesc) -> Result<Var> {
    let out = b.temp(layer, b.meta(x)?.dtype);
    b.op(op.input("X", x).output("Out", &out))?;
    Ok(out)
}
