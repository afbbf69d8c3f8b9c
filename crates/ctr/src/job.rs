//! Training with parameter servers: each process of the job runs the same script.

use std::path::PathBuf;

use fleet::lifecycle::{Minimize, Served};
use fleet::ready::Watch;
use fleet::{Flags, Fleet, Strategy};
use program::backward::Limits;
use program::{Net, Var, VarDesc};
use train::io::{JobScope, is_persistable, load_vars};
use train::{Executor, Feed, Scope, Trainer};

use crate::epochs::{Best, Epoch, Rows};
use crate::error::{Error, Result};
use crate::json;
use crate::model::CtrModel;
use crate::settings::Ctr;

/// A process of a job.
pub(crate) struct CtrWorker<'a> {
    pub(crate) settings: &'a Ctr,
    pub(crate) fleet: Fleet,
    pub(crate) loss: &'a Var,
}

impl CtrWorker<'_> {
    /// Serves, or trains `model` with the programs of `net`. How a server ended, if it is one.
    pub(crate) fn run(
        mut self,
        net: &mut Net,
        model: &mut CtrModel,
        rows: &Rows,
        watch: &mut Watch<'_>,
    ) -> Result<Option<Served>> {
        let flags = fleet::flags::current()?;
        self.split(net, &flags, watch)?;
        if self.fleet.role().is_server() {
            let scope = Scope::new();
            self.fleet.init_server(&scope, None)?;
            return Ok(Some(self.fleet.run_server(&scope)?));
        }
        model.is_copy = !self.fleet.role().is_first_trainer();
        self.fleet.init_worker(&mut |_| {})?;
        self.check_tables(model)?;
        let (mut trainer, scope) = (Trainer::new(), Scope::new());
        trainer.set_job(self.fleet.trainer_job().clone());
        trainer.run(&net.startup, &scope, &mut Feed::new(), &[])?;
        let (id, n) = (self.fleet.role().id as usize, self.fleet.role().n_trainers as usize);
        let pulled = Pulled::new(id, &flags);
        let mut best = Best::new(self.settings);
        let mut best_scope = None;
        for epoch in 1..=self.settings.epochs {
            let step = Epoch {
                settings: self.settings,
                nth: epoch,
                rows: rows.order(self.settings, epoch),
                rows_of: rows,
            };
            let run = |feed: &mut Feed| -> Result<f64> {
                let fetched = trainer.run(&net.main, &scope, feed, &[self.loss.name()])?;
                Ok(fetched[0].get_f64(0))
            };
            let loss = step.of_worker(id, n).run(&model.encoding, run, watch)?;
            // The steps of all workers are part of the model that is pulled.
            self.fleet.barrier_worker()?;
            pulled.pull(epoch, &self.fleet, net, model)?;
            let score = self.judge(rows, model)?;
            let is_best = best.take(epoch, score, Vec::new);
            if is_best {
                best_scope = Some(model.scope().clone());
            }
            if self.fleet.role().is_first_trainer() {
                (watch.on_line)(&best.line(epoch, loss, score, is_best));
            }
            if best.is_over(epoch) {
                break;
            }
        }
        if let Some(best) = best_scope {
            model.predictor.scope = best;
        }
        self.fleet.barrier_worker()?;
        self.fleet.stop_worker(&scope)?;
        Ok(None)
    }

    fn split(&mut self, net: &mut Net, flags: &Flags, watch: &mut Watch<'_>) -> Result<()> {
        let strategy = Strategy::new(self.settings.mode, flags, 1);
        let mut optimizer = self.settings.optimizer();
        let (optimizer, limits) = (&mut optimizer, &Limits::default());
        let minimized = Minimize { optimizer, loss: self.loss, limits, strategy };
        self.fleet.minimize(&mut net.builder(), minimized, watch)?;
        Ok(())
    }

    /// Workers that look at different tables would build different models.
    fn check_tables(&self, model: &CtrModel) -> Result<()> {
        let bytes = json::to_bytes(&model.encoding);
        let sum = f64::from(data::hash_id(&bytes, None, 1 << 31) as u32);
        let least = self.fleet.all_reduce_worker(&[sum], "min")?;
        let most = self.fleet.all_reduce_worker(&[sum], "max")?;
        if least == most { Ok(()) } else { Err(Error::WorkersDiffer) }
    }

    /// The first worker validates; all get its number.
    fn judge(&self, rows: &Rows, model: &mut CtrModel) -> Result<Option<f64>> {
        let own = if self.fleet.role().is_first_trainer() { rows.judge(model)? } else { None };
        let numbers = [f64::from(own.is_some()), own.unwrap_or(0.0)];
        let all = self.fleet.all_reduce_worker(&numbers, "sum")?;
        Ok((all[0] > 0.0).then_some(all[1]))
    }
}

/// The folder of a worker's copy of the servers' variables, before it reads them.
///
/// In a job that recovers, a worker that is started again goes through its epochs once more, and must find what
/// the servers had then. So all epochs are kept beside the snapshots. Otherwise one is kept, and removed in the end.
struct Pulled {
    dir: PathBuf,
    recovers: bool,
}

impl Pulled {
    fn new(worker: usize, flags: &Flags) -> Self {
        match flags.snapshot_dir() {
            Some(folder) => {
                // The launcher of the next job in this folder removes it.
                let dir = folder.join(format!("trainer.{worker}")).join("ctr");
                Self { dir, recovers: true }
            }
            None => {
                let name = format!("paddlewheel-ctr-{}-{worker}", std::process::id());
                Self { dir: fleet::env::temporary_folder().join(name), recovers: false }
            }
        }
    }

    /// Gives the model the parameters that the servers have after an epoch.
    fn pull(&self, epoch: u32, fleet: &Fleet, net: &Net, model: &mut CtrModel) -> Result<()> {
        let job = net.main.distributed.as_deref().expect("the program was split");
        // In an empty scope nothing is there, so all of it is fetched, whichever worker this is.
        let vars = JobScope { trainer: fleet.trainer_job(), scope: &Scope::new(), job };
        let program = &model.predictor.program;
        let wanted: Vec<VarDesc> =
            program.list_vars().filter(|var| is_persistable(var)).cloned().collect();
        let dir =
            if self.recovers { self.dir.join(format!("epoch_{epoch}")) } else { self.dir.clone() };
        let what = format!("the model after epoch {epoch}");
        fleet.trainer_job().saves(&what, &mut || {
            let _ = std::fs::remove_dir_all(&dir);
            vars.save_vars(&dir, &wanted, None)?;
            Ok(Vec::new())
        })?;
        let fresh = fresh_scope(model)?;
        load_vars(&fresh, &dir, &wanted, None)?;
        model.predictor.scope = fresh;
        Ok(())
    }
}

impl Drop for Pulled {
    fn drop(&mut self) {
        if !self.recovers {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

/// All variables as training starts: state that only servers have, such as that of the optimizer, begins
/// anew if the user continues training.
fn fresh_scope(model: &CtrModel) -> Result<Scope> {
    let scope = Scope::new();
    Executor::new().run(&model.net.startup, &scope, &mut Feed::new(), &[])?;
    Ok(scope)
}
