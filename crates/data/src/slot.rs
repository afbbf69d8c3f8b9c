//! Slots: the fields of a sample.

use crate::error::{Error, Result};

/// The type of values of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotKind {
    /// `float32`.
    Float,
    /// `int64`; Fluid's files call it `uint64`.
    Id,
}

/// One field of a sample: a list of ids or numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The variable it is fed to.
    pub name: String,
    /// The type of its values.
    pub kind: SlotKind,
    /// The shape of a dense slot, which has no sequences; -1 is the size that follows from the rest.
    pub dense: Option<Vec<i64>>,
    /// Whether it goes into batches; one that does not is read and dropped.
    pub used: bool,
}

impl Slot {
    /// A slot of ids, a sequence for each sample.
    pub fn ids(name: &str) -> Self {
        Self { name: name.to_string(), kind: SlotKind::Id, dense: None, used: true }
    }

    /// A slot of numbers, a sequence for each sample.
    pub fn floats(name: &str) -> Self {
        Self { kind: SlotKind::Float, ..Self::ids(name) }
    }

    /// Gives the slot a shape instead of sequences.
    pub fn dense(mut self, shape: &[i64]) -> Self {
        self.dense = Some(shape.to_vec());
        self
    }

    /// Values of a sample, if the shape fixes them.
    pub(crate) fn n_dense(&self) -> Option<usize> {
        let shape = self.dense.as_ref()?;
        let rest = shape.strip_prefix(&[-1])?;
        Some(rest.iter().product::<i64>() as usize)
    }

    /// Words that a value takes in memory.
    pub(crate) fn width(&self) -> usize {
        match self.kind {
            SlotKind::Float => 1,
            SlotKind::Id => 2,
        }
    }

    fn check(&self) -> Result<()> {
        let Some(shape) = &self.dense else { return Ok(()) };
        let open = shape.iter().filter(|&&dim| dim == -1).count();
        let fixed = shape.iter().filter(|&&dim| dim != -1);
        let size = fixed.clone().try_fold(1i64, |n, &dim| n.checked_mul(dim));
        let fits = size.is_some_and(|n| n > 0 && n <= i64::from(u32::MAX));
        if shape.is_empty() || open > 1 || fixed.clone().any(|&dim| dim < 1) || !fits {
            return Err(Error::DenseShape { slot: self.name.clone(), shape: shape.clone() });
        }
        Ok(())
    }
}

/// Checks that slots can be read.
pub(crate) fn check(slots: &[Slot]) -> Result<()> {
    if !slots.iter().any(|slot| slot.used) {
        return Err(Error::NoSlots);
    }
    for (at, slot) in slots.iter().enumerate() {
        slot.check()?;
        if slots[..at].iter().any(|other| other.name == slot.name) {
            return Err(Error::SlotTwice { slot: slot.name.clone() });
        }
    }
    Ok(())
}
