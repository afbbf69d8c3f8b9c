//! Learning-rate schedules: the rate of each step, the ops that compute it, and the names it keeps.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use program::backward::Limits;
use program::layers::{self, Data, Decay, Fc, PolynomialDecay};
use program::optimizer::{LearningRate, Optimizer, Sgd};
use program::{Builder, Net, Program, Var, role};
use serde_json::Value as Json;
use tensor::Tensor;
use testing::close::{Tolerance, assert_close};
use testing::golden;
use testing::session::Session;
use train::Feed;

/// Appends the schedule that a case names.
fn schedule(b: &mut Builder<'_>, case: &Json) -> Var {
    let args = &case["args"];
    let number = |name: &str| args[name].as_f64().unwrap_or_else(|| panic!("{case} has no {name}"));
    let list = |name: &str| -> Vec<f64> {
        args[name].as_array().unwrap().iter().flat_map(Json::as_f64).collect()
    };
    let decay = || Decay {
        learning_rate: number("learning_rate"),
        decay_steps: number("decay_steps"),
        decay_rate: number("decay_rate"),
        staircase: args["staircase"].as_bool().unwrap_or(false),
    };
    let rate = match case["function"].as_str().unwrap() {
        "exponential_decay" => layers::exponential_decay(b, decay()),
        "natural_exp_decay" => layers::natural_exp_decay(b, decay()),
        "inverse_time_decay" => layers::inverse_time_decay(b, decay()),
        "polynomial_decay" => {
            let decay = PolynomialDecay {
                end_learning_rate: number("end_learning_rate"),
                power: number("power"),
                cycle: args["cycle"].as_bool().unwrap_or(false),
                ..PolynomialDecay::new(number("learning_rate"), number("decay_steps"))
            };
            layers::polynomial_decay(b, decay)
        }
        "piecewise_decay" => layers::piecewise_decay(b, &list("boundaries"), &list("values")),
        "noam_decay" => layers::noam_decay(b, number("d_model"), number("warmup_steps"), 1.0),
        "cosine_decay" => {
            let (per_epoch, epochs) = (number("step_each_epoch"), number("epochs"));
            layers::cosine_decay(b, number("learning_rate"), per_epoch, epochs)
        }
        "linear_lr_warmup" => {
            let inner: LearningRate = match &args["learning_rate"] {
                Json::Number(rate) => (rate.as_f64().unwrap() as f32).into(),
                inner => schedule(b, inner).into(),
            };
            let steps = number("warmup_steps");
            let start = number("start_lr");
            let end = number("end_lr");
            layers::linear_lr_warmup(b, inner, steps, start, end)
        }
        other => panic!("the golden file has a schedule that is not in the table: {other}"),
    };
    rate.unwrap()
}

fn scheduled_ops(program: &Program) -> Vec<&str> {
    let ops = program.block(0).ops.iter().filter(|op| op.role() & role::LR_SCHED != 0);
    ops.map(|op| op.kind.as_str()).collect()
}

fn persistables(program: &Program) -> Vec<&str> {
    let vars = program.list_vars().filter(|var| var.persistable);
    let mut names: Vec<&str> = vars.map(|var| var.name.as_str()).collect();
    names.sort_unstable();
    names
}

fn strings(list: &Json) -> Vec<&str> {
    list.as_array().unwrap().iter().flat_map(Json::as_str).collect()
}

#[test]
fn every_schedule_is_fluids() {
    let file = golden::json("lr_schedules.json");
    let cases = file["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 13);
    for case in cases {
        let what = format!("{} {}", case["function"], case["args"]);
        let mut net = Net::default();
        let mut b = net.builder();
        let rate = schedule(&mut b, case);
        let x = layers::data(&mut b, "x", &[1], Data::default()).unwrap();
        let y = layers::fc(&mut b, &[x], 1, Fc::default()).unwrap();
        let loss = layers::mean(&mut b, &y, None).unwrap();
        let mut sgd = Optimizer::new(Sgd, rate.clone());
        sgd.minimize(&mut b, &loss, &Limits::default()).unwrap();
        assert_eq!(rate.name(), case["lr_var"], "{what}");
        assert_eq!(scheduled_ops(&net.main), strings(&case["ops"]), "{what}");
        assert_eq!(persistables(&net.main), strings(&case["persistable"]), "{what}");

        let mut session = Session::start(net);
        let mut feed = Feed::new().with("x", Tensor::full([1, 1], 1.0f32));
        let steps = 0..case["steps"].as_u64().unwrap();
        let rates = steps.map(|_| session.run(&mut feed, &[rate.name()])[0].get_f64(0));
        let rates: Vec<f64> = rates.collect();
        let values: Vec<f64> =
            case["values"].as_array().unwrap().iter().flat_map(Json::as_f64).collect();
        assert_close(&what, &rates, &values, Tolerance::relative(1e-6));
    }
}
