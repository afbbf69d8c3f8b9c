//! Gradients of all devices added up, in device order.

use tensor::{DType, Number, Rows, Tensor, Value};

use crate::error::{Error, Result};

/// Adds the gradients of the other devices to that of the first.
///
/// Keyed rows are put one after the other: who applies them adds up equal keys. A device on which
/// nothing was computed adds nothing.
pub(crate) fn add_up(var: &str, sum: &mut Value, others: &[Value]) -> Result<()> {
    for other in others.iter().filter(|other| !other.is_empty()) {
        match (&mut *sum, other) {
            (Value::Empty, other) => *sum = other.clone(),
            (Value::Tensor(sum), Value::Tensor(other)) => add(var, sum, other)?,
            (Value::Rows(sum), Value::Rows(other)) => append(var, sum, other)?,
            (sum, other) => return Err(differ(var, sum.kind(), other.kind())),
        }
    }
    Ok(())
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
            "gradient `g` is a tensor on one device and selected rows on another"
        );
    }
}
