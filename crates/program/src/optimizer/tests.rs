//! Names, order and roles of what optimizers add, as recorded from Fluid 1.8.5; and refusals.

use tensor::DType;

use super::*;
use crate::backward::{Limits, ParamGrad};
use crate::block::OpDesc;
use crate::error::Error;
use crate::layers::{self, Data, Fc};
use crate::param::{GradClip, ParamAttr, ParamInfo, Regularizer};
use crate::role;
use crate::var::{Meta, VarDesc, VarKind};
use crate::{Net, Program, Var};

/// `x -> fc -> mean`, the bias learning `bias_rate` times as fast.
fn net(bias_rate: f32) -> (Net, Var) {
    let mut net = Net::default();
    let mut b = net.builder();
    let x = layers::data(&mut b, "x", &[3], Data::default()).unwrap();
    let bias_attr = Some(ParamAttr { learning_rate: bias_rate, ..ParamAttr::default() });
    let y = layers::fc(&mut b, &[x], 2, Fc { bias_attr, ..Fc::default() }).unwrap();
    let loss = layers::mean(&mut b, &y, None).unwrap();
    (net, loss)
}

fn minimize(optimizer: &mut Optimizer, bias_rate: f32) -> (Net, Vec<OpDesc>) {
    let (mut net, loss) = net(bias_rate);
    let result = optimizer.minimize(&mut net.builder(), &loss, &Limits::default());
    let (ops, pairs) = result.unwrap();
    let params: Vec<_> = pairs.iter().map(|pair| &*pair.param).collect();
    assert_eq!(params, ["fc_0.w_0", "fc_0.b_0"], "in order of creation");
    (net, ops)
}

/// A program with a parameter `p` [4, 2] and its gradient, dense or sparse.
fn one_param(grad: VarKind, info: ParamInfo) -> (Net, ParamGrad) {
    let mut net = Net::default();
    let dense = Meta::dense(DType::F32, &[4, 2]);
    let mut param = VarDesc::new("p", dense.clone()).persistable();
    param.param = Some(info);
    net.main.block_mut(0).put_var(param);
    net.main.block_mut(0).put_var(VarDesc::new("p@GRAD", Meta { kind: grad, ..dense }));
    (net, ParamGrad { param: "p".into(), grad: "p@GRAD".into() })
}

fn outputs(program: &Program) -> Vec<&str> {
    program.block(0).ops.iter().map(|op| op.writes().next().unwrap()).collect()
}

/// The program's ops that train: `op role [role vars]`.
#[track_caller]
fn check_ops(program: &Program, expected: &[(&str, i32, &str)]) {
    let trains = |op: &&OpDesc| op.role() & (role::OPTIMIZE | role::LR_SCHED) != 0;
    let ops: Vec<&OpDesc> = program.block(0).ops.iter().filter(trains).collect();
    for (op, (text, role, vars)) in ops.iter().zip(expected) {
        assert_eq!(op.to_string(), *text);
        assert_eq!(op.role(), *role, "{text}");
        assert_eq!(op.attrs.strs(role::ROLE_VAR).unwrap().join(" "), *vars, "{text}");
    }
    assert_eq!(ops.len(), expected.len());
}

#[test]
fn sgd_updates_in_order_of_names() {
    let (net, ops) = minimize(&mut Optimizer::new(Sgd, 0.1), 1.0);
    check_ops(
        &net.main,
        &[
            (
                "sgd(Param=[fc_0.b_0], Grad=[fc_0.b_0@GRAD], LearningRate=[learning_rate_0]) -> \
                 ParamOut=[fc_0.b_0]",
                2,
                "fc_0.b_0 fc_0.b_0@GRAD",
            ),
            (
                "sgd(Param=[fc_0.w_0], Grad=[fc_0.w_0@GRAD], LearningRate=[learning_rate_0]) -> \
                 ParamOut=[fc_0.w_0]",
                2,
                "fc_0.w_0 fc_0.w_0@GRAD",
            ),
        ],
    );
    assert_eq!(ops, net.main.block(0).ops[net.main.block(0).ops.len() - 2..]);
    assert_eq!(outputs(&net.startup), ["learning_rate_0", "fc_0.b_0", "fc_0.w_0"]);
    let rate = net.main.need_var(0, "learning_rate_0").unwrap();
    assert!(rate.persistable && rate.meta == Meta::dense(DType::F32, &[1]));
    assert_eq!(net.main.role, role::FORWARD, "the role is given back");
}

#[test]
fn adam_keeps_four_variables_per_parameter() {
    let mut adam = Optimizer::new(Adam::default(), 0.1);
    let (net, _) = minimize(&mut adam, 1.0);
    let expected = [
        "learning_rate_0",
        "fc_0.w_0_beta2_pow_acc_0",
        "fc_0.w_0_beta1_pow_acc_0",
        "fc_0.w_0_moment2_0",
        "fc_0.w_0_moment1_0",
        "fc_0.b_0_beta2_pow_acc_0",
        "fc_0.b_0_beta1_pow_acc_0",
        "fc_0.b_0_moment2_0",
        "fc_0.b_0_moment1_0",
        "fc_0.b_0",
        "fc_0.w_0",
    ];
    assert_eq!(outputs(&net.startup), expected, "what was made last comes first");
    assert_eq!(net.startup.block(0).ops[1].attrs.float("value", 0.0).unwrap(), 0.999);
    let op = net.main.block(0).ops.last().unwrap();
    assert_eq!(op.output_names("Beta2PowOut"), ["fc_0.w_0_beta2_pow_acc_0"]);
    assert!(!op.attrs.bool("lazy_mode", true).unwrap());
    assert!(op.attrs.get("powers_after_step").is_none());
    assert_eq!(adam.learning_rate(&net.main).unwrap().name(), "learning_rate_0");
    let moment = adam.state(&net.main, "fc_0.b_0", "moment1").unwrap();
    assert_eq!(moment.name(), "fc_0.b_0_moment1_0");
}

#[test]
fn a_parameters_own_rate_is_scaled_by_an_op() {
    let (net, ops) = minimize(&mut Optimizer::new(Sgd, 0.1), 2.0);
    let kinds: Vec<_> = ops.iter().map(|op| &*op.kind).collect();
    assert_eq!(kinds, ["scale", "sgd", "sgd"]);
    assert_eq!(ops[0].to_string(), "scale(X=[learning_rate_0]) -> Out=[tmp_0]");
    assert_eq!(ops[0].role(), 18);
    assert!(ops[0].attrs.get(role::ROLE_VAR).is_none());
    assert_eq!(ops[1].input_names("LearningRate"), ["tmp_0"]);
    assert_eq!(ops[2].input_names("LearningRate"), ["learning_rate_0"]);
    assert_eq!(net.main.need_var(0, "tmp_0").unwrap().meta.dims, [1]);
}

#[test]
fn adamax_multiplies_its_power_after_all_updates() {
    let (_, ops) = minimize(&mut Optimizer::new(Adamax::default(), 0.1), 1.0);
    let kinds: Vec<_> = ops.iter().map(|op| &*op.kind).collect();
    assert_eq!(kinds, ["adamax", "adamax", "scale", "scale"]);
    let power = "fc_0.b_0_beta1_pow_acc_0";
    assert_eq!(ops[2].to_string(), format!("scale(X=[{power}]) -> Out=[{power}]"));
    assert_eq!(ops[2].attrs.float("scale", 0.0).unwrap(), 0.9);
    assert_eq!(ops[2].attrs.strs(role::ROLE_VAR).unwrap(), ["fc_0.b_0", "fc_0.b_0@GRAD"]);
}

/// The states of a kind in order of creation.
#[track_caller]
fn check_states(kind: impl OptimizerKind + 'static, expected: &[&str]) {
    let (net, ops) = minimize(&mut Optimizer::new(kind, 0.1), 1.0);
    let mut made = outputs(&net.startup);
    made.reverse();
    let made: Vec<_> = made.iter().filter_map(|name| name.strip_prefix("fc_0.w_0_")).collect();
    assert_eq!(made, expected);
    let reads: Vec<_> = ops[1].reads().filter_map(|name| name.strip_prefix("fc_0.w_0_")).collect();
    assert_eq!(reads, expected);
}

#[test]
fn every_kind_names_its_state_as_fluid_does() {
    check_states(Momentum { momentum: 0.9, use_nesterov: false }, &["velocity_0"]);
    check_states(LarsMomentum::default(), &["velocity_0"]);
    check_states(Adagrad::default(), &["moment_0"]);
    check_states(DecayedAdagrad::default(), &["moment_0"]);
    check_states(Adadelta::default(), &["_avg_squared_grad_0", "_avg_squared_update_0"]);
    check_states(RmsProp::default(), &["momentum_0", "mean_square_0", "mean_grad_0"]);
    check_states(Ftrl::default(), &["squared_0", "linear_0"]);
    check_states(Adamax::default(), &["moment_0", "inf_norm_0", "beta1_pow_acc_0"]);
    let four = ["moment1_0", "moment2_0", "beta1_pow_acc_0", "beta2_pow_acc_0"];
    check_states(Lamb::default(), &four);
}

#[test]
fn options_reach_the_ops() {
    let ftrl = Ftrl { l1: 0.3, l2: 0.05, lr_power: -0.7 };
    let (_, ops) = minimize(&mut Optimizer::new(ftrl, 0.1), 1.0);
    assert_eq!(ops[0].attrs.float("l1", 0.0).unwrap(), 0.3);
    assert_eq!(ops[0].attrs.float("l2", 0.0).unwrap(), 0.05);
    let mut lamb = Optimizer::new(Lamb::default(), 0.1);
    lamb.undecayed.insert("fc_0.b_0".to_string());
    let (_, ops) = minimize(&mut lamb, 1.0);
    let decays = [0, 1].map(|at: usize| ops[at].attrs.float("weight_decay", -1.0).unwrap());
    assert_eq!(decays, [0.0, 0.01]);
    let adagrad = Adagrad { initial_accumulator_value: 0.5, ..Adagrad::default() };
    let (net, _) = minimize(&mut Optimizer::new(adagrad, 0.1), 1.0);
    assert_eq!(net.startup.block(0).ops[1].attrs.float("value", 0.0).unwrap(), 0.5);
}

#[test]
fn an_optimizers_name_goes_into_its_state() {
    let mut momentum = Optimizer::new(Momentum { momentum: 0.9, use_nesterov: true }, 0.1);
    momentum.name = Some("N".into());
    let (net, _) = minimize(&mut momentum, 1.0);
    assert!(net.main.block(0).var("fc_0.b_0_N_velocity_0").is_some());
}

#[test]
fn a_dense_gradient_decays_in_place() {
    let (mut net, pair) = one_param(VarKind::LodTensor, ParamInfo::default());
    let mut sgd = Optimizer::new(Sgd, 0.1);
    sgd.regularization = Some(Regularizer::L2(0.5));
    sgd.apply_gradients(&mut net.builder(), &[pair]).unwrap();
    let update = "sgd(Param=[p], Grad=[p@GRAD], LearningRate=[learning_rate_0]) -> ParamOut=[p]";
    check_ops(
        &net.main,
        &[
            ("scale(X=[p]) -> Out=[_generated_var_0]", 2, "p p@GRAD"),
            ("sum(X=[p@GRAD, _generated_var_0]) -> Out=[p@GRAD]", 2, "p p@GRAD"),
            (update, 2, "p p@GRAD"),
        ],
    );
    assert_eq!(net.main.block(0).ops[0].attrs.float("scale", 0.0).unwrap(), 0.5);
}

#[test]
fn a_sparse_gradient_becomes_dense_by_decay() {
    // The parameter's own regularizer wins over the optimizer's.
    let info = ParamInfo { regularizer: Some(Regularizer::L1(0.2)), ..ParamInfo::default() };
    let (mut net, pair) = one_param(VarKind::SelectedRows, info);
    let mut sgd = Optimizer::new(Sgd, 0.1);
    sgd.regularization = Some(Regularizer::L2(0.5));
    sgd.apply_gradients(&mut net.builder(), &[pair]).unwrap();
    let (term, new) = ("_generated_var_0", "p@GRAD@NEWGRAD@");
    let update =
        format!("sgd(Param=[p], Grad=[{new}], LearningRate=[learning_rate_0]) -> ParamOut=[p]");
    check_ops(
        &net.main,
        &[
            (&format!("sign(X=[p]) -> Out=[{term}]"), 2, "p p@GRAD"),
            (&format!("scale(X=[{term}]) -> Out=[{term}]"), 2, "p p@GRAD"),
            (&format!("sum(X=[p@GRAD, {term}]) -> Out=[{new}]"), 2, "p p@GRAD"),
            (&update, 2, "p p@GRAD@NEWGRAD@"),
        ],
    );
    assert_eq!(net.main.need_var(0, new).unwrap().meta, Meta::dense(DType::F32, &[4, 2]));
}

#[test]
fn clipping_comes_before_decay() {
    for (clip, kind) in [
        (GradClip::Value { min: -0.3, max: 0.3 }, "clip"),
        (GradClip::Norm { max_norm: 0.3 }, "clip_by_norm"),
    ] {
        let (mut net, pair) = one_param(VarKind::LodTensor, ParamInfo::default());
        let mut sgd = Optimizer::new(Sgd, 0.1);
        sgd.regularization = Some(Regularizer::L2(0.5));
        sgd.grad_clip = Some(clip);
        sgd.apply_gradients(&mut net.builder(), &[pair]).unwrap();
        let out = format!("{kind}_0.tmp_0");
        let vars = format!("p {out}");
        let update =
            format!("sgd(Param=[p], Grad=[{out}], LearningRate=[learning_rate_0]) -> ParamOut=[p]");
        check_ops(
            &net.main,
            &[
                (&format!("{kind}(X=[p@GRAD]) -> Out=[{out}]"), 2, &vars),
                ("scale(X=[p]) -> Out=[_generated_var_0]", 2, &vars),
                (&format!("sum(X=[{out}, _generated_var_0]) -> Out=[{out}]"), 2, &vars),
                (&update, 2, &vars),
            ],
        );
    }
}

/// Checks the ops of a global norm over the two parameters of [`net`].
#[track_caller]
fn check_global_norm(net: &Net) {
    let (b, w) = ("fc_0.b_0 elementwise_mul_0.tmp_0", "fc_0.w_0 elementwise_mul_1.tmp_0");
    let factor = "elementwise_div_0.tmp_0";
    let mul = |x: &str, k| {
        format!("elementwise_mul(X=[{x}@GRAD], Y=[{factor}]) -> Out=[elementwise_mul_{k}.tmp_0]")
    };
    let sgd = |p: &str, k| {
        format!(
            "sgd(Param=[{p}], Grad=[elementwise_mul_{k}.tmp_0], LearningRate=[learning_rate_0]) -> \
             ParamOut=[{p}]"
        )
    };
    let norm = "fill_constant_0.tmp_0";
    let max = "elementwise_max_0.tmp_0";
    check_ops(
        &net.main,
        &[
            ("square(X=[fc_0.b_0@GRAD]) -> Out=[square_0.tmp_0]", 2, b),
            ("reduce_sum(X=[square_0.tmp_0]) -> Out=[reduce_sum_0.tmp_0]", 2, b),
            ("square(X=[fc_0.w_0@GRAD]) -> Out=[square_1.tmp_0]", 2, w),
            ("reduce_sum(X=[square_1.tmp_0]) -> Out=[reduce_sum_1.tmp_0]", 2, w),
            ("sum(X=[reduce_sum_0.tmp_0, reduce_sum_1.tmp_0]) -> Out=[sum_0.tmp_0]", 2, w),
            ("sqrt(X=[sum_0.tmp_0]) -> Out=[sqrt_0.tmp_0]", 2, w),
            (&format!("fill_constant() -> Out=[{norm}]"), 2, w),
            (&format!("elementwise_max(X=[{norm}], Y=[sqrt_0.tmp_0]) -> Out=[{max}]"), 2, w),
            (&format!("elementwise_div(X=[{norm}], Y=[{max}]) -> Out=[{factor}]"), 2, w),
            (&mul("fc_0.b_0", 0), 2, b),
            (&mul("fc_0.w_0", 1), 2, w),
            (&sgd("fc_0.b_0", 0), 2, b),
            (&sgd("fc_0.w_0", 1), 2, w),
        ],
    );
}

fn global_norm(max_norm: f32) -> GradClip {
    GradClip::GlobalNorm { max_norm, group: "default_group".into() }
}

#[test]
fn a_global_norm_joins_all_gradients() {
    let mut sgd = Optimizer::new(Sgd, 0.1);
    sgd.grad_clip = Some(global_norm(0.3));
    let (net, _) = minimize(&mut sgd, 1.0);
    check_global_norm(&net);
}

#[test]
fn each_parameter_may_have_its_own_clip() {
    let (mut with_clips, loss) = net(1.0);
    set_gradient_clip(&mut with_clips.main, &global_norm(0.3), None, ClipReach::Together).unwrap();
    let mut sgd = Optimizer::new(Sgd, 0.1);
    sgd.minimize(&mut with_clips.builder(), &loss, &Limits::default()).unwrap();
    check_global_norm(&with_clips);

    let (mut one_clip, loss) = net(1.0);
    let value = GradClip::Value { min: -1.0, max: 1.0 };
    let one: &[String] = &["fc_0.w_0".into()];
    set_gradient_clip(&mut one_clip.main, &value, Some(one), ClipReach::Each).unwrap();
    let mut sgd = Optimizer::new(Sgd, 0.1);
    let (ops, _) = sgd.minimize(&mut one_clip.builder(), &loss, &Limits::default()).unwrap();
    let grads: Vec<_> = ops.iter().map(|op| &*op.input_names("Grad")[0]).collect();
    assert_eq!(grads, ["fc_0.b_0@GRAD", "clip_0.tmp_0"]);
}

/// Recorded from Fluid 1.8.5: a clip that was set for some parameters clips none.
#[test]
fn clips_of_some_parameters_stand_for_all_or_none() {
    let (mut one_clip, loss) = net(1.0);
    let value = GradClip::Value { min: -1.0, max: 1.0 };
    let (one, other): (&[String], &[String]) = (&["fc_0.w_0".into()], &["fc_0.b_0".into()]);
    set_gradient_clip(&mut one_clip.main, &value, Some(one), ClipReach::Together).unwrap();
    let mut both = one_clip.clone();
    let grads = |net: &mut Net| {
        let mut sgd = Optimizer::new(Sgd, 0.1);
        let (ops, _) = sgd.minimize(&mut net.builder(), &loss, &Limits::default()).unwrap();
        ops.iter().map(|op| op.input_names("Grad")[0].clone()).collect::<Vec<_>>()
    };
    assert_eq!(grads(&mut one_clip), ["fc_0.b_0@GRAD", "fc_0.w_0@GRAD"]);
    // The clip of the last pair is that of all.
    let norm = GradClip::Norm { max_norm: 0.5 };
    set_gradient_clip(&mut both.main, &norm, Some(other), ClipReach::Together).unwrap();
    assert_eq!(grads(&mut both), ["clip_0.tmp_0", "clip_1.tmp_0"]);
}

#[test]
fn a_sparse_gradient_is_merged_before_it_is_squared() {
    let (mut net, pair) = one_param(VarKind::SelectedRows, ParamInfo::default());
    let mut sgd = Optimizer::new(Sgd, 0.1);
    sgd.grad_clip = Some(global_norm(0.3));
    sgd.apply_gradients(&mut net.builder(), &[pair]).unwrap();
    let kinds: Vec<_> = net.main.block(0).ops.iter().take(3).map(|op| &*op.kind).collect();
    assert_eq!(kinds, ["merge_selected_rows", "get_tensor_from_selected_rows", "square"]);
    let clipped = net.main.need_var(0, "elementwise_mul_0.tmp_0").unwrap();
    assert_eq!(clipped.meta.kind, VarKind::SelectedRows);
}

#[test]
fn one_group_has_one_norm() {
    let (mut net, loss) = net(1.0);
    set_gradient_clip(&mut net.main, &global_norm(0.3), None, ClipReach::Together).unwrap();
    let one: &[String] = &["fc_0.w_0".into()];
    set_gradient_clip(&mut net.main, &global_norm(0.5), Some(one), ClipReach::Together).unwrap();
    let mut sgd = Optimizer::new(Sgd, 0.1);
    let error = sgd.minimize(&mut net.builder(), &loss, &Limits::default()).unwrap_err();
    assert!(matches!(error, Error::BadArgument { argument: "clip_norm", .. }), "{error}");
}

#[test]
fn refuses_to_clip_what_is_no_parameter() {
    let (mut net, _) = net(1.0);
    let clip = GradClip::Norm { max_norm: 1.0 };
    let error =
        set_gradient_clip(&mut net.main, &clip, Some(&["x".into()]), ClipReach::Each).unwrap_err();
    assert!(matches!(error, Error::BadArgument { argument: "param_list", .. }), "{error}");
    let error = set_gradient_clip(&mut net.main, &clip, Some(&["nobody".into()]), ClipReach::Each)
        .unwrap_err();
    assert!(matches!(error, Error::UnknownVar { ref var, .. } if var == "nobody"), "{error}");
}

#[test]
fn a_schedules_variable_is_the_rate() {
    let (mut net, loss) = net(1.0);
    net.main.block_mut(0).put_var(VarDesc::new("rate", Meta::dense(DType::F32, &[1])));
    let mut sgd = Optimizer::new(Sgd, Var::from("rate"));
    let (ops, _) = sgd.minimize(&mut net.builder(), &loss, &Limits::default()).unwrap();
    assert_eq!(ops[0].input_names("LearningRate"), ["rate"]);
    assert_eq!(outputs(&net.startup), ["fc_0.b_0", "fc_0.w_0"]);
}

#[test]
fn refuses_a_rate_of_the_wrong_kind() {
    let rows = Meta { kind: VarKind::SelectedRows, ..Meta::dense(DType::F32, &[1]) };
    let wrong = [Meta::dense(DType::I64, &[1]), Meta::dense(DType::F32, &[2]), rows];
    for meta in wrong {
        let (mut net, loss) = net(1.0);
        net.main.block_mut(0).put_var(VarDesc::new("rate", meta));
        let before = net.main.clone();
        let mut sgd = Optimizer::new(Sgd, Var::from("rate"));
        let error = sgd.minimize(&mut net.builder(), &loss, &Limits::default()).unwrap_err();
        assert!(matches!(error, Error::BadArgument { argument: "learning_rate", .. }), "{error}");
        assert!(net.main == before, "nothing was added");
    }
    let (mut net, loss) = net(1.0);
    let mut sgd = Optimizer::new(Sgd, f32::NAN);
    let error = sgd.minimize(&mut net.builder(), &loss, &Limits::default()).unwrap_err();
    assert!(matches!(error, Error::BadArgument { argument: "learning_rate", .. }), "{error}");
    let mut sgd = Optimizer::new(Sgd, Var::from("nobody"));
    let error = sgd.minimize(&mut net.builder(), &loss, &Limits::default()).unwrap_err();
    assert!(matches!(error, Error::UnknownVar { .. }), "{error}");
}

#[test]
fn refuses_a_parameter_of_integers() {
    let (mut net, pair) = one_param(VarKind::LodTensor, ParamInfo::default());
    let integers = Meta::dense(DType::I64, &[4, 2]);
    net.main.block_mut(0).var_mut("p").unwrap().meta = integers;
    let mut momentum = Optimizer::new(Momentum { momentum: 0.9, use_nesterov: false }, 0.1);
    let error = momentum.apply_gradients(&mut net.builder(), &[pair]).unwrap_err();
    assert!(matches!(error, Error::DType { actual: DType::I64, .. }), "{error}");
}

#[test]
fn training_nothing_is_no_error() {
    let (mut net, loss) = net(1.0);
    for name in ["fc_0.w_0", "fc_0.b_0"] {
        let var = net.main.block_mut(0).var_mut(name).unwrap();
        var.stop_gradient = true;
        var.param.as_mut().unwrap().trainable = false;
    }
    let mut sgd = Optimizer::new(Sgd, 0.1);
    let done = sgd.minimize(&mut net.builder(), &loss, &Limits::default()).unwrap();
    assert_eq!(done, (vec![], vec![]));
}

#[test]
fn refuses_the_loss_of_another_program() {
    let (_, loss) = net(1.0);
    let mut other = Net::default();
    let mut sgd = Optimizer::new(Sgd, 0.1);
    let error = sgd.minimize(&mut other.builder(), &loss, &Limits::default()).unwrap_err();
    assert!(matches!(error, Error::UnknownVar { ref var, .. } if var == loss.name()), "{error}");
}

#[test]
fn only_listed_parameters_are_trained() {
    let (mut net, loss) = net(1.0);
    let mut sgd = Optimizer::new(Sgd, 0.1);
    sgd.parameter_list = Some(vec!["fc_0.b_0".into()]);
    let (ops, pairs) = sgd.minimize(&mut net.builder(), &loss, &Limits::default()).unwrap();
    assert_eq!((ops.len(), pairs.len()), (1, 1));
    assert_eq!(pairs[0].param, "fc_0.b_0");
}

#[test]
fn one_optimizer_may_train_two_programs() {
    let mut adam = Optimizer::new(Adam::default(), 0.1);
    let (first, _) = minimize(&mut adam, 1.0);
    let (second, _) = minimize(&mut adam, 1.0);
    assert!(adam.learning_rate(&first.main).is_some());
    assert!(adam.learning_rate(&second.main).is_some());
}

/// Options that are set by name are those of the struct, and each reaches its op.
#[test]
fn options_have_fluids_names() {
    let mut adam = by_name("adam").unwrap();
    assert!(adam.set("beta1", 0.5) && adam.set("lazy_mode", 1.0));
    assert!(!adam.set("no_such_option", 1.0));
    let attrs = adam.attrs("w");
    assert!(attrs.contains(&("beta1", 0.5f32.into())), "{attrs:?}");
    assert!(attrs.contains(&("lazy_mode", true.into())), "{attrs:?}");
    assert!(by_name("mean").is_err() && by_name("no_such_op").is_err());
}

/// An op that updates has an optimizer, and the other way round.
#[test]
fn every_update_has_its_optimizer() {
    for name in crate::op::names() {
        let op = crate::op::find(name).unwrap();
        let updates = crate::OpDesc::new(name).traits().update.is_some();
        assert_eq!(updates, op.optimizer().is_some(), "{name}");
        if let Some(kind) = op.optimizer() {
            assert_eq!(kind.op(), name);
        }
    }
}
