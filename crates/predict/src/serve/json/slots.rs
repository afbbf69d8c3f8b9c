//! A body for a model that is fed slots.

use tensor::DType;

use super::super::body::{Allowed, BadBody};
use super::read::{ColumnSink, Scalar, read};
use crate::batch::{Column, Samples};
use crate::error::Error;
use crate::slot::Slot;

type Result<T> = std::result::Result<T, BadBody>;

/// Fills a batch from the body of a request.
pub(in super::super) fn fill(
    body: &[u8],
    batch: &mut Samples,
    allowed: &mut Allowed<'_>,
) -> Result<()> {
    let columns = batch.slots().iter().map(|_| SlotColumn::default()).collect();
    let mut slots = SlotColumns { batch, allowed, columns, n_rows: 0 };
    read(body, &mut slots)?;
    slots.set()
}

/// The numbers of a slot.
#[derive(Default)]
struct SlotColumn {
    is_given: bool,
    integers: Vec<i64>,
    numbers: Vec<f32>,
    /// Elements of each sample, if samples are sequences.
    lengths: Vec<usize>,
    n_samples: usize,
    /// Numbers of the sample that is being read.
    n_numbers: usize,
}

struct SlotColumns<'a, 'b> {
    batch: &'a mut Samples,
    allowed: &'a mut Allowed<'b>,
    columns: Vec<SlotColumn>,
    n_rows: usize,
}

impl SlotColumns<'_, '_> {
    fn slot(&self, at: usize) -> &Slot {
        &self.batch.slots()[at]
    }

    fn set(self) -> Result<()> {
        for (at, column) in self.columns.into_iter().enumerate().filter(|(_, it)| it.is_given) {
            let slot = &self.batch.slots()[at];
            let (is_integer, is_sequence) = (is_integer(slot), slot.is_sequence());
            let SlotColumn { integers, numbers, lengths, .. } = column;
            // The samples have the numbers, too.
            let n_bytes = integers.len() * 8 + numbers.len() * 4 + lengths.len() * 8;
            self.allowed.held.take(n_bytes)?;
            let lengths = &lengths[..];
            match (is_integer, is_sequence) {
                (true, true) => {
                    self.batch.set_at(at, Column::Sequences { values: &integers, lengths })
                }
                (true, false) => self.batch.set_at(at, Column::Integers(&integers)),
                (false, true) => {
                    self.batch.set_at(at, Column::NumberSequences { values: &numbers, lengths })
                }
                (false, false) => self.batch.set_at(at, Column::Numbers(&numbers)),
            }?;
        }
        Ok(())
    }
}

impl ColumnSink for SlotColumns<'_, '_> {
    fn find(&self, name: &str) -> Result<Option<usize>> {
        Ok(Some(self.batch.place(name)?))
    }

    fn begin_column(&mut self, at: usize) -> Result<()> {
        self.columns[at] = SlotColumn { is_given: true, ..SlotColumn::default() };
        Ok(())
    }

    fn begin_rows(&mut self) {
        self.columns.iter_mut().for_each(|column| column.is_given = true);
    }

    fn list(&mut self, _at: usize) -> Result<()> {
        Ok(())
    }

    fn value(&mut self, at: usize, value: Scalar<'_>) -> Result<()> {
        let slot = &self.batch.slots()[at];
        let (column, held) = (&mut self.columns[at], &mut *self.allowed.held);
        column.n_numbers += 1;
        match (value, is_integer(slot)) {
            (Scalar::Integer(number), true) => held.push(&mut column.integers, number)?,
            // Ids are 64 bits, whatever sign they are written with.
            (Scalar::Large(number), true) if slot.dtype == DType::I64 => {
                held.push(&mut column.integers, number.cast_signed())?;
            }
            (Scalar::Integer(number), false) => held.push(&mut column.numbers, number as f32)?,
            (Scalar::Large(number), false) => held.push(&mut column.numbers, number as f32)?,
            (Scalar::Number(number), false) => held.push(&mut column.numbers, number as f32)?,
            (other, _) => {
                let (slot, expected) = (slot.name.clone(), slot.dtype);
                return Err(Error::WrongType { slot, expected, actual: other.to_string() }.into());
            }
        }
        Ok(())
    }

    fn end_sample(&mut self, at: usize) -> Result<()> {
        let slot = self.slot(at);
        let (width, is_sequence) = (slot.width()?, slot.is_sequence());
        let n = self.columns[at].n_numbers;
        if !n.is_multiple_of(width) || !is_sequence && n != width {
            let what = if is_sequence { "an element" } else { "a sample" };
            let problem = format!("{what} has {width} numbers, but {n} were given");
            return Err(Error::WrongLength { slot: slot.name.clone(), problem }.into());
        }
        let (column, held) = (&mut self.columns[at], &mut *self.allowed.held);
        column.n_samples += 1;
        column.n_numbers = 0;
        if column.n_samples > self.allowed.n_samples_max {
            return Err(BadBody::TooMany(self.allowed.n_samples_max));
        }
        if is_sequence {
            held.push(&mut column.lengths, n / width)?;
        }
        Ok(())
    }

    fn end_row(&mut self) -> Result<()> {
        self.n_rows += 1;
        let n_samples = |at: usize| self.columns[at].n_samples;
        let Some(at) = (0..self.columns.len()).find(|&at| n_samples(at) != self.n_rows) else {
            return Ok(());
        };
        let slot = self.slot(at).name.clone();
        if n_samples(at) < self.n_rows {
            Err(Error::MissingSlot { slot }.into())
        } else {
            Err(BadBody::Form(format!("slot `{slot}` is twice in one row")))
        }
    }
}

fn is_integer(slot: &Slot) -> bool {
    matches!(slot.dtype, DType::I64 | DType::I32)
}
