//! Layers: functions that create parameters and append ops, with Fluid's names and defaults.
//!
//! One layer per file (families of like ones share a file). A layer takes what it must have as
//! arguments, and the rest as a struct whose `Default` is Fluid's default.

pub mod init;

mod crf;
mod cross_entropy;
mod data;
mod fc;
mod loss;
mod mean;
mod metric;
mod recurrent;
mod sequence;
mod sequence_conv;
mod sequence_nets;
mod sequence_pool;
mod softmax;
mod sorting;
mod tdm;

pub use crf::{crf_decoding, linear_chain_crf};
pub use cross_entropy::{
    CrossEntropy, SoftmaxWithCrossEntropy, cross_entropy, softmax_with_cross_entropy,
};
pub use data::{Data, data};
pub use fc::{Fc, fc};
pub use loss::{
    LOG_LOSS_EPSILON, MarginRankLoss, SigmoidCrossEntropy, SmoothL1, bpr_loss, huber_loss,
    kldiv_loss, log_loss, margin_rank_loss, rank_loss, sigmoid_cross_entropy_with_logits,
    smooth_l1,
};
pub use mean::mean;
pub use metric::{Accuracy, Auc, AucVars, accuracy, auc};
pub use recurrent::{
    DynamicGru, DynamicLstm, GruStep, GruUnit, LstmUnit, dynamic_gru, dynamic_lstm, gru_unit,
    lstm_unit,
};
pub use sequence::{
    MaxLen, Sequences, lod_append, lod_reset, sequence_concat, sequence_enumerate, sequence_expand,
    sequence_expand_as, sequence_mask, sequence_pad, sequence_reshape, sequence_reverse,
    sequence_slice, sequence_softmax, sequence_unpad,
};
pub use sequence_conv::{SequenceConv, sequence_conv};
pub use sequence_nets::{SequenceConvPool, sequence_conv_pool};
pub use sequence_pool::{SequencePool, sequence_first_step, sequence_last_step, sequence_pool};
pub use softmax::{Softmax, softmax};
pub use sorting::{Argsort, Count, argmax, argmin, argsort, topk};
pub use tdm::{Layers, TdmChild, TdmSampler, tdm_child, tdm_sampler, tdm_sampler_list};

use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::Result;

/// Appends the activation op `act` to a layer's result; `None` leaves it as it is.
pub(crate) fn activate(b: &mut Builder<'_>, layer: &str, x: Var, act: Option<&str>) -> Result<Var> {
    let Some(act) = act else { return Ok(x) };
    let out = b.temp(layer, b.meta(&x)?.dtype);
    b.op(OpDesc::new(act).input("X", &x).output("Out", &out))?;
    Ok(out)
}
