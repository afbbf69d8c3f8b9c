//! Smaller programs out of larger ones: for testing, for a few targets, for inference.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::attr::Attr;
use crate::block::{Block, OpDesc};
use crate::error::{Error, Result};
use crate::program::{BlockId, Program};
use crate::role;
use crate::var::{VarDesc, VarKind};

const IS_TEST: &str = "is_test";

impl Program {
    /// A copy for testing: `is_test` is set, and what computes gradients or learning rates or changes
    /// parameters is gone, with the variables that only it used (`clone(for_test=True)`). As in Fluid,
    /// a program that has no gradient of a loss keeps its ops.
    pub fn clone_for_test(&self) -> Program {
        const TRAINING: i32 = role::BACKWARD | role::OPTIMIZE | role::LR_SCHED;
        let trains = |op: &OpDesc| op.role() & TRAINING != 0;
        let begins_backward = |op: &OpDesc| op.role() == role::BACKWARD | role::LOSS;
        let mut copy = self.clone();
        if !self.blocks().iter().flat_map(|block| &block.ops).any(begins_backward) {
            set_is_test(&mut copy);
            return copy;
        }
        for id in 0..copy.blocks().len() {
            copy.block_mut(id).ops.retain(|op| !trains(op));
        }
        set_is_test(&mut copy);
        let copy = copy.without_unused_blocks();
        let (used_before, used) = (self.used_vars(), copy.used_vars());
        // A variable that no op ever used is the user's own, an input not wired up yet for
        // instance.
        copy.keep_vars(|var| used.contains(var) || !used_before.contains(var))
    }

    /// Only what computes `targets` from `feeds` and the persistable variables.
    pub fn prune(&self, targets: &[&str], feeds: &[&str]) -> Result<Program> {
        self.prune_to(targets, feeds, |op| op.is_target)
    }

    /// Only what computes `targets` from `feeds` and the persistable variables, and the ops that
    /// `is_target` names with what they need. Other ops that change parameters are not kept for the
    /// parameters that they write.
    pub fn prune_to(
        &self,
        targets: &[&str],
        feeds: &[&str],
        is_target: impl Fn(&OpDesc) -> bool,
    ) -> Result<Program> {
        let computes = |op: &OpDesc| is_target(op) || op.role() & role::OPTIMIZE == 0;
        let mut needed: HashSet<String> = HashSet::new();
        for &target in targets {
            self.need_var(0, target)?;
            let mut ops = self.block(0).ops.iter().filter(|op| computes(op));
            let is_written = ops.any(|op| op.writes().any(|var| var == target));
            if !is_written && !feeds.contains(&target) {
                return Err(Error::TargetNotComputed { var: target.to_string() });
            }
            if !feeds.contains(&target) {
                needed.insert(target.to_string());
            }
        }
        let mut copy = self.clone();
        let mut kept = Vec::new();
        for op in self.block(0).ops.iter().rev() {
            if is_target(op) || computes(op) && op.writes().any(|var| needed.contains(var)) {
                let reads = self.reads_within(op);
                needed.extend(reads.into_iter().filter(|var| !feeds.contains(&var.as_str())));
                kept.push(op.clone());
            }
        }
        kept.reverse();
        copy.block_mut(0).ops = kept;
        let copy = copy.without_unused_blocks();
        let used = copy.used_vars();
        Ok(copy.keep_vars(|var| used.contains(var) || targets.contains(&var)))
    }

    /// Variables that ops need and that nothing gives them: they are not computed before, not kept
    /// between runs and none of `feeds`. A run without them fails.
    pub fn unfed(&self, feeds: &[&str]) -> Vec<String> {
        let (mut known, mut missing) = (HashSet::new(), Vec::new());
        for op in &self.block(0).ops {
            // A block inside may write a variable before it reads it.
            if !op.sub_blocks().is_empty() {
                known.extend(self.writes_within(op));
            }
            for name in self.reads_within(op) {
                let var = self.block(0).var(&name);
                let is_tensor = |var: &VarDesc| var.meta.kind == VarKind::LodTensor;
                let is_input = var.is_some_and(|var| !var.persistable && is_tensor(var));
                let is_known = known.contains(&name) || feeds.contains(&name.as_str());
                if is_input && !is_known && !missing.contains(&name) {
                    missing.push(name);
                }
            }
            known.extend(op.writes().map(str::to_string));
        }
        missing
    }

    /// A copy to infer with: `is_test` is set, and readers are gone if asked for.
    pub fn inference_optimize(&self, drop_readers: bool) -> Program {
        let mut copy = self.clone();
        if drop_readers {
            for id in 0..copy.blocks().len() {
                drop_reader_ops(&mut copy, id);
            }
        }
        set_is_test(&mut copy);
        copy
    }

    /// The variables that an op reads itself and in the blocks it runs.
    fn reads_within(&self, op: &OpDesc) -> BTreeSet<String> {
        let mut reads: BTreeSet<String> = op.reads().map(str::to_string).collect();
        for block in self.blocks_within(op.sub_blocks()) {
            let ops = &self.block(block).ops;
            reads.extend(ops.iter().flat_map(|op| op.reads()).map(str::to_string));
        }
        reads
    }

    /// The variables that an op writes itself and in the blocks it runs.
    fn writes_within(&self, op: &OpDesc) -> BTreeSet<String> {
        let mut writes: BTreeSet<String> = op.writes().map(str::to_string).collect();
        for block in self.blocks_within(op.sub_blocks()) {
            let ops = &self.block(block).ops;
            writes.extend(ops.iter().flat_map(|op| op.writes()).map(str::to_string));
        }
        writes
    }

    /// The first block and all that its ops run. Other blocks never run: an op that was taken out
    /// leaves its block behind.
    pub fn blocks_that_run(&self) -> BTreeSet<BlockId> {
        self.blocks_within(vec![0])
    }

    /// These blocks and all that their ops run, each once.
    fn blocks_within(&self, mut open: Vec<BlockId>) -> BTreeSet<BlockId> {
        let mut found = BTreeSet::new();
        while let Some(block) = open.pop() {
            if block < self.blocks().len() && found.insert(block) {
                open.extend(self.block(block).ops.iter().flat_map(OpDesc::sub_blocks));
            }
        }
        found
    }

    /// The program without the blocks that no op runs; the others get new numbers.
    fn without_unused_blocks(self) -> Program {
        let mut kept = self.blocks_that_run();
        // A variable may be looked up in the blocks around a kept one, so those stay too.
        for block in kept.clone() {
            let mut parent = self.block(block).parent;
            while let Ok(around) = usize::try_from(parent) {
                if around >= self.blocks().len() || !kept.insert(around) {
                    break;
                }
                parent = self.block(around).parent;
            }
        }
        if kept.len() == self.blocks().len() {
            return self;
        }
        let renumbered: HashMap<i32, i32> =
            kept.iter().enumerate().map(|(to, &from)| (from as i32, to as i32)).collect();
        let blocks = kept.iter().map(|&id| renumber(self.block(id).clone(), &renumbered));
        let blocks = blocks.collect();
        self.with_blocks(blocks)
    }

    fn used_vars(&self) -> HashSet<String> {
        let ops = self.blocks().iter().flat_map(|block| &block.ops);
        ops.flat_map(|op| op.reads().chain(op.writes())).map(str::to_string).collect()
    }

    fn keep_vars(mut self, keep: impl Fn(&str) -> bool) -> Program {
        for id in 0..self.blocks().len() {
            self.block_mut(id).retain_vars(|var| keep(&var.name));
        }
        self
    }
}

fn renumber(mut block: Block, numbers: &HashMap<i32, i32>) -> Block {
    let number = |old: i32| numbers.get(&old).copied().unwrap_or(-1);
    block.idx = number(block.idx);
    block.parent = number(block.parent);
    block.forward_idx = number(block.forward_idx);
    for op in &mut block.ops {
        let mut changed = Vec::new();
        for (name, attr) in op.attrs.iter() {
            match attr {
                Attr::Block(id) => changed.push((name.to_string(), Attr::Block(number(*id)))),
                Attr::Blocks(ids) => {
                    let ids = ids.iter().map(|&id| number(id)).collect();
                    changed.push((name.to_string(), Attr::Blocks(ids)));
                }
                _ => {}
            }
        }
        for (name, attr) in changed {
            op.attrs.set(&name, attr);
        }
    }
    block
}

fn set_is_test(program: &mut Program) {
    for id in 0..program.blocks().len() {
        for op in &mut program.block_mut(id).ops {
            if op.attrs.get(IS_TEST).is_some() || op.traits().knows_is_test {
                op.attrs.set(IS_TEST, true);
            }
        }
    }
}

/// Takes out reader variables and every op that touches one.
fn drop_reader_ops(program: &mut Program, id: BlockId) {
    let is_reader =
        |var: &str| program.find_var(id, var).is_some_and(|var| var.meta.kind == VarKind::Reader);
    let ops = program.block(id).ops.iter();
    let kept = ops.filter(|op| !op.reads().chain(op.writes()).any(is_reader)).cloned().collect();
    let block = program.block_mut(id);
    block.ops = kept;
    block.retain_vars(|var| var.meta.kind != VarKind::Reader);
}

#[cfg(test)]
mod tests {
    use tensor::DType;

    use super::*;
    use crate::var::Meta;

    fn op(kind: &str, reads: &str, writes: &str, role: i32) -> OpDesc {
        let desc = OpDesc::new(kind).input("X", reads).output("Out", writes);
        desc.attr(role::ROLE, role)
    }

    fn program(vars: &[&str], ops: Vec<OpDesc>) -> Program {
        let mut program = Program::default();
        let block = program.block_mut(0);
        for name in vars {
            block.put_var(VarDesc::new(name, Meta::dense(DType::F32, &[1])));
        }
        block.ops = ops;
        program
    }

    fn trained() -> Program {
        let ops = vec![
            op("dropout", "x", "h", role::FORWARD),
            op("relu", "h", "side", role::FORWARD),
            op("mean", "h", "loss", role::FORWARD | role::LOSS),
            op("scale", "count", "rate", role::LR_SCHED),
            op("fill_constant", "", "loss@GRAD", role::BACKWARD | role::LOSS),
            op("mean_grad", "loss@GRAD", "h@GRAD", role::BACKWARD),
            op("sgd", "h@GRAD", "w", role::OPTIMIZE),
        ];
        let names =
            ["x", "h", "side", "loss", "count", "rate", "loss@GRAD", "h@GRAD", "w", "label"];
        program(&names, ops)
    }

    fn kinds(program: &Program) -> Vec<&str> {
        program.block(0).ops.iter().map(|op| op.kind.as_str()).collect()
    }

    fn vars(program: &Program) -> Vec<&str> {
        program.block(0).vars().iter().map(|var| var.name.as_str()).collect()
    }

    #[test]
    fn a_test_copy_does_not_train() {
        let original = trained();
        let copy = original.clone_for_test();
        assert_eq!(kinds(&copy), ["dropout", "relu", "mean"]);
        assert_eq!(vars(&copy), ["x", "h", "side", "loss", "label"]);
        assert!(copy.block(0).ops[0].attrs.bool(IS_TEST, false).unwrap());
        assert_eq!(copy.block(0).ops[1].attrs.get(IS_TEST), None, "relu does not know it");
        assert_eq!(original, trained(), "the original is untouched");
    }

    #[test]
    fn pruning_keeps_what_the_targets_need() {
        let pruned = trained().prune(&["loss"], &[]).unwrap();
        assert_eq!(kinds(&pruned), ["dropout", "mean"]);
        assert_eq!(vars(&pruned), ["x", "h", "loss"]);
    }

    #[test]
    fn a_test_copy_without_a_gradient_of_a_loss_is_whole() {
        let mut original = trained();
        original.block_mut(0).ops.retain(|op| op.role() != role::BACKWARD | role::LOSS);
        assert_eq!(kinds(&original.clone_for_test()), kinds(&original));
    }

    #[test]
    fn an_op_that_changes_parameters_is_kept_only_as_a_target() {
        let error = trained().prune(&["w"], &[]).unwrap_err();
        assert!(matches!(error, Error::TargetNotComputed { ref var } if var == "w"), "{error}");
        let changes = |op: &OpDesc| op.role() & role::OPTIMIZE != 0;
        let pruned = trained().prune_to(&["loss"], &[], changes).unwrap();
        assert_eq!(kinds(&pruned), ["dropout", "mean", "fill_constant", "mean_grad", "sgd"]);
    }

    #[test]
    fn what_nothing_computes_must_be_fed() {
        let pruned = trained().prune(&["loss"], &[]).unwrap();
        assert_eq!(pruned.unfed(&[]), ["x"]);
        assert!(pruned.unfed(&["x"]).is_empty());
    }

    #[test]
    fn pruning_stops_at_what_is_fed() {
        let pruned = trained().prune(&["loss"], &["h"]).unwrap();
        assert_eq!(kinds(&pruned), ["mean"]);
        assert_eq!(vars(&pruned), ["h", "loss"]);
    }

    #[test]
    fn pruning_names_a_target_it_cannot_reach() {
        let error = trained().prune(&["nothing"], &[]).unwrap_err();
        assert!(matches!(error, Error::UnknownVar { ref var, .. } if var == "nothing"), "{error}");
        let error = trained().prune(&["x"], &[]).unwrap_err();
        assert!(matches!(error, Error::TargetNotComputed { ref var } if var == "x"), "{error}");
    }

    /// Block 1 belongs to an op that goes, block 2 to one that stays and runs block 3.
    fn nested() -> Program {
        let runs = |kind: &str, writes: &str, block| {
            op(kind, "x", writes, role::FORWARD).attr("sub_block", Attr::Block(block))
        };
        let outer = vec![runs("while", "gone", 1), runs("while", "kept", 2)];
        let names = ["x", "deep", "gone", "kept", "step"];
        let mut program = program(&names, [vec![op("relu", "x", "deep", 0)], outer].concat());
        let mut add = |parent, op: OpDesc| {
            let id = program.push_block();
            program.block_mut(id).parent = parent;
            program.block_mut(id).ops.push(op);
        };
        add(0, op("relu", "x", "gone", 0));
        add(0, runs("while", "kept", 3));
        add(2, op("sum", "deep", "kept", 0));
        program
    }

    #[test]
    fn pruning_keeps_and_renumbers_the_blocks_it_needs() {
        let pruned = nested().prune(&["kept"], &[]).unwrap();
        assert_eq!(kinds(&pruned), ["relu", "while"], "the inner block reads `deep`");
        assert_eq!(pruned.blocks().len(), 3);
        assert_eq!(pruned.block(0).ops[1].sub_blocks(), [1]);
        assert_eq!(pruned.block(1).ops[0].sub_blocks(), [2]);
        assert_eq!((pruned.block(1).parent, pruned.block(2).parent), (0, 1));
        assert_eq!(vars(&pruned), ["x", "deep", "kept"]);
        assert!(Program::from_bytes(&pruned.to_bytes()).is_ok());
    }

    #[test]
    fn inference_has_no_readers() {
        let ops = vec![op("read", "reader", "x", 0), op("softmax", "x", "y", 0)];
        let mut program = program(&["x", "y"], ops);
        let kind = VarKind::Reader;
        program.block_mut(0).put_var(VarDesc::new("reader", Meta { kind, ..Meta::default() }));
        let optimized = program.inference_optimize(true);
        assert_eq!(kinds(&optimized), ["softmax"]);
        assert_eq!(vars(&optimized), ["x", "y"]);
        assert!(optimized.block(0).ops[0].attrs.bool(IS_TEST, false).unwrap());
        assert_eq!(kinds(&program.inference_optimize(false)), ["read", "softmax"]);
    }
}
