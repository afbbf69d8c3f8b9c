//! Answers as JSON, written number by number.

use std::io::{self, Write};

use serde_json::json;
use tensor::Tensor;

use crate::model::Model;

/// `{"predictions": {"name": [[0.4, 0.6], …]}}`. A number that is not finite is `null`: JSON has no
/// other word.
pub(in super::super) fn write_predictions(
    out: &mut impl Write,
    names: &[String],
    outputs: &[Tensor],
) -> io::Result<()> {
    out.write_all(b"{\"predictions\":{")?;
    for (at, (name, output)) in names.iter().zip(outputs).enumerate() {
        if at > 0 {
            out.write_all(b",")?;
        }
        serde_json::to_writer(&mut *out, name)?;
        out.write_all(b":")?;
        write_values(out, output, 0, 0)?;
    }
    out.write_all(b"}}")
}

/// Writes the numbers from `from` on, of the dimensions from `dim` on; returns where they end.
fn write_values(
    out: &mut impl Write,
    tensor: &Tensor,
    dim: usize,
    from: usize,
) -> io::Result<usize> {
    let Some(&n) = tensor.dims().get(dim) else {
        write_number(out, tensor, from)?;
        return Ok(from + 1);
    };
    out.write_all(b"[")?;
    let mut at = from;
    for k in 0..n {
        if k > 0 {
            out.write_all(b",")?;
        }
        at = write_values(out, tensor, dim + 1, at)?;
    }
    out.write_all(b"]")?;
    Ok(at)
}

fn write_number(out: &mut impl Write, tensor: &Tensor, at: usize) -> io::Result<()> {
    if let Ok(data) = tensor.data::<f32>() {
        return if data[at].is_finite() {
            write!(out, "{}", data[at])
        } else {
            out.write_all(b"null")
        };
    }
    if let Ok(data) = tensor.data::<i64>() {
        return write!(out, "{}", data[at]);
    }
    match tensor.get_f64(at) {
        number if number.is_finite() => write!(out, "{number}"),
        _ => out.write_all(b"null"),
    }
}

/// The inputs and outputs of the model.
pub(in super::super) fn write_description(out: &mut impl Write, model: &Model) -> io::Result<()> {
    let slots = model.slots().iter().map(|slot| {
        json!({
            "name": slot.name,
            "type": slot.dtype.name(),
            "shape": slot.dims,
            "sequence": slot.is_sequence(),
        })
    });
    out.write_all(b"{")?;
    if let Some(encoding) = model.encoding() {
        let columns = encoding.features.iter();
        let columns =
            columns.map(|column| json!({ "name": column.name, "kind": column.kind().name() }));
        write_list(out, "columns", columns)?;
        out.write_all(b",")?;
    }
    write_list(out, "outputs", model.outputs().iter().map(|name| json!(name)))?;
    out.write_all(b",")?;
    write_list(out, "slots", slots)?;
    out.write_all(b"}")
}

fn write_list(
    out: &mut impl Write,
    name: &str,
    values: impl Iterator<Item = serde_json::Value>,
) -> io::Result<()> {
    write!(out, "\"{name}\":[")?;
    for (at, value) in values.enumerate() {
        if at > 0 {
            out.write_all(b",")?;
        }
        write!(out, "{value}")?;
    }
    out.write_all(b"]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_exact_and_what_is_not_finite_is_null() {
        let large = Tensor::new([2], &[(1i64 << 53) + 1, i64::MIN]).unwrap();
        let numbers = Tensor::new([2, 2], &[0.1f32, f32::NAN, f32::INFINITY, -2.5e-8]).unwrap();
        let doubles = Tensor::new([1], &[f64::NEG_INFINITY]).unwrap();
        let names = ["a", "b\"", "c"].map(str::to_string);
        let mut out = Vec::new();
        write_predictions(&mut out, &names, &[large, numbers, doubles]).unwrap();
        let expected = r#"{"predictions":{"a":[9007199254740993,-9223372036854775808],"b\"":[[0.1,null],[null,-0.000000025]],"c":[null]}}"#;
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
