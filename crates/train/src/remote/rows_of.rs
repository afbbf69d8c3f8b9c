//! Rows of values that travel: cutting them out, and the arithmetic of differences (GEO).

use tensor::{DType, Rows, Tensor, Value};

/// Does something with the numbers of two tensors of one type.
macro_rules! for_both {
    ($left:expr, $right:expr, |$a:ident, $b:ident| $body:expr) => {
        match $left.dtype() {
            DType::F32 => {
                if let (Ok($a), Ok($b)) = ($left.data_mut::<f32>(), $right.data::<f32>()) {
                    $body
                }
            }
            DType::F64 => {
                if let (Ok($a), Ok($b)) = ($left.data_mut::<f64>(), $right.data::<f64>()) {
                    $body
                }
            }
            _ => {}
        }
    };
}

/// `sum += more`, for two tensors of one type and shape.
pub(super) fn add_tensor(sum: &mut Tensor, more: &Tensor) {
    for_both!(sum, more, |sum, more| for (sum, more) in sum.iter_mut().zip(more) {
        *sum += *more;
    });
}

/// `left -= right`.
pub(super) fn subtract(left: &mut Tensor, right: &Tensor) {
    for_both!(left, right, |left, right| for (left, right) in left.iter_mut().zip(right) {
        *left -= *right;
    });
}

/// Some rows of a value; keyed rows come out with keys relative to the first.
pub(super) fn rows_of(value: &Value, first: i64, n: i64) -> Value {
    match value {
        Value::Rows(rows) => Value::Rows(keyed_rows_of(rows, first, n)),
        Value::Shared(whole) => {
            let first = first.max(0) as usize;
            let part = Tensor::part(whole, first..first + n.max(0) as usize);
            Value::Tensor(part.unwrap_or_default())
        }
        other => other.tensor().map_or(Value::Empty, |tensor| {
            Value::Tensor(slice(tensor, first.max(0) as usize, n.max(0) as usize))
        }),
    }
}

fn keyed_rows_of(rows: &Rows, first: i64, n: i64) -> Rows {
    if rows.ids.is_sorted() {
        // They lie together.
        let from = rows.ids.partition_point(|&id| id < first);
        let to = rows.ids.partition_point(|&id| id < first + n);
        let ids = rows.ids[from..to].iter().map(|id| id - first).collect();
        return Rows { ids, height: n, value: slice(&rows.value, from, to - from) };
    }
    let inside = |id: &i64| (first..first + n).contains(id);
    let positions: Vec<usize> =
        rows.ids.iter().enumerate().filter(|(_, id)| inside(id)).map(|(at, _)| at).collect();
    let value = pick(&rows.value, &positions);
    Rows { ids: positions.iter().map(|&at| rows.ids[at] - first).collect(), height: n, value }
}

/// Rows `first..first + n` of a tensor.
pub(super) fn slice(tensor: &Tensor, first: usize, n: usize) -> Tensor {
    let (_, width) = tensor.shape().flatten_2d(1);
    let row_bytes = width * tensor.dtype().size();
    let mut out = Tensor::default();
    out.resize_as(tensor.dtype(), tensor.shape().with_dim(0, n));
    let from = first * row_bytes;
    if let Some(bytes) = tensor.bytes().get(from..from + n * row_bytes) {
        out.bytes_mut().copy_from_slice(bytes);
    }
    out
}

/// The rows at these positions, in this order.
pub(super) fn pick(tensor: &Tensor, positions: &[usize]) -> Tensor {
    let (_, width) = tensor.shape().flatten_2d(1);
    let row_bytes = width * tensor.dtype().size();
    let mut out = Tensor::default();
    out.resize_as(tensor.dtype(), tensor.shape().with_dim(0, positions.len()));
    let bytes = tensor.bytes();
    for (row, &at) in out.bytes_mut().chunks_exact_mut(row_bytes.max(1)).zip(positions) {
        row.copy_from_slice(&bytes[at * row_bytes..(at + 1) * row_bytes]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(ids: &[i64], values: &[f32]) -> Value {
        let value = Tensor::new([ids.len(), 1], values).unwrap();
        Value::Rows(Rows { ids: ids.to_vec(), height: 10, value })
    }

    #[test]
    fn a_cut_has_keys_of_its_own() {
        let Value::Rows(cut) = rows_of(&rows(&[1, 5, 8], &[1.0, 2.0, 3.0]), 4, 6) else { panic!() };
        assert_eq!((cut.ids, cut.height), (vec![1, 4], 6));
        assert_eq!(cut.value, Tensor::new([2, 1], &[2.0f32, 3.0]).unwrap());
        let tensor = Tensor::new([3, 2], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        let expected = Tensor::new([2, 2], &[3.0f32, 4.0, 5.0, 6.0]).unwrap();
        assert_eq!(rows_of(&Value::Tensor(tensor), 1, 2), Value::Tensor(expected));
    }
}
