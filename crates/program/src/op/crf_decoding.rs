//! `crf_decoding`: ViterbiPath = the tags of the highest score of each chain (see
//! `linear_chain_crf`); of equals, the lowest tags.
//!
//! With Label it is 1 where the tag is the labelled one, else 0. Padding is 0.

use tensor::{DType, Float, Shape};

use super::chains::{self, Chains};
use super::{Infer, Op, Run, for_float, traits};
use crate::error::Result;

pub(super) struct CrfDecoding;

const OP: &str = "CRFDecodingOp";

impl Op for CrfDecoding {
    traits!(Never, "Emission": [F32, F64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        chains::infer(infer)?;
        let emission = infer.input("Emission")?;
        let dims = match emission.dims[..] {
            [n_rows, _] => vec![n_rows, 1],
            [batch, n_steps, ..] => vec![batch, n_steps],
            _ => Vec::new(),
        };
        infer.set_output("ViterbiPath", emission.with_dims(dims).with_dtype(DType::I64))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut path = run.take("ViterbiPath");
        let chains = Chains::of(run, OP)?;
        let labels = if run.n_inputs("Label") > 0 { Some(chains.labels(run)?) } else { None };
        let (emission, d) = (run.input("Emission")?, chains.n_tags);
        let shape = match *emission.dims() {
            [batch, n_steps, _] => Shape::from([batch, n_steps]),
            _ => Shape::from([chains.n_rows, 1]),
        };
        let tags = path.resize_zeroed::<i64>(shape);
        for_float!(emission.dtype(), run.input_name("Emission"), T => {
            let (x, w) = (emission.data::<T>()?, run.data::<T>("Transition")?);
            let mut decoder = Decoder { score: Vec::new(), from: Vec::new() };
            for &(start, n) in &chains.spans {
                let x = &x[start * d..(start + n) * d];
                decoder.decode(w, x, &mut tags[start..start + n]);
                if let Some(labels) = labels {
                    for row in start..start + n {
                        tags[row] = i64::from(tags[row] == labels[row]);
                    }
                }
            }
            Ok(())
        })?;
        path.set_lod(emission.lod().clone());
        run.put("ViterbiPath", path);
        Ok(())
    }
}

/// Memory of the search, used for one chain after the other.
struct Decoder<T> {
    /// The score of the best path to each tag of each row.
    score: Vec<T>,
    /// The tag before it on that path.
    from: Vec<usize>,
}

impl<T: Float> Decoder<T> {
    /// Writes the best tags of one chain.
    fn decode(&mut self, w: &[T], x: &[T], tags: &mut [i64]) {
        let Some(last) = tags.len().checked_sub(1) else { return };
        let d = x.len() / tags.len();
        let (ends, pairs) = w.split_at(2 * d);
        let Self { score, from } = self;
        score.clear();
        from.clear();
        score.extend(x[..d].iter().zip(ends).map(|(&x, &start)| start + x));
        from.resize(d, 0);
        for at in (d..x.len()).step_by(d) {
            for j in 0..d {
                let (tag, best) = best((0..d).map(|i| score[at - d + i] + pairs[i * d + j]));
                score.push(best + x[at + j]);
                from.push(tag);
            }
        }
        let (mut tag, _) = best(score[last * d..].iter().zip(&ends[d..]).map(|(&s, &end)| s + end));
        for row in (0..tags.len()).rev() {
            tags[row] = tag as i64;
            tag = from[row * d + tag];
        }
    }
}

/// The first of the largest values.
fn best<T: Float>(values: impl Iterator<Item = T>) -> (usize, T) {
    let start = (0, T::neg_infinity());
    values
        .enumerate()
        .fold(start, |best, (k, value)| if value > best.1 { (k, value) } else { best })
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, ids, seq, t};

    const X: [f64; 15] = [
        -0.56, 0.74, -0.59, 0.84, -0.02, 0.22, 0.53, 0.04, -0.41, -0.62, -0.84, 0.48, -0.12, -0.68,
        0.76,
    ];
    const W: [f64; 15] = [
        -0.45, -0.17, -0.41, 0.26, 0.16, 0.2, -0.47, -0.43, -0.49, -0.34, -0.71, -0.67, 0.93, 0.92,
        -0.62,
    ];

    fn decode(lengths: &[usize]) -> Check {
        check("crf_decoding")
            .input("Emission", seq(t(&[5, 3], &X), lengths))
            .input("Transition", t(&[5, 3], &W))
    }

    /// Paths that Fluid 1.8.5 found for the op `crf_decoding` with these inputs.
    #[test]
    fn finds_the_path_that_fluid_finds() {
        decode(&[2, 3]).gives("ViterbiPath", seq(ids(&[5, 1], &[1, 0, 0, 2, 0]), &[2, 3]));
        decode(&[2, 0, 3]).gives("ViterbiPath", seq(ids(&[5, 1], &[1, 0, 0, 2, 0]), &[2, 0, 3]));
        let labels = seq(ids(&[5, 1], &[0, 2, 1, 1, 0]), &[2, 3]);
        let right = seq(ids(&[5, 1], &[0, 0, 0, 0, 1]), &[2, 3]);
        decode(&[2, 3]).input("Label", labels).gives("ViterbiPath", right);
    }

    #[test]
    fn reads_padded_chains() {
        let x = [&X[..6], &[0.0; 3], &X[6..]].concat();
        let padded = check("crf_decoding")
            .input("Emission", t(&[2, 3, 3], &x))
            .input("Transition", t(&[5, 3], &W))
            .input("Length", ids(&[2], &[2, 3]));
        padded.gives("ViterbiPath", ids(&[2, 3], &[1, 0, 0, 0, 2, 0]));
    }

    #[test]
    fn takes_the_lowest_of_equals_and_refuses_other_sizes() {
        check("crf_decoding")
            .input("Emission", seq(t(&[2, 3], &[0.0; 6]), &[2]))
            .input("Transition", t(&[5, 3], &[0.0; 15]))
            .gives("ViterbiPath", seq(ids(&[2, 1], &[0, 0]), &[2]));
        let wrong = check("crf_decoding").input("Emission", seq(t(&[1, 3], &X[..3]), &[1]));
        let error = wrong.input("Transition", t(&[3, 3], &W[..9])).output("ViterbiPath").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
