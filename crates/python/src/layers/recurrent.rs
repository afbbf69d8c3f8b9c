//! Recurrent layers, and the trees of `fluid.contrib.layers`.

use program::Var;
use program::layers::{
    self, DynamicGru, DynamicLstm, GruUnit, Layers, LstmUnit, TdmChild, TdmSampler,
};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use tensor::DType;

use super::sizes::{Dtype, Ints};
use crate::framework::context::{build, layer, wrap};
use crate::framework::param::param_attr;
use crate::framework::variable::{Input, PyVariable};

pub(super) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(dynamic_gru, m)?)?;
    m.add_function(wrap_pyfunction!(gru_unit, m)?)?;
    m.add_function(wrap_pyfunction!(dynamic_lstm, m)?)?;
    m.add_function(wrap_pyfunction!(lstm_unit, m)?)?;
    m.add_function(wrap_pyfunction!(tdm_child, m)?)?;
    m.add_function(wrap_pyfunction!(tdm_sampler, m)?)
}

type Attr<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

/// The states of a gated recurrent unit along each sequence; the input is 3 x `size` wide.
#[pyfunction]
#[pyo3(signature = (input, size, param_attr=None, bias_attr=None, is_reverse=false, gate_activation="sigmoid", candidate_activation="tanh", h_0=None, origin_mode=false))]
fn dynamic_gru(
    py: Python<'_>,
    input: Input,
    size: i64,
    param_attr: Attr<'_, '_>,
    bias_attr: Attr<'_, '_>,
    is_reverse: bool,
    gate_activation: &str,
    candidate_activation: &str,
    h_0: Option<Input>,
    origin_mode: bool,
) -> PyResult<PyVariable> {
    let options = DynamicGru {
        param_attr: self::param_attr(param_attr)?.unwrap_or_default(),
        bias_attr: self::param_attr(bias_attr)?,
        is_reverse,
        gate_activation,
        candidate_activation,
        h_0: h_0.map(|state| state.0),
        origin_mode,
    };
    layer(py, |b| layers::dynamic_gru(b, &input.0, size, options))
}

/// One step of a gated recurrent unit: (hidden, reset hidden, gate).
#[pyfunction]
#[pyo3(signature = (input, hidden, size, param_attr=None, bias_attr=None, activation="tanh", gate_activation="sigmoid", origin_mode=false))]
fn gru_unit(
    py: Python<'_>,
    input: Input,
    hidden: Input,
    size: i64,
    param_attr: Attr<'_, '_>,
    bias_attr: Attr<'_, '_>,
    activation: &str,
    gate_activation: &str,
    origin_mode: bool,
) -> PyResult<(PyVariable, PyVariable, PyVariable)> {
    let options = GruUnit {
        param_attr: self::param_attr(param_attr)?.unwrap_or_default(),
        bias_attr: self::param_attr(bias_attr)?,
        activation,
        gate_activation,
        origin_mode,
    };
    let step = build(py, |b| layers::gru_unit(b, &input.0, &hidden.0, size, options))?;
    Ok((wrap(py, step.hidden)?, wrap(py, step.reset_hidden_prev)?, wrap(py, step.gate)?))
}

fn pair(py: Python<'_>, vars: (Var, Var)) -> PyResult<(PyVariable, PyVariable)> {
    Ok((wrap(py, vars.0)?, wrap(py, vars.1)?))
}

/// States and cells of a long short-term memory along each sequence; `size` is the input's width.
#[pyfunction]
#[pyo3(signature = (input, size, h_0=None, c_0=None, param_attr=None, bias_attr=None, use_peepholes=true, is_reverse=false, gate_activation="sigmoid", cell_activation="tanh", candidate_activation="tanh", dtype=None, name=None), text_signature = "(input, size, h_0=None, c_0=None, param_attr=None, bias_attr=None, use_peepholes=True, is_reverse=False, gate_activation='sigmoid', cell_activation='tanh', candidate_activation='tanh', dtype='float32', name=None)")]
fn dynamic_lstm(
    py: Python<'_>,
    input: Input,
    size: i64,
    h_0: Option<Input>,
    c_0: Option<Input>,
    param_attr: Attr<'_, '_>,
    bias_attr: Attr<'_, '_>,
    use_peepholes: bool,
    is_reverse: bool,
    gate_activation: &str,
    cell_activation: &str,
    candidate_activation: &str,
    dtype: Option<Dtype>,
    name: Option<&str>,
) -> PyResult<(PyVariable, PyVariable)> {
    let options = DynamicLstm {
        h_0: h_0.map(|state| state.0),
        c_0: c_0.map(|state| state.0),
        param_attr: self::param_attr(param_attr)?.unwrap_or_default(),
        bias_attr: self::param_attr(bias_attr)?.unwrap_or_default(),
        use_peepholes,
        is_reverse,
        gate_activation,
        cell_activation,
        candidate_activation,
        dtype: dtype.map_or(DType::F32, |dtype| dtype.0),
        name,
    };
    pair(py, build(py, |b| layers::dynamic_lstm(b, &input.0, size, options))?)
}

/// One step of a long short-term memory: the new (hidden, cell).
#[pyfunction]
#[pyo3(signature = (x_t, hidden_t_prev, cell_t_prev, forget_bias=0.0, param_attr=None, bias_attr=None, name=None))]
fn lstm_unit(
    py: Python<'_>,
    x_t: Input,
    hidden_t_prev: Input,
    cell_t_prev: Input,
    forget_bias: f32,
    param_attr: Attr<'_, '_>,
    bias_attr: Attr<'_, '_>,
    name: Option<&str>,
) -> PyResult<(PyVariable, PyVariable)> {
    let options = LstmUnit {
        forget_bias,
        param_attr: self::param_attr(param_attr)?.unwrap_or_default(),
        bias_attr: self::param_attr(bias_attr)?,
        name,
    };
    let states = (&hidden_t_prev.0, &cell_t_prev.0);
    pair(py, build(py, |b| layers::lstm_unit(b, &x_t.0, states.0, states.1, options))?)
}

/// The children of nodes of a tree, and a mask of those that are leaves.
#[pyfunction]
#[pyo3(signature = (x, node_nums, child_nums, param_attr=None, dtype=None), text_signature = "(x, node_nums, child_nums, param_attr=None, dtype='int32')")]
fn tdm_child(
    py: Python<'_>,
    x: Input,
    node_nums: i64,
    child_nums: i32,
    param_attr: Attr<'_, '_>,
    dtype: Option<Dtype>,
) -> PyResult<(PyVariable, PyVariable)> {
    let options = TdmChild {
        param_attr: self::param_attr(param_attr)?.unwrap_or_default(),
        dtype: dtype.map_or(DType::I32, |dtype| dtype.0),
    };
    pair(py, build(py, |b| layers::tdm_child(b, &x.0, node_nums, child_nums, options))?)
}

/// Nodes of each layer of a tree with their labels and masks, as lists or side by side.
#[pyfunction]
#[pyo3(signature = (x, neg_samples_num_list, layer_node_num_list, leaf_node_num, tree_travel_attr=None, tree_layer_attr=None, output_positive=true, output_list=true, seed=0, tree_dtype=None, dtype=None), text_signature = "(x, neg_samples_num_list, layer_node_num_list, leaf_node_num, tree_travel_attr=None, tree_layer_attr=None, output_positive=True, output_list=True, seed=0, tree_dtype='int32', dtype='int32')")]
fn tdm_sampler(
    py: Python<'_>,
    x: Input,
    neg_samples_num_list: Ints,
    layer_node_num_list: Ints,
    leaf_node_num: i64,
    tree_travel_attr: Attr<'_, '_>,
    tree_layer_attr: Attr<'_, '_>,
    output_positive: bool,
    output_list: bool,
    seed: i32,
    tree_dtype: Option<Dtype>,
    dtype: Option<Dtype>,
) -> PyResult<Py<PyAny>> {
    let tree = Layers {
        neg_samples_num_list: &neg_samples_num_list.0,
        layer_node_num_list: &layer_node_num_list.0,
        leaf_node_num,
    };
    let options = TdmSampler {
        tree_travel_attr: param_attr(tree_travel_attr)?.unwrap_or_default(),
        tree_layer_attr: param_attr(tree_layer_attr)?.unwrap_or_default(),
        output_positive,
        seed,
        tree_dtype: tree_dtype.map_or(DType::I32, |dtype| dtype.0),
        dtype: dtype.map_or(DType::I32, |dtype| dtype.0),
    };
    let list = |vars: Vec<Var>| -> PyResult<Vec<PyVariable>> {
        vars.into_iter().map(|var| wrap(py, var)).collect()
    };
    if output_list {
        let [out, labels, mask] = build(py, |b| layers::tdm_sampler_list(b, &x.0, tree, &options))?;
        return (list(out)?, list(labels)?, list(mask)?).into_py_any(py);
    }
    let [out, labels, mask] = build(py, |b| layers::tdm_sampler(b, &x.0, tree, &options))?;
    (wrap(py, out)?, wrap(py, labels)?, wrap(py, mask)?).into_py_any(py)
}
