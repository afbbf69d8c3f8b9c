//! What all trainers do together: wait, add up, trade.

use train::remote::Peers;

use crate::error::{Error, Result};
use crate::lifecycle::Fleet;
use crate::role::Part;

impl Fleet {
    /// Waits for all trainers. What any of them sent before, in whatever mode, is served then: who
    /// saves after a barrier saves all of it.
    pub fn barrier_worker(&self) -> Result<()> {
        self.need(Part::Trainer, "meet the others")?;
        self.cluster().settle()?;
        self.meet("barrier", Vec::new()).map(drop)
    }

    /// Bytes of all trainers, in their order.
    fn meet(&self, place: &str, bytes: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        self.need(Part::Trainer, "meet the others")?;
        self.cluster().join(&self.split("main_program")?.job);
        Ok(self.cluster().meet(place, bytes)?)
    }

    /// Numbers of all trainers put together, place by place, in the trainers' order: the same bits
    /// for all of them. `how` is `sum`, `min` or `max`.
    pub fn all_reduce_worker(&self, numbers: &[f64], how: &str) -> Result<Vec<f64>> {
        let join: fn(f64, f64) -> f64 = match how {
            "sum" => |a, b| a + b,
            "min" => f64::min,
            "max" => f64::max,
            _ => return Err(Error::UnknownReduction(how.to_string())),
        };
        if self.role().n_trainers == 1 {
            self.need(Part::Trainer, "meet the others")?;
            return Ok(numbers.to_vec());
        }
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let mut all = self.meet("all_reduce", bytes)?.into_iter().map(read_numbers).enumerate();
        let mut result = all.next().map(|(_, first)| first).unwrap_or_default();
        let uneven = |trainer, actual| {
            Err(Error::UnevenReduction { trainer, expected: numbers.len(), actual })
        };
        if result.len() != numbers.len() {
            return uneven(0, result.len());
        }
        for (trainer, other) in all {
            if other.len() != numbers.len() {
                return uneven(trainer, other.len());
            }
            result.iter_mut().zip(other).for_each(|(own, other)| *own = join(*own, other));
        }
        Ok(result)
    }

    /// The other trainers, for a dataset to trade samples with; `None` if there are none.
    pub fn peers(&self) -> Result<Option<Peers>> {
        self.need(Part::Trainer, "trade with the others")?;
        if self.role().n_trainers == 1 {
            return Ok(None);
        }
        Ok(Some(self.cluster().peers(&self.split("main_program")?.job)))
    }
}

fn read_numbers(bytes: Vec<u8>) -> Vec<f64> {
    let (numbers, _) = bytes.as_chunks::<8>();
    numbers.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect()
}
