//! What is largest, and where: `topk`, `argmax`, `argmin`, `argsort`.

use tensor::DType;

use super::append::one_op;
use super::sizes::Amount;
use crate::builder::{Builder, Var};
use crate::error::Result;

layers! { sorts;
    /// The `k` largest of each row and their places: (values, indices).
    fn topk(input: Input, k: Count; name: Name = None) -> (Var, Var) { |b|
        let dtype = b.meta(input)?.dtype;
        let op = one_op(b, "top_k", name).input("X", input);
        let op = match k {
            Amount::Is(k) => op.attr("k", k),
            Amount::In(var) => op.input("K", &var),
        };
        op.also_stopped("Out", dtype).also_stopped("Indices", DType::I64).pair()
    }

    /// Where along an axis the largest element is.
    fn argmax(x: Input; axis: i64 = 0) -> Var { |b|
        one_op(b, "arg_max", None).input("X", x).attr("axis", axis).out_stopped("Out", DType::I64)
    }

    /// Where along an axis the smallest element is.
    fn argmin(x: Input; axis: i64 = 0) -> Var { |b|
        one_op(b, "arg_min", None).input("X", x).attr("axis", axis).out_stopped("Out", DType::I64)
    }

    /// The sorted elements and where they were: (values, indices).
    fn argsort(input: Input; Argsort<'a> {
        axis: i32 = (-1), descending: Flag = false, name: Name = None,
    }) -> (Var, Var) { |b|
        let dtype = b.meta(input)?.dtype;
        let op = one_op(b, "argsort", name).input("X", input).attr("axis", axis);
        let op = op.attr("descending", descending).also_stopped("Out", dtype);
        op.also_stopped("Indices", DType::I64).pair()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;
    use crate::layers::{self, Data};

    #[test]
    fn names_follow_fluid() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[3], Data::default()).unwrap();
        let (values, indices) = topk(&mut b, &x, Amount::Is(2), None).unwrap();
        assert_eq!((values.name(), indices.name()), ("top_k_0.tmp_0", "top_k_0.tmp_1"));
        assert!(b.desc(&values).unwrap().stop_gradient);
        let max = argmax(&mut b, &x, -1).unwrap();
        assert_eq!((max.name(), &*b.meta(&max).unwrap().dims), ("arg_max_0.tmp_0", &[-1i64][..]));
        let (_, indices) = argsort(&mut b, &x, Argsort::default()).unwrap();
        assert_eq!(indices.name(), "argsort_0.tmp_1");
    }
}
