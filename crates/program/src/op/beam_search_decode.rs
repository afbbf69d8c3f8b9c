//! `beam_search_decode`: the sentences of a beam search, best first for each source, with the score of each word. Ids and Scores are lists with
//! what `beam_search` gave at each step; sentences are followed back from the step at which they end.

use tensor::{DType, Float, Lod, Shape, Tensor, Value};

use super::sizes::bad_attr;
use super::{Infer, Op, Run, for_float, no_gradient, traits};
use crate::error::{Error, Result};
use crate::var::Meta;

pub(super) struct BeamSearchDecode;

const STEPS: &str =
    "each step has the candidates of as many sources, and Scores has the shapes of Ids";

/// A sentence from its end.
struct Sentence<T> {
    words: Vec<i64>,
    scores: Vec<T>,
    /// The row of the step before that it follows.
    row: usize,
}

impl Op for BeamSearchDecode {
    traits!(Never, "Ids": [I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let scores = infer.input("Scores")?;
        infer.set_output("SentenceIds", Meta::dense(DType::I64, &[-1]).with_lod_level(2))?;
        infer.set_output("SentenceScores", Meta::dense(scores.dtype, &[-1]).with_lod_level(2))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (mut ids, mut scores) = (run.take("SentenceIds"), run.take("SentenceScores"));
        let steps = steps(run)?;
        for_float!(steps.scores[0].dtype(), run.input_name("Scores"), T => {
            let sources = trace_back::<T>(run, &steps)?;
            let mut offsets = [vec![0], vec![0]];
            let (mut words, mut costs) = (Vec::new(), Vec::new());
            for sentences in &sources {
                for sentence in sentences {
                    words.extend(sentence.words.iter().rev());
                    costs.extend(sentence.scores.iter().rev());
                    offsets[1].push(words.len());
                }
                offsets[0].push(offsets[1].len() - 1);
            }
            ids.resize::<i64>(Shape::from([words.len()])).copy_from_slice(&words);
            scores.resize::<T>(Shape::from([costs.len()])).copy_from_slice(&costs);
            ids.set_lod(Lod::from_offsets(offsets.to_vec()));
            Ok(())
        })?;
        scores.set_lod(ids.lod().clone());
        run.put("SentenceIds", ids);
        run.put("SentenceScores", scores);
        Ok(())
    }

    no_gradient!();
}

/// The lists of a run.
struct SearchSteps<'r> {
    ids: &'r [Tensor],
    scores: &'r [Tensor],
    n_sources: usize,
}

fn steps<'r>(run: &'r Run<'_>) -> Result<SearchSteps<'r>> {
    let list = |port: &str| match run.value(port)? {
        Value::Array(list) => Ok(&list[..]),
        other => Err(Error::WrongKind {
            port: port.to_string(),
            var: run.input_name(port).to_string(),
            expected: "a list of tensors",
            actual: other.kind(),
        }),
    };
    let (ids, scores) = (list("Ids")?, list("Scores")?);
    if ids.is_empty() || ids.len() != scores.len() {
        return Err(run.shapes(STEPS, "Ids", "Scores"));
    }
    let n_sources = ids[0].lod().levels().first().map_or(0, |level| level.len().saturating_sub(1));
    for (ids, scores) in ids.iter().zip(scores) {
        let checked = ids.lod().check(ids.dims().first().copied().unwrap_or(0));
        let fits = ids.lod().n_levels() == 2 && ids.lod().levels()[0].len() == n_sources + 1;
        if checked.is_err() || !fits || n_sources == 0 || ids.len() != scores.len() {
            return Err(run.shapes(STEPS, "Ids", "Scores"));
        }
    }
    Ok(SearchSteps { ids, scores, n_sources })
}

fn trace_back<T: Float>(run: &Run<'_>, steps: &SearchSteps<'_>) -> Result<Vec<Vec<Sentence<T>>>> {
    let (end_id, n_beams) = (run.attrs().int("end_id", 0)?, run.attrs().int("beam_size", 1)?);
    let n_beams =
        usize::try_from(n_beams).map_err(|_| bad_attr("beam_size", "positive", n_beams))?;
    let mut sources: Vec<Vec<Sentence<T>>> = (0..steps.n_sources).map(|_| Vec::new()).collect();
    for (ids, scores) in steps.ids.iter().zip(steps.scores).rev() {
        let (levels, words) = (ids.lod().levels(), ids.data::<i64>()?);
        let scores = scores.data::<T>()?;
        for (source, sentences) in sources.iter_mut().enumerate() {
            let rows = levels[0][source]..levels[0][source + 1];
            if sentences.is_empty() {
                for row in rows {
                    for at in levels[1][row]..levels[1][row + 1] {
                        sentences.push(Sentence {
                            words: vec![words[at]],
                            scores: vec![scores[at]],
                            row,
                        });
                    }
                }
                if sentences.len() > n_beams {
                    return Err(bad_attr("beam_size", "as many as there are candidates", n_beams));
                }
                continue;
            }
            for sentence in sentences {
                let at = sentence.row;
                if at >= words.len() {
                    return Err(run.shapes(STEPS, "Ids", "Scores"));
                }
                if words[at] != end_id {
                    sentence.words.push(words[at]);
                    sentence.scores.push(scores[at]);
                }
                sentence.row = levels[1].partition_point(|&start| start <= at) - 1;
            }
        }
    }
    for sentences in &mut sources {
        let last = |sentence: &Sentence<T>| sentence.scores[0].f64();
        sentences.sort_by(|a, b| last(b).total_cmp(&last(a)));
    }
    Ok(sources)
}

#[cfg(test)]
mod tests {
    use tensor::{Lod, Tensor, Value};

    use crate::error::Error;
    use crate::op::check::{Check, check, ids, t};

    fn lists(end: Vec<Vec<usize>>) -> Check {
        let step = |mut tensor: Tensor, levels: &[Vec<usize>]| {
            tensor.set_lod(Lod::from_offsets(levels.to_vec()));
            tensor
        };
        let first = vec![vec![0, 1], vec![0, 2]];
        let words = vec![step(ids(&[2, 1], &[1, 2]), &first), step(ids(&[2, 1], &[3, 9]), &end)];
        let scores =
            vec![step(t(&[2, 1], &[0.1, 0.2]), &first), step(t(&[2, 1], &[0.3, 0.4]), &end)];
        check("beam_search_decode")
            .input("Ids", Value::Array(words))
            .input("Scores", Value::Array(scores))
            .attr("beam_size", 2)
            .attr("end_id", 9)
    }

    #[test]
    fn follows_sentences_back() {
        let check =
            lists(vec![vec![0, 2], vec![0, 1, 2]]).output("SentenceIds").output("SentenceScores");
        let out = check.run("SentenceIds");
        let out = out.tensor().unwrap();
        assert_eq!(out.data::<i64>().unwrap(), [2, 9, 1, 3], "the better sentence comes first");
        assert_eq!(out.lod().levels(), [vec![0, 2], vec![0, 2, 4]]);
        let scores = check.run("SentenceScores");
        assert_eq!(scores.tensor().unwrap().data::<f64>().unwrap(), [0.2, 0.4, 0.1, 0.3]);
    }

    #[test]
    fn refuses_steps_that_do_not_fit() {
        let error = lists(vec![vec![0, 2]]).output("SentenceIds").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
        let check = lists(vec![vec![0, 2], vec![0, 1, 2]]).input("Ids", ids(&[1, 1], &[0]));
        let error = check.output("SentenceIds").fails();
        assert!(matches!(error.root(), Error::WrongKind { .. }), "{error}");
    }
}
