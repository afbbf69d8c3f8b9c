//! Test helpers for ops: hand numbers, both widths, shape rule against kernel, finite differences.
//!
//! `check("mul").input("X", x).input("Y", y).gives("Out", out)` runs the op in `f64` and in `f32`,
//! compares values, shape and ragged offsets, and the inferred shape with the real one.
//! `.output("Out").grad(&["X"])` compares the gradient ops with central differences.

use std::collections::HashMap;

use tensor::{DType, Lod, Number, Tensor, Value};

use super::{NoHost, Run, Spare, Wiring};
use crate::attr::Attr;
use crate::backward;
use crate::block::OpDesc;
use crate::error::{Error, Result};
use crate::names;
use crate::program::Program;
use crate::var::{Meta, VarDesc, VarKind};

/// A float tensor; tests write it in `f64` and the checks also run it in `f32`.
pub(crate) fn t(dims: &[usize], data: &[f64]) -> Tensor {
    Tensor::new(dims, data).expect("as many numbers as the shape has")
}

/// Numbers without a pattern that a wrong stride could keep.
pub(crate) fn some(dims: &[usize]) -> Tensor {
    let n: usize = dims.iter().product();
    let data: Vec<f64> = (0..n).map(|i| ((i * 7 + 3) % 11) as f64 / 4.0 - 1.0).collect();
    t(dims, &data)
}

/// A tensor of ids or labels.
pub(crate) fn ids(dims: &[usize], data: &[i64]) -> Tensor {
    Tensor::new(dims, data).expect("as many numbers as the shape has")
}

/// A tensor as sequences of these lengths.
pub(crate) fn seq(mut tensor: Tensor, lengths: &[usize]) -> Tensor {
    tensor.set_lod(Lod::from_lengths(lengths.iter().copied()));
    tensor
}

/// An op about to be checked.
pub(crate) fn check(kind: &str) -> Check {
    Check { op: OpDesc::new(kind), values: HashMap::new(), aux: Vec::new(), tolerance: 1e-6 }
}

pub(crate) struct Check {
    op: OpDesc,
    values: HashMap<String, Value>,
    aux: Vec<String>,
    tolerance: f64,
}

impl Check {
    pub(crate) fn input(self, port: &str, value: impl Into<Value>) -> Self {
        self.inputs(port, vec![value.into()])
    }

    /// Several variables at one port, named `<port>0`, `<port>1`, …
    pub(crate) fn inputs<V: Into<Value>>(mut self, port: &str, values: Vec<V>) -> Self {
        let names: Vec<String> = (0..values.len()).map(|i| format!("{port}{i}")).collect();
        self.values.extend(names.iter().cloned().zip(values.into_iter().map(Into::into)));
        self.op = self.op.input(port, names);
        self
    }

    pub(crate) fn attr(mut self, name: &str, value: impl Into<Attr>) -> Self {
        self.op.attrs.set(name, value);
        self
    }

    /// Declares an output that is computed but not compared.
    pub(crate) fn output(self, port: &str) -> Self {
        self.outputs(port, 1)
    }

    /// Declares an output that gradients do not pass: something saved for the gradient op.
    pub(crate) fn aux(self, port: &str) -> Self {
        let mut checked = self.output(port);
        checked.aux.push(format!("{port}_out0"));
        checked
    }

    pub(crate) fn outputs(mut self, port: &str, n: usize) -> Self {
        let names: Vec<String> = (0..n).map(|i| format!("{port}_out{i}")).collect();
        self.op = self.op.output(port, names);
        self
    }

    /// Declares that an output is this variable, one of the inputs perhaps.
    pub(crate) fn writes(mut self, port: &str, var: &str) -> Self {
        self.op = self.op.output(port, var);
        self
    }

    /// The description that the shape rule gives a port's first variable.
    #[track_caller]
    pub(crate) fn inferred(&self, port: &str) -> Meta {
        let program = self.forward(DType::F64).unwrap_or_else(|error| panic!("{error}"));
        program.need_var(0, &self.op.output_names(port)[0]).expect("a declared output").meta.clone()
    }

    /// How far results may be from the expected ones (relative above 1); `f32` gets 1e-5 at least.
    pub(crate) fn within(mut self, tolerance: f64) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Declares an output, runs the op and compares. Returns the check for further outputs.
    #[track_caller]
    pub(crate) fn gives(self, port: &str, expected: Tensor) -> Self {
        self.gives_all(port, vec![expected])
    }

    /// Checks the outputs at a port of several variables.
    #[track_caller]
    pub(crate) fn gives_all(self, port: &str, expected: Vec<Tensor>) -> Self {
        let checked = self.outputs(port, expected.len());
        for width in [DType::F64, DType::F32] {
            let (vars, program) = checked.execute(width).unwrap_or_else(|error| panic!("{error}"));
            for (i, expected) in expected.iter().enumerate() {
                let name = format!("{port}_out{i}");
                let actual =
                    vars[&name].tensor().unwrap_or_else(|| panic!("{name} was not written"));
                checked.compare(&name, actual, &in_width(expected, width), width);
                check_inferred(&program, &name, actual);
            }
        }
        checked
    }

    /// Runs the op and returns its error.
    #[track_caller]
    pub(crate) fn fails(self) -> Error {
        match self.execute(DType::F64) {
            Ok(_) => panic!("`{}` should have failed", self.op.kind),
            Err(error) => error,
        }
    }

    /// Runs the op in `f64` and returns what a port's first variable then holds.
    #[track_caller]
    pub(crate) fn run(&self, port: &str) -> Value {
        let (mut vars, _) = self.execute(DType::F64).unwrap_or_else(|error| panic!("{error}"));
        vars.remove(&self.op.output_names(port)[0]).expect("a declared output")
    }

    /// Compares the gradients of the inputs at these ports with central differences of
    /// `sum(w * outputs)`, the weights `w` fixed and different from each other.
    #[track_caller]
    pub(crate) fn grad(self, ports: &[&str]) {
        let (program, block_outputs) = self.with_backward(ports);
        let analytic = self.interpret(&program, &block_outputs, &self.values);
        let analytic = analytic.unwrap_or_else(|error| panic!("{error}"));
        for port in ports {
            for name in self.op.input_names(port) {
                let grad = &analytic[&names::grad(name)];
                let grad = dense(grad, self.values[name].tensor().expect("a dense input"));
                self.compare_with_differences(name, &grad);
            }
        }
    }

    fn compare_with_differences(&self, name: &str, grad: &Tensor) {
        const STEP: f64 = 1e-5;
        let x = self.values[name].tensor().expect("a dense input");
        for at in 0..x.len() {
            let loss = |delta: f64| {
                let mut values = self.values.clone();
                let Some(Value::Tensor(x)) = values.get_mut(name) else { panic!("a dense input") };
                x.data_mut::<f64>().expect("f64")[at] += delta;
                self.loss(&values)
            };
            let expected = (loss(STEP) - loss(-STEP)) / (2.0 * STEP);
            let actual = grad.get_f64(at);
            let error = (actual - expected).abs() / expected.abs().max(1.0);
            assert!(error < 1e-6, "d {name}[{at}]: gradient {actual}, differences {expected}");
        }
    }

    /// `sum(w * outputs)` over all float outputs.
    fn loss(&self, values: &HashMap<String, Value>) -> f64 {
        let program = self.forward(DType::F64).unwrap_or_else(|error| panic!("{error}"));
        let vars = self.interpret(&program, &[], values).unwrap_or_else(|error| panic!("{error}"));
        let mut loss = 0.0;
        for (k, name) in self.float_outputs(&vars).iter().enumerate() {
            let tensor = vars[name].tensor().expect("a float output");
            loss += (0..tensor.len()).map(|i| weight(k, i) * tensor.get_f64(i)).sum::<f64>();
        }
        loss
    }

    /// The forward op followed by its gradient ops, and the outputs that carry gradients.
    fn with_backward(&self, ports: &[&str]) -> (Program, Vec<String>) {
        let mut program = self.forward(DType::F64).unwrap_or_else(|error| panic!("{error}"));
        let vars = self.interpret(&program, &[], &self.values);
        let outputs = self.float_outputs(&vars.unwrap_or_else(|error| panic!("{error}")));
        let wanted: Vec<&String> = ports.iter().flat_map(|p| self.op.input_names(p)).collect();
        let no_grad = |var: &str| !wanted.iter().any(|name| *name == var);
        let op = program.block(0).ops[0].clone();
        let grads = backward::grad_ops(&program, 0, &op, &no_grad);
        for grad in grads.unwrap_or_else(|error| panic!("{error}")) {
            program.append_op(0, grad).unwrap_or_else(|error| panic!("{error}"));
        }
        (program, outputs)
    }

    fn float_outputs(&self, vars: &HashMap<String, Value>) -> Vec<String> {
        let is_float = |name: &&str| vars[*name].tensor().is_some_and(|t| t.dtype().is_float());
        let carries = |name: &String| !self.aux.contains(name);
        self.op.writes().filter(is_float).map(str::to_string).filter(carries).collect()
    }

    /// A program of just this op, its inputs declared in this width.
    fn forward(&self, width: DType) -> Result<Program> {
        let mut program = Program::default();
        let mut inputs: Vec<_> = self.values.iter().collect();
        inputs.sort_by_key(|(name, _)| name.as_str());
        for (name, value) in inputs {
            program.block_mut(0).put_var(VarDesc::new(name, meta_of(value, width)));
        }
        // Gradients that arrive from outside are declared so that gradient ops may read them.
        program.append_op(0, self.op.clone())?;
        for name in self.op.writes() {
            let meta = program.need_var(0, name)?.meta.clone();
            program.block_mut(0).put_var(VarDesc::new(&names::grad(name), meta));
        }
        Ok(program)
    }

    fn execute(&self, width: DType) -> Result<(HashMap<String, Value>, Program)> {
        let program = self.forward(width)?;
        let values = self.values.iter().map(|(name, v)| (name.clone(), value_in_width(v, width)));
        let vars = self.interpret(&program, &[], &values.collect())?;
        Ok((vars, program))
    }

    /// Runs block 0 op by op; `grad_of` get their weights as incoming gradients.
    fn interpret(
        &self,
        program: &Program,
        grad_of: &[String],
        values: &HashMap<String, Value>,
    ) -> Result<HashMap<String, Value>> {
        let mut slots: Vec<String> = Vec::new();
        let mut vars: Vec<Value> = Vec::new();
        let mut place = |name: &str, vars: &mut Vec<Value>| {
            if let Some(at) = slots.iter().position(|slot| slot == name) {
                return at;
            }
            slots.push(name.to_string());
            vars.push(values.get(name).cloned().unwrap_or_default());
            slots.len() - 1
        };
        for (index, op) in program.block(0).ops.iter().enumerate() {
            let wiring = Wiring::new(op, |name| place(name, &mut vars));
            if index == 1 {
                for (k, name) in grad_of.iter().enumerate() {
                    let (from, to) = (place(name, &mut vars), place(&names::grad(name), &mut vars));
                    vars[to] =
                        Value::Tensor(weights_like(k, vars[from].tensor().expect("written")));
                }
            }
            let (mut spare, mut host) = (Spare::default(), NoHost);
            let mut run = Run::new(op, &wiring, &mut vars, &mut spare, &mut host);
            super::find(&op.kind)?.run(&mut run)?;
        }
        Ok(slots.into_iter().zip(vars).collect())
    }

    #[track_caller]
    fn compare(&self, name: &str, actual: &Tensor, expected: &Tensor, width: DType) {
        assert_eq!(actual.dtype(), expected.dtype(), "type of {name}");
        assert_eq!(actual.shape(), expected.shape(), "shape of {name}");
        assert_eq!(actual.lod(), expected.lod(), "ragged offsets of {name}");
        let tolerance = if width == DType::F32 { self.tolerance.max(1e-5) } else { self.tolerance };
        for at in 0..actual.len() {
            let (a, e) = (actual.get_f64(at), expected.get_f64(at));
            let near = a == e || (a - e).abs() <= tolerance * e.abs().max(1.0);
            assert!(near || (a.is_nan() && e.is_nan()), "{name}[{at}] is {a}, expected {e}");
        }
    }
}

/// A fixed weight per output element, none alike nearby.
fn weight(output: usize, element: usize) -> f64 {
    0.3 + ((element * 7 + output * 3) % 11) as f64 * 0.17
}

fn weights_like(output: usize, like: &Tensor) -> Tensor {
    let data: Vec<f64> = (0..like.len()).map(|i| weight(output, i)).collect();
    let mut tensor = t(like.dims(), &data);
    tensor.set_lod(like.lod().clone());
    tensor
}

/// A gradient as a dense tensor, whichever way the op wrote it.
fn dense(grad: &Value, like: &Tensor) -> Tensor {
    match grad {
        Value::Tensor(tensor) => {
            assert_eq!(tensor.shape(), like.shape(), "a gradient has its variable's shape");
            tensor.clone()
        }
        Value::Rows(rows) => {
            let mut tensor = Tensor::full(like.shape(), 0.0f64);
            let width = rows.width();
            let data = tensor.data_mut::<f64>().expect("f64");
            for (row, &id) in rows.ids.iter().enumerate() {
                for column in 0..width {
                    data[id as usize * width + column] += rows.value.get_f64(row * width + column);
                }
            }
            tensor
        }
        other => panic!("the gradient is {}", other.kind()),
    }
}

fn check_inferred(program: &Program, name: &str, actual: &Tensor) {
    let meta = &program.need_var(0, name).expect("inferred").meta;
    assert_eq!(meta.dtype, actual.dtype(), "inferred type of {name}");
    let real = actual.shape().to_i64();
    let agrees = meta.dims.len() == real.len()
        && meta.dims.iter().zip(&real).all(|(&inferred, &real)| inferred == -1 || inferred == real);
    assert!(agrees, "inferred shape of {name} is {:?}, the kernel's {real:?}", meta.dims);
}

fn meta_of(value: &Value, width: DType) -> Meta {
    let of = |tensor: &Tensor, kind| Meta {
        kind,
        dtype: if tensor.dtype() == DType::F64 { width } else { tensor.dtype() },
        dims: tensor.shape().to_i64(),
        lod_level: tensor.lod().n_levels() as i32,
    };
    match value {
        Value::Tensor(tensor) => of(tensor, VarKind::LodTensor),
        Value::Shared(tensor) => of(tensor, VarKind::LodTensor),
        Value::Rows(rows) => {
            let meta = of(&rows.value, VarKind::SelectedRows);
            let mut dims = meta.dims.clone();
            dims[0] = rows.height;
            meta.with_dims(dims)
        }
        Value::Array(list) => of(&list[0], VarKind::LodTensorArray),
        Value::Keyed(table) => {
            let dims = vec![table.height(), table.width() as i64];
            of(table.value(), VarKind::LodTensor).with_dims(dims)
        }
        Value::Steps(_) | Value::Empty => Meta::default(),
    }
}

fn value_in_width(value: &Value, width: DType) -> Value {
    match value {
        Value::Tensor(tensor) => Value::Tensor(in_width(tensor, width)),
        Value::Shared(tensor) => Value::Tensor(in_width(tensor, width)),
        Value::Rows(rows) => {
            let mut copy = rows.clone();
            copy.value = in_width(&rows.value, width);
            Value::Rows(copy)
        }
        Value::Array(list) => Value::Array(list.iter().map(|t| in_width(t, width)).collect()),
        Value::Keyed(table) => Value::Keyed(table.clone()),
        Value::Steps(_) | Value::Empty => Value::Empty,
    }
}

/// `f64` tensors become `width`, others stay.
fn in_width(tensor: &Tensor, width: DType) -> Tensor {
    if tensor.dtype() != DType::F64 || width == DType::F64 {
        return tensor.clone();
    }
    let data: Vec<f32> = (0..tensor.len()).map(|i| f32::of(tensor.get_f64(i))).collect();
    let mut narrow = Tensor::new(tensor.shape(), &data).expect("same length");
    narrow.set_lod(tensor.lod().clone());
    narrow
}
