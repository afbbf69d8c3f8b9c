//! `prelu`: x above 0, else x times a learned number.

use super::append;
use crate::block::OpDesc;
use crate::builder::{Builder, NewParam, Var};
use crate::error::{Error, Result};
use crate::param::{Initializer, ParamAttr};

/// How many numbers [`prelu`] learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreluMode {
    /// One for all.
    All,
    /// One per channel, the second dimension.
    Channel,
    /// One per element of an example.
    Element,
}

impl PreluMode {
    /// As the op spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            PreluMode::All => "all",
            PreluMode::Channel => "channel",
            PreluMode::Element => "element",
        }
    }
}

/// Options of [`prelu`]; defaults as in `fluid.layers.prelu`.
#[derive(Clone, Debug, Default)]
pub struct Prelu<'a> {
    /// How the slopes are named, filled and trained.
    pub param_attr: ParamAttr,
    /// Start of the names of its variables; a new one is made if `None`.
    pub name: Option<&'a str>,
}

/// x above 0, else x times a learned number, which starts at 0.25.
pub fn prelu(b: &mut Builder<'_>, x: &Var, mode: PreluMode, options: Prelu<'_>) -> Result<Var> {
    let layer = b.layer_name("prelu", options.name);
    let meta = b.meta(x)?;
    let dims = match (mode, &*meta.dims) {
        (PreluMode::All, _) => vec![1],
        (PreluMode::Channel, &[_, channels, ..]) => vec![1, channels, 1, 1],
        (PreluMode::Element, [_, rest @ ..]) if !rest.is_empty() => [&[1], rest].concat(),
        _ => {
            let rule = "this mode of prelu needs two dimensions or more";
            return Err(Error::Shape { rule, var: x.name().to_string(), dims: meta.dims });
        }
    };
    let alpha = b.parameter(&NewParam {
        layer: &layer,
        suffix: "w",
        attr: &options.param_attr,
        dims: &dims,
        dtype: meta.dtype,
        default_init: Initializer::Constant { value: 0.25 },
    })?;
    append(b, &layer, x, OpDesc::new("prelu").input("Alpha", &alpha).attr("mode", mode.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;
    use crate::layers::{self, Data};

    #[test]
    fn the_parameter_has_the_modes_shape() {
        let shape = |mode| {
            let mut net = Net::default();
            let mut b = net.builder();
            let x = layers::data(&mut b, "x", &[3, 2, 2], Data::default()).unwrap();
            let y = prelu(&mut b, &x, mode, Prelu::default()).unwrap();
            assert_eq!(y.name(), "prelu_0.tmp_0");
            b.meta(&Var::from("prelu_0.w_0")).unwrap().dims
        };
        assert_eq!(shape(PreluMode::All), [1]);
        assert_eq!(shape(PreluMode::Channel), [1, 3, 1, 1]);
        assert_eq!(shape(PreluMode::Element), [1, 3, 2, 2]);
    }

    #[test]
    fn refuses_a_mode_without_a_dimension_for_it() {
        let mut net = Net::default();
        let mut b = net.builder();
        let data = Data { append_batch_size: false, ..Data::default() };
        let x = layers::data(&mut b, "x", &[3], data).unwrap();
        for mode in [PreluMode::Channel, PreluMode::Element] {
            let error = prelu(&mut b, &x, mode, Prelu::default()).unwrap_err();
            assert!(matches!(error, Error::Shape { .. }), "{error}");
        }
    }
}
