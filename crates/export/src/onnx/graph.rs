//! A graph while it is built: nodes, constants, and which value stands for which variable.

use std::collections::{BTreeMap, BTreeSet};

use tensor::{DType, Shape, Tensor};

use super::proto::{NodeField, OnnxConstant, OnnxFile, OnnxNode};

/// Attributes of a node.
pub(super) type NodeFields = Vec<(&'static str, NodeField)>;

/// The graph so far.
#[derive(Debug, Default)]
pub(super) struct OnnxGraph {
    pub(super) file: OnnxFile,
    /// The value that a variable has now. A program may write a variable twice, a graph may not.
    values: BTreeMap<String, String>,
    names: BTreeSet<String>,
    n_fresh: usize,
}

impl OnnxGraph {
    /// The value of a variable, if it has one.
    pub(super) fn value(&self, var: &str) -> Option<String> {
        self.values.get(var).cloned()
    }

    /// From now on, a variable has this value.
    pub(super) fn set(&mut self, var: &str, value: String) {
        self.values.insert(var.to_string(), value);
    }

    /// A name for the next value of a variable: its own, if it is free.
    pub(super) fn name_for(&mut self, var: &str) -> String {
        if self.names.insert(var.to_string()) {
            return var.to_string();
        }
        self.fresh(var)
    }

    fn fresh(&mut self, stem: &str) -> String {
        loop {
            self.n_fresh += 1;
            let name = format!("{stem}@{}", self.n_fresh);
            if self.names.insert(name.clone()) {
                return name;
            }
        }
    }

    /// Adds a node with one output that no variable stands for.
    pub(super) fn node(&mut self, op: &'static str, inputs: &[&str], fields: NodeFields) -> String {
        let output = self.fresh(op);
        self.node_to(op, inputs, vec![output.clone()], fields);
        output
    }

    /// Adds a node with these outputs.
    pub(super) fn node_to(
        &mut self,
        op: &'static str,
        inputs: &[&str],
        outputs: Vec<String>,
        fields: NodeFields,
    ) {
        let inputs = inputs.iter().map(|name| name.to_string()).collect();
        self.file.nodes.push(OnnxNode { op, inputs, outputs, fields });
    }

    /// A list of whole numbers, as shapes and axes are given.
    pub(super) fn ints(&mut self, numbers: &[i64]) -> String {
        let value = Tensor::new([numbers.len()], numbers).expect("a list fits its shape");
        self.constant("ints", value)
    }

    /// One number of a type.
    pub(super) fn scalar(&mut self, dtype: DType, number: f64) -> String {
        self.add("number", number_of(dtype, number, Shape::from([1])), true)
    }

    /// A constant. Equal small ones are kept once.
    pub(super) fn constant(&mut self, stem: &str, value: Tensor) -> String {
        self.add(stem, value, false)
    }

    fn add(&mut self, stem: &str, value: Tensor, is_scalar: bool) -> String {
        let known = self.file.constants.iter().find(|known| {
            let is_alike = known.is_scalar == is_scalar && known.name.starts_with(stem);
            is_alike && known.value.len() < 64 && known.value == value
        });
        if let Some(known) = known {
            return known.name.clone();
        }
        let name = self.fresh(stem);
        self.file.constants.push(OnnxConstant { name: name.clone(), value, is_scalar });
        name
    }

    /// The numbers of a variable, under its name.
    pub(super) fn parameter(&mut self, var: &str, value: Tensor) -> String {
        let name = self.name_for(var);
        self.file.constants.push(OnnxConstant { name: name.clone(), value, is_scalar: false });
        self.set(var, name.clone());
        name
    }
}

/// A tensor of equal numbers.
pub(super) fn number_of(dtype: DType, number: f64, shape: Shape) -> Tensor {
    match dtype {
        DType::F64 => Tensor::full(shape, number),
        DType::I64 => Tensor::full(shape, number as i64),
        DType::I32 => Tensor::full(shape, number as i32),
        DType::I16 => Tensor::full(shape, number as i16),
        DType::I8 => Tensor::full(shape, number as i8),
        DType::U8 => Tensor::full(shape, number as u8),
        DType::Bool => Tensor::full(shape, tensor::Bool::from(number != 0.0)),
        // Half precision is stored, never computed with.
        DType::F32 | DType::F16 => Tensor::full(shape, number as f32),
    }
}
