//! Variables without an op: `create_tensor`, `create_parameter`, `create_global_var`.

use tensor::DType;

use crate::builder::{Builder, NewParam, Var};
use crate::error::Result;
use crate::init;
use crate::param::{Initializer, ParamAttr};
use crate::var::{Meta, VarDesc};

/// A variable that an op will write: `create_tensor_0`.
pub fn create_tensor(
    b: &mut Builder<'_>,
    dtype: DType,
    name: Option<&str>,
    persistable: bool,
) -> Result<Var> {
    let name = b.layer_name("create_tensor", name);
    let meta = Meta { dtype, ..Meta::default() };
    let block = b.main.current_block();
    let known = b.main.block(block).var(&name);
    // Its shape came with its first value.
    if known.is_some_and(|var| var.meta.dtype == dtype && var.persistable == persistable) {
        return Ok(Var::from(name));
    }
    let var = VarDesc { persistable, ..VarDesc::new(&name, meta) };
    b.main.block_mut(block).create_var(var)?;
    Ok(Var::from(name))
}

/// Options of [`create_parameter`]; defaults as in `fluid.layers.create_parameter`.
#[derive(Clone, Debug, Default)]
pub struct CreateParameter<'a> {
    /// Name of the parameter, unless `attr` has one.
    pub name: Option<&'a str>,
    /// How it is named, filled and trained.
    pub attr: Option<ParamAttr>,
    /// Named and filled as a bias: `b`, zeros.
    pub is_bias: bool,
    /// What fills it unless `attr` says something; zeros for a bias, else Xavier.
    pub default_initializer: Option<Initializer>,
}

/// A parameter: `create_parameter_0.w_0`.
pub fn create_parameter(
    b: &mut Builder<'_>,
    shape: &[i64],
    dtype: DType,
    options: CreateParameter<'_>,
) -> Result<Var> {
    let layer = b.layer_name("create_parameter", options.name);
    let name = options.name.map(str::to_string);
    let attr = options.attr.unwrap_or(ParamAttr { name, ..ParamAttr::default() });
    let usual = if options.is_bias { Initializer::ZERO } else { Initializer::XAVIER };
    b.parameter(&NewParam {
        layer: &layer,
        suffix: if options.is_bias { "b" } else { "w" },
        attr: &attr,
        dims: shape,
        dtype,
        default_init: options.default_initializer.unwrap_or(usual),
    })
}

/// Options of [`create_global_var`]; defaults as in `fluid.layers.create_global_var`.
#[derive(Clone, Copy, Debug, Default)]
pub struct CreateGlobalVar<'a> {
    /// It is kept between runs, and saved.
    pub persistable: bool,
    /// Changes nothing here; the program keeps it for Fluid.
    pub force_cpu: bool,
    /// Its name; a new one is made if `None`.
    pub name: Option<&'a str>,
}

/// A variable of the outermost block that the startup program fills with one value.
pub fn create_global_var(
    b: &mut Builder<'_>,
    shape: &[i64],
    value: f32,
    dtype: DType,
    options: CreateGlobalVar<'_>,
) -> Result<Var> {
    b.layer_name("global_var", options.name);
    let name = match options.name {
        Some(name) => name.to_string(),
        None => b.names.generate("_generated_var"),
    };
    let mut var = VarDesc::new(&name, Meta::dense(dtype, shape));
    var.stop_gradient = true;
    var.persistable = options.persistable;
    b.main.block_mut(0).create_var(var.clone())?;
    if b.startup.block(0).var(&name).is_none() {
        let mut op = init::op(&Initializer::Constant { value }, &var, 0)?;
        op.attrs.set("force_cpu", options.force_cpu);
        b.startup.block_mut(0).put_var(var.persistable());
        b.startup.prepend_op(0, op)?;
    }
    Ok(Var::from(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;

    #[test]
    fn names_follow_fluid() {
        let mut net = Net::default();
        let mut b = net.builder();
        let t = create_tensor(&mut b, DType::F32, None, false).unwrap();
        assert_eq!(t.name(), "create_tensor_0");
        let p = create_parameter(&mut b, &[2, 3], DType::F32, CreateParameter::default()).unwrap();
        assert_eq!(p.name(), "create_parameter_0.w_0");
        let named = CreateParameter { name: Some("pp"), is_bias: true, ..Default::default() };
        let p = create_parameter(&mut b, &[3], DType::F32, named).unwrap();
        assert_eq!(p.name(), "pp");
        let usual = CreateGlobalVar::default();
        let g = create_global_var(&mut b, &[1], 1.5, DType::F32, usual).unwrap();
        assert_eq!(g.name(), "_generated_var_0");
        let kept = CreateGlobalVar { persistable: true, name: Some("gg"), ..usual };
        let g = create_global_var(&mut b, &[1], 2.0, DType::I64, kept).unwrap();
        assert!(b.desc(&g).unwrap().persistable);
        let startup: Vec<_> = net.startup.block(0).ops.iter().map(|op| &*op.kind).collect();
        assert_eq!(startup, ["fill_constant", "fill_constant", "fill_constant", "uniform_random"]);
    }
}
