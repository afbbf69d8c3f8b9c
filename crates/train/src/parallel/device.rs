//! The devices: each runs its part of a stage with variables of its own.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use base::EvenIfPoisoned;
use program::Program;
use tensor::Value;

use crate::error::Result;
use crate::executor::{Feed, Interrupt};
use crate::scope::Scope;
use crate::trainer::JobRunner;

/// Asks whether to continue; all devices ask the same.
pub(super) type Stop = Arc<Mutex<dyn FnMut() -> bool + Send>>;

/// Work that takes less than this is not worth a thread.
const THREAD_WORTH: Duration = Duration::from_micros(100);

/// One device: a runner and the variables it sees.
#[derive(Debug, Default)]
pub(super) struct Device {
    runner: JobRunner,
    scope: Scope,
    /// Variables that it has borrowed and must give back.
    held: Vec<String>,
    /// How long the last run took.
    took: Duration,
}

impl Device {
    /// Puts a value into a variable, to be taken back.
    pub(super) fn give(&mut self, name: &str, value: Value) {
        self.held.push(name.to_string());
        self.scope.write_own(name, |own| *own = value);
    }

    /// Takes the value of a variable; its place holds what is given instead.
    pub(super) fn swap(&self, name: &str, other: &mut Value) {
        self.scope.write_own(name, |own| std::mem::swap(own, other));
    }

    /// Takes the value of a variable away.
    pub(super) fn take(&self, name: &str) -> Value {
        self.scope.write_own(name, std::mem::take)
    }

    /// Looks at a variable.
    pub(super) fn read<R>(&self, name: &str, look: impl FnOnce(&Value) -> R) -> R {
        self.scope.write_own(name, |value| look(value))
    }

    /// Everything that was given, as it is now.
    pub(super) fn give_back(&mut self) -> Vec<(String, Value)> {
        let names = std::mem::take(&mut self.held);
        names.into_iter().map(|name| (name.clone(), self.take(&name))).collect()
    }

    pub(super) fn run(&mut self, program: &Program, feed: &mut Feed) -> Result<()> {
        let start = Instant::now();
        let result = self.runner.run_into(program, &self.scope, feed, &[], &mut Vec::new());
        self.took = start.elapsed();
        result
    }

    #[cfg(test)]
    pub(super) fn pretend_slow(&mut self, slow: bool) {
        self.took = if slow { Duration::from_secs(1) } else { Duration::ZERO };
    }

    pub(super) fn runner_mut(&mut self) -> &mut JobRunner {
        &mut self.runner
    }
}

/// Runs a program on each device; the error is that of the first device that has one.
///
/// Devices share no variable they could change, so that it makes no difference whether they run
/// at the same time.
pub(super) fn run_all(
    devices: &mut [Device],
    feeds: &mut [Feed],
    program: &Program,
    in_turn: bool,
    stop: Option<&Stop>,
) -> Result<()> {
    let n_threads = thread::available_parallelism().map_or(1, usize::from).min(feeds.len());
    let pays = devices.iter().map(|device| device.took).max() > Some(THREAD_WORTH);
    if in_turn || n_threads < 2 || !pays {
        return run_some(devices, feeds, program);
    }
    let width = feeds.len().div_ceil(n_threads);
    let others = devices.iter().skip(width).map(|device| device.runner.interrupt());
    let others: Vec<Interrupt> = others.collect();
    let mut chunks = devices[..feeds.len()].chunks_mut(width).zip(feeds.chunks_mut(width));
    let Some((own_devices, own_feeds)) = chunks.next() else { return Ok(()) };
    thread::scope(|scope| {
        // A thread that ends drops its end of this channel.
        let (done, ended) = mpsc::channel::<()>();
        let handles: Vec<_> = chunks
            .map(|(devices, feeds)| {
                let done = done.clone();
                scope.spawn(move || {
                    let result = run_some(devices, feeds, program);
                    drop(done);
                    result
                })
            })
            .collect();
        drop(done);
        let own = run_some(own_devices, own_feeds, program);
        if own.is_err() {
            others.iter().for_each(Interrupt::set);
        }
        wait(&ended, stop, &others);
        let results = handles.into_iter().map(|handle| match handle.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        results.fold(own, Result::and)
    })
}

/// Waits for the other devices; interrupts them if the caller wants to end.
fn wait(ended: &mpsc::Receiver<()>, stop: Option<&Stop>, others: &[Interrupt]) {
    let every = Duration::from_millis(100);
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(every) {
        let stops = |stop: &Stop| (stop.lock().even_if_poisoned())();
        if stop.is_some_and(stops) {
            others.iter().for_each(Interrupt::set);
        }
    }
}

fn run_some(devices: &mut [Device], feeds: &mut [Feed], program: &Program) -> Result<()> {
    devices.iter_mut().zip(feeds).try_for_each(|(device, feed)| device.run(program, feed))
}
