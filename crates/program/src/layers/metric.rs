//! What tells how good a model is: `accuracy` and `auc`.

use tensor::DType;

use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::Result;
use crate::layers::{Amount, topk};
use crate::var::Meta;

layers! { metrics;
    /// The share of rows whose label is among the `k` largest; the counts are written into `correct` and
    /// `total` if they are given.
    fn accuracy(input: Floats, label: Input; Accuracy<'a> {
        k: i32 = 1, correct: MaybeInput = None, total: MaybeInput = None,
    }) -> Var { |b|
        let (values, indices) = topk(b, input, Amount::Is(k), None)?;
        let layer = b.layer_name("accuracy", None);
        let accuracy = b.temp(&layer, DType::F32);
        let mut count = |given: Option<&Var>| match given {
            Some(var) => var.clone(),
            None => b.temp(&layer, DType::I32),
        };
        let (correct, total) = (count(correct), count(total));
        b.op(OpDesc::new("accuracy")
            .input("Out", &values)
            .input("Indices", &indices)
            .input("Label", label)
            .output("Accuracy", &accuracy)
            .output("Correct", &correct)
            .output("Total", &total))?;
        Ok(accuracy)
    }
}

/// Options of [`auc`]; defaults as in `fluid.layers.auc`.
#[derive(Clone, Debug)]
pub struct Auc<'a> {
    /// `ROC`; no other is known.
    pub curve: &'a str,
    /// Into how many parts probabilities are divided.
    pub num_thresholds: i32,
    /// Over how many batches `batch_auc` goes; 0 for all.
    pub slide_steps: i32,
}

impl Default for Auc<'_> {
    fn default() -> Self {
        Self { curve: "ROC", num_thresholds: 4095, slide_steps: 1 }
    }
}

/// What [`auc`] makes.
#[derive(Clone, Debug)]
pub struct AucVars {
    /// Over all batches.
    pub auc: Var,
    /// Over the last `slide_steps` batches.
    pub batch_auc: Var,
    /// The histograms: positive and negative of the last batches, then of all.
    pub states: [Var; 4],
}

/// The area under the ROC curve of probabilities [n, 2] (or [n, 1]), as it is learnt.
pub fn auc(b: &mut Builder<'_>, input: &Var, label: &Var, options: Auc<'_>) -> Result<AucVars> {
    let layer = b.layer_name("auc", None);
    let (auc, batch_auc) = (b.temp(&layer, DType::F64), b.temp(&layer, DType::F64));
    let n_buckets = i64::from(options.num_thresholds) + 1;
    // A ring of histograms, their sum, and how many batches there were: what 1.7.2 and later save.
    let window = [(1 + i64::from(options.slide_steps)) * n_buckets + 1];
    let all = [1, n_buckets];
    let mut state = |dims: &[i64]| {
        let name = b.names.generate("_generated_var");
        b.state(&name, Meta::dense(DType::I64, dims), 0.0)
    };
    let states = [state(&window)?, state(&window)?, state(&all)?, state(&all)?];
    let mut measure = |out: &Var, pos: &Var, neg: &Var, slide_steps: i32| {
        b.op(OpDesc::new("auc")
            .input("Predict", input)
            .input("Label", label)
            .input("StatPos", pos)
            .input("StatNeg", neg)
            .output("AUC", out)
            .output("StatPosOut", pos)
            .output("StatNegOut", neg)
            .attr("curve", options.curve)
            .attr("num_thresholds", options.num_thresholds)
            .attr("slide_steps", slide_steps))
    };
    measure(&batch_auc, &states[0], &states[1], options.slide_steps)?;
    measure(&auc, &states[2], &states[3], 0)?;
    Ok(AucVars { auc, batch_auc, states })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;
    use crate::layers::{self, Data};

    fn inputs(b: &mut Builder<'_>) -> (Var, Var) {
        let x = layers::data(b, "x", &[2], Data::default()).unwrap();
        let label = Data { dtype: DType::I64, ..Data::default() };
        (x, layers::data(b, "label", &[1], label).unwrap())
    }

    #[test]
    fn accuracy_names_follow_fluid() {
        let mut net = Net::default();
        let mut b = net.builder();
        let (x, label) = inputs(&mut b);
        let out = accuracy(&mut b, &x, &label, Accuracy::default()).unwrap();
        assert_eq!(out.name(), "accuracy_0.tmp_0");
        let op = &net.main.block(0).ops[1];
        assert_eq!(op.input_names("Indices"), ["top_k_0.tmp_1"]);
        assert_eq!(op.output_names("Total"), ["accuracy_0.tmp_2"]);
    }

    #[test]
    fn auc_measures_the_window_first() {
        let mut net = Net::default();
        let mut b = net.builder();
        let (x, label) = inputs(&mut b);
        let options = Auc { slide_steps: 20, num_thresholds: 4096, ..Auc::default() };
        let made = auc(&mut b, &x, &label, options).unwrap();
        assert_eq!((made.auc.name(), made.batch_auc.name()), ("auc_0.tmp_0", "auc_0.tmp_1"));
        assert_eq!(made.states[3].name(), "_generated_var_3");
        assert_eq!(b.meta(&made.states[0]).unwrap().dims, [21 * 4097 + 1]);
        assert_eq!(b.meta(&made.states[2]).unwrap().dims, [1, 4097]);
        let ops: Vec<_> = net.main.block(0).ops.iter().map(|op| op.output_names("AUC")).collect();
        assert_eq!(ops, [["auc_0.tmp_1"], ["auc_0.tmp_0"]]);
        let filled: Vec<_> = net.startup.block(0).ops.iter().map(|op| op.writes().next()).collect();
        let expected = [3, 2, 1, 0].map(|k| format!("_generated_var_{k}"));
        assert_eq!(filled, expected.each_ref().map(|name| Some(name.as_str())));
    }
}
