//! Requests and answers as raw columns, little-endian.
//!
//! `PWC1`, samples u32, columns u32; then each column: length of its name u16, name, type u8 (Fluid's number:
//! 5 float32, 3 int64, 2 int32), form u8. Form 0: numbers of a sample u32, then all numbers. Form 1
//! (sequences): numbers of an element u32, then how many elements each sample has (u32 each), then all numbers.

use std::io::{self, Write};

use data::{DataFrame, Series, Values};
use tensor::{DType, Tensor};

use super::body::BadBody;
use crate::batch::{Column, Samples};
use crate::error::Error;

const MAGIC: &[u8; 4] = b"PWC1";
const WRONG_TYPE: &str = "a type that is none of 2, 3 and 5";

type Result<T> = std::result::Result<T, BadBody>;

struct ColumnReader<'a>(&'a [u8]);

impl<'a> ColumnReader<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let short = || BadBody::Form("the columns end too early".to_string());
        let (taken, rest) = self.0.split_at_checked(n).ok_or_else(short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn u32(&mut self) -> Result<usize> {
        Ok(u32::from_le_bytes(self.array()?) as usize)
    }

    fn numbers<const N: usize, T>(&mut self, n: usize, number: fn([u8; N]) -> T) -> Result<Vec<T>> {
        let (words, _) = self.take(n.saturating_mul(N))?.as_chunks::<N>();
        Ok(words.iter().map(|word| number(*word)).collect())
    }
}

/// Fills a batch from the body of a request.
pub(super) fn fill(body: &[u8], batch: &mut Samples) -> Result<()> {
    for_each_column(body, |read, name, n_samples| {
        let at = batch.place(&name)?;
        fill_column(read, n_samples, batch, at)
    })
}

/// The table of a body. Raw columns hold numbers only.
pub(super) fn table(body: &[u8]) -> Result<DataFrame> {
    let mut series = Vec::new();
    for_each_column(body, |read, name, n_samples| {
        let ([code, form], width) = (read.array()?, read.u32()?);
        if form != 0 || width != 1 {
            let problem = format!("column `{name}`: a row has one value in each column");
            return Err(BadBody::Form(problem));
        }
        let values = match code {
            3 => Values::Whole(read.numbers(n_samples, i64::from_le_bytes)?),
            2 => Values::Whole(read.numbers(n_samples, |word| i32::from_le_bytes(word).into())?),
            5 => Values::Float(
                read.numbers(n_samples, |word| data::widen(f32::from_le_bytes(word)))?,
            ),
            _ => return Err(BadBody::Form(format!("column `{name}`: {WRONG_TYPE}"))),
        };
        series.push(Series { name, values });
        Ok(())
    })?;
    Ok(DataFrame::new(series).map_err(ctr::Error::from).map_err(Error::Table)?)
}

/// Calls `read` behind the name of each column, with the name and the number of samples.
fn for_each_column(
    body: &[u8],
    mut read: impl FnMut(&mut ColumnReader<'_>, String, usize) -> Result<()>,
) -> Result<()> {
    let mut body = ColumnReader(body);
    if body.array::<4>()? != *MAGIC {
        return Err(BadBody::Form("raw columns begin with PWC1".to_string()));
    }
    let (n_samples, n_columns) = (body.u32()?, body.u32()?);
    for _ in 0..n_columns {
        let n_name = u16::from_le_bytes(body.array()?);
        let name = String::from_utf8_lossy(body.take(usize::from(n_name))?).into_owned();
        read(&mut body, name, n_samples)?;
    }
    if body.0.is_empty() {
        Ok(())
    } else {
        Err(BadBody::Form("there are bytes behind the last column".to_string()))
    }
}

fn fill_column(
    body: &mut ColumnReader<'_>,
    n_samples: usize,
    batch: &mut Samples,
    at: usize,
) -> Result<()> {
    let name = batch.slots()[at].name.clone();
    let [code, form] = body.array()?;
    let width = body.u32()?;
    let form_of = |problem: &str| BadBody::Form(format!("slot `{name}`: {problem}"));
    let mut lengths = Vec::new();
    let n_rows = match form {
        0 => n_samples,
        1 => {
            let bytes = body.take(n_samples.saturating_mul(4))?;
            let (words, _) = bytes.as_chunks::<4>();
            lengths.extend(words.iter().map(|word| u32::from_le_bytes(*word) as usize));
            lengths.iter().fold(0usize, |sum, &n| sum.saturating_add(n))
        }
        _ => return Err(form_of("a form that is neither 0 nor 1")),
    };
    let n = n_rows.saturating_mul(width);
    let lengths = (form == 1).then_some(&lengths[..]);
    match code {
        3 => set_integers(batch, at, &body.numbers(n, i64::from_le_bytes)?, lengths),
        2 => {
            let values = body.numbers(n, |word| i64::from(i32::from_le_bytes(word)))?;
            set_integers(batch, at, &values, lengths)
        }
        5 => {
            let values = &body.numbers(n, f32::from_le_bytes)?[..];
            Ok(match lengths {
                Some(lengths) => batch.set_at(at, Column::NumberSequences { values, lengths }),
                None => batch.set_at(at, Column::Numbers(values)),
            }?)
        }
        _ => Err(form_of(WRONG_TYPE)),
    }
}

fn set_integers(
    batch: &mut Samples,
    at: usize,
    values: &[i64],
    lengths: Option<&[usize]>,
) -> Result<()> {
    Ok(match lengths {
        Some(lengths) => batch.set_at(at, Column::Sequences { values, lengths }),
        None => batch.set_at(at, Column::Integers(values)),
    }?)
}

/// The results as raw columns, numbers of a sample one after the other.
pub(super) fn write(
    out: &mut impl Write,
    names: &[String],
    outputs: &[Tensor],
    n_samples: usize,
) -> io::Result<()> {
    out.write_all(MAGIC)?;
    out.write_all(&(n_samples as u32).to_le_bytes())?;
    out.write_all(&(names.len() as u32).to_le_bytes())?;
    for (name, output) in names.iter().zip(outputs) {
        let name = short(name);
        out.write_all(&(name.len() as u16).to_le_bytes())?;
        out.write_all(name)?;
        let n_rows = output.dims().first().copied().unwrap_or(1).max(1);
        let code = if is_plain(output) { output.dtype() } else { DType::F32 }.code() as u8;
        let offsets = output.lod().last();
        out.write_all(&[code, u8::from(offsets.is_some())])?;
        out.write_all(&((output.len() / n_rows) as u32).to_le_bytes())?;
        for pair in offsets.unwrap_or_default().windows(2) {
            out.write_all(&((pair[1] - pair[0]) as u32).to_le_bytes())?;
        }
        if is_plain(output) {
            out.write_all(output.bytes())?;
            continue;
        }
        for at in 0..output.len() {
            out.write_all(&(output.get_f64(at) as f32).to_le_bytes())?;
        }
    }
    Ok(())
}

/// The number of bytes that [`write`] writes.
pub(super) fn n_bytes(names: &[String], outputs: &[Tensor]) -> usize {
    let of_output = |(name, output): (&String, &Tensor)| {
        let numbers = if is_plain(output) { output.bytes().len() } else { output.len() * 4 };
        let lengths = output.lod().last().map_or(0, |offsets| (offsets.len().max(1) - 1) * 4);
        2 + short(name).len() + 2 + 4 + lengths + numbers
    };
    12 + names.iter().zip(outputs).map(of_output).sum::<usize>()
}

/// A name with a length of 16 bits.
fn short(name: &str) -> &[u8] {
    &name.as_bytes()[..name.len().min(usize::from(u16::MAX))]
}

/// Whether the numbers are sent as they are; others become float32.
fn is_plain(output: &Tensor) -> bool {
    matches!(output.dtype(), DType::F32 | DType::I64 | DType::I32)
}

#[cfg(test)]
mod tests {
    use tensor::mix;

    use super::*;
    use crate::serve::body::Allowed;
    use crate::serve::budget::Budget;
    use crate::serve::json;
    use crate::slot::Slot;

    fn samples() -> Samples {
        let slot = |name: &str, dtype, dims: &[i64], lod_level| Slot {
            name: name.to_string(),
            dtype,
            dims: dims.to_vec(),
            lod_level,
        };
        Samples::new([slot("ids", DType::I64, &[1], 1), slot("x", DType::F32, &[2], 0)].into())
    }

    fn column(name: &str, code: u8, form: u8, width: u32, rest: &[u8]) -> Vec<u8> {
        let mut bytes = (name.len() as u16).to_le_bytes().to_vec();
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(&[code, form]);
        bytes.extend_from_slice(&width.to_le_bytes());
        bytes.extend_from_slice(rest);
        bytes
    }

    fn body() -> Vec<u8> {
        let words: Vec<u8> = [2u32, 1].iter().flat_map(|n| n.to_le_bytes()).collect();
        let ids: Vec<u8> = [3i64, 4, 5].iter().flat_map(|id| id.to_le_bytes()).collect();
        let x: Vec<u8> = [0.5f32; 4].iter().flat_map(|x| x.to_le_bytes()).collect();
        let head = [&MAGIC[..], &2u32.to_le_bytes(), &2u32.to_le_bytes()].concat();
        let ids = column("ids", 3, 1, 1, &[words, ids].concat());
        [head, ids, column("x", 5, 0, 2, &x)].concat()
    }

    #[test]
    fn columns_become_samples() {
        let mut filled = samples();
        fill(&body(), &mut filled).unwrap();
        assert_eq!(filled.n_samples().unwrap(), 2);
        let out = Tensor::new([2, 1], &[0.25f32, 0.75]).unwrap();
        let mut bytes = Vec::new();
        let names = ["p".to_string()];
        let outputs = [out];
        write(&mut bytes, &names, &outputs, 2).unwrap();
        assert_eq!(bytes.len(), n_bytes(&names, &outputs));
        let values: Vec<u8> = [0.25f32, 0.75].iter().flat_map(|x| x.to_le_bytes()).collect();
        let head = [&MAGIC[..], &2u32.to_le_bytes(), &1u32.to_le_bytes()].concat();
        assert_eq!(bytes, [head, column("p", 5, 0, 1, &values)].concat());
    }

    /// Whatever comes is samples or an error, and nothing is allocated because a length says so.
    #[test]
    fn damaged_bodies_are_errors() {
        let raw = body();
        let text = br#"{"columns": {"ids": [[3, 4], [5]], "x": [[0.5, 1e3], [-1, 2]]}}"#;
        for seed in 0..20_000u64 {
            let mut bytes = if seed % 2 == 0 { raw.clone() } else { text.to_vec() };
            for turn in 0..1 + seed % 4 {
                let drawn = mix(seed * 7 + turn);
                let at = (drawn >> 8) as usize % bytes.len();
                match drawn % 4 {
                    0 => bytes.truncate(at.max(1)),
                    1 => bytes[at] = 0xff,
                    _ => bytes[at] = (drawn >> 40) as u8,
                }
            }
            let (mut filled, budget) = (samples(), Budget::new(1 << 20));
            let allowed = &mut Allowed { held: &mut budget.hold(), n_samples_max: 1000 };
            let _ = match seed % 2 {
                0 => fill(&bytes, &mut filled),
                _ => json::fill(&bytes, &mut filled, allowed),
            };
        }
    }
}
