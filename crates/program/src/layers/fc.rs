//! `fc`: a fully connected layer, `act(sum of inputs x weights + bias)`.

use crate::block::OpDesc;
use crate::builder::{Builder, NewParam, Var};
use crate::error::Result;
use crate::layers::activate;
use crate::param::{Initializer, ParamAttr};

/// Options of [`fc`]; defaults as in `fluid.layers.fc`.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // The names are Fluid's.
pub struct Fc<'a> {
    pub num_flatten_dims: usize,
    /// One for all inputs, or one each.
    pub param_attr: Vec<ParamAttr>,
    /// `None` for no bias.
    pub bias_attr: Option<ParamAttr>,
    pub act: Option<&'a str>,
    pub name: Option<&'a str>,
}

impl Default for Fc<'_> {
    fn default() -> Self {
        Self {
            num_flatten_dims: 1,
            param_attr: vec![ParamAttr::default()],
            bias_attr: Some(ParamAttr::default()),
            act: None,
            name: None,
        }
    }
}

/// `act(sum of inputs x weights + bias)`, `size` columns wide; one weight per input.
pub fn fc(b: &mut Builder<'_>, inputs: &[Var], size: i64, options: Fc<'_>) -> Result<Var> {
    let layer = b.layer_name("fc", options.name);
    let mut products = Vec::new();
    for (k, x) in inputs.iter().enumerate() {
        let attr = options.param_attr.get(k).or(options.param_attr.first());
        let attr = attr.cloned().unwrap_or_default();
        products.push(product(b, &layer, x, &attr, (size, options.num_flatten_dims))?);
    }
    let mut out = match products.as_slice() {
        [one] => one.clone(),
        several => {
            let sum = b.temp(&layer, b.meta(&several[0])?.dtype);
            b.op(OpDesc::new("sum").input("X", several).output("Out", &sum))?;
            sum
        }
    };
    if let Some(attr) = &options.bias_attr {
        out = add_bias(b, &layer, &out, attr, options.num_flatten_dims)?;
    }
    activate(b, &layer, out, options.act)
}

fn product(
    b: &mut Builder<'_>,
    layer: &str,
    x: &Var,
    attr: &ParamAttr,
    (size, n_row_dims): (i64, usize),
) -> Result<Var> {
    let meta = b.meta(x)?;
    let columns = meta.dims.get(n_row_dims..).unwrap_or(&[]).iter().product();
    let weight = b.parameter(&NewParam {
        layer,
        suffix: "w",
        attr,
        dims: &[columns, size],
        dtype: meta.dtype,
        default_init: Initializer::XAVIER,
    })?;
    let out = b.temp(layer, meta.dtype);
    b.op(OpDesc::new("mul")
        .input("X", x)
        .input("Y", &weight)
        .output("Out", &out)
        .attr("x_num_col_dims", n_row_dims as i32)
        .attr("y_num_col_dims", 1))?;
    Ok(out)
}

/// Adds a bias as wide as the dimensions of `x` from `axis` on.
pub(crate) fn add_bias(
    b: &mut Builder<'_>,
    layer: &str,
    x: &Var,
    attr: &ParamAttr,
    axis: usize,
) -> Result<Var> {
    let meta = b.meta(x)?;
    let bias = b.parameter(&NewParam {
        layer,
        suffix: "b",
        attr,
        dims: &meta.dims[axis..],
        dtype: meta.dtype,
        default_init: Initializer::ZERO,
    })?;
    let out = b.temp(layer, meta.dtype);
    let op = OpDesc::new("elementwise_add").input("X", x).input("Y", &bias);
    b.op(op.output("Out", &out).attr("axis", axis as i32))?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;
    use crate::layers::{self, Data};

    #[test]
    fn names_follow_fluid() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[13], Data::default()).unwrap();
        let y = fc(&mut b, &[x], 4, Fc { act: Some("relu"), ..Fc::default() }).unwrap();
        assert_eq!(y.name(), "fc_0.tmp_2");
        assert_eq!(b.meta(&y).unwrap().dims, [-1, 4]);
        let params: Vec<_> = net.main.parameters().map(|p| (&*p.name, &*p.meta.dims)).collect();
        assert_eq!(params, [("fc_0.w_0", &[13i64, 4] as &[i64]), ("fc_0.b_0", &[4])]);
        let startup: Vec<_> = net.startup.block(0).ops.iter().map(|op| &*op.kind).collect();
        assert_eq!(startup, ["fill_constant", "uniform_random"], "last parameter first");
    }
}
