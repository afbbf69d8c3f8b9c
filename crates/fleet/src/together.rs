//! Operations of all trainers together: wait, add up, exchange.

use train::remote::Peers;

use crate::error::{Error, Result};
use crate::lifecycle::Fleet;
use crate::role::RoleKind;

impl Fleet {
    /// Waits for all trainers. In every mode, everything that any of them sent before is applied
    /// then. So a save after a barrier contains all of it.
    pub fn barrier_worker(&self) -> Result<()> {
        self.all_gather("barrier", &mut || {
            self.trainer_job().settle()?;
            Ok(Vec::new())
        })?;
        Ok(())
    }

    /// Bytes of all trainers, in their order.
    pub(crate) fn all_gather(
        &self,
        place: &str,
        bring: &mut dyn FnMut() -> train::Result<Vec<u8>>,
    ) -> Result<Vec<Vec<u8>>> {
        self.need(RoleKind::Trainer, "wait for the others")?;
        self.trainer_job().join(&self.split("main_program")?.job);
        Ok(self.trainer_job().all_gather_with(place, bring)?)
    }

    /// Combines numbers of all trainers element by element, in the order of ranks: all trainers get
    /// the same bits. `how` is `sum`, `min` or `max`.
    pub fn all_reduce_worker(&self, numbers: &[f64], how: &str) -> Result<Vec<f64>> {
        self.all_reduce_with(&mut || Ok(numbers.to_vec()), how)
    }

    /// Like [`Fleet::all_reduce_worker`], with numbers that `bring` computes. If an earlier process of
    /// this trainer did this in a job that recovers, `bring` is not called.
    pub(crate) fn all_reduce_with(
        &self,
        bring: &mut dyn FnMut() -> train::Result<Vec<f64>>,
        how: &str,
    ) -> Result<Vec<f64>> {
        let join: fn(f64, f64) -> f64 = match how {
            "sum" => |a, b| a + b,
            "min" => f64::min,
            "max" => f64::max,
            _ => return Err(Error::UnknownReduction(how.to_string())),
        };
        if self.role().n_trainers == 1 && !self.trainer_job().recovers() {
            self.need(RoleKind::Trainer, "wait for the others")?;
            return Ok(bring()?);
        }
        let gathered = self.all_gather("all_reduce", &mut || {
            Ok(bring()?.iter().flat_map(|number| number.to_le_bytes()).collect())
        })?;
        let all: Vec<Vec<f64>> = gathered.into_iter().map(read_numbers).collect();
        let expected = all.get(self.role().id as usize).map_or(0, Vec::len);
        if let Some(trainer) = all.iter().position(|one| one.len() != expected) {
            let actual = all[trainer].len();
            return Err(Error::UnevenReduction { trainer, expected, actual });
        }
        let mut all = all.into_iter();
        let mut result = all.next().unwrap_or_default();
        for other in all {
            result.iter_mut().zip(other).for_each(|(own, other)| *own = join(*own, other));
        }
        Ok(result)
    }

    /// The other trainers, with which a dataset exchanges samples; `None` if there are none.
    pub fn peers(&self) -> Result<Option<Peers>> {
        self.need(RoleKind::Trainer, "exchange with the others")?;
        if self.role().n_trainers == 1 {
            return Ok(None);
        }
        let peers = self.trainer_job().peers(&self.split("main_program")?.job);
        let folder = self.flags().snapshot_dir();
        let folder = folder.map(|folder| folder.join(format!("trainer.{}", self.role().id)));
        Ok(Some(peers.keeping_in(folder)))
    }
}

fn read_numbers(bytes: Vec<u8>) -> Vec<f64> {
    let (numbers, _) = bytes.as_chunks::<8>();
    numbers.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect()
}
