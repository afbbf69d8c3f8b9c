//! Training: epochs over the rows, a look at the rows that were kept back, an early end.

use data::DataFrame;
use fleet::lifecycle::Served;
use fleet::ready::Watch;
use fleet::{Fleet, Role};
use program::backward::Limits;
use program::{Net, Program};
use tensor::Value;
use train::{Executor, Feed, Scope, Trainer};

use crate::encode::Encoding;
use crate::epochs::{Best, Epoch, Rows, Tables};
use crate::error::Result;
use crate::job::CtrWorker;
use crate::layers::{ModelBuilder, Outputs};
use crate::model::{CtrModel, Predict};
use crate::settings::Ctr;

/// The input of a training.
#[derive(Debug)]
pub struct Training<'a> {
    /// The rows.
    pub train: &'a DataFrame,
    /// Rows to validate with, instead of a part of those.
    pub validation: Option<&'a DataFrame>,
    /// The job of this process, if servers hold the model.
    pub fleet: Option<Fleet>,
}

/// The outcome of a training.
#[derive(Debug)]
pub enum Trained {
    /// A model.
    Model(Box<CtrModel>),
    /// This process was a server, and its job has ended.
    Served(Served),
}

impl Ctr {
    /// Trains in this process, without a word.
    pub fn fit(&self, train: &DataFrame) -> Result<CtrModel> {
        let mut watch = Watch { on_line: &mut |_| {}, stops: &mut || false };
        match self.fit_with(Training { train, validation: None, fleet: None }, &mut watch)? {
            Trained::Model(model) => Ok(*model),
            Trained::Served(_) => unreachable!("there is no job"),
        }
    }

    /// Trains, alone or as a process of a job. Says on the way what the columns are and how far it is.
    pub fn fit_with(&self, what: Training<'_>, watch: &mut Watch<'_>) -> Result<Trained> {
        self.check()?;
        let encoding = Encoding::fit(self, what.train)?;
        let rows =
            Rows::new(self, &encoding, Tables { train: what.train, validation: what.validation })?;
        let role = what.fleet.as_ref().map(Fleet::role);
        if role.is_none_or(Role::is_first_trainer) {
            encoding.table().iter().for_each(|line| (watch.on_line)(line));
        }
        let (net, outputs) = self.build(&encoding, &rows)?;
        let forward = predictions(&net.main, &outputs, &encoding)?;
        let mut net = net;
        let mut minimized = net.clone();
        let mut optimizer = self.optimizer();
        optimizer.minimize(&mut minimized.builder(), &outputs.loss, &Limits::default())?;
        let scope = Scope::new();
        let mut executor = Executor::new();
        executor.run(&minimized.startup, &scope, &mut Feed::new(), &[])?;
        let fetch = outputs.predicted.name().to_string();
        let predictor = Predict { program: forward, fetch, scope, executor };
        let mut model = CtrModel { encoding, net: minimized, predictor, is_copy: false };
        match what.fleet {
            None => self.train_alone(&mut model, &rows, &outputs, watch)?,
            Some(fleet) => {
                let worker = CtrWorker { settings: self, fleet, loss: &outputs.loss };
                if let Some(served) = worker.run(&mut net, &mut model, &rows, watch)? {
                    return Ok(Trained::Served(served));
                }
            }
        }
        Ok(Trained::Model(Box::new(model)))
    }

    fn build(&self, encoding: &Encoding, rows: &Rows) -> Result<(Net, Outputs)> {
        let mut net = Net::with_seed(self.seed);
        let (settings, base) = (self, rows.base(self.loss));
        let outputs = ModelBuilder { b: &mut net.builder(), settings, encoding, base }.build()?;
        Ok((net, outputs))
    }

    fn train_alone(
        &self,
        model: &mut CtrModel,
        rows: &Rows,
        outputs: &Outputs,
        watch: &mut Watch<'_>,
    ) -> Result<()> {
        let mut trainer = Trainer::new();
        let mut best = Best::new(self);
        for epoch in 1..=self.epochs {
            let step =
                Epoch { settings: self, nth: epoch, rows: rows.order(self, epoch), rows_of: rows };
            let loss = {
                let CtrModel { encoding, net, predictor, .. } = &*model;
                let run = |feed: &mut Feed| -> Result<f64> {
                    let fetch = [outputs.loss.name()];
                    let fetched = trainer.run(&net.main, &predictor.scope, feed, &fetch)?;
                    Ok(fetched[0].get_f64(0))
                };
                step.run(encoding, run, watch)?
            };
            let score = rows.judge(model)?;
            let is_best = best.take(epoch, score, || kept(&model.net.main, model.scope()));
            (watch.on_line)(&best.line(epoch, loss, score, is_best));
            if best.is_over(epoch) {
                break;
            }
        }
        for (name, value) in best.kept.unwrap_or_default() {
            model.scope().set(&name, value);
        }
        Ok(())
    }
}

/// The part of a program that predicts.
fn predictions(main: &Program, outputs: &Outputs, encoding: &Encoding) -> Result<Program> {
    let feeds = encoding.feeds();
    let feeds: Vec<&str> = feeds.iter().map(String::as_str).collect();
    Ok(main.clone_for_test().prune(&[outputs.predicted.name()], &feeds)?)
}

/// All that persists, as it is now.
fn kept(program: &Program, scope: &Scope) -> Vec<(String, Value)> {
    let vars = program.list_vars().filter(|var| var.persistable);
    vars.filter_map(|var| Some((var.name.clone(), scope.get(&var.name)?))).collect()
}
