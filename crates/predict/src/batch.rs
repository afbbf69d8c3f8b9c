//! Samples to predict for, column by column.

use std::sync::Arc;

use tensor::{DType, Lod, RANK_MAX, Shape, Tensor};
use train::Feed;

use crate::error::{Error, Result};
use crate::slot::Slot;

/// The values of a slot.
#[derive(Clone, Copy, Debug)]
pub enum Column<'a> {
    /// Ids and other integers, one sample after the other.
    Integers(&'a [i64]),
    /// Numbers, one sample after the other.
    Numbers(&'a [f32]),
    /// Ids, as many of each sample as `lengths` says.
    Sequences {
        /// All values.
        values: &'a [i64],
        /// How many of each sample.
        lengths: &'a [usize],
    },
    /// Numbers, as many elements of each sample as `lengths` says.
    NumberSequences {
        /// All values.
        values: &'a [f32],
        /// How many elements of each sample.
        lengths: &'a [usize],
    },
}

/// Samples for one model. Its memory is kept when it is filled again.
#[derive(Clone, Debug)]
pub struct Samples {
    slots: Arc<[Slot]>,
    feed: Feed,
    /// Samples of each slot, once it is given.
    n_samples: Vec<Option<usize>>,
    /// The sequences of slots with one element for each sample, used again.
    ones: Option<(usize, Lod)>,
}

impl Samples {
    pub(crate) fn new(slots: Arc<[Slot]>) -> Self {
        let mut feed = Feed::new();
        slots.iter().for_each(|slot| feed.set(&slot.name, Tensor::default()));
        Self { n_samples: vec![None; slots.len()], slots, feed, ones: None }
    }

    /// The inputs of the model.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Whether it has these slots, in this order.
    pub(crate) fn is_of(&self, slots: &Arc<[Slot]>) -> bool {
        Arc::ptr_eq(&self.slots, slots) || self.slots == *slots
    }

    /// Forgets the samples, and keeps the memory.
    pub fn clear(&mut self) {
        self.n_samples.fill(None);
    }

    pub(crate) fn place(&self, name: &str) -> Result<usize> {
        self.slots.iter().position(|slot| slot.name == name).ok_or_else(|| Error::UnknownSlot {
            slot: name.to_string(),
            near: base::DidYouMean::among(name, self.slots.iter().map(|slot| slot.name.as_str())),
            known: self.slots.iter().map(|slot| slot.name.clone()).collect(),
        })
    }

    /// Gives a slot its values.
    pub fn set(&mut self, name: &str, column: Column<'_>) -> Result<()> {
        self.set_at(self.place(name)?, column)
    }

    /// Gives a slot the integers or numbers of `n_samples`, which all have equally many.
    pub fn set_samples(&mut self, name: &str, column: Column<'_>, n_samples: usize) -> Result<()> {
        let at = self.place(name)?;
        let (slot, width) = (&self.slots[at], self.slots[at].width()?);
        let n_values = match column {
            Column::Integers(values) => values.len(),
            Column::Numbers(values) => values.len(),
            Column::Sequences { .. } | Column::NumberSequences { .. } => {
                return self.set_at(at, column);
            }
        };
        if n_values == 0 {
            return self.set_at(at, column);
        }
        let n = n_values / n_samples.max(1);
        if n_samples * n != n_values
            || !n.is_multiple_of(width)
            || n != width && !slot.is_sequence()
        {
            let what = if slot.is_sequence() { "an element" } else { "a sample" };
            let problem = format!("{what} has {width} numbers, but each sample given has {n}");
            return Err(Error::WrongLength { slot: slot.name.clone(), problem });
        }
        if n == width {
            return self.set_at(at, column);
        }
        let lengths = &vec![n / width; n_samples][..];
        self.set_at(
            at,
            match column {
                Column::Integers(values) => Column::Sequences { values, lengths },
                Column::Numbers(values) => Column::NumberSequences { values, lengths },
                sequences => sequences,
            },
        )
    }

    /// Gives a slot the integers or numbers of an array of this shape. Its first dimension counts the samples,
    /// unless it is the only one. A sample has the shape of the slot, or is flat; dimensions of one number
    /// do not matter.
    pub fn set_shaped(&mut self, name: &str, column: Column<'_>, shape: &[usize]) -> Result<()> {
        let [n_samples, rest @ ..] = shape else { return self.set(name, column) };
        if rest.is_empty() {
            return self.set(name, column);
        }
        let slot = &self.slots[self.place(name)?];
        let is_larger = |dim: &usize| *dim != 1;
        let dims = slot.dims.iter().map(|&dim| usize::try_from(dim).unwrap_or(0));
        let expected: Vec<usize> = dims.filter(is_larger).collect();
        let found: Vec<usize> = rest.iter().copied().filter(is_larger).collect();
        // Numbers of another layout would be taken for others without any error.
        if !slot.is_sequence() && found.len() > 1 && found != expected {
            let problem = format!(
                "a sample has the shape {:?}, but each sample given has {rest:?}",
                slot.dims
            );
            return Err(Error::WrongLength { slot: slot.name.clone(), problem });
        }
        self.set_samples(name, column, *n_samples)
    }

    /// Gives the slot of a number its values.
    pub(crate) fn set_at(&mut self, at: usize, column: Column<'_>) -> Result<()> {
        let slot = &self.slots[at];
        let (n_values, lengths) = match column {
            Column::Integers(values) => (values.len(), None),
            Column::Numbers(values) => (values.len(), None),
            Column::Sequences { values, lengths } => (values.len(), Some(lengths)),
            Column::NumberSequences { values, lengths } => (values.len(), Some(lengths)),
        };
        let n_rows = rows_of(slot, n_values, lengths)?;
        if let Column::Numbers(values) | Column::NumberSequences { values, .. } = column {
            check_finite(slot, values, lengths)?;
        }
        let lod = match (slot.is_sequence(), lengths) {
            (true, Some(lengths)) => Lod::from_lengths(lengths.iter().copied()),
            (true, None) => self.ones(n_rows),
            (false, _) => Lod::default(),
        };
        let n_samples = lengths.map_or(n_rows, <[usize]>::len);
        let slot = &self.slots[at];
        let shape = shape_of(slot, n_rows);
        let Some(tensor) = self.feed.tensors_mut().nth(at) else { return Ok(()) };
        match column {
            Column::Integers(values) | Column::Sequences { values, .. } => {
                put_integers(slot, values, shape, tensor)?;
            }
            Column::Numbers(values) | Column::NumberSequences { values, .. } => {
                put_numbers(slot, values, shape, tensor)?;
            }
        }
        tensor.set_lod(lod);
        self.n_samples[at] = Some(n_samples);
        Ok(())
    }

    /// One element for each sample.
    fn ones(&mut self, n: usize) -> Lod {
        match &self.ones {
            Some((known, lod)) if *known == n => lod.clone(),
            _ => {
                let lod = Lod::from_lengths(std::iter::repeat_n(1, n));
                self.ones.insert((n, lod)).1.clone()
            }
        }
    }

    /// Takes a whole tensor as it is, if it is of the type and shape of the slot.
    pub fn set_tensor(&mut self, name: &str, given: &Tensor) -> Result<()> {
        let at = self.place(name)?;
        let lengths = given.lod().lengths();
        let lengths = lengths.last().map(Vec::as_slice);
        match given.dtype() {
            DType::I64 => {
                let values = given.data::<i64>().unwrap_or(&[]);
                self.set_values(at, lengths, values, |values, lengths| match lengths {
                    Some(lengths) => Column::Sequences { values, lengths },
                    None => Column::Integers(values),
                })
            }
            DType::F32 => {
                let values = given.data::<f32>().unwrap_or(&[]);
                self.set_values(at, lengths, values, |values, lengths| match lengths {
                    Some(lengths) => Column::NumberSequences { values, lengths },
                    None => Column::Numbers(values),
                })
            }
            other => Err(wrong_type(&self.slots[at], other.name())),
        }
    }

    fn set_values<'a, T>(
        &mut self,
        at: usize,
        lengths: Option<&'a [usize]>,
        values: &'a [T],
        column: impl FnOnce(&'a [T], Option<&'a [usize]>) -> Column<'a>,
    ) -> Result<()> {
        self.set_at(at, column(values, lengths))
    }

    /// Bytes of the tensors, with the offsets of their sequences.
    pub(crate) fn n_bytes(&self) -> usize {
        let n_offsets = |tensor: &Tensor| tensor.lod().last().map_or(0, <[usize]>::len);
        let of = |tensor: &Tensor| tensor.bytes().len() + n_offsets(tensor) * size_of::<usize>();
        self.feed.tensors().map(of).sum()
    }

    /// How many samples there are; all slots must agree.
    pub fn n_samples(&self) -> Result<usize> {
        let mut first: Option<(&Slot, usize)> = None;
        for (slot, n) in self.slots.iter().zip(&self.n_samples) {
            let Some(n) = *n else { return Err(Error::MissingSlot { slot: slot.name.clone() }) };
            match first {
                None => first = Some((slot, n)),
                Some((other, expected)) if n != expected => {
                    let (slot, first) = (slot.name.clone(), other.name.clone());
                    return Err(Error::SampleCount { slot, actual: n, first, expected });
                }
                Some(_) => {}
            }
        }
        match first {
            Some((_, 0)) => Err(Error::NoSamples),
            Some((_, n)) => Ok(n),
            None => Ok(1),
        }
    }

    /// The samples, for another thread; none are left.
    pub(crate) fn take(&mut self) -> Samples {
        let feed = std::mem::take(&mut self.feed);
        let n_samples = std::mem::take(&mut self.n_samples);
        Samples { slots: self.slots.clone(), feed, n_samples, ones: self.ones.take() }
    }

    pub(crate) fn feed(&self) -> &Feed {
        &self.feed
    }

    pub(crate) fn feed_mut(&mut self) -> &mut Feed {
        &mut self.feed
    }

    /// Becomes `n` samples of another batch of this model, from `first` on.
    pub(crate) fn copy_part(&mut self, whole: &Samples, first: usize, n: usize) {
        let tensors = whole.feed.tensors().zip(self.feed.tensors_mut());
        for ((slot, count), (from, to)) in self.slots.iter().zip(&mut self.n_samples).zip(tensors) {
            *count = Some(n);
            let offsets = from.lod().last().filter(|_| slot.is_sequence());
            let (start, end) = match offsets {
                Some(offsets) => (offsets[first], offsets[first + n]),
                None => (first, first + n),
            };
            let row_bytes = from.bytes().len() / from.dims().first().copied().unwrap_or(1).max(1);
            to.resize_as(slot.dtype, shape_of(slot, end - start));
            to.bytes_mut().copy_from_slice(&from.bytes()[start * row_bytes..end * row_bytes]);
            if let Some(offsets) = offsets {
                let lengths = offsets[first..=first + n].windows(2).map(|pair| pair[1] - pair[0]);
                to.set_lod(Lod::from_lengths(lengths));
            }
        }
    }

    /// Puts the samples of several batches of this model one after the other.
    pub(crate) fn join<'a>(&mut self, batches: impl Iterator<Item = &'a Samples> + Clone) {
        for at in 0..self.slots.len() {
            let slot = &self.slots[at];
            let tensors = batches.clone().filter_map(|batch| batch.feed.tensors().nth(at));
            let n_rows: usize =
                tensors.clone().map(|tensor| tensor.dims().first().copied().unwrap_or(0)).sum();
            let Some(out) = self.feed.tensors_mut().nth(at) else { continue };
            out.resize_as(slot.dtype, shape_of(slot, n_rows));
            let mut from = 0;
            for tensor in tensors.clone() {
                let bytes = tensor.bytes();
                out.bytes_mut()[from..from + bytes.len()].copy_from_slice(bytes);
                from += bytes.len();
            }
            if slot.is_sequence() {
                let lengths = tensors.flat_map(|tensor| {
                    let offsets = tensor.lod().last().unwrap_or(&[0]).to_vec();
                    (1..offsets.len()).map(move |k| offsets[k] - offsets[k - 1])
                });
                out.set_lod(Lod::from_lengths(lengths));
            }
            let n = batches.clone().filter_map(|batch| batch.n_samples[at]).sum();
            self.n_samples[at] = Some(n);
        }
    }
}

fn wrong_type(slot: &Slot, actual: &str) -> Error {
    let (slot, expected) = (slot.name.clone(), slot.dtype);
    Error::WrongType { slot, expected, actual: actual.to_string() }
}

fn shape_of(slot: &Slot, n_rows: usize) -> Shape {
    let mut dims = [0; RANK_MAX];
    let rank = (slot.dims.len() + 1).min(RANK_MAX);
    dims[0] = n_rows;
    for (out, &dim) in dims[1..rank].iter_mut().zip(&slot.dims) {
        *out = usize::try_from(dim).unwrap_or(1);
    }
    Shape::new(&dims[..rank])
}

/// The rows of the tensor: elements of sequences, or samples.
fn rows_of(slot: &Slot, n_values: usize, lengths: Option<&[usize]>) -> Result<usize> {
    let width = slot.width()?;
    let wrong = |problem| Error::WrongLength { slot: slot.name.clone(), problem };
    if !n_values.is_multiple_of(width) {
        let what = if slot.is_sequence() { "an element" } else { "a sample" };
        return Err(wrong(format!(
            "{what} has {width} numbers, and the {n_values} numbers given are not a multiple of that"
        )));
    }
    let n_rows = n_values / width;
    let Some(lengths) = lengths else { return Ok(n_rows) };
    let n_listed = lengths.iter().try_fold(0usize, |sum, &n| sum.checked_add(n));
    if n_listed != Some(n_rows) {
        return Err(wrong(format!("its lengths do not add up to the {n_rows} elements given")));
    }
    if !slot.is_sequence() && lengths.iter().any(|&n| n != 1) {
        return Err(wrong("a sample is one element, not a sequence".to_string()));
    }
    Ok(n_rows)
}

fn check_finite(slot: &Slot, values: &[f32], lengths: Option<&[usize]>) -> Result<()> {
    let Some(at) = values.iter().position(|value| !value.is_finite()) else { return Ok(()) };
    let row = at / slot.width()?;
    let mut end = 0;
    let sample = match lengths {
        None => row,
        Some(lengths) => lengths
            .iter()
            .position(|n| {
                end += n;
                row < end
            })
            .unwrap_or(row),
    };
    Err(Error::NotFinite { slot: slot.name.clone(), sample })
}

fn put_integers(slot: &Slot, values: &[i64], shape: Shape, out: &mut Tensor) -> Result<()> {
    match slot.dtype {
        DType::I64 => out.resize::<i64>(shape).copy_from_slice(values),
        DType::I32 => {
            for (out, &value) in out.resize::<i32>(shape).iter_mut().zip(values) {
                *out = i32::try_from(value).map_err(|_| wrong_type(slot, "a larger integer"))?;
            }
        }
        DType::F32 => {
            for (out, &value) in out.resize::<f32>(shape).iter_mut().zip(values) {
                *out = value as f32;
            }
        }
        DType::F64 => {
            for (out, &value) in out.resize::<f64>(shape).iter_mut().zip(values) {
                *out = value as f64;
            }
        }
        _ => return Err(wrong_type(slot, "integers")),
    }
    Ok(())
}

fn put_numbers(slot: &Slot, values: &[f32], shape: Shape, out: &mut Tensor) -> Result<()> {
    match slot.dtype {
        DType::F32 => out.resize::<f32>(shape).copy_from_slice(values),
        DType::F64 => {
            for (out, &value) in out.resize::<f64>(shape).iter_mut().zip(values) {
                *out = value.into();
            }
        }
        _ => return Err(wrong_type(slot, "numbers that are not integers")),
    }
    Ok(())
}
