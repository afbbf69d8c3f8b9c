//! `nce`, `hsigmoid`, `center_loss`: losses over many classes, which learn weights of their own.

use std::collections::VecDeque;

use tensor::{DType, Tensor};

use super::math::{Operator, binary};
use crate::block::OpDesc;
use crate::builder::{Builder, NewParam, Var};
use crate::error::{Error, Result};
use crate::param::{Initializer, ParamAttr};
use crate::var::Meta;

/// How [`nce`] draws classes.
#[derive(Clone, Debug, PartialEq)]
pub enum NceSampler {
    /// Each is equally likely.
    Uniform,
    /// The lower the number, the likelier.
    LogUniform,
    /// Each with its own probability.
    Custom(Vec<f64>),
}

/// Options of [`nce`]; defaults as in `fluid.layers.nce`.
#[derive(Clone, Debug)]
pub struct Nce<'a> {
    /// A weight for each row.
    pub sample_weight: Option<&'a Var>,
    /// How the weights are named, filled and trained.
    pub param_attr: ParamAttr,
    /// `None` for no bias.
    pub bias_attr: Option<ParamAttr>,
    /// How many classes are drawn for each row.
    pub num_neg_samples: i32,
    /// Start of the names of its variables; a new one is made if `None`.
    pub name: Option<&'a str>,
    /// How classes are drawn.
    pub sampler: NceSampler,
    /// What drawing starts from; 0 for another number each time.
    pub seed: i32,
    /// Gradients of the weights are the rows of the classes.
    pub is_sparse: bool,
}

impl Default for Nce<'_> {
    fn default() -> Self {
        Self {
            sample_weight: None,
            param_attr: ParamAttr::default(),
            bias_attr: Some(ParamAttr::default()),
            num_neg_samples: 10,
            name: None,
            sampler: NceSampler::Uniform,
            seed: 0,
            is_sparse: false,
        }
    }
}

/// The cost of noise-contrastive estimation per row, divided by the number of classes looked at.
pub fn nce(
    b: &mut Builder<'_>,
    input: &Var,
    label: &Var,
    num_total_classes: i32,
    options: Nce<'_>,
) -> Result<Var> {
    let layer = b.layer_name("nce", options.name);
    let meta = b.meta(input)?;
    let n = i64::from(num_total_classes);
    let width = meta.dims.get(1).copied().unwrap_or(-1);
    let weights = NewClasses { layer: &layer, dtype: meta.dtype };
    let weight = weights.weight(b, &options.param_attr, &[n, width])?;
    let mut op =
        OpDesc::new("nce").input("Input", input).input("Label", label).input("Weight", &weight);
    if let Some(attr) = &options.bias_attr {
        op = op.input("Bias", &weights.bias(b, attr, &[n, 1])?);
    }
    if let Some(weight) = options.sample_weight {
        op = op.input("SampleWeight", weight);
    }
    let [cost, logits, labels] =
        [meta.dtype, meta.dtype, DType::I64].map(|dtype| b.temp(&layer, dtype));
    let number = match &options.sampler {
        NceSampler::Uniform => 0,
        NceSampler::LogUniform => 1,
        NceSampler::Custom(probabilities) => {
            op = with_table(b, &layer, op, probabilities, num_total_classes)?;
            2
        }
    };
    b.op(op
        .output("Cost", &cost)
        .output("SampleLogits", &logits)
        .output("SampleLabels", &labels)
        .attr("num_total_classes", num_total_classes)
        .attr("num_neg_samples", options.num_neg_samples)
        .attr("seed", options.seed)
        .attr("sampler", number)
        .attr("is_sparse", options.is_sparse)
        .attr("remote_prefetch", options.is_sparse))?;
    binary(b, &cost, Operator::Div, f64::from(options.num_neg_samples) + 1.0)
}

/// Attaches a table for the alias method.
fn with_table(
    b: &mut Builder<'_>,
    layer: &str,
    op: OpDesc,
    probabilities: &[f64],
    n_classes: i32,
) -> Result<OpDesc> {
    let n = n_classes.max(0) as usize;
    if probabilities.len() < n || n == 0 {
        let (layer, argument) = ("nce", "custom_dist");
        let actual = format!("{} numbers", probabilities.len());
        return Err(Error::BadArgument {
            layer,
            argument,
            rule: "has a probability for each class",
            actual,
        });
    }
    let AliasTable { shares, aliases } = AliasTable::new(&probabilities[..n]);
    let floats: Vec<f32> = probabilities[..n].iter().map(|&p| p as f32).collect();
    let tables = [
        ("CustomDistProbs", Tensor::new([n], &floats)?),
        ("CustomDistAlias", Tensor::new([n], &aliases)?),
        ("CustomDistAliasProbs", Tensor::new([n], &shares)?),
    ];
    let mut op = op;
    for (port, table) in tables {
        let (dtype, attr) = (table.dtype(), ParamAttr::default());
        let dims = [n as i64];
        let default_init = Initializer::Array(table);
        let var = b.parameter(&NewParam {
            layer,
            suffix: "w",
            attr: &attr,
            dims: &dims,
            dtype,
            default_init,
        })?;
        if let Some(desc) = b.main.block_mut(0).var_mut(var.name()) {
            desc.stop_gradient = true;
        }
        op = op.input(port, &var);
    }
    Ok(op)
}

/// Each class shares its slot with one other.
struct AliasTable {
    shares: Vec<f32>,
    /// -1 for none.
    aliases: Vec<i32>,
}

/// Classes that wait for a partner, with what they have too much or too little.
#[derive(Default)]
struct Unmatched {
    high: VecDeque<(usize, f64)>,
    low: VecDeque<(usize, f64)>,
}

impl AliasTable {
    fn new(probabilities: &[f64]) -> Self {
        let n = probabilities.len();
        let mut table = Self { shares: vec![0.0; n], aliases: vec![0; n] };
        let mut waiting = Unmatched::default();
        for (class, p) in probabilities.iter().enumerate() {
            table.place(&mut waiting, class, p * n as f64);
        }
        while !waiting.high.is_empty() && !waiting.low.is_empty() {
            let pair = waiting.high.pop_front().zip(waiting.low.pop_front());
            let Some(((big, much), (small, little))) = pair else { break };
            table.shares[small] = little as f32;
            table.aliases[small] = big as i32;
            table.place(&mut waiting, big, much + little - 1.0);
        }
        // Rounding leaves one over; its slot is its own.
        for left in [waiting.high.pop_front(), waiting.low.pop_front()].into_iter().flatten() {
            table.shares[left.0] = 1.0;
            table.aliases[left.0] = -1;
        }
        table
    }

    fn place(&mut self, waiting: &mut Unmatched, class: usize, share: f64) {
        if share > 1.0 {
            waiting.high.push_back((class, share));
        } else if share < 1.0 {
            waiting.low.push_back((class, share));
        } else {
            self.shares[class] = share as f32;
            self.aliases[class] = -1;
        }
    }
}

/// Parameters with a row for each class.
struct NewClasses<'a> {
    layer: &'a str,
    dtype: DType,
}

impl NewClasses<'_> {
    fn weight(&self, b: &mut Builder<'_>, attr: &ParamAttr, dims: &[i64]) -> Result<Var> {
        let &Self { layer, dtype } = self;
        let default_init = Initializer::XAVIER;
        b.parameter(&NewParam { layer, suffix: "w", attr, dims, dtype, default_init })
    }

    fn bias(&self, b: &mut Builder<'_>, attr: &ParamAttr, dims: &[i64]) -> Result<Var> {
        let &Self { layer, dtype } = self;
        let default_init = Initializer::ZERO;
        b.parameter(&NewParam { layer, suffix: "b", attr, dims, dtype, default_init })
    }
}

/// Options of [`hsigmoid`]; defaults as in `fluid.layers.hsigmoid`.
#[derive(Clone, Debug)]
pub struct HSigmoid<'a> {
    /// How the weights are named, filled and trained.
    pub param_attr: ParamAttr,
    /// `None` for no bias.
    pub bias_attr: Option<ParamAttr>,
    /// Start of the names of its variables; a new one is made if `None`.
    pub name: Option<&'a str>,
    /// The nodes of each row's path, in a tree of one's own.
    pub path_table: Option<&'a Var>,
    /// The bits of each row's path.
    pub path_code: Option<&'a Var>,
    /// The tree is one's own.
    pub is_custom: bool,
    /// Gradients of the weights are the rows of the nodes.
    pub is_sparse: bool,
}

impl Default for HSigmoid<'_> {
    fn default() -> Self {
        Self {
            param_attr: ParamAttr::default(),
            bias_attr: Some(ParamAttr::default()),
            name: None,
            path_table: None,
            path_code: None,
            is_custom: false,
            is_sparse: false,
        }
    }
}

/// The cost of the labelled class of each row, along its path in a tree of classes. A tree of one's own has `num_classes` inner nodes.
pub fn hsigmoid(
    b: &mut Builder<'_>,
    input: &Var,
    label: &Var,
    num_classes: i32,
    options: HSigmoid<'_>,
) -> Result<Var> {
    let HSigmoid { path_table, path_code, is_custom, .. } = options;
    let bad = |argument, rule: &'static str, actual: String| {
        Err(Error::BadArgument { layer: "hsigmoid", argument, rule, actual })
    };
    if !is_custom && num_classes < 2 {
        let rule = "num_classes must not be less than 2 with default tree";
        return bad("num_classes", rule, num_classes.to_string());
    }
    if !is_custom && (path_table.is_some() || path_code.is_some()) {
        let rule = "only num_classes should be passed without custom tree";
        return bad("path_table", rule, "a variable".to_string());
    }
    if is_custom && path_code.is_none() {
        return bad(
            "path_code",
            "path_code should not be None with custom tree",
            "None".to_string(),
        );
    }
    if is_custom && path_table.is_none() {
        return bad(
            "path_table",
            "path_table should not be None with custom tree",
            "None".to_string(),
        );
    }
    let is_sparse = options.is_sparse && is_custom;
    let layer = b.layer_name("hierarchical_sigmoid", options.name);
    let meta = b.meta(input)?;
    let (out, pre_out) = (b.temp(&layer, meta.dtype), b.temp(&layer, meta.dtype));
    let n_nodes = i64::from(num_classes) - i64::from(!is_custom);
    let weights = NewClasses { layer: &layer, dtype: meta.dtype };
    let width = meta.dims.get(1).copied().unwrap_or(-1);
    let weight = weights.weight(b, &options.param_attr, &[n_nodes, width])?;
    let mut op = OpDesc::new("hierarchical_sigmoid").input("X", input).input("W", &weight);
    for (port, var) in [("PathTable", path_table), ("PathCode", path_code)] {
        if let Some(var) = var {
            op = op.input(port, var);
        }
    }
    op = op.input("Label", label);
    if let Some(attr) = &options.bias_attr {
        op = op.input("Bias", &weights.bias(b, attr, &[n_nodes, 1])?);
    }
    b.op(op
        .output("Out", &out)
        .output("PreOut", &pre_out)
        .attr("num_classes", num_classes)
        .attr("is_sparse", is_sparse)
        .attr("remote_prefetch", is_sparse))?;
    Ok(out)
}

/// Options of [`center_loss`].
#[derive(Clone, Debug)]
pub struct CenterLoss {
    /// How far centers move.
    pub alpha: super::Amount<f32>,
    /// How the centers are named and filled.
    pub param_attr: ParamAttr,
    /// Centers move.
    pub update_center: bool,
}

/// Half the squared distance of each row from the center of its class, which moves.
pub fn center_loss(
    b: &mut Builder<'_>,
    input: &Var,
    label: &Var,
    num_classes: i32,
    options: CenterLoss,
) -> Result<Var> {
    let layer = b.layer_name("center_loss", None);
    let meta = b.meta(input)?;
    let width = meta.dims.get(1).copied().unwrap_or(-1);
    let weights = NewClasses { layer: &layer, dtype: meta.dtype };
    let centers = weights.weight(b, &options.param_attr, &[i64::from(num_classes), width])?;
    if let Some(desc) = b.main.block_mut(0).var_mut(centers.name()) {
        desc.stop_gradient = true;
    }
    let rate = match options.alpha {
        super::Amount::In(var) => var,
        super::Amount::Is(alpha) => {
            b.state("centerloss_alpha", Meta::dense(DType::F32, &[1]), alpha)?
        }
    };
    let (diff, loss) = (b.temp(&layer, meta.dtype), b.temp(&layer, meta.dtype));
    b.op(OpDesc::new("center_loss")
        .input("X", input)
        .input("Label", label)
        .input("Centers", &centers)
        .input("CenterUpdateRate", &rate)
        .output("SampleCenterDiff", &diff)
        .output("Loss", &loss)
        .output("CentersOut", &centers)
        .attr("cluster_num", num_classes)
        .attr("need_update", options.update_center))?;
    Ok(loss)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;
    use crate::layers::{self, Data};

    fn data(b: &mut Builder<'_>, name: &str, width: i64, dtype: DType) -> Var {
        layers::data(b, name, &[width], Data { dtype, ..Data::default() }).unwrap()
    }

    /// Names and shapes as Fluid 1.8.5 printed them for the same calls.
    #[test]
    fn names_and_shapes_follow_fluid() {
        let mut net = Net::default();
        let mut b = net.builder();
        let (x, label) = (data(&mut b, "x", 3, DType::F32), data(&mut b, "label", 1, DType::I64));
        let sampler = NceSampler::Custom(vec![0.1, 0.2, 0.3, 0.1, 0.2, 0.1]);
        let cost = nce(&mut b, &x, &label, 6, Nce { sampler, ..Nce::default() }).unwrap();
        assert_eq!((cost.name(), b.meta(&cost).unwrap().dims), ("tmp_0", vec![-1, 1]));
        let cost = hsigmoid(&mut b, &x, &label, 6, HSigmoid::default()).unwrap();
        assert_eq!(cost.name(), "hierarchical_sigmoid_0.tmp_0");
        let params: Vec<_> = b.main.parameters().map(|p| (&*p.name, &*p.meta.dims)).collect();
        let expected: [(&str, &[i64]); 7] = [
            ("nce_0.w_0", &[6, 3]),
            ("nce_0.b_0", &[6, 1]),
            ("nce_0.w_1", &[6]),
            ("nce_0.w_2", &[6]),
            ("nce_0.w_3", &[6]),
            ("hierarchical_sigmoid_0.w_0", &[5, 3]),
            ("hierarchical_sigmoid_0.b_0", &[5, 1]),
        ];
        assert_eq!(params, expected);
    }

    #[test]
    fn trees_are_given_whole_or_not_at_all() {
        let mut net = Net::default();
        let mut b = net.builder();
        let (x, label) = (data(&mut b, "x", 3, DType::F32), data(&mut b, "label", 1, DType::I64));
        for options in [
            HSigmoid { path_table: Some(&label), ..HSigmoid::default() },
            HSigmoid { is_custom: true, path_table: Some(&label), ..HSigmoid::default() },
            HSigmoid { is_custom: true, path_code: Some(&label), ..HSigmoid::default() },
        ] {
            let error = hsigmoid(&mut b, &x, &label, 6, options).unwrap_err();
            assert!(matches!(error, Error::BadArgument { layer: "hsigmoid", .. }), "{error}");
        }
        let error = hsigmoid(&mut b, &x, &label, 1, HSigmoid::default()).unwrap_err();
        assert!(matches!(error, Error::BadArgument { argument: "num_classes", .. }), "{error}");
        let sampler = NceSampler::Custom(vec![0.5]);
        let error = nce(&mut b, &x, &label, 6, Nce { sampler, ..Nce::default() }).unwrap_err();
        assert!(matches!(error, Error::BadArgument { argument: "custom_dist", .. }), "{error}");
    }
}
