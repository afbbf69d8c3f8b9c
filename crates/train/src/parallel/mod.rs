//! One program on several devices: each computes gradients on its part of a batch, they are added
//! up in device order, and the parameters change once.
//!
//! Parameters exist once, in the scope; devices read them at the same time. Each device has its own
//! copy of the variables that it writes (running statistics, counters); the first device's is the
//! scope's. With Fluid's `ReduceStrategy.Reduce` they share the counters of metrics, and count one
//! after the other.

mod among;
mod device;
mod event;
pub(crate) mod loss;
mod split;
pub(crate) mod stage;

use std::collections::HashSet;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base::{DidYouMean, EvenIfPoisoned};
use program::{Error as ProgramError, OpDesc, Program};
use tensor::{Tensor, Value};

pub use crate::replicas::Replicas;
pub use loss::LossScale;
pub use split::{join, split};

use crate::error::{Error, Result};
use crate::executor::Feed;
use crate::gradients;
use crate::remote::{Prefetch, Session, TrainerJob};
use crate::scope::Scope;
use crate::trainer::JobRunner;
use crate::trainer::event::Again;
use among::Among;
use device::{Device, Stop};
use event::ParallelEvent;
use loss::Loss;
use stage::{Names, Stage, Stages};

/// Programs kept in stages; the oldest goes when there are more.
const STAGES_MAX: usize = 8;

/// Runs one program on several devices.
#[derive(Debug)]
pub struct Parallel {
    loss: Loss,
    devices: Vec<Device>,
    /// Runs what runs once.
    once: JobRunner,
    replicas: Replicas,
    cache: Vec<(Key, Arc<Stages>)>,
    /// The scope of the last run, and the scope inside it for variables that are not the user's.
    inner: Option<(u64, Scope)>,
    stop: Option<StopCheck>,
    /// How many devices a fetched value is taken from.
    n_fetched: usize,
    /// The data needed to repeat runs.
    again: Again<Parallel>,
    /// The trainers that it adds up gradients with, without servers.
    among: Option<Among>,
}

struct StopCheck(Stop);

impl std::fmt::Debug for StopCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a caller that may want to stop")
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Key {
    program: u64,
    version: u64,
    fetch: Names,
}

impl Parallel {
    /// `n_devices` devices that train, if there is a `scale` for the gradient of their loss.
    pub fn new(n_devices: usize, scale: Option<LossScale>) -> Self {
        let n_devices = n_devices.max(1);
        let mut devices = Vec::new();
        devices.resize_with(n_devices, Device::default);
        devices.iter_mut().for_each(|device| device.runner_mut().set_part());
        Self {
            loss: Loss { scale, n_devices, n_trainers: 1, counts_together: false },
            devices,
            once: JobRunner::default(),
            replicas: Replicas::default(),
            cache: Vec::new(),
            inner: None,
            stop: None,
            n_fetched: n_devices,
            again: Again::default(),
            among: None,
        }
    }

    /// Another one that does as this one does, with the same variables.
    fn twin(&self) -> Self {
        let mut twin = Self::new(self.loss.n_devices, self.loss.scale);
        (twin.loss, twin.n_fetched) = (self.loss, self.n_fetched);
        twin.replicas = self.replicas.clone();
        twin.among = self.among.as_ref().map(Among::twin);
        twin
    }

    /// Lets devices count samples into the same counters (Fluid: `ReduceStrategy.Reduce` on CPUs).
    pub fn count_together(&mut self) {
        self.loss.counts_together = true;
    }

    /// Devices of a job with servers (Fluid: `BuildStrategy.async_mode`): they share counters, what is
    /// fetched is the first device's, and in an async job each device sends its own gradients.
    pub fn fetch_first(&mut self) {
        self.count_together();
        self.n_fetched = 1;
    }

    /// Whether each device sends its own gradients, as if it was alone: servers take them one by one.
    fn sends_apart(&self, program: &Program) -> bool {
        let job = program.distributed.as_ref();
        let is_async = job.is_some_and(|job| job.mode.sends_in_background());
        is_async && self.n_fetched == 1 && self.loss.trains()
    }

    /// How the gradient of the loss begins when `program` is run.
    fn loss(&self, program: &Program) -> Loss {
        match (self.loss.scale, self.sends_apart(program)) {
            // Nothing is averaged over devices that send apart.
            (Some(LossScale::PerDevice), true) => Loss { scale: Some(LossScale::One), ..self.loss },
            _ => self.loss,
        }
    }

    /// Lets another program of as many devices see this one's variables: training and testing.
    pub fn replicas(&self) -> Replicas {
        self.replicas.clone()
    }

    /// Uses the variables of another one's devices.
    pub fn share(&mut self, replicas: Replicas) {
        self.replicas = replicas;
    }

    /// How many devices there are.
    pub fn n_devices(&self) -> usize {
        self.devices.len()
    }

    /// Whether a batch may have fewer samples than there are devices.
    pub fn allows_idle(&self, program: &Program) -> bool {
        let mut ops = program.blocks().iter().flat_map(|block| &block.ops);
        !self.loss.trains() || !ops.any(OpDesc::is_backward)
    }

    /// Says that the last batches of a pass are not trained on, because there are fewer than devices.
    pub fn say_left_out(&self, n_batches: usize) {
        tracing::warn!(
            target: "paddlewheel::data",
            n_batches,
            n_places = self.n_devices(),
            "drop_last=False for DataLoader is not supported in training network: a place would have no \
             batch, so the last ones of this pass are left out"
        );
    }

    /// Asks `stop` now and then whether a run must end; see [`crate::Executor::poll`].
    pub fn poll(&mut self, every: Duration, stop: impl FnMut() -> bool + Send + 'static) {
        let stop: Stop = Arc::new(Mutex::new(stop));
        let runners = self.devices.iter_mut().map(Device::runner_mut);
        for runner in runners.chain([&mut self.once]) {
            let stop = stop.clone();
            runner.poll(every, move || (stop.lock().even_if_poisoned())());
        }
        self.stop = Some(StopCheck(stop));
    }

    /// Takes part in this job; gradients are sent once for all devices.
    pub fn set_job(&mut self, job: &TrainerJob) {
        let runners = self.devices.iter_mut().map(Device::runner_mut);
        runners.chain([&mut self.once]).for_each(|own| own.set_job(job.clone()));
    }

    /// Whether a run fails as soon as an op writes a number that is not finite.
    pub fn check_nan_inf(&mut self, check: bool) {
        let runners = self.devices.iter_mut().map(Device::runner_mut);
        for runner in runners.chain([&mut self.once]) {
            runner.options_mut().check_nan_inf = check;
        }
    }

    /// Runs a step: `feeds` has one for each device, or fewer if the others stay idle.
    ///
    /// Returns, for each variable asked for, its value on each device that ran.
    pub fn run(
        &mut self,
        program: &Program,
        scope: &Scope,
        feeds: &mut [Feed],
        fetch: &[&str],
    ) -> Result<Vec<Vec<Tensor>>> {
        let job = self.once.job().clone();
        let fetched = Vec::new();
        let mut event = ParallelEvent { parallel: self, program, scope, feeds, fetch, fetched };
        job.do_event(&mut event)?;
        Ok(event.fetched)
    }

    fn run_plain(
        &mut self,
        program: &Program,
        scope: &Scope,
        feeds: &mut [Feed],
        fetch: &[&str],
    ) -> Result<Vec<Vec<Tensor>>> {
        let anew = self.once.job().links().moves.followed_program(program)?;
        let program = anew.as_deref().unwrap_or(program);
        let n_devices = self.devices.len();
        let enough = feeds.len() == n_devices || self.allows_idle(program);
        if feeds.len() > n_devices || !enough {
            return Err(Error::FeedCount { feeds: feeds.len(), devices: n_devices });
        }
        if self.among.is_some() {
            self.begin_among(program, scope)?;
            if n_devices == 1 {
                return self.run_alone(program, scope, feeds, fetch);
            }
        }
        let stages = self.stages(program, fetch);
        check_fetches(program, &stages, feeds, fetch)?;
        let inner = self.inner(program, scope);
        let mut prefetch = Prefetch::default();
        Session::new(self.once.job(), program.distributed.clone(), &mut prefetch).start(scope);
        let apart = self.sends_apart(program);
        for stage in &stages.stages {
            self.run_stage(stage, &inner, feeds, apart)?;
        }
        let collect = |&name: &&str| self.collect(name, &stages, &inner, feeds);
        fetch.iter().map(collect).collect()
    }

    /// The program in stages, made if it was not there.
    fn stages(&mut self, program: &Program, fetch: &[&str]) -> Arc<Stages> {
        let fetch: Names = fetch.iter().map(|name| name.to_string()).collect();
        let key = Key { program: program.id(), version: program.version(), fetch };
        if let Some((_, stages)) = self.cache.iter().find(|(own, _)| *own == key) {
            return stages.clone();
        }
        let stages = Arc::new(Stages::new(program, self.loss(program), &key.fetch));
        if self.cache.len() == STAGES_MAX {
            self.cache.remove(0);
        }
        self.cache.push((key, stages.clone()));
        stages
    }

    /// A scope inside the user's. Gradients and other temporaries stay in it.
    fn inner(&mut self, program: &Program, scope: &Scope) -> Scope {
        let persistable = program.block(0).vars().iter().filter(|var| var.persistable);
        persistable
            .filter(|var| scope.find(&var.name).is_none())
            .for_each(|var| scope.var(&var.name));
        match &self.inner {
            Some((id, inner)) if *id == scope.id() => inner.clone(),
            _ => {
                let inner = scope.detached();
                self.inner = Some((scope.id(), inner.clone()));
                inner
            }
        }
    }

    fn run_stage(
        &mut self,
        stage: &Stage,
        inner: &Scope,
        feeds: &mut [Feed],
        apart: bool,
    ) -> Result<()> {
        let fed: HashSet<String> =
            feeds.first().into_iter().flat_map(Feed::names).map(str::to_string).collect();
        let n_used = feeds.len();
        self.give(stage, inner, &fed, n_used);
        if !stage.pass_on.is_empty() {
            let ran = self.run_in_turn(stage, inner, feeds);
            stage.lend.iter().for_each(|name| inner.write(name, Value::unshare));
            return ran.map_err(|error| stage.local.blame(error));
        }
        let stop = self.stop.as_ref().map(|asked| &asked.0);
        let (program, in_turn) = (&stage.local.program, stage.in_turn);
        let ran = device::run_all(&mut self.devices, feeds, program, in_turn, stop);
        self.take_back(stage, inner, n_used);
        ran.map_err(|error| stage.local.blame(error))?;
        if apart {
            for at in 0..n_used {
                self.merge(stage, inner, at..at + 1)?;
                self.run_once(stage, inner, &feeds[at..at + 1])?;
            }
        } else {
            self.merge(stage, inner, 0..n_used)?;
            self.run_once(stage, inner, feeds)?;
        }
        for name in &stage.refresh {
            self.replicas.lock().remove(name);
        }
        Ok(())
    }

    /// Runs what runs once for devices, which have these feeds.
    fn run_once(&mut self, stage: &Stage, inner: &Scope, feeds: &[Feed]) -> Result<()> {
        if stage.once.origin.is_empty() {
            return Ok(());
        }
        let (once, mut joined) = (&stage.once, joined(stage, feeds)?);
        let ran = self.once.run_into(&once.program, inner, &mut joined, &[], &mut Vec::new());
        ran.map_err(|error| once.blame(error))
    }

    /// Runs one device after the other; what they pass on goes from each to the next.
    fn run_in_turn(&mut self, stage: &Stage, inner: &Scope, feeds: &mut [Feed]) -> Result<()> {
        let mut ran = Ok(());
        for (at, feed) in feeds.iter_mut().enumerate() {
            let device = &mut self.devices[at];
            for name in &stage.pass_on {
                device.give(name, inner.write(name, std::mem::take));
            }
            if ran.is_ok() {
                ran = device.run(&stage.local.program, feed);
            }
            self.take_back_of(at, stage, inner);
        }
        ran
    }

    /// Lends the devices what they read and gives them what is theirs.
    fn give(&mut self, stage: &Stage, inner: &Scope, fed: &HashSet<String>, n_used: usize) {
        let mut replicas = self.replicas.lock();
        let (devices, n_devices) = (&mut self.devices[..n_used], self.loss.n_devices);
        for name in stage.lend.iter().filter(|name| !fed.contains(*name)) {
            let shared = inner.write(name, Value::share);
            for (at, device) in devices.iter_mut().enumerate() {
                let own = replicas.get_mut(name).and_then(|own| own.get_mut(at.wrapping_sub(1)));
                let value = match (own, &shared) {
                    (Some(own), _) => std::mem::take(own),
                    (None, Some(shared)) => Value::Shared(shared.clone()),
                    (None, None) => inner.get(name).unwrap_or_default(),
                };
                device.give(name, value);
            }
        }
        for name in stage.own.iter().filter(|name| !fed.contains(*name)) {
            let mut first = inner.write(name, std::mem::take);
            let others = replicas.entry(name.clone()).or_insert_with(|| {
                first.unshare();
                vec![first.clone(); n_devices - 1]
            });
            let others = others.iter_mut().map(std::mem::take);
            let values = std::iter::once(std::mem::take(&mut first)).chain(others);
            devices.iter_mut().zip(values).for_each(|(device, value)| device.give(name, value));
        }
    }

    /// Takes back what [`Parallel::give`] gave.
    fn take_back(&mut self, stage: &Stage, inner: &Scope, n_used: usize) {
        (0..n_used).for_each(|at| self.take_back_of(at, stage, inner));
        stage.lend.iter().for_each(|name| inner.write(name, Value::unshare));
    }

    fn take_back_of(&mut self, at: usize, stage: &Stage, inner: &Scope) {
        let mut replicas = self.replicas.lock();
        for (name, value) in self.devices[at].give_back() {
            let is_first = at == 0 && stage.own.contains(&name);
            if is_first || stage.pass_on.contains(&name) {
                inner.write(&name, |own| *own = value);
            } else if let Some(own) =
                replicas.get_mut(&name).and_then(|own| own.get_mut(at.wrapping_sub(1)))
            {
                *own = value;
            }
        }
    }

    /// Adds up the gradients of some devices, and hands over what else they made for the ops that run
    /// once.
    fn merge(&mut self, stage: &Stage, inner: &Scope, devices: Range<usize>) -> Result<()> {
        let Some((first, others)) = self.devices[devices].split_first() else { return Ok(()) };
        for name in &stage.merge {
            // The old sum's memory becomes that of the first device's next gradient.
            let mut sum = inner.write_own(name, std::mem::take);
            first.swap(name, &mut sum);
            let values: Vec<Value> = others.iter().map(|device| device.take(name)).collect();
            let added = gradients::add_up(name, &mut sum, &values);
            others.iter().zip(values).for_each(|(device, mut value)| device.swap(name, &mut value));
            inner.write_own(name, |own| *own = sum);
            added?;
        }
        for name in &stage.hand {
            let value = first.read(name, Value::clone);
            inner.write_own(name, |own| *own = value);
        }
        Ok(())
    }

    /// A variable on each device after a run.
    fn collect(
        &self,
        name: &str,
        stages: &Stages,
        inner: &Scope,
        feeds: &[Feed],
    ) -> Result<Vec<Tensor>> {
        let replicas = self.replicas.lock();
        let in_scope = |name| inner.read(name, |value| tensor_of(name, value));
        let near = DidYouMean::default();
        let missing = || Err(Error::FetchUnknown { var: name.to_string(), near: near.clone() });
        let common = stages.is_common(name);
        let of_device = |(at, (device, feed)): (usize, (&Device, &Feed))| {
            if let Some(tensor) = feed.get(name) {
                return Ok(tensor.clone());
            }
            match replicas.get(name).and_then(|own| own.get(at.wrapping_sub(1))) {
                Some(own) => tensor_of(name, own),
                None if common || stages.own.contains(name) => {
                    in_scope(name).unwrap_or_else(missing)
                }
                None => device.read(name, |value| tensor_of(name, value)),
            }
        };
        let devices = self.devices.iter().zip(feeds).take(self.n_fetched);
        devices.enumerate().map(of_device).collect()
    }
}

/// The part of the feeds that the ops that run once read: that of all devices.
fn joined(stage: &Stage, feeds: &[Feed]) -> Result<Feed> {
    let mut joined = Feed::new();
    for name in &stage.fed {
        let parts: Vec<Tensor> = feeds.iter().filter_map(|feed| feed.get(name)).cloned().collect();
        if !parts.is_empty() {
            joined.set(name, join(name, &parts)?);
        }
    }
    Ok(joined)
}

fn tensor_of(name: &str, value: &Value) -> Result<Tensor> {
    if let Some(tensor) = value.tensor() {
        return Ok(tensor.clone());
    }
    let var = name.to_string();
    if value.is_empty() {
        return Err(ProgramError::NotInitialized { port: "X".to_string(), var }.into());
    }
    Err(Error::FetchKind { var, actual: value.kind() })
}

fn check_fetches(program: &Program, stages: &Stages, feeds: &[Feed], fetch: &[&str]) -> Result<()> {
    for &name in fetch {
        let var = name.to_string();
        let desc = program.find_var(0, name);
        let desc = desc.ok_or_else(|| Error::fetch_unknown(name, program))?;
        let fed = feeds.first().is_some_and(|feed| feed.get(name).is_some());
        if !desc.persistable && !fed && !stages.writes(name) {
            return Err(Error::FetchNotComputed { var });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
