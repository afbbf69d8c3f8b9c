//! The usual layer: a name, one op, its results.

use tensor::DType;

use crate::attr::Attr;
use crate::block::{OpDesc, VarNames};
use crate::builder::{Builder, Var};
use crate::error::Result;
use crate::layers::{Results, activate};
use crate::var::{Meta, VarDesc};

/// An op on its way into a program. What is said first comes first: results get their names in the
/// order in which they are asked for.
pub(super) struct OneOp<'b, 'p> {
    b: &'b mut Builder<'p>,
    layer: String,
    op: OpDesc,
    /// The first input: results are of its type unless something else is said.
    like: Option<String>,
    made: Vec<Var>,
}

/// An op of this kind, as a layer of the same name unless the user gives it one.
pub(super) fn one_op<'b, 'p>(
    b: &'b mut Builder<'p>,
    kind: &str,
    name: Option<&str>,
) -> OneOp<'b, 'p> {
    let layer = b.layer_name(kind, name);
    OneOp { b, layer, op: OpDesc::new(kind), like: None, made: Vec::new() }
}

impl<'b, 'p> OneOp<'b, 'p> {
    /// Makes the op one of another kind; the names of the layer stay.
    pub(super) fn of(self, kind: &str) -> Self {
        Self { op: OpDesc { kind: kind.to_string(), ..self.op }, ..self }
    }

    /// Adds an input port.
    pub(super) fn input(mut self, port: &str, vars: impl VarNames) -> Self {
        self.op = self.op.input(port, vars);
        if self.like.is_none() {
            self.like = self.op.inputs[0].1.first().cloned();
        }
        self
    }

    /// Adds an input port if there is something to attach.
    pub(super) fn maybe(self, port: &str, var: Option<&Var>) -> Self {
        match var {
            Some(var) => self.input(port, var),
            None => self,
        }
    }

    /// Sets an attribute.
    pub(super) fn attr(mut self, name: &str, value: impl Into<Attr>) -> Self {
        self.op = self.op.attr(name, value);
        self
    }

    /// Lets a function say more of the op; it may append others before it.
    pub(super) fn with(
        mut self,
        say: impl FnOnce(&mut Builder<'p>, &str, OpDesc) -> Result<OpDesc>,
    ) -> Result<Self> {
        self.op = say(self.b, &self.layer, self.op)?;
        Ok(self)
    }

    fn usual_dtype(&self) -> Result<DType> {
        let like = Var::from(self.like.as_deref().unwrap_or_default());
        Ok(self.b.meta(&like)?.dtype)
    }

    /// A result of this type.
    pub(super) fn also_of(mut self, port: &str, dtype: DType) -> Self {
        let var = self.b.temp(&self.layer, dtype);
        self.op = self.op.output(port, &var);
        self.made.push(var);
        self
    }

    /// A result of this type that gradients do not pass.
    pub(super) fn also_stopped(mut self, port: &str, dtype: DType) -> Self {
        let var = self.b.temp_stopped(&self.layer, dtype);
        self.op = self.op.output(port, &var);
        self.made.push(var);
        self
    }

    /// A result of the first input's type.
    pub(super) fn also(self, port: &str) -> Result<Self> {
        let dtype = self.usual_dtype()?;
        Ok(self.also_of(port, dtype))
    }

    /// A result that is written into a variable that exists.
    pub(super) fn write(mut self, port: &str, var: &Var) -> Self {
        self.op = self.op.output(port, var);
        self.made.push(var.clone());
        self
    }

    /// Appends the op, then the activation `act` of the first result if there is one.
    pub(super) fn first_activated(self, act: Option<&str>) -> Result<Var> {
        self.b.op(self.op)?;
        let first = self.made.into_iter().next().expect("a layer has a result");
        activate(self.b, &self.layer, first, act)
    }

    /// Appends the op and gives out the first result.
    pub(super) fn first(self) -> Result<Var> {
        self.first_activated(None)
    }

    /// Appends the op and gives out the first two results.
    pub(super) fn pair(self) -> Result<(Var, Var)> {
        self.b.op(self.op)?;
        let mut made = self.made.into_iter();
        let first = made.next().expect("a layer has a result");
        let second = made.next().unwrap_or_else(|| first.clone());
        Ok((first, second))
    }

    /// Appends the op and gives out all results.
    pub(super) fn several(self) -> Result<Results> {
        self.all().map(Results::Several)
    }

    /// The same as a list.
    pub(super) fn all(self) -> Result<Vec<Var>> {
        self.b.op(self.op)?;
        Ok(self.made)
    }

    /// Appends the op; its result is of the first input's type.
    pub(super) fn out(self, port: &str) -> Result<Var> {
        let dtype = self.usual_dtype()?;
        self.out_of(port, dtype)
    }

    /// Appends the op; its result is of this type.
    pub(super) fn out_of(self, port: &str, dtype: DType) -> Result<Var> {
        let op = self.also_of(port, dtype);
        let out = op.made[op.made.len() - 1].clone();
        op.b.op(op.op)?;
        Ok(out)
    }

    /// Appends the op; its result is of this type, and gradients do not pass it.
    pub(super) fn out_stopped(self, port: &str, dtype: DType) -> Result<Var> {
        let op = self.also_stopped(port, dtype);
        let out = op.made[op.made.len() - 1].clone();
        op.b.op(op.op)?;
        Ok(out)
    }

    /// Appends the op; it writes into `given`, or into a variable of the first input's type.
    pub(super) fn out_into(self, port: &str, given: Option<&Var>) -> Result<Var> {
        let Some(given) = given else { return self.out(port) };
        self.b.op(self.op.output(port, given))?;
        Ok(given.clone())
    }

    /// Appends the op; its result, of the first input's type, has this name if there is one.
    pub(super) fn out_named(self, port: &str, name: Option<&str>) -> Result<Var> {
        let Some(name) = name else { return self.out(port) };
        let dtype = self.usual_dtype()?;
        self.out_of_named(port, dtype, name)
    }

    /// Appends the op; its result is of this type and has this name.
    pub(super) fn out_of_named(self, port: &str, dtype: DType, name: &str) -> Result<Var> {
        let meta = Meta { dtype, ..Meta::default() };
        let block = self.b.main.current_block();
        self.b.main.block_mut(block).put_var(VarDesc::new(name, meta));
        self.write(port, &Var::from(name)).first()
    }

    /// Appends the op; it writes into `given`, or into a variable of this type.
    pub(super) fn out_of_into(self, port: &str, dtype: DType, given: Option<&Var>) -> Result<Var> {
        match given {
            Some(_) => self.out_into(port, given),
            None => self.out_of(port, dtype),
        }
    }

    /// Appends the op, then the activation `act` of its result if there is one.
    pub(super) fn out_activated(self, port: &str, act: Option<&str>) -> Result<Var> {
        self.also(port)?.first_activated(act)
    }
}

/// Appends `op` as a layer of this kind; its result, at port `Out`, is of type `dtype`.
pub(super) fn append(
    b: &mut Builder<'_>,
    kind: &str,
    name: Option<&str>,
    dtype: DType,
    op: OpDesc,
) -> Result<Var> {
    one_op(b, kind, name).with(|_, _, _| Ok(op))?.out_of("Out", dtype)
}
