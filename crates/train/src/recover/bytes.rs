//! Values as bytes: what a trainer keeps on its servers. No length is trusted.

use std::sync::Arc;

use base::bytes::{ByteReader, ByteWriter};
use tensor::{
    DType, Dealt, KeyedTable, Lod, OtherRow, OtherRows, RANK_MAX, Rows, Shape, Tensor, Value,
};

use crate::error::{Error, Result};

/// A text longer than this is cut.
const TEXT_BYTES_MAX: usize = 4096;
/// Tensors from this size on are looked at for zeros: counters are full of them.
const ZEROS_BYTES_MIN: usize = 1024;

/// With less than this part of zeros it is not worth it.
const ZEROS_PART: usize = 16;

/// How the elements of a tensor are written.
const PLAIN: u8 = 0;
/// Runs of zeros, eight bytes each, are counted.
const SPARSE: u8 = 1;

fn bad(what: &'static str) -> Error {
    Error::BadState(what)
}

/// Writes values.
pub(crate) trait WriteValues {
    /// A text; a long one is cut.
    fn str(&mut self, text: &str);
    /// A list of values.
    fn values<'a>(&mut self, values: impl ExactSizeIterator<Item = &'a Value>);
    /// A value that is a tensor.
    fn dense(&mut self, tensor: &Tensor);
    fn value(&mut self, value: &Value);
    fn rows(&mut self, rows: &Rows);
    /// A list of rows' numbers.
    fn ids(&mut self, ids: &[i64]);
    fn tensor(&mut self, tensor: &Tensor);
}

impl WriteValues for ByteWriter {
    fn str(&mut self, text: &str) {
        self.text_up_to(text, TEXT_BYTES_MAX);
    }

    fn values<'a>(&mut self, values: impl ExactSizeIterator<Item = &'a Value>) {
        self.count(values.len());
        values.for_each(|value| self.value(value));
    }

    fn dense(&mut self, tensor: &Tensor) {
        self.u8(1);
        self.tensor(tensor);
    }

    fn value(&mut self, value: &Value) {
        match value {
            value if value.is_empty() => {
                self.u8(0);
            }
            Value::Tensor(tensor) => self.dense(tensor),
            Value::Shared(tensor) => self.dense(tensor),
            Value::Rows(rows) => {
                self.u8(2);
                self.rows(rows);
            }
            Value::Array(parts) => {
                self.u8(3);
                self.count(parts.len());
                parts.iter().for_each(|part| self.tensor(part));
            }
            Value::Keyed(table) => {
                self.u8(4);
                keyed(self, table);
            }
            // Steps end with the run that made them.
            Value::Steps(_) | Value::Empty => {
                self.u8(0);
            }
        }
    }

    fn rows(&mut self, rows: &Rows) {
        self.u64(rows.height as u64);
        self.ids(&rows.ids);
        self.tensor(&rows.value);
    }

    fn ids(&mut self, ids: &[i64]) {
        self.count(ids.len());
        ids.iter().fold(self, |to, &id| to.u64(id as u64));
    }

    fn tensor(&mut self, tensor: &Tensor) {
        self.u8(tensor.dtype().code() as u8);
        self.u8(tensor.dims().len() as u8);
        tensor.dims().iter().fold(&mut *self, |to, &dim| to.count(dim));
        let levels = tensor.lod().levels();
        self.count(levels.len());
        for offsets in levels {
            self.count(offsets.len());
            offsets.iter().fold(&mut *self, |to, &offset| to.count(offset));
        }
        let bytes = tensor.bytes();
        if bytes.len() >= ZEROS_BYTES_MIN && sparse(self, bytes) {
            return;
        }
        self.u8(PLAIN).raw(bytes);
    }
}

fn keyed(to: &mut ByteWriter, table: &KeyedTable) {
    let (ids, value) = (table.ids().to_vec(), table.value().clone());
    to.rows(&Rows { ids, height: table.height(), value });
    let others = table.others();
    to.u8(u8::from(others.dealt != Dealt::Hash));
    to.count(others.parts.len());
    others.parts.iter().fold(to, |to, part| to.bytes(part.to_text().as_bytes()));
}

/// Writes elements with their zeros counted; `false`, and nothing is written, if that is longer.
fn sparse(to: &mut ByteWriter, bytes: &[u8]) -> bool {
    let start = to.0.len();
    let (mut words, rest) = bytes.as_chunks::<8>();
    // Rows that were learnt are long and have no zeros: they are not copied to find that out.
    let n_zeros = words.iter().filter(|word| **word == [0; 8]).count();
    if n_zeros < words.len() / ZEROS_PART {
        return false;
    }
    to.u8(SPARSE);
    while !words.is_empty() {
        let n_zeros = words.iter().take_while(|word| **word == [0; 8]).count();
        let after = &words[n_zeros..];
        // A single zero between others is cheaper left where it is.
        let is_end = |at: usize| after[at] == [0; 8] && after.get(at + 1) == Some(&[0; 8]);
        let n = (0..after.len()).find(|&at| is_end(at)).unwrap_or(after.len());
        to.u32(n_zeros.min(u32::MAX as usize) as u32);
        to.u32(n.min(u32::MAX as usize) as u32);
        to.0.extend_from_slice(after[..n].as_flattened());
        words = &after[n..];
        let is_short = to.0.len() - start <= bytes.len() && n_zeros.max(n) < u32::MAX as usize;
        if !is_short {
            to.0.truncate(start);
            return false;
        }
    }
    to.0.extend_from_slice(rest);
    true
}

/// Reads values.
pub(crate) trait ReadValues<'a> {
    fn str(&mut self) -> Result<&'a str>;
    fn values(&mut self) -> Result<Vec<Value>>;
    fn value(&mut self) -> Result<Value>;
    fn rows(&mut self) -> Result<Rows>;
    /// A list of rows' numbers.
    fn ids(&mut self) -> Result<Vec<i64>>;
    fn tensor(&mut self) -> Result<Tensor>;
}

impl<'a> ReadValues<'a> for ByteReader<'a> {
    fn str(&mut self) -> Result<&'a str> {
        Ok(self.text()?)
    }

    fn ids(&mut self) -> Result<Vec<i64>> {
        let n = self.count()?;
        Ok(self.u64s(n)?.map(|id| id as i64).collect())
    }

    fn values(&mut self) -> Result<Vec<Value>> {
        (0..self.count()?).map(|_| self.value()).collect()
    }

    fn value(&mut self) -> Result<Value> {
        match self.u8()? {
            0 => Ok(Value::Empty),
            1 => self.tensor().map(Value::Tensor),
            2 => self.rows().map(Value::Rows),
            3 => {
                let parts: Result<Vec<_>> = (0..self.count()?).map(|_| self.tensor()).collect();
                parts.map(Value::Array)
            }
            4 => keyed_of(self).map(|table| Value::Keyed(Arc::new(table))),
            _ => Err(bad("a value of an unknown kind")),
        }
    }

    fn rows(&mut self) -> Result<Rows> {
        let height = self.u64()? as i64;
        let ids = self.ids()?;
        let value = self.tensor()?;
        let is_whole = value.dims().first().copied().unwrap_or(0) == ids.len();
        if is_whole { Ok(Rows { ids, height, value }) } else { Err(bad("rows without their ids")) }
    }

    fn tensor(&mut self) -> Result<Tensor> {
        let dtype = DType::from_code(i64::from(self.u8()?));
        let dtype = dtype.map_err(|_| bad("a tensor of an unknown type"))?;
        let rank = usize::from(self.u8()?);
        if rank > RANK_MAX {
            return Err(bad("a tensor with too many dimensions"));
        }
        // Even beside a dimension of 0 the other dimensions have limits, because they may be
        // multiplied later.
        let (mut dims, mut n_max) = ([0; RANK_MAX], dtype.size());
        for dim in &mut dims[..rank] {
            *dim = self.size()?;
            n_max = n_max.checked_mul((*dim).max(1)).ok_or(bad("a tensor of too many elements"))?;
        }
        let shape = Shape::from(&dims[..rank]);
        let lod = lod(self, dims[..rank].first().copied().unwrap_or(0))?;
        let mut tensor = match self.u8()? {
            PLAIN => {
                let bytes = self.take(shape.n_elements() * dtype.size())?;
                Tensor::from_bytes(dtype, shape, bytes)?
            }
            SPARSE => sparse_of(self, dtype, shape)?,
            _ => return Err(bad("elements in an unknown form")),
        };
        tensor.set_lod(lod);
        Ok(tensor)
    }
}

fn keyed_of(from: &mut ByteReader<'_>) -> Result<KeyedTable> {
    let rows = from.rows()?;
    let is_hashed = from.u8()? == 0;
    let part = |text: &[u8]| {
        let part = std::str::from_utf8(text).ok().and_then(OtherRow::from_text);
        part.ok_or(bad("a rule that says nothing"))
    };
    let parts = (0..from.count()?).map(|_| part(from.bytes()?)).collect::<Result<Vec<_>>>()?;
    let firsts = parts.iter().map(|part| part.first).collect();
    let dealt = if is_hashed { Dealt::Hash } else { Dealt::Ranges(firsts) };
    Ok(KeyedTable::new(rows, OtherRows { parts, dealt })?)
}

fn lod(from: &mut ByteReader<'_>, n_rows: usize) -> Result<Lod> {
    let mut levels = Vec::new();
    for _ in 0..from.count()? {
        let n = from.count()?;
        levels.push(from.u64s(n)?.map(|offset| offset as usize).collect());
    }
    let lod = Lod::from_offsets(levels);
    if !lod.is_empty() {
        lod.check(n_rows)?;
    }
    Ok(lod)
}

/// Elements with counted zeros. What is left of these bytes says little about their size, so
/// memory is asked for in a way that may fail.
fn sparse_of(from: &mut ByteReader<'_>, dtype: DType, shape: Shape) -> Result<Tensor> {
    let mut tensor = Tensor::default();
    tensor.try_resize_as(dtype, shape)?;
    let (words, rest) = tensor.bytes_mut().as_chunks_mut::<8>();
    let mut at = 0;
    while at < words.len() {
        let (n_zeros, n) = (from.u32()? as usize, from.u32()? as usize);
        let n_left = words.len() - at;
        if n_zeros + n == 0 || n_zeros + n > n_left {
            return Err(bad("runs of zeros that do not fit"));
        }
        words[at..at + n_zeros].fill([0; 8]);
        at += n_zeros;
        words[at..at + n].as_flattened_mut().copy_from_slice(from.take(n * 8)?);
        at += n;
    }
    rest.copy_from_slice(from.take(rest.len())?);
    Ok(tensor)
}

#[cfg(test)]
mod tests {
    use tensor::{RowStart, TakenIn};

    use super::*;

    fn survives(value: &Value) -> usize {
        let mut writer = ByteWriter::default();
        writer.value(value);
        let mut reader = ByteReader::new(&writer.0);
        assert_eq!(&reader.value().unwrap(), value);
        assert!(reader.is_empty());
        for end in 0..writer.0.len().min(64) {
            assert!(ByteReader::new(&writer.0[..end]).value().is_err(), "cut at {end}");
        }
        writer.0.len()
    }

    #[test]
    fn values_survive_to_the_bit() {
        let mut ragged = Tensor::new([3, 1], &[1.5f32, f32::NEG_INFINITY, -0.0]).unwrap();
        ragged.set_lod(Lod::from_lengths([1, 2]));
        survives(&Value::Empty);
        survives(&ragged.clone().into());
        survives(&Value::Array(vec![ragged, Tensor::full([0, 4], 1i64)]));
        let value = Tensor::new([2, 2], &[1.0f32, 2.0, 3.0, 4.0]).unwrap();
        let rows = Rows { ids: vec![7, 1 << 40], height: 1 << 50, value };
        survives(&rows.clone().into());
        let start = RowStart::Row(vec![0.5, -0.5]);
        let part = OtherRow { start, first: 0, taken_in: TakenIn::None };
        let others = OtherRows { parts: vec![part], dealt: Dealt::Ranges(vec![0]) };
        survives(&Value::Keyed(Arc::new(KeyedTable::new(rows, others).unwrap())));
    }

    #[test]
    fn zeros_cost_nothing() {
        let mut counts = vec![0i64; 4097];
        assert!(survives(&Tensor::new([4097], &counts).unwrap().into()) < 50);
        for at in [0, 1, 77, 79, 4096] {
            counts[at] = -1 - at as i64;
        }
        assert!(survives(&Tensor::new([4097], &counts).unwrap().into()) < 200);
        let dense: Vec<f32> = (0..4099).map(|at| if at % 3 == 0 { 0.0 } else { 1.0 }).collect();
        let n_bytes = survives(&Tensor::new([4099], &dense).unwrap().into());
        assert!(n_bytes <= 4099 * 4 + 50, "{n_bytes}");
        let nothing = vec![0u8; 5003];
        assert!(survives(&Tensor::new([5003], &nothing).unwrap().into()) < 50);
    }

    #[test]
    fn lengths_are_not_believed() {
        let claims = |bytes: &[u8]| ByteReader::new(bytes).value().unwrap_err();
        let huge = [&[1, 5, 2][..], &[0xff; 40]].concat();
        assert!(matches!(claims(&huge), Error::BadState(_)));
        assert!(matches!(claims(&[9]), Error::BadState(_)));
        let many = [&[3][..], &u64::MAX.to_le_bytes()].concat();
        assert!(matches!(claims(&many), Error::BadState(_)));
    }
}
