//! Runs prepared ops one after another.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use base::printable;
use program::op::{Host, Op, Run, Spare, Wiring};
use program::remote::Remote;
use program::trainers::Trainers;
use program::{Error as ProgramError, OpDesc};
use tensor::{DType, PackedMatrix, Tensor, Value, out_of_memory, within_memory};

use super::borrow::Borrows;
use super::keyed::{self, KeyedPart, KeyedUpdate};
use super::{Interrupt, OpRun, Options, PackedWeights, Poll, Profile, RunHost};
use crate::error::{Error, Result};
use crate::io;
use crate::scope::Scope;

/// One op with everything resolved.
pub(super) struct Step {
    pub(super) op: &'static dyn Op,
    pub(super) desc: OpDesc,
    pub(super) wiring: Wiring,
    /// Where in the user's block it stands.
    pub(super) index: usize,
    /// Whether it may have to do with a table that no memory holds.
    pub(super) keyed: KeyedPart,
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.desc)
    }
}

/// The checks and records of a run.
pub(super) struct Watch<'a> {
    pub(super) options: Options,
    pub(super) profile: &'a mut Profile,
    pub(super) interrupt: &'a Interrupt,
    pub(super) poll: Option<&'a mut Poll>,
    /// The scope that has the readers for `read` ops.
    pub(super) scope: &'a Scope,
    /// The servers and the trainers that ops talk to.
    pub(super) host: &'a mut dyn RunHost,
    /// Weights that were arranged beforehand.
    pub(super) packed: &'a PackedWeights,
    /// Values that ops borrow from other threads.
    pub(super) borrows: Option<Arc<Borrows>>,
}

impl Watch<'_> {
    fn stops(&mut self) -> bool {
        self.interrupt.is_set() || self.poll.as_mut().is_some_and(|poll| poll.stops())
    }
}

/// The world as ops of a local run see it.
struct World<'a, 'w> {
    blocks: &'a [Vec<Step>],
    watch: &'a mut Watch<'w>,
}

impl Host for World<'_, '_> {
    fn fresh_seed(&mut self) -> u32 {
        super::fresh_seed()
    }

    fn read(&mut self, reader: &str) -> program::Result<Option<Vec<Tensor>>> {
        self.watch.scope.read_batch(reader).map_err(program::op::host_error)
    }

    fn run_block(&mut self, block: usize, vars: &mut [Value]) -> program::Result<()> {
        let mut spare = Spare::default();
        run_block(self.blocks, block, vars, &mut spare, self.watch).map_err(|error| match error {
            Error::Program(error) => error,
            other => program::op::host_error(other),
        })
    }

    fn write_file(&mut self, path: &str, bytes: &[u8]) -> program::Result<()> {
        io::write_atomically(Path::new(path), bytes).map_err(program::op::host_error)
    }

    fn read_file(&mut self, path: &str) -> program::Result<Vec<u8>> {
        io::read_vars(Path::new(path), false).map_err(program::op::host_error)
    }

    fn packed(&self, var: &str) -> Option<Arc<PackedMatrix>> {
        self.watch.packed.get(var)
    }

    fn remote(&mut self) -> program::Result<&mut dyn Remote> {
        self.watch.host.remote()
    }

    fn trainers(&mut self) -> program::Result<&mut dyn Trainers> {
        self.watch.host.trainers()
    }

    fn print(&mut self, line: &str) -> program::Result<()> {
        // `fluid.layers.Print` writes to standard output; that nobody can read it ends no training.
        // The text is that of the program, which may be somebody else's file.
        let line = format!("{}\n", printable(line));
        let _ = std::io::stdout().lock().write_all(line.as_bytes());
        Ok(())
    }
}

/// Runs the ops of a block in order.
pub(super) fn run_block(
    blocks: &[Vec<Step>],
    block: usize,
    vars: &mut [Value],
    spare: &mut Spare,
    watch: &mut Watch<'_>,
) -> Result<()> {
    let borrows = watch.borrows.clone();
    for (at, step) in blocks.get(block).into_iter().flatten().enumerate() {
        if watch.stops() {
            let op = step.desc.kind.clone();
            return Err(Error::Interrupted { block, index: step.index, op });
        }
        let start = watch.options.profile.then(Instant::now);
        let borrowed = borrows.as_ref().map(|own| own.lend(block, at, vars));
        let mut world = World { blocks, watch };
        // Borrowed values go back even then: others wait for them.
        let ran = catch_unwind(AssertUnwindSafe(|| run_step(step, vars, spare, &mut world)));
        let (result, panic) = match ran {
            Ok(result) => (result, None),
            Err(panic) => match out_of_memory(&*panic) {
                Some(error) => (Err(error.into()), None),
                None => (Ok(()), Some(panic)),
            },
        };
        if let Some(start) = start {
            let (op, time) = (step.desc.kind.clone(), start.elapsed());
            watch.profile.add(block, step.index, OpRun { op, start, time });
        }
        if let (Some(borrows), Some(borrowed)) = (&borrows, borrowed) {
            borrows.take_back(borrowed, vars);
        }
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
        result.map_err(|source| in_op(block, step, source))?;
    }
    Ok(())
}

/// Runs one op. One on a table that no memory holds sees the rows that exist.
fn run_step(
    step: &Step,
    vars: &mut [Value],
    spare: &mut Spare,
    world: &mut World<'_, '_>,
) -> program::Result<()> {
    if step.keyed == KeyedPart::Start
        && let Some((slot, table)) = keyed::started(step)?
    {
        vars[slot] = table;
        return Ok(());
    }
    let checks = world.watch.options.check_nan_inf;
    let update = match step.keyed {
        KeyedPart::Update => KeyedUpdate::begin(step, vars)?,
        _ => None,
    };
    let mut run = || step.op.run(&mut Run::new(&step.desc, &step.wiring, vars, spare, world));
    let mut result = match &update {
        // Without memory, too, its rows go back.
        Some(_) => within_memory(run).unwrap_or_else(|error| Err(error.into())),
        None => run(),
    };
    if checks && result.is_ok() {
        result = check_finite(step, vars);
    }
    if let Some(update) = update {
        update.end(vars);
    }
    result
}

fn in_op(block: usize, step: &Step, source: ProgramError) -> Error {
    // An op inside a sub-block has said where it is; an interruption is nobody's fault.
    let source = match source {
        ProgramError::Host(inner) => match inner.downcast::<Error>() {
            Ok(ours) => return *ours,
            Err(inner) => ProgramError::Host(inner),
        },
        other => other,
    };
    Error::Program(step.desc.failed(block, step.index, source))
}

fn check_finite(step: &Step, vars: &[Value]) -> program::Result<()> {
    let slots = step.wiring.written();
    for (slot, name) in slots.zip(step.desc.writes()) {
        let tensor = match &vars[slot] {
            Value::Tensor(tensor) => tensor,
            Value::Rows(rows) => &rows.value,
            Value::Array(_)
            | Value::Shared(_)
            | Value::Steps(_)
            | Value::Keyed(_)
            | Value::Empty => continue,
        };
        if let Some(position) = first_not_finite(tensor) {
            let (op, var) = (step.desc.kind.clone(), name.to_string());
            return Err(ProgramError::NotFinite { op, var, position });
        }
    }
    Ok(())
}

fn first_not_finite(tensor: &Tensor) -> Option<usize> {
    match tensor.dtype() {
        DType::F32 => tensor.data::<f32>().ok()?.iter().position(|x| !x.is_finite()),
        DType::F64 => tensor.data::<f64>().ok()?.iter().position(|x| !x.is_finite()),
        _ => None,
    }
}
