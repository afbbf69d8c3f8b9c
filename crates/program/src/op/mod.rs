//! Operators: one file each, listed in [`OPS`].
//!
//! An op is a row of rules: its name, its traits, how shapes follow, how numbers follow, and which ops
//! compute its gradient. Names are resolved once, when a program is prepared.

mod arith;
mod broadcast;
mod by_sample;
mod chains;
#[cfg(test)]
pub(crate) mod check;
mod dims;
mod dispatch;
mod gather_rows;
mod grad;
mod host;
mod infer;
mod label;
pub(crate) mod layout;
mod map;
mod mersenne;
mod moves;
pub mod optimize;
mod proto;
mod ragged;
mod recurrent;
mod recurrent_block;
#[cfg(test)]
pub(crate) mod remote_log;
mod run;
mod sampler;
mod sizes;
mod slide;
mod step_values;
mod strips;
mod table;
mod traits;
mod wiring;
mod xxhash;
mod zip;

// One file per op (a few hold a family); `table.rs` lists what they define.
mod accuracy;
mod add_position_encoding;
mod addmm;
mod affine_channel;
mod affine_grid;
mod allclose;
mod arg_max;
mod argsort;
mod array;
mod assign;
mod assign_value;
mod auc;
mod average_accumulates;
mod batch_norm;
mod beam_search;
mod beam_search_decode;
mod bilinear_tensor_product;
mod bitwise;
mod bmm;
mod bpr_loss;
mod cast;
mod center_loss;
mod chunk_eval;
mod clip;
mod clip_by_norm;
pub mod collective;
mod compare;
mod concat;
mod conditional_block_grad;
mod control;
mod conv2d;
mod conv_nd;
mod cos_sim;
mod crf_decoding;
mod crop;
mod cross;
mod cross_entropy;
mod cross_entropy2;
mod ctc_align;
mod cumsum;
mod cvm;
mod data_norm;
mod diag;
mod dist;
mod dot;
mod dropout;
mod edit_distance;
mod elementwise;
mod executor_ops;
mod expand;
mod eye;
mod fc;
mod fill_constant;
mod fill_like;
mod filter_by_instag;
mod finite;
mod flip;
mod fsp;
mod fused_elemwise_activation;
mod fused_embedding_seq_pool;
mod gather;
mod gather_tree;
mod gaussian_random;
mod get_places;
mod grid_sampler;
mod group_norm;
mod gru;
mod gru_unit;
mod hash;
mod hierarchical_sigmoid;
mod im2sequence;
mod increment;
mod index_select;
mod interp;
mod is_empty;
mod kldiv_loss;
mod kron;
mod label_smooth;
mod layer_norm;
mod linear_chain_crf;
mod linspace;
mod load;
mod lod_array;
mod lod_rank_table;
mod lod_reset;
mod lookup_table;
mod losses;
mod lrn;
mod lstm;
mod lstm_unit;
mod lstmp;
mod masked_select;
mod match_matrix_tensor;
mod matmul;
mod maxout;
mod mean_iou;
mod meshgrid;
mod minus;
mod mul;
mod multinomial;
mod multiplex;
mod nce;
mod norm;
mod one_hot;
mod pad;
mod pad2d;
mod partial_concat;
mod pool2d;
mod pool3d;
mod pow;
mod prelu;
mod print;
mod py_func;
mod pyramid_hash;
mod randint;
mod random_crop;
mod randperm;
mod range;
mod rank_loss;
mod read;
mod rearrange;
mod reduce;
mod ref_by_trainer_id;
mod remote_table;
mod reshape;
mod reverse;
mod rnn_memory_helper;
mod rotate;
mod row_conv;
mod sample_logits;
mod sampling_id;
mod save;
mod scale;
mod scatter;
mod scatter_nd_add;
mod select;
mod selected_rows;
mod send_recv;
mod sequence_concat;
mod sequence_conv;
mod sequence_enumerate;
mod sequence_erase;
mod sequence_expand;
mod sequence_expand_as;
mod sequence_mask;
mod sequence_pad;
mod sequence_pool;
mod sequence_reshape;
mod sequence_reverse;
mod sequence_scatter;
mod sequence_slice;
mod sequence_softmax;
mod sequence_topk_avg_pooling;
mod sequence_unpad;
mod shape;
mod shard_index;
mod sharded_ids;
mod shuffle_batch;
mod sigmoid_cross_entropy_with_logits;
mod sign;
mod similarity_focus;
mod size;
mod slice;
mod smooth_l1_loss;
mod softmax;
mod softmax_with_cross_entropy;
mod split;
mod split_lod_tensor;
mod split_rows;
mod squared_l2_distance;
mod stack;
mod strided_slice;
mod sum;
mod tdm_child;
mod tdm_sampler;
mod teacher_student_sigmoid_loss;
mod top_k;
mod totals;
mod trace;
mod transpose;
mod tree_conv;
mod tril_triu;
mod unary;
mod unfold;
mod uniform_random;
mod unique;
mod var_conv_2d;
mod warpctc;
mod where_index;
mod while_grad;

pub use by_sample::{BySample, OpOnRows, computes_by_sample, constant_ops};
pub use dispatch::{for_float, for_int, for_number};
pub use gather_rows::{BadId, check_ids, gather_rows, scatter_add_rows};
pub(crate) use grad::no_gradient;
pub use grad::{Grad, Keep};
pub use host::{Host, NoHost, host_error};
pub use infer::Infer;
pub use optimize::STEPS_WITHOUT_ROWS;
pub use proto::{ATTR_TYPES, AttrRule, Port, Proto, proto, protos};
pub use py_func::{Function, FunctionResult, add_function};
pub use run::{Run, Spare};
pub use sharded_ids::row_init;
pub use table::OPS;
pub(crate) use traits::traits;
pub use traits::{PortTypes, Traits, Untouched};
pub use wiring::Wiring;

use base::DidYouMean;

use crate::attr::Attrs;
use crate::block::OpDesc;
use crate::error::{Error, Result};
use crate::program::{BlockId, Program};

/// The rules of one operator.
pub trait Op: Sync {
    /// Says shape and type of each output, when the op is added to a program.
    fn infer(&self, _infer: &mut Infer<'_>) -> Result<()> {
        Ok(())
    }

    /// Computes the outputs.
    fn run(&self, run: &mut Run<'_>) -> Result<()>;

    /// Variables of another block that it reads and writes while it runs.
    fn inner(&self, _op: &OpDesc, _program: &Program) -> Vec<InnerPort> {
        Vec::new()
    }

    /// Adds the ops that compute the gradients of the inputs from those of the outputs.
    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        Err(Error::NotDifferentiable { op: grad.op().kind.clone() })
    }

    /// The optimizer that updates parameters with it, its options as usual.
    fn optimizer(&self) -> Option<Box<dyn optimize::OptimizerKind>> {
        None
    }

    /// The facts that other code needs to check it, move it, cut it, batch it, or place it on a
    /// server.
    ///
    /// There is no default: an op without an answer would be computed alone, or take every type, without any
    /// error. Most ops answer with `traits!`.
    fn traits(&self, attrs: &Attrs) -> Traits;
}

/// The rules of an op that only computes: a gradient, or a kernel that the executor makes. No layer appends it.
pub trait Kernel: Sync {
    /// See [`Op::infer`]: backward gives a gradient the shape of its variable.
    fn infer(&self, _infer: &mut Infer<'_>) -> Result<()> {
        Ok(())
    }

    /// See [`Op::run`].
    fn run(&self, run: &mut Run<'_>) -> Result<()>;

    /// See [`Op::inner`].
    fn inner(&self, _op: &OpDesc, _program: &Program) -> Vec<InnerPort> {
        Vec::new()
    }

    /// See [`Op::traits`].
    fn traits(&self, _attrs: &Attrs) -> Traits {
        Traits::of_kernel()
    }
}

impl<K: Kernel> Op for K {
    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        Kernel::infer(self, infer)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        Kernel::run(self, run)
    }

    fn inner(&self, op: &OpDesc, program: &Program) -> Vec<InnerPort> {
        Kernel::inner(self, op, program)
    }

    fn traits(&self, attrs: &Attrs) -> Traits {
        Kernel::traits(self, attrs)
    }
}

/// A port for variables of another block than the op's own.
#[derive(Clone, Debug)]
pub struct InnerPort {
    /// Its name for the kernel; programs do not have it.
    pub port: &'static str,
    /// The block from which the names are looked up.
    pub block: BlockId,
    /// The variables.
    pub vars: Vec<String>,
}

/// The names of all ops, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    OPS.iter().map(|(name, _)| *name)
}

/// That there is no such op, and which was perhaps meant.
pub(crate) fn unknown(name: &str) -> Error {
    Error::UnknownOp { op: name.to_string(), near: DidYouMean::among(name, names()) }
}

/// Looks an op up; called when a program is built or prepared, not while it runs.
pub fn find(name: &str) -> Result<&'static dyn Op> {
    match OPS.binary_search_by(|(known, _)| (*known).cmp(name)) {
        Ok(at) => Ok(OPS[at].1),
        Err(_) => Err(unknown(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_without_repeats() {
        for pair in OPS.windows(2) {
            assert!(pair[0].0 < pair[1].0, "{} < {}", pair[0].0, pair[1].0);
        }
    }

    #[test]
    fn an_unknown_op_is_named() {
        let error = find("no_such_op").err().expect("there is none");
        assert!(matches!(error, Error::UnknownOp { ref op, .. } if op == "no_such_op"));
    }
}
