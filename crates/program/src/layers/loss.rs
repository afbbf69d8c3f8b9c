//! Losses that are one op each.

use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::{Error, Result};

/// Options of [`sigmoid_cross_entropy_with_logits`]; defaults as in Fluid.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // The names are Fluid's.
pub struct SigmoidCrossEntropy<'a> {
    pub ignore_index: i32,
    pub name: Option<&'a str>,
    pub normalize: bool,
}

impl Default for SigmoidCrossEntropy<'_> {
    fn default() -> Self {
        Self { ignore_index: -100, name: None, normalize: false }
    }
}

/// The cross entropy of the sigmoid of each score.
pub fn sigmoid_cross_entropy_with_logits(
    b: &mut Builder<'_>,
    x: &Var,
    label: &Var,
    options: SigmoidCrossEntropy<'_>,
) -> Result<Var> {
    let kind = "sigmoid_cross_entropy_with_logits";
    let layer = b.layer_name(kind, options.name);
    let out = b.temp(&layer, b.meta(x)?.dtype);
    b.op(OpDesc::new(kind)
        .input("X", x)
        .input("Label", label)
        .output("Out", &out)
        .attr("ignore_index", options.ignore_index)
        .attr("normalize", options.normalize))?;
    Ok(out)
}

/// The mean of the squared errors, shape [1].
pub fn mse_loss(b: &mut Builder<'_>, input: &Var, label: &Var) -> Result<Var> {
    let errors = super::square_error_cost(b, input, label)?;
    super::reduce_mean(b, &errors, super::Reduce::default())
}

/// Fluid's default `epsilon` of [`log_loss`].
pub const LOG_LOSS_EPSILON: f32 = 1e-4;

/// The negative log likelihood of probabilities; `epsilon` keeps the logs finite.
pub fn log_loss(
    b: &mut Builder<'_>,
    input: &Var,
    label: &Var,
    epsilon: f32,
    name: Option<&str>,
) -> Result<Var> {
    let layer = b.layer_name("log_loss", name);
    let loss = b.temp(&layer, b.meta(input)?.dtype);
    b.op(OpDesc::new("log_loss")
        .input("Predicted", input)
        .input("Labels", label)
        .output("Loss", &loss)
        .attr("epsilon", epsilon))?;
    Ok(loss)
}

/// Squares near errors and takes far ones (beyond `delta`) as they are.
pub fn huber_loss(b: &mut Builder<'_>, input: &Var, label: &Var, delta: f32) -> Result<Var> {
    let layer = b.layer_name("huber_loss", None);
    let dtype = b.meta(input)?.dtype;
    let (residual, out) = (b.temp(&layer, dtype), b.temp(&layer, dtype));
    b.op(OpDesc::new("huber_loss")
        .input("X", input)
        .input("Y", label)
        .output("Out", &out)
        .output("Residual", &residual)
        .attr("delta", delta))?;
    Ok(out)
}

/// Options of [`smooth_l1`]; defaults as in `fluid.layers.smooth_l1`.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)] // The names are Fluid's.
pub struct SmoothL1<'a> {
    pub inside_weight: Option<&'a Var>,
    pub outside_weight: Option<&'a Var>,
    pub sigma: Option<f32>,
}

/// The smooth L1 distance of each row, shape [n, 1].
pub fn smooth_l1(b: &mut Builder<'_>, x: &Var, y: &Var, options: SmoothL1<'_>) -> Result<Var> {
    let layer = b.layer_name("smooth_l1_loss", None);
    let dtype = b.meta(x)?.dtype;
    let (diff, out) = (b.temp(&layer, dtype), b.temp(&layer, dtype));
    let mut op = OpDesc::new("smooth_l1_loss").input("X", x).input("Y", y);
    if let Some(weight) = options.inside_weight {
        op = op.input("InsideWeight", weight);
    }
    if let Some(weight) = options.outside_weight {
        op = op.input("OutsideWeight", weight);
    }
    let op = op.output("Diff", &diff).output("Out", &out);
    b.op(op.attr("sigma", options.sigma.unwrap_or(1.0)))?;
    Ok(out)
}

/// The personalised-ranking loss of the labelled class against the others.
pub fn bpr_loss(b: &mut Builder<'_>, input: &Var, label: &Var, name: Option<&str>) -> Result<Var> {
    let layer = b.layer_name("bpr_loss", name);
    let y = b.temp(&layer, b.meta(input)?.dtype);
    b.op(OpDesc::new("bpr_loss").input("X", input).input("Label", label).output("Y", &y))?;
    Ok(y)
}

/// RankNet's loss of two scores; the label says whether the left one should win.
pub fn rank_loss(
    b: &mut Builder<'_>,
    label: &Var,
    left: &Var,
    right: &Var,
    name: Option<&str>,
) -> Result<Var> {
    let layer = b.layer_name("rank_loss", name);
    let out = b.temp(&layer, b.meta(left)?.dtype);
    b.op(OpDesc::new("rank_loss")
        .input("Label", label)
        .input("Left", left)
        .input("Right", right)
        .output("Out", &out))?;
    Ok(out)
}

/// Options of [`margin_rank_loss`]; defaults as in Fluid.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // The names are Fluid's.
pub struct MarginRankLoss<'a> {
    pub margin: f32,
    pub name: Option<&'a str>,
}

impl Default for MarginRankLoss<'_> {
    fn default() -> Self {
        Self { margin: 0.1, name: None }
    }
}

/// What two scores lack to differ by a margin; the label (1 or -1) says in which direction.
pub fn margin_rank_loss(
    b: &mut Builder<'_>,
    label: &Var,
    left: &Var,
    right: &Var,
    options: MarginRankLoss<'_>,
) -> Result<Var> {
    let layer = b.layer_name("margin_rank_loss", options.name);
    let dtype = b.meta(left)?.dtype;
    let (out, activated) = (b.temp(&layer, dtype), b.temp(&layer, dtype));
    b.op(OpDesc::new("margin_rank_loss")
        .input("Label", label)
        .input("X1", left)
        .input("X2", right)
        .output("Out", &out)
        .output("Activated", &activated)
        .attr("margin", options.margin))?;
    Ok(out)
}

/// The Kullback-Leibler divergence; Fluid's default `reduction` is "mean".
pub fn kldiv_loss(
    b: &mut Builder<'_>,
    x: &Var,
    target: &Var,
    reduction: &str,
    name: Option<&str>,
) -> Result<Var> {
    if !["none", "batchmean", "mean", "sum"].contains(&reduction) {
        let rule = "must be none, batchmean, mean or sum";
        let (layer, argument, actual) = ("kldiv_loss", "reduction", reduction.to_string());
        return Err(Error::BadArgument { layer, argument, rule, actual });
    }
    let layer = b.layer_name("kldiv_loss", name);
    let loss = b.temp(&layer, b.meta(x)?.dtype);
    b.op(OpDesc::new("kldiv_loss")
        .input("X", x)
        .input("Target", target)
        .output("Loss", &loss)
        .attr("reduction", reduction))?;
    Ok(loss)
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
        let x = layers::data(&mut b, "x", &[1], Data::default()).unwrap();
        let y = layers::data(&mut b, "y", &[1], Data::default()).unwrap();
        let options = SigmoidCrossEntropy::default();
        let made = [
            sigmoid_cross_entropy_with_logits(&mut b, &x, &y, options).unwrap(),
            log_loss(&mut b, &x, &y, LOG_LOSS_EPSILON, None).unwrap(),
            huber_loss(&mut b, &x, &y, 1.0).unwrap(),
            smooth_l1(&mut b, &x, &y, SmoothL1::default()).unwrap(),
            rank_loss(&mut b, &y, &x, &x, None).unwrap(),
            margin_rank_loss(&mut b, &y, &x, &x, MarginRankLoss::default()).unwrap(),
            kldiv_loss(&mut b, &x, &y, "mean", None).unwrap(),
            mse_loss(&mut b, &x, &y).unwrap(),
        ];
        let names: Vec<&str> = made.iter().map(Var::name).collect();
        let expected = [
            "sigmoid_cross_entropy_with_logits_0.tmp_0",
            "log_loss_0.tmp_0",
            "huber_loss_0.tmp_1",
            "smooth_l1_loss_0.tmp_1",
            "rank_loss_0.tmp_0",
            "margin_rank_loss_0.tmp_0",
            "kldiv_loss_0.tmp_0",
            "reduce_mean_0.tmp_0",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn refuses_an_unknown_reduction() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[1], Data::default()).unwrap();
        let error = kldiv_loss(&mut b, &x, &x, "most", None).unwrap_err();
        assert!(matches!(error, Error::BadArgument { argument: "reduction", .. }), "{error}");
    }
}
