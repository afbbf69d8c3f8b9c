//! Choices between ops at run time, as Fluid's `Switch` appends them: the first case that holds.

use tensor::DType;

use crate::attr::Attr;
use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::Result;
use crate::var::{Meta, VarDesc, VarKind};

/// Cases so far.
#[derive(Default)]
pub(super) struct Cases {
    /// True when none of them held.
    none_before: Option<Var>,
}

impl Cases {
    /// Runs `body` if `condition` holds and no case before it did.
    pub(super) fn case(
        &mut self,
        b: &mut Builder<'_>,
        condition: &Var,
        body: impl FnOnce(&mut Builder<'_>) -> Result<()>,
    ) -> Result<()> {
        let not = logical(b, OpDesc::new("logical_not").input("X", condition))?;
        let (none, runs) = match &self.none_before {
            None => (not, condition.clone()),
            Some(before) => {
                let and = |y| OpDesc::new("logical_and").input("X", before).input("Y", y);
                (logical(b, and(&not))?, logical(b, and(condition))?)
            }
        };
        self.none_before = Some(none);
        conditional(b, &runs, body)
    }

    /// Runs `body` if no case held.
    pub(super) fn otherwise(
        self,
        b: &mut Builder<'_>,
        body: impl FnOnce(&mut Builder<'_>) -> Result<()>,
    ) -> Result<()> {
        match self.none_before {
            Some(condition) => conditional(b, &condition, body),
            None => body(b),
        }
    }
}

/// `x < y` or `x == y`, in a variable `tmp_0`.
pub(super) fn compare(b: &mut Builder<'_>, kind: &str, x: &Var, y: &Var) -> Result<Var> {
    let out = b.unnamed(DType::Bool);
    b.op(OpDesc::new(kind).input("X", x).input("Y", y).output("Out", &out).attr("axis", -1))?;
    Ok(out)
}

/// Copies a value into a variable that exists already.
pub(super) fn assign(b: &mut Builder<'_>, from: &Var, to: &Var) -> Result<()> {
    b.op(OpDesc::new("assign").input("X", from).output("Out", to))
}

fn logical(b: &mut Builder<'_>, op: OpDesc) -> Result<Var> {
    let layer = b.layer_name(&op.kind, None);
    let out = b.temp(&layer, DType::Bool);
    b.op(op.output("Out", &out))?;
    Ok(out)
}

/// A block of its own, and the op that runs it.
fn conditional(
    b: &mut Builder<'_>,
    condition: &Var,
    body: impl FnOnce(&mut Builder<'_>) -> Result<()>,
) -> Result<()> {
    let block = b.main.push_block();
    let built = body(b);
    b.main.pop_block();
    built?;
    let inner = b.main.block(block);
    let outside = |vars: Vec<&str>| {
        let mut names: Vec<String> = Vec::new();
        for var in vars {
            if inner.var(var).is_none() && !names.iter().any(|name| name == var) {
                names.push(var.to_string());
            }
        }
        names
    };
    let reads = outside(inner.ops.iter().flat_map(OpDesc::reads).collect());
    let writes = outside(inner.ops.iter().flat_map(OpDesc::writes).collect());
    let scope = b.names.generate("_generated_var");
    let meta = Meta { kind: VarKind::StepScopes, ..Meta::default() };
    let around = b.main.current_block();
    b.main.block_mut(around).put_var(VarDesc::new(&scope, meta));
    let op = OpDesc::new("conditional_block")
        .input("Cond", condition)
        .input("Input", reads)
        .output("Out", writes)
        .output("Scope", scope)
        .attr("sub_block", Attr::Block(block as i32))
        .attr("is_scalar_condition", true);
    b.op(op)
}
