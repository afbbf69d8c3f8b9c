//! Common parts of all optimizers: `minimize`, `backward`, `apply_gradients`.

use std::collections::{HashMap, HashSet};

use tensor::DType;

use super::{Accumulator, LearningRate, OptimizerKind, clip, regularizer};
use crate::backward::{self, Limits, ParamGrad};
use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::{Error, Result};
use crate::param::{GradClip, Regularizer};
use crate::program::Program;
use crate::role;
use crate::var::{Meta, VarKind, n_elements};

/// An optimizer: its kind, and what may be said of any kind.
#[derive(Debug)]
pub struct Optimizer {
    kind: Box<dyn OptimizerKind>,
    learning_rate: LearningRate,
    /// Decay of parameters that have none of their own.
    pub regularization: Option<Regularizer>,
    /// Clips all gradients; without it each parameter's own clip counts.
    pub grad_clip: Option<GradClip>,
    /// Parameters whose gradients that clip leaves alone.
    pub unclipped: HashSet<String>,
    /// Parameters that an optimizer with a decay of its own (LAMB) leaves out of it.
    pub undecayed: HashSet<String>,
    /// Trains only these; a list in [`Limits`] wins.
    pub parameter_list: Option<Vec<String>>,
    /// Goes into the names of the state: `<param>_<name>_velocity_0`.
    pub name: Option<String>,
    rates: HashMap<u64, Var>,
    states: HashMap<(u64, String, String), Var>,
    /// The names of the states, in order of creation.
    state_names: Vec<String>,
}

impl Optimizer {
    /// An optimizer of this kind, nothing else said.
    pub fn new(kind: impl OptimizerKind + 'static, learning_rate: impl Into<LearningRate>) -> Self {
        Self::boxed(Box::new(kind), learning_rate)
    }

    /// An optimizer of a kind that was found by name ([`by_name`](super::by_name)).
    pub fn boxed(kind: Box<dyn OptimizerKind>, learning_rate: impl Into<LearningRate>) -> Self {
        Self {
            kind,
            learning_rate: learning_rate.into(),
            regularization: None,
            grad_clip: None,
            unclipped: HashSet::new(),
            undecayed: HashSet::new(),
            parameter_list: None,
            name: None,
            rates: HashMap::new(),
            states: HashMap::new(),
            state_names: Vec::new(),
        }
    }

    /// Adds everything that training needs: gradients and the ops that apply them. Returns those
    /// ops, and the gradients in order of the parameters' creation.
    pub fn minimize(
        &mut self,
        b: &mut Builder<'_>,
        loss: &Var,
        limits: &Limits,
    ) -> Result<(Vec<OpDesc>, Vec<ParamGrad>)> {
        // Invalid settings are refused before the program is touched, and not by the ops.
        self.check_learning_rate(b)?;
        let pairs = self.backward(b, loss, limits)?;
        let ops = self.apply_gradients(b, &pairs)?;
        Ok((ops, pairs))
    }

    /// Adds the gradients only.
    pub fn backward(
        &self,
        b: &mut Builder<'_>,
        loss: &Var,
        limits: &Limits,
    ) -> Result<Vec<ParamGrad>> {
        let mut limits = limits.clone();
        limits.parameters = limits.parameters.or_else(|| self.parameter_list.clone());
        backward::append_backward(b.main, loss.name(), &limits)
    }

    /// Clips and regularizes these gradients, and adds the ops that apply them, in order of the
    /// parameters' names. Returns those ops.
    pub fn apply_gradients(
        &mut self,
        b: &mut Builder<'_>,
        pairs: &[ParamGrad],
    ) -> Result<Vec<OpDesc>> {
        self.check_learning_rate(b)?;
        let mut pairs = pairs.to_vec();
        pairs.sort_by(|left, right| left.param.cmp(&right.param));
        for pair in &pairs {
            check_float(b, &pair.param)?;
            b.desc(&Var::from(&*pair.grad))?;
        }
        let clip = |b: &mut Builder<'_>| {
            clip::clip_gradients(b, &pairs, self.grad_clip.as_ref(), &self.unclipped)
        };
        let pairs = match &self.grad_clip {
            Some(_) => b.with_scope("gradient_clip", clip)?,
            None => clip(b)?,
        };
        let pairs = b.with_scope("regularization", |b| {
            regularizer::append(b, &pairs, self.regularization)
        })?;
        self.append_updates(b, &pairs)
    }

    /// The variable with the learning rate, once a program has one.
    pub fn learning_rate(&self, program: &Program) -> Option<&Var> {
        self.rates.get(&program.id())
    }

    /// A variable kept beside a parameter, once a program has it.
    pub fn state(&self, program: &Program, param: &str, state: &str) -> Option<&Var> {
        self.states.get(&(program.id(), param.to_string(), state.to_string()))
    }

    /// Names of all variables kept beside parameters, in order of creation.
    pub fn state_names(&self) -> &[String] {
        &self.state_names
    }

    /// Sets the learning rate of programs that have none yet.
    pub fn set_learning_rate(&mut self, learning_rate: impl Into<LearningRate>) {
        self.learning_rate = learning_rate.into();
    }

    /// The op that this optimizer updates parameters with.
    pub fn op(&self) -> &'static str {
        self.kind.op()
    }

    fn append_updates(&mut self, b: &mut Builder<'_>, pairs: &[ParamGrad]) -> Result<Vec<OpDesc>> {
        let block = b.main.current_block();
        let first_op = b.main.block(block).ops.len();
        for pair in pairs {
            self.create_states(b, &pair.param)?;
        }
        let rate = self.create_learning_rate(b, pairs)?;
        for pair in pairs {
            b.with_scope("optimizer", |b| self.append_update(b, pair, &rate))?;
        }
        if let Some((state, factor)) = self.kind.scaled_after() {
            for pair in pairs {
                let var = self.need_state(b, &pair.param, state)?;
                let op = OpDesc::new("scale").input("X", &var).output("Out", &var);
                let op = op.attr("scale", factor);
                let pair = [&*pair.param, &*pair.grad];
                // Fluid's spelling.
                b.with_scope("adamx", |b| b.with_role(role::OPTIMIZE, &pair, |b| b.op(op)))?;
            }
        }
        Ok(b.main.block(block).ops[first_op..].to_vec())
    }

    fn append_update(&self, b: &mut Builder<'_>, pair: &ParamGrad, rate: &Var) -> Result<()> {
        let mut op =
            OpDesc::new(self.kind.op()).input("Param", &pair.param).input("Grad", &pair.grad);
        if self.kind.has_learning_rate() {
            op = op.input("LearningRate", &param_rate(b, &pair.param, rate)?);
        }
        op = op.output("ParamOut", &pair.param);
        for state in self.kind.states() {
            let var = self.need_state(b, &pair.param, state.name)?;
            op = op.input(state.input, &var);
            if let Some(output) = state.output {
                op = op.output(output, &var);
            }
        }
        for (name, value) in self.kind.attrs(&pair.param) {
            op.attrs.set(name, value);
        }
        if let (Some(decay), true) = (self.kind.decay(), self.undecayed.contains(&pair.param)) {
            op.attrs.set(decay, 0.0f32);
        }
        // Without it the op would run late, and servers would keep its tables whole.
        assert!(op.traits().update.is_some(), "`traits` of `{}` must name `update`", op.kind);
        b.with_role(role::OPTIMIZE, &[&pair.param, &pair.grad], |b| b.op(op))
    }

    fn create_states(&mut self, b: &mut Builder<'_>, param: &str) -> Result<()> {
        let meta = b.meta(&Var::from(param))?;
        for Accumulator { name, fill, is_scalar, .. } in self.kind.states() {
            let key = (b.main.id(), param.to_string(), name.to_string());
            if self.states.contains_key(&key) {
                continue;
            }
            let unique = match &self.name {
                Some(own) => format!("{param}_{own}_{name}"),
                None => format!("{param}_{name}"),
            };
            let unique = b.names.generate(&unique);
            let dims = if is_scalar { vec![1] } else { meta.dims.clone() };
            let var = b.state(&unique, Meta::dense(meta.dtype, &dims), fill)?;
            self.state_names.push(var.name().to_string());
            self.states.insert(key, var);
        }
        Ok(())
    }

    fn need_state(&self, b: &Builder<'_>, param: &str, state: &str) -> Result<Var> {
        let var = self.state(b.main, param, state).cloned();
        var.ok_or_else(|| Error::unknown_var(&format!("{param}_{state}"), b.main.list_vars()))
    }

    /// The global learning rate; Fluid creates it after the state.
    fn create_learning_rate(&mut self, b: &mut Builder<'_>, pairs: &[ParamGrad]) -> Result<Var> {
        if let Some(var) = self.rates.get(&b.main.id()) {
            return Ok(var.clone());
        }
        let var = match &self.learning_rate {
            LearningRate::Var(var) => var.clone(),
            LearningRate::Value(value) => {
                let dtype = match pairs.first() {
                    Some(pair) => b.meta(&Var::from(&*pair.param))?.dtype,
                    None => DType::F32,
                };
                let name = b.names.generate("learning_rate");
                b.state(&name, Meta::dense(dtype, &[1]), *value)?
            }
        };
        self.rates.insert(b.main.id(), var.clone());
        Ok(var)
    }

    fn check_learning_rate(&self, b: &Builder<'_>) -> Result<()> {
        let actual = match &self.learning_rate {
            LearningRate::Value(value) if value.is_finite() => return Ok(()),
            LearningRate::Value(value) => value.to_string(),
            LearningRate::Var(var) => {
                let Meta { kind, dtype, dims, .. } = b.meta(var)?;
                let one = kind == VarKind::LodTensor && n_elements(&dims) == 1;
                if one && dtype.is_float() {
                    return Ok(());
                }
                format!("`{}`, {kind:?} of {dtype} {dims:?}", var.name())
            }
        };
        Err(Error::BadArgument {
            layer: "optimizer",
            argument: "learning_rate",
            rule: "a finite number or a float variable with one element is needed",
            actual,
        })
    }
}

fn check_float(b: &Builder<'_>, param: &str) -> Result<()> {
    match b.meta(&Var::from(param))?.dtype {
        DType::F32 | DType::F64 => Ok(()),
        actual => {
            let expected = "float32 or float64";
            Err(Error::DType { var: param.to_string(), expected, actual })
        }
    }
}

/// The learning rate times the parameter's own factor.
fn param_rate(b: &mut Builder<'_>, param: &str, rate: &Var) -> Result<Var> {
    let desc = b.desc(&Var::from(param))?;
    let factor = desc.param.as_ref().map_or(1.0, |info| info.learning_rate);
    if factor == 1.0 {
        return Ok(rate.clone());
    }
    let dtype = b.meta(rate)?.dtype;
    let scaled = b.unnamed(dtype);
    let op = OpDesc::new("scale").input("X", rate).output("Out", &scaled).attr("scale", factor);
    b.with_role(role::LR_SCHED | role::OPTIMIZE, &[], |b| b.op(op))?;
    Ok(scaled)
}
