//! Losses, filters and features of ranking and matching models, each without parameters.

use tensor::DType;

use super::append::one_op;
use super::math::{Operator, binary};
use super::{
    Amount, Matmul, Reduce, Reshape, Results, SoftmaxWithCrossEntropy, cast, equal, expand, matmul,
    one_hot, reduce_mean, reduce_sum, reshape, softmax_with_cross_entropy, square, transpose,
};
use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::{Error, Result};

layers! { rankings;
    /// The cross entropy of a click and of a teacher's value; labels are -2 or -1 without a value, z or 1 + z with value z.
    fn teacher_student_sigmoid_loss(input: Floats, label: Floats; TeacherStudentSigmoidLoss {
        soft_max_up_bound: f32 = 15.0, soft_max_lower_bound: f32 = (-15.0),
    }) -> Var { |b, kind|
        let op = one_op(b, kind, None).input("X", input).input("Label", label);
        let op = op.attr("soft_max_lower_bound", soft_max_lower_bound);
        op.attr("soft_max_up_bound", soft_max_up_bound).out("Y")
    }

    /// The loss of pairs of rows, anchor and positive: rows of other labels are negatives.
    fn npair_loss(anchor: Floats, positive: Floats, labels: Input; l2_reg: f32 = 0.002) -> Var { |b|
        let n = b.meta(labels)?.dims.first().copied().unwrap_or(-1);
        let column = reshape(b, labels, &[n, 1], Reshape { inplace: true, ..Reshape::default() })?;
        let wide = expand(b, &column, &[1, n], None)?;
        let turned = transpose(b, &wide, &[1, 0], None)?;
        let same = equal(b, &wide, &turned, None)?;
        let same = cast(b, &same, DType::F32)?;
        let along = Reduce { dim: Some(&[1]), keep_dim: true, ..Reduce::default() };
        let sums = reduce_sum(b, &same, along)?;
        let shares = binary(b, &same, Operator::Div, &sums)?;
        let mut sizes = Vec::new();
        for rows in [anchor, positive] {
            let squares = square(b, rows, None)?;
            let sum = reduce_sum(b, &squares, Reduce { dim: Some(&[1]), ..Reduce::default() })?;
            sizes.push(reduce_mean(b, &sum, Reduce::default())?);
        }
        let size = binary(b, &sizes[0], Operator::Add, &sizes[1])?;
        let size = binary(b, &size, Operator::Mul, 0.25)?;
        let size = binary(b, &size, Operator::Mul, f64::from(l2_reg))?;
        let likeness = matmul(b, anchor, positive, Matmul { transpose_y: true, ..Matmul::default() })?;
        let soft = SoftmaxWithCrossEntropy { soft_label: true, ..SoftmaxWithCrossEntropy::default() };
        let (cost, _) = softmax_with_cross_entropy(b, &likeness, &shares, soft)?;
        let cost = binary(b, &shares, Operator::Mul, &cost)?;
        let cost = reduce_sum(b, &cost, Reduce { dim: Some(&[0]), ..Reduce::default() })?;
        let cost = reduce_mean(b, &cost, Reduce::default())?;
        binary(b, &size, Operator::Add, &cost)
    }

    /// One minus twice the overlap of probabilities and labels, divided by the size of both.
    fn dice_loss(input: Floats, label: Input; epsilon: f32 = 0.00001, name: Name = None) -> Var { |b|
        let _ = name;
        let dims = b.meta(input)?.dims;
        let depth = dims.last().copied().unwrap_or(1);
        let label = one_hot(b, label, Amount::Is(depth as i32), false)?;
        let inner: Vec<i32> = (1..dims.len() as i32).collect();
        let along = || Reduce { dim: Some(&inner), ..Reduce::default() };
        let overlap = binary(b, input, Operator::Mul, &label)?;
        let overlap = reduce_sum(b, &overlap, along())?;
        let (left, right) = (reduce_sum(b, input, along())?, reduce_sum(b, &label, along())?);
        let size = binary(b, &left, Operator::Add, &right)?;
        let twice = binary(b, &overlap, Operator::Mul, 2.0)?;
        let size = binary(b, &size, Operator::Add, f64::from(epsilon))?;
        let share = binary(b, &twice, Operator::Div, &size)?;
        let score = binary(b, 1.0, Operator::Sub, &share)?;
        reduce_mean(b, &score, Reduce::default())
    }

    /// The cross entropy of the softmax over the labels and `num_samples` drawn classes.
    fn sampled_softmax_with_cross_entropy(logits: Floats, label: Input, num_samples: i32; SampledSoftmax<'a> {
        num_true: i32 = 1, remove_accidental_hits: Flag = true, use_customized_samples: Flag = false,
        customized_samples: MaybeInput = None, customized_probabilities: MaybeInput = None, seed: i32 = 0,
    }) -> Var { |b|
        let dtype = b.meta(logits)?.dtype;
        let layer = b.layer_name("sample_logits", None);
        let mut op = OpDesc::new("sample_logits").input("Logits", logits).input("Labels", label);
        let given = use_customized_samples.then_some((customized_samples, customized_probabilities));
        let (samples, probabilities) = match given {
            Some((Some(samples), Some(probabilities))) => {
                op = op.input("CustomizedSamples", samples);
                op = op.input("CustomizedProbabilities", probabilities);
                (samples.clone(), probabilities.clone())
            }
            Some(_) => {
                let (layer, argument) = ("sampled_softmax_with_cross_entropy", "customized_samples");
                let rule = "must be given with customized_probabilities";
                return Err(Error::BadArgument { layer, argument, rule, actual: "None".to_string() });
            }
            None => (b.temp(&layer, DType::I64), b.temp(&layer, dtype)),
        };
        let (sampled, places) = (b.temp(&layer, dtype), b.temp(&layer, DType::I64));
        let soft = b.temp_stopped(&layer, dtype);
        op = op.output("Samples", &samples).output("Probabilities", &probabilities);
        op = op.output("SampledLabels", &places).output("SampledLogits", &sampled);
        for port in ["LogitsDim", "LabelsDim"] {
            op = op.output(port, &b.temp(&layer, dtype));
        }
        b.op(op
            .attr("use_customized_samples", use_customized_samples)
            .attr("uniq", true)
            .attr("remove_accidental_hits", remove_accidental_hits)
            .attr("num_samples", num_samples)
            .attr("seed", seed))?;
        let (loss, softmax) = (b.temp(&layer, dtype), b.temp(&layer, dtype));
        let hot = OpDesc::new("one_hot").input("X", &places).output("Out", &soft);
        b.op(hot.attr("depth", num_samples + 1).attr("dtype", dtype.code()))?;
        b.op(OpDesc::new("softmax_with_cross_entropy")
            .input("Logits", &sampled)
            .input("Label", &soft)
            .output("Softmax", &softmax)
            .output("Loss", &loss)
            .attr("soft_label", true)
            .attr("ignore_index", 0)
            .attr("numeric_stable_mode", false))?;
        binary(b, &loss, Operator::Div, f64::from(num_true))
    }

    /// The rows that have one of the wanted tags, and a weight of 1 for each (0 if there is none).
    fn filter_by_instag(
        ins: Input, ins_tag: Input, filter_tag: Input, is_lod: Flag; out_val_if_empty: i64 = 0
    ) -> Results { |b, kind|
        let op = one_op(b, kind, None).input("Ins", ins).input("Ins_tag", ins_tag);
        let op = op.input("Filter_tag", filter_tag).attr("is_lod", is_lod);
        let op = op.attr("out_val_if_empty", out_val_if_empty).also("Out")?;
        let (out, weight) = op.also_of("LossWeight", DType::F32).also_of("IndexMap", DType::I64).pair()?;
        Ok(Results::Several(vec![out, weight]))
    }

    /// `num_hash` hashes below `hash_size` of each row of ids.
    fn hash(input: Input, hash_size: i64; num_hash: i32 = 1, name: Name = None) -> Var { |b, kind|
        let dtype = b.meta(input)?.dtype;
        let op = one_op(b, kind, name).input("X", input).attr("num_hash", num_hash);
        op.attr("mod_by", hash_size).out_stopped("Out", dtype)
    }

    /// A place drawn for each row of probabilities.
    fn sampling_id(x: Floats; SamplingId {
        min: f32 = 0.0, max: f32 = 1.0, seed: i32 = 0, dtype: Dtype = [tensor::DType::F32, "'float32'"],
    }) -> Var { |b, kind|
        let op = one_op(b, kind, None).input("X", x).attr("min", min).attr("max", max);
        op.attr("seed", seed).out_of("Out", dtype)
    }

    /// The columns from `start_index` on of each input, `length` of them (-1: all), side by side.
    fn partial_concat
    /// The sum over the inputs of the columns from `start_index` on, `length` of them (-1: all).
    fn partial_sum
    (input: Inputs; start_index: i32 = 0, length: i32 = (-1)) -> Var { |b, kind|
        let op = one_op(b, kind, None).input("X", input).attr("start_index", start_index);
        op.attr("length", length).out("Out")
    }

    /// The averages of the largest numbers of each row of each sample's matrices.
    fn sequence_topk_avg_pooling(
        input: Floats, row: Input, col: Input, topks: Ints, channel_num: i32
    ) -> Var { |b, kind|
        let op = one_op(b, kind, None).input("X", input).input("ROW", row).input("COLUMN", col);
        let op = op.attr("topks", topks.to_vec()).attr("channel_num", channel_num);
        op.also("Out")?.also_stopped("pos", DType::I32).first()
    }

    /// 1 where the largest numbers of a matrix are, no row and no column twice; 0 elsewhere.
    fn similarity_focus(input: Floats, axis: i32, indexes: Ints; name: Name = None) -> Var { |b, kind|
        let bad = |argument, rule, actual| {
            Err(Error::BadArgument { layer: "similarity_focus", argument, rule, actual })
        };
        if !(1..=3).contains(&axis) {
            return bad("axis", "axis must be 1, 2 or 3.", axis.to_string());
        }
        if indexes.is_empty() {
            return bad("indexes", "indexes can not be empty.", "[]".to_string());
        }
        let op = one_op(b, kind, name).input("X", input).attr("axis", axis);
        op.attr("indexes", indexes.to_vec()).out("Out")
    }

    /// `alpha` times the input plus `beta` times sines and cosines of its steps.
    fn add_position_encoding(input: Floats, alpha: f32, beta: f32; name: Name = None) -> Var { |b, kind|
        one_op(b, kind, name).input("X", input).attr("alpha", alpha).attr("beta", beta).out("Out")
    }

    /// The products of the channels of both inputs, averaged over their places.
    fn fsp_matrix(x: Floats, y: Floats) -> Var { |b|
        one_op(b, "fsp_matrix", None).of("fsp").input("X", x).input("Y", y).out("Out")
    }

    /// The mean over classes of intersection over union, and the counts of wrong and correct places.
    fn mean_iou(input: Input, label: Input, num_classes: i32) -> Results { |b, kind|
        let op = one_op(b, kind, None).input("Predictions", input).input("Labels", label);
        let op = op.attr("num_classes", num_classes).also_of("OutMeanIou", DType::F32);
        op.also_of("OutWrong", DType::I32).also_of("OutCorrect", DType::I32).several()
    }

    /// The windows of each image as a sequence of rows.
    fn im2sequence(input: Floats; Im2Sequence<'a> {
        filter_size: Ints = [&[1], "1"], stride: Ints = [&[1], "1"], padding: Ints = [&[0], "0"],
        input_image_size: MaybeInput = None, out_stride: Ints = [&[1], "1"], name: Name = None,
    }) -> Var { |b, kind|
        let twice = |sizes: &[i32]| if let [one] = sizes { vec![*one; 2] } else { sizes.to_vec() };
        let mut padding = twice(padding);
        if let [above, left] = padding[..] {
            padding = vec![above, left, above, left];
        }
        let op = one_op(b, kind, name).input("X", input).maybe("Y", input_image_size);
        let op = op.attr("kernels", twice(filter_size)).attr("strides", twice(stride));
        let op = op.attr("paddings", padding);
        let op = match input_image_size {
            Some(_) => op.attr("out_stride", twice(out_stride)),
            None => op,
        };
        op.out("Out")
    }
}
