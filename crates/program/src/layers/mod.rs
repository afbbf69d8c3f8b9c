//! Layers: functions that create parameters and append ops, with Fluid's names and defaults.
//!
//! A family of like layers is a file. A layer that is one op, or a few, is declared by `layers!`
//! ([`declare`]): its function, its options and its Python come from there. Those that create
//! parameters or blocks are functions that take what they must have as arguments, and the rest as a
//! struct whose `Default` is Fluid's default.

#[macro_use]
mod declare;

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
mod decoding;
mod dropout;
mod elementwise;
mod embedding;
mod fc;
mod fill;
mod gather;
mod if_else;
mod image;
mod image_nd;
mod index;
mod join;
mod linalg;
mod loss;
mod lr;
mod lstmp;
mod matching;
mod matmul;
mod metric;
mod nets;
mod normalize;
mod picture;
mod prelu;
mod print;
mod random;
mod ranking;
mod ranks;
mod recurrent;
mod reduce;
mod reshape;
mod results;
mod sampled;
mod scale;
mod selected_rows;
mod sequence;
mod sequence_conv;
mod sequence_nets;
mod sizes;
mod sorting;
mod static_rnn;
mod tdm;

families! { ($)
    activation: activations,
    array: arrays,
    compare: comparisons,
    cross_entropy: cross_entropies,
    decoding: decodings,
    dropout: regularizing,
    elementwise: elementwise_layers,
    fill: fills,
    gather: gathers,
    join: joins,
    linalg: linear_algebra,
    loss: losses,
    matmul: products,
    metric: metrics,
    normalize: norms,
    picture: pictures,
    random: randoms,
    ranking: rankings,
    ranks: questions,
    reduce: reductions,
    reshape: shapes,
    scale: scales,
    selected_rows: keyed_rows,
    sequence: sequences,
    sorting: sorts,
}

pub use control::{
    Script, Switch, branch, choose, cond, run_if, run_unless_empty, run_while, while_loop,
};
pub use create::{
    CreateGlobalVar, CreateParameter, create_global_var, create_parameter, create_tensor,
};
pub use crf::{crf_decoding, linear_chain_crf};
pub use data::{Data, data};
pub use embedding::{Embedding, SparseEmbedding, embedding, embedding_v2, sparse_embedding};
pub use fc::{Fc, fc};
pub use if_else::IfElse;
pub use image::{Conv2d, Padding, Pool2d, adaptive_pool2d, conv2d, pool2d};
pub use image_nd::{
    ConvNd, PaddingNd, Pool3d, adaptive_pool3d, conv2d_transpose, conv3d, conv3d_transpose, pool3d,
};
pub use index::{Index, IndexSteps, index};
pub use lr::{
    Decay, LearningRate, PolynomialDecay, StepCounter, autoincreased_step_counter, cosine_decay,
    exponential_decay, inverse_time_decay, linear_lr_warmup, natural_exp_decay, noam_decay,
    piecewise_decay, polynomial_decay,
};
pub use lstmp::{DynamicLstmp, dynamic_lstmp};
pub use matching::{
    BilinearTensorProduct, FusedElemwiseActivation, FusedEmbeddingSeqPool, MatchMatrixTensor,
    PyramidHash, TreeConv, VarConv2d, bilinear_tensor_product, fused_elemwise_activation,
    fused_embedding_seq_pool, match_matrix_tensor, row_conv, search_pyramid_hash, tree_conv,
    var_conv_2d,
};
pub use nets::{
    Attention, ConvPoolSizes, ImgConvGroup, SimpleImgConvPool, glu, img_conv_group,
    scaled_dot_product_attention, simple_img_conv_pool,
};
pub use prelu::{Prelu, PreluMode, prelu};
pub use print::{Print, print};
pub use recurrent::{
    DynamicGru, DynamicLstm, GruStep, GruUnit, LstmUnit, dynamic_gru, dynamic_lstm, gru_unit,
    lstm_unit,
};
pub use results::Results;
pub use sampled::{CenterLoss, HSigmoid, Nce, NceSampler, center_loss, hsigmoid, nce};
pub use sequence_conv::{SequenceConv, sequence_conv};
pub use sequence_nets::{SequenceConvPool, sequence_conv_pool};
pub use sizes::{Amount, Size, Sizes};
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
