//! Folders that a version of the format of saved folders wrote, kept for ever: their contents, the code that
//! wrote them, and the values that must come back.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use program::{Meta, OpDesc, Program, VarDesc, stream};
use tensor::{DType, Tensor, Value};
use train::io::{self, Checkpoint, Checkpoints, SaveInference, StepsDone};
use train::{Result, Scope};

use crate::job::{self, Plan};
use crate::linear::Linear;

/// A way to save.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// A file for each variable, written by two saves.
    Variables,
    /// One file for all variables.
    Combined,
    /// A model for inference.
    Model,
    /// `fluid.save`.
    State,
    /// Three checkpoints, of which two are kept, with the arguments of two trainers.
    Checkpoints,
    /// The tables that a job of two servers saved, each its part.
    Tables,
}

/// A job whose servers save a table by rows.
const JOB: Linear = Linear { table: true, is_distributed: true, halving: true };

impl Kept {
    /// All of them.
    pub const ALL: [Kept; 6] = [
        Kept::Variables,
        Kept::Combined,
        Kept::Model,
        Kept::State,
        Kept::Checkpoints,
        Kept::Tables,
    ];

    /// The name of its folder.
    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// Saves into a folder, which must not be there; returns what must come back.
    pub fn write(self, dir: &Path) -> Result<String> {
        if self == Kept::Tables {
            let done = job::run(&Plan::sync(2, 1), || JOB.build(), |id, n| JOB.feed(id, n), 2);
            copy(done.folder.path(), dir);
            return Ok(described(done.saved.iter().map(|(name, value)| (name.as_str(), value))));
        }
        let program = program();
        let scope = filled(&program, 0.5);
        self.save(&program, &scope, dir)?;
        Ok(of_scope(&program, &scope))
    }

    fn save(self, program: &Program, scope: &Scope, dir: &Path) -> Result<()> {
        match self {
            Kept::Variables => {
                io::save_persistables(&filled(program, 9.5), dir, program, None)?;
                let vars = program.list_vars().filter(|var| var.persistable);
                io::save_vars(scope, dir, vars, None)
            }
            Kept::Combined => io::save_persistables(scope, dir, program, Some("all")),
            Kept::Model => {
                let options =
                    SaveInference { feeds: &["x"], targets: &["out"], ..SaveInference::default() };
                io::save_inference_model(scope, dir, program, &options).map(drop)
            }
            Kept::State => io::save(scope, program, &dir.join("state")),
            Kept::Checkpoints => {
                let older = filled(program, 9.5);
                for (at, scope) in [&older, &older, scope].into_iter().enumerate() {
                    let steps = StepsDone { n_steps: 10 * at as u64 + 1, ..StepsDone::default() };
                    let arguments = &steps.arguments(0, 10 * at as u64);
                    for trainer_id in [1, 0] {
                        let (n_kept, time) = (2, "Mon Jan  1 00:00:00 2024");
                        let what =
                            Checkpoint { scope, program, trainer_id, arguments, n_kept, time };
                        Checkpoints::new(dir).save(&what)?;
                    }
                }
                Ok(())
            }
            Kept::Tables => Ok(()),
        }
    }

    /// Loads a folder with the code of today; returns what came back.
    pub fn read(self, dir: &Path) -> Result<String> {
        if self == Kept::Tables {
            let plan = Plan { model: Some(dir.to_path_buf()), ..Plan::sync(3, 1) };
            let done = job::run(&plan, || JOB.build(), |id, n| JOB.feed(id, n), 0);
            return Ok(described(done.saved.iter().map(|(name, value)| (name.as_str(), value))));
        }
        let (program, scope) = (program(), Scope::new());
        match self {
            Kept::Variables => io::load_persistables(&scope, dir, &program, None)?,
            Kept::Combined => io::load_persistables(&scope, dir, &program, Some("all"))?,
            Kept::Model => drop(io::load_inference_model(&scope, dir, None, None)?),
            Kept::State => io::load(&scope, &program, &dir.join("state"), None)?,
            Kept::Checkpoints | Kept::Tables => {
                let resumed = Checkpoints::new(dir).resume(&scope, &program, Some(1))?;
                let steps = StepsDone { done: Some((0, 20)), n_steps: 21, ..StepsDone::default() };
                assert_eq!((resumed.serial, resumed.progress), (Some(2), steps));
            }
        }
        Ok(of_scope(&program, &scope))
    }
}

/// A program with two variables to save.
fn program() -> Program {
    let mut program = Program::default();
    let block = program.block_mut(0);
    block.put_var(VarDesc::new("x", Meta::dense(DType::F32, &[3, 2])));
    block.put_var(VarDesc::new("w", Meta::dense(DType::F32, &[3, 2])).persistable());
    block.put_var(VarDesc::new("with blank", Meta::dense(DType::F32, &[3, 2])).persistable());
    block.put_var(VarDesc::new("out", Meta::dense(DType::F32, &[3, 2])));
    let op = OpDesc::new("sum").input("X", "x").input("X", "w").input("X", "with blank");
    block.ops.push(op.output("Out", "out"));
    program
}

fn filled(program: &Program, first: f32) -> Scope {
    let scope = Scope::new();
    for (at, var) in program.list_vars().filter(|var| var.persistable).enumerate() {
        let numbers: Vec<f32> = (0..6).map(|i| first + (10 * at + i) as f32).collect();
        scope.set(&var.name, Tensor::new([3, 2], &numbers).expect("six"));
    }
    scope
}

fn of_scope(program: &Program, scope: &Scope) -> String {
    let vars = program.list_vars().filter(|var| var.persistable);
    let values = vars.filter_map(|var| {
        let tensor = scope.get(&var.name)?.tensor().cloned();
        Some((var.name.as_str(), tensor?))
    });
    let values: Vec<_> = values.collect();
    described(values.iter().map(|(name, tensor)| (*name, tensor)))
}

/// A line for each variable.
fn described<'a>(values: impl Iterator<Item = (&'a str, &'a Tensor)>) -> String {
    let mut lines: Vec<String> = values
        .map(|(name, tensor)| {
            let bytes = stream::to_bytes(&Value::Tensor(tensor.clone())).unwrap_or_default();
            let mut line = String::new();
            let (dims, check) = (tensor.dims(), crate::kept_snapshots::hash(&bytes));
            write!(line, "{name} {dims:?} {check:016x}").expect("text");
            line
        })
        .collect();
    lines.sort();
    lines.join("\n") + "\n"
}

/// Copies a folder with all that is in it.
pub fn copy(from: &Path, to: &Path) {
    let made = fs::create_dir_all(to).and_then(|()| fs::read_dir(from));
    for entry in made.unwrap_or_else(|error| panic!("{}: {error}", from.display())) {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &target)
        } else {
            fs::copy(&path, target).expect("a copy");
        }
    }
}
