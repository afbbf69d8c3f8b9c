//! `linear_chain_crf`, `crf_decoding`: tagging with a conditional random field.

use tensor::DType;

use crate::block::OpDesc;
use crate::builder::{Builder, NewParam, Var};
use crate::error::{Error, Result};
use crate::param::{Initializer, ParamAttr};

/// The cost of the labelled tags of each chain; `length` tells that chains are padded.
pub fn linear_chain_crf(
    b: &mut Builder<'_>,
    x: &Var,
    label: &Var,
    param_attr: &ParamAttr,
    length: Option<&Var>,
) -> Result<Var> {
    let layer = b.layer_name("linear_chain_crf", None);
    let meta = b.meta(x)?;
    let n_tags = meta.dims.get(if length.is_some() { 2 } else { 1 }).copied().unwrap_or(-1);
    let transition = b.parameter(&NewParam {
        layer: &layer,
        suffix: "w",
        attr: param_attr,
        dims: &[n_tags + 2, n_tags],
        dtype: meta.dtype,
        default_init: Initializer::XAVIER,
    })?;
    let mut op = OpDesc::new("linear_chain_crf").input("Emission", x);
    op = op.input("Transition", &transition).input("Label", label);
    if let Some(length) = length {
        op = op.input("Length", length);
    }
    let [alpha, exps, weights, cost] = [(); 4].map(|()| b.temp(&layer, meta.dtype));
    b.op(op
        .output("Alpha", &alpha)
        .output("EmissionExps", &exps)
        .output("TransitionExps", &weights)
        .output("LogLikelihood", &cost))?;
    Ok(cost)
}

/// The best tags of each chain, or whether they are the labelled ones; `param_attr` names the
/// parameter that [`linear_chain_crf`] learns.
pub fn crf_decoding(
    b: &mut Builder<'_>,
    x: &Var,
    param_attr: &ParamAttr,
    label: Option<&Var>,
    length: Option<&Var>,
) -> Result<Var> {
    let layer = b.layer_name("crf_decoding", None);
    let name = param_attr.name.as_deref().ok_or_else(|| Error::BadArgument {
        layer: "crf_decoding",
        argument: "param_attr",
        rule: "must name the parameter of linear_chain_crf",
        actual: "no name".to_string(),
    })?;
    b.main.need_var(0, name)?;
    let out = b.temp(&layer, DType::I64);
    let mut op = OpDesc::new("crf_decoding").input("Emission", x).input("Transition", name);
    for (port, var) in [("Label", label), ("Length", length)] {
        if let Some(var) = var {
            op = op.input(port, var);
        }
    }
    b.op(op.output("ViterbiPath", &out))?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;
    use crate::layers::{self, Data};

    /// Names and shapes as Fluid 1.8.5 printed them for the same calls.
    #[test]
    fn names_and_shapes_follow_fluid() {
        let mut net = Net::default();
        let mut b = net.builder();
        let data = Data { lod_level: 1, ..Data::default() };
        let x = layers::data(&mut b, "x", &[3], data.clone()).unwrap();
        let ids = Data { dtype: DType::I64, ..data };
        let label = layers::data(&mut b, "label", &[1], ids).unwrap();
        let attr = ParamAttr::named("crfw");
        let cost = linear_chain_crf(&mut b, &x, &label, &attr, None).unwrap();
        assert_eq!(cost.name(), "linear_chain_crf_0.tmp_3");
        assert_eq!(b.meta(&cost).unwrap().dims, [-1, 1]);
        let path = crf_decoding(&mut b, &x, &attr, Some(&label), None).unwrap();
        let meta = b.meta(&path).unwrap();
        assert_eq!((path.name(), meta.dims), ("crf_decoding_0.tmp_0", vec![-1, 1]));
        assert_eq!((meta.dtype, meta.lod_level), (DType::I64, 1));
        let params: Vec<_> = b.main.parameters().map(|p| (&*p.name, &*p.meta.dims)).collect();
        assert_eq!(params, [("crfw", &[5i64, 3] as &[i64])]);
        let error = crf_decoding(&mut b, &x, &ParamAttr::default(), None, None).unwrap_err();
        assert!(matches!(error, Error::BadArgument { .. }), "{error}");
    }
}
