//! Operators by themselves: their inputs and outputs, and running one on a scope.

use std::collections::HashSet;

use program::op::{self, Port, Proto};
use program::{OpDesc, names};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{detached_as, from_program, from_train};
use crate::framework::attr::{attr_from_py, attr_to_py};
use crate::framework::op_desc::{AttrType, PyOpDesc};
use crate::framework::variable::names_of;
use crate::tensor::PyScope;

/// Adds what this file has.
pub(crate) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyCoreOperator>()?;
    m.add_class::<PyOpProto>()?;
    m.add_class::<PyPort>()?;
    m.add_class::<PyAttrRule>()?;
    m.add_function(wrap_pyfunction!(make_operator, m)?)?;
    m.add_function(wrap_pyfunction!(op_proto, m)?)?;
    m.add_function(wrap_pyfunction!(op_types, m)?)?;
    m.add_function(wrap_pyfunction!(get_op_attrs_default_value, m)?)?;
    m.add_function(wrap_pyfunction!(get_grad_op_desc, m)?)
}

/// An operator that runs on the variables of a scope.
#[pyclass(name = "CoreOperator", module = "paddlewheel._core", frozen)]
pub(crate) struct PyCoreOperator(OpDesc);

#[pymethods]
impl PyCoreOperator {
    /// The operator of a description's bytes.
    #[staticmethod]
    fn create(protobin: &[u8]) -> PyResult<Self> {
        Ok(Self(OpDesc::from_bytes(protobin).map_err(from_program)?))
    }

    /// Runs it on variables of a scope, by their names.
    #[pyo3(signature = (scope, place = None))]
    fn run(
        &self,
        py: Python<'_>,
        scope: &PyScope,
        place: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let _ = place;
        let scope = scope.0.clone();
        detached_as(py, from_train, || train::executor::run_op(&self.0, &scope))
    }

    /// The operator's name in the table of operators.
    fn r#type(&self) -> &str {
        &self.0.kind
    }

    /// The variables it reads, by port.
    fn inputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        by_port(py, &self.0.inputs)
    }

    /// The variables it writes, by port.
    fn outputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        by_port(py, &self.0.outputs)
    }

    /// The variables it reads.
    fn input_vars(&self) -> Vec<String> {
        self.0.reads().map(str::to_string).collect()
    }

    /// The variables it writes.
    fn output_vars(&self) -> Vec<String> {
        self.0.writes().map(str::to_string).collect()
    }

    /// The variables it writes, without those that only its gradient reads.
    fn no_intermediate_outputs(&self) -> Vec<String> {
        let proto = op::proto(&self.0.kind);
        let hidden = |port: &str| {
            let ports = proto.iter().flat_map(|proto| &proto.outputs);
            ports.filter(|known| known.intermediate).any(|known| known.name == port)
        };
        let shown = self.0.outputs.iter().filter(|(port, _)| !hidden(port));
        shown.flat_map(|(_, vars)| vars.clone()).collect()
    }

    /// Whether it can run on a graphics card: never.
    fn support_gpu(&self) -> bool {
        false
    }

    fn __repr__(&self) -> String {
        let list = |ports: &[(String, Vec<String>)]| {
            let texts = ports.iter().map(|(port, vars)| format!("{port}[{}]", vars.join(", ")));
            texts.collect::<Vec<_>>().join(", ")
        };
        let (inputs, outputs) = (list(&self.0.inputs), list(&self.0.outputs));
        format!("Op({}), inputs:{{{inputs}}}, outputs:{{{outputs}}}.", self.0.kind)
    }
}

fn by_port<'py>(py: Python<'py>, ports: &[(String, Vec<String>)]) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    ports.iter().try_for_each(|(port, vars)| dict.set_item(port, vars))?;
    Ok(dict)
}

/// An operator from the variables at its ports and its attributes, all by name.
#[pyfunction]
#[pyo3(signature = (kind, **given))]
fn make_operator(kind: &str, given: Option<&Bound<'_, PyDict>>) -> PyResult<PyCoreOperator> {
    let proto = known(kind)?;
    let mut desc = OpDesc::new(kind);
    for (name, value) in given.into_iter().flatten() {
        let name: String = name.extract()?;
        if value.is_none() {
            continue;
        }
        let port = |ports: &[Port]| ports.iter().find(|port| port.name == name).copied();
        if let Some(port) = port(&proto.inputs) {
            desc.inputs.push((name, at_port("Input", port, &value)?));
        } else if let Some(port) = port(&proto.outputs) {
            desc.outputs.push((name, at_port("Output", port, &value)?));
        } else if let Some(rule) = proto.attr(&name) {
            let attr = rule.fit(attr_from_py(&value)?).map_err(from_program)?;
            desc.attrs.set(&name, attr);
        } else {
            return Err(PyValueError::new_err(format!(
                "{kind} has no {name}: {}",
                names_in(proto)
            )));
        }
    }
    // Ports in the order of the operator, not of the call.
    let place = |ports: &[Port], name: &str| ports.iter().position(|port| port.name == name);
    desc.inputs.sort_by_key(|(name, _)| place(&proto.inputs, name));
    desc.outputs.sort_by_key(|(name, _)| place(&proto.outputs, name));
    Ok(PyCoreOperator(desc))
}

fn names_in(proto: &Proto) -> String {
    let ports = |ports: &[Port]| ports.iter().map(|p| p.name).collect::<Vec<_>>().join(", ");
    let attrs = proto.attrs.iter().map(|rule| rule.name).collect::<Vec<_>>().join(", ");
    let (inputs, outputs) = (ports(&proto.inputs), ports(&proto.outputs));
    format!("its inputs are {inputs}; its outputs {outputs}; its attributes {attrs}")
}

fn at_port(side: &str, port: Port, value: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    let vars = names_of(value)?;
    let (name, n) = (port.name, vars.len());
    if n > 1 && !port.duplicable {
        let what = side.to_lowercase();
        let text = format!("{side} {name} expects only one {what}, but {n} are given.");
        return Err(PyValueError::new_err(text));
    }
    Ok(vars)
}

/// An operator that Fluid has and that can run here.
fn known(kind: &str) -> PyResult<&'static Proto> {
    let unknown = || PyValueError::new_err(format!("The operator: {kind} is not registered."));
    op::find(kind).map_err(|_| unknown())?;
    op::proto(kind).ok_or_else(unknown)
}

/// The inputs, outputs and attributes of an operator.
#[pyclass(name = "OpProto", module = "paddlewheel._core", frozen)]
pub(crate) struct PyOpProto(&'static Proto);

#[pymethods]
impl PyOpProto {
    /// The operator's name.
    #[getter]
    fn r#type(&self) -> &'static str {
        self.0.kind
    }

    /// Where it reads.
    #[getter]
    fn inputs(&self) -> Vec<PyPort> {
        self.0.inputs.iter().map(|&port| PyPort(port)).collect()
    }

    /// Where it writes.
    #[getter]
    fn outputs(&self) -> Vec<PyPort> {
        self.0.outputs.iter().map(|&port| PyPort(port)).collect()
    }

    /// Its attributes.
    #[getter]
    fn attrs(&self) -> Vec<PyAttrRule> {
        let rules = self.0.attrs.iter();
        rules.map(|rule| PyAttrRule { name: rule.name, code: rule.code }).collect()
    }

    /// Fluid's text about it is not here.
    #[getter]
    fn comment(&self) -> &'static str {
        ""
    }
}

/// A place of an operator for variables.
#[pyclass(name = "OpPort", module = "paddlewheel._core", frozen)]
pub(crate) struct PyPort(Port);

#[pymethods]
impl PyPort {
    /// Its name.
    #[getter]
    fn name(&self) -> &'static str {
        self.0.name
    }

    /// Whether it takes more than one variable.
    #[getter]
    fn duplicable(&self) -> bool {
        self.0.duplicable
    }

    /// Whether it may be left out.
    #[getter]
    fn dispensable(&self) -> bool {
        self.0.dispensable
    }

    /// Whether only the gradient reads what is written there.
    #[getter]
    fn intermediate(&self) -> bool {
        self.0.intermediate
    }

    /// Fluid's text about it is not here.
    #[getter]
    fn comment(&self) -> &'static str {
        ""
    }
}

/// An attribute that an operator knows.
#[pyclass(name = "OpAttr", module = "paddlewheel._core", frozen)]
pub(crate) struct PyAttrRule {
    name: &'static str,
    code: usize,
}

#[pymethods]
impl PyAttrRule {
    /// Its name.
    #[getter]
    fn name(&self) -> &'static str {
        self.name
    }

    /// Its type.
    #[getter]
    fn r#type(&self) -> AttrType {
        AttrType(self.code)
    }

    /// Whether it was made by Fluid itself.
    #[getter]
    fn generated(&self) -> bool {
        false
    }

    /// Fluid's text about it is not here.
    #[getter]
    fn comment(&self) -> &'static str {
        ""
    }
}

/// The inputs, outputs and attributes of an operator; ValueError if there is none of this name.
#[pyfunction]
fn op_proto(kind: &str) -> PyResult<PyOpProto> {
    known(kind).map(PyOpProto)
}

/// The operators that can be made by name.
#[pyfunction]
fn op_types() -> Vec<&'static str> {
    let kinds = op::protos().iter().map(|proto| proto.kind);
    kinds.filter(|kind| op::find(kind).is_ok()).collect()
}

/// The defaults of the attributes of an operator.
#[pyfunction]
fn get_op_attrs_default_value<'py>(
    py: Python<'py>,
    kind: crate::framework::desc::Name,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for rule in &known(&kind.0)?.attrs {
        if let Some(value) = &rule.default {
            dict.set_item(rule.name, attr_to_py(py, value)?)?;
        }
    }
    Ok(dict)
}

/// The operators that compute the gradient of one, and which variable each gradient is of.
#[pyfunction]
#[pyo3(signature = (op_desc, no_grad_set = None, grad_sub_block = None))]
fn get_grad_op_desc<'py>(
    py: Python<'py>,
    op_desc: &Bound<'py, PyOpDesc>,
    no_grad_set: Option<HashSet<String>>,
    grad_sub_block: Option<&Bound<'py, PyAny>>,
) -> PyResult<(Vec<PyOpDesc>, Bound<'py, PyDict>)> {
    let _ = grad_sub_block;
    let no_grad = no_grad_set.unwrap_or_default();
    let stays = |var: &str| no_grad.contains(var) || no_grad.contains(&names::grad(var));
    let descs = op_desc.get().grads(&stays)?;
    let origins = PyDict::new(py);
    for grad in descs.iter().flat_map(OpDesc::writes) {
        if let Some((origin, _)) = grad.rsplit_once(names::GRAD) {
            origins.set_item(grad, origin)?;
        }
    }
    Ok((descs.into_iter().map(PyOpDesc::own).collect(), origins))
}
