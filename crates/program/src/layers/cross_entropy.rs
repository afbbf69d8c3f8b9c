//! `cross_entropy` and the same fused with softmax.

use super::append::one_op;
use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::Result;

layers! { cross_entropies;
    /// `-log input[label]` per row of probabilities; a label `ignore_index` counts as 0.
    fn cross_entropy(input: Floats, label: Input; CrossEntropy {
        soft_label: Flag = false, ignore_index: i32 = (-100),
    }) -> Var { |b|
        let kind = if soft_label { "cross_entropy" } else { "cross_entropy2" };
        let op = one_op(b, kind, None).input("X", input).input("Label", label);
        let op = op.attr("ignore_index", ignore_index).also("Y")?;
        if soft_label {
            return op.attr("soft_label", true).first();
        }
        op.also("XShape")?.also("MatchX")?.first()
    }
}

/// Options of [`softmax_with_cross_entropy`]; defaults as in Fluid.
#[derive(Clone, Debug)]
pub struct SoftmaxWithCrossEntropy {
    /// Labels are probabilities of all classes, not the number of one.
    pub soft_label: bool,
    /// Rows with this label cost nothing.
    pub ignore_index: i32,
    /// Changes nothing: the loss is always computed from the logits.
    pub numeric_stable_mode: bool,
    /// Where the classes are.
    pub axis: i32,
}

impl Default for SoftmaxWithCrossEntropy {
    fn default() -> Self {
        Self { soft_label: false, ignore_index: -100, numeric_stable_mode: true, axis: -1 }
    }
}

/// The loss of scores, and their softmax: (loss, softmax).
pub fn softmax_with_cross_entropy(
    b: &mut Builder<'_>,
    logits: &Var,
    label: &Var,
    options: SoftmaxWithCrossEntropy,
) -> Result<(Var, Var)> {
    let layer = b.layer_name("softmax_with_cross_entropy", None);
    let dtype = b.meta(logits)?.dtype;
    let (softmax, loss) = (b.temp(&layer, dtype), b.temp(&layer, dtype));
    b.op(OpDesc::new("softmax_with_cross_entropy")
        .input("Logits", logits)
        .input("Label", label)
        .output("Softmax", &softmax)
        .output("Loss", &loss)
        .attr("soft_label", options.soft_label)
        .attr("ignore_index", options.ignore_index)
        .attr("numeric_stable_mode", options.numeric_stable_mode)
        .attr("axis", options.axis))?;
    Ok((loss, softmax))
}

#[cfg(test)]
mod tests {
    use tensor::DType;

    use super::*;
    use crate::Net;
    use crate::layers::{self, Data};

    #[test]
    fn names_follow_fluid() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[3], Data::default()).unwrap();
        let label = Data { dtype: DType::I64, ..Data::default() };
        let label = layers::data(&mut b, "label", &[1], label).unwrap();
        let hard = cross_entropy(&mut b, &x, &label, CrossEntropy::default()).unwrap();
        assert_eq!(hard.name(), "cross_entropy2_0.tmp_0");
        assert_eq!(b.meta(&hard).unwrap().dims, [-1, 1]);
        assert_eq!(b.meta(&Var::from("cross_entropy2_0.tmp_1")).unwrap().dims, [-1, 3, 0]);
        let soft = CrossEntropy { soft_label: true, ..CrossEntropy::default() };
        let soft = cross_entropy(&mut b, &x, &x, soft).unwrap();
        assert_eq!(soft.name(), "cross_entropy_0.tmp_0");
        let options = SoftmaxWithCrossEntropy::default();
        let (loss, softmax) = softmax_with_cross_entropy(&mut b, &x, &label, options).unwrap();
        assert_eq!(loss.name(), "softmax_with_cross_entropy_0.tmp_1");
        assert_eq!(softmax.name(), "softmax_with_cross_entropy_0.tmp_0");
    }
}
