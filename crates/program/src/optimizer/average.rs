//! Parameters that follow others: moving averages to test with, slow weights to return to.

use tensor::DType;

use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::Result;
use crate::layers::{self, StepCounter, Switch};
use crate::program::Program;
use crate::role;
use crate::var::{Meta, VarDesc};

/// How many averages were taken.
const EMA_STEPS: &str = "@EMA_STEP_COUNTER@";
/// How much of the old average stays.
const EMA_DECAY: &str = "scheduled_ema_decay_rate";

/// The exponential moving average of each parameter:
/// `ema = decay * ema + (1 - decay) * parameter`, divided by `1 - decay^steps` when it is used.
#[derive(Clone, Debug)]
pub struct MovingAverage {
    decay: VarDesc,
    params: Vec<AveragedParam>,
}

/// A parameter, its average, and where its own value is while the average stands in for it.
#[derive(Clone, Debug)]
struct AveragedParam {
    param: VarDesc,
    average: VarDesc,
    own: VarDesc,
}

impl MovingAverage {
    /// Averages of all parameters of the program; `thres_steps` counts up, and makes the decay
    /// small at first.
    pub fn new(
        b: &mut Builder<'_>,
        decay: f32,
        thres_steps: Option<&Var>,
        name: &str,
    ) -> Result<Self> {
        let var = b.state(EMA_DECAY, Meta::dense(DType::F32, &[1]), decay)?;
        if let Some(steps) = thres_steps {
            b.with_role(role::LR_SCHED, &[], |b| schedule(b, &var, decay, steps))?;
        }
        let averaged = |var: &&VarDesc| var.param.as_ref().is_some_and(|p| p.do_model_average);
        let params: Vec<VarDesc> = b.main.parameters().filter(averaged).cloned().collect();
        let mut averaged = Vec::with_capacity(params.len());
        for param in params {
            let own = b.names.generate(&format!("{name}{}.ema_tmp", param.name));
            let own = VarDesc::new(&own, param.meta.clone()).persistable();
            let average = b.names.generate(&format!("{name}{}_ema", param.name));
            b.state(&average, param.meta.clone(), 0.0)?;
            let average = VarDesc::new(&average, param.meta.clone()).persistable();
            averaged.push(AveragedParam { param, average, own });
        }
        let decay = b.desc(&var)?.clone();
        Ok(Self { decay, params: averaged })
    }

    /// Appends the ops that follow the parameters, behind those that change them.
    pub fn update(&self, b: &mut Builder<'_>) -> Result<()> {
        let counter = StepCounter { counter_name: EMA_STEPS, ..StepCounter::default() };
        layers::autoincreased_step_counter(b, counter)?;
        for AveragedParam { param, average, own } in &self.params {
            b.with_scope("moving_average", |b| {
                b.with_role(role::OPTIMIZE, &[&param.name, &own.name], |b| {
                    let (average, param) = (Var::from(&*average.name), Var::from(&*param.name));
                    let decay = Var::from(&*self.decay.name);
                    mix(b, &average, &param, &decay, &average)
                })
            })?;
        }
        Ok(())
    }

    /// The program that puts the averages in the place of the parameters.
    pub fn apply(&self) -> Result<Program> {
        let mut program = Program::default();
        let block = program.block_mut(0);
        let steps = VarDesc::new(EMA_STEPS, Meta::dense(DType::I64, &[1])).persistable();
        let scalar = |name: &str| VarDesc::new(name, Meta::dense(DType::F32, &[1]));
        for var in [steps, self.decay.clone(), scalar("steps"), scalar("power"), scalar("rest")] {
            block.put_var(var);
        }
        block.put_var(VarDesc::new("none", Meta::dense(DType::Bool, &[1])));
        let op =
            |kind: &str, x: &str, out: &str| OpDesc::new(kind).input("X", x).output("Out", out);
        let cast = |x: &str, from: DType| {
            let cast = op("cast", x, "steps").attr("in_dtype", from.code());
            cast.attr("out_dtype", DType::F32.code())
        };
        program.append_op(0, cast(EMA_STEPS, DType::I64))?;
        let power = op("elementwise_pow", &self.decay.name, "power").input("Y", "steps");
        program.append_op(0, power.attr("axis", -1))?;
        let rest = op("scale", "power", "rest").attr("scale", -1.0f32).attr("bias", 1.0f32);
        program.append_op(0, rest)?;
        // Without a step the average is 0, and what it is divided by must not be: there `rest` is 1.
        let nothing = op("scale", "steps", "power").attr("scale", 0.0f32).attr("bias", 0.0f32);
        program.append_op(0, nothing)?;
        program.append_op(0, op("equal", "steps", "none").input("Y", "power").attr("axis", -1))?;
        program.append_op(0, cast("none", DType::Bool))?;
        let rest = op("elementwise_add", "rest", "rest").input("Y", "steps").attr("axis", -1);
        program.append_op(0, rest)?;
        for AveragedParam { param, average, own } in &self.params {
            for var in [param, average, own] {
                program.block_mut(0).put_var(VarDesc { param: None, ..var.clone() });
            }
            program.append_op(0, op("assign", &param.name, &own.name))?;
            let divide = op("elementwise_div", &average.name, &param.name).input("Y", "rest");
            program.append_op(0, divide.attr("axis", -1))?;
        }
        Ok(program)
    }

    /// The program that puts the parameters back.
    pub fn restore(&self) -> Result<Program> {
        let mut program = Program::default();
        for AveragedParam { param, own, .. } in &self.params {
            for var in [param, own] {
                program.block_mut(0).put_var(VarDesc { param: None, ..var.clone() });
            }
            let back = OpDesc::new("assign").input("X", &*own.name).output("Out", &*param.name);
            program.append_op(0, back)?;
        }
        Ok(program)
    }
}

/// `out = decay * old + (1 - decay) * new`
fn mix(b: &mut Builder<'_>, old: &Var, new: &Var, decay: &Var, out: &Var) -> Result<()> {
    let dtype = b.meta(new)?.dtype;
    let rest = b.unnamed(DType::F32);
    let op = OpDesc::new("scale").input("X", decay).output("Out", &rest);
    b.op(op.attr("scale", -1.0f32).attr("bias", 1.0f32))?;
    let mut times = |x: &Var, y: &Var| -> Result<Var> {
        let out = b.unnamed(dtype);
        let op = OpDesc::new("elementwise_mul").input("X", x).input("Y", y).output("Out", &out);
        b.op(op.attr("axis", -1)).map(|()| out)
    };
    let (old, new) = (times(old, decay)?, times(new, &rest)?);
    let sum = OpDesc::new("elementwise_add").input("X", &old).input("Y", &new);
    b.op(sum.output("Out", out).attr("axis", -1))
}

/// `decay = min(decay, (steps + 1) / (steps + 10))`
fn schedule(b: &mut Builder<'_>, var: &Var, decay: f32, steps: &Var) -> Result<()> {
    let steps = layers::cast(b, steps, DType::F32)?;
    let mut plus = |bias: f32| -> Result<Var> {
        let out = b.unnamed(DType::F32);
        let op = OpDesc::new("scale").input("X", &steps).output("Out", &out);
        b.op(op.attr("scale", 1.0f32).attr("bias", bias)).map(|()| out)
    };
    let (above, below) = (plus(1.0)?, plus(10.0)?);
    let ratio = b.unnamed(DType::F32);
    let op = OpDesc::new("elementwise_div").input("X", &above).input("Y", &below);
    b.op(op.output("Out", &ratio).attr("axis", -1))?;
    let most = layers::fill_constant(b, &[1], DType::F32, f64::from(decay), Default::default())?;
    let op = OpDesc::new("elementwise_min").input("X", &ratio).input("Y", &most);
    b.op(op.output("Out", var).attr("axis", -1))
}

/// Slow weights that take a step of `alpha` towards the parameters every `k` runs, and that the
/// parameters then return to.
#[derive(Clone, Copy, Debug)]
pub struct Lookahead {
    /// How far the slow weights go: 0 to 1.
    pub alpha: f32,
    /// Runs between two steps.
    pub k: i64,
}

impl Lookahead {
    /// Appends the slow weights of all parameters, behind the ops that change these.
    pub fn append(&self, b: &mut Builder<'_>) -> Result<()> {
        let params: Vec<VarDesc> = b.main.parameters().cloned().collect();
        let mut pairs = Vec::with_capacity(params.len());
        for param in params {
            let slow = VarDesc::new(&format!("{}@SLOW", param.name), param.meta).persistable();
            b.main.block_mut(0).put_var(slow.clone());
            b.startup.block_mut(0).put_var(slow.clone());
            let start = OpDesc::new("assign").input("X", &*param.name).output("Out", &*slow.name);
            b.startup.append_op(0, start)?;
            pairs.push((Var::from(&*param.name), Var::from(&*slow.name)));
        }
        let number = |dtype: DType| Meta::dense(dtype, &[1]);
        let k = b.state("lookahead_k", number(DType::I64), self.k as f32)?;
        let alpha = b.state("lookahead_alpha", number(DType::F32), self.alpha)?;
        let step = b.state("lookahead_step", number(DType::I64), 0.0)?;
        b.with_role(role::OPTIMIZE, &[], |b| {
            let count = OpDesc::new("increment").input("X", &step).output("Out", &step);
            b.op(count.attr("step", 1.0f32))?;
            let due = is_due(b, &step, &k)?;
            Switch::default().case(b, &due, |b| {
                pairs.iter().try_for_each(|(fast, slow)| {
                    mix(b, fast, slow, &alpha, slow)?;
                    layers::assign(b, slow, Some(fast)).map(|_| ())
                })
            })
        })
    }
}

/// Whether `k` divides the count.
fn is_due(b: &mut Builder<'_>, step: &Var, k: &Var) -> Result<Var> {
    let rest = b.unnamed(DType::I64);
    let op = OpDesc::new("elementwise_mod").input("X", step).input("Y", k);
    b.op(op.output("Out", &rest).attr("axis", -1))?;
    let zero = layers::fill_constant(b, &[1], DType::I64, 0.0, Default::default())?;
    let due = b.unnamed(DType::Bool);
    let op = OpDesc::new("equal").input("X", &rest).input("Y", &zero).output("Out", &due);
    b.op(op.attr("axis", -1)).map(|()| due)
}
