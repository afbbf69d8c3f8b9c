//! Samples become a batch: one tensor per slot.

use tensor::{Lod, Shape, Tensor};

use crate::error::{Error, Result};
use crate::feed::{Feed, FeedNames};
use crate::records::{FIRST_SLOT, id};
use crate::slot::{Slot, SlotKind};

/// Makes batches of samples with the same slots.
pub(crate) struct Batcher {
    slots: Vec<Slot>,
    /// Their names, which all batches share.
    layout: FeedNames,
    /// For each sample of the batch, where its next slot begins.
    at: Vec<usize>,
    /// The offsets of a batch in which each sample has one value: most slots of most batches.
    ones: Lod,
}

impl Batcher {
    pub(crate) fn new(slots: &[Slot]) -> Self {
        let slots: Vec<Slot> = slots.iter().filter(|slot| slot.used).cloned().collect();
        let layout = FeedNames::new(slots.iter().map(|slot| slot.name.clone()).collect());
        Self { slots, layout, at: Vec::new(), ones: Lod::NONE }
    }

    /// Fills a batch with a tensor for each slot; its memory is used again.
    pub(crate) fn fill(&mut self, records: &[&[u32]], batch: &mut Feed) -> Result<()> {
        batch.lay_out(&self.layout);
        self.at.clear();
        self.at.resize(records.len(), FIRST_SLOT);
        if self.ones.last().is_none_or(|offsets| offsets.len() != records.len() + 1) {
            self.ones = Lod::from_offsets(vec![(0..=records.len()).collect()]);
        }
        for (slot, tensor) in batch.all_mut().enumerate() {
            self.fill_slot(slot, records, tensor)?;
        }
        Ok(())
    }

    fn fill_slot(&mut self, slot: usize, records: &[&[u32]], tensor: &mut Tensor) -> Result<()> {
        // A sequence without values, which only samples in memory have, becomes one 0 as in Fluid.
        let counts =
            || records.iter().zip(&self.at).map(|(record, &at)| record[at].max(1) as usize);
        let slot = &self.slots[slot];
        let (total, n) = (counts().sum::<usize>(), records.len());
        let lod = if slot.dense.is_some() {
            Lod::NONE
        } else if total == n && counts().all(|count| count == 1) {
            self.ones.clone()
        } else {
            Lod::from_lengths(counts())
        };
        let shape = shape(slot, total)?;
        match slot.kind {
            SlotKind::Float => {
                let mut out = tensor.resize::<f32>(shape);
                for (record, at) in records.iter().zip(&mut self.at) {
                    let values = values(record, at, 1);
                    let (here, behind) = out.split_at_mut(values.len().max(1));
                    here[0] = 0.0;
                    for (out, word) in here.iter_mut().zip(values) {
                        *out = f32::from_bits(*word);
                    }
                    out = behind;
                }
            }
            SlotKind::Id => {
                let mut out = tensor.resize::<i64>(shape);
                for (record, at) in records.iter().zip(&mut self.at) {
                    let values = values(record, at, 2);
                    let (here, behind) = out.split_at_mut((values.len() / 2).max(1));
                    here[0] = 0;
                    for (out, words) in here.iter_mut().zip(values.chunks_exact(2)) {
                        *out = id(words);
                    }
                    out = behind;
                }
            }
        }
        tensor.set_lod(lod);
        Ok(())
    }
}

/// The values of the slot at `at`, which moves behind them.
#[inline]
fn values<'a>(record: &'a [u32], at: &mut usize, width: usize) -> &'a [u32] {
    let from = *at + 1;
    *at = from + record[*at] as usize * width;
    &record[from..*at]
}

/// The shape of `total` values.
fn shape(slot: &Slot, total: usize) -> Result<Shape> {
    let Some(dims) = &slot.dense else { return Ok(Shape::from([total, 1])) };
    let fixed: i64 = dims.iter().filter(|&&dim| dim != -1).product();
    let fixed = fixed as usize;
    let filled = if dims.contains(&-1) { total.is_multiple_of(fixed) } else { total == fixed };
    if !filled {
        let (slot, shape) = (slot.name.clone(), dims.clone());
        return Err(Error::DenseFill { slot, shape, found: total });
    }
    let open = (total / fixed) as i64;
    let dims: Vec<i64> = dims.iter().map(|&dim| if dim == -1 { open } else { dim }).collect();
    Ok(Shape::from_dims(&dims)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::multi_slot::MultiSlot;
    use crate::records::Records;

    fn batch(slots: &[Slot], lines: &[&str]) -> Result<Feed> {
        let (parser, mut records) = (MultiSlot::new(slots).unwrap(), Records::default());
        for line in lines {
            parser.parse(line.as_bytes(), &mut records).unwrap();
            records.commit();
        }
        let all: Vec<&[u32]> = (0..records.len()).map(|at| records.get(at)).collect();
        let mut batch = Feed::new();
        Batcher::new(slots).fill(&all, &mut batch)?;
        Ok(batch)
    }

    #[test]
    fn a_slot_becomes_a_ragged_tensor_or_a_dense_one() {
        let slots = [Slot::floats("x").dense(&[-1, 2]), Slot::ids("c"), Slot::ids("label")];
        let made = batch(&slots, &["2 1 2 2 7 8 1 0", "2 3 4 1 9 1 1"]).unwrap();
        let names: Vec<_> = made.names().collect();
        let made: Vec<&Tensor> = made.tensors().collect();
        assert_eq!(names, ["x", "c", "label"]);
        assert_eq!(*made[0], Tensor::new([2, 2], &[1f32, 2.0, 3.0, 4.0]).unwrap());
        let mut ids = Tensor::new([3, 1], &[7i64, 8, 9]).unwrap();
        ids.set_lod(Lod::from_lengths([2, 1]));
        assert_eq!(*made[1], ids);
        assert_eq!(made[2].lod().levels(), [vec![0, 1, 2]]);
    }

    /// Recorded from Fluid 1.8.5, whose samples in memory have no zeros in sequences.
    #[test]
    fn a_sequence_without_its_zeros_has_one_if_it_is_empty() {
        let a = Slot::ids("a");
        let f = Slot::floats("f");
        let d = Slot::floats("d").dense(&[-1, 2]);
        let slots = [a, f, d];
        let (parser, mut records) = (MultiSlot::new(&slots).unwrap(), Records::default());
        for line in
            ["3 0 5 0 2 0.0 1.5 2 0.5 0", "1 0 1 5e-7 2 0 0", "2 -1 0 3 -0.5 1e-6 -1e-7 2 1 2"]
        {
            parser.parse(line.as_bytes(), &mut records).unwrap();
            records.commit();
            records.drop_zeros(&slots);
        }
        let mut bytes = Vec::new();
        (0..3).for_each(|at| records.write_bytes(at, &mut bytes));
        let mut sent = Records::default();
        sent.read_bytes(&bytes, &slots).expect("empty sequences can be sent");
        assert_eq!(sent, records);
        let all: Vec<&[u32]> = (0..records.len()).map(|at| records.get(at)).collect();
        let mut batch = Feed::new();
        Batcher::new(&slots).fill(&all, &mut batch).unwrap();
        let made: Vec<&Tensor> = batch.tensors().collect();
        assert_eq!(made[0].data::<i64>().unwrap(), [5, 0, -1]);
        assert_eq!(made[1].data::<f32>().unwrap(), [1.5, 0.0, -0.5]);
        assert_eq!(made[2].data::<f32>().unwrap(), [0.5, 0.0, 0.0, 0.0, 1.0, 2.0]);
        assert_eq!(made[0].lod().levels(), [vec![0, 1, 2, 3]]);
    }

    #[test]
    fn a_slot_that_is_not_used_is_not_there() {
        let mut slots = [Slot::ids("a"), Slot::floats("b"), Slot::ids("c")];
        slots[1].used = false;
        let made = batch(&slots, &["1 5 1 0.5 1 6"]).unwrap();
        let made: Vec<&Tensor> = made.tensors().collect();
        assert_eq!(made.len(), 2);
        assert_eq!(made[1].data::<i64>().unwrap(), [6]);
    }

    #[test]
    fn the_open_dimension_may_be_anywhere() {
        let slots = [Slot::floats("x").dense(&[2, -1])];
        let made = batch(&slots, &["4 1 2 3 4", "2 5 6"]).unwrap();
        assert_eq!(made.tensors().next().unwrap().dims(), [2, 3]);
        let error = batch(&slots, &["3 1 2 3"]).unwrap_err();
        assert!(matches!(error, Error::DenseFill { found: 3, .. }), "{error}");
        let slots = [Slot::floats("x").dense(&[2, 2])];
        let error = batch(&slots, &["4 1 2 3 4", "4 1 2 3 4"]).unwrap_err();
        assert!(matches!(error, Error::DenseFill { found: 8, .. }), "{error}");
    }
}
