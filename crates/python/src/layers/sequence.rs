//! Layers over sequences, and conditional random fields.

use program::layers::{self, MaxLen, SequenceConv, SequencePool, Sequences};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use tensor::DType;

use super::sizes::{Dtype, Ints, var};
use crate::context::{build, layer, wrap};
use crate::param::param_attr;
use crate::variable::{Input, Inputs, PyVariable};

pub(super) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(sequence_conv, m)?)?;
    m.add_function(wrap_pyfunction!(sequence_pool, m)?)?;
    m.add_function(wrap_pyfunction!(sequence_first_step, m)?)?;
    m.add_function(wrap_pyfunction!(sequence_last_step, m)?)?;
    m.add_function(wrap_pyfunction!(sequence_softmax, m)?)?;
    m.add_function(wrap_pyfunction!(sequence_expand, m)?)?;
    m.add_function(wrap_pyfunction!(sequence_expand_as, m)?)?;
    m.add_function(wrap_pyfunction!(sequence_pad, m)?)?;
    m.add_function(wrap_pyfunction!(sequence_unpad, m)?)?;
    m.add_function(wrap_pyfunction!(sequence_reshape, m)?)?;
    m.add_function(wrap_pyfunction!(sequence_concat, m)?)?;
    m.add_function(wrap_pyfunction!(sequence_mask, m)?)?;
    m.add_function(wrap_pyfunction!(sequence_reverse, m)?)?;
    m.add_function(wrap_pyfunction!(sequence_slice, m)?)?;
    m.add_function(wrap_pyfunction!(sequence_enumerate, m)?)?;
    m.add_function(wrap_pyfunction!(lod_reset, m)?)?;
    m.add_function(wrap_pyfunction!(lod_append, m)?)?;
    m.add_function(wrap_pyfunction!(linear_chain_crf, m)?)?;
    m.add_function(wrap_pyfunction!(crf_decoding, m)?)
}

/// Windows of steps times a filter: `num_filters` numbers per step.
#[pyfunction]
#[pyo3(signature = (input, num_filters, filter_size=3, filter_stride=1, padding=true, padding_start=None, bias_attr=None, param_attr=None, act=None, name=None))]
#[allow(clippy::too_many_arguments)] // The keywords are Fluid's.
fn sequence_conv(
    py: Python<'_>,
    input: Input,
    num_filters: i64,
    filter_size: i32,
    filter_stride: i32,
    padding: bool,
    padding_start: Option<i32>,
    bias_attr: Option<&Bound<'_, PyAny>>,
    param_attr: Option<&Bound<'_, PyAny>>,
    act: Option<&str>,
    name: Option<&str>,
) -> PyResult<PyVariable> {
    let _ = padding; // Fluid reads only where the window starts.
    let options = SequenceConv {
        filter_size,
        filter_stride,
        padding_start,
        bias_attr: self::param_attr(bias_attr)?,
        param_attr: self::param_attr(param_attr)?.unwrap_or_default(),
        act,
        name,
    };
    layer(py, |b| layers::sequence_conv(b, &input.0, num_filters, options))
}

/// One row per sequence; `pool_type` is average, sum, sqrt, max, last or first.
#[pyfunction]
#[pyo3(signature = (input, pool_type, is_test=false, pad_value=0.0))]
fn sequence_pool(
    py: Python<'_>,
    input: Input,
    pool_type: &str,
    is_test: bool,
    pad_value: f32,
) -> PyResult<PyVariable> {
    let options = SequencePool { is_test, pad_value };
    layer(py, |b| layers::sequence_pool(b, &input.0, pool_type, options))
}

/// The first step of each sequence.
#[pyfunction]
fn sequence_first_step(py: Python<'_>, input: Input) -> PyResult<PyVariable> {
    layer(py, |b| layers::sequence_first_step(b, &input.0))
}

/// The last step of each sequence.
#[pyfunction]
fn sequence_last_step(py: Python<'_>, input: Input) -> PyResult<PyVariable> {
    layer(py, |b| layers::sequence_last_step(b, &input.0))
}

/// A softmax over the steps of each sequence.
#[pyfunction]
#[pyo3(signature = (input, use_cudnn=false, name=None))]
fn sequence_softmax(
    py: Python<'_>,
    input: Input,
    use_cudnn: bool,
    name: Option<&str>,
) -> PyResult<PyVariable> {
    let _ = use_cudnn;
    layer(py, |b| layers::sequence_softmax(b, &input.0, name))
}

/// Sequences of `x` repeated as often as level `ref_level` of `y` says.
#[pyfunction]
#[pyo3(signature = (x, y, ref_level=-1, name=None), text_signature = "(x, y, ref_level=-1, name=None)")]
fn sequence_expand(
    py: Python<'_>,
    x: Input,
    y: Input,
    ref_level: i32,
    name: Option<&str>,
) -> PyResult<PyVariable> {
    layer(py, |b| layers::sequence_expand(b, &x.0, &y.0, ref_level, name))
}

/// Row i of `x` repeated as often as sequence i of `y` is long.
#[pyfunction]
#[pyo3(signature = (x, y, name=None))]
fn sequence_expand_as(
    py: Python<'_>,
    x: Input,
    y: Input,
    name: Option<&str>,
) -> PyResult<PyVariable> {
    layer(py, |b| layers::sequence_expand_as(b, &x.0, &y.0, name))
}

/// The sequences filled up to one length, and their own lengths.
#[pyfunction]
#[pyo3(signature = (x, pad_value, maxlen=None, name=None))]
fn sequence_pad(
    py: Python<'_>,
    x: Input,
    pad_value: Input,
    maxlen: Option<i32>,
    name: Option<&str>,
) -> PyResult<(PyVariable, PyVariable)> {
    let (out, length) = build(py, |b| layers::sequence_pad(b, &x.0, &pad_value.0, maxlen, name))?;
    Ok((wrap(py, out)?, wrap(py, length)?))
}

/// Sequences of these lengths again.
#[pyfunction]
#[pyo3(signature = (x, length, name=None))]
fn sequence_unpad(
    py: Python<'_>,
    x: Input,
    length: Input,
    name: Option<&str>,
) -> PyResult<PyVariable> {
    layer(py, |b| layers::sequence_unpad(b, &x.0, &length.0, name))
}

/// The numbers of each sequence in rows of another width.
#[pyfunction]
fn sequence_reshape(py: Python<'_>, input: Input, new_dim: i32) -> PyResult<PyVariable> {
    layer(py, |b| layers::sequence_reshape(b, &input.0, new_dim))
}

/// Joins the inputs sequence by sequence.
#[pyfunction]
#[pyo3(signature = (input, name=None))]
fn sequence_concat(py: Python<'_>, input: Inputs, name: Option<&str>) -> PyResult<PyVariable> {
    layer(py, |b| layers::sequence_concat(b, &input.0, name))
}

/// For each length in `x` a row of ones, then zeros.
#[pyfunction]
#[pyo3(signature = (x, maxlen=None, dtype=None, name=None), text_signature = "(x, maxlen=None, dtype='int64', name=None)")]
fn sequence_mask(
    py: Python<'_>,
    x: Input,
    maxlen: Option<&Bound<'_, PyAny>>,
    dtype: Option<Dtype>,
    name: Option<&str>,
) -> PyResult<PyVariable> {
    let maxlen = match maxlen {
        None => MaxLen::Largest,
        Some(length) if length.is_instance_of::<PyVariable>() => {
            MaxLen::Var(length.extract::<Input>()?.0)
        }
        Some(length) => MaxLen::Fixed(length.extract()?),
    };
    let dtype = dtype.map_or(DType::I64, |dtype| dtype.0);
    layer(py, |b| layers::sequence_mask(b, &x.0, &maxlen, dtype, name))
}

/// The steps of each sequence, last first.
#[pyfunction]
#[pyo3(signature = (x, name=None))]
fn sequence_reverse(py: Python<'_>, x: Input, name: Option<&str>) -> PyResult<PyVariable> {
    layer(py, |b| layers::sequence_reverse(b, &x.0, name))
}

/// `length[i]` steps of sequence i, from step `offset[i]` on.
#[pyfunction]
#[pyo3(signature = (input, offset, length, name=None))]
fn sequence_slice(
    py: Python<'_>,
    input: Input,
    offset: Input,
    length: Input,
    name: Option<&str>,
) -> PyResult<PyVariable> {
    layer(py, |b| layers::sequence_slice(b, &input.0, &offset.0, &length.0, name))
}

/// Windows of `win_size` ids, `pad_value` beyond the end of a sequence.
#[pyfunction]
#[pyo3(signature = (input, win_size, pad_value=0, name=None))]
fn sequence_enumerate(
    py: Python<'_>,
    input: Input,
    win_size: i32,
    pad_value: i32,
    name: Option<&str>,
) -> PyResult<PyVariable> {
    layer(py, |b| layers::sequence_enumerate(b, &input.0, win_size, pad_value, name))
}

/// `x` with the sequences of `y`, or those that the offsets `target_lod` make.
#[pyfunction]
#[pyo3(signature = (x, y=None, target_lod=None))]
fn lod_reset(
    py: Python<'_>,
    x: Input,
    y: Option<Input>,
    target_lod: Option<Ints>,
) -> PyResult<PyVariable> {
    let sequences = match (y, target_lod) {
        (Some(y), _) => Sequences::Of(y.0),
        (None, Some(offsets)) => Sequences::Offsets(offsets.0),
        (None, None) => {
            let text = "lod_reset: y and target_lod should not be both none.";
            return Err(PyValueError::new_err(text));
        }
    };
    layer(py, |b| layers::lod_reset(b, &x.0, sequences))
}

/// `x` with a further, innermost level of sequences.
#[pyfunction]
fn lod_append(py: Python<'_>, x: Input, level: &Bound<'_, PyAny>) -> PyResult<PyVariable> {
    let level = if level.is_instance_of::<PyVariable>() {
        Sequences::Of(level.extract::<Input>()?.0)
    } else {
        let offsets = level.extract::<Vec<i32>>().map_err(|_| {
            PyValueError::new_err("lod_append: Input(level) must be list, tuple or Variable.")
        })?;
        Sequences::Offsets(offsets)
    };
    layer(py, |b| layers::lod_append(b, &x.0, level))
}

/// The negative log-likelihood of each sequence of labels under a chain of transitions.
#[pyfunction]
#[pyo3(signature = (input, label, param_attr=None, length=None))]
fn linear_chain_crf(
    py: Python<'_>,
    input: Input,
    label: Input,
    param_attr: Option<&Bound<'_, PyAny>>,
    length: Option<Input>,
) -> PyResult<PyVariable> {
    let attr = self::param_attr(param_attr)?.unwrap_or_default();
    layer(py, |b| layers::linear_chain_crf(b, &input.0, &label.0, &attr, var(&length)))
}

/// The best labels of each sequence; with `label`, where they are right.
#[pyfunction]
#[pyo3(signature = (input, param_attr, label=None, length=None))]
fn crf_decoding(
    py: Python<'_>,
    input: Input,
    param_attr: &Bound<'_, PyAny>,
    label: Option<Input>,
    length: Option<Input>,
) -> PyResult<PyVariable> {
    let attr = self::param_attr(Some(param_attr))?;
    let attr = attr.ok_or_else(|| {
        PyTypeError::new_err("crf_decoding: param_attr must name the transitions, but got False")
    })?;
    layer(py, |b| layers::crf_decoding(b, &input.0, &attr, var(&label), var(&length)))
}
