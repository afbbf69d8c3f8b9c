//! `beam_search`: of the candidates of each source (a stretch of rows at `level` of the sequences of `scores`) the `beam_size` best, with the rows
//! that they follow. A row whose `pre_ids` is `end_id` has itself as its only candidate. `is_accumulated` says that scores count all
//! steps; otherwise their log is added to `pre_scores`. A source whose rows have all ended is left without candidates.

use tensor::{DType, Float, Lod, Shape};

use super::sizes::bad_attr;
use super::{Infer, Op, Run, for_float, no_gradient, traits};
use crate::error::{Error, Result};
use crate::var::Meta;

pub(super) struct BeamSearch;

const ROWS: &str = "pre_ids, pre_scores, ids and scores have as many rows";

/// A way to go on.
#[derive(Clone, Copy)]
struct Candidate<T> {
    row: usize,
    id: i64,
    score: T,
}

/// What the attributes say.
struct BeamRules {
    n_beams: usize,
    end_id: i64,
    accumulated: bool,
}

impl BeamRules {
    fn of(run: &Run<'_>) -> Result<Self> {
        let attrs = run.attrs();
        let n = attrs.int("beam_size", 1)?;
        let n_beams = usize::try_from(n).ok().filter(|&n| n > 0);
        Ok(Self {
            n_beams: n_beams.ok_or_else(|| bad_attr("beam_size", "positive", n))?,
            end_id: attrs.int("end_id", 0)?,
            accumulated: attrs.bool("is_accumulated", true)?,
        })
    }

    /// The best candidates of rows, best first; of equal ones the later row is better.
    fn best<T: Float>(&self, candidates: impl Iterator<Item = Candidate<T>>) -> Vec<Candidate<T>> {
        let mut best: Vec<Candidate<T>> = Vec::new();
        let less = |a: &Candidate<T>, b: &Candidate<T>| {
            a.score < b.score || (a.score == b.score && a.row < b.row)
        };
        for candidate in candidates {
            if best.len() == self.n_beams && less(&candidate, &best[self.n_beams - 1]) {
                continue;
            }
            best.truncate(self.n_beams - 1);
            let place =
                best.iter().rposition(|other| !less(other, &candidate)).map_or(0, |at| at + 1);
            best.insert(place, candidate);
        }
        best
    }
}

impl Op for BeamSearch {
    traits!(Never, "pre_ids": [I64], "pre_scores": [F32, F64], "scores": [F32, F64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let scores = infer.input("pre_scores")?;
        let ids = Meta::dense(DType::I64, &[-1, 1]).with_lod_level(2);
        infer.set_output("selected_ids", ids)?;
        infer.set_output("selected_scores", scores.with_dims(vec![-1, 1]).with_lod_level(2))?;
        infer.set_output("parent_idx", Meta::dense(DType::I32, &[-1]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let rules = BeamRules::of(run)?;
        let (mut ids, mut scores) = (run.take("selected_ids"), run.take("selected_scores"));
        let mut parents = run.take("parent_idx");
        let sources = sources(run)?;
        let given = run.input("scores")?;
        for_float!(given.dtype(), run.input_name("scores"), T => {
            let selected = select::<T>(run, &rules, &sources)?;
            let mut places = vec![0];
            for of_row in &selected {
                places.push(places[places.len() - 1] + of_row.len());
            }
            let n = places[places.len() - 1];
            let all = || selected.iter().flatten();
            let fill = ids.resize::<i64>(Shape::from([n, 1])).iter_mut();
            fill.zip(all()).for_each(|(id, candidate)| *id = candidate.id);
            let fill = scores.resize::<T>(Shape::from([n, 1])).iter_mut();
            fill.zip(all()).for_each(|(score, candidate)| *score = candidate.score);
            let fill = parents.resize::<i32>(Shape::from([n])).iter_mut();
            fill.zip(all()).for_each(|(parent, candidate)| *parent = candidate.row as i32);
            ids.set_lod(Lod::from_offsets(vec![sources, places]));
            Ok(())
        })?;
        scores.set_lod(ids.lod().clone());
        run.put("selected_ids", ids);
        run.put("selected_scores", scores);
        run.put("parent_idx", parents);
        Ok(())
    }

    no_gradient!();
}

/// Which rows belong to each source, as offsets.
fn sources(run: &Run<'_>) -> Result<Vec<usize>> {
    let scores = run.input("scores")?;
    let (lod, n_rows) = (scores.lod(), scores.dims().first().copied().unwrap_or(0));
    let (op, var) = ("BeamSearchOp", run.input_name("scores").to_string());
    lod.check(n_rows).map_err(|source| run.in_var("scores", source.into()))?;
    let level = run.attrs().int("level", 0)?;
    let at = usize::try_from(level).ok().filter(|&at| at < lod.n_levels());
    let Some(at) = at else {
        return Err(Error::LodLevels {
            op,
            var,
            expected: level.max(0) as usize + 1,
            actual: lod.n_levels(),
        });
    };
    let mut offsets = lod.levels()[at].clone();
    for inner in &lod.levels()[at + 1..] {
        offsets.iter_mut().for_each(|offset| *offset = inner[*offset]);
    }
    Ok(offsets)
}

/// The candidates that go on from each row.
fn select<T: Float>(
    run: &Run<'_>,
    rules: &BeamRules,
    sources: &[usize],
) -> Result<Vec<Vec<Candidate<T>>>> {
    let scores = run.input("scores")?;
    let (n_rows, width) = scores.shape().flatten_2d(1);
    let (pre_ids, pre_scores) = (run.data::<i64>("pre_ids")?, run.data::<T>("pre_scores")?);
    let (ids, scores) = (run.opt_data::<i64>("ids")?, scores.data::<T>()?);
    if pre_ids.len() < n_rows
        || pre_scores.len() < n_rows
        || ids.is_some_and(|ids| ids.len() != scores.len())
    {
        return Err(run.shapes(ROWS, "pre_ids", "scores"));
    }
    let mut selected = vec![Vec::new(); sources.last().copied().unwrap_or(0)];
    for pair in sources.windows(2) {
        let candidates = (pair[0]..pair[1]).flat_map(|row| {
            let ended = pre_ids[row] == rules.end_id;
            (0..if ended { 1 } else { width }).map(move |column| {
                let at = row * width + column;
                if ended {
                    return Candidate { row, id: rules.end_id, score: pre_scores[row] };
                }
                let id = ids.map_or(column as i64, |ids| ids[at]);
                let score =
                    if rules.accumulated { scores[at] } else { pre_scores[row] + scores[at].ln() };
                Candidate { row, id, score }
            })
        });
        let best = rules.best(candidates);
        let goes_on = |candidate: &Candidate<T>| {
            candidate.id != rules.end_id || pre_ids[candidate.row] != rules.end_id
        };
        if best.iter().any(goes_on) {
            best.into_iter().for_each(|candidate| selected[candidate.row].push(candidate));
        }
    }
    Ok(selected)
}

#[cfg(test)]
mod tests {
    use tensor::{Lod, Tensor};

    use crate::error::Error;
    use crate::op::check::{Check, check, ids, t};

    fn with_lod(mut tensor: Tensor, levels: Vec<Vec<usize>>) -> Tensor {
        tensor.set_lod(Lod::from_offsets(levels));
        tensor
    }

    fn search() -> Check {
        let scores = t(&[4, 2], &[0.5, 0.3, 0.9, 0.5, 0.5, 0.2, 0.8, 0.1]);
        let scores = with_lod(scores, vec![vec![0, 2, 4], vec![0, 1, 2, 3, 4]]);
        check("beam_search")
            .input("pre_ids", ids(&[4, 1], &[1, 2, 3, 0]))
            .input("pre_scores", t(&[4, 1], &[0.1, 0.2, 0.3, 0.4]))
            .input("ids", ids(&[4, 2], &[4, 2, 5, 2, 1, 3, 5, 3]))
            .input("scores", scores)
            .attr("beam_size", 2)
            .attr("end_id", 0)
    }

    #[test]
    fn keeps_the_best_of_each_source() {
        let lod = vec![vec![0, 2, 4], vec![0, 0, 2, 3, 4]];
        search()
            .gives("selected_ids", with_lod(ids(&[4, 1], &[5, 2, 1, 0]), lod.clone()))
            .gives("selected_scores", with_lod(t(&[4, 1], &[0.9, 0.5, 0.5, 0.4]), lod))
            .gives("parent_idx", Tensor::new([4], &[1i32, 1, 2, 3]).unwrap());
    }

    #[test]
    fn leaves_a_source_that_ended_without_candidates() {
        let out = search().input("pre_ids", ids(&[4, 1], &[1, 2, 0, 0])).output("selected_ids");
        let out = out.run("selected_ids");
        let out = out.tensor().unwrap();
        assert_eq!(out.data::<i64>().unwrap(), [5, 2]);
        assert_eq!(out.lod().levels()[1], [0, 0, 2, 2, 2]);
    }

    #[test]
    fn refuses_a_level_that_is_not_there() {
        let error = search().attr("level", 2).output("selected_ids").fails();
        assert!(matches!(error.root(), Error::LodLevels { .. }), "{error}");
        let error = search().attr("beam_size", 0).output("selected_ids").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        let error = search().input("pre_ids", ids(&[1, 1], &[1])).output("selected_ids").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
