//! Which element types the layers of Fluid 1.8.5 accept: they refuse others before anything is built.
//!
//! Ops that programs bring themselves are not held to this; what their kernels cannot do they say
//! when they run.

use tensor::DType::{self, Bool, F16, F32, F64, I8, I16, I32, I64, U8};

use crate::block::OpDesc;
use crate::error::{Error, Result};
use crate::names::EMPTY;
use crate::program::{BlockId, Program};

/// Types, and the ports (op, port) of which a layer demands them.
type Demand = (&'static [DType], &'static [(&'static str, &'static str)]);

const DEMANDS: &[Demand] = &[
    (
        &[F16, F32, F64],
        &[
            ("abs", "X"),
            ("acos", "X"),
            ("asin", "X"),
            ("atan", "X"),
            ("batch_norm", "X"),
            ("bpr_loss", "X"),
            ("brelu", "X"),
            ("ceil", "X"),
            ("clip", "X"),
            ("conv2d", "Input"),
            ("cos", "X"),
            ("cross_entropy", "X"),
            ("cross_entropy2", "X"),
            ("cvm", "X"),
            ("depthwise_conv2d", "Input"),
            ("dropout", "X"),
            ("elu", "X"),
            ("exp", "X"),
            ("floor", "X"),
            ("gelu", "X"),
            ("hard_shrink", "X"),
            ("hard_sigmoid", "X"),
            ("hard_swish", "X"),
            ("leaky_relu", "X"),
            ("logsigmoid", "X"),
            ("matmul", "X"),
            ("matmul", "Y"),
            ("mean", "X"),
            ("mul", "X"),
            ("mul", "Y"),
            ("reciprocal", "X"),
            ("relu", "X"),
            ("relu6", "X"),
            ("round", "X"),
            ("rsqrt", "X"),
            ("sigmoid", "X"),
            ("sigmoid_cross_entropy_with_logits", "X"),
            ("sign", "X"),
            ("sin", "X"),
            ("soft_relu", "X"),
            ("softmax", "X"),
            ("softplus", "X"),
            ("softshrink", "X"),
            ("softsign", "X"),
            ("sqrt", "X"),
            ("square", "X"),
            ("stanh", "X"),
            ("swish", "X"),
            ("tanh", "X"),
            ("tanh_shrink", "X"),
            ("thresholded_relu", "X"),
        ],
    ),
    (
        &[F32, F64, I32, I64],
        &[
            ("equal", "X"),
            ("equal", "Y"),
            ("greater_equal", "X"),
            ("greater_equal", "Y"),
            ("greater_than", "X"),
            ("greater_than", "Y"),
            ("increment", "X"),
            ("isfinite", "X"),
            ("less_equal", "X"),
            ("less_equal", "Y"),
            ("less_than", "X"),
            ("less_than", "Y"),
            ("lod_reset", "X"),
            ("not_equal", "X"),
            ("not_equal", "Y"),
            ("pow", "X"),
            ("reduce_mean", "X"),
            ("reduce_sum", "X"),
            ("sequence_expand", "X"),
            ("sequence_expand_as", "X"),
            ("sequence_pad", "PadValue"),
            ("sequence_pad", "X"),
            ("sequence_reshape", "X"),
            ("sequence_slice", "X"),
            ("sequence_unpad", "X"),
            ("shape", "Input"),
            ("sum", "X"),
        ],
    ),
    (
        &[F16, F32, F64, I32, I64],
        &[
            ("elementwise_add", "X"),
            ("elementwise_add", "Y"),
            ("elementwise_div", "X"),
            ("elementwise_div", "Y"),
            ("elementwise_floordiv", "X"),
            ("elementwise_floordiv", "Y"),
            ("elementwise_max", "X"),
            ("elementwise_max", "Y"),
            ("elementwise_min", "X"),
            ("elementwise_min", "Y"),
            ("elementwise_mod", "X"),
            ("elementwise_mod", "Y"),
            ("elementwise_mul", "X"),
            ("elementwise_mul", "Y"),
            ("elementwise_pow", "X"),
            ("elementwise_pow", "Y"),
            ("elementwise_sub", "X"),
            ("elementwise_sub", "Y"),
            ("pad", "X"),
            ("pool2d", "X"),
            ("reshape2", "X"),
            ("stack", "X"),
            ("transpose2", "X"),
        ],
    ),
    (
        &[F32, F64],
        &[
            ("auc", "Predict"),
            ("crf_decoding", "Emission"),
            ("gru", "Input"),
            ("gru_unit", "HiddenPrev"),
            ("gru_unit", "Input"),
            ("huber_loss", "X"),
            ("huber_loss", "Y"),
            ("kldiv_loss", "Target"),
            ("kldiv_loss", "X"),
            ("layer_norm", "X"),
            ("linear_chain_crf", "Emission"),
            ("log", "X"),
            ("lstm", "Input"),
            ("lstm_unit", "C_prev"),
            ("norm", "X"),
            ("prelu", "X"),
            ("sequence_conv", "X"),
            ("sequence_softmax", "X"),
            ("smooth_l1_loss", "X"),
            ("smooth_l1_loss", "Y"),
            ("uniform_random_batch_size_like", "Input"),
        ],
    ),
    (
        &[F32],
        &[
            ("clip_by_norm", "X"),
            ("cos_sim", "X"),
            ("cos_sim", "Y"),
            ("log_loss", "Labels"),
            ("log_loss", "Predicted"),
            ("margin_rank_loss", "Label"),
            ("pow", "FactorTensor"),
            ("rank_loss", "Label"),
            ("rank_loss", "Left"),
            ("rank_loss", "Right"),
            ("sequence_pool", "X"),
        ],
    ),
    (
        &[Bool],
        &[
            ("logical_and", "X"),
            ("logical_and", "Y"),
            ("logical_not", "X"),
            ("logical_or", "X"),
            ("logical_or", "Y"),
            ("logical_xor", "X"),
            ("logical_xor", "Y"),
            ("reduce_all", "X"),
            ("reduce_any", "X"),
        ],
    ),
    (
        &[I32, I64],
        &[
            ("auc", "Label"),
            ("multiplex", "Ids"),
            ("one_hot", "X"),
            ("sequence_enumerate", "X"),
            ("sequence_slice", "Length"),
            ("sequence_slice", "Offset"),
        ],
    ),
    (
        &[I64],
        &[
            ("linear_chain_crf", "Label"),
            ("lookup_table", "Ids"),
            ("read_from_array", "I"),
            ("sequence_unpad", "Length"),
            ("write_to_array", "I"),
        ],
    ),
    (
        &[F32, F64, I32, I64, Bool],
        &[("expand", "X"), ("expand_as", "X"), ("fill_any_like", "X"), ("fill_zeros_like", "X")],
    ),
    (&[F16, F32, F64, I32, I64, Bool], &[("assign", "X"), ("concat", "X"), ("split", "X")]),
    (&[F32, F64, I16, I32, I64, U8], &[("arg_max", "X"), ("arg_min", "X"), ("argsort", "X")]),
    (&[F32, F64, I8, I32, I64], &[("flatten2", "X"), ("sequence_reverse", "X")]),
    (&[F16, F32, F64, I32, I64, U8, Bool], &[("cast", "X")]),
    (&[F16, F32, F64, I8, I16, I32, I64, U8], &[("scale", "X")]),
    (&[F16, F32, F64, I8, I32, I64], &[("squeeze2", "X")]),
    (&[F32, F64, I32, I64, U8], &[("reverse", "X")]),
    (&[I32], &[("select_input", "Mask")]),
];

/// Refuses an op that a layer is about to append with a variable of a type it does not take.
pub(crate) fn check(program: &Program, block: BlockId, op: &OpDesc) -> Result<()> {
    for (port, vars) in &op.inputs {
        let Some(allowed) = demanded(&op.kind, port) else { continue };
        for var in vars.iter().filter(|var| *var != EMPTY) {
            let meta = &program.need_var(block, var)?.meta;
            if meta.kind.has_tensor() && !allowed.contains(&meta.dtype) {
                let (op, var, actual) = (op.kind.clone(), var.clone(), meta.dtype);
                return Err(Error::LayerDType { op, var, allowed, actual });
            }
        }
    }
    Ok(())
}

fn demanded(op: &str, port: &str) -> Option<&'static [DType]> {
    let demands = |(_, ports): &&Demand| ports.contains(&(op, port));
    DEMANDS.iter().find(demands).map(|(types, _)| *types)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;
    use crate::layers::{self, Data};

    #[test]
    fn layers_refuse_types_as_fluid_does() {
        let mut net = Net::default();
        let mut b = net.builder();
        let of = |dtype| Data { dtype, lod_level: 1, ..Data::default() };
        let short = layers::data(&mut b, "short", &[2], of(I16)).unwrap();
        let whole = layers::data(&mut b, "whole", &[2], of(I64)).unwrap();
        let options = layers::SequencePool::default();
        let error = layers::sequence_pool(&mut b, &whole, "sum", options).unwrap_err();
        let text =
            "The data type of 'whole' in sequence_pool must be ['float32'], but received int64.";
        assert_eq!(error.to_string(), text);
        let error = layers::cast(&mut b, &short, DType::I32).unwrap_err();
        assert!(matches!(error, Error::LayerDType { actual: I16, .. }), "{error}");
        layers::cast(&mut b, &whole, DType::F32).unwrap();
    }

    #[test]
    fn every_op_of_the_table_exists() {
        for (op, _) in DEMANDS.iter().flat_map(|(_, ports)| *ports) {
            assert!(crate::op::find(op).is_ok(), "{op}");
        }
    }
}
