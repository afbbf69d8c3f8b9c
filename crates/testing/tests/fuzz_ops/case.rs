//! One op with its variables and attributes: made up, changed a little, run.

use std::collections::{BTreeMap, HashSet};

use program::op::{self, NoHost, Run, Spare, Wiring};
use program::{Meta, OpDesc, Program, Result, VarDesc, VarKind, backward};
use tensor::Value;

use crate::random::{Random, Taste};
use crate::vocabulary::Words;

/// An op about to run.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) op: OpDesc,
    pub(crate) values: BTreeMap<String, Value>,
    taste: Taste,
}

impl Case {
    /// An op with random ports, variables and attributes out of its own words.
    pub(crate) fn new(kind: &str, words: &Words, random: &mut Random) -> Self {
        let taste = Taste::new(random);
        let mut case = Self { op: OpDesc::new(kind), values: BTreeMap::new(), taste };
        let present = *random.one(&[40, 70, 90, 100]);
        for port in &words.ports {
            if random.percent(present) {
                case.set_input(port, random);
            }
            if random.percent(90) {
                case.set_output(port, random);
            }
        }
        let said = *random.one(&[0, 5, 15, 40]);
        for (name, &kind) in &words.attrs {
            if random.percent(said) {
                case.op.attrs.set(name, case.taste.attr(kind, words, random));
            }
        }
        case
    }

    fn set_input(&mut self, port: &str, random: &mut Random) {
        let n = *random.one(&[1, 1, 1, 1, 1, 2, 3, 0]);
        let names: Vec<String> = (0..n).map(|at| format!("{port}{at}")).collect();
        for name in &names {
            self.values.insert(name.clone(), self.taste.value(random));
        }
        self.op.inputs.retain(|(name, _)| name != port);
        self.op.inputs.push((port.to_string(), names));
    }

    /// Outputs of optimizers are their inputs; others are variables of their own.
    fn set_output(&mut self, port: &str, random: &mut Random) {
        let input = format!("{}0", port.strip_suffix("Out").unwrap_or(port));
        let in_place = self.values.contains_key(&input) && random.percent(30);
        let n = *random.one(&[1, 1, 1, 1, 1, 2, 3]);
        let names = if in_place {
            vec![input]
        } else {
            (0..n).map(|at| format!("{port}_out{at}")).collect()
        };
        self.op.outputs.retain(|(name, _)| name != port);
        self.op.outputs.push((port.to_string(), names));
    }

    /// This case with one difference.
    pub(crate) fn changed(&self, words: &Words, random: &mut Random) -> Self {
        let mut case = self.clone();
        let ports: Vec<&String> = words.ports.iter().collect();
        let attrs: Vec<(&String, _)> = words.attrs.iter().collect();
        match random.below(10) {
            0..4 if !attrs.is_empty() => {
                let (name, &kind) = *random.one(&attrs);
                case.op.attrs.set(name, case.taste.attr(kind, words, random));
            }
            4 if !ports.is_empty() => case.set_input(ports[random.below(ports.len())], random),
            5 if !ports.is_empty() => case.set_output(ports[random.below(ports.len())], random),
            6 if !attrs.is_empty() => {
                case.op.attrs.remove(random.one(&attrs).0);
            }
            _ => {
                let names: Vec<String> = case.values.keys().cloned().collect();
                if !names.is_empty() {
                    let name = random.one(&names).clone();
                    case.values.insert(name, case.taste.value(random));
                }
            }
        }
        case
    }

    /// Shape rule, gradient rule and kernel. The kernel runs even if the shape rule refuses: programs
    /// from files do not pass through it.
    pub(crate) fn run(&self) -> Result<()> {
        let mut program = self.program();
        if program.append_op(0, self.op.clone()).is_ok() {
            let reads: Vec<String> = self.op.reads().map(str::to_string).collect();
            let writes: Vec<String> = self.op.writes().map(str::to_string).collect();
            // Whether there is a gradient is of no interest, only that asking does no harm.
            drop(backward::gradients(&mut program, &writes, &reads, &[], &HashSet::new()));
        }
        let mut slots: Vec<String> = Vec::new();
        let mut vars: Vec<Value> = Vec::new();
        let wiring = Wiring::new(&self.op, |name| {
            slots.iter().position(|slot| slot == name).unwrap_or_else(|| {
                slots.push(name.to_string());
                vars.push(self.values.get(name).cloned().unwrap_or_default());
                slots.len() - 1
            })
        });
        let (mut spare, mut host) = (Spare::default(), NoHost);
        let mut run = Run::new(&self.op, &wiring, &mut vars, &mut spare, &mut host);
        op::find(&self.op.kind)?.run(&mut run)
    }

    fn program(&self) -> Program {
        let mut program = Program::default();
        for (name, value) in &self.values {
            let (kind, tensor) = match value {
                Value::Rows(rows) => (VarKind::SelectedRows, Some(&rows.value)),
                Value::Array(_) => (VarKind::LodTensorArray, None),
                other => (VarKind::LodTensor, other.tensor()),
            };
            let mut meta = Meta { kind, ..Meta::default() };
            if let Some(tensor) = tensor {
                meta.dtype = tensor.dtype();
                meta.dims = tensor.shape().to_i64();
                meta.lod_level = tensor.lod().n_levels() as i32;
            }
            // The first size is often known only when it runs.
            if let (Some(first), 1) = (meta.dims.first_mut(), name.len() % 2) {
                *first = -1;
            }
            program.block_mut(0).put_var(VarDesc::new(name, meta));
        }
        program
    }
}
