//! Layers over sequences, and conditional random fields.

use program::layers::{self, MaxLen, SequenceConv, Sequences};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use tensor::DType;

use super::sizes::{Dtype, Ints, var};
use crate::framework::context::layer;
use crate::framework::param::param_attr;
use crate::framework::variable::{Input, PyVariable};

pub(super) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(sequence_conv, m)?)?;
    m.add_function(wrap_pyfunction!(sequence_mask, m)?)?;
    m.add_function(wrap_pyfunction!(lod_reset, m)?)?;
    m.add_function(wrap_pyfunction!(lod_append, m)?)?;
    m.add_function(wrap_pyfunction!(linear_chain_crf, m)?)?;
    m.add_function(wrap_pyfunction!(crf_decoding, m)?)
}

/// Windows of steps times a filter: `num_filters` numbers per step.
#[pyfunction]
#[pyo3(signature = (input, num_filters, filter_size=3, filter_stride=1, padding=true, padding_start=None, bias_attr=None, param_attr=None, act=None, name=None))]
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
