//! The list of all ops. To add one: a file `<op>.rs` here, and a line below.

use super::*;

/// Every op, sorted by name (a test checks it). One line per op, so that a change shows as one.
pub static OPS: &[&dyn Op] = &[
    &adadelta::Adadelta,
    &adagrad::Adagrad,
    &adam::Adam,
    &adamax::Adamax,
    &decayed_adagrad::DecayedAdagrad,
    &elementwise_add::ElementwiseAdd,
    &elementwise_add::ElementwiseAddGrad,
    &fill_constant::FillConstant,
    &ftrl::Ftrl,
    &lamb::Lamb,
    &lars_momentum::LarsMomentum,
    &mean::Mean,
    &mean::MeanGrad,
    &momentum::Momentum,
    &mul::Mul,
    &mul::MulGrad,
    &relu::Relu,
    &relu::ReluGrad,
    &rmsprop::Rmsprop,
    &sgd::Sgd,
];
