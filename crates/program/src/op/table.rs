//! The list of all ops. To add one: a file `<op>.rs` here, and a line below.

use super::*;

/// Every op, sorted by name (a test checks it). One line per op, so that a change shows as one.
pub static OPS: &[&dyn Op] = &[
    &assign::Assign,
    &assign_value::AssignValue,
    &elementwise_add::ElementwiseAdd,
    &elementwise_add::ElementwiseAddGrad,
    &fill_like::FillAnyLike,
    &fill_constant::FillConstant,
    &fill_like::FillConstantBatchSizeLike,
    &fill_like::FillZerosLike,
    &gaussian_random::GaussianRandom,
    &gaussian_random::GaussianRandomBatchSizeLike,
    &selected_rows::GetTensorFromSelectedRows,
    &lookup_table::LookupTable,
    &lookup_table::LookupTableGrad,
    &lookup_table::LookupTableV2,
    &lookup_table::LookupTableV2Grad,
    &mean::Mean,
    &mean::MeanGrad,
    &selected_rows::MergeSelectedRows,
    &mul::Mul,
    &mul::MulGrad,
    &randint::Randint,
    &range::Range,
    &relu::Relu,
    &relu::ReluGrad,
    &shape::Shape,
    &shuffle_batch::ShuffleBatch,
    &shuffle_batch::ShuffleBatchGrad,
    &sum::Sum,
    &gaussian_random::TruncatedGaussianRandom,
    &uniform_random::UniformRandom,
    &uniform_random::UniformRandomBatchSizeLike,
];
