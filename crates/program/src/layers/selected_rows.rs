//! Keyed rows: `merge_selected_rows`, `get_tensor_from_selected_rows`.

use super::append::append;
use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::Result;

/// Rows of equal ids added up.
pub fn merge_selected_rows(b: &mut Builder<'_>, x: &Var, name: Option<&str>) -> Result<Var> {
    let dtype = b.meta(x)?.dtype;
    let op = OpDesc::new("merge_selected_rows").input("X", x);
    append(b, ("merge_selected_rows", name), dtype, op)
}

/// The values of keyed rows, one row per id.
pub fn get_tensor_from_selected_rows(
    b: &mut Builder<'_>,
    x: &Var,
    name: Option<&str>,
) -> Result<Var> {
    let dtype = b.meta(x)?.dtype;
    let op = OpDesc::new("get_tensor_from_selected_rows").input("X", x);
    append(b, ("get_tensor_from_selected_rows", name), dtype, op)
}
