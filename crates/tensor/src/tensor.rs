//! A dense tensor: element type, shape, ragged offsets, memory.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::{Buffer, DType, Element, Error, Lod, Memory, MemoryPlace, Result, Shape};

/// Numbers in row-major order. The default tensor holds none (rank 0).
///
/// ```
/// use tensor::{Lod, Tensor};
///
/// # fn main() -> tensor::Result<()> {
/// let mut ids = Tensor::new([3, 1], &[7i64, 8, 9])?;
/// // The first sample has two ids, the second one.
/// ids.set_lod(Lod::from_lengths([2, 1]));
/// assert_eq!((ids.dims(), ids.data::<i64>()?), (&[3, 1][..], &[7, 8, 9][..]));
/// assert!(Tensor::new([2, 2], &[1.0f32]).is_err());
/// # Ok(()) }
/// ```
#[derive(Default)]
pub struct Tensor {
    dtype: DType,
    shape: Shape,
    lod: Lod,
    buffer: Buffer,
}

impl Tensor {
    /// A tensor of given elements; their number must fill the shape.
    pub fn new<T: Element>(shape: impl Into<Shape>, data: &[T]) -> Result<Self> {
        let shape = shape.into();
        check_length(shape, data.len())?;
        let mut tensor = Self::default();
        tensor.resize::<T>(shape).copy_from_slice(data);
        Ok(tensor)
    }

    /// A tensor of given bytes, as a file holds them.
    pub fn from_bytes(dtype: DType, shape: Shape, bytes: &[u8]) -> Result<Self> {
        if bytes.len() != shape.n_elements() * dtype.size() {
            let (expected, actual) = (shape.n_elements(), bytes.len() / dtype.size());
            return Err(Error::Length { shape, expected, actual });
        }
        let mut tensor = Self::default();
        tensor.resize_as(dtype, shape);
        tensor.bytes_mut().copy_from_slice(bytes);
        Ok(tensor)
    }

    /// A tensor in memory of another owner; the memory must be as long as the shape asks, or longer.
    pub fn lent(dtype: DType, shape: Shape, memory: Box<dyn Memory>) -> Result<Self> {
        let n_bytes = shape.n_elements() * dtype.size();
        let buffer = Buffer::lent(memory);
        let actual = buffer.bytes().len() / dtype.size();
        if buffer.bytes().len() < n_bytes {
            return Err(Error::Length { shape, expected: shape.n_elements(), actual });
        }
        let buffer = buffer.shortened(n_bytes);
        Ok(Self { dtype, shape, lod: Lod::NONE, buffer })
    }

    /// Rows `from..to` of a tensor that others hold too: nothing is copied, as long as only read.
    pub fn part(whole: &Arc<Tensor>, rows: Range<usize>) -> Result<Self> {
        let (height, width) = whole.shape.flatten_2d(1);
        let row_bytes = width * whole.dtype.size();
        let shape = whole.shape;
        if rows.start > rows.end || rows.end > height || shape.rank() == 0 {
            return Err(Error::RowOutOfRange { row: rows.end as i64, height: height as i64 });
        }
        let bytes = rows.start * row_bytes..rows.end * row_bytes;
        let memory = SharedBytes { whole: whole.clone(), bytes };
        Self::lent(whole.dtype, shape.with_dim(0, rows.len()), Box::new(memory))
    }

    /// Whether the elements can be written where they are.
    pub fn may_write(&mut self) -> bool {
        self.buffer.may_write()
    }

    /// The owner of the memory that holds the elements, if it is lent.
    pub fn lender(&self) -> Option<&dyn Memory> {
        self.buffer.lender()
    }

    /// A tensor with every element `value`.
    pub fn full<T: Element>(shape: impl Into<Shape>, value: T) -> Self {
        let mut tensor = Self::default();
        tensor.resize::<T>(shape.into()).fill(value);
        tensor
    }

    /// Whether there is memory for a tensor: asked before one is made whose size a user chose. Small
    /// ones are not worth the question.
    pub fn check_room(dtype: DType, shape: Shape) -> Result<()> {
        let n_bytes = shape.n_elements().saturating_mul(dtype.size());
        let mut probe: Vec<u8> = Vec::new();
        if n_bytes < ASKED_BYTES_MIN || probe.try_reserve_exact(n_bytes).is_ok() {
            Ok(())
        } else {
            Err(Error::NoRoom { shape, n_bytes })
        }
    }

    /// Gives the tensor a type and shape and returns its elements to be written.
    ///
    /// The memory is reused; its contents are not specified. Ragged offsets are dropped.
    pub fn resize<T: Element>(&mut self, shape: Shape) -> &mut [T] {
        self.resize_as(T::DTYPE, shape);
        bytemuck::cast_slice_mut(self.buffer.bytes_mut())
    }

    /// Like [`Tensor::resize`] where a user or a peer chose the size: an error if there is no room.
    pub fn try_resize<T: Element>(&mut self, shape: Shape) -> Result<&mut [T]> {
        Self::check_room(T::DTYPE, shape)?;
        Ok(self.resize(shape))
    }

    /// Like [`Tensor::resize_zeroed`] where a user or a peer chose the size.
    pub fn try_resize_zeroed<T: Element>(&mut self, shape: Shape) -> Result<&mut [T]> {
        Self::check_room(T::DTYPE, shape)?;
        Ok(self.resize_zeroed(shape))
    }

    /// Like [`Tensor::resize_as`] where a user or a peer chose the size.
    pub fn try_resize_as(&mut self, dtype: DType, shape: Shape) -> Result<()> {
        Self::check_room(dtype, shape)?;
        self.resize_as(dtype, shape);
        Ok(())
    }

    /// Resizes to a shape and an element type that is known when the program runs.
    pub fn resize_as(&mut self, dtype: DType, shape: Shape) {
        // First: without memory, the tensor stays as it is.
        self.buffer.resize(shape.n_elements() * dtype.size());
        self.dtype = dtype;
        self.shape = shape;
        self.lod = Lod::NONE;
    }

    /// Like [`Tensor::resize`], with every element zero.
    pub fn resize_zeroed<T: Element>(&mut self, shape: Shape) -> &mut [T] {
        let data = self.resize::<T>(shape);
        data.fill(T::zeroed());
        data
    }

    /// Adds rows and keeps the present ones; the numbers of the new rows are not specified.
    pub fn grow_rows(&mut self, n_rows: usize) {
        let shape = self.shape.with_dim(0, n_rows.max(self.shape.dim(0)));
        self.buffer.grow(shape.n_elements() * self.dtype.size());
        self.shape = shape;
    }

    /// Makes sure that [`Tensor::grow_rows`] to so many rows finds memory; an error if there is none.
    pub fn reserve_rows(&mut self, n_rows: usize) -> Result<()> {
        let shape = self.shape.with_dim(0, n_rows);
        let n_bytes = shape.n_elements().saturating_mul(self.dtype.size());
        if self.buffer.reserve(n_bytes) { Ok(()) } else { Err(Error::NoRoom { shape, n_bytes }) }
    }

    /// The first rows only; keeps memory.
    pub fn truncate_rows(&mut self, n_rows: usize) {
        let shape = self.shape.with_dim(0, n_rows.min(self.shape.dim(0)));
        self.buffer.truncate(shape.n_elements() * self.dtype.size());
        self.shape = shape;
    }

    /// Another shape for the same elements.
    pub fn reshape(&mut self, shape: Shape) -> Result<()> {
        check_length(shape, self.shape.n_elements())?;
        self.shape = shape;
        Ok(())
    }

    /// Becomes a copy of `source`, reusing memory.
    pub fn copy_from(&mut self, source: &Tensor) {
        self.resize_as(source.dtype, source.shape);
        self.bytes_mut().copy_from_slice(source.bytes());
        self.lod = source.lod.clone();
    }

    /// The type of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The sizes of the dimensions.
    pub fn dims(&self) -> &[usize] {
        self.shape.dims()
    }

    /// How many elements.
    pub fn len(&self) -> usize {
        self.shape.n_elements()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether something was ever written here (an empty batch counts).
    pub fn is_initialized(&self) -> bool {
        self.shape.rank() > 0
    }

    /// The ragged offsets.
    pub fn lod(&self) -> &Lod {
        &self.lod
    }

    /// Sets the ragged offsets; the caller has checked them, or copies them from a like tensor.
    pub fn set_lod(&mut self, lod: Lod) {
        self.lod = lod;
    }

    /// The elements, if they are `T`.
    pub fn data<T: Element>(&self) -> Result<&[T]> {
        self.check_dtype(T::DTYPE)?;
        Ok(bytemuck::cast_slice(self.buffer.bytes()))
    }

    /// The elements to change, if they are `T`.
    pub fn data_mut<T: Element>(&mut self) -> Result<&mut [T]> {
        self.check_dtype(T::DTYPE)?;
        Ok(bytemuck::cast_slice_mut(self.buffer.bytes_mut()))
    }

    /// The elements as bytes.
    pub fn bytes(&self) -> &[u8] {
        self.buffer.bytes()
    }

    /// The elements as bytes, to write.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.buffer.bytes_mut()
    }

    /// Bytes of memory held.
    pub fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// Forgets the contents, keeps the memory.
    pub fn clear(&mut self) {
        self.resize_as(self.dtype, Shape::default());
    }

    /// Element `index` of any number type as a double; for messages, printing and tests.
    pub fn get_f64(&self, index: usize) -> f64 {
        fn at<T: Element>(tensor: &Tensor, index: usize) -> T {
            bytemuck::cast_slice(tensor.bytes())[index]
        }
        match self.dtype {
            DType::Bool => f64::from(u8::from(at::<crate::Bool>(self, index).get())),
            DType::U8 => f64::from(at::<u8>(self, index)),
            DType::I8 => f64::from(at::<i8>(self, index)),
            DType::I16 | DType::F16 => f64::from(at_i16(self, index)),
            DType::I32 => f64::from(at::<i32>(self, index)),
            DType::I64 => at::<i64>(self, index) as f64,
            DType::F32 => f64::from(at::<f32>(self, index)),
            DType::F64 => at::<f64>(self, index),
        }
    }

    fn check_dtype(&self, expected: DType) -> Result<()> {
        if self.dtype != expected {
            return Err(Error::DTypeMismatch { expected, actual: self.dtype });
        }
        Ok(())
    }
}

/// Bytes of a tensor that others hold too.
struct SharedBytes {
    whole: Arc<Tensor>,
    bytes: Range<usize>,
}

impl Memory for SharedBytes {
    fn bytes(&self) -> &[u8] {
        &self.whole.bytes()[self.bytes.clone()]
    }

    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        None
    }

    fn place(&self) -> MemoryPlace {
        let lent = self.whole.lender().map(Memory::place);
        let inside = |place: MemoryPlace| MemoryPlace {
            offset: place.offset + self.bytes.start as u64,
            ..place
        };
        lent.map(inside).unwrap_or_default()
    }
}

/// Half precision is shown as its bit pattern: nothing computes with it.
fn at_i16(tensor: &Tensor, index: usize) -> i16 {
    bytemuck::cast_slice(tensor.bytes())[index]
}

fn check_length(shape: Shape, actual: usize) -> Result<()> {
    let expected = shape.n_elements();
    if expected != actual {
        return Err(Error::Length { shape, expected, actual });
    }
    Ok(())
}

impl Clone for Tensor {
    fn clone(&self) -> Self {
        let mut copy = Tensor::default();
        copy.copy_from(self);
        copy
    }

    fn clone_from(&mut self, source: &Self) {
        self.copy_from(source);
    }
}

/// Same type, shape, offsets and bytes (so a NaN equals itself).
impl PartialEq for Tensor {
    fn eq(&self, other: &Self) -> bool {
        self.dtype == other.dtype
            && self.shape == other.shape
            && self.lod == other.lod
            && self.bytes() == other.bytes()
    }
}

/// Smaller requests are made without a check for room.
const ASKED_BYTES_MIN: usize = 1 << 30;

/// Elements shown by `Debug`; a table of a million rows must not fill a log.
const DEBUG_ELEMENTS_MAX: usize = 16;

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n_shown = self.len().min(DEBUG_ELEMENTS_MAX);
        let shown: Vec<f64> = (0..n_shown).map(|i| self.get_f64(i)).collect();
        let dots = if self.len() > n_shown { " …" } else { "" };
        write!(f, "{}{}{shown:?}{dots}", self.dtype.name(), self.shape)?;
        if self.lod.is_empty() { Ok(()) } else { write!(f, " lod {:?}", self.lod.levels()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_the_wrong_type_and_length() {
        let tensor = Tensor::new([2], &[1.0f32, 2.0]).unwrap();
        let error = tensor.data::<f64>().unwrap_err();
        assert_eq!(error, Error::DTypeMismatch { expected: DType::F64, actual: DType::F32 });
        assert!(matches!(Tensor::new([3], &[1i64]), Err(Error::Length { expected: 3, .. })));
    }

    #[test]
    fn a_part_is_read_where_it_is_and_copied_when_written() {
        let whole = Arc::new(Tensor::new([3, 2], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap());
        let mut part = Tensor::part(&whole, 1..3).unwrap();
        assert_eq!(part, Tensor::new([2, 2], &[3.0f32, 4.0, 5.0, 6.0]).unwrap());
        assert_eq!(part.bytes().as_ptr(), whole.bytes()[8..].as_ptr());
        assert!(!part.may_write());
        part.data_mut::<f32>().unwrap()[0] = 9.0;
        assert_eq!(whole.data::<f32>().unwrap()[2], 3.0);
        assert_eq!(Arc::strong_count(&whole), 1, "the part has memory of its own now");
        assert!(Tensor::part(&whole, 2..4).is_err());
    }

    #[test]
    fn what_no_machine_holds_is_refused() {
        let shape = Shape::from([1 << 48, 8]);
        let error = Tensor::check_room(DType::F32, shape).unwrap_err();
        assert_eq!(error, Error::NoRoom { shape, n_bytes: 1 << 53 });
        assert_eq!(Tensor::check_room(DType::F32, Shape::from([1000, 8])), Ok(()));
        // More than can be counted.
        let shape = Shape::from([1 << 40, 1 << 40]);
        assert!(matches!(Tensor::default().try_resize::<f64>(shape), Err(Error::NoRoom { .. })));
        assert_eq!(
            Tensor::default().try_resize_zeroed::<i64>(Shape::from([2])),
            Ok(&mut [0, 0][..])
        );
    }

    #[test]
    fn resizing_reuses_memory_across_types() {
        let mut tensor = Tensor::full([100], 1.5f64);
        let capacity = tensor.capacity();
        tensor.resize::<i32>(Shape::from([20, 10])).fill(7);
        assert_eq!(tensor.capacity(), capacity);
        assert_eq!(tensor.data::<i32>().unwrap()[199], 7);
    }
}
