//! `chunk_eval`: Precision, Recall and F1-Score of the chunks that tags stand for, with how many chunks there are in Inference and Label
//! and in both. A tag is (type of chunk) x (tags of `chunk_scheme`) + (tag); the highest is outside of chunks.

use tensor::{DType, Shape};

use super::ragged;
use super::sizes::bad_attr;
use super::{Infer, Op, Run, no_gradient, traits};
use crate::attr::Attrs;
use crate::error::{Error, Result};
use crate::var::Meta;

pub(super) struct ChunkEval;

const OP: &str = "ChunkEvalOp";
const SAME: &str = "Inference and Label have one shape and the same sequences";
const LENGTHS: &str =
    "without sequences, tags are a matrix and SeqLength has a length for each row";

/// What a tag says of its place in a chunk.
#[derive(Clone, Copy, PartialEq)]
enum TagPlace {
    Begin,
    Inside,
    End,
    Single,
    /// The scheme has chunks of one type after the other and nothing more.
    Plain,
}

/// A stretch of tags of one type.
#[derive(Clone, Copy, PartialEq)]
struct Chunk {
    begin: usize,
    last: usize,
    kind: i64,
}

/// How tags are read.
struct Scheme {
    places: &'static [TagPlace],
    n_types: i64,
    excluded: Vec<i64>,
}

impl Scheme {
    fn of(attrs: &Attrs) -> Result<Self> {
        let places: &[TagPlace] = match attrs.str("chunk_scheme", "IOB")? {
            "IOB" => &[TagPlace::Begin, TagPlace::Inside],
            "IOE" => &[TagPlace::Inside, TagPlace::End],
            "IOBES" => &[TagPlace::Begin, TagPlace::Inside, TagPlace::End, TagPlace::Single],
            "plain" => &[TagPlace::Plain],
            other => return Err(bad_attr("chunk_scheme", "IOB, IOE, IOBES or plain", other)),
        };
        let n_types = attrs.int("num_chunk_types", 0)?;
        if n_types < 0 {
            return Err(bad_attr("num_chunk_types", "0 or more", n_types));
        }
        Ok(Self { places, n_types, excluded: attrs.ints("excluded_chunk_types")? })
    }

    /// The chunks of a sequence.
    fn chunks(&self, tags: &[i64]) -> Vec<Chunk> {
        let (mut chunks, mut start) = (Vec::new(), None);
        let n_places = self.places.len() as i64;
        let mut before = (TagPlace::Plain, self.n_types);
        for (at, &tag) in tags.iter().enumerate() {
            let now = (self.places[(tag % n_places) as usize], tag / n_places);
            if let Some(begin) = start
                && self.ends(before, now)
            {
                chunks.push(Chunk { begin, last: at - 1, kind: before.1 });
                start = None;
            }
            if self.begins(before, now) {
                start = Some(at);
            }
            before = now;
        }
        if let Some(begin) = start {
            chunks.push(Chunk { begin, last: tags.len() - 1, kind: before.1 });
        }
        chunks
    }

    fn ends(&self, before: (TagPlace, i64), now: (TagPlace, i64)) -> bool {
        if before.1 == self.n_types {
            return false;
        }
        if now.1 == self.n_types || now.1 != before.1 {
            return true;
        }
        match before.0 {
            TagPlace::Begin | TagPlace::Inside => {
                matches!(now.0, TagPlace::Begin | TagPlace::Single)
            }
            TagPlace::End | TagPlace::Single => true,
            TagPlace::Plain => false,
        }
    }

    fn begins(&self, before: (TagPlace, i64), now: (TagPlace, i64)) -> bool {
        if before.1 == self.n_types || now.1 == self.n_types {
            return now.1 != self.n_types && before.1 == self.n_types;
        }
        if now.1 != before.1 {
            return true;
        }
        match now.0 {
            TagPlace::Begin | TagPlace::Single => true,
            TagPlace::Inside | TagPlace::End => {
                matches!(before.0, TagPlace::End | TagPlace::Single)
            }
            TagPlace::Plain => false,
        }
    }

    fn counts(&self, chunks: &[Chunk]) -> i64 {
        chunks.iter().filter(|chunk| self.takes(chunk)).count() as i64
    }

    fn takes(&self, chunk: &Chunk) -> bool {
        !self.excluded.contains(&chunk.kind)
    }
}

impl Op for ChunkEval {
    traits!(Never, "Inference": [I64], "Label": [I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        Scheme::of(infer.attrs())?;
        for port in ["Precision", "Recall", "F1-Score"] {
            infer.set_output(port, Meta::dense(DType::F32, &[1]))?;
        }
        for port in ["NumInferChunks", "NumLabelChunks", "NumCorrectChunks"] {
            infer.set_output(port, Meta::dense(DType::I64, &[1]))?;
        }
        Ok(())
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let scheme = Scheme::of(run.attrs())?;
        let (mut n_inferred, mut n_labelled) = (0, 0);
        let mut n_correct = 0;
        for [inferred, labelled] in sequences(run, &scheme)? {
            let (inferred, labelled) = (scheme.chunks(inferred), scheme.chunks(labelled));
            n_inferred += scheme.counts(&inferred);
            n_labelled += scheme.counts(&labelled);
            let both =
                inferred.iter().filter(|chunk| scheme.takes(chunk) && labelled.contains(chunk));
            n_correct += both.count() as i64;
        }
        let share = |of: i64| if of == 0 { 0.0 } else { n_correct as f32 / of as f32 };
        let (precision, recall) = (share(n_inferred), share(n_labelled));
        let f1 = if n_correct == 0 { 0.0 } else { 2.0 * precision * recall / (precision + recall) };
        for (port, value) in [("Precision", precision), ("Recall", recall), ("F1-Score", f1)] {
            run.make(port, |_, out| {
                out.resize::<f32>(Shape::from([1]))[0] = value;
                Ok(())
            })?;
        }
        let counts = [
            ("NumInferChunks", n_inferred),
            ("NumLabelChunks", n_labelled),
            ("NumCorrectChunks", n_correct),
        ];
        for (port, value) in counts {
            run.make(port, |_, out| {
                out.resize::<i64>(Shape::from([1]))[0] = value;
                Ok(())
            })?;
        }
        Ok(())
    }

    no_gradient!();
}

/// Inferred and labelled tags of each sequence.
fn sequences<'r>(run: &'r Run<'_>, scheme: &Scheme) -> Result<Vec<[&'r [i64]; 2]>> {
    let (inference, label) = (run.input("Inference")?, run.input("Label")?);
    if inference.shape() != label.shape() || inference.lod() != label.lod() {
        return Err(run.shapes(SAME, "Inference", "Label"));
    }
    let (inferred, labelled) = (run.data::<i64>("Inference")?, run.data::<i64>("Label")?);
    let n_tags = scheme.n_types.saturating_mul(scheme.places.len() as i64);
    for (port, tags) in [("Inference", inferred), ("Label", labelled)] {
        if let Some(position) = tags.iter().position(|tag| !(0..=n_tags).contains(tag)) {
            let (rule, var) =
                ("a tag belongs to a type of chunk", run.input_name(port).to_string());
            return Err(Error::BadValue { rule, var, position, value: tags[position] as f64 });
        }
    }
    if label.lod().is_empty() {
        let (lengths, width) = (run.data::<i64>("SeqLength")?, ragged::width(label));
        let n_rows = label.dims().first().copied().unwrap_or(0);
        if lengths.len() > n_rows || lengths.iter().any(|n| !(0..=width as i64).contains(n)) {
            return Err(run.shapes(LENGTHS, "Label", "SeqLength"));
        }
        let row = |(row, &n): (usize, &i64)| {
            [inferred, labelled].map(|tags| &tags[row * width..][..n as usize])
        };
        return Ok(lengths.iter().enumerate().map(row).collect());
    }
    let offsets = ragged::only_offsets(run, OP, "Label")?;
    let width = ragged::width(label);
    let between =
        |pair: &[usize]| [inferred, labelled].map(|tags| &tags[pair[0] * width..pair[1] * width]);
    Ok(offsets.windows(2).map(between).collect())
}

#[cfg(test)]
mod tests {
    use tensor::Tensor;

    use crate::error::Error;
    use crate::op::check::{Check, check, ids, seq};

    // B-0 I-0 O B-1 against B-0 I-0 O B-0.
    fn tags() -> Check {
        check("chunk_eval")
            .input("Inference", seq(ids(&[6, 1], &[0, 1, 4, 2, 0, 0]), &[4, 2]))
            .input("Label", seq(ids(&[6, 1], &[0, 1, 4, 0, 0, 0]), &[4, 2]))
            .attr("num_chunk_types", 2)
            .attr("chunk_scheme", "IOB")
    }

    #[test]
    fn counts_chunks() {
        let number = |value: f32| Tensor::new([1], &[value]).unwrap();
        tags()
            .gives("NumInferChunks", ids(&[1], &[4]))
            .gives("NumLabelChunks", ids(&[1], &[4]))
            .gives("NumCorrectChunks", ids(&[1], &[3]))
            .gives("Precision", number(0.75))
            .gives("Recall", number(0.75))
            .gives("F1-Score", number(0.75));
        tags()
            .attr("excluded_chunk_types", vec![0])
            .gives("NumInferChunks", ids(&[1], &[1]))
            .gives("NumLabelChunks", ids(&[1], &[0]))
            .gives("F1-Score", number(0.0));
    }

    #[test]
    fn reads_all_schemes_and_rows_that_are_filled_up() {
        for (scheme, expected) in [("IOB", 3), ("IOE", 1), ("IOBES", 3), ("plain", 1)] {
            let inference = ids(&[1, 4], &[0, 0, 0, 0]);
            let check = check("chunk_eval").input("Inference", inference.clone());
            let check = check.input("Label", inference).input("SeqLength", ids(&[1], &[3]));
            let check = check.attr("num_chunk_types", 2).attr("chunk_scheme", scheme);
            check.gives("NumInferChunks", ids(&[1], &[expected]));
        }
    }

    #[test]
    fn refuses_tags_and_schemes_that_are_not_there() {
        let beyond = seq(ids(&[6, 1], &[0, 1, 5, 0, 0, 0]), &[4, 2]);
        let error = tags().input("Label", beyond).output("Recall").fails();
        assert!(matches!(error.root(), Error::BadValue { position: 2, .. }), "{error}");
        let error = tags().attr("chunk_scheme", "BIO").output("Recall").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        let other = seq(ids(&[6, 1], &[0; 6]), &[3, 3]);
        let error = tags().input("Label", other).output("Recall").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
