//! `IfElse`: rows for which a condition holds go one way, the others another, and meet again.

use super::control::run_unless_empty;
use super::merge_lod_tensor;
use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::{Error, Result};
use crate::program::BlockId;
use crate::var::{Meta, VarDesc};

/// Two ways while they are built.
#[derive(Debug)]
pub struct IfElse {
    layer: String,
    condition: Var,
    /// The block that is open, and whether it is that of rows for which the condition holds.
    open: Option<(BlockId, bool)>,
    /// What was split: the variable, and its parts for false and true.
    inputs: Vec<(Var, [Var; 2])>,
    /// Results of the ways for false and true.
    outputs: [Vec<Var>; 2],
}

fn refuse(argument: &'static str, rule: &'static str) -> Error {
    Error::BadArgument { layer: "IfElse", argument, rule, actual: "neither".to_string() }
}

impl IfElse {
    /// Ways for rows of this condition; nothing is built yet.
    pub fn new(b: &mut Builder<'_>, condition: &Var, name: Option<&str>) -> Self {
        let layer = b.layer_name("ifelse", name);
        let (inputs, outputs) = (Vec::new(), [Vec::new(), Vec::new()]);
        Self { layer, condition: condition.clone(), open: None, inputs, outputs }
    }

    /// Begins one way.
    pub fn open(&mut self, b: &mut Builder<'_>, holds: bool) -> Result<()> {
        if self.open.is_some() {
            return Err(refuse("block", "the other block must be left first"));
        }
        self.open = Some((b.main.push_block(), holds));
        Ok(())
    }

    /// Ends the way; the block runs if any row takes it, unless `failed`.
    pub fn close(&mut self, b: &mut Builder<'_>, failed: bool) -> Result<()> {
        let (block, _) =
            self.open.take().ok_or_else(|| refuse("block", "there is no block to leave"))?;
        b.main.pop_block();
        if failed { Ok(()) } else { run_unless_empty(b, &self.condition, block) }
    }

    fn around(&self, b: &Builder<'_>) -> Result<(BlockId, bool)> {
        let (block, holds) = self
            .open
            .ok_or_else(|| refuse("input", "it must be called inside true_block or false_block"))?;
        Ok((b.main.block(block).parent.max(0) as usize, holds))
    }

    fn outside(&self, b: &mut Builder<'_>, block: BlockId, key: &str, meta: Meta) -> Var {
        let name = b.names.generate(key);
        b.main.block_mut(block).put_var(VarDesc::new(&name, meta));
        Var::from(name)
    }

    /// The rows of `x` that take this way.
    pub fn input(&mut self, b: &mut Builder<'_>, x: &Var) -> Result<Var> {
        let (around, holds) = self.around(b)?;
        let known = self.inputs.iter().find(|(var, _)| var.name() == x.name());
        if let Some((_, parts)) = known {
            return Ok(parts[usize::from(holds)].clone());
        }
        let meta = b.main.need_var(around, x.name())?.meta.clone();
        let key = format!("ifelse_input{}", self.layer);
        let yes = self.outside(b, around, &key, meta.clone());
        let no = self.outside(b, around, &key, meta);
        let op = OpDesc::new("split_lod_tensor")
            .input("X", x)
            .input("Mask", &self.condition)
            .output("OutTrue", &yes)
            .output("OutFalse", &no)
            .attr("level", 0);
        b.main.append_op(around, op)?;
        let parts = [no, yes];
        let part = parts[usize::from(holds)].clone();
        self.inputs.push((x.clone(), parts));
        Ok(part)
    }

    /// A result of this way.
    pub fn output(&mut self, b: &mut Builder<'_>, out: &Var) -> Result<()> {
        let (around, holds) = self.around(b)?;
        let meta = b.meta(out)?;
        let outside = self.outside(b, around, &format!("{}_output", self.layer), meta);
        b.op(OpDesc::new("assign").input("X", out).output("Out", &outside))?;
        self.outputs[usize::from(holds)].push(outside);
        Ok(())
    }

    /// The results, rows in their order again; those of one way if there is no other.
    pub fn merge(&self, b: &mut Builder<'_>) -> Result<Vec<Var>> {
        let [no, yes] = &self.outputs;
        match (no.len(), yes.len()) {
            (0, 0) => {
                return Err(refuse("block", "Must invoke true_block/false_block before __call__"));
            }
            (0, _) => return Ok(yes.clone()),
            (_, 0) => return Ok(no.clone()),
            (a, b) if a != b => return Err(refuse("output", "The output side must be same")),
            _ => {}
        }
        let mask = &self.condition;
        let pairs = yes.iter().zip(no);
        pairs.map(|(yes, no)| merge_lod_tensor(b, yes, no, mask, mask, 0)).collect()
    }
}
