//! `fluid.optimizer`: the state of the Python classes.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use base::EvenIfPoisoned;
use program::backward::ParamGrad;
use program::optimizer::{self as kinds, ClipReach, LearningRate, Lookahead, MovingAverage};
use program::{Builder, Optimizer, Program, Regularizer};
use pyo3::exceptions::{PyAssertionError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tensor::DType;

use crate::backward::{Pair, check_callbacks, limits, parameter_names, wrap_pairs};
use crate::error::{from_fleet, from_program};
use crate::feed::warn;
use crate::framework::context;
use crate::framework::op_desc::InProgram;
use crate::framework::operator::PyOperator;
use crate::framework::param::{PyGradClip, PyRegularizer, held};
use crate::framework::program::PyProgram;
use crate::framework::variable::{PyVariable, name_of};

/// Adds the module `_core.optimizer`.
pub(crate) fn add(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let m = PyModule::new(parent.py(), "optimizer")?;
    m.add_class::<PyOptimizer>()?;
    m.add_class::<PyMovingAverage>()?;
    m.add_function(wrap_pyfunction!(append_lookahead, &m)?)?;
    m.add_function(wrap_pyfunction!(set_gradient_clip, &m)?)?;
    parent.add_submodule(&m)
}

/// Moving averages of the parameters of a program.
#[pyclass(name = "MovingAverage", module = "paddlewheel._core", frozen)]
pub(crate) struct PyMovingAverage(MovingAverage);

#[pymethods]
impl PyMovingAverage {
    #[new]
    #[pyo3(signature = (decay = 0.999, thres_steps = None, name = None))]
    fn new(
        py: Python<'_>,
        decay: f32,
        thres_steps: Option<&PyVariable>,
        name: Option<&str>,
    ) -> PyResult<Self> {
        let mut steps = thres_steps.map(PyVariable::var);
        let name = name.unwrap_or("");
        let documented = fleet::flags::is_as_documented().map_err(from_fleet)?;
        let new = |b: &mut Builder<'_>| {
            // The code of Fluid divides counts as whole numbers, and then the decay never changes.
            if let Some(var) = &steps
                && !documented
                && !matches!(b.meta(var)?.dtype, DType::F32 | DType::F64)
            {
                steps = None;
            }
            MovingAverage::new(b, decay, steps.as_ref(), name)
        };
        context::build(py, new).map(Self)
    }

    /// Adds the operators that follow the parameters to the current program.
    fn update(&self, py: Python<'_>) -> PyResult<()> {
        context::build(py, |b| self.0.update(b))
    }

    /// The program that puts the averages in the place of the parameters.
    fn apply_program(&self) -> PyResult<PyProgram> {
        self.0.apply().map(PyProgram::new_from).map_err(from_program)
    }

    /// The program that puts the parameters back.
    fn restore_program(&self) -> PyResult<PyProgram> {
        self.0.restore().map(PyProgram::new_from).map_err(from_program)
    }
}

/// Adds slow weights that parameters return to every `k` runs.
#[pyfunction]
fn append_lookahead(
    py: Python<'_>,
    main_program: &Bound<'_, PyProgram>,
    startup_program: &Bound<'_, PyProgram>,
    alpha: f32,
    k: i64,
) -> PyResult<()> {
    let (main, startup) = (main_program.clone().unbind(), startup_program.clone().unbind());
    context::build_on(py, &main, &startup, |b| Lookahead { alpha, k }.append(b))
}

/// An optimizer: how parameters change by their gradients.
#[pyclass(name = "Optimizer", module = "paddlewheel._core", frozen)]
pub(crate) struct PyOptimizer {
    held: Mutex<Optimizer>,
    /// The argument of the script, to be read again.
    rate: Mutex<Py<PyAny>>,
    /// Asked for each parameter whether the optimizer's own decay leaves it out.
    exclude: Option<Py<PyAny>>,
    /// Asked for each parameter whether its gradient is clipped.
    need_clip: Mutex<Option<Py<PyAny>>>,
}

impl PyOptimizer {
    fn lock(&self) -> MutexGuard<'_, Optimizer> {
        self.held.lock().even_if_poisoned()
    }

    /// Asks the script's functions about each parameter; no lock is held while they answer.
    fn ask(&self, py: Python<'_>, main: &Py<PyProgram>, pairs: &[ParamGrad]) -> PyResult<()> {
        let answers = |ask: &Py<PyAny>, wanted: bool| -> PyResult<Vec<String>> {
            let mut names = Vec::new();
            for pair in pairs {
                let param = Py::new(py, PyVariable::find(main.clone_ref(py), &pair.param))?;
                if ask.bind(py).call1((param,))?.is_truthy()? == wanted {
                    names.push(pair.param.clone());
                }
            }
            Ok(names)
        };
        if let Some(ask) = &self.exclude {
            let undecayed = answers(ask, true)?.into_iter().collect();
            self.lock().undecayed = undecayed;
        }
        let need_clip = {
            let held = self.need_clip.lock().even_if_poisoned();
            held.as_ref().map(|ask| ask.clone_ref(py))
        };
        let unclipped = need_clip.map(|ask| answers(&ask, false)).transpose()?;
        self.lock().unclipped = unclipped.unwrap_or_default().into_iter().collect();
        Ok(())
    }

    /// Says what Fluid does in silence: nothing is trained, or clips that are not used.
    fn warn_if_in_vain(
        &self,
        py: Python<'_>,
        main: &Py<PyProgram>,
        pairs: &[ParamGrad],
    ) -> PyResult<()> {
        if pairs.is_empty() {
            warn(
                py,
                "minimize: the loss depends on no parameter that is trained, so nothing will change. \
                 The loss must be computed from layers with parameters (trainable=True, \
                 stop_gradient=False), and parameter_list and no_grad_set must leave some",
            )?;
        }
        let own = self.lock().grad_clip.is_none();
        if own && kinds::clips_in_vain(&main.get().lock(), pairs) {
            warn(
                py,
                "set_gradient_clip was called for some parameters only: as in the code of Fluid 1.8.5 \
                 no gradient is clipped. Give the optimizer grad_clip=…(need_clip=…), or set \
                 FLAGS_as_documented=1 before set_gradient_clip",
            )?;
        }
        Ok(())
    }

    fn apply(
        &self,
        py: Python<'_>,
        main: &Py<PyProgram>,
        startup: &Py<PyProgram>,
        pairs: &[ParamGrad],
    ) -> PyResult<Vec<PyOperator>> {
        self.ask(py, main, pairs)?;
        let n = context::build_on(py, main, startup, |b| {
            Ok(self.lock().apply_gradients(b, pairs)?.len())
        })?;
        warn_if_again(py, main, pairs)?;
        Ok(last_ops(py, main, n))
    }
}

#[pymethods]
impl PyOptimizer {
    /// The optimizer that updates with an operator, with options by Fluid's names. `exclude` is asked
    /// for each parameter whether the optimizer's own decay leaves it out.
    #[staticmethod]
    #[pyo3(signature = (op, learning_rate, exclude=None, **options))]
    fn make(
        op: &str,
        learning_rate: &Bound<'_, PyAny>,
        exclude: Option<Py<PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let mut kind = kinds::by_name(op).map_err(from_program)?;
        for (option, value) in options.into_iter().flatten() {
            let option: String = option.extract()?;
            if !kind.set(&option, value.extract()?) {
                let text = format!("the optimizer of {op} has no option {option}");
                return Err(PyTypeError::new_err(text));
            }
        }
        let held = Mutex::new(Optimizer::boxed(kind, self::learning_rate(learning_rate)?));
        let rate = Mutex::new(learning_rate.clone().unbind());
        Ok(Self { held, rate, exclude, need_clip: Mutex::new(None) })
    }

    /// The options of every optimizer with their defaults, by operator.
    #[staticmethod]
    fn kinds() -> BTreeMap<&'static str, Vec<(&'static str, f64)>> {
        kinds::all().map(|kind| (kind.op(), kind.settings())).collect()
    }

    /// Sets the options of any optimizer.
    #[pyo3(signature = (parameter_list=None, regularization=None, grad_clip=None, name=None))]
    fn configure(
        &self,
        parameter_list: Option<&Bound<'_, PyAny>>,
        regularization: Option<&Bound<'_, PyAny>>,
        grad_clip: Option<&Bound<'_, PyAny>>,
        name: Option<String>,
    ) -> PyResult<()> {
        let parameters = parameter_list.map(parameter_names).transpose()?;
        self.set_regularization(regularization)?;
        self.set_grad_clip(grad_clip)?;
        let mut held = self.lock();
        (held.parameter_list, held.name) = (parameters, name);
        Ok(())
    }

    /// The penalty on parameters that have none of their own.
    #[setter]
    fn set_regularization(&self, regularization: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        self.lock().regularization = regularization.map(regularizer).transpose()?;
        Ok(())
    }

    /// How gradients are bounded.
    #[setter]
    fn set_grad_clip(&self, clip: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let held = clip.map(|clip| grad_clip(clip, "grad_clip")).transpose()?;
        let ask = clip.map(|clip| clip.getattr_opt("_need_clip_func")).transpose()?.flatten();
        let ask = ask.filter(|ask| !ask.is_none()).map(Bound::unbind);
        *self.need_clip.lock().even_if_poisoned() = ask;
        self.lock().grad_clip = held.map(|clip| clip.get().0.clone());
        Ok(())
    }

    /// The learning rate as the script gave it.
    #[getter]
    fn learning_rate(&self, py: Python<'_>) -> Py<PyAny> {
        self.rate.lock().even_if_poisoned().clone_ref(py)
    }

    #[setter]
    fn set_learning_rate(&self, rate: &Bound<'_, PyAny>) -> PyResult<()> {
        self.lock().set_learning_rate(learning_rate(rate)?);
        *self.rate.lock().even_if_poisoned() = rate.clone().unbind();
        Ok(())
    }

    /// The operator that changes parameters.
    #[getter]
    fn r#type(&self) -> &'static str {
        self.lock().op()
    }

    /// Adds gradients and the operators that apply them. Returns those operators, and pairs of
    /// parameter and gradient.
    #[pyo3(signature = (loss, startup_program=None, parameter_list=None, no_grad_set=None))]
    fn minimize(
        &self,
        py: Python<'_>,
        loss: &Bound<'_, PyAny>,
        startup_program: Option<Py<PyProgram>>,
        parameter_list: Option<&Bound<'_, PyAny>>,
        no_grad_set: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(Vec<PyOperator>, Vec<Pair>)> {
        let (loss, limits) = (loss_arg(loss)?, limits(parameter_list, no_grad_set)?);
        let (main, startup) = (loss.program(), startup_arg(py, startup_program)?);
        // Functions of the script answer for all parameters: which have gradients shows later.
        let all: Vec<ParamGrad> = main.get().lock().parameters().map(own_pair).collect();
        self.ask(py, main, &all)?;
        let (ops, pairs) = context::build_on(py, main, &startup, |b| {
            self.lock().minimize(b, &loss.var(), &limits)
        })?;
        warn_if_again(py, main, &pairs)?;
        self.warn_if_in_vain(py, main, &pairs)?;
        Ok((last_ops(py, main, ops.len()), wrap_pairs(py, main, &pairs)))
    }

    /// Adds the gradients only; returns pairs of parameter and gradient.
    #[pyo3(signature = (loss, startup_program=None, parameter_list=None, no_grad_set=None, callbacks=None))]
    fn backward(
        &self,
        py: Python<'_>,
        loss: &Bound<'_, PyAny>,
        startup_program: Option<Py<PyProgram>>,
        parameter_list: Option<&Bound<'_, PyAny>>,
        no_grad_set: Option<&Bound<'_, PyAny>>,
        callbacks: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<Pair>> {
        check_callbacks(callbacks)?;
        let (loss, limits) = (loss_arg(loss)?, limits(parameter_list, no_grad_set)?);
        let (main, startup) = (loss.program(), startup_arg(py, startup_program)?);
        let pairs = context::build_on(py, main, &startup, |b| {
            self.lock().backward(b, &loss.var(), &limits)
        })?;
        Ok(wrap_pairs(py, main, &pairs))
    }

    /// Clips and regularizes gradients and adds the operators that apply them; returns those.
    fn apply_gradients(
        &self,
        py: Python<'_>,
        params_grads: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<Vec<PyOperator>> {
        let (pairs, main) = (read_pairs(&params_grads)?, context::default_main_program(py)?);
        self.apply(py, &main, &context::default_startup_program(py)?, &pairs)
    }

    /// Applies gradients in the program of `loss`.
    fn apply_optimize(
        &self,
        py: Python<'_>,
        loss: &Bound<'_, PyAny>,
        startup_program: Option<Py<PyProgram>>,
        params_grads: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<Vec<PyOperator>> {
        let loss = loss_arg(loss)?;
        let startup = startup_arg(py, startup_program)?;
        self.apply(py, loss.program(), &startup, &read_pairs(&params_grads)?)
    }

    /// The variable with the learning rate, once the program has one.
    #[pyo3(signature = (program=None))]
    fn global_learning_rate(
        &self,
        py: Python<'_>,
        program: Option<Py<PyProgram>>,
    ) -> PyResult<Option<PyVariable>> {
        let find = |held: &Optimizer, program: &Program| held.learning_rate(program).cloned();
        self.find(py, program, find)
    }

    /// A variable kept beside a parameter.
    fn accumulator(
        &self,
        py: Python<'_>,
        name: &str,
        param: &PyVariable,
    ) -> PyResult<Option<PyVariable>> {
        let own = param.var();
        let find =
            |held: &Optimizer, program: &Program| held.state(program, own.name(), name).cloned();
        self.find(py, Some(param.program().clone_ref(py)), find)
    }

    /// Names of all variables kept beside parameters.
    fn state_names(&self) -> Vec<String> {
        self.lock().state_names().to_vec()
    }
}

impl PyOptimizer {
    fn find(
        &self,
        py: Python<'_>,
        program: Option<Py<PyProgram>>,
        look: impl FnOnce(&Optimizer, &Program) -> Option<program::Var>,
    ) -> PyResult<Option<PyVariable>> {
        let program = match program {
            Some(program) => program,
            None => context::default_main_program(py)?,
        };
        let var = look(&self.lock(), &program.get().lock());
        Ok(var.map(|var| PyVariable::find(program, var.name())))
    }
}

fn learning_rate(object: &Bound<'_, PyAny>) -> PyResult<LearningRate> {
    if let Ok(variable) = object.cast::<PyVariable>() {
        return Ok(LearningRate::Var(variable.get().var()));
    }
    if object.is_none() {
        return Err(PyAssertionError::new_err("the learning rate must not be None"));
    }
    let Ok(number) = object.extract::<f64>() else {
        let kind = object.get_type();
        let text = format!("learning rate should be float or Variable, got {kind} here");
        return Err(PyTypeError::new_err(text));
    };
    if number < 0.0 {
        let text = format!(
            "learning_rate is {number}: with a negative one each step makes the loss larger; leave out \
             the minus unless that is meant"
        );
        warn(object.py(), &text)?;
    }
    Ok(LearningRate::Value(number as f32))
}

fn regularizer(object: &Bound<'_, PyAny>) -> PyResult<Regularizer> {
    let held = held::<PyRegularizer>(object);
    let wrong = || PyTypeError::new_err(format!("{} is not a regularizer", object.get_type()));
    Ok(held.ok_or_else(wrong)?.get().0)
}

fn grad_clip<'py>(object: &Bound<'py, PyAny>, argument: &str) -> PyResult<Bound<'py, PyGradClip>> {
    held::<PyGradClip>(object).ok_or_else(|| {
        PyTypeError::new_err(format!(
            "'{argument}' should be an instance of GradientClipBase's derived class"
        ))
    })
}

fn loss_arg<'a>(loss: &'a Bound<'_, PyAny>) -> PyResult<&'a PyVariable> {
    let loss = loss.cast::<PyVariable>();
    let loss = loss.map_err(|_| PyAssertionError::new_err("The loss should be an Variable."))?;
    Ok(loss.get())
}

fn startup_arg(py: Python<'_>, startup: Option<Py<PyProgram>>) -> PyResult<Py<PyProgram>> {
    startup.map_or_else(|| context::default_startup_program(py), Ok)
}

fn own_pair(param: &program::VarDesc) -> ParamGrad {
    ParamGrad { param: param.name.clone(), grad: String::new() }
}

/// Pairs of variables; those without a gradient are left out, as in Fluid.
fn read_pairs(pairs: &[Bound<'_, PyAny>]) -> PyResult<Vec<ParamGrad>> {
    let mut read = Vec::new();
    for pair in pairs {
        let (param, grad): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair.extract()?;
        if !grad.is_none() {
            read.push(ParamGrad { param: name_of(&param)?, grad: name_of(&grad)? });
        }
    }
    Ok(read)
}

/// Says that parameters were minimised before; Fluid allows it, and it is seldom meant.
fn warn_if_again(py: Python<'_>, main: &Py<PyProgram>, pairs: &[ParamGrad]) -> PyResult<()> {
    let again = kinds::updated_twice(&main.get().lock(), pairs);
    again.map_or(Ok(()), |again| warn(py, &again.to_string()))
}

/// The `n` operators appended last.
fn last_ops(py: Python<'_>, program: &Py<PyProgram>, n: usize) -> Vec<PyOperator> {
    let held = program.get().lock();
    let block = held.current_block();
    let ops = &held.block(block).ops;
    let op = |id| PyOperator(InProgram { program: program.clone_ref(py), block, id });
    ops[ops.len() - n..].iter().map(|desc| op(desc.id)).collect()
}

/// Says how the gradients of parameters are clipped: of those in the list, or of all.
#[pyfunction]
#[pyo3(signature = (clip, param_list=None, program=None))]
fn set_gradient_clip(
    py: Python<'_>,
    clip: &Bound<'_, PyAny>,
    param_list: Option<Vec<Bound<'_, PyAny>>>,
    program: Option<Py<PyProgram>>,
) -> PyResult<()> {
    let clip = grad_clip(clip, "clip")?;
    let name = |item: &Bound<'_, PyAny>| {
        let text = "'param_list' should be a list of Parameter or basestring(parameter's name).";
        name_of(item).map_err(|_| PyTypeError::new_err(text))
    };
    let names = param_list.map(|list| list.iter().map(name).collect::<PyResult<Vec<_>>>());
    let names = names.transpose()?;
    let program = match program {
        Some(program) => program,
        None => context::default_main_program(py)?,
    };
    let documented = fleet::flags::is_as_documented().map_err(from_fleet)?;
    let reach = if documented { ClipReach::Each } else { ClipReach::Together };
    let (mut program, clip) = (program.get().lock(), &clip.get().0);
    kinds::set_gradient_clip(&mut program, clip, names.as_deref(), reach).map_err(from_program)
}
