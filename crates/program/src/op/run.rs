//! The input of an op's kernel: the values of its variables.
//!
//! Output memory is recycled: a kernel *takes* the old tensor of an output, writes into its memory
//! and *puts* it back, so that a step that was run before allocates nothing.

use std::sync::Arc;

use tensor::{
    Element, LENT_BYTES_MIN, MergeScratch, PackedMatrix, Rows, Tensor, Value, within_memory,
};

use super::{Host, Wiring};
use crate::attr::Attrs;
use crate::block::OpDesc;
use crate::distributed::route::{Grads, Route, Send};
use crate::error::{Error, Result};
use crate::remote::Remote;
use crate::trainers::{Asked, Collective, Trainers};

/// Memory that no variable owns at the moment.
#[derive(Debug, Default)]
pub struct Spare {
    tensors: Vec<Tensor>,
    rows: Vec<Rows>,
    /// For merging rows.
    pub merge: MergeScratch,
}

/// Spare tensors kept; more than the aliased outputs of one op are never needed at once.
const SPARE_MAX: usize = 8;

impl Spare {
    /// A tensor with old memory, or a new one.
    pub fn tensor(&mut self) -> Tensor {
        self.tensors.pop().unwrap_or_default()
    }

    /// Keeps a tensor's memory for later.
    pub fn keep(&mut self, tensor: Tensor) {
        if self.tensors.len() < SPARE_MAX && tensor.capacity() > 0 {
            self.tensors.push(tensor);
        }
    }

    /// Rows with old memory, or new ones.
    pub fn rows(&mut self) -> Rows {
        self.rows.pop().unwrap_or_default()
    }

    /// Keeps the memory of rows for later.
    pub fn keep_rows(&mut self, rows: Rows) {
        if self.rows.len() < SPARE_MAX {
            self.rows.push(rows);
        }
    }

    fn keep_value(&mut self, value: Value) {
        match value {
            Value::Tensor(tensor) => self.keep(tensor),
            Value::Rows(rows) => self.keep_rows(rows),
            _ => {}
        }
    }
}

/// The values, attributes and surroundings of one op while it runs.
pub struct Run<'a> {
    op: &'a OpDesc,
    wiring: &'a Wiring,
    vars: &'a mut [Value],
    spare: &'a mut Spare,
    host: &'a mut dyn Host,
}

impl<'a> Run<'a> {
    /// Everything `op` needs; `wiring` was made from it for the places in `vars`.
    pub fn new(
        op: &'a OpDesc,
        wiring: &'a Wiring,
        vars: &'a mut [Value],
        spare: &'a mut Spare,
        host: &'a mut dyn Host,
    ) -> Self {
        Self { op, wiring, vars, spare, host }
    }

    /// The op itself.
    pub fn op(&self) -> &'a OpDesc {
        self.op
    }

    /// Its attributes.
    pub fn attrs(&self) -> &'a Attrs {
        &self.op.attrs
    }

    /// The world outside.
    pub fn host(&mut self) -> &mut dyn Host {
        self.host
    }

    /// Memory for merging rows, beside the values.
    pub fn spare(&mut self) -> &mut Spare {
        self.spare
    }

    /// Runs another block of the program on the same variables.
    pub fn run_block(&mut self, block: usize) -> Result<()> {
        self.host.run_block(block, self.vars)
    }

    /// The message of this op to servers; made when the program was prepared.
    pub fn route(&self) -> Option<&'a Route> {
        self.wiring.route()
    }

    /// The error of an op that cannot talk to servers here.
    pub fn no_servers(&self) -> Error {
        Error::NoHost { op: self.op.kind.clone(), what: "parameter servers" }
    }

    /// The servers of this run, and whatever is at an input port to tell them.
    pub fn remote_with(&mut self, port: &str) -> Result<(&mut dyn Remote, Vec<&Value>)> {
        let slots = self.wiring.input(port).iter().flatten();
        let values = slots.map(|&slot| &self.vars[slot]).collect();
        Ok((self.host.remote().map_err(|error| error.of_op(&self.op.kind))?, values))
    }

    /// Sends the variables of an input port. Servers may keep those that are sent for good: the
    /// variables get other memory for next time.
    pub fn send(&mut self, port: &str, send: &Send) -> Result<()> {
        let slots: Vec<usize> = self.wiring.input(port).iter().flatten().copied().collect();
        let remote = self.host.remote().map_err(|error| error.of_op(&self.op.kind))?;
        let for_good = matches!(send, Send::Grads(Grads { for_good: true, .. }));
        for &slot in slots.iter().filter(|_| for_good) {
            // Little is copied rather than kept: memory is worth more than its bytes.
            if self.vars[slot].tensor().is_some_and(|tensor| tensor.bytes().len() >= LENT_BYTES_MIN)
            {
                self.vars[slot].share();
            }
        }
        let values: Vec<&Value> = slots.iter().map(|&slot| &self.vars[slot]).collect();
        remote.send(send, &values)?;
        for &slot in slots.iter().filter(|_| for_good) {
            if let Value::Shared(tensor) = &self.vars[slot] {
                let n_bytes = tensor.bytes().len();
                self.vars[slot] = Value::Tensor(remote.memory(n_bytes));
            }
        }
        Ok(())
    }

    // ---- other trainers

    /// The other trainers of this run.
    pub fn trainers(&mut self) -> Result<&mut dyn Trainers> {
        self.host.trainers().map_err(|error| error.of_op(&self.op.kind))
    }

    /// Exchanges `X` with the other trainers and puts what it comes to into `Out`. If that fails,
    /// variables are what they were.
    pub fn exchange(&mut self, collective: Collective) -> Result<()> {
        let asked = self.asked(collective)?;
        let (from, to) = self.exchanged(0)?;
        let mut value = if to == Some(from) {
            std::mem::take(&mut self.vars[from])
        } else {
            self.vars[from].clone()
        };
        let trainers = self.host.trainers().map_err(|error| error.of_op(&self.op.kind));
        let result = trainers.and_then(|trainers| trainers.exchange(&asked, &mut value));
        if result.is_ok() || to == Some(from) {
            self.put_value_at("Out", 0, value);
        }
        result
    }

    /// Begins to exchange `X`, which is `Out`: [`Run::finish_exchange`] of another op waits for it.
    pub fn begin_exchange(&mut self, collective: Collective) -> Result<()> {
        let asked = self.asked(collective)?;
        let (from, _) = self.exchanged(0)?;
        let value = std::mem::take(&mut self.vars[from]);
        self.host.trainers().and_then(|trainers| trainers.begin(&asked, value))
    }

    /// Waits for what the exchange of the variable at `Out` comes to.
    pub fn finish_exchange(&mut self) -> Result<()> {
        let mut value = Value::Empty;
        let var = self.input_name("X").to_string();
        let result = self.trainers()?.finish(&var, &mut value);
        self.put_value_at("Out", 0, value);
        result
    }

    fn asked(&self, collective: Collective) -> Result<Asked> {
        let ring = self.attrs().int("ring_id", 0)?;
        Ok(Asked { collective, var: self.input_name("X").to_string(), ring })
    }

    /// The places of what is exchanged and of what it comes to.
    fn exchanged(&self, index: usize) -> Result<(usize, Option<usize>)> {
        let (port, var) = ("X".to_string(), self.input_name("X").to_string());
        let from = self.wiring.input("X").get(index).copied().flatten();
        let missing = || Error::MissingInput { op: self.op.kind.clone(), port: port.clone() };
        let from = from.ok_or_else(missing)?;
        if self.vars[from].is_empty() {
            return Err(Error::NotInitialized { port, var });
        }
        Ok((from, self.wiring.output("Out").get(index).copied().flatten()))
    }

    // ---- inputs

    /// How many variables an input port has.
    pub fn n_inputs(&self, port: &str) -> usize {
        self.wiring.input(port).len()
    }

    /// The tensor at an input port.
    pub fn input(&self, port: &str) -> Result<&Tensor> {
        self.input_at(port, 0)
    }

    /// The `index`-th tensor at an input port.
    pub fn input_at(&self, port: &str, index: usize) -> Result<&Tensor> {
        let value = self.value_at(port, index)?;
        value.tensor().ok_or_else(|| self.not_a_tensor(port, index, value))
    }

    /// The tensor at a port that may be absent or hold nothing.
    pub fn opt_input(&self, port: &str) -> Option<&Tensor> {
        let slot = self.wiring.input(port).first().copied().flatten()?;
        self.vars[slot].tensor()
    }

    /// Whatever is at an input port.
    pub fn value(&self, port: &str) -> Result<&Value> {
        self.value_at(port, 0)
    }

    /// Whatever is the `index`-th thing at an input port.
    pub fn value_at(&self, port: &str, index: usize) -> Result<&Value> {
        match self.wiring.input(port).get(index) {
            Some(&Some(slot)) => Ok(&self.vars[slot]),
            _ => Err(Error::MissingInput { op: self.op.kind.clone(), port: port.to_string() }),
        }
    }

    /// All tensors at an input port.
    pub fn inputs(&self, port: &str) -> Result<Vec<&Tensor>> {
        (0..self.n_inputs(port)).map(|index| self.input_at(port, index)).collect()
    }

    /// The elements of the tensor at an input port.
    pub fn data<T: Element>(&self, port: &str) -> Result<&[T]> {
        let data = self.input(port)?.data::<T>();
        data.map_err(|source| self.in_var(port, source.into()))
    }

    /// The matrix at an input port as it was arranged for products, if it was.
    pub fn packed(&self, port: &str) -> Option<Arc<PackedMatrix>> {
        self.host.packed(self.input_name(port))
    }

    /// The elements of the tensor at a port that may be absent or hold nothing.
    pub fn opt_data<T: Element>(&self, port: &str) -> Result<Option<&[T]>> {
        match self.opt_input(port) {
            Some(_) => self.data(port).map(Some),
            None => Ok(None),
        }
    }

    /// The one element of a tensor such as a learning rate.
    pub fn scalar(&self, port: &str) -> Result<f64> {
        let tensor = self.input(port)?;
        if tensor.is_empty() {
            return Err(self.shape("one element is needed", port));
        }
        Ok(tensor.get_f64(0))
    }

    /// The name of the first variable at an input port, for messages.
    pub fn input_name(&self, port: &str) -> &'a str {
        self.input_name_at(port, 0)
    }

    /// The name of the `index`-th variable at an input port.
    pub fn input_name_at(&self, port: &str, index: usize) -> &'a str {
        self.op.input_names(port).get(index).map_or("", String::as_str)
    }

    // ---- outputs

    /// How many variables an output port has.
    pub fn n_outputs(&self, port: &str) -> usize {
        self.wiring.output(port).len()
    }

    /// Whether this output is wanted.
    pub fn wants(&self, port: &str) -> bool {
        self.wants_at(port, 0)
    }

    /// Whether the `index`-th variable of this output port is wanted.
    pub fn wants_at(&self, port: &str, index: usize) -> bool {
        matches!(self.wiring.output(port).get(index), Some(Some(_)))
    }

    /// A tensor to write an output into; [`Run::put`] gives it to the variable.
    ///
    /// It has the memory the variable had before, unless this op also reads that variable.
    pub fn take(&mut self, port: &str) -> Tensor {
        self.take_at(port, 0)
    }

    /// A tensor to write the `index`-th variable of an output port into.
    pub fn take_at(&mut self, port: &str, index: usize) -> Tensor {
        match self.free_slot(port, index).map(|slot| std::mem::take(&mut self.vars[slot])) {
            Some(Value::Tensor(tensor)) => tensor,
            _ => self.spare.tensor(),
        }
    }

    /// Fills an output: `fill` shapes and writes it from the input `like`, whose ragged offsets it gets.
    pub fn fill(
        &mut self,
        port: &str,
        like: &str,
        fill: impl FnOnce(&Run<'_>, &Tensor, &mut Tensor) -> Result<()>,
    ) -> Result<()> {
        let mut out = self.take(port);
        let like = self.input(like)?;
        fill(self, like, &mut out)?;
        out.set_lod(like.lod().clone());
        self.put(port, out);
        Ok(())
    }

    /// Makes an output that is not like an input: `make` shapes and writes it.
    pub fn make(
        &mut self,
        port: &str,
        make: impl FnOnce(&Run<'_>, &mut Tensor) -> Result<()>,
    ) -> Result<()> {
        let mut out = self.take(port);
        make(self, &mut out)?;
        self.put(port, out);
        Ok(())
    }

    /// Gives a tensor to the variable of an output port.
    pub fn put(&mut self, port: &str, tensor: Tensor) {
        self.put_at(port, 0, tensor);
    }

    /// Gives a tensor to the `index`-th variable of an output port.
    pub fn put_at(&mut self, port: &str, index: usize, tensor: Tensor) {
        self.put_value_at(port, index, Value::Tensor(tensor));
    }

    /// Rows to write a sparse output into; [`Run::put_rows`] gives them to the variable.
    pub fn take_rows(&mut self, port: &str) -> Rows {
        match self.free_slot(port, 0).map(|slot| std::mem::take(&mut self.vars[slot])) {
            Some(Value::Rows(rows)) => rows,
            _ => self.spare.rows(),
        }
    }

    /// Gives rows to the variable of an output port.
    pub fn put_rows(&mut self, port: &str, rows: Rows) {
        self.put_value_at(port, 0, Value::Rows(rows));
    }

    /// Gives any value to the `index`-th variable of an output port.
    pub fn put_value_at(&mut self, port: &str, index: usize, value: Value) {
        let old = match self.wiring.output(port).get(index) {
            Some(&Some(slot)) => std::mem::replace(&mut self.vars[slot], value),
            _ => value,
        };
        self.spare.keep_value(old);
    }

    /// Exchanges what the `index`-th variable of an output port holds with `value`.
    pub fn swap_value_at(&mut self, port: &str, index: usize, value: &mut Value) {
        if let Some(&Some(slot)) = self.wiring.output(port).get(index) {
            std::mem::swap(&mut self.vars[slot], value);
        }
    }

    /// Whatever an output variable holds before this op writes it (an array that grows, say).
    pub fn take_output_value(&mut self, port: &str) -> Value {
        match self.wiring.output(port).first() {
            Some(&Some(slot)) => std::mem::take(&mut self.vars[slot]),
            _ => Value::Empty,
        }
    }

    /// The place of an output, unless this op also reads it.
    fn free_slot(&self, port: &str, index: usize) -> Option<usize> {
        let slot = self.wiring.output(port).get(index).copied().flatten()?;
        (!self.wiring.reads(slot)).then_some(slot)
    }

    /// Changes variables in place: pairs of (input port, output port), as optimizers have them.
    ///
    /// Where both are one variable its memory is changed; otherwise the output starts as a copy.
    /// The variables keep what `change` left in them even if it fails.
    pub fn update<const N: usize>(
        &mut self,
        ports: [(&str, &str); N],
        change: impl FnOnce(&mut Run<'_>, [&mut Tensor; N]) -> Result<()>,
    ) -> Result<()> {
        for (input, _) in ports {
            self.input(input)?;
        }
        let mut tensors = ports.map(|_| Tensor::default());
        let (mut n_taken, mut taken) = (0, Ok(()));
        for (tensor, (input, output)) in tensors.iter_mut().zip(ports) {
            match self.take_for_update(input, output) {
                Ok(own) => *tensor = own,
                Err(error) => {
                    // Two ports change one variable, and the first has it now.
                    taken = Err(error);
                    break;
                }
            }
            n_taken += 1;
        }
        // Without memory, too, parameters go back where they were.
        let result = taken.and_then(|()| {
            within_memory(|| change(self, tensors.each_mut())).map_err(Error::from)?
        });
        for ((_, output), tensor) in ports.into_iter().zip(tensors).take(n_taken) {
            self.put(output, tensor);
        }
        result
    }

    fn take_for_update(&mut self, input: &str, output: &str) -> Result<Tensor> {
        let from = self.wiring.input(input).first().copied().flatten();
        let to = self.wiring.output(output).first().copied().flatten();
        let in_place = from.filter(|_| from == to);
        match in_place.map(|slot| std::mem::take(&mut self.vars[slot])) {
            Some(Value::Tensor(tensor)) if tensor.is_initialized() => Ok(tensor),
            Some(Value::Shared(tensor)) => {
                Ok(Arc::try_unwrap(tensor).unwrap_or_else(|held| Tensor::clone(&held)))
            }
            _ => {
                let mut copy = self.take(output);
                copy.copy_from(self.input(input)?);
                Ok(copy)
            }
        }
    }

    // ---- errors

    /// Says which input an error is about.
    pub fn in_var(&self, port: &str, source: Error) -> Error {
        Error::InVar { var: self.input_name(port).to_string(), source: Box::new(source) }
    }

    /// The error that a rule between two inputs does not hold.
    pub fn shapes(&self, rule: &'static str, left: &str, right: &str) -> Error {
        Error::Shapes {
            rule,
            left: self.input_name(left).to_string(),
            left_dims: self.dims(left),
            right: self.input_name(right).to_string(),
            right_dims: self.dims(right),
        }
    }

    /// The error that a rule between the first and the `index`-th input at a port does not hold.
    pub fn shapes_at(&self, rule: &'static str, port: &str, index: usize) -> Error {
        let name = |index| self.input_name_at(port, index).to_string();
        let dims = |index| self.input_at(port, index).map(|x| x.shape().to_i64());
        Error::Shapes {
            rule,
            left: name(0),
            left_dims: dims(0).unwrap_or_default(),
            right: name(index),
            right_dims: dims(index).unwrap_or_default(),
        }
    }

    /// The error that a rule about one input does not hold.
    pub fn shape(&self, rule: &'static str, port: &str) -> Error {
        Error::Shape { rule, var: self.input_name(port).to_string(), dims: self.dims(port) }
    }

    fn dims(&self, port: &str) -> Vec<i64> {
        self.opt_input(port).map(|tensor| tensor.shape().to_i64()).unwrap_or_default()
    }

    fn not_a_tensor(&self, port: &str, index: usize, value: &Value) -> Error {
        let (port, var) = (port.to_string(), self.input_name_at(port, index).to_string());
        if value.is_empty() {
            return Error::NotInitialized { port, var };
        }
        Error::WrongKind { port, var, expected: "a tensor", actual: value.kind() }
    }
}
