//! The cost of the executor itself: preparing a long program, and running ops that do nothing much.

use std::time::Instant;

use program::layers::{self, Data, Fc};
use program::optimizer::{Optimizer, Sgd};
use program::{Meta, Net, OpDesc, Program, VarDesc};
use tensor::{DType, Tensor};
use train::{Executor, Feed, Scope};

use crate::report::bench;

/// A net of fully connected layers with backward and SGD, `n_ops` ops or a few more.
fn deep_net(n_ops: usize) -> Net {
    let mut net = Net::with_seed(1);
    let mut b = net.builder();
    let mut x = layers::data(&mut b, "x", &[8], Data::default()).expect("data");
    // mul, add, relu, their three gradients, two updates.
    for _ in 0..n_ops / 8 {
        let options = Fc { act: Some("relu"), ..Fc::default() };
        x = layers::fc(&mut b, &[x], 8, options).expect("fc");
    }
    let loss = layers::mean(&mut b, &x, None).expect("mean");
    let minimized = Optimizer::new(Sgd, 0.1).minimize(&mut b, &loss, &Default::default());
    minimized.expect("minimize");
    net
}

pub(crate) fn prepare() {
    let net = deep_net(3000);
    let n_ops = net.main.block(0).ops.len();
    let feed = Feed::new().with("x", Tensor::full([1, 8], 1.0f32));
    let mut times: Vec<f64> = (0..5)
        .map(|_| {
            let mut exe = Executor::new();
            let start = Instant::now();
            exe.prepare(&net.main, &feed, &[]).expect("prepares");
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    bench(&format!("prepare_{n_ops}_ops_ms"), times[2], "limit_ms", 100.0);
}

pub(crate) fn scalar_ops() {
    const N: usize = 10_000;
    let mut program = Program::default();
    let var = VarDesc::new("v0", Meta::dense(DType::F32, &[1]));
    program.block_mut(0).put_var(var);
    for i in 0..N {
        let op = OpDesc::new("scale").input("X", format!("v{i}")).attr("scale", 1.0f32);
        program.append_op(0, op.output("Out", format!("v{}", i + 1))).expect("scale");
    }
    let mut feed = Feed::new().with("v0", Tensor::full([1], 1.0f32));
    let (mut exe, scope) = (Executor::new(), Scope::new());
    exe.run(&program, &scope, &mut feed, &[]).expect("runs");
    let mut times: Vec<f64> = (0..11)
        .map(|_| {
            let start = Instant::now();
            exe.run(&program, &scope, &mut feed, &[]).expect("runs");
            start.elapsed().as_secs_f64() * 1e9 / N as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    bench("scalar_op_overhead_ns", times[5], "limit_ns", 1000.0);
}
