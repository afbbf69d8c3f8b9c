//! `StaticRNN`: a network that is run for each step of its inputs.
//!
//! What is built between [`StaticRnn::open`] and [`StaticRnn::close`] is one step, in a block of its own.

use super::fill::{BatchSizeLike, with_value};
use crate::attr::Attr;
use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::{Error, Result};
use crate::program::BlockId;
use crate::var::{Meta, VarDesc, VarKind};

/// A memory: what it starts as, what a step finds, and what it leaves.
#[derive(Debug)]
struct RnnMemory {
    init: Var,
    before: Var,
    after: Option<Var>,
}

/// A network of steps while it is built.
#[derive(Debug)]
pub struct StaticRnn {
    layer: String,
    block: Option<BlockId>,
    n_steps: Option<i64>,
    inputs: Vec<Var>,
    memories: Vec<RnnMemory>,
    outputs: Vec<Var>,
    done: bool,
}

/// How a memory that starts with one number everywhere gets its shape.
#[derive(Debug)]
pub struct Boot<'a> {
    /// Its shape; the size at `batch_dim` is that of the reference.
    pub shape: &'a [i32],
    /// Whose batch it has.
    pub like: &'a Var,
    /// What every element is.
    pub value: f32,
    /// Which dimension of the memory is the batch.
    pub batch_dim: i32,
    /// Which dimension of the reference is the batch.
    pub like_dim: i32,
}

fn refuse(argument: &'static str, rule: &'static str, actual: &str) -> Error {
    Error::BadArgument { layer: "StaticRNN", argument, rule, actual: actual.to_string() }
}

impl StaticRnn {
    /// A network of this name; nothing is built yet.
    pub fn new(b: &mut Builder<'_>, name: Option<&str>) -> Self {
        let layer = b.layer_name("static_rnn", name);
        let inputs = Vec::new();
        let memories = Vec::new();
        let outputs = Vec::new();
        Self { layer, block: None, n_steps: None, inputs, memories, outputs, done: false }
    }

    /// Begins the step: what is built now is done for each.
    pub fn open(&mut self, b: &mut Builder<'_>) -> Result<()> {
        if self.block.is_some() {
            return Err(refuse("step", "there is one step", "a second one"));
        }
        self.block = Some(b.main.push_block());
        Ok(())
    }

    fn inside(&self, b: &Builder<'_>, method: &'static str) -> Result<BlockId> {
        match self.block {
            Some(block) if !self.done && b.main.current_block() == block => Ok(block),
            _ => Err(refuse(method, "it must be called inside `with rnn.step()`", "outside of it")),
        }
    }

    fn around(&self, b: &Builder<'_>, block: BlockId) -> BlockId {
        b.main.block(block).parent.max(0) as usize
    }

    /// One step of `x`, whose first dimension is time.
    pub fn step_input(&mut self, b: &mut Builder<'_>, x: &Var) -> Result<Var> {
        let block = self.inside(b, "step_input")?;
        let meta = b.main.need_var(self.around(b, block), x.name())?.meta.clone();
        let Some((&steps, rest)) = meta.dims.split_first() else {
            return Err(refuse("x", "its first dimension is time", x.name()));
        };
        match self.n_steps {
            None => self.n_steps = Some(steps),
            Some(before) if steps != -1 && before != steps => {
                return Err(refuse("x", "Static RNN only take fix seq_len input", x.name()));
            }
            Some(_) => {}
        }
        let step = VarDesc::new(x.name(), meta.with_dims(rest.to_vec()));
        b.main.block_mut(block).put_var(step);
        self.inputs.push(x.clone());
        Ok(x.clone())
    }

    /// A memory that starts as `init`.
    pub fn memory(&mut self, b: &mut Builder<'_>, init: &Var) -> Result<Var> {
        let block = self.inside(b, "memory")?;
        let name = b.names.generate(&format!("{}@mem", self.layer));
        let meta = b.meta(init)?;
        b.main.block_mut(block).put_var(VarDesc::new(&name, meta));
        let before = Var::from(name);
        self.memories.push(RnnMemory { init: init.clone(), before: before.clone(), after: None });
        Ok(before)
    }

    /// A memory that starts with one number everywhere.
    pub fn boot(&mut self, b: &mut Builder<'_>, boot: &Boot<'_>) -> Result<Var> {
        let block = self.inside(b, "memory")?;
        let around = self.around(b, block);
        let name = b.names.generate(&format!("{}@memory_boot", self.layer));
        let dtype = b.meta(boot.like)?.dtype;
        let dims: Vec<i64> = boot.shape.iter().map(|&size| size.into()).collect();
        let meta = Meta::dense(dtype, &dims);
        b.main.block_mut(around).put_var(VarDesc::new(&name, meta));
        let like = BatchSizeLike {
            input: boot.like,
            shape: boot.shape,
            input_dim_idx: boot.like_dim,
            output_dim_idx: boot.batch_dim,
        };
        let op = like.on(OpDesc::new("fill_constant_batch_size_like"), dtype);
        let op = with_value(op, dtype, f64::from(boot.value));
        b.main.append_op(around, op.output("Out", &name))?;
        self.memory(b, &Var::from(name))
    }

    /// Says what a step leaves in a memory.
    pub fn update_memory(&mut self, memory: &Var, var: &Var) -> Result<()> {
        let found = self.memories.iter_mut().find(|held| held.before.name() == memory.name());
        let found =
            found.ok_or_else(|| refuse("mem", "it must be what `memory` gave", memory.name()))?;
        found.after = Some(var.clone());
        Ok(())
    }

    /// What a step gives; all steps together are a result of the network.
    pub fn step_output(&mut self, b: &mut Builder<'_>, o: &Var) -> Result<()> {
        let block = self.inside(b, "step_output")?;
        let out = self.copy(b, o)?;
        let meta = b.main.need_var(block, out.name())?.meta.clone();
        let dims = [&[self.n_steps.unwrap_or(-1)][..], &meta.dims].concat();
        let around = self.around(b, block);
        b.main.block_mut(around).put_var(VarDesc::new(out.name(), meta.with_dims(dims)));
        self.outputs.push(out);
        Ok(())
    }

    /// A variable of the block under a name of its own.
    fn copy(&self, b: &mut Builder<'_>, var: &Var) -> Result<Var> {
        let dtype = b.meta(var)?.dtype;
        let out = b.temp(&self.layer, dtype);
        let op = OpDesc::new("rnn_memory_helper").input("X", var).output("Out", &out);
        b.op(op.attr("dtype", dtype.code()))?;
        Ok(out)
    }

    /// Ends the step without an op that runs it: something in it failed.
    pub fn abandon(&mut self, b: &mut Builder<'_>) {
        if self.block.is_some() && !self.done {
            b.main.pop_block();
        }
        self.done = true;
    }

    /// Ends the step and appends the op that runs it.
    pub fn close(&mut self, b: &mut Builder<'_>) -> Result<()> {
        let block = self.inside(b, "step")?;
        let around = self.around(b, block);
        let mut states = Vec::new();
        for memory in &self.memories {
            let after = memory.after.as_ref().ok_or_else(|| {
                refuse("update_memory", "should be updated in every step", memory.init.name())
            })?;
            states.push(self.copy(b, after)?.name().to_string());
        }
        let parameters = self.parameters(b, block);
        let scopes = b.names.generate("_generated_var");
        let meta = Meta { kind: VarKind::StepScopes, ..Meta::default() };
        b.main.block_mut(around).put_var(VarDesc::new(&scopes, meta));
        b.main.pop_block();
        self.done = true;
        let names = |vars: &mut dyn Iterator<Item = &Var>| -> Vec<String> {
            vars.map(|var| var.name().to_string()).collect()
        };
        let before = names(&mut self.memories.iter().map(|memory| &memory.before));
        let op = OpDesc::new("recurrent")
            .input("inputs", &self.inputs[..])
            .input("initial_states", names(&mut self.memories.iter().map(|memory| &memory.init)))
            .input("parameters", parameters)
            .output("outputs", &self.outputs[..])
            .output("step_scopes", &scopes)
            .attr("has_states", !before.is_empty())
            .attr("ex_states", before)
            .attr("states", states)
            .attr("sub_block", Attr::Block(block as i32));
        b.main.append_op(around, op)
    }

    /// What the step reads of the blocks around it, each name once, in order of use.
    fn parameters(&self, b: &Builder<'_>, block: BlockId) -> Vec<String> {
        let inner = b.main.block(block);
        let mut found: Vec<String> = Vec::new();
        for var in inner.ops.iter().flat_map(OpDesc::reads) {
            if inner.var(var).is_none() && !found.iter().any(|name| name == var) {
                found.push(var.to_string());
            }
        }
        found
    }

    /// The results, once the step was built.
    pub fn outputs(&self) -> Result<&[Var]> {
        match (self.done, self.outputs.is_empty()) {
            (false, _) => {
                Err(refuse("step", "RNN output can only be retrieved after rnn block", "inside"))
            }
            (true, true) => Err(refuse("output", "RNN has no output", "none")),
            (true, false) => Ok(&self.outputs),
        }
    }
}
