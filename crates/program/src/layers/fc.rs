//! `fc`: a fully connected layer, `act(sum of inputs x weights + bias)`.

use crate::block::OpDesc;
use crate::builder::{Builder, NewParam, Var};
use crate::error::{Error, Result};
use crate::layers::activate;
use crate::param::{Initializer, ParamAttr};

/// Options of [`fc`]; defaults as in `fluid.layers.fc`.
#[derive(Clone, Debug)]
pub struct Fc<'a> {
    /// How many dimensions are rows; -1 for all but the last.
    pub num_flatten_dims: i32,
    /// One for all inputs, or one each.
    pub param_attr: Vec<ParamAttr>,
    /// `None` for no bias.
    pub bias_attr: Option<ParamAttr>,
    /// The activation that is applied to the result.
    pub act: Option<&'a str>,
    /// Start of the names of its variables; a new one is made if `None`.
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
    let Some(first) = inputs.first() else {
        let layer = "fc";
        let argument = "input";
        let rule = "at least one variable is needed";
        return Err(Error::BadArgument { layer, argument, rule, actual: "none".to_string() });
    };
    let n_row_dims = n_row_dims(options.num_flatten_dims, b.meta(first)?.dims.len())?;
    let layer = b.layer_name("fc", options.name);
    let mut products = Vec::new();
    for (k, x) in inputs.iter().enumerate() {
        let attr = options.param_attr.get(k).or(options.param_attr.first());
        let attr = attr.cloned().unwrap_or_default();
        let meta = b.meta(x)?;
        let columns = meta.dims.get(n_row_dims..).unwrap_or(&[]).iter().product();
        let weight = NewParam {
            layer: &layer,
            suffix: "w",
            attr: &attr,
            dims: &[columns, size],
            dtype: meta.dtype,
            default_init: Initializer::XAVIER,
        };
        products.push(product(b, x, &weight, n_row_dims)?);
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
        out = add_bias(b, &layer, &out, attr, n_row_dims)?;
    }
    activate(b, &layer, out, options.act)
}

fn n_row_dims(given: i32, rank: usize) -> Result<usize> {
    let n = if given == -1 { rank as i64 - 1 } else { i64::from(given) };
    if n >= 1 && n < rank as i64 {
        return Ok(n as usize);
    }
    let (layer, argument) = ("fc", "num_flatten_dims");
    let rule = "must leave a dimension of the input on either side";
    Err(Error::BadArgument { layer, argument, rule, actual: given.to_string() })
}

fn product(b: &mut Builder<'_>, x: &Var, new: &NewParam<'_>, n_row_dims: usize) -> Result<Var> {
    let weight = b.parameter(new)?;
    let out = b.temp(new.layer, new.dtype);
    b.op(OpDesc::new("mul")
        .input("X", x)
        .input("Y", &weight)
        .output("Out", &out)
        .attr("x_num_col_dims", n_row_dims as i32)
        .attr("y_num_col_dims", 1))?;
    Ok(out)
}

/// Adds a bias along one dimension of `x`.
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
        dims: meta.dims.get(axis..=axis).unwrap_or_default(),
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
    fn rows_are_counted_from_either_end() {
        let mut net = crate::Net::default();
        let mut b = net.builder();
        let x = crate::layers::data(&mut b, "x", &[3, 4], Data::default()).unwrap();
        let of = |num_flatten_dims| Fc { num_flatten_dims, ..Fc::default() };
        let y = fc(&mut b, std::slice::from_ref(&x), 5, of(-1)).unwrap();
        assert_eq!(b.meta(&y).unwrap().dims, [-1, 3, 5]);
        for bad in [0, 3, -2] {
            let error = fc(&mut b, std::slice::from_ref(&x), 5, of(bad)).unwrap_err();
            assert!(matches!(error, Error::BadArgument { argument: "num_flatten_dims", .. }));
        }
        let error = fc(&mut b, &[], 5, of(1)).unwrap_err();
        assert!(matches!(error, Error::BadArgument { argument: "input", .. }), "{error}");
    }

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
