//! `nce`: noise-contrastive estimation. For each row, Cost = the sum over its labels of -log(o / (o + b)) and over drawn
//! classes of -log(b / (o + b)), times SampleWeight, where o = sigmoid(Input · Weight\[class\] + Bias\[class\]) and
//! b = `num_neg_samples` x the probability of the class.
//!
//! `sampler` is 0 (uniform), 1 (log-uniform) or 2 (CustomDist..); `custom_neg_classes` are taken instead of drawn ones.
//! A `seed` of 0 asks the host for another one each time. With `is_sparse` the gradient of Weight has a row for each
//! class of the batch, in their order.

use tensor::{DType, Float, Shape, Tensor};

use super::sampler::{Distribution, Sampler};
use super::sizes::bad_attr;
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::attr::Attrs;
use crate::error::{Error, Result};
use crate::var::{Meta, VarKind};

pub(super) struct Nce;
pub(super) struct NceGrad;

const INPUT: &str = "Input and Weight are matrices of the same width";
const LABEL: &str = "Label has a row for each row of Input";

/// What the attributes say.
struct NceOptions {
    n_classes: i64,
    n_drawn: usize,
    sampler: i64,
    custom: Vec<i64>,
}

impl NceOptions {
    fn of(attrs: &Attrs) -> Result<Self> {
        let n_classes = attrs.int("num_total_classes", 0)?;
        if !(1..=i64::from(i32::MAX)).contains(&n_classes) {
            return Err(bad_attr("num_total_classes", "positive", n_classes));
        }
        let drawn = attrs.int("num_neg_samples", 10)?;
        let n_drawn =
            usize::try_from(drawn).map_err(|_| bad_attr("num_neg_samples", "0 or more", drawn))?;
        let custom = attrs.ints("custom_neg_classes")?;
        if let Some(class) = custom.iter().find(|class| !(0..n_classes).contains(*class)) {
            return Err(bad_attr("custom_neg_classes", "classes", class));
        }
        if !custom.is_empty() && custom.len() != n_drawn {
            return Err(bad_attr("custom_neg_classes", "`num_neg_samples` classes", custom));
        }
        Ok(Self { n_classes, n_drawn, sampler: attrs.int("sampler", 0)?, custom })
    }

    fn sampler<'r>(&self, run: &'r Run<'_>, seed: u32) -> Result<Sampler<'r>> {
        let distribution = match self.sampler {
            0 => Distribution::Uniform,
            1 => Distribution::LogUniform,
            2 => {
                let probabilities = self.table::<f32>(run, "CustomDistProbs")?;
                let aliases = self.table::<i32>(run, "CustomDistAlias")?;
                if let Some(at) = aliases.iter().position(|&to| i64::from(to) >= self.n_classes) {
                    let (rule, var) = ("an alias is a class", run.input_name("CustomDistAlias"));
                    let value = f64::from(aliases[at]);
                    return Err(Error::BadValue {
                        rule,
                        var: var.to_string(),
                        position: at,
                        value,
                    });
                }
                let alias_probabilities = self.table::<f32>(run, "CustomDistAliasProbs")?;
                Distribution::Custom { probabilities, aliases, alias_probabilities }
            }
            other => return Err(bad_attr("sampler", "0, 1 or 2", other)),
        };
        Ok(Sampler::new(distribution, self.n_classes - 1, seed))
    }

    fn table<'r, T: tensor::Element>(&self, run: &'r Run<'_>, port: &str) -> Result<&'r [T]> {
        let data = run.data::<T>(port)?;
        if data.len() as i64 == self.n_classes {
            return Ok(data);
        }
        Err(run.shape("a number for each class is needed", port))
    }
}

/// Sizes of one run.
#[derive(Clone, Copy)]
struct NceSizes {
    n_rows: usize,
    width: usize,
    n_true: usize,
    n_weights: usize,
}

impl NceSizes {
    fn of(run: &Run<'_>) -> Result<Self> {
        let (x, weight) = (run.input("Input")?, run.input("Weight")?);
        let (&[n_rows, width], &[n_weights, columns]) = (x.dims(), weight.dims()) else {
            return Err(run.shapes(INPUT, "Input", "Weight"));
        };
        if width != columns {
            return Err(run.shapes(INPUT, "Input", "Weight"));
        }
        let n_true = match *run.input("Label")?.dims() {
            [n] if n == n_rows => 1,
            [n, n_true] if n == n_rows => n_true,
            _ => return Err(run.shapes(LABEL, "Input", "Label")),
        };
        if run.opt_input("Bias").is_some_and(|bias| bias.len() != n_weights) {
            return Err(run.shapes("Bias has a number for each row of Weight", "Bias", "Weight"));
        }
        if run.opt_input("SampleWeight").is_some_and(|weight| weight.len() != n_rows) {
            let rule = "SampleWeight has a number for each row of Input";
            return Err(run.shapes(rule, "SampleWeight", "Input"));
        }
        Ok(Self { n_rows, width, n_true, n_weights })
    }
}

impl Op for Nce {
    traits!(Never, "Input": [F32, F64], "Label": [I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let (x, label) = (infer.input("Input")?, infer.input("Label")?);
        let options = NceOptions::of(infer.attrs())?;
        let n_true = match *label.dims {
            [_] => 1,
            [_, n_true] => n_true,
            _ => return Err(infer.shapes(LABEL, "Input", "Label")),
        };
        let [n_rows, _] = *x.dims else { return Err(infer.shapes(INPUT, "Input", "Weight")) };
        let n_all = if n_true < 0 { -1 } else { n_true + options.n_drawn as i64 };
        infer.set_output("Cost", x.with_dims(vec![n_rows, 1]))?;
        infer.set_output("SampleLogits", Meta::dense(x.dtype, &[n_rows, n_all]))?;
        infer.set_output("SampleLabels", Meta::dense(DType::I64, &[n_rows, n_all]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let options = NceOptions::of(run.attrs())?;
        let seed = match run.attrs().int("seed", 0)? {
            0 => run.host().fresh_seed(),
            seed => seed as u32,
        };
        let (mut cost, mut logits) = (run.take("Cost"), run.take("SampleLogits"));
        let mut labels = run.take("SampleLabels");
        let sizes = NceSizes::of(run)?;
        let mut sampler = options.sampler(run, seed)?;
        draw_classes(run, &options, sizes, &mut sampler, &mut labels)?;
        let x = run.input("Input")?;
        for_float!(x.dtype(), run.input_name("Input"), T => {
            let classes = labels.data::<i64>()?;
            let logits = logits.resize::<T>(labels.shape());
            forward::<T>(run, sizes, classes, logits)?;
            let weights = run.opt_data::<T>("SampleWeight")?;
            let n_all = sizes.n_true + options.n_drawn;
            let cost = cost.resize::<T>(Shape::from([sizes.n_rows, 1]));
            for (row, cost) in cost.iter_mut().enumerate() {
                let weight = weights.map_or(1.0, |weights| weights[row]);
                *cost = 0.0;
                for j in 0..n_all {
                    let (class, o) = (classes[row * n_all + j], logits[row * n_all + j]);
                    let b = T::from(sampler.probability(class) * options.n_drawn as f32);
                    let hit = if j < sizes.n_true { o } else { b };
                    *cost -= weight * (hit / (o + b)).ln();
                }
            }
            Ok(())
        })?;
        cost.set_lod(x.lod().clone());
        run.put("Cost", cost);
        run.put("SampleLogits", logits);
        run.put("SampleLabels", labels);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let inputs = [
            "Input",
            "Label",
            "Weight",
            "Bias",
            "SampleWeight",
            "CustomDistProbs",
            "CustomDistAlias",
            "CustomDistAliasProbs",
        ];
        let keep = Keep::grads(&["Cost"], &["Input", "Weight", "Bias"]).inputs(&inputs);
        grad.emit_usual(keep.outputs(&["SampleLogits", "SampleLabels"]))
    }
}

/// The labels of each row, then drawn classes.
fn draw_classes(
    run: &Run<'_>,
    options: &NceOptions,
    sizes: NceSizes,
    sampler: &mut Sampler<'_>,
    out: &mut Tensor,
) -> Result<()> {
    let labels = run.data::<i64>("Label")?;
    let n_all = sizes.n_true.saturating_add(options.n_drawn);
    let out = out.try_resize::<i64>(Shape::from([sizes.n_rows, n_all]))?;
    for (row, out) in out.chunks_exact_mut(n_all.max(1)).enumerate() {
        let (own, others) = out.split_at_mut(sizes.n_true);
        own.copy_from_slice(&labels[row * sizes.n_true..(row + 1) * sizes.n_true]);
        if let Some(&label) = own.iter().find(|label| !(0..options.n_classes).contains(*label)) {
            let (var, n_classes) =
                (run.input_name("Label").to_string(), options.n_classes as usize);
            return Err(Error::LabelOutOfRange { var, row, label, n_classes });
        }
        if options.custom.is_empty() {
            others.fill_with(|| sampler.draw());
        } else {
            others.copy_from_slice(&options.custom);
        }
        let beyond = others.iter().find(|class| **class as usize >= sizes.n_weights);
        if beyond.is_some() || own.iter().any(|class| *class as usize >= sizes.n_weights) {
            return Err(run.shape("Weight has a row for each class", "Weight"));
        }
    }
    Ok(())
}

/// The sigmoid of each class's score.
fn forward<T: Float>(
    run: &Run<'_>,
    sizes: NceSizes,
    classes: &[i64],
    logits: &mut [T],
) -> Result<()> {
    let (x, weight) = (run.data::<T>("Input")?, run.data::<T>("Weight")?);
    let bias = run.opt_data::<T>("Bias")?;
    let (n_all, width) = (classes.len().checked_div(sizes.n_rows).unwrap_or(0), sizes.width);
    for (at, (logit, &class)) in logits.iter_mut().zip(classes).enumerate() {
        let (row, class) = (at / n_all, class as usize);
        let x = &x[row * width..(row + 1) * width];
        let weights = &weight[class * width..(class + 1) * width];
        let start = bias.map_or(T::zero(), |bias| bias[class]);
        let score = x.iter().zip(weights).fold(start, |sum, (&x, &w)| sum + x * w);
        *logit = T::one() / (T::one() + (-score).exp());
    }
    Ok(())
}

impl Kernel for NceGrad {
    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let weight = infer.input("Weight")?;
        let sparse = infer.attrs().bool("is_sparse", false)?;
        let kind = if sparse { VarKind::SelectedRows } else { VarKind::LodTensor };
        infer.set_output("Weight@GRAD", Meta { kind, ..weight })
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let options = NceOptions::of(run.attrs())?;
        let sizes = NceSizes::of(run)?;
        let mut slopes = run.spare().tensor();
        let (mut d_x, mut d_bias) = (run.take("Input@GRAD"), run.take("Bias@GRAD"));
        check_samples(run, &options, sizes)?;
        let x = run.input("Input")?;
        for_float!(x.dtype(), run.input_name("Input"), T => {
            let slopes = slopes.resize::<T>(run.input("SampleLabels")?.shape());
            score_slopes::<T>(run, &options, sizes, slopes)?;
            let classes = run.data::<i64>("SampleLabels")?;
            if run.wants("Bias@GRAD") {
                let d_bias = d_bias.resize_zeroed::<T>(run.input("Bias")?.shape());
                classes.iter().zip(&*slopes).for_each(|(&class, &d)| d_bias[class as usize] += d);
            }
            if run.wants("Input@GRAD") {
                let (width, weight) = (sizes.width, run.data::<T>("Weight")?);
                let d_x = d_x.resize_zeroed::<T>(x.shape());
                let n_all = sizes.n_true + options.n_drawn;
                for (at, (&class, &d)) in classes.iter().zip(&*slopes).enumerate() {
                    let row = at / n_all;
                    let d_x = &mut d_x[row * width..(row + 1) * width];
                    let weights = &weight[class as usize * width..][..width];
                    d_x.iter_mut().zip(weights).for_each(|(sum, &w)| *sum += d * w);
                }
            }
            Ok(())
        })?;
        d_x.set_lod(x.lod().clone());
        run.put("Input@GRAD", d_x);
        run.put("Bias@GRAD", d_bias);
        if run.wants("Weight@GRAD") {
            weight_grad(run, sizes, &slopes)?;
        }
        run.spare().keep(slopes);
        Ok(())
    }
}

/// What the forward op left fits the inputs.
fn check_samples(run: &Run<'_>, options: &NceOptions, sizes: NceSizes) -> Result<()> {
    let shape = Shape::from([sizes.n_rows, sizes.n_true.saturating_add(options.n_drawn)]);
    for port in ["SampleLabels", "SampleLogits"] {
        if run.input(port)?.shape() != shape {
            return Err(run.shapes("a number for each class of each row is needed", port, "Label"));
        }
    }
    if run.input("Cost@GRAD")?.len() != sizes.n_rows {
        return Err(run.shapes("a cost for each row is needed", "Cost@GRAD", "Input"));
    }
    let n_classes = sizes.n_weights.min(options.n_classes as usize);
    let classes = run.data::<i64>("SampleLabels")?;
    match classes.iter().position(|&class| !(0..n_classes as i64).contains(&class)) {
        None => Ok(()),
        Some(row) => {
            let (var, label) = (run.input_name("SampleLabels").to_string(), classes[row]);
            Err(Error::LabelOutOfRange { var, row, label, n_classes })
        }
    }
}

/// The derivative of the costs by each score.
fn score_slopes<T: Float>(
    run: &Run<'_>,
    options: &NceOptions,
    sizes: NceSizes,
    slopes: &mut [T],
) -> Result<()> {
    let sampler = options.sampler(run, 1)?;
    let (logits, d_cost) = (run.data::<T>("SampleLogits")?, run.data::<T>("Cost@GRAD")?);
    let weights = run.opt_data::<T>("SampleWeight")?;
    let n_all = sizes.n_true + options.n_drawn;
    let classes = run.data::<i64>("SampleLabels")?;
    for (at, slope) in slopes.iter_mut().enumerate() {
        let (row, o) = (at / n_all, logits[at]);
        let b = T::of(f64::from(sampler.probability(classes[at]) * options.n_drawn as f32));
        let weight = weights.map_or(T::one(), |weights| weights[row]);
        let own = at % n_all < sizes.n_true;
        let by_score = if own { b * (o - T::one()) } else { o * (T::one() - o) };
        *slope = weight * by_score / (o + b) * d_cost[row];
    }
    Ok(())
}

fn weight_grad(run: &mut Run<'_>, sizes: NceSizes, slopes: &Tensor) -> Result<()> {
    let sparse = run.attrs().bool("is_sparse", false)?;
    let (mut rows, mut dense) = if sparse {
        (Some(run.take_rows("Weight@GRAD")), Tensor::default())
    } else {
        (None, run.take("Weight@GRAD"))
    };
    let (width, classes) = (sizes.width, run.data::<i64>("SampleLabels")?);
    let shape = match &mut rows {
        Some(rows) => {
            rows.ids.clear();
            rows.ids.extend_from_slice(classes);
            rows.ids.sort_unstable();
            rows.ids.dedup();
            rows.height = sizes.n_weights as i64;
            Shape::from([rows.ids.len(), width])
        }
        None => run.input("Weight")?.shape(),
    };
    let n_all = classes.len().checked_div(sizes.n_rows).unwrap_or(0);
    for_float!(slopes.dtype(), run.input_name("Input"), T => {
        let x = run.data::<T>("Input")?;
        let (ids, target) = match &mut rows {
            Some(rows) => (Some(&rows.ids), &mut rows.value),
            None => (None, &mut dense),
        };
        let target = target.resize_zeroed::<T>(shape);
        for (at, (&class, &d)) in classes.iter().zip(slopes.data::<T>()?).enumerate() {
            let place = ids.map_or(class as usize, |ids| ids.partition_point(|&id| id < class));
            let x = &x[at / n_all * width..][..width];
            let target = &mut target[place * width..(place + 1) * width];
            target.iter_mut().zip(x).for_each(|(sum, &x)| *sum += d * x);
        }
        Ok(())
    })?;
    match rows {
        Some(rows) => run.put_rows("Weight@GRAD", rows),
        None => run.put("Weight@GRAD", dense),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tensor::Tensor;

    use crate::error::Error;
    use crate::op::check::{Check, check, ids, some, t};

    fn nce(sampler: i32) -> Check {
        let check = check("nce")
            .input("Input", t(&[2, 3], &[1.0; 6]))
            .input("Label", ids(&[2, 1], &[1, 5]))
            .input("Weight", t(&[6, 3], &[0.1; 18]))
            .input("Bias", t(&[6, 1], &[0.0; 6]))
            .attr("num_total_classes", 6)
            .attr("num_neg_samples", 4)
            .attr("sampler", sampler)
            .attr("seed", 5);
        if sampler < 2 {
            return check;
        }
        // The alias table that Fluid's layer makes of these probabilities.
        let probabilities = [0.1f32, 0.2, 0.3, 0.1, 0.2, 0.1];
        let alias_probabilities = [0.6f32, 0.8, 0.6, 0.6, 1.0, 0.6];
        let numbers = |data: &[f32]| Tensor::new([6], data).unwrap();
        check
            .input("CustomDistProbs", numbers(&probabilities))
            .input("CustomDistAlias", Tensor::new([6], &[1i32, 2, 4, 2, -1, 2]).unwrap())
            .input("CustomDistAliasProbs", numbers(&alias_probabilities))
    }

    /// Classes and costs that Fluid 1.8.5 gives for this seed.
    #[test]
    fn draws_and_costs_as_fluid() {
        nce(0)
            .output("SampleLogits")
            .within(1e-5)
            .gives("SampleLabels", ids(&[2, 5], &[1, 4, 0, 1, 4, 5, 0, 0, 0, 4]))
            .gives("Cost", t(&[2, 1], &[3.256242513656616, 3.256242513656616]));
        nce(1)
            .output("SampleLogits")
            .within(1e-5)
            .gives("SampleLabels", ids(&[2, 5], &[1, 2, 0, 0, 2, 5, 0, 0, 0, 2]))
            .gives("Cost", t(&[2, 1], &[2.855405569076538, 2.0554697513580322]));
    }

    fn with_weights(sparse: bool) -> Check {
        check("nce")
            .input("Input", some(&[2, 3]))
            .input("Label", ids(&[2, 2], &[1, 5, 0, 3]))
            .input("Weight", some(&[6, 3]))
            .input("Bias", some(&[6, 1]))
            .input("SampleWeight", t(&[2, 1], &[0.5, 2.0]))
            .attr("num_total_classes", 6)
            .attr("num_neg_samples", 3)
            .attr("custom_neg_classes", vec![2, 5, 2])
            .attr("is_sparse", sparse)
            .output("Cost")
            .aux("SampleLogits")
            .output("SampleLabels")
    }

    #[test]
    fn gradients_match_finite_differences() {
        with_weights(false).grad(&["Input", "Weight", "Bias"]);
        with_weights(true).grad(&["Input", "Weight", "Bias"]);
    }

    #[test]
    fn refuses_labels_and_classes_that_are_not_there() {
        let error = nce(0).input("Label", ids(&[2, 1], &[1, 6])).output("Cost").fails();
        assert!(matches!(error.root(), Error::LabelOutOfRange { label: 6, row: 1, .. }), "{error}");
        let error = nce(0).input("Weight", some(&[2, 3])).output("Cost").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
        for (attr, value) in [("sampler", 3), ("num_total_classes", 0), ("num_neg_samples", -1)] {
            let error = nce(0).attr(attr, value).output("Cost").fails();
            assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        }
        let error = nce(0).attr("custom_neg_classes", vec![1, 2, 3, 6]).output("Cost").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
    }
}
