//! The list of all ops. To add one: a file `<op>.rs` here, and a line below.

use super::*;

/// Every op, sorted by name (a test checks it). One line per op, so that a change shows as one.
pub static OPS: &[&dyn Op] = &[
    &elementwise_add::ElementwiseAdd,
    &elementwise_add::ElementwiseAddGrad,
    &fill_constant::FillConstant,
    &load::Load,
    &load::LoadCombine,
    &mean::Mean,
    &mean::MeanGrad,
    &mul::Mul,
    &mul::MulGrad,
    &relu::Relu,
    &relu::ReluGrad,
    &save::Save,
    &save::SaveCombine,
];
