//! The rules for the blocks of a program by which walking and running them ends.

use crate::attr::Attr;
use crate::block::OpDesc;
use crate::error::{Error, Result};
use crate::program::Program;

/// The attribute with the block that an op runs.
const SUB_BLOCK: &str = "sub_block";
/// Blocks inside of blocks deeper than this are hostile: programs by hand or layer have a few.
const NESTING_MAX: usize = 64;

impl Program {
    /// Checks that blocks are inside of blocks as trees are: none is inside of itself, none runs
    /// itself or one around it, and the nesting is not deep.
    pub fn check_blocks(&self) -> Result<()> {
        self.bad_block().map_or(Ok(()), |bad| Err(Error::BadBlocks { problem: bad.problem }))
    }

    /// The first block that is not part of the tree.
    pub(crate) fn bad_block(&self) -> Option<BadBlock> {
        let n_blocks = self.blocks().len();
        if n_blocks == 0 {
            return Some(BadBlock { block: 0, problem: "a program without blocks".to_string() });
        }
        for (position, block) in self.blocks().iter().enumerate() {
            let found = |what: &str, value: i32| {
                let problem = format!("block {position} of {n_blocks} has {what} {value}");
                Some(BadBlock { block: position, problem })
            };
            if block.idx as usize != position {
                return found("the index", block.idx);
            }
            // A parent comes first: so no chain of parents closes into a ring.
            if block.parent < -1 || block.parent >= block.idx {
                return found("the parent", block.parent);
            }
            if block.forward_idx < -1 || block.forward_idx >= n_blocks as i32 {
                return found("the forward block", block.forward_idx);
            }
            // A value that the reader does not take for a block must not be one to the op that
            // would run it.
            let is_hidden =
                |op: &OpDesc| op.attrs.get(SUB_BLOCK).is_some_and(|attr| !is_block(attr));
            if let Some(op) = block.ops.iter().find(|op| is_hidden(op)) {
                let kind = &op.kind;
                let problem =
                    format!("`{SUB_BLOCK}` of `{kind}` in block {position} is not a block");
                return Some(BadBlock { block: position, problem });
            }
            // And a block run by an op comes later, so that none runs itself.
            for sub_block in block.ops.iter().flat_map(|op| op.sub_blocks()) {
                if sub_block <= position || sub_block >= n_blocks {
                    return found("an op that runs block", sub_block as i32);
                }
            }
        }
        self.too_deep()
    }

    fn too_deep(&self) -> Option<BadBlock> {
        let mut depth = vec![0; self.blocks().len()];
        for (position, block) in self.blocks().iter().enumerate() {
            if let Ok(parent) = usize::try_from(block.parent) {
                depth[position] = depth[position].max(depth[parent] + 1);
            }
            if depth[position] > NESTING_MAX {
                let problem = format!("blocks are nested deeper than {NESTING_MAX}");
                return Some(BadBlock { block: position, problem });
            }
            for sub_block in block.ops.iter().flat_map(|op| op.sub_blocks()) {
                depth[sub_block] = depth[sub_block].max(depth[position] + 1);
            }
        }
        None
    }
}

fn is_block(attr: &Attr) -> bool {
    matches!(attr, Attr::Block(_))
}

/// A block that is not part of the tree, and why.
pub(crate) struct BadBlock {
    pub(crate) block: usize,
    pub(crate) problem: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program of `n` blocks, each inside of the one before.
    fn chain(n: usize) -> Program {
        let mut program = Program::default();
        for _ in 1..n {
            program.push_block();
        }
        program
    }

    fn runs(block: Attr) -> OpDesc {
        let name = if is_block(&block) { SUB_BLOCK } else { "optimize_blocks" };
        OpDesc::new("while").attr(name, block)
    }

    #[test]
    fn a_block_does_not_run_itself_or_one_around_it() {
        for (at, ran) in [(0, 0), (1, 1), (1, 0), (2, 1), (0, 3), (0, -1)] {
            for attr in [Attr::Block(ran), Attr::Blocks(vec![ran])] {
                let mut program = chain(3);
                program.block_mut(at).ops.push(runs(attr));
                let refused = program.check_blocks();
                assert!(matches!(refused, Err(Error::BadBlocks { .. })), "{at} runs {ran}");
                assert!(Program::from_bytes(&program.to_bytes()).is_err(), "{at} runs {ran}");
            }
        }
        let mut program = chain(3);
        program.block_mut(0).ops.push(runs(Attr::Block(1)));
        program.block_mut(1).ops.push(runs(Attr::Blocks(vec![2])));
        program.check_blocks().unwrap();
    }

    #[test]
    fn a_block_is_not_hidden_as_a_number() {
        for attr in [Attr::Int(0), Attr::Long(0), Attr::Ints(vec![0]), Attr::Blocks(vec![1])] {
            let mut program = chain(2);
            let op = OpDesc::new("while").attr(SUB_BLOCK, attr.clone());
            program.block_mut(0).ops.push(op);
            assert!(program.check_blocks().is_err(), "{attr:?}");
            assert!(Program::from_bytes(&program.to_bytes()).is_err(), "{attr:?}");
        }
    }

    #[test]
    fn blocks_are_not_inside_of_themselves_nor_deep() {
        let mut program = chain(2);
        program.block_mut(1).parent = 1;
        assert!(program.check_blocks().is_err());
        chain(NESTING_MAX + 1).check_blocks().unwrap();
        assert!(chain(NESTING_MAX + 2).check_blocks().is_err());
    }
}
