//! Feeding, fetching, caching, memory, interruption and refusals of the executor.

use program::layers::{self, Data, Fc};
use program::{Error as ProgramError, Net, OpDesc, Program};
use tensor::{DType, Tensor, Value};

use super::*;
use crate::Error;

/// `x[2] -> fc(3, relu) -> mean`, parameters filled.
struct Model {
    net: Net,
    loss: String,
    hidden: String,
    scope: Scope,
}

fn model() -> Model {
    let mut net = Net::with_seed(90);
    let mut b = net.builder();
    let x = layers::data(&mut b, "x", &[2], Data::default()).unwrap();
    let hidden = layers::fc(&mut b, &[x], 3, Fc { act: Some("relu"), ..Fc::default() }).unwrap();
    let loss = layers::mean(&mut b, &hidden, None).unwrap();
    let scope = Scope::new();
    Executor::new().run(&net.startup, &scope, &mut Feed::new(), &[]).unwrap();
    Model { net, loss: loss.name().into(), hidden: hidden.name().into(), scope }
}

fn batch(rows: &[[f32; 2]]) -> Feed {
    Feed::new().with("x", Tensor::new([rows.len(), 2], rows.as_flattened()).unwrap())
}

fn f32s(tensor: &Tensor) -> &[f32] {
    tensor.data().unwrap()
}

/// A chain of `scale` ops, each doubling; returns the last variable.
fn chain(program: &mut Program, n: usize) -> String {
    let meta = program::Meta::dense(DType::F32, &[-1]);
    let mut var = program::VarDesc::new("v0", meta);
    var.is_data = true;
    program.block_mut(0).put_var(var);
    for i in 0..n {
        let op = OpDesc::new("scale").input("X", format!("v{i}")).attr("scale", 2.0f32);
        program.append_op(0, op.output("Out", format!("v{}", i + 1))).unwrap();
    }
    format!("v{n}")
}

#[test]
fn lends_the_feed_and_hands_results_over() {
    let Model { net, loss, hidden, scope } = model();
    let mut feed = batch(&[[1.0, 2.0], [3.0, 4.0]]);
    let before = feed.clone();
    let mut exe = Executor::new();
    let got = exe.run(&net.main, &scope, &mut feed, &[&hidden, &loss, &hidden]).unwrap();
    assert_eq!(got[0], got[2], "one variable may be fetched twice");
    let mean = f32s(&got[0]).iter().sum::<f32>() / 6.0;
    assert!((f32s(&got[1])[0] - mean).abs() < 1e-6);
    assert!(before.tensors().eq(feed.tensors()), "the feed is back, unchanged");
}

#[test]
fn a_second_run_is_the_same_and_fetches_parameters_by_copy() {
    let Model { net, loss, scope, .. } = model();
    let mut exe = Executor::new();
    let mut feed = batch(&[[1.0, 2.0]]);
    let first = exe.run(&net.main, &scope, &mut feed, &[&loss, "fc_0.w_0"]).unwrap();
    let second = exe.run(&net.main, &scope, &mut feed, &[&loss, "fc_0.w_0"]).unwrap();
    assert_eq!(first, second);
    assert!(scope.get("fc_0.w_0").unwrap().tensor().is_some(), "the scope still has it");
    assert_eq!(exe.cache.len(), 1, "prepared once");
}

#[test]
fn a_block_that_no_op_runs_may_name_what_is_not_there() {
    let Model { mut net, loss, scope, .. } = model();
    let left = net.main.push_block();
    let op = OpDesc::new("assign").input("X", "on a server").output("Out", "learning_rate");
    net.main.block_mut(left).ops.push(op);
    let mut exe = Executor::new();
    let got = exe.run(&net.main, &scope, &mut batch(&[[1.0, 2.0]]), &[&loss]).unwrap();
    assert_eq!(got[0].len(), 1);
}

#[test]
fn batches_may_change_size() {
    let Model { net, hidden, scope, .. } = model();
    let mut exe = Executor::new();
    for n in [1, 5, 2] {
        let mut feed = batch(&vec![[1.0, -1.0]; n]);
        let got = exe.run(&net.main, &scope, &mut feed, &[&hidden]).unwrap();
        assert_eq!(got[0].dims(), [n, 3]);
    }
}

#[test]
fn a_changed_program_is_prepared_again() {
    let Model { mut net, loss, scope, .. } = model();
    let mut exe = Executor::new();
    let mut feed = batch(&[[1.0, 2.0]]);
    let before = exe.run(&net.main, &scope, &mut feed, &[&loss]).unwrap();
    let op = OpDesc::new("scale").input("X", &loss).output("Out", &loss).attr("scale", 2.0f32);
    net.main.append_op(0, op).unwrap();
    let after = exe.run(&net.main, &scope, &mut feed, &[&loss]).unwrap();
    assert_eq!(f32s(&after[0])[0], 2.0 * f32s(&before[0])[0]);
}

#[test]
fn fused_and_separate_ops_agree_bit_for_bit() {
    let Model { net, hidden, scope, .. } = model();
    let run = |fuse: bool, reuse_memory: bool| {
        let options = Options { fuse, reuse_memory, ..Options::default() };
        let mut exe = Executor::with_options(options);
        let mut feed = batch(&[[1.5, -2.0], [0.1, 0.3]]);
        let n_ops = exe.prepare(&net.main, &feed, &[&hidden]).unwrap().n_ops();
        (exe.run(&net.main, &scope, &mut feed, &[&hidden]).unwrap(), n_ops)
    };
    let (separate, n_separate) = run(false, false);
    let (fused, n_fused) = run(true, true);
    assert_eq!(fused, separate);
    assert_eq!((n_separate, n_fused), (4, 2), "mul + add + relu are one");
}

#[test]
fn a_long_chain_needs_two_places() {
    let mut program = Program::default();
    let last = chain(&mut program, 20);
    let mut exe = Executor::new();
    let mut feed = Feed::new().with("v0", Tensor::full([1000], 1.0f32));
    let got = exe.run(&program, &Scope::new(), &mut feed, &[&last]).unwrap();
    assert_eq!(f32s(&got[0])[999], (1u32 << 20) as f32);
    let prepared = exe.prepare(&program, &feed, &[&last]).unwrap();
    assert!(prepared.temporary_bytes() < 4 * 1000 * 4, "{}", prepared.temporary_bytes());
}

#[test]
fn an_interrupted_run_says_where_and_leaves_the_scope_whole() {
    let Model { net, loss, scope, .. } = model();
    let mut exe = Executor::new();
    let mut feed = batch(&[[1.0, 2.0]]);
    let at = exe.ready(&net.main, &feed, &[&loss], &NoHost).unwrap();
    let mut profile = Profile::default();
    let interrupt = Interrupt::default();
    interrupt.set();
    let options = Options::default();
    let profile = &mut profile;
    let interrupt = &interrupt;
    let scope = &scope;
    let mut watch = step::Watch {
        options,
        profile,
        interrupt,
        poll: None,
        scope,
        host: &mut NoHost,
        packed: &PackedWeights::default(),
        borrows: None,
    };
    let result = exe.cache[at].1.run(&mut feed, &mut Vec::<Value>::new(), &mut watch);
    assert!(matches!(result, Err(Error::Interrupted { block: 0, index: 0, .. })), "{result:?}");
    assert!(scope.get("fc_0.w_0").unwrap().tensor().is_some());
    exe.run(&net.main, scope, &mut feed, &[&loss]).unwrap();
}

#[test]
fn a_poll_ends_a_run_between_two_ops() {
    let Model { net, loss, scope, .. } = model();
    let mut exe = Executor::new();
    let mut asked = 0;
    exe.poll(Duration::ZERO, move || {
        asked += 1;
        asked == 2
    });
    let error = exe.run(&net.main, &scope, &mut batch(&[[1.0, 2.0]]), &[&loss]).unwrap_err();
    assert!(matches!(error, Error::Interrupted { block: 0, .. }), "{error}");
    exe.run(&net.main, &scope, &mut batch(&[[1.0, 2.0]]), &[&loss]).unwrap();
}

#[test]
fn nan_is_an_error_that_names_op_and_variable_when_asked_for() {
    let Model { net, loss, scope, .. } = model();
    let options = Options { check_nan_inf: true, ..Options::default() };
    let mut exe = Executor::with_options(options);
    let mut feed = batch(&[[f32::INFINITY, 1.0]]);
    let error = exe.run(&net.main, &scope, &mut feed, &[&loss]).unwrap_err();
    let Error::Program(inner) = &error else { panic!("{error}") };
    let ProgramError::NotFinite { op, var, .. } = inner.root() else { panic!("{error}") };
    assert_eq!((op.as_str(), var.as_str()), ("mul", "fc_0.tmp_0"));
    *exe.options_mut() = Options::default();
    exe.run(&net.main, &scope, &mut feed, &[&loss]).unwrap();
}

#[test]
fn a_profile_counts_the_users_own_ops() {
    let Model { net, loss, scope, .. } = model();
    let options = Options { profile: true, ..Options::default() };
    let mut exe = Executor::with_options(options);
    for _ in 0..3 {
        exe.run(&net.main, &scope, &mut batch(&[[1.0, 2.0]]), &[&loss]).unwrap();
    }
    let times = exe.take_profile();
    let mut seen: Vec<_> = times.iter().map(|time| (time.index, &*time.op, time.calls)).collect();
    seen.sort_unstable();
    assert_eq!(seen, [(0, "mul", 3), (1, "elementwise_add", 3), (2, "relu", 3), (3, "mean", 3)]);
    assert!(exe.take_profile().is_empty(), "taken");
}

#[track_caller]
fn refusal(feed: &mut Feed, fetch: &[&str]) -> Error {
    let Model { net, scope, .. } = model();
    Executor::new().run(&net.main, &scope, feed, fetch).unwrap_err()
}

#[test]
fn refuses_feeds_and_fetches_that_do_not_fit() {
    let feed = &mut batch(&[[1.0, 2.0]]);
    let error = refusal(&mut Feed::new().with("z", Tensor::full([1], 1.0f32)), &[]);
    assert!(matches!(&error, Error::FeedNotDeclared { var, .. } if var == "z"), "{error}");
    let error = refusal(feed, &["z"]);
    assert!(matches!(&error, Error::FetchUnknown { var, .. } if var == "z"), "{error}");
    let error = refusal(&mut Feed::new(), &["x"]);
    assert!(matches!(&error, Error::FetchNotComputed { var } if var == "x"), "{error}");
    let error = refusal(&mut Feed::new().with("x", Tensor::default()), &[]);
    assert!(matches!(&error, Error::FeedEmpty { var, .. } if var == "x"), "{error}");
}

#[test]
fn an_unfed_data_variable_is_named() {
    let error = refusal(&mut Feed::new(), &[]);
    let Error::Program(inner) = &error else { panic!("{error}") };
    assert!(matches!(inner.root(), ProgramError::NotFed { var, .. } if var == "x"), "{error}");
}

#[test]
fn an_unfed_data_variable_does_not_see_the_batch_before() {
    let Model { net, loss, scope, .. } = model();
    let mut exe = Executor::new();
    exe.run(&net.main, &scope, &mut batch(&[[1.0, 2.0]]), &[&loss]).unwrap();
    assert!(exe.run(&net.main, &scope, &mut Feed::new(), &[&loss]).is_err());
}

#[test]
fn parameters_that_were_not_filled_are_named() {
    let Model { net, loss, .. } = model();
    let mut exe = Executor::new();
    let error = exe.run(&net.main, &Scope::new(), &mut batch(&[[1.0, 2.0]]), &[&loss]).unwrap_err();
    let Error::Program(inner) = &error else { panic!("{error}") };
    let unfilled = |error: &ProgramError| matches!(error, ProgramError::NotInitialized { var, .. } if var == "fc_0.w_0");
    assert!(unfilled(inner.root()), "{error}");
}

#[test]
fn a_checked_feed_must_have_the_declared_shape_and_type() {
    let mut net = Net::default();
    let mut b = net.builder();
    let checked = Data { need_check_feed: true, ..Data::default() };
    let x = layers::data(&mut b, "x", &[2], checked).unwrap();
    let y = layers::mean(&mut b, &x, None).unwrap();
    let mut exe = Executor::new();
    let mut run = |tensor: Tensor| {
        let mut feed = Feed::new().with("x", tensor);
        exe.run(&net.main, &Scope::new(), &mut feed, &[y.name()])
    };
    assert!(run(Tensor::full([4, 2], 1.0f32)).is_ok());
    let error = run(Tensor::full([4, 3], 1.0f32)).unwrap_err();
    assert!(matches!(error, Error::FeedShape { .. }), "{error}");
    let error = run(Tensor::full([4, 2], 1.0f64)).unwrap_err();
    assert!(matches!(error, Error::FeedDType { .. }), "{error}");
}

#[test]
fn an_op_that_fails_leaves_parameters_and_feeds_in_place() {
    let Model { net, loss, scope, .. } = model();
    let mut feed = Feed::new().with("x", Tensor::full([1, 3], 1.0f32));
    let error = Executor::new().run(&net.main, &scope, &mut feed, &[&loss]).unwrap_err();
    let Error::Program(inner) = &error else { panic!("{error}") };
    assert!(matches!(inner.root(), ProgramError::Shapes { .. }), "{error}");
    assert!(scope.get("fc_0.w_0").unwrap().tensor().is_some());
    assert_eq!(feed.tensors().next().unwrap().dims(), [1, 3]);
}

/// Counts down from `left`, a batch of one row each.
struct Countdown(usize);

impl crate::BatchSource for Countdown {
    fn next(&mut self) -> crate::Result<Option<Vec<Tensor>>> {
        let Some(left) = self.0.checked_sub(1) else { return Ok(None) };
        self.0 = left;
        Ok(Some(vec![Tensor::full([1, 2], left as f32)]))
    }
}

#[test]
fn a_reader_feeds_runs_until_its_pass_ends() {
    let mut net = Net::default();
    let reader = program::Meta { kind: program::VarKind::Reader, ..program::Meta::default() };
    let reader = program::VarDesc::new("r", reader).persistable();
    net.main.block_mut(0).put_var(reader);
    let mut b = net.builder();
    let x = layers::data(&mut b, "x", &[2], Data::default()).unwrap();
    b.op(OpDesc::new("read").input("Reader", "r").output("Out", &x)).unwrap();
    let y = layers::mean(&mut b, &x, None).unwrap();
    let (mut exe, scope) = (Executor::new(), Scope::new());
    let mut run = || exe.run(&net.main, &scope, &mut Feed::new(), &[y.name()]);
    assert!(matches!(run().unwrap_err(), Error::NoReader { .. }), "not started");
    scope.attach_reader("r", Box::new(Countdown(2)));
    assert_eq!(f32s(&run().unwrap()[0]), [1.0]);
    assert_eq!(f32s(&run().unwrap()[0]), [0.0]);
    let Error::Program(error) = run().unwrap_err() else { panic!("an op's error") };
    assert!(matches!(error.root(), ProgramError::EndOfPass { .. }), "{error}");
}

/// A program that adds up `x` of all trainers.
fn exchanging() -> Program {
    let mut program = Program::default();
    let mut var = program::VarDesc::new("x", program::Meta::dense(DType::F32, &[-1]));
    var.is_data = true;
    program.block_mut(0).put_var(var);
    let op = OpDesc::new("c_allreduce_sum").input("X", "x").output("Out", "x");
    program.append_op(0, op).unwrap();
    program
}

#[test]
fn an_executor_without_a_host_refuses_to_exchange() {
    let mut feed = Feed::new().with("x", Tensor::full([1], 1.0f32));
    let error = Executor::new().run(&exchanging(), &Scope::new(), &mut feed, &[]).unwrap_err();
    let Error::Program(inner) = &error else { panic!("{error}") };
    assert!(matches!(inner.root(), ProgramError::NoHost { .. }), "{error}");
}

/// A host whose trainers have gone back to a cut.
#[derive(Default)]
struct GoneBack {
    n_begun: usize,
    n_ended: usize,
}

impl program::op::Host for GoneBack {
    fn trainers(&mut self) -> program::Result<&mut dyn program::trainers::Trainers> {
        Err(program::op::host_error(Error::GoesBack))
    }
}

impl RunHost for GoneBack {
    fn begin(&mut self, _: &Scope) {
        self.n_begun += 1;
    }

    fn end(&mut self, _: &Scope) -> Result<()> {
        self.n_ended += 1;
        Ok(())
    }
}

#[test]
fn what_the_host_reports_comes_back_as_it_is() {
    let mut host = GoneBack::default();
    let mut feed = Feed::new().with("x", Tensor::full([1], 1.0f32));
    let (program, scope) = (exchanging(), Scope::new());
    let fetched = &mut Vec::<Value>::new();
    let asked =
        RunRequest { program: &program, scope: &scope, feed: &mut feed, fetch: &[], fetched };
    let ran = Executor::new().run_on(&mut host, asked);
    assert!(matches!(ran, Err(Error::GoesBack)), "{ran:?}");
    assert_eq!((host.n_begun, host.n_ended), (1, 0), "a run that fails is not ended");
    assert!(feed.get("x").is_some_and(Tensor::is_initialized), "the feed is back");
}
