//! Tables of Python as ours: a DataFrame of anybody, a dictionary of columns, or a file.

use std::collections::BTreeSet;

use ::ctr::{Cell, values_of};
use data::{DataFrame, Series, Values};
use fleet::{env, stores};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString};
use tensor::Tensor;

use crate::array::copy_array;
use crate::error::{from_ctr, from_data, from_tensor};

/// What pandas writes for nothing.
const MISSING: [&str; 2] = ["NAType", "NaTType"];

/// A table: what has columns, or the path of a file.
pub(crate) fn frame_from_py(table: &Bound<'_, PyAny>) -> PyResult<DataFrame> {
    let py = table.py();
    if let Some(names) = file_names(table)? {
        let stores = stores::stores(&env::process);
        return py.detach(|| DataFrame::read_list(&names, &stores)).map_err(from_data);
    }
    let names = match table.cast::<PyDict>() {
        Ok(dict) => dict.keys().into_any(),
        // pyarrow's `columns` are arrays.
        Err(_) if table.hasattr("column_names")? => table.getattr("column_names")?,
        Err(_) if table.hasattr("columns")? => table.getattr("columns")?,
        Err(_) => {
            let kind = table.get_type().name()?;
            let text = format!(
                "expected a DataFrame, a dict of columns or the paths of files, not {kind}"
            );
            return Err(PyTypeError::new_err(text));
        }
    };
    let keys = names.try_iter()?.collect::<PyResult<Vec<_>>>()?;
    let mut given = BTreeSet::new();
    let mut series = Vec::new();
    // Of two columns with one name, pandas gives both at once.
    for key in &keys {
        let column: String = key.str()?.extract()?;
        if !given.insert(column.clone()) {
            let (file, reason) = ("the table".to_string(), "it is there twice".to_string());
            return Err(from_data(data::Error::BadColumn { file, column, reason }));
        }
    }
    for key in &keys {
        let name: String = key.str()?.extract()?;
        let values = column(&name, &table.get_item(key)?)?;
        series.push(Series { name, values });
    }
    DataFrame::new(series).map_err(from_data)
}

/// The name of a file or pattern, or a list of such names.
fn file_names(table: &Bound<'_, PyAny>) -> PyResult<Option<Vec<String>>> {
    if table.is_instance_of::<PyString>() || table.hasattr("__fspath__")? {
        let path = table.py().import("os")?.call_method1("fspath", (table,))?;
        return Ok(Some(vec![path.str()?.extract()?]));
    }
    let Ok(list) = table.cast::<PyList>() else { return Ok(None) };
    let mut all = Vec::new();
    for item in list {
        match file_names(&item)? {
            Some(names) => all.extend(names),
            None => return Ok(None),
        }
    }
    Ok(Some(all).filter(|all| !all.is_empty()))
}

fn column(name: &str, values: &Bound<'_, PyAny>) -> PyResult<Values> {
    let py = values.py();
    let mut array = py.import("numpy")?.call_method1("asarray", (values,))?;
    let shape: Vec<usize> = array.getattr("shape")?.extract()?;
    let unsupported =
        |found: String| from_ctr(::ctr::Error::Unsupported { column: name.to_string(), found });
    match shape.as_slice() {
        [_] => {}
        [_, 1] => array = array.call_method1("reshape", (-1,))?,
        _ => return Err(unsupported(format!("an array of shape {shape:?}"))),
    }
    let dtype = array.getattr("dtype")?;
    let kind: String = dtype.getattr("kind")?.extract()?;
    match kind.as_str() {
        "b" | "i" | "u" => {
            let tensor = tensor(&array, "int64")?;
            let whole = tensor.data::<i64>().map_err(from_tensor)?.to_vec();
            match kind == "u" && whole.iter().any(|&number| number < 0) {
                true => Err(unsupported("numbers of 2^63 and more".to_string())),
                false => Ok(Values::Whole(whole)),
            }
        }
        "f" => {
            let tensor = tensor(&array, "float64")?;
            Ok(Values::Float(tensor.data::<f64>().map_err(from_tensor)?.to_vec()))
        }
        "O" | "U" | "S" | "T" => {
            let items = array.call_method0("tolist")?.cast_into::<PyList>()?;
            let cells = items.iter().map(|item| cell(name, &item)).collect::<PyResult<Vec<_>>>()?;
            values_of(name, &cells).map_err(from_ctr)
        }
        _ => Err(unsupported(dtype.str()?.extract()?)),
    }
}

fn tensor(array: &Bound<'_, PyAny>, dtype: &str) -> PyResult<Tensor> {
    let mut tensor = Tensor::default();
    copy_array(&array.call_method1("astype", (dtype,))?, &mut tensor)?;
    Ok(tensor)
}

fn cell(column: &str, item: &Bound<'_, PyAny>) -> PyResult<Cell> {
    if item.is_none() {
        return Ok(Cell::Missing);
    }
    if let Ok(text) = item.cast::<PyString>() {
        return Ok(Cell::Text(text.extract()?));
    }
    if item.is_instance_of::<PyBool>() || item.is_instance_of::<PyInt>() {
        return Ok(item.extract().map_or(Cell::Float(item.extract()?), Cell::Whole));
    }
    if item.is_instance_of::<PyFloat>() {
        let number: f64 = item.extract()?;
        return Ok(if number.is_nan() { Cell::Missing } else { Cell::Float(number) });
    }
    if let Ok(bytes) = item.cast::<PyBytes>() {
        return Ok(Cell::Text(String::from_utf8_lossy(bytes.as_bytes()).into_owned()));
    }
    let kind: String = item.get_type().name()?.extract()?;
    if MISSING.contains(&kind.as_str()) {
        return Ok(Cell::Missing);
    }
    let module: String = item.get_type().getattr("__module__")?.extract()?;
    if module == "numpy" && kind != "ndarray" {
        // A number of numpy: its own Python number.
        let number = item.call_method0("item")?;
        if !number.get_type().is(item.get_type()) {
            return cell(column, &number);
        }
    }
    let (column, found) = (column.to_string(), format!("a {kind}"));
    Err(from_ctr(::ctr::Error::Unsupported { column, found }))
}
