//! The target of layers: a main program, a startup program, and the names.

use std::mem;

use tensor::DType;

use crate::block::{OpDesc, VarNames};
use crate::error::{Error, Result};
use crate::init;
use crate::names::UniqueNames;
use crate::param::{Initializer, ParamAttr, ParamInfo};
use crate::program::Program;
use crate::var::{Meta, VarDesc};

/// A variable, by its name. Layers take and return these.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Var(String);

impl Var {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl VarNames for &Var {
    fn names(self) -> Vec<String> {
        vec![self.name().to_string()]
    }
}

impl VarNames for &[Var] {
    fn names(self) -> Vec<String> {
        self.iter().map(|var| var.name().to_string()).collect()
    }
}

impl From<&str> for Var {
    fn from(name: &str) -> Self {
        Var(name.to_string())
    }
}

impl From<String> for Var {
    fn from(name: String) -> Self {
        Var(name)
    }
}

/// A pair of programs and their names: Fluid's default programs.
#[derive(Clone, Debug, Default)]
pub struct Net {
    /// Computes and trains.
    pub main: Program,
    /// Fills the parameters, once.
    pub startup: Program,
    /// Makes names.
    pub names: UniqueNames,
}

impl Net {
    /// Two empty programs whose random ops start from `seed`.
    pub fn with_seed(seed: i32) -> Self {
        let mut net = Self::default();
        net.main.random_seed = seed;
        net.startup.random_seed = seed;
        net
    }

    /// Layers given this write into these programs.
    pub fn builder(&mut self) -> Builder<'_> {
        Builder { main: &mut self.main, startup: &mut self.startup, names: &mut self.names }
    }

    /// Layers given this write into other programs under the same names (`program_guard`).
    /// Without a startup program of its own, parameters start in this one's.
    pub fn guard<'a>(
        &'a mut self,
        main: &'a mut Program,
        startup: Option<&'a mut Program>,
    ) -> Builder<'a> {
        let startup = startup.unwrap_or(&mut self.startup);
        Builder { main, startup, names: &mut self.names }
    }
}

/// Programs under construction.
pub struct Builder<'a> {
    /// Where layers go.
    pub main: &'a mut Program,
    /// Where the first values of parameters go.
    pub startup: &'a mut Program,
    /// Makes names.
    pub names: &'a mut UniqueNames,
}

/// A layer's request for a parameter.
#[derive(Clone)]
pub struct NewParam<'a> {
    /// The name of the layer instance, `fc_0`.
    pub layer: &'a str,
    /// `w` or `b`.
    pub suffix: &'a str,
    /// The attributes that the user gave.
    pub attr: &'a ParamAttr,
    /// Its shape.
    pub dims: &'a [i64],
    /// Its type.
    pub dtype: DType,
    /// How it starts if the user did not say.
    pub default_init: Initializer,
}

impl NewParam<'_> {
    /// How it starts.
    fn initializer(&self) -> &Initializer {
        self.attr.initializer.as_ref().unwrap_or(&self.default_init)
    }
}

impl Builder<'_> {
    /// The description of a variable seen from the current block.
    pub fn desc(&self, var: &Var) -> Result<&VarDesc> {
        self.main.need_var(self.main.current_block(), var.name())
    }

    /// Shape and type of a variable.
    pub fn meta(&self, var: &Var) -> Result<Meta> {
        Ok(self.desc(var)?.meta.clone())
    }

    /// The name of a layer instance: the user's, or the next of its kind.
    pub fn layer_name(&mut self, kind: &str, name: Option<&str>) -> String {
        match name {
            Some(name) => name.to_string(),
            None => self.names.generate(kind),
        }
    }

    /// A variable for the result of an op: `<layer>.tmp_0`, `<layer>.tmp_1`, …
    pub fn temp(&mut self, layer: &str, dtype: DType) -> Var {
        let name = self.names.generate(&format!("{layer}.tmp"));
        let meta = Meta { dtype, ..Meta::default() };
        let block = self.main.current_block();
        self.main.block_mut(block).put_var(VarDesc::new(&name, meta));
        Var(name)
    }

    /// A new variable that gradients do not pass (a label's one-hot, a comparison).
    pub fn temp_stopped(&mut self, layer: &str, dtype: DType) -> Var {
        let var = self.temp(layer, dtype);
        let block = self.main.current_block();
        if let Some(desc) = self.main.block_mut(block).var_mut(var.name()) {
            desc.stop_gradient = true;
        }
        var
    }

    /// A variable for the result of arithmetic on variables: `tmp_0`, `tmp_1`, …
    pub fn unnamed(&mut self, dtype: DType) -> Var {
        let name = self.names.generate("tmp");
        let block = self.main.current_block();
        let meta = Meta { dtype, ..Meta::default() };
        self.main.block_mut(block).put_var(VarDesc::new(&name, meta));
        Var(name)
    }

    /// Appends an op to the current block.
    pub fn op(&mut self, op: OpDesc) -> Result<()> {
        let block = self.main.current_block();
        crate::dtypes::check(self.main, block, &op)?;
        self.main.append_op(block, op)
    }

    /// Ops that `build` appends get this role, and these pairs of parameter and gradient.
    pub fn with_role<R>(
        &mut self,
        role: i32,
        vars: &[&str],
        build: impl FnOnce(&mut Self) -> R,
    ) -> R {
        let vars = vars.iter().map(|var| var.to_string()).collect();
        let role = mem::replace(&mut self.main.role, role);
        let vars = mem::replace(&mut self.main.role_vars, vars);
        let result = build(self);
        self.main.role = role;
        self.main.role_vars = vars;
        result
    }

    /// Ops that `build` appends are annotated with a scope; see [`Program::enter_scope`].
    pub fn with_scope<R>(&mut self, prefix: &str, build: impl FnOnce(&mut Self) -> R) -> R {
        let around = self.main.enter_scope(prefix);
        let result = build(self);
        self.main.namescope = around;
        result
    }

    /// Creates a parameter in both programs, and the op that fills it in the startup program.
    /// A name that exists already is the same parameter: nothing is added.
    pub fn parameter(&mut self, new: &NewParam<'_>) -> Result<Var> {
        if let Some(norm) = new.attr.weight_norm {
            return self.normalized(new, norm);
        }
        self.checked_parameter(new, |dims| tensor::Shape::from_dims(dims).map(drop))
    }

    /// A parameter of which servers may keep the rows that are used. No process needs to hold all of them,
    /// unless their first values are listed.
    pub(crate) fn table(&mut self, new: &NewParam<'_>) -> Result<Var> {
        if let Some(norm) = new.attr.weight_norm {
            return self.normalized(new, norm);
        }
        let lists = matches!(new.initializer(), Initializer::Bilinear | Initializer::Array(_));
        let n_skipped = usize::from(!lists);
        let check =
            |dims: &[i64]| tensor::Shape::from_dims(dims.get(n_skipped..).unwrap_or(&[])).map(drop);
        self.checked_parameter(new, check)
    }

    /// A parameter whose shape, of sizes above 0, passes a check: a shape that no memory can hold is refused before
    /// its first values are worked out.
    fn checked_parameter(
        &mut self,
        new: &NewParam<'_>,
        check: impl Fn(&[i64]) -> tensor::Result<()>,
    ) -> Result<Var> {
        let key = format!("{}.{}", new.layer, new.suffix);
        let name = match &new.attr.name {
            Some(name) => name.clone(),
            None => self.names.generate(&key),
        };
        if new.dims.is_empty() || new.dims.iter().any(|&dim| dim <= 0) {
            return Err(Error::BadArgument {
                layer: "create_parameter",
                argument: "shape",
                rule: "Each dimension of shape for Parameter must be greater than 0",
                actual: format!("{:?} for `{name}`", new.dims),
            });
        }
        check(new.dims)?;
        let mut var = VarDesc::new(&name, Meta::dense(new.dtype, new.dims)).persistable();
        var.param = Some(ParamInfo::from(new.attr));
        var.stop_gradient = !new.attr.trainable;
        self.main.block_mut(0).create_var(var.clone())?;
        if self.startup.block(0).var(&name).is_none() {
            let op = init::op(new.initializer(), &var, self.startup.random_seed)?;
            self.startup.block_mut(0).put_var(var);
            // Fluid puts first values before all others.
            self.startup.prepend_op(0, op)?;
        }
        Ok(Var(name))
    }

    /// A persistable variable that is not a parameter, filled with a constant by the startup
    /// program.
    pub fn state(&mut self, name: &str, meta: Meta, value: f32) -> Result<Var> {
        let var = VarDesc { stop_gradient: true, ..VarDesc::new(name, meta).persistable() };
        self.main.block_mut(0).create_var(var.clone())?;
        if self.startup.block(0).var(name).is_none() {
            let op = init::op(&Initializer::Constant { value }, &var, 0)?;
            self.startup.block_mut(0).put_var(var);
            self.startup.prepend_op(0, op)?;
        }
        Ok(Var(name.to_string()))
    }

    /// A variable's first value, given by the startup program (`set_variable_initializer`).
    pub fn initialize(&mut self, var: &Var, initializer: &Initializer) -> Result<()> {
        let desc = VarDesc { is_data: false, ..self.desc(var)?.clone() }.persistable();
        let op = init::op(initializer, &desc, self.startup.random_seed)?;
        self.startup.block_mut(0).put_var(desc);
        self.startup.prepend_op(0, op)
    }
}
