//! `hierarchical_sigmoid`: Out = the sum over the nodes on a label's path of log(1 + exp(s)) - bit s, where
//! s = X · W\[node\] + Bias\[node\], between -40 and 40. PreOut = log(1 + exp(s)), log 2 behind the end of a path.
//!
//! The usual tree is complete: the path of class c are the bits of c + `num_classes` from below. PathTable and
//! PathCode give another one: nodes and bits of each row, up to the first negative node. With `is_sparse` (and such a tree)
//! the gradient of W has a row for each node of the batch.

use tensor::{Float, Shape, Tensor};

use super::sizes::bad_attr;
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::error::{Error, Result};
use crate::var::{Meta, VarKind};

pub(super) struct HierarchicalSigmoid;
pub(super) struct HierarchicalSigmoidGrad;

const WIDTH: &str = "X and W are matrices of the same width";
const PATHS: &str =
    "PathTable and PathCode are matrices of the same shape with a row for each row of X";

/// A node on the way to the class of a row.
#[derive(Clone, Copy)]
struct PathStep {
    row: usize,
    /// Its place in PreOut.
    at: usize,
    node: usize,
    bit: bool,
}

/// The ways to the classes of a batch.
struct Paths {
    n_rows: usize,
    /// The most nodes that a way has.
    length: usize,
    /// The nodes of all rows.
    turns: Vec<PathStep>,
}

fn n_classes(attrs: &crate::attr::Attrs) -> Result<u64> {
    let n = attrs.int("num_classes", 2)?;
    u64::try_from(n).ok().filter(|n| *n >= 2).ok_or_else(|| bad_attr("num_classes", "2 or more", n))
}

/// How long the ways of the usual tree are at most.
fn usual_length(n_classes: u64) -> u32 {
    u64::BITS - (n_classes - 1).leading_zeros()
}

impl Paths {
    fn of(run: &Run<'_>) -> Result<Self> {
        let (x, w) = (run.input("X")?, run.input("W")?);
        let (&[n_rows, width], &[n_nodes, columns]) = (x.dims(), w.dims()) else {
            return Err(run.shapes(WIDTH, "X", "W"));
        };
        if width != columns {
            return Err(run.shapes(WIDTH, "X", "W"));
        }
        if run.opt_input("Bias").is_some_and(|bias| bias.len() != n_nodes) {
            return Err(run.shapes("Bias has a number for each row of W", "Bias", "W"));
        }
        let (length, turns) = match run.opt_input("PathTable") {
            Some(_) => Self::given(run, n_rows)?,
            None => Self::usual(run, n_rows)?,
        };
        if let Some(turn) = turns.iter().find(|turn| turn.node >= n_nodes) {
            let (rule, var) = ("a node of a path is a row of W", run.input_name("W").to_string());
            let value = turn.node as f64;
            return Err(Error::BadValue { rule, var, position: turn.row, value });
        }
        Ok(Self { n_rows, length, turns })
    }

    fn usual(run: &Run<'_>, n_rows: usize) -> Result<(usize, Vec<PathStep>)> {
        let n_classes = n_classes(run.attrs())?;
        let labels = run.data::<i64>("Label")?;
        if labels.len() != n_rows {
            return Err(run.shapes("Label has a class for each row of X", "X", "Label"));
        }
        let (length, mut turns) = (usual_length(n_classes) as usize, Vec::new());
        for (row, &label) in labels.iter().enumerate() {
            if !(0..n_classes as i64).contains(&label) {
                let (var, n_classes) = (run.input_name("Label").to_string(), n_classes as usize);
                return Err(Error::LabelOutOfRange { var, row, label, n_classes });
            }
            let code = label.cast_unsigned() + n_classes;
            turns.extend((0..u64::BITS - 1 - code.leading_zeros()).map(|bit| PathStep {
                row,
                at: row * length + bit as usize,
                node: (code >> (bit + 1)) as usize - 1,
                bit: (code >> bit) & 1 == 1,
            }));
        }
        Ok((length, turns))
    }

    fn given(run: &Run<'_>, n_rows: usize) -> Result<(usize, Vec<PathStep>)> {
        let (table, code) = (run.input("PathTable")?, run.input("PathCode")?);
        let &[n, length] = table.dims() else {
            return Err(run.shapes(PATHS, "PathTable", "PathCode"));
        };
        if n != n_rows || table.shape() != code.shape() {
            return Err(run.shapes(PATHS, "PathTable", "PathCode"));
        }
        let (table, code) = (run.data::<i64>("PathTable")?, run.data::<i64>("PathCode")?);
        let mut turns = Vec::new();
        for row in 0..n_rows {
            let places = row * length..(row + 1) * length;
            let on_path = places.take_while(|&at| table[at] >= 0);
            turns.extend(on_path.map(|at| PathStep {
                row,
                at,
                node: table[at] as usize,
                bit: code[at] != 0,
            }));
        }
        Ok((length, turns))
    }
}

impl Op for HierarchicalSigmoid {
    traits!(Never, "X": [F32, F64], "Label": [I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let (x, w) = (infer.input("X")?, infer.input("W")?);
        let ([n_rows, _], [_, _]) = (&x.dims[..], &w.dims[..]) else {
            return Err(infer.shapes(WIDTH, "X", "W"));
        };
        let length = match infer.opt_input("PathTable")? {
            Some(table) => table.dims.get(1).copied().unwrap_or(-1),
            None => i64::from(usual_length(n_classes(infer.attrs())?)),
        };
        infer.set_output("PreOut", Meta::dense(x.dtype, &[*n_rows, length]))?;
        infer.set_output("Out", x.with_dims(vec![*n_rows, 1]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (mut out, mut pre_out) = (run.take("Out"), run.take("PreOut"));
        let paths = Paths::of(run)?;
        let x = run.input("X")?;
        for_float!(x.dtype(), run.input_name("X"), T => {
            let shape = Shape::from([paths.n_rows, paths.length]);
            let pre_out = pre_out.try_resize_zeroed::<T>(shape)?;
            forward::<T>(run, &paths, pre_out, out.resize::<T>(Shape::from([paths.n_rows, 1])))
        })?;
        out.set_lod(x.lod().clone());
        run.put("Out", out);
        run.put("PreOut", pre_out);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let inputs = ["X", "W", "Label", "PathTable", "PathCode", "Bias"];
        let keep = Keep::grads(&["Out"], &["X", "W", "Bias"]).inputs(&inputs);
        grad.emit_usual(keep.outputs(&["PreOut"]))
    }
}

fn forward<T: Float>(run: &Run<'_>, paths: &Paths, pre_out: &mut [T], out: &mut [T]) -> Result<()> {
    let (x, w) = (run.data::<T>("X")?, run.data::<T>("W")?);
    let (width, bias) = (run.input("X")?.shape().last(), run.opt_data::<T>("Bias")?);
    let bound = T::of(40.0);
    out.fill(T::zero());
    for &PathStep { row, at, node, bit } in &paths.turns {
        let start = bias.map_or(T::zero(), |bias| bias[node]);
        let x = &x[row * width..(row + 1) * width];
        let w = &w[node * width..(node + 1) * width];
        let score = x.iter().zip(w).fold(start, |sum, (&x, &w)| sum + x * w);
        let score = score.max(-bound).min(bound);
        pre_out[at] = score;
        if bit {
            out[row] -= score;
        }
    }
    for (row, out) in out.iter_mut().enumerate() {
        for pre_out in &mut pre_out[row * paths.length..(row + 1) * paths.length] {
            *pre_out = (T::one() + pre_out.exp()).ln();
            *out += *pre_out;
        }
    }
    Ok(())
}

/// ds = (sigmoid(s) - bit) dOut, without regard to the bounds of s, as in Fluid.
impl Kernel for HierarchicalSigmoidGrad {
    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let w = infer.input("W")?;
        let sparse = infer.attrs().bool("is_sparse", false)?;
        let kind = if sparse { VarKind::SelectedRows } else { VarKind::LodTensor };
        infer.set_output("W@GRAD", Meta { kind, ..w })
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (mut d_x, mut d_bias) = (run.take("X@GRAD"), run.take("Bias@GRAD"));
        let mut slopes = run.spare().tensor();
        let paths = Paths::of(run)?;
        let (x, w) = (run.input("X")?, run.input("W")?);
        let pre_out = run.input("PreOut")?;
        if pre_out.shape() != Shape::from([paths.n_rows, paths.length]) {
            return Err(run.shapes("a number for each node of each row is needed", "PreOut", "X"));
        }
        if run.input("Out@GRAD")?.len() != paths.n_rows {
            return Err(run.shapes("a cost for each row is needed", "Out@GRAD", "X"));
        }
        for_float!(x.dtype(), run.input_name("X"), T => {
            let (pre, d_out) = (run.data::<T>("PreOut")?, run.data::<T>("Out@GRAD")?);
            let slopes = slopes.resize_zeroed::<T>(pre_out.shape());
            for turn in &paths.turns {
                let bit = if turn.bit { 1.0 } else { 0.0 };
                slopes[turn.at] = (1.0 - (-pre[turn.at]).exp() - bit) * d_out[turn.row];
            }
            if run.wants("Bias@GRAD") {
                let d_bias = d_bias.resize_zeroed::<T>(run.input("Bias")?.shape());
                for turn in &paths.turns {
                    d_bias[turn.node] += slopes[turn.at];
                }
            }
            if run.wants("X@GRAD") {
                let (width, weights) = (x.shape().last(), w.data::<T>()?);
                let d_x = d_x.resize_zeroed::<T>(x.shape());
                for turn in &paths.turns {
                    let d = slopes[turn.at];
                    let weights = &weights[turn.node * width..][..width];
                    let d_x = &mut d_x[turn.row * width..][..width];
                    d_x.iter_mut().zip(weights).for_each(|(sum, &w)| *sum += d * w);
                }
            }
            Ok(())
        })?;
        d_x.set_lod(x.lod().clone());
        run.put("X@GRAD", d_x);
        run.put("Bias@GRAD", d_bias);
        if run.wants("W@GRAD") {
            weight_grad(run, &paths, &slopes)?;
        }
        run.spare().keep(slopes);
        Ok(())
    }
}

fn weight_grad(run: &mut Run<'_>, paths: &Paths, slopes: &Tensor) -> Result<()> {
    let sparse = run.attrs().bool("is_sparse", false)?;
    if sparse && run.opt_input("PathTable").is_none() {
        return Err(bad_attr("is_sparse", "false without PathTable", sparse));
    }
    let (mut rows, mut dense) = if sparse {
        (Some(run.take_rows("W@GRAD")), Tensor::default())
    } else {
        (None, run.take("W@GRAD"))
    };
    let w = run.input("W")?;
    let (n_nodes, width) = w.shape().flatten_2d(1);
    let shape = match &mut rows {
        Some(rows) => {
            rows.ids.clear();
            rows.ids.extend(paths.turns.iter().map(|turn| turn.node as i64));
            rows.ids.sort_unstable();
            rows.ids.dedup();
            rows.height = n_nodes as i64;
            Shape::from([rows.ids.len(), width])
        }
        None => w.shape(),
    };
    for_float!(slopes.dtype(), run.input_name("X"), T => {
        let (x, slopes) = (run.data::<T>("X")?, slopes.data::<T>()?);
        let (ids, target) = match &mut rows {
            Some(rows) => (Some(&rows.ids), &mut rows.value),
            None => (None, &mut dense),
        };
        let target = target.resize_zeroed::<T>(shape);
        for &PathStep { row, at, node, .. } in &paths.turns {
            let d = slopes[at];
            let place = ids.map_or(node, |ids| ids.partition_point(|&id| id < node as i64));
            let target = &mut target[place * width..(place + 1) * width];
            let x = &x[row * width..(row + 1) * width];
            target.iter_mut().zip(x).for_each(|(sum, &x)| *sum += d * x);
        }
        Ok(())
    })?;
    match rows {
        Some(rows) => run.put_rows("W@GRAD", rows),
        None => run.put("W@GRAD", dense),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, ids, some, t};

    fn usual() -> Check {
        check("hierarchical_sigmoid")
            .input("X", some(&[3, 2]))
            .input("W", some(&[5, 2]))
            .input("Label", ids(&[3, 1], &[0, 1, 5]))
            .input("Bias", some(&[5, 1]))
            .attr("num_classes", 6)
    }

    fn custom(sparse: bool) -> Check {
        check("hierarchical_sigmoid")
            .input("X", some(&[2, 2]))
            .input("W", some(&[5, 2]))
            .input("Label", ids(&[2, 1], &[0, 1]))
            .input("PathTable", ids(&[2, 3], &[0, 2, -1, 0, 1, 4]))
            .input("PathCode", ids(&[2, 3], &[0, 1, -1, 1, 0, 0]))
            .attr("num_classes", 5)
            .attr("is_sparse", sparse)
    }

    #[test]
    fn sums_the_costs_of_a_path() {
        // s = 0 at each node: log 2 for each place, on the path or not.
        let cost = 3.0 * 2f64.ln();
        check("hierarchical_sigmoid")
            .input("X", t(&[2, 1], &[0.0, 0.0]))
            .input("W", t(&[5, 1], &[1.0; 5]))
            .input("Label", ids(&[2, 1], &[0, 5]))
            .attr("num_classes", 6)
            .output("PreOut")
            .gives("Out", t(&[2, 1], &[cost, cost]));
    }

    #[test]
    fn gradients_match_finite_differences() {
        usual().output("Out").aux("PreOut").grad(&["X", "W", "Bias"]);
        for sparse in [false, true] {
            custom(sparse).output("Out").aux("PreOut").grad(&["X", "W"]);
        }
    }

    #[test]
    fn refuses_classes_and_nodes_that_are_not_there() {
        let error = usual().input("Label", ids(&[3, 1], &[0, 6, 1])).output("Out").fails();
        assert!(matches!(error.root(), Error::LabelOutOfRange { row: 1, label: 6, .. }), "{error}");
        let beyond = ids(&[2, 3], &[0, 5, 1, 0, 1, 4]);
        let error = custom(false).input("PathTable", beyond).output("Out").fails();
        assert!(matches!(error.root(), Error::BadValue { .. }), "{error}");
        let error = usual().attr("num_classes", 1).output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        let error = usual().input("X", some(&[3, 3])).output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
