//! Trainers without servers in one process: each is a thread with connections of its own, real sockets between
//! them.

use std::collections::BTreeMap;
use std::thread;

use net::tcp::Patience;
use program::{Net, UniqueNames, Var};
use tensor::Tensor;
use train::parallel::{LossScale, Parallel, split};
use train::remote::{TrainerJob, usual_log};
use train::{Feed, Result, Scope, Trainer};
use transpile::{CollectiveJob, CollectiveMode, transpile_collective};

use crate::cluster::free_endpoints;

/// Trainers that exchange with each other.
#[derive(Clone, Debug)]
pub struct Mates {
    /// How many.
    pub n_trainers: usize,
    /// How they keep their parameters equal.
    pub mode: CollectiveMode,
    /// Initial values of variables, instead of those of the net.
    pub init: BTreeMap<String, Tensor>,
    /// Devices of each trainer (mode "nccl2").
    pub n_devices: usize,
    /// Steps of each.
    pub n_steps: usize,
}

/// One of them.
struct Mate {
    me: usize,
    endpoints: String,
    net: Net,
    loss: Var,
}

/// The results of a trainer.
#[derive(Debug)]
pub struct Trained {
    /// The loss of each step.
    pub losses: Vec<f64>,
    /// Its variables.
    pub scope: Scope,
    /// The parameters after each step.
    pub after: Vec<BTreeMap<String, Tensor>>,
}

impl Mates {
    /// Trainers with one device each.
    pub fn new(n_trainers: usize, mode: CollectiveMode, n_steps: usize) -> Self {
        Self { n_trainers, mode, init: BTreeMap::new(), n_devices: 1, n_steps }
    }

    /// Trains; `net` builds the net of a trainer, `feed` gives its batches.
    pub fn train(
        &self,
        net: impl Fn(usize) -> (Net, Var) + Sync,
        feed: impl Fn(usize, usize) -> Feed + Sync,
    ) -> Vec<Result<Trained>> {
        let endpoints = free_endpoints(self.n_trainers);
        let endpoints: Vec<String> = endpoints.iter().map(ToString::to_string).collect();
        let net = &net;
        let feed = &feed;
        let endpoints = endpoints.join(",");
        thread::scope(|scope| {
            let start = |me: usize| {
                let endpoints = endpoints.clone();
                scope.spawn(move || {
                    let (net, loss) = net(me);
                    self.train_one(Mate { me, endpoints, net, loss }, feed)
                })
            };
            let threads: Vec<_> = (0..self.n_trainers).map(start).collect();
            let join = |thread: thread::ScopedJoinHandle<'_, _>| match thread.join() {
                Ok(trained) => trained,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            threads.into_iter().map(join).collect()
        })
    }

    fn train_one(
        &self,
        mate: Mate,
        feed: &(impl Fn(usize, usize) -> Feed + Sync),
    ) -> Result<Trained> {
        let Mate { me, endpoints, mut net, loss } = mate;
        let job = CollectiveJob::new(me as i64, &endpoints);
        let mut names = UniqueNames::default();
        transpile_collective(&mut net.main, &mut net.startup, self.mode, &job, &mut names)?;
        let patience = Patience { connect_ms: 20_000, answer_ms: 20_000, ..Patience::default() };
        let cluster = TrainerJob::new(patience, usual_log());
        let (mut executor, scope) = (Trainer::new(), Scope::new());
        executor.set_job(cluster.clone());
        executor.run(&net.startup, &scope, &mut Feed::new(), &[])?;
        self.init.iter().for_each(|(name, tensor)| scope.set(name, tensor.clone()));
        let mut parallel = Parallel::new(self.n_devices, Some(LossScale::PerDevice));
        parallel.set_job(&cluster);
        parallel.among_trainers(me as i64, self.n_trainers as i64)?;
        let params = net.main.block(0).vars().iter().filter(|var| var.param.is_some());
        let params: Vec<String> = params.map(|var| var.name.clone()).collect();
        let (mut losses, mut after) = (Vec::new(), Vec::new());
        for step in 0..self.n_steps {
            let mut batch = feed(me, step);
            let fetched = match self.mode {
                CollectiveMode::Nccl2 => {
                    let mut feeds = split(&batch, self.n_devices, false, |_| false)?;
                    parallel.run(&net.main, &scope, &mut feeds, &[loss.name()])?.swap_remove(0)
                }
                _ => executor.run(&net.main, &scope, &mut batch, &[loss.name()])?,
            };
            let sum: f64 = fetched.iter().map(|loss| loss.get_f64(0)).sum();
            losses.push(sum / fetched.len() as f64);
            let value = |name: &String| Some((name.clone(), scope.get(name)?.tensor()?.clone()));
            after.push(params.iter().filter_map(value).collect());
        }
        cluster.group().leave();
        Ok(Trained { losses, scope, after })
    }
}
