//! Gradients of one variable added up: of devices, of threads, of steps. The only place that does it;
//! gradients of unlike kinds, shapes or types are an error.

use tensor::rows::merge_sorted;
use tensor::{DType, MergeScratch, Number, Rows, Tensor, Value};

use crate::error::{Error, Result};

/// Adds other gradients to the first, in their order.
///
/// Keyed rows are put one after the other: their update adds up equal keys. A gradient that was not
/// computed adds nothing.
pub(crate) fn add_up(var: &str, sum: &mut Value, others: &[Value]) -> Result<()> {
    for other in others.iter().filter(|other| !other.is_empty()) {
        match (&mut *sum, other) {
            (Value::Empty, other) => *sum = other.clone(),
            (Value::Rows(sum), Value::Rows(other)) => append(var, sum, other)?,
            (sum, other) => match (sum.tensor().is_some(), other.tensor()) {
                (true, Some(other)) => {
                    sum.unshare();
                    if let Value::Tensor(sum) = sum {
                        add(var, sum, other)?;
                    }
                }
                _ => return Err(differ(var, sum.kind(), other.kind())),
            },
        }
    }
    Ok(())
}

/// `value *= factor`.
pub(crate) fn scale(value: &mut Value, factor: f64) {
    value.unshare();
    match value {
        Value::Tensor(tensor) => scale_tensor(tensor, factor),
        Value::Rows(rows) => scale_tensor(&mut rows.value, factor),
        _ => {}
    }
}

/// `tensor *= factor`.
pub(crate) fn scale_tensor(tensor: &mut Tensor, factor: f64) {
    if let Ok(data) = tensor.data_mut::<f32>() {
        data.iter_mut().for_each(|x| *x *= factor as f32);
    } else if let Ok(data) = tensor.data_mut::<f64>() {
        data.iter_mut().for_each(|x| *x *= factor);
    }
}

/// A gradient to be sent: keyed rows with every key once, in order.
pub(crate) fn merged(value: &Value) -> Value {
    merged_rows(value).map_or_else(|| value.clone(), Value::Rows)
}

/// Makes keyed rows have every key once, in order; others stay where they are.
pub(crate) fn merge(value: &mut Value) {
    if let Some(rows) = merged_rows(value) {
        *value = Value::Rows(rows);
    }
}

/// `None` if there is nothing to merge.
fn merged_rows(value: &Value) -> Option<Rows> {
    let Value::Rows(rows) = value else { return None };
    if rows.ids.windows(2).all(|pair| pair[0] < pair[1]) {
        return None;
    }
    let (width, mut out) = (rows.width(), Rows::default());
    let mut scratch = MergeScratch::default();
    out.height = rows.height;
    match (rows.value.data::<f32>(), rows.value.data::<f64>()) {
        (Ok(data), _) => {
            merge_sorted([(&rows.ids[..], data)].into_iter(), width, &mut scratch, &mut out);
        }
        (_, Ok(data)) => {
            merge_sorted([(&rows.ids[..], data)].into_iter(), width, &mut scratch, &mut out);
        }
        _ => return None,
    }
    Some(out)
}

fn differ(var: &str, left: impl ToString, right: impl ToString) -> Error {
    Error::GradientsDiffer {
        var: var.to_string(),
        left: left.to_string(),
        right: right.to_string(),
    }
}

fn add(var: &str, sum: &mut Tensor, other: &Tensor) -> Result<()> {
    if sum.shape() != other.shape() {
        return Err(differ(var, sum.shape(), other.shape()));
    }
    if sum.dtype() != other.dtype() {
        return Err(differ(var, sum.dtype(), other.dtype()));
    }
    match sum.dtype() {
        DType::F32 => add_as::<f32>(sum, other),
        DType::F64 => add_as::<f64>(sum, other),
        dtype => Err(differ(var, dtype, "no floating point number")),
    }
}

fn add_as<T: Number>(sum: &mut Tensor, other: &Tensor) -> Result<()> {
    let others = other.data::<T>()?;
    sum.data_mut::<T>()?.iter_mut().zip(others).for_each(|(sum, &other)| *sum += other);
    Ok(())
}

fn append(var: &str, sum: &mut Rows, other: &Rows) -> Result<()> {
    if other.ids.is_empty() {
        return Ok(());
    }
    if sum.ids.is_empty() {
        *sum = other.clone();
        return Ok(());
    }
    let alike = sum.height == other.height && sum.width() == other.width();
    if !alike || sum.value.dtype() != other.value.dtype() {
        return Err(differ(var, sum.value.shape(), other.value.shape()));
    }
    let old = std::mem::take(&mut sum.value);
    let mut value = Tensor::default();
    value.resize_as(old.dtype(), old.shape().with_dim(0, sum.ids.len() + other.ids.len()));
    let (first, second) = value.bytes_mut().split_at_mut(old.bytes().len());
    first.copy_from_slice(old.bytes());
    second.copy_from_slice(other.value.bytes());
    sum.value = value;
    sum.ids.extend_from_slice(&other.ids);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(ids: &[i64], values: &[f32]) -> Value {
        let value = Tensor::new([ids.len(), 2], values).unwrap();
        Value::Rows(Rows { ids: ids.to_vec(), height: 9, value })
    }

    #[track_caller]
    fn check(mut sum: Value, others: &[Value], expected: Value) {
        add_up("g", &mut sum, others).unwrap();
        assert_eq!(sum, expected);
    }

    #[test]
    fn dense_gradients_are_added() {
        let dense = |value: f32| Value::from(Tensor::full([2], value));
        check(dense(1.0), &[dense(2.0), Value::Empty, dense(0.5)], dense(3.5));
        check(Value::Empty, &[dense(2.0)], dense(2.0));
    }

    #[test]
    fn rows_stand_in_device_order() {
        let others = [rows(&[3], &[3.0, 4.0]), rows(&[], &[])];
        let expected = rows(&[5, 3], &[1.0, 2.0, 3.0, 4.0]);
        check(rows(&[5], &[1.0, 2.0]), &others, expected);
        check(rows(&[], &[]), &[rows(&[3], &[3.0, 4.0])], rows(&[3], &[3.0, 4.0]));
    }

    #[test]
    fn unlike_gradients_are_an_error() {
        let mut sum = Value::from(Tensor::full([2], 1.0f32));
        let error = add_up("g", &mut sum, &[Value::from(Tensor::full([3], 1.0f32))]).unwrap_err();
        assert!(matches!(error, Error::GradientsDiffer { .. }), "{error}");
        let error = add_up("g", &mut sum, &[rows(&[1], &[1.0, 2.0])]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "gradients of `g` cannot be added: one is a tensor, another is selected rows"
        );
        let mut wide = rows(&[1], &[1.0, 2.0]);
        let error = add_up("g", &mut wide, &[Value::from(Tensor::full([2], 1.0f32))]).unwrap_err();
        assert!(matches!(error, Error::GradientsDiffer { .. }), "rows and a tensor: {error}");
        let other = Rows { ids: vec![1], height: 9, value: Tensor::full([1, 2], 1.0f64) };
        let error = add_up("g", &mut wide, &[Value::Rows(other)]).unwrap_err();
        assert!(matches!(error, Error::GradientsDiffer { .. }), "two widths of numbers: {error}");
        let error = add_up("g", &mut sum, &[Value::from(Tensor::full([2], 1.0f64))]).unwrap_err();
        assert!(matches!(error, Error::GradientsDiffer { .. }), "{error}");
        assert_eq!(sum, Value::from(Tensor::full([2], 1.0f32)), "nothing was added");
    }

    #[test]
    fn shared_gradients_are_added_to_a_copy() {
        let mut sum = Value::from(Tensor::full([2], 1.0f32));
        let shared = Value::Shared(sum.share().unwrap());
        add_up("g", &mut sum, std::slice::from_ref(&shared)).unwrap();
        assert_eq!(sum, Value::from(Tensor::full([2], 2.0f32)));
        assert_eq!(shared.tensor(), Some(&Tensor::full([2], 1.0f32)));
    }

    #[test]
    fn merged_rows_have_every_key_once() {
        let all = rows(&[5, 3, 5], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let mut sum = merged(&all);
        assert_eq!(sum, rows(&[3, 5], &[3.0, 4.0, 6.0, 8.0]));
        scale(&mut sum, 0.5);
        assert_eq!(sum, rows(&[3, 5], &[1.5, 2.0, 3.0, 4.0]));
    }
}
