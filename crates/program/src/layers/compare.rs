//! Comparisons and logic: variables of truth values.

use tensor::DType;

use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::Result;

/// `name(builder, x, y, where to write or None for a new variable)`.
macro_rules! comparisons {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(b: &mut Builder<'_>, x: &Var, y: &Var, cond: Option<&Var>) -> Result<Var> {
            let layer = b.layer_name(stringify!($name), None);
            let out = match cond {
                Some(cond) => cond.clone(),
                None => b.temp(&layer, DType::Bool),
            };
            stop_gradient(b, &out);
            let op = OpDesc::new(stringify!($name)).input("X", x).input("Y", y);
            b.op(op.output("Out", &out).attr("axis", -1).attr("force_cpu", false))?;
            Ok(out)
        }
    )*};
}

comparisons! {
    /// Where x == y.
    equal;
    /// Where x >= y.
    greater_equal;
    /// Where x > y.
    greater_than;
    /// Where x <= y.
    less_equal;
    /// Where x < y.
    less_than;
    /// Where x != y.
    not_equal;
}

/// Lets no gradient pass a variable: a comparison has no derivative, a constant needs none.
pub(super) fn stop_gradient(b: &mut Builder<'_>, var: &Var) {
    let block = b.main.current_block();
    if let Some(desc) = b.main.block_mut(block).var_mut(var.name()) {
        desc.stop_gradient = true;
    }
}

/// Where the logic layers write, and their name; the defaults are a new variable and the next name.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)] // The names are Fluid's.
pub struct Logical<'a> {
    pub out: Option<&'a Var>,
    pub name: Option<&'a str>,
}

fn logical(b: &mut Builder<'_>, op: OpDesc, options: Logical<'_>) -> Result<Var> {
    let layer = b.layer_name(&op.kind, options.name);
    let out = match options.out {
        Some(out) => out.clone(),
        None => b.temp(&layer, DType::Bool),
    };
    b.op(op.output("Out", &out))?;
    Ok(out)
}

macro_rules! logic {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(b: &mut Builder<'_>, x: &Var, y: &Var, options: Logical<'_>) -> Result<Var> {
            logical(b, OpDesc::new(stringify!($name)).input("X", x).input("Y", y), options)
        }
    )*};
}

logic! {
    /// Where both hold.
    logical_and;
    /// Where either holds, or both.
    logical_or;
    /// Where exactly one holds.
    logical_xor;
}

/// Where x does not hold.
pub fn logical_not(b: &mut Builder<'_>, x: &Var, options: Logical<'_>) -> Result<Var> {
    logical(b, OpDesc::new("logical_not").input("X", x), options)
}

/// The truth about all elements that an op `kind` finds, named after the op.
fn about_all(b: &mut Builder<'_>, kind: &str, x: &Var) -> Result<Var> {
    let layer = b.layer_name(kind, None);
    let out = b.temp(&layer, DType::Bool);
    b.op(OpDesc::new(kind).input("X", x).output("Out", &out))?;
    Ok(out)
}

/// Whether every element is a finite number, shape [1].
pub fn isfinite(b: &mut Builder<'_>, x: &Var) -> Result<Var> {
    about_all(b, "isfinite", x)
}

/// Whether some element is infinite, shape [1].
pub fn has_inf(b: &mut Builder<'_>, x: &Var) -> Result<Var> {
    about_all(b, "isinf", x)
}

/// Whether some element is not a number, shape [1].
pub fn has_nan(b: &mut Builder<'_>, x: &Var) -> Result<Var> {
    about_all(b, "isnan", x)
}

/// The index of each true element, one row each (`fluid.layers.where`; that word is Rust's).
pub fn where_index(b: &mut Builder<'_>, condition: &Var) -> Result<Var> {
    let layer = b.layer_name("where_index", None);
    let out = b.temp(&layer, DType::I64);
    b.op(OpDesc::new("where_index").input("Condition", condition).output("Out", &out))?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;
    use crate::layers::{self, Data};

    #[test]
    fn names_and_types_follow_fluid() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[3], Data::default()).unwrap();
        let less = less_than(&mut b, &x, &x, None).unwrap();
        assert_eq!(less.name(), "less_than_0.tmp_0");
        assert!(b.desc(&less).unwrap().stop_gradient);
        let not = logical_not(&mut b, &less, Logical::default()).unwrap();
        assert_eq!(not.name(), "logical_not_0.tmp_0");
        assert!(!b.desc(&not).unwrap().stop_gradient);
        let meta = b.meta(&not).unwrap();
        assert_eq!((meta.dtype, &*meta.dims), (DType::Bool, &[-1i64, 3] as &[i64]));
        let into = Logical { out: Some(&less), name: None };
        assert_eq!(logical_and(&mut b, &less, &not, into).unwrap(), less);
        assert_eq!(equal(&mut b, &x, &x, Some(&not)).unwrap(), not);
        let nan = has_nan(&mut b, &x).unwrap();
        assert_eq!((nan.name(), b.meta(&nan).unwrap().dims), ("isnan_0.tmp_0", vec![1]));
        let places = where_index(&mut b, &less).unwrap();
        assert_eq!(b.meta(&places).unwrap().dims, [-1, 2]);
    }

    #[test]
    fn every_layer_has_its_op() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[3], Data::default()).unwrap();
        let mut truth = less_than(&mut b, &x, &x, None).unwrap();
        for layer in [equal, greater_equal, greater_than, less_equal, not_equal] {
            truth = layer(&mut b, &x, &x, None).unwrap();
        }
        for layer in [logical_and, logical_or, logical_xor] {
            layer(&mut b, &truth, &truth, Logical::default()).unwrap();
        }
        for layer in [isfinite, has_inf] {
            layer(&mut b, &x).unwrap();
        }
    }
}
