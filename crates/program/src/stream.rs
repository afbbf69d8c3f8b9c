//! Variables as bytes: the streams of Fluid's model files, all integers little-endian.
//!
//! Bytes in, values out, and back. The `save` and `load` ops and `train::io` use it. A length in a
//! header is compared with the bytes that are there before memory is allocated.

use tensor::{DType, Lod, Rows, Shape, Tensor, Value};

pub use crate::error::Problem;
use crate::error::{Error, Result};
use crate::serial::wire::{WireReader as Wire, WireWriter};

/// Appends a tensor with its ragged offsets.
pub fn write_tensor(out: &mut Vec<u8>, tensor: &Tensor) {
    out.extend_from_slice(&head_of_tensor(tensor));
    out.extend_from_slice(tensor.bytes());
}

/// The bytes before the numbers of a tensor with its ragged offsets.
pub fn head_of_tensor(tensor: &Tensor) -> Vec<u8> {
    let mut out = 0u32.to_le_bytes().to_vec();
    out.extend_from_slice(&(tensor.lod().n_levels() as u64).to_le_bytes());
    for level in tensor.lod().levels() {
        out.extend_from_slice(&(8 * level.len() as u64).to_le_bytes());
        for &offset in level {
            out.extend_from_slice(&(offset as u64).to_le_bytes());
        }
    }
    out.extend_from_slice(&payload_head(tensor.dtype(), tensor.dims()));
    out
}

/// Appends keyed rows.
pub fn write_rows(out: &mut Vec<u8>, rows: &Rows) {
    out.extend_from_slice(&head_of_rows(rows));
    out.extend_from_slice(rows.value.bytes());
}

/// The bytes before the numbers of keyed rows.
pub fn head_of_rows(rows: &Rows) -> Vec<u8> {
    let mut out = rows_head(rows.ids.len());
    for id in &rows.ids {
        out.extend_from_slice(&id.to_le_bytes());
    }
    out.extend_from_slice(&rows.height.to_le_bytes());
    out.extend_from_slice(&payload_head(rows.value.dtype(), rows.value.dims()));
    out
}

/// The bytes before the ids of keyed rows. Ids, height, [`payload_head`] and numbers follow, for
/// code that writes them bit by bit.
pub fn rows_head(n_rows: usize) -> Vec<u8> {
    [&0u32.to_le_bytes()[..], &(n_rows as u64).to_le_bytes()].concat()
}

/// The bytes before the numbers of a tensor.
pub fn payload_head(dtype: DType, dims: &[usize]) -> Vec<u8> {
    let mut desc = WireWriter::default();
    desc.int(1, i64::from(dtype.code()));
    for &dim in dims {
        desc.int(2, dim as i64);
    }
    let desc = desc.finish(&[]);
    let (version, size) = (0u32.to_le_bytes(), (desc.len() as i32).to_le_bytes());
    [&version[..], &size, &desc].concat()
}

/// The bytes of a file of one variable; `None` for a value that files cannot hold.
pub fn to_bytes(value: &Value) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    match value {
        Value::Rows(rows) => write_rows(&mut out, rows),
        other => write_tensor(&mut out, other.tensor()?),
    }
    Some(out)
}

/// The tensor of a file of one variable.
pub fn tensor_from_bytes(bytes: &[u8]) -> Result<Tensor> {
    let mut reader = StreamReader::new(bytes);
    let tensor = reader.tensor()?;
    reader.finish()?;
    Ok(tensor)
}

/// The rows of a file of one variable.
pub fn rows_from_bytes(bytes: &[u8]) -> Result<Rows> {
    let mut reader = StreamReader::new(bytes);
    let rows = reader.rows()?;
    reader.finish()?;
    Ok(rows)
}

/// The tensor or the rows of a file of one variable, whichever it is.
pub fn value_from_bytes(bytes: &[u8]) -> Result<Value> {
    // A file does not say which it is. Reading rows as a tensor stumbles over the offsets.
    match tensor_from_bytes(bytes) {
        Ok(tensor) => Ok(Value::Tensor(tensor)),
        Err(error) => rows_from_bytes(bytes).map(Value::Rows).map_err(|_| error),
    }
}

/// The tensors of a combined file, which holds exactly `n`.
pub fn combined_from_bytes(bytes: &[u8], n: usize) -> Result<Vec<Tensor>> {
    let mut reader = StreamReader::new(bytes);
    let mut tensors = Vec::new();
    while tensors.len() < n {
        if reader.left() == 0 {
            return Err(reader.bad(Problem::TooFew { found: tensors.len(), wanted: n }));
        }
        tensors.push(reader.tensor()?);
    }
    match reader.left() {
        0 => Ok(tensors),
        left => Err(reader.bad(Problem::Partial { wanted: n, left })),
    }
}

/// A tensor without its numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorHead {
    /// Its element type.
    pub dtype: DType,
    /// Its shape.
    pub shape: Shape,
    /// Its ragged offsets.
    pub lod: Lod,
}

impl TensorHead {
    /// How many bytes its numbers take.
    pub fn n_bytes(&self) -> u64 {
        self.shape.n_elements() as u64 * self.dtype.size() as u64
    }
}

/// Reads one stream after another.
pub struct StreamReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> StreamReader<'a> {
    /// From the first byte on.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes not read yet.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    fn bad(&self, problem: Problem) -> Error {
        Error::BadStream { offset: self.at, problem }
    }

    fn finish(&self) -> Result<()> {
        match self.left() {
            0 => Ok(()),
            left => Err(self.bad(Problem::TooLong { left })),
        }
    }

    /// The next tensor with its ragged offsets.
    pub fn tensor(&mut self) -> Result<Tensor> {
        let TensorHead { dtype, shape, lod } = self.tensor_head()?;
        let mut tensor = self.numbers(dtype, shape)?;
        tensor.set_lod(lod);
        Ok(tensor)
    }

    /// Reads the head before the numbers of the next tensor, without a check that they are there.
    pub fn tensor_head(&mut self) -> Result<TensorHead> {
        self.version()?;
        let n_levels = self.u64("the number of levels")?;
        let mut levels = Vec::new();
        for _ in 0..n_levels {
            levels.push(self.level()?);
        }
        let lod_end = self.at;
        let (dtype, shape) = self.payload_head()?;
        let lod = Lod::from_offsets(levels);
        let check = lod.check(shape.dim(0));
        check.map_err(|error| Error::BadStream { offset: lod_end, problem: error.into() })?;
        Ok(TensorHead { dtype, shape, lod })
    }

    /// Bytes that were read.
    pub fn at(&self) -> usize {
        self.at
    }

    fn level(&mut self) -> Result<Vec<usize>> {
        let n_bytes = self.u64("the size of a level")?;
        if n_bytes % 8 != 0 {
            return Err(self.bad(Problem::OffsetBytes(n_bytes)));
        }
        let bytes = self.take(n_bytes, "offsets")?;
        Ok(bytes.chunks_exact(8).map(|offset| u64_of(offset) as usize).collect())
    }

    /// The next keyed rows.
    pub fn rows(&mut self) -> Result<Rows> {
        self.version()?;
        let n = self.u64("the number of rows")?;
        let bytes = self.take(n.saturating_mul(8), "row ids")?;
        let ids: Vec<i64> = bytes.chunks_exact(8).map(|id| u64_of(id) as i64).collect();
        let height = self.u64("the height")? as i64;
        let (dtype, shape) = self.payload_head()?;
        let value = self.numbers(dtype, shape)?;
        let (expected, actual) = (ids.len(), value.shape().dim(0));
        // A table that grows has room for more rows than it lists.
        if actual < expected {
            return Err(self.bad(Problem::RowCount { expected, actual }));
        }
        Ok(Rows { ids, height, value })
    }

    fn version(&mut self) -> Result<()> {
        let offset = self.at;
        match self.u32("the version")? {
            0 => Ok(()),
            version => Err(Error::BadStream { offset, problem: Problem::Version(version) }),
        }
    }

    fn payload_head(&mut self) -> Result<(DType, Shape)> {
        self.version()?;
        let desc_size = self.u32("the size of a description")? as i32;
        let offset = self.at;
        let bad = |problem| Error::BadStream { offset, problem };
        let n_bytes = u64::try_from(desc_size).map_err(|_| bad(Problem::Description(desc_size)))?;
        let desc = self.take(n_bytes, "a tensor's description")?;
        let (code, dims) = description(desc).ok_or(bad(Problem::Description(desc_size)))?;
        let dtype = DType::from_code(code).map_err(|error| bad(error.into()))?;
        let shape = Shape::from_dims(&dims).map_err(|error| bad(error.into()))?;
        if shape.rank() == 0 {
            return Err(bad(Problem::NoDimensions));
        }
        Ok((dtype, shape))
    }

    fn numbers(&mut self, dtype: DType, shape: Shape) -> Result<Tensor> {
        let offset = self.at;
        let n_bytes = shape.n_elements() as u64 * dtype.size() as u64;
        let data = self.take(n_bytes, "the numbers of a tensor")?;
        let tensor = Tensor::from_bytes(dtype, shape, data);
        tensor.map_err(|error| Error::BadStream { offset, problem: error.into() })
    }

    fn u32(&mut self, what: &'static str) -> Result<u32> {
        let bytes = self.take(4, what)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn u64(&mut self, what: &'static str) -> Result<u64> {
        Ok(u64_of(self.take(8, what)?))
    }

    fn take(&mut self, n: u64, what: &'static str) -> Result<&'a [u8]> {
        let left = self.left();
        if n > left as u64 {
            return Err(self.bad(Problem::Truncated { what, needed: n, left }));
        }
        let taken = &self.bytes[self.at..self.at + n as usize];
        self.at += n as usize;
        Ok(taken)
    }
}

fn u64_of(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

/// Type code and sizes of a `TensorDesc`, the part of [`payload_head`] behind version and size.
pub fn description(bytes: &[u8]) -> Option<(i64, Vec<i64>)> {
    let mut reader = Wire::new(bytes);
    let (mut code, mut dims) = (None, Vec::new());
    while let Some(field) = reader.field().ok()? {
        match (field.number, field.varint(), field.bytes()) {
            (1, Some(value), _) => code = Some(value as i64),
            (2, Some(dim), _) => dims.push(dim as i64),
            (2, _, Some(mut packed)) => {
                while !packed.is_at_end() {
                    dims.push(packed.varint().ok()? as i64);
                }
            }
            _ => {}
        }
    }
    Some((code?, dims))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(tensor: &Tensor) -> Vec<u8> {
        to_bytes(&Value::Tensor(tensor.clone())).unwrap()
    }

    fn hex(text: &str) -> Vec<u8> {
        let digits: String = text.split_whitespace().collect();
        let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        (0..digits.len()).step_by(2).map(byte).collect()
    }

    #[test]
    fn header_bytes_are_fluids() {
        let tensor = Tensor::full([13, 1], 1.5f32);
        let bytes = bytes_of(&tensor);
        let header = hex("00000000 0000000000000000 00000000 06000000 08 05 10 0d 10 01");
        assert_eq!(bytes[..26], header);
        assert_eq!(bytes.len(), 78);
        assert_eq!(tensor_from_bytes(&bytes).unwrap(), tensor);
    }

    #[test]
    fn offsets_are_written_as_fluid_does() {
        let mut tensor = Tensor::new([5, 1], &[0i64, 9, 18, 27, 36]).unwrap();
        tensor.set_lod(Lod::from_lengths([2, 3]));
        let bytes = bytes_of(&tensor);
        let header = hex("00000000 0100000000000000 1800000000000000
            0000000000000000 0200000000000000 0500000000000000
            00000000 06000000 08 03 10 05 10 01");
        assert_eq!(bytes[..header.len()], header);
        assert_eq!(value_from_bytes(&bytes).unwrap(), Value::Tensor(tensor));
    }

    #[test]
    fn rows_survive_and_are_told_from_tensors() {
        let value = Tensor::full([2, 3], 0.25f32);
        let rows = Rows { ids: vec![8, 1], height: 9, value };
        let bytes = to_bytes(&Value::Rows(rows.clone())).unwrap();
        assert_eq!(bytes[..12], hex("00000000 0200000000000000"));
        assert_eq!(value_from_bytes(&bytes).unwrap(), Value::Rows(rows));
    }

    #[test]
    fn an_empty_batch_survives() {
        let tensor = Tensor::full([0, 4], 0.0f64);
        assert_eq!(tensor_from_bytes(&bytes_of(&tensor)).unwrap(), tensor);
        assert_eq!(to_bytes(&Value::Tensor(Tensor::default())), None);
    }

    #[track_caller]
    fn refuses(bytes: &[u8], at: usize, expected: impl Fn(&Problem) -> bool) {
        match tensor_from_bytes(bytes).unwrap_err() {
            Error::BadStream { offset, problem } => {
                assert!(offset == at && expected(&problem), "at {offset}: {problem}");
            }
            other => panic!("{other}"),
        }
    }

    #[test]
    fn refuses_damage_and_says_where() {
        let good = bytes_of(&Tensor::full([13, 1], 1.5f32));
        let with = |at: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[at] = value;
            bytes
        };
        refuses(&good[..77], 26, |p| matches!(p, Problem::Truncated { needed: 52, left: 51, .. }));
        refuses(&good[..10], 4, |p| matches!(p, Problem::Truncated { .. }));
        refuses(&with(0, 7), 0, |p| *p == Problem::Version(7));
        refuses(&with(12, 1), 12, |p| *p == Problem::Version(1));
        refuses(&with(11, 0xff), 20, |p| matches!(p, Problem::Truncated { .. }));
        refuses(&with(19, 0x80), 20, |p| matches!(p, Problem::Description(size) if *size < 0));
        refuses(&with(19, 0x7f), 20, |p| matches!(p, Problem::Truncated { .. }));
        refuses(&with(21, 7), 20, |p| matches!(p, Problem::Tensor(_)));
        refuses(&with(20, 0x18), 20, |p| matches!(p, Problem::Description(6)));
        refuses(&[good.as_slice(), b"x"].concat(), 78, |p| *p == Problem::TooLong { left: 1 });
        refuses(b"PK\x03\x04 a foreign file", 0, |p| matches!(p, Problem::Version(_)));
    }

    #[test]
    fn never_allocates_because_a_header_says_so() {
        // [2^31, 2^28] floats: 2^61 bytes claimed, none there.
        let claim = hex("00000000 0000000000000000 00000000 0e000000
            08 05 10 8080808008 10 8080808001");
        refuses(&claim, 34, |p| matches!(p, Problem::Truncated { left: 0, .. }));
        let rows = hex("00000000 ffffffffffffffff");
        let error = rows_from_bytes(&rows).unwrap_err();
        assert!(matches!(error, Error::BadStream { offset: 12, .. }), "{error}");
    }

    #[test]
    fn a_combined_file_holds_exactly_what_is_asked_for() {
        let (a, b) = (Tensor::full([2], 1.0f32), Tensor::full([3], 2.0f64));
        let bytes = [bytes_of(&a), bytes_of(&b)].concat();
        assert_eq!(combined_from_bytes(&bytes, 2).unwrap(), [a, b]);
        let problem = |n| match combined_from_bytes(&bytes, n).unwrap_err() {
            Error::BadStream { problem, .. } => problem,
            other => panic!("{other}"),
        };
        assert_eq!(problem(3), Problem::TooFew { found: 2, wanted: 3 });
        assert_eq!(problem(1), Problem::Partial { wanted: 1, left: 48 });
    }
}
