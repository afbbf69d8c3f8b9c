//! Whether a program computes each sample of a batch alone.
//!
//! Then samples of several callers can be computed as one batch, and a large batch in parts. Each op answers for
//! itself ([`Traits::by_sample`](super::Traits::by_sample)); if one of them may look at the whole batch, its program
//! is left alone.

use std::collections::{HashMap, HashSet};

use crate::attr::Attrs;
use crate::block::OpDesc;
use crate::names::EMPTY;
use crate::program::Program;

/// How the rows of an op's results follow from those of its inputs.
///
/// All but [`BySample::Never`] promise also that the op gives the same numbers for the same inputs.
#[derive(Clone, Copy, Debug)]
pub enum BySample {
    /// A row may depend on other rows or on chance, or the op has an effect beside its results.
    Never,
    /// It reads no rows: its results are the same in every run.
    Constant,
    /// A row of the results depends on that of the variables at this port; no other port has rows.
    Rows(&'static str),
    /// All of these ports have rows, and a row of the results depends on theirs.
    All(&'static [&'static str]),
    /// As [`BySample::Rows`], if this attribute, which has a default, names a dimension after that of the samples.
    Inner(&'static str, &'static str, i64),
    /// It depends on attributes and shapes.
    When(fn(&OpOnRows<'_>) -> bool),
}

/// Whether each of `fetches` has rows that depend on their own sample only, if `feeds` have a row or a sequence
/// for each sample.
pub fn computes_by_sample(program: &Program, feeds: &[String], fetches: &[String]) -> bool {
    let mut rows: HashSet<&str> = feeds.iter().map(String::as_str).collect();
    let persistable = |name: &str| program.find_var(0, name).is_some_and(|var| var.persistable);
    for op in &program.block(0).ops {
        // The executor does these by itself.
        if op.kind == "feed" || op.kind == "fetch" {
            continue;
        }
        // A parameter that changes, or another block: the answer is not known.
        let changes = op.writes().any(persistable) && !op.traits().keeps_averages;
        if !op.sub_blocks().is_empty() || changes {
            return false;
        }
        let of_samples = OpOnRows { op, program, rows: &rows };
        if op.reads().any(|var| rows.contains(var)) {
            if !of_samples.is_by_sample() {
                return false;
            }
            rows.extend(op.writes());
        } else if !of_samples.is_constant() {
            return false;
        }
    }
    fetches.iter().all(|name| rows.contains(name.as_str()))
}

/// The ops of block 0 that give the same numbers in every run, in order: they read parameters that do not
/// change, and each other.
pub fn constant_ops(program: &Program) -> Vec<usize> {
    let all = || program.blocks().iter().flat_map(|block| &block.ops);
    let mut n_written: HashMap<&str, usize> = HashMap::new();
    all().flat_map(|op| op.writes()).for_each(|var| *n_written.entry(var).or_default() += 1);
    let is_persistable =
        |var: &str| program.find_var(0, var).is_some_and(|var| var.persistable && !var.is_data);
    let (mut constant, mut made) = (Vec::new(), HashSet::new());
    for (at, op) in program.block(0).ops.iter().enumerate() {
        let is_steady =
            |var: &str| made.contains(var) || is_persistable(var) && !n_written.contains_key(var);
        let is_new = |var: &str| n_written.get(var) == Some(&1) && !is_persistable(var);
        let is_plain = OpOnRows { op, program, rows: &HashSet::new() }.is_constant()
            && op.sub_blocks().is_empty();
        if is_plain && op.reads().all(is_steady) && op.writes().all(is_new) {
            constant.push(at);
            made.extend(op.writes());
        }
    }
    constant
}

/// An op of a program, and the variables that have a row for each sample.
#[derive(Debug)]
pub struct OpOnRows<'a> {
    op: &'a OpDesc,
    program: &'a Program,
    rows: &'a HashSet<&'a str>,
}

impl OpOnRows<'_> {
    /// Whether it gives the same numbers in every run, from parameters or from nothing.
    fn is_constant(&self) -> bool {
        !matches!(self.op.traits().by_sample, BySample::Never)
    }

    /// Whether it reads rows, and each row of its result is of one of them.
    fn is_by_sample(&self) -> bool {
        match self.op.traits().by_sample {
            BySample::Never | BySample::Constant => false,
            BySample::Rows(port) => self.only_rows(port),
            BySample::All(ports) => ports.iter().all(|port| self.all_rows(port)),
            BySample::Inner(port, attr, usual) => {
                self.axis_is_inner(port, attr, usual) && self.only_rows(port)
            }
            BySample::When(holds) => holds(self),
        }
    }

    /// The op's attributes.
    pub fn attrs(&self) -> &Attrs {
        &self.op.attrs
    }

    /// The sizes of the first variable at a port.
    pub fn dims(&self, port: &str) -> Option<&[i64]> {
        let first = self.op.input_names(port).first()?;
        self.program.find_var(0, first).map(|var| &*var.meta.dims)
    }

    /// The number of dimensions of the first variable at a port.
    pub fn rank(&self, port: &str) -> Option<i64> {
        self.dims(port).map(|dims| dims.len() as i64)
    }

    /// Whether there are variables at a port, and all have rows.
    pub fn all_rows(&self, port: &str) -> bool {
        let names = self.op.input_names(port);
        !names.is_empty() && names.iter().all(|name| self.rows.contains(name.as_str()))
    }

    fn no_rows(&self, port: &str) -> bool {
        let names = self.op.input_names(port);
        names.iter().all(|name| name == EMPTY || !self.rows.contains(name.as_str()))
    }

    /// Whether every variable at a port has rows, and none at the other ports.
    pub fn only_rows(&self, port: &str) -> bool {
        self.all_rows(port)
            && self.op.inputs.iter().all(|(other, _)| other == port || self.no_rows(other))
    }

    /// Whether an attribute names another dimension than that of the samples.
    pub fn axis_is_inner(&self, port: &str, attr: &str, usual: i64) -> bool {
        let (Some(rank), Ok(axis)) = (self.rank(port), self.op.attrs.int(attr, usual)) else {
            return false;
        };
        (if axis < 0 { axis + rank } else { axis }) > 0
    }

    /// Whether an attribute names dimensions, but not that of the samples.
    pub fn axes_are_inner(&self, port: &str, attr: &str) -> bool {
        let (Some(rank), Ok(axes)) = (self.rank(port), self.op.attrs.ints(attr)) else {
            return false;
        };
        let is_inner = |&axis: &i64| (if axis < 0 { axis + rank } else { axis }) > 0;
        !axes.is_empty() && axes.iter().all(is_inner)
    }

    /// Whether a switch is on; switches are off by default.
    pub fn is_true(&self, attr: &str) -> bool {
        self.op.attrs.bool(attr, false).unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::{self, Data, Elementwise, Embedding, Fc, Reduce};
    use crate::op::check::{check, t};
    use crate::{Builder, Net, Result, Var};
    use tensor::DType;

    /// Builds on ids and numbers; the result is fetched.
    fn holds(build: impl FnOnce(&mut Builder<'_>, Var, Var) -> Result<Var>) -> bool {
        let mut net = Net::with_seed(1);
        let mut b = net.builder();
        let ids = Data { dtype: DType::I64, lod_level: 1, ..Data::default() };
        let ids = layers::data(&mut b, "ids", &[1], ids).unwrap();
        let x = layers::data(&mut b, "x", &[4], Data::default()).unwrap();
        let out = build(&mut b, ids, x).unwrap().name().to_string();
        let feeds = ["ids".to_string(), "x".to_string()];
        computes_by_sample(&net.main, &feeds, &[out])
    }

    #[test]
    fn a_net_for_clicks_computes_by_sample() {
        assert!(holds(|b, ids, x| {
            let rows = layers::embedding(b, &ids, [10, 4], Embedding::default())?;
            let both = layers::concat(b, &[rows, x], 1, None)?;
            let hidden = layers::fc(b, &[both], 8, Fc { act: Some("relu"), ..Fc::default() })?;
            layers::fc(b, &[hidden], 2, Fc { act: Some("softmax"), ..Fc::default() })
        }));
    }

    #[test]
    fn what_looks_at_the_batch_does_not() {
        assert!(!holds(|b, _, x| layers::reduce_mean(b, &x, Reduce::default())));
        let of_samples = Reduce { dim: Some(&[1]), ..Reduce::default() };
        assert!(holds(|b, _, x| layers::reduce_mean(b, &x, of_samples)));
        assert!(!holds(|b, _, x| layers::concat(b, &[x.clone(), x], 0, None)));
        assert!(!holds(|b, _, x| {
            let of_batch = Reduce { dim: Some(&[0]), keep_dim: true, ..Reduce::default() };
            let mean = layers::reduce_mean(b, &x, of_batch)?;
            layers::elementwise_sub(b, &x, &mean, Elementwise::default())
        }));
    }

    /// Builds an op on `x` alone; its result is fetched.
    fn holds_for(op: &str, attrs: impl Fn(OpDesc) -> OpDesc) -> bool {
        holds(|b, _, x| {
            let out = b.temp(op, DType::F32);
            let op = OpDesc::new(op).input("X", x.name()).output("Out", out.name());
            b.op(attrs(op))?;
            Ok(out)
        })
    }

    #[test]
    fn functions_of_one_number_compute_by_sample() {
        for op in ["acos", "asin", "atan", "soft_relu", "relu", "tanh", "erf", "label_smooth"] {
            assert!(holds_for(op, |op| op), "{op}");
        }
    }

    #[test]
    fn the_dimension_of_the_samples_must_stay() {
        for op in ["cumsum", "argsort"] {
            assert!(holds_for(op, |op| op), "{op}");
            assert!(!holds_for(op, |op| op.attr("axis", 0)), "{op}");
        }
        for op in ["transpose", "transpose2"] {
            assert!(holds_for(op, |op| op.attr("axis", vec![0i64, 1])), "{op}");
            assert!(!holds_for(op, |op| op.attr("axis", vec![1i64, 0])), "{op}");
        }
        for op in ["reshape", "reshape2"] {
            assert!(holds_for(op, |op| op.attr("shape", vec![-1i64, 2, 2])), "{op}");
            assert!(!holds_for(op, |op| op.attr("shape", vec![-1i64, 2])), "{op}");
        }
    }

    #[test]
    fn dropout_computes_by_sample_in_tests_only() {
        assert!(holds_for("dropout", |op| op.attr("is_test", true)));
        assert!(!holds_for("dropout", |op| op.attr("is_test", false)));
    }

    #[test]
    fn comparisons_compute_by_sample() {
        for op in ["less_than", "equal", "elementwise_mod", "elementwise_floordiv", "minus"] {
            assert!(
                holds(|b, _, x| {
                    let out = b.temp(op, DType::F32);
                    let op = OpDesc::new(op).input("X", x.name()).input("Y", x.name());
                    b.op(op.output("Out", out.name()))?;
                    Ok(out)
                }),
                "{op}"
            );
        }
    }

    const OTHER_DATA: [&str; 17] = [
        "add_position_encoding",
        "bicubic_interp",
        "bilinear_interp",
        "im2sequence",
        "lrn",
        "maxout",
        "nearest_interp",
        "one_hot_v2",
        "pad2d",
        "pixel_shuffle",
        "pool2d",
        "pool3d",
        "shuffle_channel",
        "similarity_focus",
        "space_to_depth",
        "split",
        "trilinear_interp",
    ];

    /// Ops that promise it: the rows of a batch are those of its samples, one after another.
    #[test]
    fn rows_of_a_batch_are_those_of_its_samples() {
        let numbers = [0.1, 0.9, -0.4, 0.3, -0.2, 0.7, 0.5, -0.9, 0.25, -0.6, 0.8, 0.05];
        let mut n_tried = 0;
        for (name, op) in crate::op::OPS {
            let by_sample = op.traits(&Attrs::default()).by_sample;
            let is_alone = matches!(by_sample, BySample::Rows("X") | BySample::Inner("X", ..));
            let is_plain = crate::op::proto(name).is_some_and(|proto| {
                let mut needed = proto.inputs.iter().filter(|port| !port.dispensable);
                needed.all(|port| port.name == "X")
                    && proto.outputs.iter().any(|port| port.name == "Out")
            });
            // Images, sequences and ids are other data; a split has several results.
            let is_other = name.starts_with("sequence_") || OTHER_DATA.contains(name);
            let types = op.traits(&Attrs::default()).types_at("X");
            if !is_alone
                || !is_plain
                || is_other
                || types.is_some_and(|it| !it.contains(&DType::F32))
            {
                continue;
            }
            let axis = if matches!(by_sample, BySample::Inner(..)) { 1 } else { -1 };
            let run = |x: &[f64]| {
                let op = check(name).input("X", t(&[x.len() / 4, 4], x)).attr("axis", axis);
                let op = op.attr("out_dtype", 5).attr("in_dtype", 5);
                let op = op.attr("min", -0.5f32).attr("max", 0.5f32).output("Out");
                op.run("Out").tensor().cloned().expect("written")
            };
            let whole = run(&numbers);
            let parts: Vec<_> = numbers.chunks(4).map(run).collect();
            let bytes: Vec<u8> = parts.iter().flat_map(|part| part.bytes()).copied().collect();
            assert_eq!(whole.bytes(), bytes, "{name}");
            n_tried += 1;
        }
        assert!(n_tried > 40, "{n_tried} ops were tried");
    }
}
