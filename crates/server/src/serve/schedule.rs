//! Values that a server has once for all tables: learning rates, and the counters of steps they depend on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use program::Program;
use tensor::{DType, Tensor, Value};
use train::Scope;
use train::executor::{Executor, Feed};
use wire::{SharedMemory, VarId};

use super::table::{Answer, AskedVar, lend};
use super::values::{counter, first_number, make_own};
use crate::error::Result;

/// Counts steps for learning rates; trainers of asynchronous jobs send theirs.
const COUNTER: &str = "@LR_DECAY_COUNTER@";

/// See the module. Its variables are in the server's scope.
pub(super) struct Schedule {
    scope: Scope,
    executor: Executor,
    /// Computes the learning rates.
    program: Option<Program>,
    /// Values that were asked for and have not changed since.
    cache: BTreeMap<VarId, Arc<Value>>,
    /// Variables that cuts have.
    kept: BTreeSet<String>,
    memory: SharedMemory,
}

impl Schedule {
    pub(super) fn new(program: Option<Program>, scope: &Scope, memory: &SharedMemory) -> Self {
        let executor = Executor::new();
        let cache = BTreeMap::new();
        let memory = memory.clone();
        let (scope, kept) = (scope.clone(), BTreeSet::new());
        Self { scope, executor, program, cache, kept, memory }
    }

    /// Cuts have its variables, and those that tables share.
    pub(super) fn keep(&mut self, shared: BTreeSet<String>) {
        self.kept = self.names();
        self.kept.extend(shared);
    }

    /// The variables as they are now.
    pub(super) fn mark(&self) -> Vec<(String, Value)> {
        let one = |name: &String| Some((name.clone(), self.scope.get(name)?));
        self.kept.iter().filter_map(one).collect()
    }

    /// Takes a variable of a cut; false if it is not here.
    pub(super) fn load(&mut self, name: &str, value: Value) -> bool {
        self.cache.clear();
        let is_here = self.kept.contains(name);
        if is_here {
            self.scope.set(name, value);
        }
        is_here
    }

    /// The counter of a trainer's steps.
    pub(super) fn counter_of(trainer: u32) -> String {
        format!("{COUNTER}.trainer_{trainer}")
    }

    /// A trainer has made so many steps, if they are counted.
    pub(super) fn set_steps(&mut self, trainer: u32, steps: f64) {
        self.cache.clear();
        let name = Self::counter_of(trainer);
        let var = self.program.as_ref().and_then(|program| program.block(0).var(&name));
        if let Some(var) = var {
            self.scope.set(&name, counter(var, steps));
        }
    }

    /// Every variable that its ops name.
    pub(super) fn names(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut open = vec![0];
        let Some(program) = &self.program else { return names };
        // Its ops, and those of the blocks that they run.
        while let Some(block) = open.pop() {
            if !seen.insert(block) {
                continue;
            }
            for op in program.blocks().get(block).map_or(&[][..], |block| &block.ops) {
                names.extend(op.reads().chain(op.writes()).map(str::to_string));
                open.extend(op.sub_blocks());
            }
        }
        names
    }

    /// The learning rate of the first step; counters go up as trainers report steps. The names of the
    /// counters.
    pub(super) fn start_counters(&mut self) -> Result<BTreeSet<String>> {
        let mut counters = BTreeSet::new();
        let Some(program) = &self.program else { return Ok(counters) };
        let loaded = self.scope.get(COUNTER).and_then(|value| first_number(&value));
        for var in program.block(0).vars() {
            if let Some(rank) =
                var.name.strip_prefix(COUNTER).and_then(|r| r.strip_prefix(".trainer_"))
            {
                let steps = if rank == "0" { loaded.unwrap_or(0.0).max(0.0) } else { 0.0 };
                self.scope.set(&var.name, counter(var, steps));
                counters.insert(var.name.clone());
            }
        }
        self.run()?;
        Ok(counters)
    }

    /// Computes the learning rates of the next step.
    pub(super) fn run(&mut self) -> Result<()> {
        let Some(program) = &self.program else { return Ok(()) };
        self.cache.clear();
        for name in program.block(0).ops.iter().flat_map(|op| op.writes()) {
            if self.scope.find(name).is_some() {
                self.scope.write(name, |value| make_own(value, &self.memory));
            }
        }
        self.executor.run(program, &self.scope, &mut Feed::default(), &[])?;
        Ok(())
    }

    /// A trainer has made some more steps.
    pub(super) fn count(&mut self, counter: &str, steps: &Value) -> Result<()> {
        let more = first_number(steps).unwrap_or(0.0);
        self.cache.clear();
        self.scope.write(counter, |value| {
            make_own(value, &self.memory);
            let sum = first_number(value).unwrap_or(0.0) + more;
            if let Value::Tensor(tensor) = value {
                match tensor.dtype() {
                    DType::I64 => *tensor = Tensor::full([1], sum as i64),
                    _ => *tensor = Tensor::full([1], sum as f32),
                }
            }
        });
        self.run()
    }

    /// A variable as it is now.
    pub(super) fn value(&mut self, var: AskedVar<'_>) -> Answer<Arc<Value>> {
        if let Some(value) = self.cache.get(&var.id) {
            return Ok(value.clone());
        }
        let value = lend(&self.scope, var.name, Some(&self.memory))?;
        self.cache.insert(var.id, value.clone());
        Ok(value)
    }
}
