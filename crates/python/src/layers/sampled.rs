//! Losses over many classes and layers of matching models: those with weights of their own.

use program::Var;
use program::layers::{
    self, BilinearTensorProduct, CenterLoss, DynamicLstmp, FusedElemwiseActivation,
    FusedEmbeddingSeqPool, HSigmoid, MatchMatrixTensor, Nce, NceSampler, PyramidHash, TreeConv,
    VarConv2d,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use tensor::DType;

use super::arguments::{self, truth};
use super::sizes::{Dtype, Ints};
use crate::framework::context::{build, layer, wrap};
use crate::framework::param::param_attr;
use crate::framework::variable::{Input, PyVariable};

pub(super) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(nce, m)?)?;
    m.add_function(wrap_pyfunction!(hsigmoid, m)?)?;
    m.add_function(wrap_pyfunction!(center_loss, m)?)?;
    m.add_function(wrap_pyfunction!(bilinear_tensor_product, m)?)?;
    m.add_function(wrap_pyfunction!(row_conv, m)?)?;
    m.add_function(wrap_pyfunction!(dynamic_lstmp, m)?)?;
    m.add_function(wrap_pyfunction!(fused_elemwise_activation, m)?)?;
    m.add_function(wrap_pyfunction!(fused_embedding_seq_pool, m)?)?;
    m.add_function(wrap_pyfunction!(match_matrix_tensor, m)?)?;
    m.add_function(wrap_pyfunction!(var_conv_2d, m)?)?;
    m.add_function(wrap_pyfunction!(search_pyramid_hash, m)?)?;
    m.add_function(wrap_pyfunction!(tree_conv, m)?)
}

type GivenAttr<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

fn var(input: Option<&Input>) -> Option<&Var> {
    input.map(|input| &input.0)
}

/// The cost of noise-contrastive estimation: labels against classes that are drawn.
#[pyfunction]
#[pyo3(signature = (input, label, num_total_classes, sample_weight=None, param_attr=None, bias_attr=None, num_neg_samples=None, name=None, sampler="uniform", custom_dist=None, seed=0, is_sparse=false))]
fn nce(
    py: Python<'_>,
    input: Input,
    label: Input,
    num_total_classes: i32,
    sample_weight: Option<Input>,
    param_attr: GivenAttr<'_, '_>,
    bias_attr: GivenAttr<'_, '_>,
    num_neg_samples: Option<i32>,
    name: Option<&str>,
    sampler: &str,
    custom_dist: Option<Vec<f64>>,
    seed: i32,
    #[pyo3(from_py_with = truth)] is_sparse: bool,
) -> PyResult<PyVariable> {
    let sampler = match (sampler, custom_dist) {
        ("uniform", _) => NceSampler::Uniform,
        ("log_uniform", _) => NceSampler::LogUniform,
        ("custom_dist", Some(probabilities)) => NceSampler::Custom(probabilities),
        ("custom_dist", None) => return Err(PyValueError::new_err("custom_dist must be given")),
        _ => return Err(PyValueError::new_err("Unsupported sampler type.")),
    };
    let options = Nce {
        sample_weight: var(sample_weight.as_ref()),
        param_attr: self::param_attr(param_attr)?.unwrap_or_default(),
        bias_attr: self::param_attr(bias_attr)?,
        num_neg_samples: num_neg_samples.unwrap_or(10),
        name,
        sampler,
        seed,
        is_sparse,
    };
    layer(py, |b| layers::nce(b, &input.0, &label.0, num_total_classes, options))
}

/// The cost of the labelled class along its path in a tree of classes.
#[pyfunction]
#[pyo3(signature = (input, label, num_classes, param_attr=None, bias_attr=None, name=None, path_table=None, path_code=None, is_custom=false, is_sparse=false))]
fn hsigmoid(
    py: Python<'_>,
    input: Input,
    label: Input,
    num_classes: Option<i32>,
    param_attr: GivenAttr<'_, '_>,
    bias_attr: GivenAttr<'_, '_>,
    name: Option<&str>,
    path_table: Option<Input>,
    path_code: Option<Input>,
    #[pyo3(from_py_with = truth)] is_custom: bool,
    #[pyo3(from_py_with = truth)] is_sparse: bool,
) -> PyResult<PyVariable> {
    let options = HSigmoid {
        param_attr: self::param_attr(param_attr)?.unwrap_or_default(),
        bias_attr: self::param_attr(bias_attr)?,
        name,
        path_table: var(path_table.as_ref()),
        path_code: var(path_code.as_ref()),
        is_custom,
        is_sparse,
    };
    let Some(num_classes) = num_classes else {
        return Err(PyValueError::new_err("num_classes should not be None"));
    };
    layer(py, |b| layers::hsigmoid(b, &input.0, &label.0, num_classes, options))
}

/// Half the squared distance of each row from the center of its class.
#[pyfunction]
#[pyo3(signature = (input, label, num_classes, alpha, param_attr, update_center=true))]
fn center_loss(
    py: Python<'_>,
    input: Input,
    label: Input,
    num_classes: i32,
    alpha: arguments::Amount<f32>,
    param_attr: GivenAttr<'_, '_>,
    #[pyo3(from_py_with = truth)] update_center: bool,
) -> PyResult<PyVariable> {
    let param_attr = self::param_attr(param_attr)?.unwrap_or_default();
    let options = CenterLoss { alpha: alpha.0, param_attr, update_center };
    layer(py, |b| layers::center_loss(b, &input.0, &label.0, num_classes, options))
}

/// `act(x W y + bias)` with `size` matrices W.
#[pyfunction]
#[pyo3(signature = (x, y, size, act=None, name=None, param_attr=None, bias_attr=None))]
fn bilinear_tensor_product(
    py: Python<'_>,
    x: Input,
    y: Input,
    size: i64,
    act: Option<&str>,
    name: Option<&str>,
    param_attr: GivenAttr<'_, '_>,
    bias_attr: GivenAttr<'_, '_>,
) -> PyResult<PyVariable> {
    let options = BilinearTensorProduct {
        act,
        name,
        param_attr: self::param_attr(param_attr)?.unwrap_or_default(),
        bias_attr: self::param_attr(bias_attr)?,
    };
    layer(py, |b| layers::bilinear_tensor_product(b, &x.0, &y.0, size, options))
}

/// Each step with what follows within `future_context_size` steps, weighted.
#[pyfunction]
#[pyo3(signature = (input, future_context_size, param_attr=None, act=None))]
fn row_conv(
    py: Python<'_>,
    input: Input,
    future_context_size: i64,
    param_attr: GivenAttr<'_, '_>,
    act: Option<&str>,
) -> PyResult<PyVariable> {
    let attr = self::param_attr(param_attr)?.unwrap_or_default();
    layer(py, |b| layers::row_conv(b, &input.0, future_context_size, &attr, act))
}

/// Projections and cells of a long short-term memory along each sequence; `size` is the input's width.
#[pyfunction]
#[pyo3(signature = (input, size, proj_size, param_attr=None, bias_attr=None, use_peepholes=true, is_reverse=false, gate_activation="sigmoid", cell_activation="tanh", candidate_activation="tanh", proj_activation="tanh", dtype=None, name=None, h_0=None, c_0=None, cell_clip=None, proj_clip=None), text_signature = "(input, size, proj_size, param_attr=None, bias_attr=None, use_peepholes=True, is_reverse=False, gate_activation='sigmoid', cell_activation='tanh', candidate_activation='tanh', proj_activation='tanh', dtype='float32', name=None, h_0=None, c_0=None, cell_clip=None, proj_clip=None)")]
fn dynamic_lstmp(
    py: Python<'_>,
    input: Input,
    size: i64,
    proj_size: i64,
    param_attr: GivenAttr<'_, '_>,
    bias_attr: GivenAttr<'_, '_>,
    use_peepholes: bool,
    is_reverse: bool,
    gate_activation: &str,
    cell_activation: &str,
    candidate_activation: &str,
    proj_activation: &str,
    dtype: Option<Dtype>,
    name: Option<&str>,
    h_0: Option<Input>,
    c_0: Option<Input>,
    cell_clip: Option<f32>,
    proj_clip: Option<f32>,
) -> PyResult<(PyVariable, PyVariable)> {
    let options = DynamicLstmp {
        proj_size,
        param_attr: self::param_attr(param_attr)?.unwrap_or_default(),
        bias_attr: self::param_attr(bias_attr)?,
        use_peepholes,
        is_reverse,
        activations: [gate_activation, cell_activation, candidate_activation, proj_activation],
        dtype: dtype.map_or(DType::F32, |dtype| dtype.0),
        name,
        h_0: var(h_0.as_ref()),
        c_0: var(c_0.as_ref()),
        cell_clip,
        proj_clip,
    };
    let (projection, cell) = build(py, |b| layers::dynamic_lstmp(b, &input.0, size, options))?;
    Ok((wrap(py, projection)?, wrap(py, cell)?))
}

/// A function of one number and one of two, composed in the order of the list.
#[pyfunction]
#[pyo3(signature = (x, y, functor_list, axis=-1, scale=0.0, save_intermediate_out=true))]
fn fused_elemwise_activation(
    py: Python<'_>,
    x: Input,
    y: Input,
    functor_list: &Bound<'_, PyAny>,
    axis: i32,
    scale: f32,
    #[pyo3(from_py_with = truth)] save_intermediate_out: bool,
) -> PyResult<PyVariable> {
    let functors: Vec<String> = match functor_list.extract::<String>() {
        Ok(text) => text.split(',').map(str::to_string).collect(),
        Err(_) => functor_list.extract()?,
    };
    let options = FusedElemwiseActivation { axis, scale, save_intermediate_out };
    layer(py, |b| layers::fused_elemwise_activation(b, &x.0, &y.0, &functors, options))
}

/// The sums of the rows that each sequence of ids names.
#[pyfunction]
#[pyo3(signature = (input, size, is_sparse=false, padding_idx=None, combiner="sum", param_attr=None, dtype=None), text_signature = "(input, size, is_sparse=False, padding_idx=None, combiner='sum', param_attr=None, dtype='float32')")]
fn fused_embedding_seq_pool(
    py: Python<'_>,
    input: Input,
    size: [i64; 2],
    #[pyo3(from_py_with = truth)] is_sparse: bool,
    padding_idx: Option<i64>,
    combiner: &str,
    param_attr: GivenAttr<'_, '_>,
    dtype: Option<Dtype>,
) -> PyResult<PyVariable> {
    let options = FusedEmbeddingSeqPool {
        is_sparse,
        padding_idx,
        combiner,
        param_attr: self::param_attr(param_attr)?.unwrap_or_default(),
        dtype: dtype.map_or(DType::F32, |dtype| dtype.0),
    };
    layer(py, |b| layers::fused_embedding_seq_pool(b, &input.0, size, options))
}

/// Each row of a sequence times weights times each row of another: (result, rows times weights).
#[pyfunction]
#[pyo3(signature = (x, y, channel_num, act=None, param_attr=None, dtype=None, name=None), text_signature = "(x, y, channel_num, act=None, param_attr=None, dtype='float32', name=None)")]
fn match_matrix_tensor(
    py: Python<'_>,
    x: Input,
    y: Input,
    channel_num: i64,
    act: Option<&str>,
    param_attr: GivenAttr<'_, '_>,
    dtype: Option<Dtype>,
    name: Option<&str>,
) -> PyResult<(PyVariable, PyVariable)> {
    let options = MatchMatrixTensor {
        act,
        param_attr: self::param_attr(param_attr)?.unwrap_or_default(),
        dtype: dtype.map_or(DType::F32, |dtype| dtype.0),
        name,
    };
    let (out, tmp) =
        build(py, |b| layers::match_matrix_tensor(b, &x.0, &y.0, channel_num, options))?;
    Ok((wrap(py, out)?, wrap(py, tmp)?))
}

/// One size for both directions, or one each.
fn both(sizes: Ints, argument: &str) -> PyResult<[i32; 2]> {
    match sizes.0[..] {
        [one] => Ok([one; 2]),
        [height, width] => Ok([height, width]),
        _ => Err(PyTypeError::new_err(format!(
            "The {argument}'s type must be list or tuple of 2 ints"
        ))),
    }
}

/// A convolution of images of the sizes that the sequences of `row` and `col` have.
#[pyfunction]
#[pyo3(signature = (input, row, col, input_channel, output_channel, filter_size, stride=None, param_attr=None, act=None, dtype=None, name=None), text_signature = "(input, row, col, input_channel, output_channel, filter_size, stride=1, param_attr=None, act=None, dtype='float32', name=None)")]
fn var_conv_2d(
    py: Python<'_>,
    input: Input,
    row: Input,
    col: Input,
    input_channel: i32,
    output_channel: i32,
    filter_size: Ints,
    stride: Option<Ints>,
    param_attr: GivenAttr<'_, '_>,
    act: Option<&str>,
    dtype: Option<Dtype>,
    name: Option<&str>,
) -> PyResult<PyVariable> {
    let options = VarConv2d {
        input_channel,
        output_channel,
        filter_size: both(filter_size, "filter_size")?,
        stride: both(stride.unwrap_or(Ints(vec![1])), "stride")?,
        param_attr: self::param_attr(param_attr)?.unwrap_or_default(),
        act,
        dtype: dtype.map_or(DType::F32, |dtype| dtype.0),
        name,
    };
    layer(py, |b| layers::var_conv_2d(b, &input.0, &row.0, &col.0, options))
}

/// A convolution over the nodes of trees.
#[pyfunction]
#[pyo3(signature = (nodes_vector, edge_set, output_size, num_filters=1, max_depth=2, act=Some("tanh"), param_attr=None, bias_attr=None, name=None), text_signature = "(nodes_vector, edge_set, output_size, num_filters=1, max_depth=2, act='tanh', param_attr=None, bias_attr=None, name=None)")]
fn tree_conv(
    py: Python<'_>,
    nodes_vector: Input,
    edge_set: Input,
    output_size: i64,
    num_filters: i64,
    max_depth: i32,
    act: Option<&str>,
    param_attr: GivenAttr<'_, '_>,
    bias_attr: GivenAttr<'_, '_>,
    name: Option<&str>,
) -> PyResult<PyVariable> {
    let options = TreeConv {
        num_filters,
        max_depth,
        act,
        param_attr: self::param_attr(param_attr)?.unwrap_or_default(),
        bias_attr: self::param_attr(bias_attr)?,
        name,
    };
    layer(py, |b| layers::tree_conv(b, &nodes_vector.0, &edge_set.0, output_size, options))
}

/// A row for each run of tokens, made of stretches of weights that its hash finds.
#[pyfunction]
#[pyo3(signature = (input, num_emb, space_len, pyramid_layer, rand_len, drop_out_percent, is_training, use_filter, white_list_len, black_list_len, seed, lr, param_attr=None, param_attr_wl=None, param_attr_bl=None, name=None, distribute_update_vars=None, dtype=None), text_signature = "(input, num_emb, space_len, pyramid_layer, rand_len, drop_out_percent, is_training, use_filter, white_list_len, black_list_len, seed, lr, param_attr=None, param_attr_wl=None, param_attr_bl=None, name=None, distribute_update_vars=None, dtype='float32')")]
fn search_pyramid_hash(
    py: Python<'_>,
    input: Input,
    num_emb: i32,
    space_len: i32,
    pyramid_layer: i32,
    rand_len: i32,
    drop_out_percent: f32,
    #[pyo3(from_py_with = truth)] is_training: bool,
    #[pyo3(from_py_with = truth)] use_filter: bool,
    white_list_len: i32,
    black_list_len: i32,
    seed: i32,
    lr: f32,
    param_attr: GivenAttr<'_, '_>,
    param_attr_wl: GivenAttr<'_, '_>,
    param_attr_bl: GivenAttr<'_, '_>,
    name: Option<&str>,
    distribute_update_vars: Option<Vec<String>>,
    dtype: Option<Dtype>,
) -> PyResult<PyVariable> {
    let attr =
        |given: GivenAttr<'_, '_>| Ok::<_, PyErr>(self::param_attr(given)?.unwrap_or_default());
    let attrs = [attr(param_attr)?, attr(param_attr_wl)?, attr(param_attr_bl)?];
    let updated = distribute_update_vars.unwrap_or_default();
    let unknown =
        updated.iter().find(|name| !attrs.iter().any(|attr| attr.name.as_ref() == Some(*name)));
    if let Some(name) = unknown {
        let text = format!("Pyramid Hash layer didn't have parameter {name}");
        return Err(PyValueError::new_err(text));
    }
    let options = PyramidHash {
        num_emb,
        space_len,
        pyramid_layer,
        rand_len,
        drop_out_percent,
        is_training,
        use_filter,
        white_list_len,
        black_list_len,
        seed,
        lr,
        attrs,
        name,
        distribute_update_vars: &updated.join(","),
        dtype: dtype.map_or(DType::F32, |dtype| dtype.0),
    };
    layer(py, |b| layers::search_pyramid_hash(b, &input.0, options))
}
