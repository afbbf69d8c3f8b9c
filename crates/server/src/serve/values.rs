//! Values of a server: what fits which variable, and rows and memory of them.

use program::op::{for_float, gather_rows, scatter_add_rows};
use program::{VarDesc, VarKind};
use tensor::{DType, Rows, Shape, Tensor, Value};
use wire::SharedMemory;
use wire::frame::FRAME_BYTES_MAX;

use crate::error::Result;

/// Moves a tensor to where trainers of this machine can read it.
pub(super) fn move_into(value: &mut Value, memory: &SharedMemory) {
    let Value::Tensor(tensor) = value else { return };
    if tensor.lender().is_some() {
        return;
    }
    if let Some(mut place) = memory.tensor(tensor.bytes().len()) {
        place.copy_from(tensor);
        *tensor = place;
    }
}

/// Makes a value ready to be changed. While a trainer reads it, a copy is changed, which the next
/// one will read.
pub(super) fn make_own(value: &mut Value, memory: &SharedMemory) {
    value.unshare();
    let Value::Tensor(tensor) = value else { return };
    if !tensor.may_write() {
        let mut copy = memory.tensor(tensor.bytes().len()).unwrap_or_default();
        copy.copy_from(tensor);
        *tensor = copy;
    }
}

/// Whether a value is a gradient of this variable.
pub(super) fn check_fits(var: &VarDesc, value: &Value) -> std::result::Result<(), String> {
    let dims = &var.meta.dims;
    let (actual, ids) = match value {
        Value::Tensor(tensor) => (tensor, None),
        Value::Rows(rows) => (&rows.value, Some(&rows.ids)),
        other => return Err(format!("{} is not a gradient", other.kind())),
    };
    if actual.dtype() != var.meta.dtype {
        return Err(format!("{} came, {} is needed", actual.dtype(), var.meta.dtype));
    }
    let shape = actual.shape().to_i64();
    match ids {
        None if shape == *dims => Ok(()),
        None => Err(format!("shape {shape:?} came, {dims:?} is needed")),
        Some(_) if var.meta.kind != VarKind::SelectedRows => {
            Err("keyed rows came, a tensor is needed".to_string())
        }
        Some(ids) => {
            let height = dims.first().copied().unwrap_or(0);
            if shape.get(1..) != dims.get(1..) {
                return Err(format!("rows of shape {shape:?} came, the table is {dims:?}"));
            }
            match ids.iter().find(|&&id| !tensor::is_row(id, height)) {
                Some(id) => Err(format!("row {id} came, the table has {height}")),
                None => Ok(()),
            }
        }
    }
}

/// Whether so many rows can be sent: asked before memory is taken for them.
pub(super) fn check_answer(
    n_rows: usize,
    width: usize,
    dtype: DType,
) -> std::result::Result<(), String> {
    let n_bytes = n_rows.checked_mul(width).and_then(|n| n.checked_mul(dtype.size()));
    match n_bytes.filter(|&n| n as u64 <= FRAME_BYTES_MAX) {
        Some(_) => Ok(()),
        None => Err(format!(
            "{n_rows} rows of {width} numbers are more than one answer holds ({FRAME_BYTES_MAX} bytes): ask for fewer at a time"
        )),
    }
}

/// Whether a value is steps that a trainer reports.
pub(super) fn check_counter(value: &Value) -> std::result::Result<(), String> {
    let Some(tensor) = value.tensor() else {
        return Err(format!("{} came, a counter of steps is needed", value.kind()));
    };
    match (tensor.dtype(), tensor.len(), first_number(value)) {
        (DType::I64 | DType::F32, 1, Some(steps)) if steps.is_finite() && steps >= 0.0 => Ok(()),
        (dtype, n, _) => {
            Err(format!("{n} numbers of {dtype} came, one counter of steps is needed"))
        }
    }
}

/// The first number of a tensor, if there is one.
pub(super) fn first_number(value: &Value) -> Option<f64> {
    value.tensor().filter(|tensor| !tensor.is_empty()).map(|tensor| tensor.get_f64(0))
}

/// Bytes of the numbers of a value.
pub(super) fn n_bytes_of(value: &Value) -> usize {
    match value {
        Value::Rows(rows) => rows.value.bytes().len() + rows.ids.len() * size_of::<i64>(),
        other => other.tensor().map_or(0, |tensor| tensor.bytes().len()),
    }
}

pub(super) fn height(value: &Value) -> i64 {
    match value {
        Value::Rows(rows) => rows.height,
        other => other.tensor().map_or(0, |t| t.dims().first().copied().unwrap_or(0)) as i64,
    }
}

/// Rows of a table by their places; the absent one reads as zeros.
pub(super) fn gather(
    table: &Tensor,
    keys: &[i64],
    absent: Option<i64>,
) -> std::result::Result<Tensor, String> {
    let (height, width) = table.shape().flatten_2d(1);
    check_answer(keys.len(), width, table.dtype())?;
    let mut out = Tensor::default();
    let shape = Shape::from([keys.len(), width]);
    let fail = |what: &dyn std::fmt::Display| what.to_string();
    let found = match table.dtype() {
        DType::F32 => {
            let data = table.data::<f32>().map_err(|error| fail(&error))?;
            gather_rows(data, width, keys, absent, out.resize::<f32>(shape))
        }
        DType::F64 => {
            let data = table.data::<f64>().map_err(|error| fail(&error))?;
            gather_rows(data, width, keys, absent, out.resize::<f64>(shape))
        }
        other => return Err(format!("{other} tables cannot be looked up")),
    };
    found.map_err(|bad| format!("row {} was asked for, there are {height}", bad.id))?;
    Ok(out)
}

/// `param += delta`, for all or for some rows.
pub(super) fn add_in_place(param: &mut Tensor, delta: &Value) -> Result<()> {
    let width = param.shape().flatten_2d(1).1;
    for_float!(param.dtype(), "param", T => {
        let table = param.data_mut::<T>()?;
        match delta {
            Value::Rows(rows) => {
                let values = rows.value.data::<T>()?;
                // Ids were checked before the difference was accepted.
                let _ = scatter_add_rows(table, width, &rows.ids, None, values);
            }
            other => {
                let values = other.tensor().map(|delta| delta.data::<T>()).transpose()?;
                for (x, delta) in table.iter_mut().zip(values.unwrap_or(&[])) {
                    *x += *delta;
                }
            }
        }
        program::Result::Ok(())
    })?;
    Ok(())
}

pub(super) fn zeros(dtype: DType, dims: &[i64]) -> Tensor {
    let dims: Vec<usize> = dims.iter().map(|&dim| dim.max(0) as usize).collect();
    let mut tensor = Tensor::default();
    tensor.resize_as(dtype, Shape::new(&dims));
    tensor.bytes_mut().fill(0);
    tensor
}

pub(super) fn empty_rows(grad: &VarDesc) -> Rows {
    let mut dims = grad.meta.dims.clone();
    let height = dims.first().copied().unwrap_or(0);
    if let Some(first) = dims.first_mut() {
        *first = 0;
    }
    Rows { ids: Vec::new(), height, value: zeros(grad.meta.dtype, &dims) }
}

pub(super) fn counter(var: &VarDesc, steps: f64) -> Tensor {
    match var.meta.dtype {
        DType::I64 => Tensor::full([1], steps as i64),
        _ => Tensor::full([1], steps as f32),
    }
}
