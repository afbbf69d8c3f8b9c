//! `sample_logits`: of each row of Logits those of its labels and of `num_samples` drawn classes, the same for all rows and
//! none twice. SampledLogits = Logits\[class\] - log q, where q is the probability that the class is drawn, less 1e20
//! where a drawn class is a label of the row (`remove_accidental_hits`); SampledLabels = 0, 1, ...
//!
//! Classes are drawn log-uniformly, or they and their q are inputs (`use_customized_samples`).

use std::collections::HashSet;

use tensor::{DType, Float, Shape};

use super::sampler::{Distribution, Sampler};
use super::sizes::bad_attr;
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::error::{Error, Result};
use crate::var::Meta;

pub(super) struct SampleLogits;
pub(super) struct SampleLogitsGrad;

const RULE: &str = "Logits and Labels are matrices with a row for each sample";
const CUSTOM: &str =
    "customized samples and probabilities have a number for each label and each sample";
const FAR: f64 = 1e20;

/// Sizes of one run.
#[derive(Clone, Copy)]
struct LogitsSizes {
    n_rows: usize,
    n_classes: usize,
    n_true: usize,
    n_drawn: usize,
}

impl LogitsSizes {
    fn of(run: &Run<'_>) -> Result<Self> {
        let (logits, labels) = (run.input("Logits")?, run.input("Labels")?);
        let (&[n_rows, n_classes], &[n, n_true]) = (logits.dims(), labels.dims()) else {
            return Err(run.shapes(RULE, "Logits", "Labels"));
        };
        if n != n_rows {
            return Err(run.shapes(RULE, "Logits", "Labels"));
        }
        let n_drawn = usize::try_from(n_samples(run.attrs())?).unwrap_or(0);
        Ok(Self { n_rows, n_classes, n_true, n_drawn })
    }

    fn samples(&self) -> Shape {
        Shape::from([self.n_rows, self.n_true + self.n_drawn])
    }
}

fn n_samples(attrs: &crate::attr::Attrs) -> Result<i64> {
    let n = attrs.int("num_samples", 0)?;
    if (0..i64::from(i32::MAX)).contains(&n) {
        return Ok(n);
    }
    Err(bad_attr("num_samples", "0 or more", n))
}

impl Op for SampleLogits {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let (logits, labels) = (infer.input("Logits")?, infer.input("Labels")?);
        let (&[n_rows, n_classes], &[_, n_true]) = (&logits.dims[..], &labels.dims[..]) else {
            return Err(infer.shapes(RULE, "Logits", "Labels"));
        };
        let n_drawn = n_samples(infer.attrs())?;
        let n_all = if n_true < 0 { -1 } else { n_true + n_drawn };
        let sampled = Meta::dense(logits.dtype, &[n_rows, n_all]);
        infer.set_output("Samples", Meta::dense(DType::I64, &[n_rows, n_all]))?;
        infer.set_output("Probabilities", sampled.clone())?;
        infer.set_output("SampledLogits", sampled)?;
        infer.set_output("SampledLabels", Meta::dense(DType::I64, &[n_rows, n_true]))?;
        infer.set_output("LogitsDim", Meta::dense(logits.dtype, &[n_rows, n_classes, 0]))?;
        infer.set_output("LabelsDim", Meta::dense(DType::I64, &[n_rows, n_true, 0]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let seed = match run.attrs().int("seed", 0)? {
            0 => run.host().fresh_seed(),
            seed => seed as u32,
        };
        let (mut samples, mut probabilities) = (run.take("Samples"), run.take("Probabilities"));
        let (mut sampled, mut labels) = (run.take("SampledLogits"), run.take("SampledLabels"));
        let (mut logits_dim, mut labels_dim) = (run.take("LogitsDim"), run.take("LabelsDim"));
        let sizes = LogitsSizes::of(run)?;
        let logits = run.input("Logits")?;
        for_float!(logits.dtype(), run.input_name("Logits"), T => {
            if run.attrs().bool("use_customized_samples", false)? {
                let given = (run.input("CustomizedSamples")?, run.input("CustomizedProbabilities")?);
                if given.0.shape() != sizes.samples() || given.1.shape() != sizes.samples() {
                    return Err(run.shapes(CUSTOM, "CustomizedSamples", "CustomizedProbabilities"));
                }
                samples.copy_from(given.0);
                probabilities.copy_from(given.1);
            } else {
                let samples = samples.try_resize::<i64>(sizes.samples())?;
                draw(run, sizes, seed, samples, probabilities.try_resize::<T>(sizes.samples())?)?;
            }
            let classes = samples.data::<i64>()?;
            check_classes(run, sizes, classes)?;
            let removes = run.attrs().bool("remove_accidental_hits", true)?;
            let n_all = sizes.n_true + sizes.n_drawn;
            let (scores, chances) = (logits.data::<T>()?, probabilities.data::<T>()?);
            let sampled = sampled.try_resize::<T>(sizes.samples())?;
            for (at, sampled) in sampled.iter_mut().enumerate() {
                let (row, place) = (at / n_all, at % n_all);
                let own = &classes[row * n_all..][..sizes.n_true];
                let hit = removes && place >= sizes.n_true && own.contains(&classes[at]);
                let score = scores[row * sizes.n_classes + classes[at] as usize];
                let score = if hit { score - FAR as T } else { score };
                *sampled = bounded(score - bounded(chances[at].ln()));
            }
            Ok(())
        })?;
        let places = labels.resize::<i64>(Shape::from([sizes.n_rows, sizes.n_true]));
        places.iter_mut().enumerate().for_each(|(at, label)| *label = (at % sizes.n_true) as i64);
        logits_dim.resize_as(logits.dtype(), Shape::from([sizes.n_rows, sizes.n_classes, 0]));
        labels_dim.resize_as(DType::I64, Shape::from([sizes.n_rows, sizes.n_true, 0]));
        run.put("Samples", samples);
        run.put("Probabilities", probabilities);
        run.put("SampledLogits", sampled);
        run.put("SampledLabels", labels);
        run.put("LogitsDim", logits_dim);
        run.put("LabelsDim", labels_dim);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let keep = Keep::grads(&["SampledLogits"], &["Logits"]);
        grad.emit_usual(keep.outputs(&["LogitsDim", "LabelsDim", "Samples"]))
    }
}

/// Infinities become large numbers.
fn bounded<T: Float>(x: T) -> T {
    x.max(T::of(-FAR)).min(T::of(FAR))
}

/// The labels of each row with the classes drawn for all, and how likely each is to be among them.
fn draw<T: Float>(
    run: &Run<'_>,
    sizes: LogitsSizes,
    seed: u32,
    samples: &mut [i64],
    probabilities: &mut [T],
) -> Result<()> {
    if sizes.n_drawn > sizes.n_classes {
        return Err(bad_attr("num_samples", "no more than there are classes", sizes.n_drawn));
    }
    let mut sampler = Sampler::new(Distribution::LogUniform, sizes.n_classes as i64, seed);
    let (mut drawn, mut seen) = (Vec::new(), HashSet::new());
    let mut n_tries = 0;
    while drawn.len() < sizes.n_drawn {
        n_tries += 1;
        let class = sampler.draw();
        if seen.insert(class) {
            drawn.push(class);
        }
    }
    let labels = run.data::<i64>("Labels")?;
    let n_all = sizes.n_true + sizes.n_drawn;
    for (at, (sample, chance)) in samples.iter_mut().zip(probabilities).enumerate() {
        let (row, place) = (at / n_all, at % n_all);
        *sample = match place.checked_sub(sizes.n_true) {
            Some(place) => drawn[place],
            None => labels[row * sizes.n_true + place],
        };
        let once = f64::from(sampler.probability(*sample));
        *chance = T::of(if n_tries == sizes.n_drawn {
            once * sizes.n_drawn as f64
        } else {
            -(n_tries as f64 * (-once).ln_1p()).exp_m1()
        });
    }
    Ok(())
}

fn check_classes(run: &Run<'_>, sizes: LogitsSizes, classes: &[i64]) -> Result<()> {
    let n_all = (sizes.n_true + sizes.n_drawn).max(1);
    match classes.iter().position(|&class| !(0..sizes.n_classes as i64).contains(&class)) {
        None => Ok(()),
        Some(at) => Err(Error::LabelOutOfRange {
            var: run.input_name("Labels").to_string(),
            row: at / n_all,
            label: classes[at],
            n_classes: sizes.n_classes,
        }),
    }
}

/// dLogits\[class\] = the sum of dSampledLogits where it was taken.
impl Kernel for SampleLogitsGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run.make("Logits@GRAD", |run, d_logits| {
            let &[n_rows, n_classes, 0] = run.input("LogitsDim")?.dims() else {
                return Err(run.shape("LogitsDim ends with a 0", "LogitsDim"));
            };
            let (samples, d_sampled) = (run.input("Samples")?, run.input("SampledLogits@GRAD")?);
            let &[n, n_all] = samples.dims() else { return Err(run.shape(RULE, "Samples")) };
            if n != n_rows || samples.shape() != d_sampled.shape() {
                return Err(run.shapes(RULE, "Samples", "SampledLogits@GRAD"));
            }
            for_float!(d_sampled.dtype(), run.input_name("SampledLogits@GRAD"), T => {
                let d_logits = d_logits.resize_zeroed::<T>(Shape::from([n_rows, n_classes]));
                let sampled = samples.data::<i64>()?.iter().zip(d_sampled.data::<T>()?);
                for (at, (&class, &d)) in sampled.enumerate() {
                    let Some(class) = usize::try_from(class).ok().filter(|&c| c < n_classes) else {
                        let (var, row) = (run.input_name("Samples").to_string(), at / n_all);
                        return Err(Error::LabelOutOfRange { var, row, label: class, n_classes });
                    };
                    d_logits[at / n_all * n_classes + class] += d;
                }
                Ok(())
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, ids, some, t};

    fn customized() -> Check {
        check("sample_logits")
            .input("Logits", some(&[2, 4]))
            .input("Labels", ids(&[2, 1], &[1, 3]))
            .input("CustomizedSamples", ids(&[2, 3], &[1, 0, 3, 3, 0, 3]))
            .input("CustomizedProbabilities", t(&[2, 3], &[0.5, 0.25, 1.0, 0.5, 0.25, 1.0]))
            .attr("num_samples", 2)
            .attr("use_customized_samples", true)
    }

    #[test]
    fn subtracts_logs_and_removes_hits() {
        let (half, quarter) = (0.5f64.ln(), 0.25f64.ln());
        // The second row draws its label again.
        let sampled = [1.5 - half, -0.25 - quarter, 0.25, 0.5 - half, 2.0 - 1.75 - quarter, -1e20];
        let logits = t(&[2, 4], &[-0.25, 1.5, 0.5, 0.25, 0.25, 2.0, 1.0, 0.5]);
        customized()
            .input("Logits", logits)
            .output("LogitsDim")
            .output("LabelsDim")
            .gives("SampledLabels", ids(&[2, 1], &[0, 0]))
            .gives("SampledLogits", t(&[2, 3], &sampled));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        customized()
            .attr("remove_accidental_hits", false)
            .output("SampledLogits")
            .output("SampledLabels")
            .aux("Probabilities")
            .output("Samples")
            .aux("LogitsDim")
            .output("LabelsDim")
            .grad(&["Logits"]);
    }

    #[test]
    fn refuses_more_samples_than_classes_and_bad_labels() {
        let drawn = |n: i32, label: i64| {
            let check = check("sample_logits").input("Logits", some(&[1, 4]));
            let check = check.input("Labels", ids(&[1, 1], &[label])).attr("num_samples", n);
            check.attr("seed", 3).output("SampledLogits").fails()
        };
        let error = drawn(5, 0);
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        let error = drawn(2, 4);
        assert!(matches!(error.root(), Error::LabelOutOfRange { label: 4, .. }), "{error}");
    }
}
