//! Numbers, texts and values as bytes: what a trainer keeps on its servers. No length is trusted.

use std::sync::Arc;

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

/// Collects bytes.
#[derive(Debug, Default)]
pub(crate) struct ByteWriter(pub(crate) Vec<u8>);

impl ByteWriter {
    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn count(&mut self, n: usize) {
        self.u64(n as u64);
    }

    pub(crate) fn str(&mut self, text: &str) {
        let bytes = &text.as_bytes()[..text.floor_char_boundary(TEXT_BYTES_MAX)];
        self.u32(bytes.len() as u32);
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn opt_bytes(&mut self, bytes: Option<&[u8]>) {
        self.u8(u8::from(bytes.is_some()));
        if let Some(bytes) = bytes {
            self.bytes(bytes);
        }
    }

    /// A list of values.
    pub(crate) fn values<'a>(&mut self, values: impl ExactSizeIterator<Item = &'a Value>) {
        self.count(values.len());
        values.for_each(|value| self.value(value));
    }

    /// A value that is a tensor.
    pub(crate) fn dense(&mut self, tensor: &Tensor) {
        self.u8(1);
        self.tensor(tensor);
    }

    pub(crate) fn value(&mut self, value: &Value) {
        match value {
            value if value.is_empty() => self.u8(0),
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
                self.keyed(table);
            }
            // Steps end with the run that made them.
            Value::Steps(_) | Value::Empty => self.u8(0),
        }
    }

    fn keyed(&mut self, table: &KeyedTable) {
        let (ids, value) = (table.ids().to_vec(), table.value().clone());
        self.rows(&Rows { ids, height: table.height(), value });
        let others = table.others();
        self.u8(u8::from(others.dealt != Dealt::Hash));
        self.count(others.parts.len());
        others.parts.iter().for_each(|part| self.bytes(part.to_text().as_bytes()));
    }

    pub(crate) fn rows(&mut self, rows: &Rows) {
        self.u64(rows.height as u64);
        self.ids(&rows.ids);
        self.tensor(&rows.value);
    }

    /// A list of rows' numbers.
    pub(crate) fn ids(&mut self, ids: &[i64]) {
        self.count(ids.len());
        ids.iter().for_each(|&id| self.u64(id as u64));
    }

    /// Makes room for what is to come, so that nothing is moved.
    pub(crate) fn reserve(&mut self, n_bytes: usize) {
        self.0.reserve(n_bytes);
    }

    pub(crate) fn tensor(&mut self, tensor: &Tensor) {
        self.u8(tensor.dtype().code() as u8);
        self.u8(tensor.dims().len() as u8);
        tensor.dims().iter().for_each(|&dim| self.count(dim));
        let levels = tensor.lod().levels();
        self.count(levels.len());
        for offsets in levels {
            self.count(offsets.len());
            offsets.iter().for_each(|&offset| self.count(offset));
        }
        let bytes = tensor.bytes();
        if bytes.len() >= ZEROS_BYTES_MIN && self.sparse(bytes) {
            return;
        }
        self.u8(PLAIN);
        self.0.extend_from_slice(bytes);
    }

    /// Writes elements with their zeros counted; `false`, and nothing is written, if that is longer.
    fn sparse(&mut self, bytes: &[u8]) -> bool {
        let start = self.0.len();
        let (mut words, rest) = bytes.as_chunks::<8>();
        // Rows that were learnt are long and have no zeros: they are not copied to find that out.
        let n_zeros = words.iter().filter(|word| **word == [0; 8]).count();
        if n_zeros < words.len() / ZEROS_PART {
            return false;
        }
        self.u8(SPARSE);
        while !words.is_empty() {
            let n_zeros = words.iter().take_while(|word| **word == [0; 8]).count();
            let after = &words[n_zeros..];
            // A single zero between others is cheaper left where it is.
            let is_end = |at: usize| after[at] == [0; 8] && after.get(at + 1) == Some(&[0; 8]);
            let n = (0..after.len()).find(|&at| is_end(at)).unwrap_or(after.len());
            self.u32(n_zeros.min(u32::MAX as usize) as u32);
            self.u32(n.min(u32::MAX as usize) as u32);
            self.0.extend_from_slice(after[..n].as_flattened());
            words = &after[n..];
            let is_short =
                self.0.len() - start <= bytes.len() && n_zeros.max(n) < u32::MAX as usize;
            if !is_short {
                self.0.truncate(start);
                return false;
            }
        }
        self.0.extend_from_slice(rest);
        true
    }
}

/// Takes bytes apart.
#[derive(Debug)]
pub(crate) struct ByteReader<'a>(&'a [u8]);

impl<'a> ByteReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes that were not read yet.
    pub(crate) fn n_left(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n).ok_or(bad("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn size(&mut self) -> Result<usize> {
        usize::try_from(self.u64()?).map_err(|_| bad("a size that no machine has"))
    }

    /// How many things follow, each of which has a byte or more.
    pub(crate) fn count(&mut self) -> Result<usize> {
        let n = self.size()?;
        if n > self.0.len() { Err(bad("a list is longer than all of it")) } else { Ok(n) }
    }

    pub(crate) fn str(&mut self) -> Result<&'a str> {
        let n = self.u32()? as usize;
        std::str::from_utf8(self.take(n)?).map_err(|_| bad("a text is not UTF-8"))
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let n = self.size()?;
        self.take(n)
    }

    pub(crate) fn opt_bytes(&mut self) -> Result<Option<&'a [u8]>> {
        match self.u8()? {
            0 => Ok(None),
            _ => self.bytes().map(Some),
        }
    }

    pub(crate) fn values(&mut self) -> Result<Vec<Value>> {
        (0..self.count()?).map(|_| self.value()).collect()
    }

    pub(crate) fn value(&mut self) -> Result<Value> {
        match self.u8()? {
            0 => Ok(Value::Empty),
            1 => self.tensor().map(Value::Tensor),
            2 => self.rows().map(Value::Rows),
            3 => {
                let parts: Result<Vec<_>> = (0..self.count()?).map(|_| self.tensor()).collect();
                parts.map(Value::Array)
            }
            4 => self.keyed().map(|table| Value::Keyed(Arc::new(table))),
            _ => Err(bad("a value of an unknown kind")),
        }
    }

    fn keyed(&mut self) -> Result<KeyedTable> {
        let rows = self.rows()?;
        let is_hashed = self.u8()? == 0;
        let part = |text: &[u8]| {
            let part = std::str::from_utf8(text).ok().and_then(OtherRow::from_text);
            part.ok_or(bad("a rule that says nothing"))
        };
        let parts = (0..self.count()?).map(|_| part(self.bytes()?)).collect::<Result<Vec<_>>>()?;
        let firsts = parts.iter().map(|part| part.first).collect();
        let dealt = if is_hashed { Dealt::Hash } else { Dealt::Ranges(firsts) };
        Ok(KeyedTable::new(rows, OtherRows { parts, dealt })?)
    }

    pub(crate) fn rows(&mut self) -> Result<Rows> {
        let height = self.u64()? as i64;
        let n = self.count()?;
        let (ids, _) = self.take(n.saturating_mul(8))?.as_chunks::<8>();
        let ids = ids.iter().map(|id| i64::from_le_bytes(*id)).collect();
        let value = self.tensor()?;
        let is_whole = value.dims().first().copied().unwrap_or(0) == n;
        if is_whole { Ok(Rows { ids, height, value }) } else { Err(bad("rows without their ids")) }
    }

    pub(crate) fn tensor(&mut self) -> Result<Tensor> {
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
        let lod = self.lod(dims[..rank].first().copied().unwrap_or(0))?;
        let mut tensor = match self.u8()? {
            PLAIN => {
                let bytes = self.take(shape.n_elements() * dtype.size())?;
                Tensor::from_bytes(dtype, shape, bytes)?
            }
            SPARSE => self.sparse(dtype, shape)?,
            _ => return Err(bad("elements in an unknown form")),
        };
        tensor.set_lod(lod);
        Ok(tensor)
    }

    fn lod(&mut self, n_rows: usize) -> Result<Lod> {
        let mut levels = Vec::new();
        for _ in 0..self.count()? {
            let n = self.count()?;
            let (offsets, _) = self.take(n.saturating_mul(8))?.as_chunks::<8>();
            levels.push(offsets.iter().map(|bytes| u64::from_le_bytes(*bytes) as usize).collect());
        }
        let lod = Lod::from_offsets(levels);
        if !lod.is_empty() {
            lod.check(n_rows)?;
        }
        Ok(lod)
    }

    /// Elements with counted zeros. What is left of these bytes says little about their size, so
    /// memory is asked for in a way that may fail.
    fn sparse(&mut self, dtype: DType, shape: Shape) -> Result<Tensor> {
        let mut tensor = Tensor::default();
        tensor.try_resize_as(dtype, shape)?;
        let (words, rest) = tensor.bytes_mut().as_chunks_mut::<8>();
        let mut at = 0;
        while at < words.len() {
            let (n_zeros, n) = (self.u32()? as usize, self.u32()? as usize);
            let n_left = words.len() - at;
            if n_zeros + n == 0 || n_zeros + n > n_left {
                return Err(bad("runs of zeros that do not fit"));
            }
            words[at..at + n_zeros].fill([0; 8]);
            at += n_zeros;
            words[at..at + n].as_flattened_mut().copy_from_slice(self.take(n * 8)?);
            at += n;
        }
        rest.copy_from_slice(self.take(rest.len())?);
        Ok(tensor)
    }
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
