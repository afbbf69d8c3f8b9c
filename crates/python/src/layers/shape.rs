//! Layers that move numbers: join, cut, reorder, repeat, pick.

use program::layers::{self, Cumsum, Cut, Parts, Reshape, Updates};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use super::sizes::{Dim, Dims, Ints, var};
use crate::context::{self, layer};
use crate::variable::{Input, Inputs, PyVariable};

pub(super) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(concat, m)?)?;
    m.add_function(wrap_pyfunction!(sums, m)?)?;
    m.add_function(wrap_pyfunction!(sum, m)?)?;
    m.add_function(wrap_pyfunction!(split, m)?)?;
    m.add_function(wrap_pyfunction!(reshape, m)?)?;
    m.add_function(wrap_pyfunction!(transpose, m)?)?;
    m.add_function(wrap_pyfunction!(squeeze, m)?)?;
    m.add_function(wrap_pyfunction!(unsqueeze, m)?)?;
    m.add_function(wrap_pyfunction!(flatten, m)?)?;
    m.add_function(wrap_pyfunction!(expand, m)?)?;
    m.add_function(wrap_pyfunction!(expand_as, m)?)?;
    m.add_function(wrap_pyfunction!(stack, m)?)?;
    m.add_function(wrap_pyfunction!(unstack, m)?)?;
    m.add_function(wrap_pyfunction!(slice, m)?)?;
    m.add_function(wrap_pyfunction!(gather, m)?)?;
    m.add_function(wrap_pyfunction!(gather_nd, m)?)?;
    m.add_function(wrap_pyfunction!(scatter, m)?)?;
    m.add_function(wrap_pyfunction!(pad, m)?)?;
    m.add_function(wrap_pyfunction!(multiplex, m)?)?;
    m.add_function(wrap_pyfunction!(shape, m)?)?;
    m.add_function(wrap_pyfunction!(reverse, m)?)?;
    m.add_function(wrap_pyfunction!(cumsum, m)?)?;
    m.add_function(wrap_pyfunction!(r#where, m)?)?;
    m.add_function(wrap_pyfunction!(merge_selected_rows, m)?)?;
    m.add_function(wrap_pyfunction!(get_tensor_from_selected_rows, m)?)
}

/// The inputs one after another along an axis.
#[pyfunction]
#[pyo3(signature = (input, axis=None, name=None), text_signature = "(input, axis=0, name=None)")]
fn concat(
    py: Python<'_>,
    input: Inputs,
    axis: Option<Dim>,
    name: Option<&str>,
) -> PyResult<PyVariable> {
    let axis = axis.map_or(layers::Size::Is(0), |axis| axis.0);
    layer(py, |b| layers::concat(b, &input.0, axis, name))
}

/// The sum of the inputs, in a variable of its own or in `out`.
#[pyfunction]
#[pyo3(signature = (input, out=None))]
fn sums(py: Python<'_>, input: Inputs, out: Option<Input>) -> PyResult<PyVariable> {
    layer(py, |b| layers::sums(b, &input.0, var(&out)))
}

/// The sum of the inputs.
#[pyfunction]
fn sum(py: Python<'_>, x: Inputs) -> PyResult<PyVariable> {
    layer(py, |b| layers::sum(b, &x.0))
}

/// Consecutive parts along a dimension: so many equal ones, or of the sizes in a list.
#[pyfunction]
#[pyo3(signature = (input, num_or_sections, dim=None, name=None), text_signature = "(input, num_or_sections, dim=-1, name=None)")]
fn split(
    py: Python<'_>,
    input: Input,
    num_or_sections: &Bound<'_, PyAny>,
    dim: Option<Dim>,
    name: Option<&str>,
) -> PyResult<Vec<PyVariable>> {
    let parts = match (num_or_sections.extract::<i32>(), num_or_sections.extract::<Ints>()) {
        (Ok(num), _) => Parts::Equal(num),
        (_, Ok(sizes)) => Parts::Sizes(sizes.0),
        _ if num_or_sections.hasattr("__len__")? => {
            let sizes = num_or_sections.try_iter()?.map(|size| Ok(size?.extract::<Dim>()?.0));
            Parts::Computed(sizes.collect::<PyResult<_>>()?)
        }
        _ => {
            let kind = num_or_sections.get_type();
            return Err(PyTypeError::new_err(format!(
                "The type of 'num_or_sections' in split must be int, list or tuple, but received {kind}."
            )));
        }
    };
    let dim = dim.map_or(layers::Size::Is(-1), |dim| dim.0);
    context::layers(py, |b| layers::split(b, &input.0, &parts, dim, name))
}

/// The same numbers in another shape: 0 copies a size, one -1 stands for what is left over.
#[pyfunction]
#[pyo3(signature = (x, shape, actual_shape=None, act=None, inplace=false, name=None))]
fn reshape(
    py: Python<'_>,
    x: Input,
    shape: Dims,
    actual_shape: Option<Input>,
    act: Option<&str>,
    inplace: bool,
    name: Option<&str>,
) -> PyResult<PyVariable> {
    let options = Reshape { actual_shape: var(&actual_shape), act, inplace, name };
    layer(py, |b| layers::reshape(b, &x.0, shape.0, options))
}

/// The dimensions in another order.
#[pyfunction]
#[pyo3(signature = (x, perm, name=None))]
fn transpose(py: Python<'_>, x: Input, perm: Ints, name: Option<&str>) -> PyResult<PyVariable> {
    layer(py, |b| layers::transpose(b, &x.0, &perm.0, name))
}

/// Without the dimensions of 1 at `axes`, all of them if `axes` is empty.
#[pyfunction]
#[pyo3(signature = (input, axes, name=None))]
fn squeeze(py: Python<'_>, input: Input, axes: Ints, name: Option<&str>) -> PyResult<PyVariable> {
    layer(py, |b| layers::squeeze(b, &input.0, &axes.0, name))
}

/// With dimensions of 1 put in at `axes`.
#[pyfunction]
#[pyo3(signature = (input, axes, name=None))]
fn unsqueeze(
    py: Python<'_>,
    input: Input,
    axes: &Bound<'_, PyAny>,
    name: Option<&str>,
) -> PyResult<PyVariable> {
    let axes = match axes.extract::<Ints>() {
        Ok(axes) => layers::Sizes::from(&axes.0),
        Err(wrong) => axes.extract::<Dims>().map_err(|_| wrong)?.0,
    };
    layer(py, |b| layers::unsqueeze(b, &input.0, axes, name))
}

/// A matrix whose rows are the first `axis` dimensions.
#[pyfunction]
#[pyo3(signature = (x, axis=1, name=None))]
fn flatten(py: Python<'_>, x: Input, axis: i32, name: Option<&str>) -> PyResult<PyVariable> {
    layer(py, |b| layers::flatten(b, &x.0, axis, name))
}

/// The input repeated along each dimension.
#[pyfunction]
#[pyo3(signature = (x, expand_times, name=None))]
fn expand(
    py: Python<'_>,
    x: Input,
    expand_times: Dims,
    name: Option<&str>,
) -> PyResult<PyVariable> {
    layer(py, |b| layers::expand(b, &x.0, expand_times.0, name))
}

/// The input repeated until it has the target's shape.
#[pyfunction]
#[pyo3(signature = (x, target_tensor, name=None))]
fn expand_as(
    py: Python<'_>,
    x: Input,
    target_tensor: Input,
    name: Option<&str>,
) -> PyResult<PyVariable> {
    layer(py, |b| layers::expand_as(b, &x.0, &target_tensor.0, name))
}

/// The inputs side by side along a new dimension.
#[pyfunction]
#[pyo3(signature = (x, axis=0))]
fn stack(py: Python<'_>, x: Inputs, axis: i32) -> PyResult<PyVariable> {
    layer(py, |b| layers::stack(b, &x.0, axis))
}

/// The slices along an axis; `num` says how many if the size is not known.
#[pyfunction]
#[pyo3(signature = (x, axis=0, num=None))]
fn unstack(py: Python<'_>, x: Input, axis: i32, num: Option<i32>) -> PyResult<Vec<PyVariable>> {
    context::layers(py, |b| layers::unstack(b, &x.0, axis, num))
}

/// A part of the input: from `starts` to before `ends` along `axes`.
#[pyfunction]
fn slice(
    py: Python<'_>,
    input: Input,
    axes: Ints,
    starts: Dims,
    ends: Dims,
) -> PyResult<PyVariable> {
    let cut = Cut { axes: &axes.0, starts: &starts.0, ends: &ends.0 };
    layer(py, |b| layers::slice(b, &input.0, cut))
}

/// The rows of the input that `index` names.
#[pyfunction]
#[pyo3(signature = (input, index, overwrite=true))]
fn gather(py: Python<'_>, input: Input, index: Input, overwrite: bool) -> PyResult<PyVariable> {
    layer(py, |b| layers::gather(b, &input.0, &index.0, overwrite))
}

/// What lies at the places that the last dimension of `index` names.
#[pyfunction]
#[pyo3(signature = (input, index, name=None))]
fn gather_nd(
    py: Python<'_>,
    input: Input,
    index: Input,
    name: Option<&str>,
) -> PyResult<PyVariable> {
    layer(py, |b| layers::gather_nd(b, &input.0, &index.0, name))
}

/// The input with the rows at `index` replaced, or with all of `updates` added there.
#[pyfunction]
#[pyo3(signature = (input, index, updates, name=None, overwrite=true))]
fn scatter(
    py: Python<'_>,
    input: Input,
    index: Input,
    updates: Input,
    name: Option<&str>,
    overwrite: bool,
) -> PyResult<PyVariable> {
    let rows = Updates { index: &index.0, updates: &updates.0, overwrite };
    layer(py, |b| layers::scatter(b, &input.0, rows, name))
}

/// The input with a value around it: `paddings` before and after each dimension.
#[pyfunction]
#[pyo3(signature = (x, paddings, pad_value=0.0, name=None))]
fn pad(
    py: Python<'_>,
    x: Input,
    paddings: Ints,
    pad_value: f32,
    name: Option<&str>,
) -> PyResult<PyVariable> {
    layer(py, |b| layers::pad(b, &x.0, &paddings.0, pad_value, name))
}

/// Row i of the result is row i of the input that `index[i]` names.
#[pyfunction]
fn multiplex(py: Python<'_>, inputs: Inputs, index: Input) -> PyResult<PyVariable> {
    layer(py, |b| layers::multiplex(b, &inputs.0, &index.0))
}

/// The sizes of the input, int32.
#[pyfunction]
fn shape(py: Python<'_>, input: Input) -> PyResult<PyVariable> {
    layer(py, |b| layers::shape(b, &input.0))
}

/// The order turned around along one axis or several.
#[pyfunction]
fn reverse(py: Python<'_>, x: Input, axis: Ints) -> PyResult<PyVariable> {
    layer(py, |b| layers::reverse(b, &x.0, &axis.0))
}

/// Running sums along an axis, the last unless said.
#[pyfunction]
#[pyo3(signature = (x, axis=None, exclusive=None, reverse=None))]
fn cumsum(
    py: Python<'_>,
    x: Input,
    axis: Option<i32>,
    exclusive: Option<bool>,
    reverse: Option<bool>,
) -> PyResult<PyVariable> {
    let usual = Cumsum::default();
    let options = Cumsum {
        axis: axis.unwrap_or(usual.axis),
        exclusive: exclusive.unwrap_or(usual.exclusive),
        reverse: reverse.unwrap_or(usual.reverse),
    };
    layer(py, |b| layers::cumsum(b, &x.0, options))
}

/// The places where the condition holds.
#[pyfunction]
fn r#where(py: Python<'_>, condition: Input) -> PyResult<PyVariable> {
    layer(py, |b| layers::where_index(b, &condition.0))
}

/// Rows of equal ids added up.
#[pyfunction]
#[pyo3(signature = (x, name=None))]
fn merge_selected_rows(py: Python<'_>, x: Input, name: Option<&str>) -> PyResult<PyVariable> {
    layer(py, |b| layers::merge_selected_rows(b, &x.0, name))
}

/// The values of keyed rows, one row per id.
#[pyfunction]
#[pyo3(signature = (x, name=None))]
fn get_tensor_from_selected_rows(
    py: Python<'_>,
    x: Input,
    name: Option<&str>,
) -> PyResult<PyVariable> {
    layer(py, |b| layers::get_tensor_from_selected_rows(b, &x.0, name))
}
