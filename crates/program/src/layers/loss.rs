//! Losses that are one op each.

use super::append::one_op;
use super::{Reduce, reduce_mean};
use crate::builder::{Builder, Var};
use crate::error::{Error, Result};

layers! { losses;
    /// The squared difference, place by place.
    fn square_error_cost(input: Floats, label: Floats) -> Var { |b|
        let op = one_op(b, "square_error_cost", None).of("elementwise_sub");
        op.input("X", input).input("Y", label).attr("axis", -1).out_activated("Out", Some("square"))
    }

    /// The mean of the squared errors, shape [1].
    fn mse_loss(input: Floats, label: Floats) -> Var { |b|
        let errors = square_error_cost(b, input, label)?;
        reduce_mean(b, &errors, Reduce::default())
    }

    /// The cross entropy of the sigmoid of each score; `normalize` divides by the labels that count.
    fn sigmoid_cross_entropy_with_logits(x: Floats, label: Floats; SigmoidCrossEntropy<'a> {
        ignore_index: i32 = (-100), name: Name = None, normalize: Flag = false,
    }) -> Var { |b, kind|
        let op = one_op(b, kind, name).input("X", x).input("Label", label);
        op.attr("ignore_index", ignore_index).attr("normalize", normalize).out("Out")
    }

    /// The negative log likelihood of probabilities; `epsilon` keeps the logs finite.
    fn log_loss(input: Floats, label: Floats; epsilon: f32 = 0.0001, name: Name = None) -> Var { |b|
        let op = one_op(b, "log_loss", name).input("Predicted", input).input("Labels", label);
        op.attr("epsilon", epsilon).out("Loss")
    }

    /// Squares near errors and takes far ones (beyond `delta`) as they are.
    fn huber_loss(input: Floats, label: Floats, delta: f32) -> Var { |b|
        let op = one_op(b, "huber_loss", None).input("X", input).input("Y", label);
        op.attr("delta", delta).also("Residual")?.out("Out")
    }

    /// The smooth L1 distance of each row, shape [n, 1].
    fn smooth_l1(x: Floats, y: Floats; SmoothL1<'a> {
        inside_weight: MaybeInput = None, outside_weight: MaybeInput = None, sigma: MaybeF32 = None,
    }) -> Var { |b|
        let op = one_op(b, "smooth_l1_loss", None).input("X", x).input("Y", y);
        let op = op.maybe("InsideWeight", inside_weight).maybe("OutsideWeight", outside_weight);
        op.attr("sigma", sigma.unwrap_or(1.0)).also("Diff")?.out("Out")
    }

    /// The personalised-ranking loss of the labelled class against the others.
    fn bpr_loss(input: Floats, label: Input; name: Name = None) -> Var { |b|
        one_op(b, "bpr_loss", name).input("X", input).input("Label", label).out("Y")
    }

    /// RankNet's loss of two scores; the label says whether the left one should win.
    fn rank_loss(label: Floats, left: Floats, right: Floats; name: Name = None) -> Var { |b|
        let op = one_op(b, "rank_loss", name).input("Left", left).input("Right", right);
        op.input("Label", label).out("Out")
    }

    /// What two scores lack to differ by a margin; the label (1 or -1) says in which direction.
    fn margin_rank_loss(label: Floats, left: Floats, right: Floats; MarginRankLoss<'a> {
        margin: f32 = 0.1, name: Name = None,
    }) -> Var { |b|
        let op = one_op(b, "margin_rank_loss", name).input("X1", left).input("X2", right);
        let op = op.input("Label", label).attr("margin", margin);
        op.also("Out")?.also("Activated")?.first()
    }

    /// The Kullback-Leibler divergence; `reduction` is none, batchmean, mean or sum.
    fn kldiv_loss(x: Floats, target: Floats; reduction: Text = "mean", name: Name = None) -> Var { |b|
        if !["none", "batchmean", "mean", "sum"].contains(&reduction) {
            let rule = "must be none, batchmean, mean or sum";
            let layer = "kldiv_loss";
            let argument = "reduction";
            let actual = reduction.to_string();
            return Err(Error::BadArgument { layer, argument, rule, actual });
        }
        let op = one_op(b, "kldiv_loss", name).input("X", x).input("Target", target);
        op.attr("reduction", reduction).out("Loss")
    }
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
            log_loss(&mut b, &x, &y, 1e-4, None).unwrap(),
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
