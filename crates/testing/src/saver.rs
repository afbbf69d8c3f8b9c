//! Saves whose numbers are all alike, so that a mixture of two saves is seen.

use std::collections::BTreeSet;
use std::path::Path;

use program::{Meta, OpDesc, Program, VarDesc};
use tensor::{DType, Tensor, Value};
use train::io::{self, Checkpoint, Checkpoints, SaveInference};
use train::{Result, Scope};

/// How to save.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A file for each variable.
    Separate,
    /// A file for each of some other variables.
    Others,
    /// One file for all.
    Combined,
    /// A model for inference.
    Model,
    /// `fluid.save`.
    State,
    /// The next of the checkpoints in a folder.
    Checkpoint,
}

impl Way {
    /// All that save again and again under the same names.
    pub const ALL: [Way; 5] = [Way::Separate, Way::Others, Way::Combined, Way::Model, Way::State];

    /// Its name.
    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// The one of this name.
    pub fn named(name: &str) -> Self {
        let way = Self::ALL.into_iter().chain([Way::Checkpoint]).find(|way| way.name() == name);
        way.unwrap_or_else(|| panic!("{name} is no way to save"))
    }

    /// A program with variables to save, small ones and some of several blocks, and a scope for them.
    pub fn program(self) -> (Program, Scope) {
        let (mut program, scope) = (Program::default(), Scope::new());
        let prefix = if self == Way::Others { "other" } else { "var" };
        let block = program.block_mut(0);
        block.put_var(VarDesc::new("x", Meta::dense(DType::F32, &[1])));
        let mut last = "x".to_string();
        for (at, n) in [1, 100, 70_000, 300_000, 3].into_iter().enumerate() {
            let name = format!("{prefix}/{at}");
            block.put_var(VarDesc::new(&name, Meta::dense(DType::F32, &[n])).persistable());
            // A model holds what computes its target.
            let next = format!("sum{at}");
            block.put_var(VarDesc::new(&next, Meta::dense(DType::F32, &[1])));
            let op = OpDesc::new("sum").input("X", &last).input("X", &name).output("Out", &next);
            block.ops.push(op);
            last = next;
        }
        (program, scope)
    }

    /// Saves once.
    pub fn save(self, program: &Program, scope: &Scope, dir: &Path) -> Result<()> {
        match self {
            Way::Separate | Way::Others => io::save_persistables(scope, dir, program, None),
            Way::Combined => io::save_persistables(scope, dir, program, Some("all")),
            Way::State => io::save(scope, program, &dir.join("state")),
            Way::Model => {
                let options =
                    SaveInference { feeds: &["x"], targets: &["sum4"], ..SaveInference::default() };
                io::save_inference_model(scope, dir, program, &options).map(drop)
            }
            Way::Checkpoint => {
                let (arguments, time) = (&[("step_id".to_string(), "1".to_string())], "now");
                let what = Checkpoint { scope, program, trainer_id: 0, arguments, n_kept: 2, time };
                Checkpoints::new(dir).save(&what).map(drop)
            }
        }
    }

    /// Loads what was saved.
    pub fn load(self, program: &Program, scope: &Scope, dir: &Path) -> Result<()> {
        match self {
            Way::Separate | Way::Others => io::load_persistables(scope, dir, program, None),
            Way::Combined => io::load_persistables(scope, dir, program, Some("all")),
            Way::State => io::load(scope, program, &dir.join("state"), None),
            Way::Model => io::load_inference_model(scope, dir, None, None).map(drop),
            Way::Checkpoint => Checkpoints::new(dir).load(scope, program, None).map(drop),
        }
    }
}

/// Gives every number of every variable a value.
pub fn fill(program: &Program, scope: &Scope, n: u32) {
    for var in program.list_vars().filter(|var| var.persistable) {
        let shape: Vec<usize> = var.meta.dims.iter().map(|&dim| dim as usize).collect();
        scope.set(&var.name, Tensor::full([shape[0]], n as f32));
    }
}

/// The values of all variables: one, if they are of one save.
pub fn values(program: &Program, scope: &Scope) -> BTreeSet<u32> {
    let vars = program.list_vars().filter(|var| var.persistable);
    let numbers = |value: &Value| {
        let numbers = value.tensor().map(|tensor| tensor.data::<f32>().expect("floats"));
        let runs = numbers.unwrap_or_default().chunk_by(|a, b| a == b);
        runs.map(|run| run[0] as u32).collect::<Vec<_>>()
    };
    vars.flat_map(|var| scope.read(&var.name, numbers).unwrap_or_default()).collect()
}
