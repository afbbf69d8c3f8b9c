//! Order, names and roles of the ops a backward pass adds.

use tensor::DType;

use super::*;
use crate::layers;
use crate::var::Meta;
use crate::{Net, Var};

/// `x -> mul w -> relu -> mean`, with `x` used twice when `twice`.
fn net(twice: bool) -> (Net, Var) {
    let mut net = Net::default();
    for (name, dims) in [("x", [-1, 2]), ("w", [2, 2])] {
        let mut var = VarDesc::new(name, Meta::dense(DType::F32, &dims));
        var.stop_gradient = name == "x";
        if name == "w" {
            var.persistable = true;
            var.param = Some(crate::ParamInfo::default());
        }
        net.main.block_mut(0).put_var(var);
    }
    let mul = OpDesc::new("mul").input("X", "x").input("Y", "w").output("Out", "h");
    net.main.append_op(0, mul).unwrap();
    if twice {
        let again = OpDesc::new("mul").input("X", "h").input("Y", "w").output("Out", "h2");
        net.main.append_op(0, again).unwrap();
    }
    let last = if twice { "h2" } else { "h" };
    net.main.append_op(0, OpDesc::new("relu").input("X", last).output("Out", "r")).unwrap();
    let mut builder = net.builder();
    let loss = layers::mean(&mut builder, &Var::from("r"), None).unwrap();
    (net, loss)
}

fn kinds(program: &Program) -> Vec<&str> {
    program.block(0).ops.iter().map(|op| op.kind.as_str()).collect()
}

#[test]
fn appends_gradients_last_op_first() {
    let (mut net, loss) = net(false);
    let pairs = append_backward(&mut net.main, loss.name(), &Limits::default()).unwrap();
    assert_eq!(pairs, [ParamGrad { param: "w".into(), grad: "w@GRAD".into() }]);
    let expected = ["mul", "relu", "mean", "fill_constant", "mean_grad", "relu_grad", "mul_grad"];
    assert_eq!(kinds(&net.main), expected);
    let ops = &net.main.block(0).ops;
    assert_eq!(ops[2].role(), 256);
    assert_eq!(ops[3].role(), 257);
    assert_eq!(ops[4].role(), 1, "a test copy must not keep it");
    assert_eq!(ops[6].role(), 1);
    assert_eq!(ops[6].output_names("X@GRAD"), &[] as &[String], "x stops gradients");
    assert_eq!(ops[6].attrs.strs(role::ROLE_VAR).unwrap(), ["w", "w@GRAD"]);
    assert_eq!(net.main.need_var(0, "w@GRAD").unwrap().meta.dims, [2, 2]);
}

#[test]
fn sums_the_gradients_of_a_variable_used_twice() {
    let (mut net, loss) = net(true);
    append_backward(&mut net.main, loss.name(), &Limits::default()).unwrap();
    let ops = &net.main.block(0).ops;
    let sum = ops.iter().find(|op| op.kind == "sum").unwrap();
    let parts = ["w@GRAD@RENAME@block0@0", "w@GRAD@RENAME@block0@1"];
    assert_eq!(sum.input_names("X"), parts);
    assert_eq!(sum.attrs.strs(role::ROLE_VAR).unwrap(), ["w", "w@GRAD"]);
}

#[test]
fn a_second_pass_keeps_the_first_ones_names() {
    let (mut net, loss) = net(false);
    append_backward(&mut net.main, loss.name(), &Limits::default()).unwrap();
    let pairs = append_backward(&mut net.main, loss.name(), &Limits::default()).unwrap();
    assert_eq!(pairs, [ParamGrad { param: "w".into(), grad: "grad/w@GRAD".into() }]);
}

#[test]
fn refuses_a_loss_that_is_no_scalar_or_not_computed() {
    let (mut net, _) = net(false);
    let error = append_backward(&mut net.main, "h", &Limits::default()).unwrap_err();
    assert!(matches!(error, Error::LossShape { .. }), "{error}");
    let scalar = VarDesc::new("s", Meta::dense(DType::F32, &[1]));
    net.main.block_mut(0).put_var(scalar);
    let error = append_backward(&mut net.main, "s", &Limits::default()).unwrap_err();
    assert!(matches!(error, Error::LossNotComputed { .. }), "{error}");
    let inner = net.main.push_block();
    net.main.block_mut(inner).put_var(VarDesc::new("t", Meta::dense(DType::F32, &[1])));
    net.main.pop_block();
    let error = append_backward(&mut net.main, "t", &Limits::default()).unwrap_err();
    assert!(matches!(error, Error::LossInBlock { ref var } if var == "t"), "{error}");
}

#[test]
fn gradients_reach_a_data_variable_that_is_asked_for() {
    let (mut net, _) = net(false);
    let grads =
        gradients(&mut net.main, &["r".into()], &["x".into()], &[], &HashSet::new()).unwrap();
    assert_eq!(grads, [Some("x@GRAD".to_string())]);
}
