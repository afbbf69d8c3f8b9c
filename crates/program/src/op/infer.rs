//! The input of an op's shape rule: the descriptions of its variables and its attributes.

use tensor::DType;

use crate::attr::Attrs;
use crate::block::{OpDesc, OpId};
use crate::error::{Error, Result};
use crate::names::EMPTY;
use crate::program::{BlockId, Program};
use crate::var::{Meta, VarDesc};

/// Ops join a program here, so that the program itself knows no op.
impl Program {
    /// Appends an op: fills in its common attributes and infers the shapes of what it writes.
    pub fn append_op(&mut self, block: BlockId, op: OpDesc) -> Result<()> {
        let end = self.block(block).ops.len();
        self.insert_op(block, end, op)
    }

    /// Puts an op before all others.
    pub fn prepend_op(&mut self, block: BlockId, op: OpDesc) -> Result<()> {
        self.insert_op(block, 0, op)
    }

    /// Puts an op at a place.
    pub fn insert_op(&mut self, block: BlockId, index: usize, mut op: OpDesc) -> Result<()> {
        op.id = OpId::default();
        self.fill_common_attrs(&mut op);
        infer(self, block, &op).map_err(|source| op.failed(block, index, source))?;
        self.block_mut(block).ops.insert(index, op);
        Ok(())
    }

    /// Says the shapes of what an op of a block writes.
    pub fn infer_op(&mut self, block: BlockId, op: &OpDesc) -> Result<()> {
        infer(self, block, op)
    }
}

/// Applies the shape rule of an op that is about to join a block.
fn infer(program: &mut Program, block: BlockId, op: &OpDesc) -> Result<()> {
    let rules = super::find(&op.kind)?;
    for var in op.reads() {
        program.need_var(block, var)?;
    }
    rules.infer(&mut Infer { program, block, op })?;
    // Whatever the rule said nothing about still exists from now on.
    for var in op.writes() {
        if program.find_var(block, var).is_none() {
            program.block_mut(block).put_var(VarDesc::new(var, Meta::default()));
        }
    }
    Ok(())
}

/// The variables and attributes of one op, as descriptions.
pub struct Infer<'a> {
    program: &'a mut Program,
    block: BlockId,
    op: &'a OpDesc,
}

impl Infer<'_> {
    /// The op itself.
    pub fn op(&self) -> &OpDesc {
        self.op
    }

    /// Its attributes.
    pub fn attrs(&self) -> &Attrs {
        &self.op.attrs
    }

    /// Shape and type of the variable at an input port.
    pub fn input(&self, port: &str) -> Result<Meta> {
        self.opt_input(port)?
            .ok_or_else(|| Error::MissingInput { op: self.op.kind.clone(), port: port.to_string() })
    }

    /// Shape and type of the variable at an input port that may be absent.
    pub fn opt_input(&self, port: &str) -> Result<Option<Meta>> {
        Ok(self.inputs(port)?.into_iter().next())
    }

    /// Shapes and types of all variables at an input port.
    pub fn inputs(&self, port: &str) -> Result<Vec<Meta>> {
        let names = self.op.input_names(port).iter().filter(|name| *name != EMPTY);
        names.map(|name| Ok(self.program.need_var(self.block, name)?.meta.clone())).collect()
    }

    /// The name of the first variable at an input port, for messages.
    pub fn input_name(&self, port: &str) -> String {
        self.op.input_names(port).first().cloned().unwrap_or_else(|| port.to_string())
    }

    /// How many variables an output port has.
    pub fn n_outputs(&self, port: &str) -> usize {
        self.op.output_names(port).len()
    }

    /// Says what the variable at an output port will be; does nothing if the port is absent.
    pub fn set_output(&mut self, port: &str, meta: Meta) -> Result<()> {
        self.set_output_at(port, 0, meta)
    }

    /// Says what the `index`-th variable at an output port will be.
    pub fn set_output_at(&mut self, port: &str, index: usize, meta: Meta) -> Result<()> {
        let Some(name) = self.op.output_names(port).get(index).filter(|name| *name != EMPTY) else {
            return Ok(());
        };
        let owner = self.program.owner_of(self.block, name).unwrap_or(self.block);
        let block = self.program.block_mut(owner);
        match block.var_mut(name) {
            Some(var) => var.meta = meta,
            None => block.put_var(VarDesc::new(name, meta)),
        }
        Ok(())
    }

    /// Fails unless the variable at `port` has one of these types.
    pub fn check_dtype(&self, port: &str, allowed: &[DType], expected: &'static str) -> Result<()> {
        let actual = self.input(port)?.dtype;
        if allowed.contains(&actual) {
            return Ok(());
        }
        Err(Error::DType { var: self.input_name(port), expected, actual })
    }

    /// The error that a rule between two inputs does not hold.
    pub fn shapes(&self, rule: &'static str, left: &str, right: &str) -> Error {
        let dims = |port| self.opt_input(port).ok().flatten().map(|meta| meta.dims);
        Error::Shapes {
            rule,
            left: self.input_name(left),
            left_dims: dims(left).unwrap_or_default(),
            right: self.input_name(right),
            right_dims: dims(right).unwrap_or_default(),
        }
    }

    /// The error that a rule between the first and the `index`-th input at a port does not hold.
    pub fn shapes_at(&self, rule: &'static str, port: &str, index: usize) -> Error {
        let name = |index| self.op.input_names(port).get(index).cloned().unwrap_or_default();
        let all = self.inputs(port).unwrap_or_default();
        let dims = |index| all.get(index).map(|meta: &Meta| meta.dims.clone()).unwrap_or_default();
        let (left, left_dims) = (name(0), dims(0));
        Error::Shapes { rule, left, left_dims, right: name(index), right_dims: dims(index) }
    }

    /// The error that a rule about one input does not hold.
    pub fn shape(&self, rule: &'static str, port: &str) -> Error {
        let dims = self.opt_input(port).ok().flatten().map(|meta| meta.dims).unwrap_or_default();
        Error::Shape { rule, var: self.input_name(port), dims }
    }
}
