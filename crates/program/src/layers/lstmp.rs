//! `dynamic_lstmp`: a long short-term memory whose state is projected to another size.

use tensor::DType;

use crate::block::OpDesc;
use crate::builder::{Builder, NewParam, Var};
use crate::error::{Error, Result};
use crate::param::{Initializer, ParamAttr};

/// Options of [`dynamic_lstmp`]; defaults as in `fluid.layers.dynamic_lstmp`.
#[derive(Clone, Debug)]
pub struct DynamicLstmp<'a> {
    /// The size of a projection.
    pub proj_size: i64,
    /// How both weights are named, filled and trained.
    pub param_attr: ParamAttr,
    /// Must be there.
    pub bias_attr: Option<ParamAttr>,
    /// Gates see the cell.
    pub use_peepholes: bool,
    /// Runs from the end of each sequence.
    pub is_reverse: bool,
    /// Activations of gates, cell, candidate and projection.
    pub activations: [&'a str; 4],
    /// Element type of the weights.
    pub dtype: DType,
    /// Start of the names of its variables; a new one is made if `None`.
    pub name: Option<&'a str>,
    /// Projections before the first step, a row for each sequence.
    pub h_0: Option<&'a Var>,
    /// Cells before the first step.
    pub c_0: Option<&'a Var>,
    /// Cells stay between this and its negative.
    pub cell_clip: Option<f32>,
    /// Projections stay between this and its negative.
    pub proj_clip: Option<f32>,
}

/// Projections and cells along each sequence of `x`, which is `size` wide: four times a state.
pub fn dynamic_lstmp(
    b: &mut Builder<'_>,
    x: &Var,
    size: i64,
    options: DynamicLstmp<'_>,
) -> Result<(Var, Var)> {
    let bad = |argument, rule, actual: String| {
        Err(Error::BadArgument { layer: "dynamic_lstmp", argument, rule, actual })
    };
    let Some(bias_attr) = &options.bias_attr else {
        return bad(
            "bias_attr",
            "bias_attr should not be False in dynamic_lstmp.",
            "False".to_string(),
        );
    };
    for (argument, clip) in [("cell_clip", options.cell_clip), ("proj_clip", options.proj_clip)] {
        if let Some(clip) = clip.filter(|clip| *clip < 0.0) {
            return bad(argument, "should not be negative", clip.to_string());
        }
    }
    let layer = b.layer_name("lstmp", options.name);
    let (size, dtype) = (size / 4, options.dtype);
    let parameter = |b: &mut Builder<'_>, suffix, attr: &ParamAttr, dims: [i64; 2]| {
        let default_init = if suffix == "w" { Initializer::XAVIER } else { Initializer::ZERO };
        b.parameter(&NewParam { layer: &layer, suffix, attr, dims: &dims, dtype, default_init })
    };
    let weight = parameter(b, "w", &options.param_attr, [options.proj_size, 4 * size])?;
    let projection = parameter(b, "w", &options.param_attr, [size, options.proj_size])?;
    let n_biases = if options.use_peepholes { 7 } else { 4 };
    let bias = parameter(b, "b", bias_attr, [1, n_biases * size])?;
    let mut op = OpDesc::new("lstmp").input("Input", x).input("Weight", &weight);
    op = op.input("ProjWeight", &projection).input("Bias", &bias);
    for (port, state) in [("H0", options.h_0), ("C0", options.c_0)] {
        if let Some(state) = state {
            op = op.input(port, state);
        }
    }
    let [out, cell] = [(); 2].map(|()| b.temp(&layer, dtype));
    // Fluid makes one variable that it does not use.
    b.temp(&layer, dtype);
    for port in ["BatchHidden", "BatchGate", "BatchCellPreAct"] {
        op = op.output(port, &b.temp(&layer, dtype));
    }
    let [gate, cell_act, candidate, proj] = options.activations;
    b.op(op
        .output("Projection", &out)
        .output("Cell", &cell)
        .attr("use_peepholes", options.use_peepholes)
        .attr("cell_clip", options.cell_clip.unwrap_or(0.0))
        .attr("proj_clip", options.proj_clip.unwrap_or(0.0))
        .attr("is_reverse", options.is_reverse)
        .attr("gate_activation", gate)
        .attr("cell_activation", cell_act)
        .attr("candidate_activation", candidate)
        .attr("proj_activation", proj))?;
    Ok((out, cell))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;
    use crate::layers::{self, Data};

    fn options() -> DynamicLstmp<'static> {
        DynamicLstmp {
            proj_size: 5,
            param_attr: ParamAttr::default(),
            bias_attr: Some(ParamAttr::default()),
            use_peepholes: true,
            is_reverse: false,
            activations: ["sigmoid", "tanh", "tanh", "tanh"],
            dtype: DType::F32,
            name: None,
            h_0: None,
            c_0: None,
            cell_clip: None,
            proj_clip: None,
        }
    }

    #[test]
    fn names_and_shapes_follow_fluid() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[12], Data { lod_level: 1, ..Data::default() }).unwrap();
        let (out, cell) = dynamic_lstmp(&mut b, &x, 12, options()).unwrap();
        assert_eq!((out.name(), cell.name()), ("lstmp_0.tmp_0", "lstmp_0.tmp_1"));
        let dims = [b.meta(&out).unwrap().dims, b.meta(&cell).unwrap().dims];
        assert_eq!(dims, [[-1, 5], [-1, 3]]);
        let params: Vec<_> = b.main.parameters().map(|p| (&*p.name, &*p.meta.dims)).collect();
        let expected: [(&str, &[i64]); 3] =
            [("lstmp_0.w_0", &[5, 12]), ("lstmp_0.w_1", &[3, 5]), ("lstmp_0.b_0", &[1, 21])];
        assert_eq!(params, expected);
    }

    #[test]
    fn refuses_no_bias_and_negative_clips() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[12], Data { lod_level: 1, ..Data::default() }).unwrap();
        for options in [
            DynamicLstmp { bias_attr: None, ..options() },
            DynamicLstmp { proj_clip: Some(-1.0), ..options() },
        ] {
            let error = dynamic_lstmp(&mut b, &x, 12, options).unwrap_err();
            assert!(matches!(error, Error::BadArgument { layer: "dynamic_lstmp", .. }), "{error}");
        }
    }
}
