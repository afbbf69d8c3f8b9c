//! `reduce_sum` and its like: fewer numbers out of many.

use super::append;
use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::Result;

/// Options of the reduce layers; the defaults, as in Fluid, reduce all dimensions.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)] // The names are Fluid's.
pub struct Reduce<'a> {
    /// Which dimensions; all if empty. Negative ones count from the right.
    pub dim: &'a [i32],
    pub keep_dim: bool,
    pub name: Option<&'a str>,
}

macro_rules! reduce {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(b: &mut Builder<'_>, input: &Var, options: Reduce<'_>) -> Result<Var> {
            let layer = b.layer_name(stringify!($name), options.name);
            let all = options.dim.is_empty();
            let op = OpDesc::new(stringify!($name))
                .attr("dim", if all { vec![0] } else { options.dim.to_vec() })
                .attr("keep_dim", options.keep_dim)
                .attr("reduce_all", all);
            append(b, &layer, input, op)
        }
    )*};
}

reduce! {
    /// Whether all are true.
    reduce_all;
    /// Whether any is true.
    reduce_any;
    /// The greatest.
    reduce_max;
    /// The average.
    reduce_mean;
    /// The smallest.
    reduce_min;
    /// The product.
    reduce_prod;
    /// The sum.
    reduce_sum;
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
        let rows = reduce_mean(&mut b, &x, Reduce { dim: &[-1], ..Reduce::default() }).unwrap();
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
            let truth = layer(&mut b, &flags, Reduce::default()).unwrap();
            assert_eq!(b.meta(&truth).unwrap().dtype, DType::Bool);
        }
    }
}
