//! Rows by id, inputs that are checked, and layers that keep a model from being too sure.

use program::layers::{self, Data, Embedding, Prelu, PreluMode, SparseEmbedding};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::arguments::{Floats, Ids, TableSize, Weight, truth, weight};
use super::basic::data_type;
use crate::convert::dtype_from_py;
use crate::framework::context::layer;
use crate::framework::variable::PyVariable;

pub(super) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    add_embeddings(m)?;
    m.add_function(wrap_pyfunction!(data_checked, m)?)?;
    m.add_function(wrap_pyfunction!(prelu, m)?)
}

macro_rules! embeddings {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(
            signature = (
                input, size, is_sparse=false, is_distributed=false, padding_idx=None,
                param_attr=None, dtype=None
            ),
            text_signature = "(input, size, is_sparse=False, is_distributed=False, \
                padding_idx=None, param_attr=None, dtype='float32')"
        )]
        fn $name(
            py: Python<'_>,
            input: Ids,
            size: TableSize,
            #[pyo3(from_py_with = truth)] is_sparse: bool,
            #[pyo3(from_py_with = truth)] is_distributed: bool,
            padding_idx: Option<i128>,
            param_attr: Option<Weight>,
            dtype: Option<&Bound<'_, PyAny>>,
        ) -> PyResult<PyVariable> {
            let dtype = dtype.map(dtype_from_py).transpose()?.unwrap_or_default();
            let param_attr = weight(param_attr);
            let options = Embedding { is_sparse, is_distributed, padding_idx, param_attr, dtype };
            layer(py, |b| layers::$name(b, &input.0, size.0, options))
        }
    )*};
}

embeddings! {
    /// Rows of a table of `size` (rows, width) for ids that end in a dimension of 1.
    embedding;
    /// Rows of a table of `size` (rows, width) for ids of any shape.
    embedding_v2;
}

/// Rows of a table that servers make when they are first used, for ids that end in a dimension of
/// 1. `entry` says which rows a server takes in (`CountFilterEntry`, `ProbabilityEntry`): the others
/// read as zeros and do not learn. With `is_test` rows that do not exist read as zeros and are not
/// made. A table of 2**63 - 1 rows, or more, has a row for each id of 64 bits. Without servers every
/// row takes part.
#[pyfunction]
#[pyo3(
    signature = (
        input, size, padding_idx=None, is_test=false, entry=None, param_attr=None, dtype=None
    ),
    text_signature = "(input, size, padding_idx=None, is_test=False, entry=None, \
        param_attr=None, dtype='float32')"
)]
fn sparse_embedding(
    py: Python<'_>,
    input: Ids,
    size: TableSize,
    padding_idx: Option<i128>,
    #[pyo3(from_py_with = truth)] is_test: bool,
    entry: Option<String>,
    param_attr: Option<Weight>,
    dtype: Option<&Bound<'_, PyAny>>,
) -> PyResult<PyVariable> {
    let dtype = dtype.map(dtype_from_py).transpose()?.unwrap_or_default();
    let param_attr = weight(param_attr);
    let options = SparseEmbedding { padding_idx, is_test, entry, param_attr, dtype };
    layer(py, |b| layers::sparse_embedding(b, &input.0, size.0, options))
}

fn add_embeddings(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(embedding, m)?)?;
    m.add_function(wrap_pyfunction!(embedding_v2, m)?)?;
    m.add_function(wrap_pyfunction!(sparse_embedding, m)?)
}

/// Declares an input in its full shape, which what is fed is checked against.
#[pyfunction]
#[pyo3(
    signature = (name, shape, dtype=None, lod_level=0),
    text_signature = "(name, shape, dtype='float32', lod_level=0)"
)]
fn data_checked(
    py: Python<'_>,
    name: &str,
    shape: Vec<Option<i64>>,
    dtype: Option<&Bound<'_, PyAny>>,
    lod_level: i32,
) -> PyResult<PyVariable> {
    let dtype = data_type(dtype)?;
    let shape: Vec<i64> = shape.into_iter().map(|size| size.unwrap_or(-1)).collect();
    let append_batch_size = false;
    let need_check_feed = true;
    let stop_gradient = true;
    let options = Data { append_batch_size, dtype, lod_level, stop_gradient, need_check_feed };
    layer(py, |b| layers::data(b, name, &shape, options))
}

/// x above 0, else x times a learned number: one for all, one per channel, or one per element.
#[pyfunction]
#[pyo3(signature = (x, mode, param_attr=None, name=None))]
fn prelu(
    py: Python<'_>,
    x: Floats,
    mode: &str,
    param_attr: Option<Weight>,
    name: Option<&str>,
) -> PyResult<PyVariable> {
    let modes = [PreluMode::All, PreluMode::Channel, PreluMode::Element];
    let Some(mode) = modes.into_iter().find(|known| known.as_str() == mode) else {
        let text = format!("mode should be one of all, channel, element, but got {mode}");
        return Err(PyValueError::new_err(text));
    };
    layer(py, |b| layers::prelu(b, &x.0, mode, Prelu { param_attr: weight(param_attr), name }))
}
