//! The sums by which trainers compare their programs.

use program::op::collective::{asked, members};
use program::{OpDesc, Program, role};
use tensor::mix;

/// Attributes that may differ from trainer to trainer.
const OWN: [&str; 9] = [
    "op_callstack",
    "op_namescope",
    "op_device",
    "seed",
    "rank",
    "trainer_id",
    "endpoint",
    "other_endpoints",
    "fix_seed",
];

/// A number that is the same for programs that keep parameters the same: what is exchanged, and how
/// parameters are updated. Of a program that meets the others (a startup program), all ops. `None` if the program
/// exchanges nothing.
pub(crate) fn program_sum(program: &Program) -> Option<u64> {
    let ops = || program.blocks().iter().flat_map(|block| &block.ops);
    let exchanges = |op: &OpDesc| asked(op).is_ok_and(|asked| asked.is_some());
    let meets = ops().any(|op| members(op).is_ok_and(|members| members.is_some()));
    if !meets && !ops().any(exchanges) {
        return None;
    }
    let updates = |op: &OpDesc| op.role() & (role::OPTIMIZE | role::LR_SCHED) != 0;
    let counts = |op: &&OpDesc| meets || exchanges(op) || updates(op);
    Some(ops().filter(counts).fold(0, add_op))
}

/// Programs whose sums are remembered; the oldest goes when there are more.
const SUMS_MAX: usize = 32;

/// The sums of programs, so that none is added up at every step.
#[derive(Debug, Default)]
pub(crate) struct ProgramSums(Vec<KnownSum>);

#[derive(Debug)]
struct KnownSum {
    program: u64,
    version: u64,
    sum: Option<u64>,
}

impl ProgramSums {
    /// [`program_sum`] of a program.
    pub(super) fn of(&mut self, program: &Program) -> Option<u64> {
        let (id, version) = (program.id(), program.version());
        let known = self.0.iter().find(|known| (known.program, known.version) == (id, version));
        if let Some(known) = known {
            return known.sum;
        }
        if self.0.len() == SUMS_MAX {
            self.0.remove(0);
        }
        let sum = program_sum(program);
        self.0.push(KnownSum { program: id, version, sum });
        sum
    }
}

fn add_op(sum: u64, op: &OpDesc) -> u64 {
    let sum = add(sum, &op.kind);
    let ports = op.inputs.iter().chain(&op.outputs);
    let sum = ports
        .fold(sum, |sum, (port, vars)| vars.iter().fold(add(sum, port), |sum, var| add(sum, var)));
    let shared = op.attrs.iter().filter(|(name, _)| !OWN.contains(name));
    shared.fold(sum, |sum, (name, attr)| add(add(sum, name), &format!("{attr:?}")))
}

fn add(sum: u64, text: &str) -> u64 {
    text.bytes().fold(mix(sum), |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(rate: f32, seed: i32) -> Program {
        let mut program = Program::default();
        let ops = &mut program.block_mut(0).ops;
        ops.push(OpDesc::new("dropout").attr("seed", seed));
        ops.push(OpDesc::new("c_allreduce_sum").input("X", "g").output("Out", "g"));
        let update = OpDesc::new("momentum").input("Grad", "g").attr("mu", rate).attr("seed", seed);
        ops.push(update.attr(role::ROLE, role::OPTIMIZE));
        program
    }

    #[test]
    fn what_keeps_parameters_equal_counts() {
        let sum = |rate, seed| program_sum(&program(rate, seed)).expect("it exchanges");
        assert_eq!(sum(0.9, 1), sum(0.9, 2), "trainers have seeds of their own");
        assert_ne!(sum(0.9, 1), sum(0.8, 1));
        assert_eq!(program_sum(&Program::default()), None);
    }
}
