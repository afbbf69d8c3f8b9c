//! Values, names and ops of the schedules, as recorded from Fluid 1.8.5.

use std::collections::HashMap;

use tensor::{DType, Value};

use super::*;
use crate::op::{self, Host, Run, Spare, Wiring};
use crate::var::{Meta, VarDesc};
use crate::{Net, OpDesc, Program};

/// Runs programs without sub-programs' scopes: every variable has one place.
struct Runner<'a> {
    program: &'a Program,
    places: &'a HashMap<String, usize>,
}

impl Host for Runner<'_> {
    fn run_block(&mut self, block: usize, vars: &mut [Value]) -> Result<()> {
        for op in &self.program.block(block).ops {
            let wiring = Wiring::new(op, |name| self.places[name]);
            let mut host = Runner { program: self.program, places: self.places };
            let mut spare = Spare::default();
            let mut run = Run::new(op, &wiring, vars, &mut spare, &mut host);
            op::find(&op.kind)?.run(&mut run)?;
        }
        Ok(())
    }
}

type Schedule = fn(&mut Builder<'_>) -> Result<Var>;

/// Builds a schedule and checks the rate of each of the first runs, and where it is.
#[track_caller]
fn check(build: Schedule, name: &str, expected: &[f64]) -> Net {
    let mut net = Net::default();
    let rate = build(&mut net.builder()).unwrap();
    assert_eq!(rate.name(), name);
    let names = net.main.list_vars().chain(net.startup.list_vars());
    let mut places = HashMap::new();
    for var in names {
        let next = places.len();
        places.entry(var.name.clone()).or_insert(next);
    }
    let mut vars = vec![Value::Empty; places.len()];
    let run = |program, vars: &mut [Value]| {
        Runner { program, places: &places }.run_block(0, vars).unwrap();
    };
    run(&net.startup, &mut vars);
    for (at, expected) in expected.iter().enumerate() {
        run(&net.main, &mut vars);
        let rate = vars[places[rate.name()]].tensor().unwrap();
        assert_eq!((rate.dtype(), rate.dims()), (DType::F32, &[1][..]));
        let actual = rate.get_f64(0);
        assert!((actual - expected).abs() < 1e-7, "run {at}: {actual}, not {expected}");
    }
    let roles: Vec<i32> = net.main.blocks().iter().flat_map(|b| &b.ops).map(OpDesc::role).collect();
    assert!(roles.iter().all(|&role| role == role::LR_SCHED), "{roles:?}");
    net
}

fn kinds(net: &Net) -> Vec<&str> {
    net.main.block(0).ops.iter().map(|op| &*op.kind).collect()
}

const DECAY: Decay =
    Decay { learning_rate: 0.1, decay_steps: 4.0, decay_rate: 0.5, staircase: false };

#[test]
fn exponential_decay_halves_every_four_steps() {
    let expected = [0.1, 0.0840896442, 0.0707106814, 0.0594603531, 0.05];
    let net = check(|b| exponential_decay(b, DECAY), "tmp_3", &expected);
    let ops = ["increment", "cast", "scale", "fill_constant", "elementwise_pow", "scale"];
    assert_eq!(kinds(&net), ops);
    let counter = net.main.need_var(0, "@LR_DECAY_COUNTER@").unwrap();
    assert!(counter.persistable && counter.meta == Meta::dense(DType::I64, &[1]));
}

#[test]
fn inverse_time_decay_divides() {
    let expected = [0.1, 0.1 / 1.125, 0.1 / 1.25];
    let net = check(|b| inverse_time_decay(b, DECAY), "tmp_4", &expected);
    let ops = ["increment", "cast", "scale", "scale", "scale", "fill_constant", "elementwise_div"];
    assert_eq!(kinds(&net), ops);
}

#[test]
fn polynomial_decay_ends_at_its_end() {
    let build: Schedule = |b| {
        let decay = PolynomialDecay::new(0.1, 2.0);
        polynomial_decay(b, PolynomialDecay { end_learning_rate: 0.01, power: 2.0, ..decay })
    };
    check(build, "tmp_5", &[0.1, 0.0325, 0.01, 0.01]);
}

#[test]
fn noam_decay_counts_from_one() {
    let rate = |s: f64| 64f64.powf(-0.5) * s.powf(-0.5).min(s * 2f64.powf(-1.5));
    let expected = [rate(1.0), rate(2.0), rate(3.0)];
    let net = check(|b| noam_decay(b, 64.0, 2.0, 1.0), "tmp_3", &expected);
    let ops = [
        "increment",
        "cast",
        "fill_constant",
        "elementwise_pow",
        "scale",
        "elementwise_min",
        "scale",
    ];
    assert_eq!(kinds(&net), ops);
}

#[test]
fn two_schedules_share_one_count() {
    let mut net = Net::default();
    let mut b = net.builder();
    exponential_decay(&mut b, DECAY).unwrap();
    inverse_time_decay(&mut b, DECAY).unwrap();
    assert_eq!(kinds(&net).iter().filter(|kind| **kind == "increment").count(), 1);
}

#[test]
fn a_counter_begins_where_it_is_told() {
    let options = StepCounter { begin: 10, ..StepCounter::default() };
    let mut net = Net::default();
    net.main.block_mut(0).put_var(VarDesc::new("x", Meta::dense(DType::F32, &[1])));
    let counter = autoincreased_step_counter(&mut net.builder(), options).unwrap();
    assert_eq!(counter.name(), "@STEP_COUNTER@");
    assert_eq!(net.startup.block(0).ops[0].attrs.float("value", 0.0).unwrap(), 9.0);
}

#[track_caller]
fn check_refused(build: Schedule, argument: &str) {
    let mut net = Net::default();
    let error = build(&mut net.builder()).unwrap_err();
    let named = matches!(error, Error::BadArgument { argument: a, .. } if a == argument);
    assert!(named, "{error}");
    assert!(net.main == Program::default(), "nothing was added");
}

#[test]
fn refuses_what_cannot_be_divided_by() {
    check_refused(|b| exponential_decay(b, Decay { decay_steps: 0.0, ..DECAY }), "decay_steps");
    check_refused(|b| natural_exp_decay(b, Decay { decay_steps: -1.0, ..DECAY }), "decay_steps");
    check_refused(|b| polynomial_decay(b, PolynomialDecay::new(0.1, f64::NAN)), "decay_steps");
    check_refused(|b| noam_decay(b, 0.0, 5.0, 1.0), "d_model");
    check_refused(|b| noam_decay(b, 64.0, 0.0, 1.0), "warmup_steps");
    check_refused(|b| cosine_decay(b, 0.1, 0.0, 4.0), "step_each_epoch");
    check_refused(|b| linear_lr_warmup(b, 0.1, 0.0, 0.0, 0.1), "warmup_steps");
}

#[test]
fn refuses_values_that_do_not_fit_the_boundaries() {
    check_refused(|b| piecewise_decay(b, &[3.0, 6.0], &[0.1, 0.05]), "values");
    check_refused(|b| piecewise_decay(b, &[], &[]), "values");
    check_refused(|b| piecewise_decay(b, &[], &[0.1]), "values");
}
const STAIRS: Decay = Decay { staircase: true, ..DECAY };

#[test]
fn stairs_hold_the_rate_between_jumps() {
    let expected = [0.1, 0.1, 0.1, 0.1, 0.05, 0.05];
    let net = check(|b| exponential_decay(b, STAIRS), "tmp_3", &expected);
    assert_eq!(kinds(&net)[3], "floor");
    let third = 0.1 / 1.5;
    check(|b| inverse_time_decay(b, STAIRS), "tmp_4", &[0.1, 0.1, 0.1, 0.1, third]);
}

#[test]
fn natural_exp_decay_is_smooth() {
    let expected = [0.1, 0.1 * (-0.125f64).exp(), 0.1 * (-0.25f64).exp()];
    let net = check(|b| natural_exp_decay(b, DECAY), "tmp_2", &expected);
    assert_eq!(kinds(&net), ["increment", "cast", "scale", "scale", "exp", "scale"]);
}

#[test]
fn cosine_decay_goes_by_epochs() {
    let rate = |epoch: f64| 0.05 * ((epoch * std::f64::consts::PI / 4.0).cos() + 1.0);
    let expected = [rate(0.0), rate(0.0), rate(1.0), rate(1.0), rate(2.0)];
    let net = check(|b| cosine_decay(b, 0.1, 2.0, 4.0), "tmp_4", &expected);
    let ops = ["increment", "cast", "scale", "floor", "scale", "scale", "cos", "scale", "scale"];
    assert_eq!(kinds(&net), ops);
}

#[test]
fn polynomial_decay_in_cycles_ends_ever_later() {
    let build: Schedule = |b| {
        let decay = PolynomialDecay { cycle: true, ..PolynomialDecay::new(0.1, 2.0) };
        polynomial_decay(b, PolynomialDecay { end_learning_rate: 0.0, ..decay })
    };
    check(build, "tmp_8", &[0.1, 0.05, 0.0, 0.025, 0.0, 0.1 / 6.0]);
}

#[test]
fn piecewise_decay_jumps_at_its_boundaries() {
    let build: Schedule = |b| piecewise_decay(b, &[2.0, 3.0], &[0.1, 0.05, 0.01]);
    let net = check(build, "learning_rate", &[0.1, 0.1, 0.05, 0.01, 0.01]);
    let ops = [
        "increment",
        "cast",
        "fill_constant",
        "fill_constant",
        "less_than",
        "logical_not",
        "conditional_block",
        "fill_constant",
        "fill_constant",
        "less_than",
        "logical_not",
        "logical_and",
        "logical_and",
        "conditional_block",
        "fill_constant",
        "conditional_block",
    ];
    assert_eq!(kinds(&net), ops);
    let op = &net.main.block(0).ops[13];
    assert_eq!(op.input_names("Cond"), ["logical_and_1.tmp_0"]);
    assert_eq!(op.input_names("Input"), ["fill_constant_3.tmp_0"]);
    assert_eq!(op.output_names("Out"), ["learning_rate"]);
    assert_eq!(op.output_names("Scope"), ["_generated_var_1"]);
}

#[test]
fn warmup_hands_over_to_a_number_or_a_schedule() {
    let build: Schedule = |b| linear_lr_warmup(b, 0.1, 2.0, 0.02, 0.06);
    check(build, "learning_rate_warmup", &[0.02, 0.04, 0.1, 0.1]);
    let build: Schedule = |b| {
        let decay = exponential_decay(b, STAIRS)?;
        linear_lr_warmup(b, decay, 2.0, 0.0, 0.1)
    };
    check(build, "learning_rate_warmup", &[0.0, 0.05, 0.1, 0.1, 0.05]);
}
