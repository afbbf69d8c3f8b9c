//! Sequences of tokens: aligning, comparing, searching and judging them.

use tensor::DType;

use super::append::one_op;
use super::{Amount, Results, squeeze, topk};
use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::Result;

layers! { decodings;
    /// How many edits turn each sequence into its reference, and how many sequences there are.
    fn edit_distance(input: Input, label: Input; EditDistance<'a> {
        normalized: Flag = true, ignored_tokens: Axes = None,
        input_length: MaybeInput = None, label_length: MaybeInput = None,
    }) -> (Var, Var) { |b|
        let layer = b.layer_name("edit_distance", None);
        let (mut hyps, mut refs) = (input.clone(), label.clone());
        if let Some(tokens) = ignored_tokens.filter(|tokens| !tokens.is_empty()) {
            let (left, right) = (b.temp(&layer, DType::I64), b.temp(&layer, DType::I64));
            for (from, to) in [(&hyps, &left), (&refs, &right)] {
                let op = OpDesc::new("sequence_erase").input("X", from).output("Out", to);
                b.op(op.attr("tokens", tokens.to_vec()))?;
            }
            hyps = left;
            refs = right;
        }
        let mut op = OpDesc::new("edit_distance").input("Hyps", &hyps).input("Refs", &refs);
        if let (Some(input_length), Some(label_length)) = (input_length, label_length) {
            op = op.input("HypsLength", input_length).input("RefsLength", label_length);
        }
        let (out, number) = (b.temp(&layer, DType::I64), b.temp(&layer, DType::I64));
        b.op(op.output("Out", &out).output("SequenceNum", &number).attr("normalized", normalized))?;
        Ok((out, number))
    }

    /// The loss of connectionist temporal classification of each sequence.
    fn warpctc(input: Floats, label: Input; Warpctc<'a> {
        blank: i32 = 0, norm_by_times: Flag = false,
        input_length: MaybeInput = None, label_length: MaybeInput = None,
    }) -> Var { |b, kind|
        let both = input_length.zip(label_length);
        let op = one_op(b, kind, None).input("Logits", input).input("Label", label);
        let op = op.maybe("LogitsLength", both.map(|(input, _)| input));
        let op = op.maybe("LabelLength", both.map(|(_, label)| label));
        let op = op.attr("blank", blank).attr("norm_by_times", norm_by_times).also("Loss")?;
        op.also("WarpCTCGrad")?.first()
    }

    /// The most likely tokens without blanks and repeats; with lengths also how many they are.
    fn ctc_greedy_decoder(input: Floats, blank: i32; CtcGreedyDecoder<'a> {
        input_length: MaybeInput = None, padding_value: i32 = 0, name: Name = None,
    }) -> Results { |b, kind|
        let layer = b.layer_name(kind, name);
        let (_, tokens) = topk(b, input, Amount::Is(1), None)?;
        let out = b.temp(&layer, DType::I64);
        let op = OpDesc::new("ctc_align").attr("merge_repeated", true).attr("blank", blank);
        let Some(input_length) = input_length else {
            b.op(op.input("Input", &tokens).output("Output", &out))?;
            return Ok(Results::One(out));
        };
        let length = b.temp(&layer, DType::I64);
        let tokens = squeeze(b, &tokens, &[2], None)?;
        let op = op.input("Input", &tokens).input("InputLength", input_length);
        b.op(op.output("Output", &out).output("OutputLength", &length).attr("padding_value", padding_value))?;
        Ok(Results::Several(vec![out, length]))
    }

    /// (precision, recall, f1 score, chunks inferred, chunks labelled, chunks in both).
    fn chunk_eval(input: Input, label: Input, chunk_scheme: Text, num_chunk_types: i32; ChunkEval<'a> {
        excluded_chunk_types: Axes = None, seq_length: MaybeInput = None,
    }) -> Results { |b, kind|
        let op = one_op(b, kind, None).input("Inference", input).input("Label", label);
        let op = op.maybe("SeqLength", seq_length).attr("num_chunk_types", num_chunk_types);
        let op = op.attr("chunk_scheme", chunk_scheme);
        let op = op.attr("excluded_chunk_types", excluded_chunk_types.unwrap_or_default().to_vec());
        let op = op.also_of("Precision", DType::F32).also_of("Recall", DType::F32);
        let op = op.also_of("F1-Score", DType::F32).also_of("NumInferChunks", DType::I64);
        op.also_of("NumLabelChunks", DType::I64).also_of("NumCorrectChunks", DType::I64).several()
    }

    /// The sequences of a beam search, followed back along parents.
    fn gather_tree(ids: Input, parents: Input) -> Var { |b, kind|
        one_op(b, kind, None).input("Ids", ids).input("Parents", parents).out("Out")
    }

    /// The best candidates of each source at one step: (ids, scores), and their parents with `return_parent_idx`.
    fn beam_search(
        pre_ids: Input, pre_scores: Input, ids: MaybeInput, scores: Input, beam_size: i32, end_id: i32; BeamSearch<'a> {
        level: i32 = 0, is_accumulated: Flag = true, name: Name = None, return_parent_idx: Flag = false,
    }) -> Results { |b, kind|
        let dtype = b.meta(pre_scores)?.dtype;
        let op = one_op(b, kind, name).input("pre_ids", pre_ids).input("pre_scores", pre_scores);
        let op = op.input("scores", scores).maybe("ids", ids).attr("level", level);
        let op = op.attr("beam_size", beam_size).attr("end_id", end_id).attr("is_accumulated", is_accumulated);
        let op = op.also_of("selected_scores", dtype).also_of("selected_ids", DType::I64);
        let made = op.also_of("parent_idx", DType::I32).several()?;
        let [scores, ids, parents] = made.list() else { return Ok(made) };
        let mut given = vec![ids.clone(), scores.clone()];
        given.extend(return_parent_idx.then(|| parents.clone()));
        Ok(Results::Several(given))
    }

    /// The sentences of a beam search, and the scores of their words.
    fn beam_search_decode(
        ids: Input, scores: Input, beam_size: i32, end_id: i32; name: Name = None
    ) -> (Var, Var) { |b, kind|
        let dtype = b.meta(scores)?.dtype;
        let op = one_op(b, kind, name).input("Ids", ids).input("Scores", scores);
        let op = op.attr("beam_size", beam_size).attr("end_id", end_id);
        op.also_of("SentenceIds", DType::I64).also_of("SentenceScores", dtype).pair()
    }
}
