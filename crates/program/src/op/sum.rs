//! `sum`: Out = X₀ + X₁ + …, added in the order listed.
//!
//! Keyed rows are merged: each id once. Dense and keyed inputs together give a dense tensor.

use tensor::{Number, Rows, Tensor, Value, rows};

use super::{Grad, Infer, Op, Run, for_number, traits};
use crate::block::OpDesc;
use crate::error::{Error, Result};
use crate::names::EMPTY;
use crate::var::{Meta, VarKind};

pub(super) struct Sum;

const RULE: &str = "the inputs of a sum must have one shape";

impl Op for Sum {
    traits!(Rows("X"), "X": [F32, F64, I32, I64]; keeps_to_gradients);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let inputs = infer.inputs("X")?;
        let Some(first) = inputs.first() else { return infer.input("X").map(|_| ()) };
        let mut dims = first.dims.clone();
        for (k, x) in inputs.iter().enumerate() {
            if !agree(&mut dims, &x.dims) {
                return Err(infer.shapes_at(RULE, "X", k));
            }
        }
        let all_rows = inputs.iter().all(|x| x.kind == VarKind::SelectedRows);
        let kind = if all_rows { VarKind::SelectedRows } else { VarKind::LodTensor };
        infer.set_output("Out", Meta { kind, dims, ..first.clone() })
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut n_rows = 0;
        for index in 0..run.n_inputs("X") {
            match run.value_at("X", index)? {
                Value::Rows(_) => n_rows += 1,
                _ => _ = run.input_at("X", index)?,
            }
        }
        if n_rows > 0 && n_rows == run.n_inputs("X") { merge_rows(run, "X") } else { add_all(run) }
    }

    /// dXᵢ = dOut.
    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        for d_x in grad.input_grad("X").into_iter().filter(|name| name != EMPTY) {
            let op = OpDesc::new("scale").input("X", grad.output_grad("Out")).output("Out", d_x);
            grad.emit(op.attr("scale", 1.0f32))?;
        }
        Ok(())
    }
}

/// Whether two shapes can be one; fills in what the first does not know.
fn agree(known: &mut [i64], dims: &[i64]) -> bool {
    if known.len() != dims.len() {
        return false;
    }
    known.iter_mut().zip(dims).all(|(known, &dim)| {
        if *known < 0 {
            *known = dim;
        }
        dim < 0 || *known == dim
    })
}

/// The error that the `index`-th input at a port, of these dims, does not fit the first.
fn differ(run: &Run<'_>, port: &str, index: usize, dims: [Vec<i64>; 2]) -> Error {
    let name = |index| run.input_name_at(port, index).to_string();
    let left = name(0);
    let right = name(index);
    let [left_dims, right_dims] = dims;
    Error::Shapes { rule: RULE, left, left_dims, right, right_dims }
}

// ---- keyed rows

/// Merges all rows at an input port into those of `Out`.
pub(super) fn merge_rows(run: &mut Run<'_>, port: &str) -> Result<()> {
    for index in 0..run.n_inputs(port) {
        check_rows(run, port, index)?;
    }
    let mut scratch = std::mem::take(&mut run.spare().merge);
    let mut out = run.take_rows("Out");
    let first = rows_at(run, port, 0)?;
    let merged = for_number!(first.value.dtype(), run.input_name(port), T => {
        let of = |index| rows_at(run, port, index).ok().filter(|rows| !rows.ids.is_empty());
        let inputs = (0..run.n_inputs(port)).filter_map(of);
        let inputs = inputs.filter_map(|rows| Some((&*rows.ids, rows.value.data::<T>().ok()?)));
        rows::merge(inputs, first.width(), &mut scratch, &mut out);
        Ok(())
    });
    out.height = first.height;
    if first.value.shape().rank() > 2 {
        out.value.reshape(first.value.shape().with_dim(0, out.ids.len()))?;
    }
    run.spare().merge = scratch;
    run.put_rows("Out", out);
    merged
}

/// The `index`-th rows at a port.
pub(super) fn rows_at<'a>(run: &'a Run<'_>, port: &str, index: usize) -> Result<&'a Rows> {
    let value = run.value_at(port, index)?;
    if let Some(rows) = value.rows() {
        return Ok(rows);
    }
    let (port, var) = (port.to_string(), run.input_name_at(port, index).to_string());
    if value.is_empty() {
        return Err(Error::NotInitialized { port, var });
    }
    Err(Error::WrongKind { port, var, expected: "selected rows", actual: value.kind() })
}

/// Rows must hold a row of values per id, and be rows of the same table as the first.
fn check_rows(run: &Run<'_>, port: &str, index: usize) -> Result<()> {
    let (first, rows) = (rows_at(run, port, 0)?, rows_at(run, port, index)?);
    let shape = rows.value.shape();
    let n = if rows.ids.is_empty() { 0 } else { shape.dims().first().copied().unwrap_or(0) };
    let empty = rows.ids.is_empty() && rows.value.is_empty();
    let alike = rows.value.dtype() == first.value.dtype() && rows.width() == first.width();
    if n != rows.ids.len() || rows.height != first.height || !(alike || empty) {
        let dims = |rows: &Rows| [vec![rows.height], rows.value.shape().to_i64()].concat();
        return Err(differ(run, port, index, [dims(first), dims(rows)]));
    }
    Ok(())
}

// ---- dense

fn add_all(run: &mut Run<'_>) -> Result<()> {
    let mut out = run.take("Out");
    let n = run.n_inputs("X");
    let first_dense =
        (0..n).find(|&index| run.value_at("X", index).is_ok_and(|x| x.tensor().is_some()));
    let like = run.input_at("X", first_dense.unwrap_or(0))?;
    for_number!(like.dtype(), run.input_name("X"), T => {
        if first_dense == Some(0) {
            out.copy_from(like);
        } else {
            out.resize_zeroed::<T>(like.shape());
        }
        for index in usize::from(first_dense == Some(0))..n {
            add::<T>(run, index, &mut out)?;
        }
        Ok(())
    })?;
    out.set_lod(like.lod().clone());
    run.put("Out", out);
    Ok(())
}

fn add<T: Number>(run: &Run<'_>, index: usize, out: &mut Tensor) -> Result<()> {
    let shape = out.shape();
    let sums = out.data_mut::<T>()?;
    let name = run.input_name_at("X", index);
    let in_var = |source| Error::InVar { var: name.to_string(), source: Box::new(source) };
    match run.value_at("X", index)? {
        Value::Rows(rows) => {
            let values = rows.value.data::<T>().map_err(|error| in_var(error.into()))?;
            let width = shape.flatten_2d(1).1;
            if rows.height != shape.dim(0) as i64 || values.len() != rows.ids.len() * width {
                let dims = [shape.to_i64(), rows.value.shape().to_i64()];
                return Err(differ(run, "X", index, dims));
            }
            rows.check_ids().map_err(|error| in_var(error.into()))?;
            for (value, &id) in values.chunks_exact(width.max(1)).zip(&rows.ids) {
                add_to(&mut sums[id as usize * width..][..width], value);
            }
        }
        _ => {
            let x = run.input_at("X", index)?;
            if x.shape() != shape {
                let dims = [shape.to_i64(), x.shape().to_i64()];
                return Err(differ(run, "X", index, dims));
            }
            add_to(sums, x.data::<T>().map_err(|error| in_var(error.into()))?);
        }
    }
    Ok(())
}

/// `sums += values`, element by element.
pub(super) fn add_to<T: Number>(sums: &mut [T], values: &[T]) {
    for (sum, &value) in sums.iter_mut().zip(values) {
        *sum += value;
    }
}

#[cfg(test)]
mod tests {
    use crate::backward::grad_ops;
    use crate::block::OpDesc;
    use crate::error::Error;
    use crate::op::check::{check, seq, t};
    use crate::program::Program;
    use crate::var::VarKind;
    use tensor::{Rows, Tensor, Value};

    fn rows(ids: &[i64], values: &[f64]) -> Value {
        let value = t(&[ids.len(), 2], values);
        Value::Rows(Rows { ids: ids.to_vec(), height: 3, value })
    }

    #[test]
    fn adds_tensors_and_keeps_the_first_ones_sequences() {
        let first = || seq(t(&[2, 1], &[1.0, 2.0]), &[2]);
        check("sum")
            .inputs("X", vec![first(), t(&[2, 1], &[10.0, 20.0]), first()])
            .gives("Out", seq(t(&[2, 1], &[12.0, 24.0]), &[2]));
    }

    #[test]
    fn adds_into_one_of_its_inputs() {
        let inputs = vec![t(&[2], &[1.0, 2.0]), t(&[2], &[10.0, 20.0])];
        let out = check("sum").inputs("X", inputs).writes("Out", "X1").run("Out");
        assert_eq!(out.tensor(), Some(&t(&[2], &[11.0, 22.0])));
    }

    #[test]
    fn merges_rows_of_equal_ids() {
        let (a, b) = (rows(&[2, 0, 2], &[1.0, 1.0, 2.0, 2.0, 3.0, 3.0]), rows(&[0], &[10.0, 20.0]));
        let sum = check("sum").inputs("X", vec![a, b]).output("Out");
        assert_eq!(sum.run("Out"), rows(&[0, 2], &[12.0, 22.0, 4.0, 4.0]));
        assert_eq!(sum.inferred("Out").kind, VarKind::SelectedRows);
    }

    #[test]
    fn merges_rows_of_an_empty_batch() {
        let none = rows(&[], &[]);
        let sum = check("sum").inputs("X", vec![none.clone(), none]).output("Out");
        assert_eq!(sum.run("Out"), rows(&[], &[]));
        let (a, b) = (rows(&[], &[]), rows(&[1], &[1.0, 2.0]));
        let sum = check("sum").inputs("X", vec![a, b]).output("Out");
        assert_eq!(sum.run("Out"), rows(&[1], &[1.0, 2.0]));
    }

    #[test]
    fn rows_and_a_tensor_give_a_tensor() {
        let dense = || Value::Tensor(t(&[3, 2], &[1.0; 6]));
        let sum = t(&[3, 2], &[3.0, 4.0, 1.0, 1.0, 1.0, 1.0]);
        let sparse = || rows(&[0, 0], &[1.0, 1.0, 1.0, 2.0]);
        check("sum").inputs("X", vec![sparse(), dense()]).gives("Out", sum.clone());
        check("sum").inputs("X", vec![dense(), sparse()]).gives("Out", sum);
    }

    #[test]
    fn refuses_what_cannot_be_added() {
        let dense = || Value::Tensor(t(&[3, 2], &[1.0; 6]));
        let other = Value::Tensor(t(&[2], &[1.0; 2]));
        let error = check("sum").inputs("X", vec![dense(), other]).output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
        let beyond = rows(&[3], &[1.0, 1.0]);
        let error = check("sum").inputs("X", vec![dense(), beyond]).output("Out").fails();
        assert!(matches!(error.root(), Error::Tensor(_)), "{error}");
        let empty = Value::Tensor(Tensor::default());
        let error = check("sum").inputs("X", vec![empty.clone(), empty]).output("Out").fails();
        assert!(matches!(error.root(), Error::NotInitialized { .. }), "{error}");
        let nothing: Vec<Tensor> = Vec::new();
        let error = check("sum").inputs("X", nothing).output("Out").fails();
        assert!(matches!(error.root(), Error::MissingInput { .. }), "{error}");
    }

    #[test]
    fn gradient_matches_finite_differences() {
        let inputs = vec![t(&[2], &[1.0, 2.0]), t(&[2], &[10.0, 20.0])];
        check("sum").inputs("X", inputs).output("Out").grad(&["X"]);
    }

    #[test]
    fn gradient_scales_by_one_for_each_wanted_input() {
        let op = OpDesc::new("sum").input("X", vec!["a".to_string(), "b".into(), "a".into()]);
        let op = op.output("Out", "o");
        let ops = grad_ops(&Program::default(), 0, &op, &|var| var == "b").unwrap();
        let shown: Vec<String> = ops.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["scale(X=[o@GRAD]) -> Out=[a@GRAD]"; 2]);
    }
}
