//! Programs that choose and repeat: the numbers are those Fluid 1.8.5 gives for the same programs.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use program::layers::{self, CreateGlobalVar, FillConstant, Switch};
use program::{Builder, Net, OpDesc, Var};
use tensor::{DType, Tensor};
use testing::session::Session;
use train::Feed;

fn constant(b: &mut Builder<'_>, dtype: DType, value: f64) -> Var {
    layers::fill_constant(b, &[1], dtype, value, FillConstant::default()).unwrap()
}

fn less_than(b: &mut Builder<'_>, x: &Var, y: &Var, out: &Var) -> program::Result<()> {
    b.op(OpDesc::new("less_than").input("X", x).input("Y", y).output("Out", out))
}

fn increment(b: &mut Builder<'_>, x: &Var, step: f32) -> program::Result<()> {
    b.op(OpDesc::new("increment").input("X", x).output("Out", x).attr("step", step))
}

#[test]
fn a_switch_runs_the_first_case_that_holds() {
    for (step, expected) in [(0.0, 1.0), (2.0, 5.0), (7.0, 7.0)] {
        let mut net = Net::default();
        let mut b = net.builder();
        let kept = CreateGlobalVar { persistable: true, name: Some("lr"), ..Default::default() };
        let lr = layers::create_global_var(&mut b, &[1], 0.0, DType::F32, kept).unwrap();
        let step = constant(&mut b, DType::F32, step);
        let bounds = [constant(&mut b, DType::F32, 1.0), constant(&mut b, DType::F32, 5.0)];
        let mut switch = Switch::default();
        for (bound, name) in bounds.iter().zip(["below_1", "below_5"]) {
            let below = layers::create_tensor(&mut b, DType::Bool, Some(name), false).unwrap();
            less_than(&mut b, &step, bound, &below).unwrap();
            let body = |b: &mut Builder<'_>| layers::assign(b, bound, Some(&lr)).map(|_| ());
            switch.case(&mut b, &below, body).unwrap();
        }
        let rest = |b: &mut Builder<'_>| layers::assign(b, &step, Some(&lr)).map(|_| ());
        switch.otherwise(&mut b, rest).unwrap();
        let mut session = Session::start(net);
        for _ in 0..2 {
            let out = session.run(&mut Feed::new(), &["lr"]);
            assert_eq!(out[0], Tensor::full([1], expected as f32));
        }
    }
}

#[test]
fn a_loop_counts_and_collects() {
    let mut net = Net::default();
    let mut b = net.builder();
    let (i, n) = (constant(&mut b, DType::I64, 0.0), constant(&mut b, DType::I64, 4.0));
    let sum = constant(&mut b, DType::F32, 0.0);
    let list = layers::create_array(&mut b, DType::F32).unwrap();
    let going = layers::create_tensor(&mut b, DType::Bool, None, false).unwrap();
    less_than(&mut b, &i, &n, &going).unwrap();
    let body = |b: &mut Builder<'_>| {
        increment(b, &sum, 2.0)?;
        layers::array_write(b, &sum, &i, Some(&list))?;
        increment(b, &i, 1.0)?;
        less_than(b, &i, &n, &going)
    };
    layers::while_loop(&mut b, &going, body).unwrap();
    let length = layers::array_length(&mut b, &list).unwrap();
    let two = constant(&mut b, DType::I64, 2.0);
    let third = layers::array_read(&mut b, &list, &two).unwrap();
    let mut session = Session::start(net);
    for _ in 0..2 {
        let out = session.run(&mut Feed::new(), &[sum.name(), length.name(), third.name()]);
        assert_eq!(out[0], Tensor::full([1], 8.0f32));
        assert_eq!(out[1], Tensor::full([1], 4i64));
        assert_eq!(out[2], Tensor::full([1], 6.0f32));
    }
}

#[test]
fn cond_gives_the_result_of_one_branch() {
    for (x, expected) in [(3.0, 3.0), (5.0, 4.0)] {
        let mut net = Net::default();
        let mut b = net.builder();
        let (x, y) = (constant(&mut b, DType::F32, x), constant(&mut b, DType::F32, 4.0));
        let pred = layers::create_tensor(&mut b, DType::Bool, None, false).unwrap();
        less_than(&mut b, &x, &y, &pred).unwrap();
        let mut yes = |b: &mut Builder<'_>| Ok(vec![layers::assign(b, &x, None)?]);
        let mut no = |b: &mut Builder<'_>| Ok(vec![layers::assign(b, &y, None)?]);
        let out = layers::cond(&mut b, &pred, &mut yes, &mut no).unwrap();
        let mut session = Session::start(net);
        let got = session.run(&mut Feed::new(), &[out[0].name()]);
        assert_eq!(got[0], Tensor::full([1], expected as f32));
    }
}
