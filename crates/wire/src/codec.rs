//! Bytes of messages: little-endian. A length is never trusted.
//!
//! A message is *meta* bytes (numbers, names, shapes) followed by *blobs*: the bytes of its
//! tensors, one after another, in the order in which the meta bytes name them. So a sender writes
//! tensors directly from where they are. A receiver decodes the meta bytes, allocates memory for
//! the tensors, and reads the blobs into it as they arrive. Between processes of one machine, long
//! tensors are in memory that the receiver can read, and the meta bytes say where ([`crate::shm`]).

use std::ops::Range;
use std::sync::Arc;

use base::bytes::{ByteReader, ByteWriter};
use tensor::{DType, Pool, RANK_MAX, Rows, Shape, Tensor, Value};

use crate::counters::NETWORK;
use crate::error::{Error, Result};
use crate::shm::{Lender, RegionPlace, Window};

/// The longest name that is accepted.
pub const NAME_BYTES_MAX: usize = 1024;
/// More names, keys lists or values in one message are refused.
pub const LIST_MAX: usize = 65_536;

/// Collects a message.
#[derive(Debug, Default)]
pub struct Writer<'a> {
    /// Numbers, names, shapes.
    pub meta: ByteWriter,
    /// The tensors, where they are.
    pub blobs: Vec<&'a [u8]>,
    /// Memory that the receiver can read: long tensors go there instead.
    pub(crate) lender: Option<&'a Lender>,
    /// The tensors that went there, counted among all blobs there would be without a lender.
    pub lent: Vec<usize>,
    /// Bytes that were counted instead of collected, if that is all that is wanted.
    pub(crate) counted: Option<usize>,
}

/// Stands beside the rank of a tensor that lies in lent memory.
const LENT: u8 = 0x80;

impl<'a> Writer<'a> {
    /// Counts the bytes of a message and collects nothing.
    pub(crate) fn counting() -> Self {
        Self { counted: Some(0), ..Self::default() }
    }

    fn put(&mut self, write: impl FnOnce(&mut ByteWriter) -> &mut ByteWriter) {
        let meta = write(&mut self.meta);
        if let Some(n) = &mut self.counted {
            *n += meta.0.len();
            meta.0.clear();
        }
    }

    fn put_blob(&mut self, bytes: &'a [u8]) {
        match &mut self.counted {
            Some(n) => *n += bytes.len(),
            None => self.blobs.push(bytes),
        }
    }

    /// One byte.
    pub fn u8(&mut self, value: u8) {
        self.put(|meta| meta.u8(value));
    }

    /// A number.
    pub fn u32(&mut self, value: u32) {
        self.put(|meta| meta.u32(value));
    }

    /// A number.
    pub fn u64(&mut self, value: u64) {
        self.put(|meta| meta.u64(value));
    }

    /// A name or a short text. It is cut off at the limit.
    pub fn str(&mut self, text: &str) {
        self.put(|meta| meta.text_up_to(text, NAME_BYTES_MAX));
    }

    /// How many things follow.
    pub fn count(&mut self, n: usize) {
        self.u32(n as u32);
    }

    /// A list of numbers. Numbers beyond the limit are left out.
    pub fn numbers(&mut self, numbers: &[u64]) {
        let numbers = &numbers[..numbers.len().min(LIST_MAX)];
        self.count(numbers.len());
        numbers.iter().for_each(|&number| self.u64(number));
    }

    /// Raw bytes, beside the meta.
    pub fn bytes(&mut self, bytes: &'a [u8]) {
        self.u32(bytes.len() as u32);
        self.put_blob(bytes);
    }

    /// Row ids.
    pub fn keys(&mut self, keys: &'a [i64]) {
        self.count(keys.len());
        self.put_blob(bytemuck::cast_slice(keys));
    }

    /// A tensor, without its sequences.
    pub fn tensor(&mut self, tensor: &'a Tensor) {
        let lent = self.lender.and_then(|lender| lender.lend(tensor));
        self.array(tensor.dtype(), tensor.dims(), tensor.bytes(), lent);
    }

    /// Some elements of a tensor, as a tensor of one dimension.
    pub fn elements(&mut self, tensor: &'a Tensor, elements: Range<usize>) {
        let size = tensor.dtype().size();
        let bytes = tensor.bytes().get(elements.start * size..elements.end * size);
        let bytes = bytes.unwrap_or_default();
        let start = elements.start * size;
        let lent = self.lender.and_then(|lender| lender.lend_from(tensor, start));
        self.array(tensor.dtype(), &[bytes.len() / size], bytes, lent);
    }

    fn array(&mut self, dtype: DType, dims: &[usize], bytes: &'a [u8], lent: Option<RegionPlace>) {
        self.u8(dtype.code() as u8);
        self.u8(dims.len() as u8 | if lent.is_some() { LENT } else { 0 });
        for &dim in dims {
            self.u64(dim as u64);
        }
        match lent {
            Some(RegionPlace { slot, offset }) => {
                NETWORK.lent_bytes.add(bytes.len() as u64);
                self.lent.push(self.blobs.len() + self.lent.len());
                self.u32(slot);
                self.u64(offset);
            }
            None => self.put_blob(bytes),
        }
    }

    /// A tensor or keyed rows.
    pub fn value(&mut self, value: &'a Value) {
        match value {
            Value::Tensor(tensor) => {
                self.u8(1);
                self.tensor(tensor);
            }
            Value::Shared(tensor) => {
                self.u8(1);
                self.tensor(tensor);
            }
            Value::Rows(rows) => {
                self.u8(2);
                self.u64(rows.height as u64);
                self.keys(&rows.ids);
                self.tensor(&rows.value);
            }
            Value::Array(_) | Value::Steps(_) | Value::Keyed(_) | Value::Empty => self.u8(0),
        }
    }

    /// Bytes of the whole message.
    pub fn n_bytes(&self) -> usize {
        let collected = self.meta.0.len() + self.blobs.iter().map(|blob| blob.len()).sum::<usize>();
        self.counted.unwrap_or_default() + collected
    }
}

/// Where the tensors of a message are put.
#[derive(Debug)]
pub struct Destination<'a> {
    /// Memory that can be used again.
    pub pool: &'a mut Pool,
    /// Memory that the sender lends: tensors there stay there.
    pub window: Option<&'a Arc<Window>>,
}

impl<'a> Destination<'a> {
    /// Tensors in memory of this process only.
    pub fn new(pool: &'a mut Pool) -> Self {
        Self { pool, window: None }
    }

    /// A tensor that the sender has lent.
    fn lent(&self, dtype: DType, shape: Shape, place: RegionPlace) -> Result<Tensor> {
        let n_bytes = shape.n_elements() * dtype.size();
        let view = self.window.and_then(|window| window.view(place, n_bytes));
        let is_aligned = place.offset.is_multiple_of(dtype.size() as u64);
        let view = view.filter(|_| is_aligned);
        let view = view.ok_or(Error::Malformed("a tensor in memory that was not lent"))?;
        let tensor = Tensor::lent(dtype, shape, Box::new(view));
        tensor.map_err(|_| Error::Malformed("a tensor larger than what was lent"))
    }
}

/// Decodes the meta bytes of a message. Keys, bytes and tensors get their memory here; their
/// contents are read afterwards into [`Blobs`].
pub struct Reader<'a> {
    meta: ByteReader<'a>,
    /// Bytes of blobs that the frame holds and that have no place yet.
    n_left: usize,
    into: Destination<'a>,
}

/// Memory of a message that must still be filled, in the order of its blobs.
pub type Blobs<'a> = Vec<&'a mut [u8]>;

/// Lists the memory of keys.
pub fn keys_blob<'a>(keys: &'a mut [i64], blobs: &mut Blobs<'a>) {
    blobs.push(bytemuck::cast_slice_mut(keys));
}

/// Lists the memory of a tensor, unless the sender lent it: then it is filled already.
pub fn tensor_blob<'a>(tensor: &'a mut Tensor, blobs: &mut Blobs<'a>) {
    if tensor.lender().is_none() {
        blobs.push(tensor.bytes_mut());
    }
}

/// Lists the memory of a tensor or keyed rows.
pub fn value_blobs<'a>(value: &'a mut Value, blobs: &mut Blobs<'a>) {
    match value {
        Value::Tensor(tensor) => tensor_blob(tensor, blobs),
        Value::Rows(rows) => {
            keys_blob(&mut rows.ids, blobs);
            tensor_blob(&mut rows.value, blobs);
        }
        Value::Shared(_) | Value::Array(_) | Value::Steps(_) | Value::Keyed(_) | Value::Empty => {}
    }
}

const NO_MEMORY: Error = Error::Malformed("not enough memory for the length that it declares");

/// Memory for what follows. The system gives it when it is written to: not more of it than has come.
fn zeros<T: bytemuck::Zeroable>(n: usize) -> Result<Vec<T>> {
    /// Less is not worth the question.
    const ASKED_MIN: usize = 1 << 20;
    if n >= ASKED_MIN {
        Vec::<T>::new().try_reserve_exact(n).map_err(|_| NO_MEMORY)?;
    }
    Ok(bytemuck::zeroed_vec(n))
}

impl<'a> Reader<'a> {
    /// Reads a frame with these meta bytes and `n_blob_bytes` to follow.
    pub fn new(meta: &'a [u8], n_blob_bytes: usize, into: Destination<'a>) -> Self {
        Self { meta: ByteReader::new(meta), n_left: n_blob_bytes, into }
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8> {
        Ok(self.meta.u8()?)
    }

    /// A number.
    pub fn u32(&mut self) -> Result<u32> {
        Ok(self.meta.u32()?)
    }

    /// A number.
    pub fn u64(&mut self) -> Result<u64> {
        Ok(self.meta.u64()?)
    }

    /// A name.
    pub fn str(&mut self) -> Result<String> {
        Ok(self.meta.text_up_to(NAME_BYTES_MAX)?.to_string())
    }

    /// How many things follow.
    pub fn count(&mut self) -> Result<usize> {
        match self.u32()? as usize {
            n if n > LIST_MAX => Err(Error::Malformed("a list is too long")),
            n => Ok(n),
        }
    }

    /// Yes or no.
    pub fn flag(&mut self) -> Result<bool> {
        Ok(self.meta.flag()?)
    }

    /// A list of numbers.
    pub fn numbers(&mut self) -> Result<Vec<u64>> {
        (0..self.count()?).map(|_| self.u64()).collect()
    }

    fn claim(&mut self, n_bytes: usize) -> Result<()> {
        self.n_left = self
            .n_left
            .checked_sub(n_bytes)
            .ok_or(Error::Malformed("a tensor is larger than its frame"))?;
        Ok(())
    }

    /// Raw bytes.
    pub fn bytes(&mut self) -> Result<Vec<u8>> {
        let n = self.u32()? as usize;
        self.claim(n)?;
        zeros(n)
    }

    /// Row ids.
    pub fn keys(&mut self) -> Result<Vec<i64>> {
        let n = self.u32()? as usize;
        self.claim(n.saturating_mul(8))?;
        zeros(n)
    }

    /// A tensor.
    pub fn tensor(&mut self) -> Result<Tensor> {
        let dtype = DType::from_code(i64::from(self.u8()?));
        let dtype = dtype.map_err(|_| Error::Malformed("a tensor of an unknown type"))?;
        let rank = self.u8()?;
        let (is_lent, rank) = (rank & LENT != 0, usize::from(rank & !LENT));
        if rank > RANK_MAX {
            return Err(Error::Malformed("a tensor with too many dimensions"));
        }
        // Even beside a dimension of 0 the other dimensions have limits, because they may be
        // multiplied later.
        let (mut dims, mut n_bytes_max) = ([0usize; RANK_MAX], dtype.size());
        for dim in &mut dims[..rank] {
            let n = usize::try_from(self.u64()?).ok();
            let size = n.and_then(|n| n_bytes_max.checked_mul(n.max(1)));
            let (Some(n), Some(size)) = (n, size) else {
                return Err(Error::Malformed("a tensor without bounds"));
            };
            (*dim, n_bytes_max) = (n, size);
        }
        let n_bytes = if dims[..rank].contains(&0) { 0 } else { n_bytes_max };
        if is_lent {
            let place = RegionPlace { slot: self.u32()?, offset: self.u64()? };
            return self.into.lent(dtype, Shape::new(&dims[..rank]), place);
        }
        self.claim(n_bytes)?;
        let mut tensor = self.into.pool.take(n_bytes);
        let resized = tensor.try_resize_as(dtype, Shape::new(&dims[..rank]));
        resized.map_err(|_| NO_MEMORY)?;
        Ok(tensor)
    }

    /// A tensor or keyed rows.
    pub fn value(&mut self) -> Result<Value> {
        match self.u8()? {
            0 => Ok(Value::Empty),
            1 => self.tensor().map(Value::Tensor),
            2 => {
                let height = self.u64()? as i64;
                let (ids, value) = (self.keys()?, self.tensor()?);
                if value.dims().first().copied().unwrap_or(0) != ids.len() {
                    return Err(Error::Malformed("keys and values of different length"));
                }
                Ok(Value::Rows(Rows { ids, height, value }))
            }
            _ => Err(Error::Malformed("a value of an unknown kind")),
        }
    }

    /// Checks that nothing is left over.
    pub fn finish(self) -> Result<()> {
        match (self.meta.is_empty(), self.n_left) {
            (true, 0) => Ok(()),
            _ => Err(Error::Malformed("a message is longer than it says")),
        }
    }
}
