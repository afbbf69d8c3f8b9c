//! One op on its way to ONNX.

use program::{Meta, OpDesc, Program};
use tensor::{DType, Value};

use super::OnnxOptions;
use super::graph::{NodeFields, OnnxGraph};
use super::proto::{InputNote, NodeField, ValueInfo};
use crate::contents::{Contents, HeldForm, HeldVar};
use crate::error::{Error, Result};

/// Advice about an op that has no counterpart.
pub(super) const CUT: &str = "Save the model again with targets before this op, and compute the rest \
    where you use the model";
/// Advice about a value that is known only when the program runs.
pub(super) const FIXED: &str = "Build the program with a fixed value there, and save it again";

/// An op, the graph so far, and where parameters are.
pub(super) struct Convert<'a> {
    pub(super) op: &'a OpDesc,
    pub(super) index: usize,
    pub(super) program: &'a Program,
    pub(super) graph: &'a mut OnnxGraph,
    pub(super) contents: &'a Contents,
    pub(super) options: &'a OnnxOptions,
}

impl Convert<'_> {
    /// The error that says why this op cannot be converted.
    pub(super) fn refuse(&self, problem: impl Into<String>, advice: &'static str) -> Error {
        let var = self.op.writes().next().unwrap_or_default().to_string();
        let op = self.op.kind.clone();
        let problem = problem.into();
        let index = self.index;
        Error::NoOnnx { op, block: 0, index, var, problem, advice }
    }

    /// Refuses an input that would make a value depend on the data.
    pub(super) fn without(&self, ports: &[&str]) -> Result<()> {
        match ports.iter().find(|port| !self.op.input_names(port).is_empty()) {
            Some(port) => Err(self.refuse(format!("its input {port} is computed"), FIXED)),
            None => Ok(()),
        }
    }

    /// The value at an input port that has one.
    pub(super) fn input(&mut self, port: &str) -> Result<String> {
        match self.op.input_names(port).first().cloned() {
            Some(var) => self.value_of(&var),
            None => Err(self.refuse(format!("it has no input {port}"), CUT)),
        }
    }

    /// The values at an input port.
    pub(super) fn inputs(&mut self, port: &str) -> Result<Vec<String>> {
        let vars = self.op.input_names(port).to_vec();
        vars.iter().map(|var| self.value_of(var)).collect()
    }

    pub(super) fn has(&self, port: &str) -> bool {
        !self.op.input_names(port).is_empty()
    }

    /// The value of a variable: computed before, or a parameter.
    pub(super) fn value_of(&mut self, var: &str) -> Result<String> {
        if let Some(value) = self.graph.value(var) {
            return Ok(value);
        }
        let held = self.held(var)?;
        if held.form != HeldForm::Dense {
            let problem = format!("it reads `{var}` whole, and only some of its rows exist");
            return Err(self.refuse(problem, CUT));
        }
        match self.contents.value(held)? {
            Value::Tensor(tensor) => Ok(self.graph.parameter(var, tensor)),
            _ => Err(self.refuse(format!("`{var}` is not a tensor"), CUT)),
        }
    }

    /// A variable of the folder.
    pub(super) fn held(&self, var: &str) -> Result<&HeldVar> {
        let is_kept = self.program.find_var(0, var).is_some_and(|var| var.persistable);
        match self.contents.var(var) {
            Some(held) => Ok(held),
            None if is_kept => {
                let path = self.contents.dir().to_path_buf();
                Err(Error::NoValue { path, var: var.to_string() })
            }
            None => {
                let problem = format!("it reads `{var}`, which nothing before it makes");
                Err(self.refuse(problem, CUT))
            }
        }
    }

    /// The description of a variable in the program.
    pub(super) fn meta_of(&self, var: &str) -> Result<Meta> {
        let found = self.program.find_var(0, var).map(|var| var.meta.clone());
        found.ok_or_else(|| self.refuse(format!("the program does not describe `{var}`"), CUT))
    }

    /// The description of the variable at an input port.
    pub(super) fn meta(&self, port: &str) -> Result<Meta> {
        match self.op.input_names(port).first() {
            Some(var) => self.meta_of(var),
            None => Err(self.refuse(format!("it has no input {port}"), CUT)),
        }
    }

    pub(super) fn rank(&self, port: &str) -> Result<usize> {
        Ok(self.meta(port)?.dims.len())
    }

    pub(super) fn dtype(&self, port: &str) -> Result<DType> {
        Ok(self.meta(port)?.dtype)
    }

    /// The description of the variable at an output port.
    pub(super) fn out_meta(&self, port: &str) -> Result<Meta> {
        match self.op.output_names(port).first() {
            Some(var) => self.meta_of(var),
            None => Err(self.refuse(format!("it has no output {port}"), CUT)),
        }
    }

    /// An axis, counted from the front.
    pub(super) fn axis(&self, attr: &str, default: i64, rank: usize) -> Result<i64> {
        let axis = self.op.attrs.int(attr, default)?;
        let axis = if axis < 0 { axis + rank as i64 } else { axis };
        if (0..rank as i64).contains(&axis) {
            Ok(axis)
        } else {
            Err(self.refuse(format!("its {attr} is not a dimension of {rank}"), CUT))
        }
    }

    /// Adds a node whose output no variable stands for.
    pub(super) fn node(&mut self, op: &'static str, inputs: &[&str], fields: NodeFields) -> String {
        self.graph.node(op, inputs, fields)
    }

    /// Adds the node that makes the variable at an output port.
    pub(super) fn out(
        &mut self,
        port: &str,
        op: &'static str,
        inputs: &[&str],
        fields: NodeFields,
    ) -> Result<()> {
        match self.op.output_names(port).first().cloned() {
            Some(var) => {
                self.out_var(&var, op, inputs, fields);
                Ok(())
            }
            None => Err(self.refuse(format!("it has no output {port}"), CUT)),
        }
    }

    /// Adds the node that makes a variable.
    pub(super) fn out_var(
        &mut self,
        var: &str,
        op: &'static str,
        inputs: &[&str],
        fields: NodeFields,
    ) {
        let name = self.graph.name_for(var);
        self.graph.node_to(op, inputs, vec![name.clone()], fields);
        self.graph.set(var, name);
    }

    /// The variable is an input of the graph.
    pub(super) fn make_input(&mut self, var: &str, text: String) -> Result<()> {
        let meta = self.meta_of(var)?;
        let name = self.graph.name_for(var);
        let info = ValueInfo { name: name.clone(), dtype: meta.dtype, dims: meta.dims };
        self.graph.file.inputs.push(info);
        self.graph.file.notes.push(InputNote { key: name.clone(), text });
        self.graph.set(var, name);
        Ok(())
    }

    /// One number of the type of an input.
    pub(super) fn number(&mut self, port: &str, number: f64) -> Result<String> {
        let dtype = self.dtype(port)?;
        Ok(self.graph.scalar(dtype, number))
    }

    /// A value in another shape.
    pub(super) fn reshaped(&mut self, value: &str, dims: &[i64]) -> String {
        let shape = self.graph.ints(dims);
        self.node("Reshape", &[value, &shape], Vec::new())
    }
}

/// One whole number as attribute.
pub(super) fn int(name: &'static str, value: i64) -> NodeFields {
    vec![(name, NodeField::Int(value))]
}

/// Whole numbers as attribute.
pub(super) fn ints(name: &'static str, values: Vec<i64>) -> NodeFields {
    vec![(name, NodeField::Ints(values))]
}
