//! Tables of Python as ours: a DataFrame of anybody, a dictionary of columns, or a file.

use std::collections::BTreeSet;

use ::ctr::{Cell, Encoding, NamedCell, frame_of_rows, values_of};
use data::{ColumnNumber, DataFrame, NO_TIME, Series, Values, time_of_text, widen};
use fleet::{env, stores};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString};
use tensor::Tensor;

use crate::array::copy_array;
use crate::error::{detached_as, from_ctr, from_data, from_tensor};

/// 2⁵³: a float holds all whole numbers up to it.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// The types of missing values in pandas.
const MISSING: [&str; 2] = ["NAType", "NaTType"];

/// A table: an object with columns, or the path of a file.
///
/// Rows may be dictionaries: a list of them, or one. For a model they may leave out columns that it does
/// not read.
pub(crate) fn frame_from_py(
    table: &Bound<'_, PyAny>,
    encoding: Option<&Encoding>,
) -> PyResult<DataFrame> {
    let py = table.py();
    if let Some(names) = file_names(table)? {
        let stores = stores::stores(&env::process);
        return detached_as(py, from_data, || DataFrame::read_list(&names, &stores));
    }
    if let Some(rows) = rows_of(table)? {
        return frame_of_rows(rows, encoding).map_err(from_ctr);
    }
    let names = match table.cast::<PyDict>() {
        Ok(dict) => dict.keys().into_any(),
        // pyarrow's `columns` are arrays.
        Err(_) if table.hasattr("column_names")? => table.getattr("column_names")?,
        Err(_) if table.hasattr("columns")? => table.getattr("columns")?,
        Err(_) => {
            let kind = table.get_type().name()?;
            let text = format!(
                "expected a DataFrame, a dict of columns, a list of dicts or the paths of files, not {kind}"
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

/// The rows of a list of dictionaries, or of one dictionary with one value for each name; `None` if it is something else.
fn rows_of(table: &Bound<'_, PyAny>) -> PyResult<Option<Vec<Vec<NamedCell>>>> {
    if let Ok(row) = table.cast::<PyDict>() {
        let is_row = !row.is_empty() && row.values().iter().all(|value| is_one(&value));
        return if is_row { Ok(Some(vec![row_of(row)?])) } else { Ok(None) };
    }
    let Ok(list) = table.cast::<PyList>() else { return Ok(None) };
    let mut rows = Vec::with_capacity(list.len());
    for item in list {
        let Ok(row) = item.cast::<PyDict>() else { return Ok(None) };
        rows.push(row_of(row)?);
    }
    Ok(Some(rows).filter(|rows| !rows.is_empty()))
}

/// Whether something is one value, not a column.
fn is_one(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>() || value.len().is_err()
}

fn row_of(row: &Bound<'_, PyDict>) -> PyResult<Vec<NamedCell>> {
    let mut cells = Vec::with_capacity(row.len());
    for (name, value) in row.iter() {
        let name: String = name.str()?.extract()?;
        let cell = cell(&name, &value)?;
        cells.push(NamedCell { name, cell });
    }
    Ok(cells)
}

/// A column as an array that has all its values. Where whole numbers are missing, pyarrow, polars and the categories of pandas
/// would make floats of all.
fn array_of<'py>(values: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let numpy = values.py().import("numpy")?;
    let n_missing = match values.getattr_opt("null_count")? {
        Some(count) if count.is_callable() => count.call0()?.extract::<usize>().unwrap_or(0),
        Some(count) => count.extract().unwrap_or(0),
        None => 0,
    };
    if n_missing > 0 {
        for name in ["to_pylist", "to_list"] {
            if let Some(list) = values.getattr_opt(name)? {
                return numpy.call_method1("array", (list.call0()?, "object"));
            }
        }
    }
    let is_category = match values.getattr_opt("dtype")? {
        Some(dtype) => dtype.hasattr("categories")? && values.hasattr("astype")?,
        None => false,
    };
    if is_category {
        numpy.call_method1("asarray", (values.call_method1("astype", ("object",))?,))
    } else {
        numpy.call_method1("asarray", (values,))
    }
}

/// Whether numpy made floats of whole numbers that a float does not hold: of lists with some of 2⁶³ and more, and of
/// columns of pandas with missing ones.
fn is_rounded(values: &Bound<'_, PyAny>, array: &Bound<'_, PyAny>) -> PyResult<bool> {
    let kind_of = |of: &Bound<'_, PyAny>| -> PyResult<String> {
        let dtype = of.getattr_opt("dtype")?;
        let kind = dtype.map(|dtype| dtype.getattr_opt("kind")).transpose()?.flatten();
        kind.map_or(Ok(String::new()), |kind| kind.extract())
    };
    if kind_of(array)? != "f" || kind_of(values)? == "f" {
        return Ok(false);
    }
    let tensor = tensor(array, "float64")?;
    let floats = tensor.data::<f64>().map_err(from_tensor)?;
    Ok(floats.iter().any(|number| number.abs() >= EXACT_MAX))
}

/// Whether numpy made the text `nan` of missing values in a list of texts.
fn is_written_out(values: &Bound<'_, PyAny>, array: &Bound<'_, PyAny>) -> PyResult<bool> {
    let Ok(list) = values.cast::<PyList>() else { return Ok(false) };
    let kind: String = array.getattr("dtype")?.getattr("kind")?.extract()?;
    let is_text = |item: &Bound<'_, PyAny>| item.is_instance_of::<PyString>();
    let is_nan = |item: &Bound<'_, PyAny>| item.extract().is_ok_and(f64::is_nan);
    let all = || list.iter().all(|item| is_text(&item) || is_nan(&item));
    Ok(kind == "U" && !list.iter().all(|item| is_text(&item)) && all())
}

fn column(name: &str, values: &Bound<'_, PyAny>) -> PyResult<Values> {
    let mut array = array_of(values)?;
    if is_rounded(values, &array)? || is_written_out(values, &array)? {
        array = values.py().import("numpy")?.call_method1("array", (values, "object"))?;
    }
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
    let itemsize: usize = dtype.getattr("itemsize")?.extract()?;
    match (kind.as_str(), itemsize) {
        ("b" | "i" | "u", _) => {
            let tensor = tensor(&array, "int64")?;
            let bits = tensor.data::<i64>().map_err(from_tensor)?;
            Ok(if kind == "u" && bits.iter().any(|&number| number < 0) {
                let number = |&bits: &i64| ColumnNumber::unsigned(bits.cast_unsigned());
                Values::of_numbers(bits.iter().map(number).collect())
            } else {
                Values::Whole(bits.to_vec())
            })
        }
        ("f", 4) => {
            let tensor = tensor(&array, "float32")?;
            let short = tensor.data::<f32>().map_err(from_tensor)?;
            Ok(Values::Float(short.iter().map(|&number| widen(number)).collect()))
        }
        ("f", 2) => {
            // Numbers of 16 bits, too, are what their shortest text says.
            let texts: Vec<String> =
                array.call_method1("astype", ("str",))?.call_method0("tolist")?.extract()?;
            let number = |text: &String| {
                ColumnNumber::of_text(text.as_bytes()).unwrap_or(ColumnNumber::Missing)
            };
            Ok(Values::Float(texts.iter().map(|text| number(text).to_f64()).collect()))
        }
        ("f", _) => {
            let tensor = tensor(&array, "float64")?;
            Ok(Values::Float(tensor.data::<f64>().map_err(from_tensor)?.to_vec()))
        }
        ("M", _) => {
            let micros = array.call_method1("astype", ("datetime64[us]",))?;
            let tensor = tensor(&micros, "int64")?;
            Ok(Values::Time(tensor.data::<i64>().map_err(from_tensor)?.to_vec()))
        }
        ("O" | "U" | "S" | "T", _) => {
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
        if let Ok(number) = item.extract() {
            return Ok(Cell::Whole(number));
        }
        return Ok(item.extract().map_or(Cell::Float(item.extract()?), Cell::Large));
    }
    if item.is_instance_of::<PyFloat>() {
        return Ok(Cell::of_number(ColumnNumber::of_float(item.extract()?)));
    }
    if let Ok(bytes) = item.cast::<PyBytes>() {
        return Ok(Cell::Text(String::from_utf8_lossy(bytes.as_bytes()).into_owned()));
    }
    let kind: String = item.get_type().name()?.extract()?;
    if MISSING.contains(&kind.as_str()) {
        return Ok(Cell::Missing);
    }
    let module: String = item.get_type().getattr("__module__")?.extract()?;
    match (module.as_str(), kind.as_str()) {
        ("numpy", "ndarray") => {}
        ("numpy", "datetime64") => {
            let micros = item.call_method1("astype", ("datetime64[us]",))?;
            let micros: i64 = micros.call_method1("astype", ("int64",))?.extract()?;
            return Ok(if micros == NO_TIME { Cell::Missing } else { Cell::Time(micros) });
        }
        ("numpy", "float32") => {
            return Ok(Cell::of_number(ColumnNumber::of_float(widen(item.extract()?))));
        }
        ("numpy", _) => {
            // A number of numpy: its own Python number.
            let number = item.call_method0("item")?;
            if !number.get_type().is(item.get_type()) {
                return cell(column, &number);
            }
        }
        ("decimal" | "_pydecimal", "Decimal") => {
            let text: String = item.call_method1("__format__", ("f",))?.extract()?;
            return Ok(Cell::of_number(
                ColumnNumber::of_text(text.as_bytes()).unwrap_or(ColumnNumber::Missing),
            ));
        }
        _ if item.hasattr("isoformat")? && item.hasattr("year")? => {
            let text: String = item.call_method0("isoformat")?.extract()?;
            if let Some(micros) = time_of_text(&text) {
                return Ok(Cell::Time(micros));
            }
        }
        _ => {}
    }
    let (column, found) = (column.to_string(), format!("a {kind}"));
    Err(from_ctr(::ctr::Error::Unsupported { column, found }))
}
