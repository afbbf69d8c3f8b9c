//! Sizes that an op takes from its attributes, or from tensors when the program computes them.

use tensor::{DType, Shape, Tensor, list_or_give_up};

use super::{Infer, Run, for_int};
use crate::attr::Attrs;
use crate::error::{Error, Result};
use crate::var::Meta;

/// The error that an attribute's value makes no sense.
pub(super) fn bad_attr(attr: &str, expected: &str, actual: impl std::fmt::Debug) -> Error {
    Error::BadAttr {
        attr: attr.to_string(),
        expected: expected.to_string(),
        actual: format!("{actual:?}"),
    }
}

/// The element type in attribute `dtype`, `float32` if there is none.
pub(super) fn dtype(attrs: &Attrs) -> Result<DType> {
    Ok(DType::from_code(attrs.int("dtype", 5)?)?)
}

/// An axis counted from either end, as an index below `rank`.
pub(super) fn axis(attr: &str, axis: i64, rank: usize) -> Result<usize> {
    let from_front = if axis < 0 { axis + rank as i64 } else { axis };
    match usize::try_from(from_front) {
        Ok(at) if at < rank => Ok(at),
        _ => Err(bad_attr(attr, &format!("an axis of a tensor of rank {rank}"), axis)),
    }
}

/// The integers in a tensor of either width.
pub(super) fn integers(tensor: &Tensor, var: &str) -> Result<Vec<i64>> {
    for_int!(tensor.dtype(), var, T => {
        Ok(list_or_give_up(tensor.data::<T>()?.iter().map(|&value| i64::from(value))))
    })
}

/// All integers at a port: of one tensor, or of several with one each.
pub(super) fn integers_at(run: &Run<'_>, port: &str) -> Result<Option<Vec<i64>>> {
    if run.n_inputs(port) == 0 {
        return Ok(None);
    }
    let mut all = Vec::new();
    for index in 0..run.n_inputs(port) {
        let tensor = run.input_at(port, index)?;
        all.extend(integers(tensor, run.input_name_at(port, index))?);
    }
    Ok(Some(all))
}

/// How many integers will be at a port, if it is used.
pub(super) fn n_integers_at(infer: &Infer<'_>, port: &str) -> Result<Option<usize>> {
    match infer.inputs(port)?.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(crate::var::n_elements(&one.dims).max(0) as usize)),
        several => Ok(Some(several.len())),
    }
}

/// The shape in attribute `shape`, unless `ShapeTensor` or `ShapeTensorList` holds it.
pub(super) fn shape(run: &Run<'_>) -> Result<Shape> {
    let mut dims = run.attrs().ints("shape")?;
    for port in ["ShapeTensorList", "ShapeTensor"] {
        if let Some(said) = integers_at(run, port)? {
            dims = said;
        }
    }
    let shape = Shape::from_dims(&at_least_one(dims))?;
    Tensor::check_room(dtype(run.attrs())?, shape)?;
    Ok(shape)
}

/// Version 2 has numbers without dimensions; here they have one.
fn at_least_one(dims: Vec<i64>) -> Vec<i64> {
    if dims.is_empty() { vec![1] } else { dims }
}

/// The sizes of the result before the program runs; -1 for what a tensor will say.
pub(super) fn dims(infer: &Infer<'_>) -> Result<Vec<i64>> {
    for port in ["ShapeTensor", "ShapeTensorList"] {
        if let Some(rank) = n_integers_at(infer, port)? {
            let said = infer.attrs().ints("shape")?;
            return Ok(if said.len() == rank { said } else { vec![-1; rank] });
        }
    }
    infer.attrs().ints("shape").map(at_least_one)
}

const IN: &str = "input_dim_idx";
const OUT: &str = "output_dim_idx";

/// Attribute `shape` with one size taken from `Input`, the batch size usually.
pub(super) fn batch_size_like(infer: &Infer<'_>) -> Result<Meta> {
    let input = infer.input("Input")?;
    let attrs = infer.attrs();
    let mut dims = attrs.ints("shape")?;
    let to = axis(OUT, attrs.int(OUT, 0)?, dims.len())?;
    dims[to] = input.dims[axis(IN, attrs.int(IN, 0)?, input.dims.len())?];
    Ok(Meta::dense(dtype(attrs)?, &dims))
}

/// The shape of the result of a batch, with the size that `Input` has.
pub(super) fn shape_of_batch_size_like(run: &Run<'_>) -> Result<Shape> {
    let input = run.input("Input")?;
    let attrs = run.attrs();
    let mut dims = attrs.ints("shape")?;
    let to = axis(OUT, attrs.int(OUT, 0)?, dims.len())?;
    dims[to] = input.dims()[axis(IN, attrs.int(IN, 0)?, input.shape().rank())?] as i64;
    Ok(Shape::from_dims(&dims)?)
}
