//! Requests and answers as JSON.
//!
//! A request is `{"columns": {"C1": [17, 4], "C2": [[1, 2], [3]]}}` or `{"rows": [{"C1": 17, "C2": [1, 2]}, …]}`. Of a
//! model that CTR saved, values are those of a table: a number, a text, or null.

use std::collections::BTreeSet;
use std::io::Write;

use ctr::{Cell, Encoding, values_of};
use data::{DataFrame, Series};
use serde_json::{Map, Value};
use tensor::{DType, Tensor};

use super::connection::BadBody;
use crate::batch::{Column, Samples};
use crate::error::Error;
use crate::slot::Slot;

type Result<T> = std::result::Result<T, BadBody>;

/// The two forms of a body.
enum JsonBody {
    Columns(Map<String, Value>),
    Rows(Vec<Map<String, Value>>),
}

impl JsonBody {
    fn read(body: &[u8]) -> Result<Self> {
        let form = |text: &str| BadBody::Form(text.to_string());
        if let Value::Object(mut all) = serde_json::from_slice(body)?
            && all.len() == 1
        {
            match (all.remove("columns"), all.remove("rows")) {
                (Some(Value::Object(columns)), _) => return Ok(Self::Columns(columns)),
                (_, Some(Value::Array(rows))) => {
                    let object = |row| match row {
                        Value::Object(row) => Ok(row),
                        _ => Err(form("a row is an object with a value for each slot")),
                    };
                    return Ok(Self::Rows(rows.into_iter().map(object).collect::<Result<_>>()?));
                }
                _ => {}
            }
        }
        Err(form("the body is no object with \"columns\" or \"rows\""))
    }
}

/// Fills a batch from the body of a request.
pub(super) fn fill(body: &[u8], batch: &mut Samples) -> Result<()> {
    match JsonBody::read(body)? {
        JsonBody::Columns(columns) => fill_columns(&columns, batch),
        JsonBody::Rows(rows) => fill_rows(&rows, batch),
    }
}

/// The table of a body. A row may leave out what the model does not read.
pub(super) fn table(body: &[u8], encoding: &Encoding) -> Result<DataFrame> {
    let mut series = Vec::new();
    match JsonBody::read(body)? {
        JsonBody::Columns(columns) => {
            for (name, values) in columns {
                let Value::Array(values) = values else {
                    let problem = format!("column `{name}`: a column is a list of values");
                    return Err(BadBody::Form(problem));
                };
                series.push(one_series(name, values)?);
            }
        }
        JsonBody::Rows(mut rows) => {
            let names: BTreeSet<String> = rows.iter().flat_map(Map::keys).cloned().collect();
            for name in names {
                let is_read = encoding.features.iter().any(|feature| feature.name == name);
                if is_read && rows.iter().any(|row| !row.contains_key(&name)) {
                    return Err(Error::Table(ctr::Error::MissingColumn {
                        column: name,
                        near: tensor::DidYouMean::default(),
                    })
                    .into());
                }
                let values = rows.iter_mut().map(|row| row.remove(&name).unwrap_or_default());
                let values = values.collect();
                series.push(one_series(name, values)?);
            }
        }
    }
    Ok(DataFrame::new(series).map_err(ctr::Error::from).map_err(Error::Table)?)
}

fn one_series(name: String, values: Vec<Value>) -> Result<Series> {
    let cell = |value| match value {
        Value::Null => Ok(Cell::Missing),
        Value::Bool(truth) => Ok(Cell::Whole(truth.into())),
        Value::Number(number) => Ok(match (number.as_i64(), number.as_u64()) {
            (Some(whole), _) => Cell::Whole(whole),
            (None, Some(large)) => Cell::Large(large),
            (None, None) => Cell::Float(number.as_f64().unwrap_or(f64::NAN)),
        }),
        Value::String(text) => Ok(Cell::Text(text)),
        Value::Array(_) => Err(unsupported(&name, "a list")),
        Value::Object(_) => Err(unsupported(&name, "an object")),
    };
    let cells = values.into_iter().map(cell).collect::<std::result::Result<Vec<Cell>, Error>>()?;
    let values = values_of(&name, &cells).map_err(Error::Table)?;
    Ok(Series { name, values })
}

fn unsupported(column: &str, found: &str) -> Error {
    let (column, found) = (column.to_string(), found.to_string());
    Error::Table(ctr::Error::Unsupported { column, found })
}

fn fill_columns(columns: &Map<String, Value>, batch: &mut Samples) -> Result<()> {
    for (name, values) in columns {
        let at = batch.place(name)?;
        let slot = batch.slots()[at].clone();
        let Value::Array(samples) = values else {
            return Err(wrong_length(&slot, "a column is a list of samples").into());
        };
        fill_slot(batch, at, &slot, samples.iter())?;
    }
    Ok(())
}

fn fill_rows(rows: &[Map<String, Value>], batch: &mut Samples) -> Result<()> {
    let slots: Vec<Slot> = batch.slots().to_vec();
    let names = rows.iter().flat_map(Map::keys);
    for name in names.filter(|name| slots.iter().all(|slot| slot.name != **name)) {
        batch.place(name)?;
    }
    for (at, slot) in slots.iter().enumerate() {
        let missing = || Error::MissingSlot { slot: slot.name.clone() };
        let samples: std::result::Result<Vec<&Value>, Error> =
            rows.iter().map(|row| row.get(&slot.name).ok_or_else(missing)).collect();
        fill_slot(batch, at, slot, samples?.into_iter())?;
    }
    Ok(())
}

fn wrong_length(slot: &Slot, problem: &str) -> Error {
    Error::WrongLength { slot: slot.name.clone(), problem: problem.to_string() }
}

/// The samples of a slot: a number, or a list, each.
fn fill_slot<'a>(
    batch: &mut Samples,
    at: usize,
    slot: &Slot,
    samples: impl Iterator<Item = &'a Value>,
) -> Result<()> {
    let is_integer = matches!(slot.dtype, DType::I64 | DType::I32);
    let (mut integers, mut numbers, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
    let mut add = |value: &Value| match is_integer {
        true => integer(slot, value).map(|value| integers.push(value)),
        false => number(slot, value).map(|value| numbers.push(value)),
    };
    for sample in samples {
        let mut n = 0;
        flatten(sample, &mut |value| {
            n += 1;
            add(value)
        })?;
        let width = slot.width()?;
        if n % width != 0 || !slot.is_sequence() && n != width {
            let what = if slot.is_sequence() { "an element" } else { "a sample" };
            let problem = format!("{what} has {width} numbers, but {n} were given");
            return Err(wrong_length(slot, &problem).into());
        }
        lengths.push(n / width);
    }
    let lengths = &lengths[..];
    Ok(match (is_integer, slot.is_sequence()) {
        (true, true) => batch.set_at(at, Column::Sequences { values: &integers, lengths }),
        (true, false) => batch.set_at(at, Column::Integers(&integers)),
        (false, true) => batch.set_at(at, Column::NumberSequences { values: &numbers, lengths }),
        (false, false) => batch.set_at(at, Column::Numbers(&numbers)),
    }?)
}

/// Calls `add` with all numbers of a list of lists.
fn flatten(
    value: &Value,
    add: &mut dyn FnMut(&Value) -> std::result::Result<(), Error>,
) -> std::result::Result<(), Error> {
    match value {
        Value::Array(all) => all.iter().try_for_each(|value| flatten(value, add)),
        value => add(value),
    }
}

fn integer(slot: &Slot, value: &Value) -> std::result::Result<i64, Error> {
    // Ids of 2^63 and more keep their bits, as in Fluid.
    let bits = || value.as_u64().filter(|_| slot.dtype == DType::I64).map(u64::cast_signed);
    value.as_i64().or_else(bits).ok_or_else(|| wrong_type(slot, value))
}

fn number(slot: &Slot, value: &Value) -> std::result::Result<f32, Error> {
    value.as_f64().map(|value| value as f32).ok_or_else(|| wrong_type(slot, value))
}

fn wrong_type(slot: &Slot, value: &Value) -> Error {
    let text = value.to_string();
    let end = text.floor_char_boundary(40);
    Error::WrongType {
        slot: slot.name.clone(),
        expected: slot.dtype,
        actual: text[..end].to_string(),
    }
}

/// `{"predictions": {"name": [[0.4, 0.6], …]}}`.
pub(super) fn write(names: &[String], outputs: &[Tensor]) -> Vec<u8> {
    let mut out = b"{\"predictions\":{".to_vec();
    for (at, (name, output)) in names.iter().zip(outputs).enumerate() {
        if at > 0 {
            out.push(b',');
        }
        let _ = serde_json::to_writer(&mut out, name);
        out.push(b':');
        write_values(&mut out, output, 0, 0);
    }
    out.extend_from_slice(b"}}");
    out
}

/// Writes the numbers from `from` on, of the dimensions from `dim` on; returns where they end.
fn write_values(out: &mut Vec<u8>, tensor: &Tensor, dim: usize, from: usize) -> usize {
    let Some(&n) = tensor.dims().get(dim) else {
        match (tensor.data::<f32>(), tensor.data::<i64>()) {
            (Ok(data), _) if data[from].is_finite() => drop(write!(out, "{}", data[from])),
            (_, Ok(data)) => drop(write!(out, "{}", data[from])),
            (Ok(_), _) => out.extend_from_slice(b"null"),
            _ if tensor.get_f64(from).is_finite() => drop(write!(out, "{}", tensor.get_f64(from))),
            _ => out.extend_from_slice(b"null"),
        }
        return from + 1;
    };
    out.push(b'[');
    let mut at = from;
    for k in 0..n {
        if k > 0 {
            out.push(b',');
        }
        at = write_values(out, tensor, dim + 1, at);
    }
    out.push(b']');
    at
}
