//! What must hold between the blocks of a program so that walking them ends.

use super::wire::bad;
use crate::error::Result;
use crate::program::Program;

/// Blocks inside of blocks deeper than this are hostile: programs by hand or layer have a few.
const NESTING_MAX: usize = 64;

/// Checks the numbers that blocks call each other by; `offsets` says where each block starts.
pub(super) fn check(program: &Program, offsets: &[usize]) -> Result<()> {
    let n_blocks = program.blocks().len();
    if n_blocks == 0 {
        return Err(bad(0, "a program without blocks"));
    }
    for (position, block) in program.blocks().iter().enumerate() {
        let fail = |what: &str, value: i32| {
            Err(bad(
                offsets[position],
                format!("block {position} of {n_blocks} has {what} {value}"),
            ))
        };
        if block.idx as usize != position {
            return fail("the index", block.idx);
        }
        // A parent comes first: so no chain of parents closes into a ring.
        if block.parent < -1 || block.parent >= block.idx {
            return fail("the parent", block.parent);
        }
        if block.forward_idx < -1 || block.forward_idx >= n_blocks as i32 {
            return fail("the forward block", block.forward_idx);
        }
        // And a block run by an op comes later, so that none runs itself.
        for sub_block in block.ops.iter().flat_map(|op| op.sub_blocks()) {
            if sub_block <= position || sub_block >= n_blocks {
                return fail("an op that runs block", sub_block as i32);
            }
        }
    }
    check_nesting(program, offsets)
}

fn check_nesting(program: &Program, offsets: &[usize]) -> Result<()> {
    let mut depth = vec![0; program.blocks().len()];
    for (position, block) in program.blocks().iter().enumerate() {
        if let Ok(parent) = usize::try_from(block.parent) {
            depth[position] = depth[position].max(depth[parent] + 1);
        }
        if depth[position] > NESTING_MAX {
            let problem = format!("blocks are nested deeper than {NESTING_MAX}");
            return Err(bad(offsets[position], problem));
        }
        for sub_block in block.ops.iter().flat_map(|op| op.sub_blocks()) {
            depth[sub_block] = depth[sub_block].max(depth[position] + 1);
        }
    }
    Ok(())
}
