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
mod moves;
pub mod optimize;
mod proto;
mod ragged;
mod recurrent;
mod recurrent_block;
#[cfg(test)]
pub(crate) mod remote_log;
mod run;
mod sizes;
mod slide;
mod strips;
mod table;
mod traits;
mod wiring;
mod zip;

// One file per op (a few hold a family); `table.rs` lists what they define.
mod accuracy;
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
mod batch_norm;
mod bmm;
mod bpr_loss;
mod cast;
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
mod cumsum;
mod cvm;
mod data_norm;
mod diag;
mod dist;
mod dot;
mod dropout;
mod elementwise;
mod executor_ops;
mod expand;
mod eye;
mod fill_constant;
mod fill_like;
mod finite;
mod flip;
mod gather;
mod gaussian_random;
mod get_places;
mod grid_sampler;
mod group_norm;
mod gru;
mod gru_unit;
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
mod lod_rank_table;
mod lod_reset;
mod lookup_table;
mod losses;
mod lrn;
mod lstm;
mod lstm_unit;
mod matmul;
mod maxout;
mod meshgrid;
mod minus;
mod mul;
mod multiplex;
mod norm;
mod one_hot;
mod pad;
mod pad2d;
mod pool2d;
mod pool3d;
mod pow;
mod prelu;
mod print;
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
mod sequence_unpad;
mod shape;
mod shard_index;
mod sharded_ids;
mod shuffle_batch;
mod sigmoid_cross_entropy_with_logits;
mod sign;
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
mod top_k;
mod totals;
mod trace;
mod transpose;
mod tril_triu;
mod unary;
mod unfold;
mod uniform_random;
mod unique;
mod where_index;

pub use by_sample::{BySample, OpOnRows, computes_by_sample, constant_ops};
pub use dispatch::{for_float, for_int, for_number};
pub use gather_rows::{BadId, check_ids, gather_rows, scatter_add_rows};
pub(crate) use grad::no_gradient;
pub use grad::{Grad, Keep};
pub use host::{Host, NoHost, host_error};
pub use infer::Infer;
pub use optimize::STEPS_WITHOUT_ROWS;
pub use proto::{ATTR_TYPES, AttrRule, Port, Proto, proto, protos};
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

    /// What others must know to check it, move it, cut it, batch it, or place it on a server.
    ///
    /// There is no default: an op that forgot to answer would be computed alone, or take every type, and nobody
    /// would notice. Most ops answer with `traits!`.
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
