//! The usual layer: a name, one result, one op.

use tensor::DType;

use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::Result;

/// Appends `op` as a layer of this kind; its result, at port `Out`, is of type `dtype`.
pub(super) fn append(
    b: &mut Builder<'_>,
    (kind, name): (&str, Option<&str>),
    dtype: DType,
    op: OpDesc,
) -> Result<Var> {
    let layer = b.layer_name(kind, name);
    let out = b.temp(&layer, dtype);
    b.op(op.output("Out", &out))?;
    Ok(out)
}

/// The same for a result that gradients do not pass.
pub(super) fn append_stopped(
    b: &mut Builder<'_>,
    (kind, name): (&str, Option<&str>),
    dtype: DType,
    op: OpDesc,
) -> Result<Var> {
    let layer = b.layer_name(kind, name);
    let out = b.temp_stopped(&layer, dtype);
    b.op(op.output("Out", &out))?;
    Ok(out)
}
