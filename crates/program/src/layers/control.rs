//! Parts of a program that run on a condition: `Switch`, `While`, `cond`.
//!
//! Each part is a block of its own; one op of the block around it runs it.

use tensor::DType;

use super::append::append;
use crate::attr::Attr;
use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::{Error, Result};
use crate::program::BlockId;
use crate::var::{Meta, VarDesc, VarKind};

/// What a script made, or why it could not.
type Made<T, E> = std::result::Result<T, E>;

/// What parts of a program are written by: a builder, or a script whose functions call layers by
/// themselves and fail with errors of their own.
pub trait Script {
    /// Why a part could not be written.
    type Error;

    /// Appends to the program.
    fn build<T>(
        &mut self,
        append: impl FnOnce(&mut Builder<'_>) -> Result<T>,
    ) -> Made<T, Self::Error>;
}

impl Script for Builder<'_> {
    type Error = Error;

    fn build<T>(&mut self, append: impl FnOnce(&mut Builder<'_>) -> Result<T>) -> Result<T> {
        append(self)
    }
}

/// Runs the first of several parts whose condition holds.
#[derive(Debug, Default)]
pub struct Switch {
    /// True when no case so far held.
    none_before: Option<Var>,
}

impl Switch {
    /// Runs `body` if `condition` holds and no case before it did.
    pub fn case(
        &mut self,
        b: &mut Builder<'_>,
        condition: &Var,
        body: impl FnOnce(&mut Builder<'_>) -> Result<()>,
    ) -> Result<()> {
        let runs = self.condition(b, condition)?;
        conditional(b, &runs, body)
    }

    /// The condition of the next case: `condition` holds and none before it did.
    pub fn condition(&mut self, b: &mut Builder<'_>, condition: &Var) -> Result<Var> {
        let not = logical(b, OpDesc::new("logical_not").input("X", condition))?;
        let (none, runs) = match &self.none_before {
            None => (not, condition.clone()),
            Some(before) => {
                let and = |y| OpDesc::new("logical_and").input("X", before).input("Y", y);
                (logical(b, and(&not))?, logical(b, and(condition))?)
            }
        };
        self.none_before = Some(none);
        Ok(runs)
    }

    /// Fluid's `default`: runs `body` if no case held; there must be a case.
    pub fn otherwise(
        self,
        b: &mut Builder<'_>,
        body: impl FnOnce(&mut Builder<'_>) -> Result<()>,
    ) -> Result<()> {
        conditional(b, self.otherwise_condition()?, body)
    }

    /// The condition of `default`: no case held.
    pub fn otherwise_condition(&self) -> Result<&Var> {
        self.none_before.as_ref().ok_or_else(|| Error::BadArgument {
            layer: "Switch",
            argument: "default",
            rule: "there should be at least one condition",
            actual: "none".to_string(),
        })
    }
}

fn logical(b: &mut Builder<'_>, op: OpDesc) -> Result<Var> {
    let kind = op.kind.clone();
    append(b, &kind, None, DType::Bool, op)
}

/// Builds a block inside of the current one.
fn inside<S: Script, T>(
    script: &mut S,
    body: impl FnOnce(&mut S) -> Made<T, S::Error>,
) -> Made<(BlockId, T), S::Error> {
    let block = script.build(|b| Ok(b.main.push_block()))?;
    let built = body(script);
    script.build(|b| {
        b.main.pop_block();
        Ok(())
    })?;
    Ok((block, built?))
}

/// What a block reads and writes of the blocks around it, each name once.
fn outside(b: &Builder<'_>, block: BlockId) -> (Vec<String>, Vec<String>) {
    let inner = b.main.block(block);
    let distinct = |vars: Vec<&str>| {
        let mut names: Vec<String> = Vec::new();
        for var in vars {
            if inner.var(var).is_none() && !names.iter().any(|name| name == var) {
                names.push(var.to_string());
            }
        }
        names
    };
    let reads = distinct(inner.ops.iter().flat_map(OpDesc::reads).collect());
    (reads, distinct(inner.ops.iter().flat_map(OpDesc::writes).collect()))
}

/// A variable without a name of the user's, in the current block.
fn generated(b: &mut Builder<'_>, meta: Meta) -> Var {
    let name = b.names.generate("_generated_var");
    let block = b.main.current_block();
    b.main.block_mut(block).put_var(VarDesc::new(&name, meta));
    Var::from(name)
}

fn scopes(b: &mut Builder<'_>) -> Var {
    generated(b, Meta { kind: VarKind::StepScopes, ..Meta::default() })
}

/// A block of its own, and the op that runs it if `condition` holds.
fn conditional(
    b: &mut Builder<'_>,
    condition: &Var,
    body: impl FnOnce(&mut Builder<'_>) -> Result<()>,
) -> Result<()> {
    let (block, ()) = inside(b, |b| body(b))?;
    run_if(b, condition, block)
}

/// Appends the op that runs a block inside of the current one if `condition` holds.
pub fn run_if(b: &mut Builder<'_>, condition: &Var, block: BlockId) -> Result<()> {
    run_on(b, condition, block, true)
}

/// Appends the op that runs a block inside of the current one if nothing that it reads is empty.
pub fn run_unless_empty(b: &mut Builder<'_>, condition: &Var, block: BlockId) -> Result<()> {
    run_on(b, condition, block, false)
}

fn run_on(b: &mut Builder<'_>, condition: &Var, block: BlockId, is_scalar: bool) -> Result<()> {
    let (reads, writes) = outside(b, block);
    let scope = scopes(b);
    b.op(OpDesc::new("conditional_block")
        .input("Cond", condition)
        .input("Input", reads)
        .output("Out", writes)
        .output("Scope", &scope)
        .attr("sub_block", Attr::Block(block as i32))
        .attr("is_scalar_condition", is_scalar))
}

/// Runs `body` again and again while `condition` holds; `body` must change `condition`.
pub fn while_loop<S: Script>(
    script: &mut S,
    condition: &Var,
    body: impl FnOnce(&mut S) -> Made<(), S::Error>,
) -> Made<(), S::Error> {
    let (block, ()) = inside(script, body)?;
    script.build(|b| run_while(b, condition, block))
}

/// Appends the op that runs a block inside of the current one while `condition` holds.
pub fn run_while(b: &mut Builder<'_>, condition: &Var, block: BlockId) -> Result<()> {
    let (mut reads, writes) = outside(b, block);
    reads.retain(|name| name != condition.name());
    if !writes.iter().any(|name| name == condition.name()) {
        return Err(Error::BadArgument {
            layer: "While",
            argument: "cond",
            rule: "the loop must change its condition, or it never ends",
            actual: condition.name().to_string(),
        });
    }
    let scope = scopes(b);
    b.op(OpDesc::new("while")
        .input("X", reads)
        .input("Condition", condition)
        .output("Out", writes)
        .output("StepScopes", &scope)
        .attr("sub_block", Attr::Block(block as i32))
        .attr("is_test", false))
}

/// The results of `true_fn` if `pred` holds, else those of `false_fn`; both have as many.
pub fn cond<S: Script>(
    script: &mut S,
    pred: &Var,
    true_fn: impl FnOnce(&mut S) -> Made<Vec<Var>, S::Error>,
    false_fn: impl FnOnce(&mut S) -> Made<Vec<Var>, S::Error>,
) -> Made<Vec<Var>, S::Error> {
    let held = branch(script, pred, true_fn)?;
    let not = script.build(|b| logical(b, OpDesc::new("logical_not").input("X", pred)))?;
    let failed = branch(script, &not, false_fn)?;
    script.build(|b| choose(b, pred, held, failed))
}

/// What [`cond`] gives of the results of two branches: those of `held` if `pred` holds.
pub fn choose(
    b: &mut Builder<'_>,
    pred: &Var,
    held: Vec<Var>,
    failed: Vec<Var>,
) -> Result<Vec<Var>> {
    if held.len() != failed.len() {
        return Err(Error::BadArgument {
            layer: "cond",
            argument: "false_fn",
            rule: "it must give as many results as true_fn",
            actual: format!("{} and {}", failed.len(), held.len()),
        });
    }
    let cast = OpDesc::new("cast").input("X", pred).attr("in_dtype", DType::Bool.code());
    let mask = append(b, "cast", None, DType::I32, cast.attr("out_dtype", DType::I32.code()))?;
    let mut chosen = Vec::new();
    for (yes, no) in held.into_iter().zip(failed) {
        let out = generated(b, b.meta(&yes)?);
        let op = OpDesc::new("select_input").input("X", &[no, yes][..]).input("Mask", &mask);
        b.op(op.output("Out", &out))?;
        chosen.push(out);
    }
    Ok(chosen)
}

/// A block that runs if `condition` holds and leaves its results in variables of the block around it.
pub fn branch<S: Script>(
    script: &mut S,
    condition: &Var,
    body: impl FnOnce(&mut S) -> Made<Vec<Var>, S::Error>,
) -> Made<Vec<Var>, S::Error> {
    let (block, results) = inside(script, body)?;
    script.build(|b| {
        let outs = leave(b, block, &results)?;
        run_if(b, condition, block)?;
        Ok(outs)
    })
}

/// Copies results of a block into variables of the current one, around it.
fn leave(b: &mut Builder<'_>, block: BlockId, results: &[Var]) -> Result<Vec<Var>> {
    let mut outs = Vec::new();
    for result in results {
        let meta = b.main.need_var(block, result.name())?.meta.clone();
        let out = generated(b, meta);
        b.main.append_op(block, OpDesc::new("assign").input("X", result).output("Out", &out))?;
        outs.push(out);
    }
    Ok(outs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;
    use crate::layers::{self, FillConstant};

    fn constant(b: &mut Builder<'_>, dtype: DType, value: f64) -> Var {
        layers::fill_constant(b, &[1], dtype, value, FillConstant::default()).unwrap()
    }

    fn less_than(b: &mut Builder<'_>, x: &Var, y: &Var, out: &str) -> Result<()> {
        b.op(OpDesc::new("less_than").input("X", x).input("Y", y).output("Out", out))
    }

    #[test]
    fn a_switch_appends_what_fluids_does() {
        let mut net = Net::default();
        let mut b = net.builder();
        let (lr, one) = (constant(&mut b, DType::F32, 0.0), constant(&mut b, DType::F32, 1.0));
        less_than(&mut b, &lr, &one, "c").unwrap();
        let condition = Var::from("c");
        let mut switch = Switch::default();
        for _ in 0..2 {
            let body = |b: &mut Builder<'_>| layers::assign(b, &one, Some(&lr)).map(|_| ());
            switch.case(&mut b, &condition, body).unwrap();
        }
        switch.otherwise(&mut b, |b| layers::assign(b, &one, Some(&lr)).map(|_| ())).unwrap();
        let kinds: Vec<_> = net.main.block(0).ops[3..].iter().map(|op| &*op.kind).collect();
        let first = ["logical_not", "conditional_block"];
        let second = ["logical_not", "logical_and", "logical_and", "conditional_block"];
        assert_eq!(kinds, [&first[..], &second, &["conditional_block"]].concat());
        let op = net.main.block(0).ops.last().unwrap();
        assert_eq!(op.input_names("Cond"), ["logical_and_0.tmp_0"]);
        assert_eq!(op.input_names("Input"), [one.name()]);
        assert_eq!(op.output_names("Out"), [lr.name()]);
        assert_eq!(op.output_names("Scope"), ["_generated_var_2"]);
        assert_eq!(op.sub_blocks(), [3]);
        let error = Switch::default().otherwise(&mut net.builder(), |_| Ok(())).unwrap_err();
        assert!(matches!(error.root(), Error::BadArgument { .. }), "{error}");
    }

    #[test]
    fn a_loop_names_what_it_reads_and_writes() {
        let mut net = Net::default();
        let mut b = net.builder();
        let (i, n) = (constant(&mut b, DType::I64, 0.0), constant(&mut b, DType::I64, 4.0));
        less_than(&mut b, &i, &n, "c").unwrap();
        let condition = Var::from("c");
        let step = |b: &mut Builder<'_>| {
            let op = OpDesc::new("increment").input("X", &i).output("Out", &i);
            b.op(op.attr("step", 1.0f32))?;
            less_than(b, &i, &n, "c")
        };
        while_loop(&mut b, &condition, step).unwrap();
        let op = b.main.block(0).ops.last().unwrap();
        assert_eq!(op.input_names("X"), [i.name(), n.name()]);
        assert_eq!(op.output_names("Out"), [i.name(), "c"]);
        let error = while_loop(&mut b, &condition, |_| Ok(())).unwrap_err();
        assert!(matches!(error.root(), Error::BadArgument { .. }), "{error}");
    }

    #[test]
    fn cond_gives_one_of_two_results() {
        let mut net = Net::default();
        let mut b = net.builder();
        let (x, y) = (constant(&mut b, DType::F32, 3.0), constant(&mut b, DType::F32, 4.0));
        less_than(&mut b, &x, &y, "c").unwrap();
        let pred = Var::from("c");
        let mut yes = |b: &mut Builder<'_>| Ok(vec![layers::assign(b, &x, None)?]);
        let mut no = |b: &mut Builder<'_>| Ok(vec![layers::assign(b, &y, None)?]);
        let out = cond(&mut b, &pred, &mut yes, &mut no).unwrap();
        assert_eq!(out, [Var::from("_generated_var_4")]);
        assert_eq!(b.meta(&out[0]).unwrap().dims, [1]);
        let op = b.main.block(0).ops.last().unwrap();
        assert_eq!(op.input_names("X"), ["_generated_var_2", "_generated_var_0"]);
        let mut none = |_: &mut Builder<'_>| Ok(Vec::new());
        let error = cond(&mut b, &pred, &mut yes, &mut none).unwrap_err();
        assert!(matches!(error.root(), Error::BadArgument { .. }), "{error}");
    }
}
