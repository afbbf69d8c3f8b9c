//! `dynamic_gru`, `gru_unit`, `dynamic_lstm`, `lstm_unit`: recurrent layers.

use tensor::DType;

use crate::block::OpDesc;
use crate::builder::{Builder, NewParam, Var};
use crate::error::{Error, Result};
use crate::layers::{self, Fc};
use crate::param::{Initializer, ParamAttr};

/// Options of [`dynamic_gru`]; defaults as in `fluid.layers.dynamic_gru`.
#[derive(Clone, Debug)]
pub struct DynamicGru<'a> {
    /// How the weights are named, filled and trained.
    pub param_attr: ParamAttr,
    /// `None` for no bias.
    pub bias_attr: Option<ParamAttr>,
    /// Runs from the end of each sequence.
    pub is_reverse: bool,
    /// Activation of the gates.
    pub gate_activation: &'a str,
    /// Activation of the candidate state.
    pub candidate_activation: &'a str,
    /// States before the first step, a row for each sequence; zeros if `None`.
    pub h_0: Option<Var>,
    /// The update gate keeps the old state, as in the first paper.
    pub origin_mode: bool,
}

impl Default for DynamicGru<'_> {
    fn default() -> Self {
        Self {
            param_attr: ParamAttr::default(),
            bias_attr: Some(ParamAttr::default()),
            is_reverse: false,
            gate_activation: "sigmoid",
            candidate_activation: "tanh",
            h_0: None,
            origin_mode: false,
        }
    }
}

/// The states of a gated recurrent unit of `size` along each sequence of `x`, 3 x `size` wide.
pub fn dynamic_gru(
    b: &mut Builder<'_>,
    x: &Var,
    size: i64,
    options: DynamicGru<'_>,
) -> Result<Var> {
    let layer = b.layer_name("gru", None);
    let dtype = b.meta(x)?.dtype;
    let weight = weight(b, &layer, &options.param_attr, &[size, size.saturating_mul(3)], dtype)?;
    let mut op = OpDesc::new("gru").input("Input", x).input("Weight", &weight);
    if let Some(attr) = &options.bias_attr {
        op = op.input("Bias", &bias(b, &layer, attr, &[1, size.saturating_mul(3)], dtype)?);
    }
    if let Some(h_0) = &options.h_0 {
        op = op.input("H0", h_0);
    }
    let hidden = b.temp(&layer, dtype);
    for port in ["BatchGate", "BatchResetHiddenPrev", "BatchHidden"] {
        op = op.output(port, &b.temp(&layer, dtype));
    }
    b.op(op
        .output("Hidden", &hidden)
        .attr("is_reverse", options.is_reverse)
        .attr("gate_activation", options.gate_activation)
        .attr("activation", options.candidate_activation)
        .attr("origin_mode", options.origin_mode))?;
    Ok(hidden)
}

fn weight(
    b: &mut Builder<'_>,
    layer: &str,
    attr: &ParamAttr,
    dims: &[i64],
    dtype: DType,
) -> Result<Var> {
    let default_init = Initializer::XAVIER;
    b.parameter(&NewParam { layer, suffix: "w", attr, dims, dtype, default_init })
}

fn bias(
    b: &mut Builder<'_>,
    layer: &str,
    attr: &ParamAttr,
    dims: &[i64],
    dtype: DType,
) -> Result<Var> {
    let default_init = Initializer::ZERO;
    b.parameter(&NewParam { layer, suffix: "b", attr, dims, dtype, default_init })
}

/// Options of [`gru_unit`]; defaults as in `fluid.layers.gru_unit`.
#[derive(Clone, Debug)]
pub struct GruUnit<'a> {
    /// How the weights are named, filled and trained.
    pub param_attr: ParamAttr,
    /// `None` for no bias.
    pub bias_attr: Option<ParamAttr>,
    /// Activation of the candidate state.
    pub activation: &'a str,
    /// Activation of the gates.
    pub gate_activation: &'a str,
    /// The update gate keeps the old state, as in the first paper.
    pub origin_mode: bool,
}

impl Default for GruUnit<'_> {
    fn default() -> Self {
        Self {
            param_attr: ParamAttr::default(),
            bias_attr: Some(ParamAttr::default()),
            activation: "tanh",
            gate_activation: "sigmoid",
            origin_mode: false,
        }
    }
}

/// What [`gru_unit`] returns, in Fluid's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GruStep {
    /// The new state.
    pub hidden: Var,
    /// The old state times the reset gate.
    pub reset_hidden_prev: Var,
    /// The gates and the candidate state.
    pub gate: Var,
}

/// One step of a gated recurrent unit; `size` is three times that of a state.
pub fn gru_unit(
    b: &mut Builder<'_>,
    x: &Var,
    hidden_prev: &Var,
    size: i64,
    options: GruUnit<'_>,
) -> Result<GruStep> {
    let layer = b.layer_name("gru_unit", None);
    let (dtype, size) = (b.meta(x)?.dtype, size / 3);
    let weight = weight(b, &layer, &options.param_attr, &[size, size.saturating_mul(3)], dtype)?;
    let [gate, reset_hidden_prev, hidden] = [(); 3].map(|()| b.temp(&layer, dtype));
    let mut op = OpDesc::new("gru_unit").input("Input", x).input("HiddenPrev", hidden_prev);
    op = op.input("Weight", &weight);
    if let Some(attr) = &options.bias_attr {
        op = op.input("Bias", &bias(b, &layer, attr, &[1, size.saturating_mul(3)], dtype)?);
    }
    b.op(op
        .output("Gate", &gate)
        .output("ResetHiddenPrev", &reset_hidden_prev)
        .output("Hidden", &hidden)
        .attr("activation", activation("activation", options.activation)?)
        .attr("gate_activation", activation("gate_activation", options.gate_activation)?)
        .attr("origin_mode", options.origin_mode))?;
    Ok(GruStep { hidden, reset_hidden_prev, gate })
}

/// The number by which `gru_unit` knows an activation.
fn activation(argument: &'static str, name: &str) -> Result<i32> {
    const NAMES: [&str; 4] = ["identity", "sigmoid", "tanh", "relu"];
    let number = NAMES.iter().position(|&known| known == name);
    number.map(|number| number as i32).ok_or_else(|| Error::BadArgument {
        layer: "gru_unit",
        argument,
        rule: "must be identity, sigmoid, tanh or relu",
        actual: name.to_string(),
    })
}

/// Options of [`dynamic_lstm`]; defaults as in `fluid.layers.dynamic_lstm`.
#[derive(Clone, Debug)]
pub struct DynamicLstm<'a> {
    /// States before the first step, a row for each sequence; zeros if `None`.
    pub h_0: Option<Var>,
    /// Cells before the first step; given together with `h_0`.
    pub c_0: Option<Var>,
    /// How the weights are named, filled and trained.
    pub param_attr: ParamAttr,
    /// How the bias is named, filled and trained.
    pub bias_attr: ParamAttr,
    /// Gates see the cell.
    pub use_peepholes: bool,
    /// Runs from the end of each sequence.
    pub is_reverse: bool,
    /// Activation of the gates.
    pub gate_activation: &'a str,
    /// Activation of the cell.
    pub cell_activation: &'a str,
    /// Activation of the candidate.
    pub candidate_activation: &'a str,
    /// Element type.
    pub dtype: DType,
    /// Start of the names of its variables; a new one is made if `None`.
    pub name: Option<&'a str>,
}

impl Default for DynamicLstm<'_> {
    fn default() -> Self {
        Self {
            h_0: None,
            c_0: None,
            param_attr: ParamAttr::default(),
            bias_attr: ParamAttr::default(),
            use_peepholes: true,
            is_reverse: false,
            gate_activation: "sigmoid",
            cell_activation: "tanh",
            candidate_activation: "tanh",
            dtype: DType::F32,
            name: None,
        }
    }
}

/// States and cells of a long short-term memory along each sequence of `x`; `size` is the width of
/// `x`, four times that of a state.
pub fn dynamic_lstm(
    b: &mut Builder<'_>,
    x: &Var,
    size: i64,
    options: DynamicLstm<'_>,
) -> Result<(Var, Var)> {
    let layer = b.layer_name("lstm", options.name);
    let (d, dtype) = (size / 4, options.dtype);
    let weight = weight(b, &layer, &options.param_attr, &[d, d.saturating_mul(4)], dtype)?;
    let width = d.saturating_mul(if options.use_peepholes { 7 } else { 4 });
    let bias = bias(b, &layer, &options.bias_attr, &[1, width], dtype)?;
    let [hidden, cell, gate, pre_act] = [(); 4].map(|()| b.temp(&layer, dtype));
    let mut op = OpDesc::new("lstm").input("Input", x).input("Weight", &weight);
    op = op.input("Bias", &bias);
    for (port, state) in [("H0", &options.h_0), ("C0", &options.c_0)] {
        if let Some(state) = state {
            op = op.input(port, state);
        }
    }
    b.op(op
        .output("Hidden", &hidden)
        .output("Cell", &cell)
        .output("BatchGate", &gate)
        .output("BatchCellPreAct", &pre_act)
        .attr("use_peepholes", options.use_peepholes)
        .attr("is_reverse", options.is_reverse)
        .attr("gate_activation", options.gate_activation)
        .attr("cell_activation", options.cell_activation)
        .attr("candidate_activation", options.candidate_activation))?;
    Ok((hidden, cell))
}

/// Options of [`lstm_unit`]; defaults as in `fluid.layers.lstm_unit`.
#[derive(Clone, Debug)]
pub struct LstmUnit<'a> {
    /// Added to the forget gate.
    pub forget_bias: f32,
    /// How the weights are named, filled and trained.
    pub param_attr: ParamAttr,
    /// `None` for no bias.
    pub bias_attr: Option<ParamAttr>,
    /// Start of the names of its variables; a new one is made if `None`.
    pub name: Option<&'a str>,
}

impl Default for LstmUnit<'_> {
    fn default() -> Self {
        Self {
            forget_bias: 0.0,
            param_attr: ParamAttr::default(),
            bias_attr: Some(ParamAttr::default()),
            name: None,
        }
    }
}

/// One step of a long short-term memory over a fully connected layer: the new (hidden, cell).
pub fn lstm_unit(
    b: &mut Builder<'_>,
    x: &Var,
    hidden_prev: &Var,
    cell_prev: &Var,
    options: LstmUnit<'_>,
) -> Result<(Var, Var)> {
    let layer = b.layer_name("lstm_unit", options.name);
    let cell_meta = b.meta(cell_prev)?;
    let joined = {
        let concat = b.layer_name("concat", None);
        let out = b.temp(&concat, b.meta(x)?.dtype);
        let inputs = [x.clone(), hidden_prev.clone()];
        b.op(OpDesc::new("concat").input("X", &inputs[..]).output("Out", &out).attr("axis", 1))?;
        out
    };
    let size = cell_meta.dims.get(1).copied().unwrap_or(-1);
    let fc =
        Fc { param_attr: vec![options.param_attr], bias_attr: options.bias_attr, ..Fc::default() };
    let gates = layers::fc(b, &[joined], 4 * size, fc)?;
    let [cell, hidden] = [(); 2].map(|()| b.temp(&layer, cell_meta.dtype));
    b.op(OpDesc::new("lstm_unit")
        .input("X", &gates)
        .input("C_prev", cell_prev)
        .output("C", &cell)
        .output("H", &hidden)
        .attr("forget_bias", options.forget_bias))?;
    Ok((hidden, cell))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;
    use crate::layers::Data;

    fn input(b: &mut Builder<'_>, name: &str, width: i64, lod_level: i32) -> Var {
        layers::data(b, name, &[width], Data { lod_level, ..Data::default() }).unwrap()
    }

    fn params(net: &Net) -> Vec<(String, Vec<i64>)> {
        net.main.parameters().map(|p| (p.name.clone(), p.meta.dims.clone())).collect()
    }

    /// Names and shapes as Fluid 1.8.5 printed them for the same calls.
    #[test]
    fn gru_layers_follow_fluid() {
        let mut net = Net::default();
        let mut b = net.builder();
        let (x, h) = (input(&mut b, "x", 9, 1), input(&mut b, "h", 3, 0));
        let hidden = dynamic_gru(&mut b, &x, 3, DynamicGru::default()).unwrap();
        assert_eq!(hidden.name(), "gru_0.tmp_0");
        let meta = b.meta(&hidden).unwrap();
        assert_eq!((meta.dims, meta.lod_level), (vec![-1, 3], 1));
        let step = gru_unit(&mut b, &x, &h, 9, GruUnit::default()).unwrap();
        assert_eq!(step.hidden.name(), "gru_unit_0.tmp_2");
        assert_eq!(step.gate.name(), "gru_unit_0.tmp_0");
        let expected = [
            ("gru_0.w_0".to_string(), vec![3, 9]),
            ("gru_0.b_0".to_string(), vec![1, 9]),
            ("gru_unit_0.w_0".to_string(), vec![3, 9]),
            ("gru_unit_0.b_0".to_string(), vec![1, 9]),
        ];
        assert_eq!(params(&net), expected);
        let options = GruUnit { activation: "swish", ..GruUnit::default() };
        let error = gru_unit(&mut net.builder(), &x, &h, 9, options).unwrap_err();
        assert!(matches!(error, Error::BadArgument { argument: "activation", .. }), "{error}");
    }

    #[test]
    fn lstm_layers_follow_fluid() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = input(&mut b, "x", 12, 1);
        let (hidden, cell) = dynamic_lstm(&mut b, &x, 12, DynamicLstm::default()).unwrap();
        assert_eq!((hidden.name(), cell.name()), ("lstm_0.tmp_0", "lstm_0.tmp_1"));
        let plain = DynamicLstm { use_peepholes: false, ..DynamicLstm::default() };
        dynamic_lstm(&mut b, &x, 12, plain).unwrap();
        let [x, h, c] = ["x_t", "h", "c"].map(|name| input(&mut b, name, 3, 0));
        let (hidden, cell) = lstm_unit(&mut b, &x, &h, &c, LstmUnit::default()).unwrap();
        assert_eq!((hidden.name(), cell.name()), ("lstm_unit_0.tmp_1", "lstm_unit_0.tmp_0"));
        assert_eq!(b.meta(&hidden).unwrap().dims, [-1, 3]);
        let expected = [
            ("lstm_0.w_0".to_string(), vec![3, 12]),
            ("lstm_0.b_0".to_string(), vec![1, 21]),
            ("lstm_1.w_0".to_string(), vec![3, 12]),
            ("lstm_1.b_0".to_string(), vec![1, 12]),
            ("fc_0.w_0".to_string(), vec![6, 12]),
            ("fc_0.b_0".to_string(), vec![12]),
        ];
        assert_eq!(params(&net), expected);
    }
}
