//! Comparisons and logic: variables of truth values.

use tensor::DType;

use super::append::one_op;
use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::Result;

layers! { comparisons;
    /// Where x == y; written into `cond` if it is given.
    fn equal
    /// Where x >= y; written into `cond` if it is given.
    fn greater_equal
    /// Where x > y; written into `cond` if it is given.
    fn greater_than
    /// Where x <= y; written into `cond` if it is given.
    fn less_equal
    /// Where x != y; written into `cond` if it is given.
    fn not_equal
    (x: Input, y: Input; cond: MaybeInput = None) -> Var { |b, kind| compare(b, kind, x, y, cond) }

    /// Where x < y; written into `cond` if it is given. `force_cpu` changes nothing.
    fn less_than(x: Input, y: Input; force_cpu: MaybeBool = None, cond: MaybeInput = None)
    -> Var { |b|
        let _ = force_cpu;
        compare(b, "less_than", x, y, cond)
    }

    /// Where both hold; written into `out` if it is given.
    fn logical_and
    /// Where either holds, or both; written into `out` if it is given.
    fn logical_or
    /// Where exactly one holds; written into `out` if it is given.
    fn logical_xor
    (x: Truths, y: Truths; Logical<'a> { out: MaybeInput = None, name: Name = None }) -> Var { |b, kind|
        one_op(b, kind, name).input("X", x).input("Y", y).out_into("Out", out)
    }

    /// Where x does not hold; written into `out` if it is given.
    fn logical_not(x: Truths; out: MaybeInput = None, name: Name = None) -> Var { |b|
        one_op(b, "logical_not", name).input("X", x).out_into("Out", out)
    }

    /// Whether every element is a finite number, shape [1].
    fn isfinite(x: Input) -> Var { |b|
        one_op(b, "isfinite", None).input("X", x).out_of("Out", DType::Bool)
    }

    /// Whether some element is infinite, shape [1].
    fn has_inf(x: Input) -> Var { |b|
        one_op(b, "isinf", None).input("X", x).out_of("Out", DType::Bool)
    }

    /// Whether some element is not a number, shape [1].
    fn has_nan(x: Input) -> Var { |b|
        one_op(b, "isnan", None).input("X", x).out_of("Out", DType::Bool)
    }
}

fn compare(b: &mut Builder<'_>, kind: &str, x: &Var, y: &Var, cond: Option<&Var>) -> Result<Var> {
    let layer = b.layer_name(kind, None);
    let out = match cond {
        Some(cond) => cond.clone(),
        None => b.temp(&layer, DType::Bool),
    };
    stop_gradient(b, &out);
    let op = OpDesc::new(kind).input("X", x).input("Y", y);
    b.op(op.output("Out", &out).attr("axis", -1).attr("force_cpu", false))?;
    Ok(out)
}

/// Lets no gradient pass a variable: a comparison has no derivative, a constant needs none.
pub(super) fn stop_gradient(b: &mut Builder<'_>, var: &Var) {
    let block = b.main.current_block();
    if let Some(desc) = b.main.block_mut(block).var_mut(var.name()) {
        desc.stop_gradient = true;
    }
}

/// The index of each true element, one row each (`fluid.layers.where`; that word is Rust's).
pub fn where_index(b: &mut Builder<'_>, condition: &Var) -> Result<Var> {
    one_op(b, "where_index", None).input("Condition", condition).out_of("Out", DType::I64)
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
        let less = less_than(&mut b, &x, &x, None, None).unwrap();
        assert_eq!(less.name(), "less_than_0.tmp_0");
        assert!(b.desc(&less).unwrap().stop_gradient);
        let not = logical_not(&mut b, &less, None, None).unwrap();
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
        let mut truth = less_than(&mut b, &x, &x, None, None).unwrap();
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
