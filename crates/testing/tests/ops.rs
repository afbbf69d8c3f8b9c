//! Single layers: forward value and gradient of `sum(out * weight)` are Fluid's.
//!
//! The table mirrors `golden/gen/gen_ops.py` case by case.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use program::backward::{self, Limits};
use program::layers::{self, *};
use program::{Builder, Initializer, Net, ParamAttr, Result, Var, names};
use tensor::{Lod, Tensor};
use testing::close::{Tolerance, assert_tensor};
use testing::golden::Golden;
use testing::session::Session;
use train::Feed;

const TOLERANCE: Tolerance = Tolerance::of(1e-5);

/// The sequences that `s` is made of.
const LENGTHS: [usize; 3] = [2, 0, 3];

/// The inputs of a case by name.
type In<'a> = &'a dyn Fn(&str) -> Var;

/// Appends the layer under test.
type Layer = fn(&mut Builder<'_>, In<'_>) -> Result<Var>;

/// Each case of the golden file.
const CASES: &[(&str, Layer)] = &[
    ("mul", |b, v| layers::mul(b, &v("a"), &v("b"), Mul::default())),
    ("mul_cols2", |b, v| {
        layers::mul(b, &v("a"), &v("b"), Mul { x_num_col_dims: 2, ..Mul::default() })
    }),
    ("matmul_t", |b, v| {
        let options = Matmul { transpose_y: true, alpha: 0.5, ..Matmul::default() };
        layers::matmul(b, &v("a"), &v("b"), options)
    }),
    ("elementwise_add", |b, v| layers::elementwise_add(b, &v("a"), &v("b"), ALIKE)),
    ("elementwise_add_axis", |b, v| layers::elementwise_add(b, &v("a"), &v("b"), AXIS_1)),
    ("elementwise_sub", |b, v| layers::elementwise_sub(b, &v("a"), &v("b"), ALIKE)),
    ("elementwise_sub_axis", |b, v| layers::elementwise_sub(b, &v("a"), &v("b"), AXIS_1)),
    ("elementwise_mul", |b, v| layers::elementwise_mul(b, &v("a"), &v("b"), ALIKE)),
    ("elementwise_mul_axis", |b, v| layers::elementwise_mul(b, &v("a"), &v("b"), AXIS_1)),
    ("elementwise_div", |b, v| layers::elementwise_div(b, &v("a"), &v("b"), ALIKE)),
    ("elementwise_div_axis", |b, v| layers::elementwise_div(b, &v("a"), &v("b"), AXIS_1)),
    ("elementwise_max", |b, v| layers::elementwise_max(b, &v("a"), &v("b"), ALIKE)),
    ("elementwise_max_axis", |b, v| layers::elementwise_max(b, &v("a"), &v("b"), AXIS_1)),
    ("elementwise_min", |b, v| layers::elementwise_min(b, &v("a"), &v("b"), ALIKE)),
    ("elementwise_min_axis", |b, v| layers::elementwise_min(b, &v("a"), &v("b"), AXIS_1)),
    ("relu", |b, v| layers::relu(b, &v("a"), None)),
    ("sigmoid", |b, v| layers::sigmoid(b, &v("a"), None)),
    ("tanh", |b, v| layers::tanh(b, &v("a"), None)),
    ("exp", |b, v| layers::exp(b, &v("a"), None)),
    ("square", |b, v| layers::square(b, &v("a"), None)),
    ("abs", |b, v| layers::abs(b, &v("a"), None)),
    ("softplus", |b, v| layers::softplus(b, &v("a"), None)),
    ("softsign", |b, v| layers::softsign(b, &v("a"), None)),
    ("leaky_relu", |b, v| layers::leaky_relu(b, &v("a"), LeakyRelu::default())),
    ("elu", |b, v| layers::elu(b, &v("a"), Elu::default())),
    ("hard_sigmoid", |b, v| layers::hard_sigmoid(b, &v("a"), HardSigmoid::default())),
    ("swish", |b, v| layers::swish(b, &v("a"), Swish::default())),
    ("relu6", |b, v| layers::relu6(b, &v("a"), Relu6::default())),
    ("logsigmoid", |b, v| layers::logsigmoid(b, &v("a"), None)),
    ("gelu", |b, v| layers::gelu(b, &v("a"), false)),
    ("stanh", |b, v| layers::stanh(b, &v("a"), Stanh::default())),
    ("brelu", |b, v| layers::brelu(b, &v("a"), Brelu::default())),
    ("soft_relu", |b, v| layers::soft_relu(b, &v("a"), SoftRelu::default())),
    ("reciprocal", |b, v| layers::reciprocal(b, &v("a"), None)),
    ("sqrt", |b, v| layers::sqrt(b, &v("a"), None)),
    ("log", |b, v| layers::log(b, &v("a"), None)),
    ("rsqrt", |b, v| layers::rsqrt(b, &v("a"), None)),
    ("pow", |b, v| layers::pow(b, &v("a"), Pow { factor: Amount::Is(2.5), ..Pow::default() })),
    ("scale", |b, v| {
        let scale = Amount::Is(2.0);
        let options = Scale { scale, bias: 0.5, bias_after_scale: false, ..Scale::default() };
        layers::scale(b, &v("a"), options)
    }),
    ("clip", |b, v| layers::clip(b, &v("a"), -0.3, 0.4, None)),
    ("softmax", |b, v| layers::softmax(b, &v("a"), Softmax::default())),
    ("mean", |b, v| layers::mean(b, &v("a"), None)),
    ("reduce_sum_dim1", |b, v| layers::reduce_sum(b, &v("a"), DIM_1)),
    ("reduce_mean_dim1", |b, v| layers::reduce_mean(b, &v("a"), DIM_1)),
    ("reduce_max_dim1", |b, v| layers::reduce_max(b, &v("a"), DIM_1)),
    ("reduce_min_dim1", |b, v| layers::reduce_min(b, &v("a"), DIM_1)),
    ("reduce_sum_keep", |b, v| {
        layers::reduce_sum(b, &v("a"), Reduce { dim: Some(&[0]), keep_dim: true, name: None })
    }),
    ("cross_entropy", |b, v| layers::cross_entropy(b, &v("a"), &v("l"), CrossEntropy::default())),
    ("cross_entropy_soft", |b, v| {
        let options = CrossEntropy { soft_label: true, ..CrossEntropy::default() };
        layers::cross_entropy(b, &v("a"), &v("l"), options)
    }),
    ("cross_entropy_ignore", |b, v| {
        let options = CrossEntropy { ignore_index: 1, ..CrossEntropy::default() };
        layers::cross_entropy(b, &v("a"), &v("l"), options)
    }),
    ("softmax_with_cross_entropy", |b, v| softmax_loss(b, v, false)),
    ("softmax_with_cross_entropy_soft", |b, v| softmax_loss(b, v, true)),
    ("sigmoid_cross_entropy_with_logits", |b, v| {
        let options = SigmoidCrossEntropy::default();
        layers::sigmoid_cross_entropy_with_logits(b, &v("a"), &v("l"), options)
    }),
    ("log_loss", |b, v| layers::log_loss(b, &v("a"), &v("l"), 1e-4, None)),
    ("huber_loss", |b, v| layers::huber_loss(b, &v("a"), &v("l"), 0.5)),
    ("smooth_l1", |b, v| layers::smooth_l1(b, &v("a"), &v("l"), SmoothL1::default())),
    ("square_error_cost", |b, v| layers::square_error_cost(b, &v("a"), &v("b"))),
    ("cos_sim", |b, v| layers::cos_sim(b, &v("a"), &v("b"))),
    ("l2_normalize", |b, v| layers::l2_normalize(b, &v("a"), Some(1), 1e-12, None)),
    ("layer_norm", |b, v| layers::layer_norm(b, &v("a"), LayerNorm::default())),
    ("batch_norm", |b, v| layers::batch_norm(b, &v("a"), BatchNorm::default())),
    ("batch_norm_nchw", |b, v| layers::batch_norm(b, &v("a"), BatchNorm::default())),
    ("conv2d", |b, v| {
        let param_attr = ParamAttr::init(Initializer::Constant { value: 0.1 });
        let options = Conv2d {
            stride: [2, 2],
            padding: Padding::both(1, 1),
            param_attr,
            ..Conv2d::default()
        };
        layers::conv2d(b, &v("a"), 3, [3, 3], options)
    }),
    ("pool2d_max", |b, v| {
        let (pool_size, pool_stride) = ([2, 2], [2, 2]);
        layers::pool2d(b, &v("a"), Pool2d { pool_size, pool_stride, ..Pool2d::default() })
    }),
    ("pool2d_avg_pad", |b, v| {
        let options = Pool2d {
            pool_size: [3, 3],
            pool_type: "avg",
            pool_stride: [2, 2],
            pool_padding: Padding::both(1, 1),
            ..Pool2d::default()
        };
        layers::pool2d(b, &v("a"), options)
    }),
    ("concat", |b, v| layers::concat(b, &[v("a"), v("b")], 1, None)),
    ("split1", |b, v| {
        let parts = layers::split(b, &v("a"), &Parts::Sizes(vec![1, 2]), 1, None)?;
        Ok(parts[1].clone())
    }),
    ("reshape", |b, v| layers::reshape(b, &v("a"), &[0, -1, 2], Reshape::default())),
    ("transpose", |b, v| layers::transpose(b, &v("a"), &[1, 0, 2], None)),
    ("slice", |b, v| layers::slice(b, &v("a"), &[0, 1], &[1, 0], &[3, 2])),
    ("expand", |b, v| layers::expand(b, &v("a"), &[2, 1], None)),
    ("gather", |b, v| layers::gather(b, &v("a"), &v("l"), true)),
    ("sums", |b, v| layers::sums(b, &[v("a"), v("b"), v("a")], None)),
    ("sequence_pool_sum", |b, v| pool(b, v, "sum")),
    ("sequence_pool_average", |b, v| pool(b, v, "average")),
    ("sequence_pool_sqrt", |b, v| pool(b, v, "sqrt")),
    ("sequence_pool_max", |b, v| pool(b, v, "max")),
    ("sequence_pool_first", |b, v| pool(b, v, "first")),
    ("sequence_pool_last", |b, v| pool(b, v, "last")),
    ("sequence_softmax", |b, v| layers::sequence_softmax(b, &v("s"), SequenceSoftmax::default())),
    ("embedding_dense_padding", |b, v| {
        let initializer = Some(Initializer::Uniform { low: -1.0, high: 1.0, seed: 8 });
        let param_attr = ParamAttr { initializer, ..ParamAttr::named("table") };
        let options = Embedding { padding_idx: Some(3), param_attr, ..Embedding::default() };
        layers::embedding(b, &v("l"), [6, 2], options)
    }),
    ("conv2d_nhwc", |b, v| {
        let options = Conv2d {
            stride: [2, 1],
            padding: Padding::Explicit(vec![1, 0, 0, 2]),
            dilation: [1, 2],
            groups: Some(2),
            ..conv2d_nhwc()
        };
        layers::conv2d(b, &v("a"), 4, [3, 2], options)
    }),
    ("conv2d_nhwc_same", |b, v| {
        let options = Conv2d { stride: [2, 2], padding: Padding::Same, ..conv2d_nhwc() };
        layers::conv2d(b, &v("a"), 3, [3, 3], options)
    }),
    ("pool2d_nhwc_global_max", |b, v| pool2d_nhwc_global(b, v, "max")),
    ("pool2d_nhwc_pads_max", |b, v| pool2d_nhwc_pads(b, v, "max")),
    ("pool2d_nhwc_same_max", |b, v| pool2d_nhwc_same(b, v, "max")),
    ("pool2d_nhwc_global_avg", |b, v| pool2d_nhwc_global(b, v, "avg")),
    ("pool2d_nhwc_pads_avg", |b, v| pool2d_nhwc_pads(b, v, "avg")),
    ("pool2d_nhwc_same_avg", |b, v| pool2d_nhwc_same(b, v, "avg")),
    ("dynamic_gru_large", |b, v| {
        let param_attr = ParamAttr::init(Initializer::Constant { value: 0.3 });
        layers::dynamic_gru(b, &v("s"), 2, DynamicGru { param_attr, ..DynamicGru::default() })
    }),
    ("dynamic_lstm_large", |b, v| {
        let param_attr = ParamAttr::init(Initializer::Constant { value: 0.3 });
        let options = DynamicLstm { param_attr, ..DynamicLstm::default() };
        Ok(layers::dynamic_lstm(b, &v("s"), 8, options)?.0)
    }),
];

const ALIKE: Elementwise<'static> = Elementwise { axis: -1, act: None, name: None };
const AXIS_1: Elementwise<'static> = Elementwise { axis: 1, act: None, name: None };
const DIM_1: Reduce<'static> = Reduce { dim: Some(&[1]), keep_dim: false, name: None };

fn conv2d_nhwc() -> Conv2d<'static> {
    let param_attr = ParamAttr::init(Initializer::Constant { value: 0.1 });
    Conv2d { data_format: "NHWC", param_attr, ..Conv2d::default() }
}

fn pool2d_nhwc_global(b: &mut Builder<'_>, v: In<'_>, pool_type: &str) -> Result<Var> {
    let options = Pool2d { global_pooling: true, pool_type, ..Pool2d::default() };
    layers::pool2d(b, &v("a"), Pool2d { data_format: "NHWC", ..options })
}

fn pool2d_nhwc_pads(b: &mut Builder<'_>, v: In<'_>, pool_type: &str) -> Result<Var> {
    let pool_padding = Padding::Pairs([[0, 0], [1, 0], [0, 1], [0, 0]]);
    let (pool_size, pool_stride) = ([3, 2], [2, 2]);
    let options = Pool2d { pool_size, pool_stride, pool_padding, pool_type, ..Pool2d::default() };
    layers::pool2d(b, &v("a"), Pool2d { ceil_mode: true, data_format: "NHWC", ..options })
}

fn pool2d_nhwc_same(b: &mut Builder<'_>, v: In<'_>, pool_type: &str) -> Result<Var> {
    let pool_size = [3, 3];
    let pool_stride = [2, 2];
    let pool_padding = Padding::Same;
    let options = Pool2d { pool_size, pool_stride, pool_padding, pool_type, ..Pool2d::default() };
    layers::pool2d(b, &v("a"), Pool2d { exclusive: false, data_format: "NHWC", ..options })
}

fn softmax_loss(b: &mut Builder<'_>, v: In<'_>, soft_label: bool) -> Result<Var> {
    let options = SoftmaxWithCrossEntropy { soft_label, ..SoftmaxWithCrossEntropy::default() };
    let (loss, _) = layers::softmax_with_cross_entropy(b, &v("a"), &v("l"), options)?;
    Ok(loss)
}

fn pool(b: &mut Builder<'_>, v: In<'_>, pool_type: &str) -> Result<Var> {
    layers::sequence_pool(b, &v("s"), pool_type, SequencePool::default())
}

/// Declares an input as the golden script does; sequences have an open first dimension.
fn declare(b: &mut Builder<'_>, name: &str, value: &Tensor, is_trained: bool) {
    let mut dims = value.shape().to_i64();
    let is_ragged = name == "s";
    if is_ragged {
        dims[0] = -1;
    }
    let options = Data {
        append_batch_size: false,
        dtype: value.dtype(),
        lod_level: i32::from(is_ragged),
        stop_gradient: !is_trained,
        ..Data::default()
    };
    layers::data(b, name, &dims, options).unwrap();
}

fn check(golden: &Golden, name: &str, layer: Layer) {
    let key = |rest: &str| format!("{name}/{rest}");
    let (inputs, grads) = (key("in/"), key("grad/"));
    let mut net = Net::with_seed(1);
    let mut b = net.builder();
    for (input, value) in golden.under(&inputs) {
        let is_trained = golden.under(&grads).any(|(grad, _)| grad == input);
        declare(&mut b, input, value, is_trained);
    }
    let out = layer(&mut b, &|input| Var::from(input)).unwrap_or_else(|e| panic!("{name}: {e}"));
    let weight = golden.tensor(&key("weight"));
    let dims = b.meta(&out).unwrap().dims;
    let fixed = Data { append_batch_size: false, ..Data::default() };
    let w = layers::data(&mut b, "w", &dims, fixed).unwrap();
    let product = layers::elementwise_mul(&mut b, &out, &w, ALIKE).unwrap();
    let loss = layers::reduce_sum(&mut b, &product, Reduce::default()).unwrap();
    backward::append_backward(&mut net.main, loss.name(), &Limits::default())
        .unwrap_or_else(|error| panic!("{name}: {error}"));

    let mut session = Session::start(net);
    let mut feed = Feed::new().with("w", weight.clone());
    for (input, value) in golden.under(&inputs) {
        let mut value = value.clone();
        if input == "s" {
            value.set_lod(Lod::from_lengths(LENGTHS));
        }
        feed.set(input, value);
    }
    let wanted: Vec<(&str, &Tensor)> = golden.under(&grads).collect();
    let mut fetch = vec![out.name().to_string()];
    fetch.extend(wanted.iter().map(|(var, _)| names::grad(var)));
    let fetch: Vec<&str> = fetch.iter().map(String::as_str).collect();
    let got = session.try_run(&mut feed, &fetch).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert_tensor(&key("out"), &got[0], golden.tensor(&key("out")), TOLERANCE);
    for ((var, expected), actual) in wanted.into_iter().zip(&got[1..]) {
        assert_tensor(&key(&format!("grad/{var}")), actual, expected, TOLERANCE);
    }
    for (param, expected) in golden.under(&key("param/")) {
        let what = key(&format!("param/{param}"));
        assert_tensor(&what, &session.tensor(param), expected, TOLERANCE);
    }
}

#[test]
fn every_case_is_fluids() {
    let golden = Golden::load("ops.npz");
    for (name, layer) in CASES {
        check(&golden, name, *layer);
    }
}

#[test]
fn every_golden_case_is_here() {
    let golden = Golden::load("ops.npz");
    let mut theirs: Vec<&str> = golden.keys().map(|key| key.split('/').next().unwrap()).collect();
    theirs.dedup();
    let mut ours: Vec<&str> = CASES.iter().map(|(name, _)| *name).collect();
    ours.sort_unstable();
    assert_eq!(ours, theirs);
}
