//! `mean`, `reduce_sum` and its like: fewer numbers out of many.

use super::append::one_op;
use crate::builder::{Builder, Var};
use crate::error::Result;

layers! { reductions;
    /// The average of all elements, shape [1].
    fn mean(x: Floats; name: Name = None) -> Var { |b|
        let _ = name; // Fluid reads it nowhere.
        one_op(b, "mean", None).input("X", x).out("Out")
    }

    /// Whether all are true, along `dim` (a number, a list, or None for all dimensions).
    fn reduce_all
    /// Whether any is true, along `dim` (a number, a list, or None for all dimensions).
    fn reduce_any
    (input: Truths; ReduceTruths<'a> {
        dim: Axes = None, keep_dim: Flag = false, name: Name = None,
    }) -> Var { |b, kind| reduce(b, kind, input, Reduce { dim, keep_dim, name }) }

    /// The greatest along `dim` (a number, a list, or None for all dimensions).
    fn reduce_max
    /// The average along `dim` (a number, a list, or None for all dimensions).
    fn reduce_mean
    /// The smallest along `dim` (a number, a list, or None for all dimensions).
    fn reduce_min
    /// The product along `dim` (a number, a list, or None for all dimensions).
    fn reduce_prod
    /// The sum along `dim` (a number, a list, or None for all dimensions).
    fn reduce_sum
    (input: Input; Reduce<'a> {
        dim: Axes = None, keep_dim: Flag = false, name: Name = None,
    }) -> Var { |b, kind| reduce(b, kind, input, Reduce { dim, keep_dim, name }) }
}

fn reduce(b: &mut Builder<'_>, kind: &str, input: &Var, options: Reduce<'_>) -> Result<Var> {
    let dim = options.dim.filter(|dim| !dim.is_empty());
    let op = one_op(b, kind, options.name).input("X", input);
    op.attr("dim", dim.unwrap_or(&[0]).to_vec())
        .attr("keep_dim", options.keep_dim)
        .attr("reduce_all", dim.is_none())
        .out("Out")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;
    use crate::layers::{self, Data};
    use tensor::DType;

    #[test]
    fn names_and_shapes_follow_fluid() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[3], Data::default()).unwrap();
        let all = reduce_sum(&mut b, &x, Reduce::default()).unwrap();
        assert_eq!((all.name(), b.meta(&all).unwrap().dims), ("reduce_sum_0.tmp_0", vec![1]));
        let rows =
            reduce_mean(&mut b, &x, Reduce { dim: Some(&[-1]), ..Reduce::default() }).unwrap();
        assert_eq!(b.meta(&rows).unwrap().dims, [-1]);
        let op = &net.main.block(0).ops[0];
        assert!(op.attrs.bool("reduce_all", false).unwrap());
        assert_eq!(op.attrs.ints("dim").unwrap(), [0]);
    }

    #[test]
    fn every_layer_has_its_op() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[3], Data::default()).unwrap();
        let flags = Data { dtype: DType::Bool, ..Data::default() };
        let flags = layers::data(&mut b, "flags", &[3], flags).unwrap();
        for layer in [reduce_max, reduce_mean, reduce_min, reduce_prod, reduce_sum] {
            layer(&mut b, &x, Reduce::default()).unwrap();
        }
        for layer in [reduce_all, reduce_any] {
            let truth = layer(&mut b, &flags, ReduceTruths::default()).unwrap();
            assert_eq!(b.meta(&truth).unwrap().dtype, DType::Bool);
        }
    }
}
