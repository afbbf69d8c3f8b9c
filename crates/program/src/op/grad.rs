//! The input of an op's gradient rule: the forward op, and the gradients that are wanted.

use crate::block::OpDesc;
use crate::error::Result;
use crate::names::{self, EMPTY};
use crate::program::{BlockId, Program};
use crate::var::Meta;

/// The gradient rule of an op that passes no gradient on: it adds no op.
macro_rules! no_gradient {
    () => {
        fn grad(&self, _grad: &mut $crate::op::Grad<'_>) -> $crate::Result<()> {
            Ok(())
        }
    };
}
pub(crate) use no_gradient;

/// One forward op being differentiated.
pub struct Grad<'a> {
    program: &'a Program,
    block: BlockId,
    op: &'a OpDesc,
    no_grad: &'a dyn Fn(&str) -> bool,
    emitted: Vec<OpDesc>,
}

/// The inputs and outputs of the usual gradient op, by port of the forward op.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keep<'a> {
    /// Forward inputs it reads.
    pub inputs: &'a [&'a str],
    /// Forward outputs it reads.
    pub outputs: &'a [&'a str],
    /// Outputs whose gradients it reads.
    pub out_grads: &'a [&'a str],
    /// Inputs whose gradients it writes.
    pub in_grads: &'a [&'a str],
}

impl<'a> Keep<'a> {
    /// From the gradients of these outputs to the gradients of these inputs; nothing else is read.
    pub const fn grads(out_grads: &'a [&'a str], in_grads: &'a [&'a str]) -> Self {
        Self { inputs: &[], outputs: &[], out_grads, in_grads }
    }

    /// Reads these forward inputs, too.
    pub const fn inputs(self, inputs: &'a [&'a str]) -> Self {
        Self { inputs, ..self }
    }

    /// Reads these forward outputs, too.
    pub const fn outputs(self, outputs: &'a [&'a str]) -> Self {
        Self { outputs, ..self }
    }
}

impl<'a> Grad<'a> {
    pub(crate) fn new(
        program: &'a Program,
        block: BlockId,
        op: &'a OpDesc,
        no_grad: &'a dyn Fn(&str) -> bool,
    ) -> Self {
        Self { program, block, op, no_grad, emitted: Vec::new() }
    }

    pub(crate) fn into_ops(self) -> Vec<OpDesc> {
        self.emitted
    }

    /// The forward op.
    pub fn op(&self) -> &OpDesc {
        self.op
    }

    /// The forward op's variables at an input port.
    pub fn input(&self, port: &str) -> Vec<String> {
        self.op.input_names(port).to_vec()
    }

    /// The forward op's variables at an output port.
    pub fn output(&self, port: &str) -> Vec<String> {
        self.op.output_names(port).to_vec()
    }

    /// The gradients that arrive at an output port.
    pub fn output_grad(&self, port: &str) -> Vec<String> {
        self.op.output_names(port).iter().map(|var| names::grad(var)).collect()
    }

    /// The gradients to write for an input port: empty, or with placeholders, where not wanted.
    pub fn input_grad(&self, port: &str) -> Vec<String> {
        let vars = self.op.input_names(port);
        let name = |var: &String| {
            if (self.no_grad)(var) { EMPTY.to_string() } else { names::grad(var) }
        };
        match vars {
            [one] if (self.no_grad)(one) => Vec::new(),
            _ => vars.iter().map(name).collect(),
        }
    }

    /// Shape and type of a variable.
    pub fn meta(&self, var: &str) -> Result<&Meta> {
        Ok(&self.program.need_var(self.block, var)?.meta)
    }

    /// Adds a gradient op.
    pub fn emit(&mut self, op: OpDesc) -> Result<()> {
        self.emitted.push(op);
        Ok(())
    }

    /// Adds `<op>_grad` with the forward op's attributes and the ports named in `keep`.
    pub fn emit_usual(&mut self, keep: Keep<'_>) -> Result<()> {
        let mut op = OpDesc::new(&format!("{}_grad", self.op.kind));
        for port in keep.inputs {
            op = op.input(port, self.input(port));
        }
        for port in keep.outputs {
            op = op.input(port, self.output(port));
        }
        for port in keep.out_grads {
            op = op.input(&names::grad(port), self.output_grad(port));
        }
        for port in keep.in_grads {
            op = op.output(&names::grad(port), self.input_grad(port));
        }
        op.attrs = self.op.attrs.clone();
        self.emit(op)
    }
}
