//! Initial values: initializers draw, bit for bit, the numbers of Fluid.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use program::{Initializer, Net, NewParam, ParamAttr};
use serde_json::Value as Json;
use tensor::{DType, Tensor};
use testing::close::{Tolerance, assert_close, numbers};
use testing::golden;
use testing::session::Session;

/// Its float32 `erfinv` is an approximation of Fluid's own.
const TRUNCATED: Tolerance = Tolerance::absolute(2e-6);

fn initializer(case: &Json) -> Initializer {
    let number = |name: &str| case["args"][name].as_f64().unwrap_or_default() as f32;
    let uniform = case["args"]["uniform"].as_bool().unwrap_or(true);
    let seed = 0; // That of the startup program.
    match case["kind"].as_str().unwrap() {
        "uniform" => Initializer::Uniform { low: number("low"), high: number("high"), seed },
        "normal" => Initializer::Normal { loc: number("loc"), scale: number("scale"), seed },
        "truncated_normal" => {
            Initializer::TruncatedNormal { loc: number("loc"), scale: number("scale"), seed }
        }
        "xavier" => Initializer::Xavier { uniform, fan_in: None, fan_out: None, seed },
        "msra" => Initializer::Msra { uniform, fan_in: None, seed },
        other => panic!("no such initializer: {other}"),
    }
}

fn draw(case: &Json) -> Tensor {
    let mut net = Net::with_seed(case["seed"].as_i64().unwrap() as i32);
    let dims: Vec<i64> = case["shape"].as_array().unwrap().iter().flat_map(Json::as_i64).collect();
    let param = NewParam {
        layer: "create_parameter",
        suffix: "w",
        attr: &ParamAttr::named("p"),
        dims: &dims,
        dtype: DType::from_name(case["dtype"].as_str().unwrap_or("float32")).unwrap(),
        default_init: initializer(case),
    };
    net.builder().parameter(&param).unwrap();
    Session::start(net).tensor("p")
}

/// Numbers that the file holds as text, so that no digit is lost.
fn texts(list: &Json) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|text| text.as_str().unwrap().parse().unwrap()).collect()
}

fn bits(tensor: &Tensor, n: usize) -> Vec<String> {
    let data = &tensor.data::<f32>().unwrap()[..n];
    data.iter().map(|value| format!("{:08x}", value.to_bits())).collect()
}

#[test]
fn every_draw_is_fluids() {
    let file = golden::json("rng.json");
    let cases = file["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 15);
    for case in cases {
        let what = format!("{} {} seed {}", case["kind"], case["shape"], case["seed"]);
        let truncated = case["kind"] == "truncated_normal";
        let tolerance = if truncated { TRUNCATED } else { Tolerance::EXACT };
        let drawn = draw(case);
        let all = numbers(&drawn);
        let (first, last) = (texts(&case["first"]), texts(&case["last"]));
        assert_close(&format!("{what}, first"), &all[..first.len()], &first, tolerance);
        assert_close(&format!("{what}, last"), &all[all.len() - last.len()..], &last, tolerance);
        if let (Some(expected), false) = (case["first_bits"].as_array(), truncated) {
            let expected: Vec<_> = expected.iter().map(|bits| bits.as_str().unwrap()).collect();
            assert_eq!(bits(&drawn, expected.len()), expected, "{what}, bits");
        }
        let sum: f64 = case["sum"].as_str().unwrap().parse().unwrap();
        // The order of the sum is numpy's, so the last digits are not ours to match.
        let slack = if truncated { all.len() as f64 * TRUNCATED.absolute } else { 1e-9 };
        assert_close(
            &format!("{what}, sum"),
            &[all.iter().sum()],
            &[sum],
            Tolerance::absolute(slack),
        );
    }
}

#[test]
fn a_seed_of_zero_draws_anew_each_time() {
    let case = serde_json::json!({
        "kind": "uniform", "args": {"low": 0.0, "high": 1.0}, "seed": 0, "shape": [8],
    });
    assert_ne!(draw(&case), draw(&case));
}
