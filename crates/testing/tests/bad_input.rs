//! Mistakes of users are answered with a typed error that names the op, the variable and the shape.
//! Nothing panics, and the session can continue.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use program::backward::{self, Limits};
use program::layers::{self, Accuracy, Auc, CrossEntropy, Data, Embedding, Fc};
use program::optimizer::{Optimizer, Sgd};
use program::{Builder, Error as ProgramError, Net, OpDesc, Var};
use tensor::{DType, Tensor};
use testing::session::Session;
use train::{Error, Feed};

fn floats(b: &mut Builder<'_>, name: &str, width: i64) -> Var {
    layers::data(b, name, &[width], Data::default()).unwrap()
}

/// Builds a net, or returns the error of the line that refused.
fn build(layers: impl FnOnce(&mut Builder<'_>) -> program::Result<Var>) -> program::Result<Net> {
    let mut net = Net::with_seed(1);
    layers(&mut net.builder())?;
    Ok(net)
}

/// The error of the layers, where there must be one.
#[track_caller]
fn refused(layers: impl FnOnce(&mut Builder<'_>) -> program::Result<Var>) -> ProgramError {
    build(layers).expect_err("the layer must refuse")
}

/// The net `mean(fc(x))` with x as wide as 3.
fn fc_session() -> (Session, String) {
    let mut net = Net::with_seed(1);
    let mut b = net.builder();
    let x = floats(&mut b, "x", 3);
    let y = layers::fc(&mut b, &[x], 2, Fc::default()).unwrap();
    let out = layers::mean(&mut b, &y, None).unwrap();
    (Session::start(net), out.name().to_string())
}

fn ones(dims: &[usize]) -> Tensor {
    Tensor::full(dims, 1.0f32)
}

#[track_caller]
fn run_error(feed: Feed) -> Error {
    let (mut session, out) = fc_session();
    let error = session.try_run(&mut feed.clone(), &[&out]).expect_err("the run must refuse");
    // A refusal costs nothing: the next good batch runs.
    session.run(&mut Feed::new().with("x", ones(&[4, 3])), &[&out]);
    error
}

/// The fact inside, and the place around it.
#[track_caller]
fn in_op(error: &Error) -> (&ProgramError, &str) {
    match error {
        Error::Program(inner @ ProgramError::InOp { kind, .. }) => (inner.root(), kind),
        other => panic!("does not say in which op: {other}"),
    }
}

#[test]
fn an_op_nobody_knows() {
    let error = refused(|b| {
        let x = floats(b, "x", 3);
        b.op(OpDesc::new("no_such_op").input("X", &x).output("Out", "y")).map(|()| x)
    });
    assert!(
        matches!(error.root(), ProgramError::UnknownOp { op, .. } if op == "no_such_op"),
        "{error}"
    );
}

#[test]
fn a_variable_nobody_declared() {
    let error = refused(|b| layers::mean(b, &Var::from("ghost"), None));
    assert!(
        matches!(error.root(), ProgramError::UnknownVar { var, .. } if var == "ghost"),
        "{error}"
    );
}

#[test]
fn an_op_without_its_input() {
    let error = refused(|b| {
        let x = floats(b, "x", 3);
        b.op(OpDesc::new("mul").input("X", &x).output("Out", "y")).map(|()| x)
    });
    let missing = |op: &str, port: &str| op == "mul" && port == "Y";
    assert!(
        matches!(error.root(), ProgramError::MissingInput { op, port } if missing(op, port)),
        "{error}"
    );
}

#[test]
fn shapes_that_do_not_fit_when_built() {
    let error = refused(|b| {
        let (x, y) = (floats(b, "x", 3), floats(b, "y", 4));
        b.op(OpDesc::new("elementwise_add").input("X", &x).input("Y", &y).output("Out", "z"))?;
        Ok(x)
    });
    let ProgramError::Shapes { left, left_dims, right, right_dims, .. } = error.root() else {
        panic!("{error}")
    };
    assert_eq!((left.as_str(), left_dims.as_slice()), ("x", &[-1i64, 3] as &[i64]));
    assert_eq!((right.as_str(), right_dims.as_slice()), ("y", &[-1i64, 4] as &[i64]));
    assert!(error.to_string().contains("elementwise_add"), "{error}");
}

#[test]
fn shapes_that_do_not_fit_when_run() {
    let error = run_error(Feed::new().with("x", ones(&[4, 5])));
    let (fact, op) = in_op(&error);
    let ProgramError::Shapes { left, left_dims, right, right_dims, .. } = fact else {
        panic!("{error}")
    };
    assert_eq!(op, "mul");
    assert_eq!((left.as_str(), left_dims.as_slice()), ("x", &[4i64, 5] as &[i64]));
    assert_eq!((right.as_str(), right_dims.as_slice()), ("fc_0.w_0", &[3i64, 2] as &[i64]));
}

#[test]
fn a_fed_shape_that_is_checked() {
    let mut net = Net::default();
    let mut b = net.builder();
    let checked = Data { need_check_feed: true, ..Data::default() };
    let x = layers::data(&mut b, "x", &[3], checked).unwrap();
    let out = layers::mean(&mut b, &x, None).unwrap();
    let mut session = Session::start(net);
    let mut run = |tensor| session.try_run(&mut Feed::new().with("x", tensor), &[out.name()]);
    let error = run(ones(&[4, 5])).unwrap_err();
    assert!(
        matches!(&error, Error::FeedShape { var, declared, fed }
            if var == "x" && *declared == [-1, 3] && *fed == [4, 5]),
        "{error}"
    );
    let error = run(Tensor::full([4, 3], 1.0f64)).unwrap_err();
    assert!(
        matches!(&error, Error::FeedDType { var, declared: DType::F32, fed: DType::F64 }
            if var == "x"),
        "{error}"
    );
}

#[test]
fn another_element_type_than_declared() {
    let error = run_error(Feed::new().with("x", Tensor::full([4, 3], 1.0f64)));
    let (fact, op) = in_op(&error);
    let tensor::Error::DTypeMismatch { expected, actual } = (match fact {
        ProgramError::Tensor(fact) => fact,
        _ => panic!("{error}"),
    }) else {
        panic!("{error}")
    };
    assert_eq!((*expected, *actual), (DType::F64, DType::F32));
    // Either of the two ops of `fc` may notice first; the parameter that does not fit is named.
    assert!(["mul", "elementwise_add"].contains(&op), "{error}");
    assert!(error.to_string().contains("fc_0."), "{error}");
}

#[test]
fn a_fed_name_that_is_not_declared() {
    let error = run_error(Feed::new().with("x", ones(&[4, 3])).with("z", ones(&[1])));
    assert!(matches!(&error, Error::FeedNotDeclared { var, .. } if var == "z"), "{error}");
}

#[test]
fn a_fed_tensor_that_holds_nothing() {
    let error = run_error(Feed::new().with("x", Tensor::default()));
    assert!(matches!(&error, Error::FeedEmpty { var, .. } if var == "x"), "{error}");
}

#[test]
fn a_data_variable_that_is_not_fed() {
    let error = run_error(Feed::new());
    let (fact, op) = in_op(&error);
    assert_eq!(op, "mul");
    assert!(matches!(fact, ProgramError::NotFed { var, .. } if var == "x"), "{error}");
}

#[test]
fn a_program_before_its_startup() {
    let (session, out) = fc_session();
    let mut exe = train::Executor::new();
    let mut feed = Feed::new().with("x", ones(&[4, 3]));
    let scope = train::Scope::new();
    let error = exe.run(&session.net.main, &scope, &mut feed, &[&out]).unwrap_err();
    let (fact, op) = in_op(&error);
    assert_eq!(op, "mul");
    assert!(
        matches!(fact, ProgramError::NotInitialized { var, .. } if var == "fc_0.w_0"),
        "{error}"
    );
}

#[test]
fn a_fetch_of_what_is_not_declared() {
    let (mut session, _) = fc_session();
    let mut feed = Feed::new().with("x", ones(&[4, 3]));
    let error = session.try_run(&mut feed, &["ghost"]).unwrap_err();
    assert!(matches!(&error, Error::FetchUnknown { var, .. } if var == "ghost"), "{error}");
}

#[test]
fn a_fetch_of_what_no_op_writes() {
    let mut net = Net::default();
    let mut b = net.builder();
    let x = floats(&mut b, "x", 3);
    layers::mean(&mut b, &x, None).unwrap();
    let idle = b.temp("idle", DType::F32);
    let mut session = Session::start(net);
    let mut feed = Feed::new().with("x", ones(&[4, 3]));
    let error = session.try_run(&mut feed, &[idle.name()]).unwrap_err();
    assert!(matches!(&error, Error::FetchNotComputed { var } if var == "idle.tmp_0"), "{error}");
}

#[test]
fn a_loss_that_is_no_single_number() {
    let mut net = Net::default();
    let mut b = net.builder();
    let x = floats(&mut b, "x", 3);
    let y = layers::fc(&mut b, &[x], 2, Fc::default()).unwrap();
    let limits = Limits::default();
    let error = backward::append_backward(&mut net.main, y.name(), &limits).unwrap_err();
    assert!(
        matches!(&error, ProgramError::LossShape { var, dims } if var == y.name() && *dims == [-1, 2]),
        "{error}"
    );
}

// ---- labels and ids

fn ids(b: &mut Builder<'_>, name: &str) -> Var {
    layers::data(b, name, &[1], Data { dtype: DType::I64, ..Data::default() }).unwrap()
}

fn column(values: &[i64]) -> Tensor {
    Tensor::new([values.len(), 1], values).unwrap()
}

/// Cross entropy of two samples over three classes.
#[track_caller]
fn label_error(labels: &[i64]) -> Error {
    let mut net = Net::default();
    let mut b = net.builder();
    let (x, label) = (floats(&mut b, "x", 3), ids(&mut b, "label"));
    let out = layers::cross_entropy(&mut b, &x, &label, CrossEntropy::default()).unwrap();
    let mut session = Session::start(net);
    let mut feed = Feed::new().with("x", ones(&[2, 3])).with("label", column(labels));
    session.try_run(&mut feed, &[out.name()]).expect_err("a class that is not there")
}

#[test]
fn a_label_beyond_the_classes() {
    let error = label_error(&[0, 3]);
    let (fact, op) = in_op(&error);
    assert_eq!(op, "cross_entropy2");
    let ProgramError::LabelOutOfRange { var, row, label, n_classes } = fact else {
        panic!("{error}")
    };
    assert_eq!((var.as_str(), *row, *label, *n_classes), ("label", 1, 3, 3));
}

#[test]
fn a_negative_label() {
    let error = label_error(&[-1, 2]);
    let (fact, _) = in_op(&error);
    assert!(matches!(fact, ProgramError::LabelOutOfRange { label: -1, row: 0, .. }), "{error}");
}

#[test]
fn a_label_for_each_sample() {
    let error = label_error(&[0, 1, 2]);
    let (fact, op) = in_op(&error);
    assert_eq!(op, "cross_entropy2");
    assert!(matches!(fact, ProgramError::Shapes { .. }), "{error}");
}

/// Two slots that look up rows of one table of five: the ids of the second are the user's.
#[track_caller]
fn look_up(wrong: &[i64], is_sparse: bool) -> Result<Vec<Tensor>, Error> {
    let mut net = Net::with_seed(1);
    let mut b = net.builder();
    let mut rows = Vec::new();
    for slot in ["C1", "C2"] {
        let ids = ids(&mut b, slot);
        let param_attr = program::ParamAttr::named("table");
        let options =
            Embedding { is_sparse, padding_idx: Some(4), param_attr, ..Embedding::default() };
        rows.push(layers::embedding(&mut b, &ids, [5, 2], options).unwrap());
    }
    let joined = layers::concat(&mut b, &rows, 1, None).unwrap();
    let loss = layers::mean(&mut b, &joined, None).unwrap();
    backward::append_backward(&mut net.main, loss.name(), &Limits::default()).unwrap();
    let mut session = Session::start(net);
    let mut feed = Feed::new().with("C1", column(&[0, 4])).with("C2", column(wrong));
    session.try_run(&mut feed, &[rows[1].name()])
}

#[test]
fn an_id_outside_of_the_table() {
    for (wrong, bad) in [([1, 5], 5), ([1, -1], -1), ([1, i64::MAX], i64::MAX)] {
        for is_sparse in [false, true] {
            let error = look_up(&wrong, is_sparse).expect_err("the table has five rows");
            let (fact, op) = in_op(&error);
            assert_eq!(op, "lookup_table");
            let ProgramError::IdOutOfRange { var, position, id, height } = fact else {
                panic!("{error}")
            };
            assert_eq!((var.as_str(), *position, *id, *height), ("C2", 1, bad, 5));
        }
    }
}

#[test]
fn the_padding_id_gives_zeros() {
    let rows = look_up(&[4, 1], true).unwrap();
    let rows = rows[0].data::<f32>().unwrap();
    assert_eq!(rows[..2], [0.0, 0.0]);
    assert_ne!(rows[2..], [0.0, 0.0]);
}

#[test]
fn a_padding_id_outside_of_the_table() {
    let error = refused(|b| {
        let ids = ids(b, "ids");
        let options = Embedding { padding_idx: Some(5), ..Embedding::default() };
        layers::embedding(b, &ids, [5, 2], options)
    });
    assert!(error.to_string().contains("padding_idx"), "{error}");
}

#[test]
fn the_gradient_of_what_has_none() {
    let mut net = Net::with_seed(1);
    let mut b = net.builder();
    let (x, label) = (floats(&mut b, "x", 3), ids(&mut b, "label"));
    let softmax = Fc { act: Some("softmax"), ..Fc::default() };
    let y = layers::fc(&mut b, &[x], 2, softmax).unwrap();
    let auc = layers::auc(&mut b, &y, &label, Auc::default()).unwrap().auc;
    let limits = Limits::default();
    let error = backward::append_backward(&mut net.main, auc.name(), &limits).unwrap_err();
    let fact = error.root();
    assert!(matches!(fact, ProgramError::NotDifferentiable { op } if op == "auc"), "{error}");
    assert!(matches!(&error, ProgramError::InOp { kind, .. } if kind == "auc"), "{error}");
}

#[test]
fn a_loss_that_no_parameter_reaches() {
    let mut net = Net::with_seed(1);
    let mut b = net.builder();
    let (x, label) = (floats(&mut b, "x", 3), ids(&mut b, "label"));
    let y = layers::fc(&mut b, &[x], 4, Fc::default()).unwrap();
    let loss = layers::accuracy(&mut b, &y, &label, Accuracy::default()).unwrap();
    let done = Optimizer::new(Sgd, 0.1).minimize(&mut b, &loss, &Limits::default()).unwrap();
    assert_eq!(done, (vec![], vec![]), "as in Fluid");
}
