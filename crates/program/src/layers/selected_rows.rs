//! Keyed rows: `merge_selected_rows`, `get_tensor_from_selected_rows`.

use super::append::one_op;
use crate::builder::{Builder, Var};
use crate::error::Result;

layers! { keyed_rows;
    /// Rows of equal ids added up.
    fn merge_selected_rows
    /// The values of keyed rows, one row per id.
    fn get_tensor_from_selected_rows
    (x: Input; name: Name = None) -> Var { |b, kind| one_op(b, kind, name).input("X", x).out("Out") }
}
