//! Rows and numbers by their places: `gather`, `scatter`, `one_hot`, `shard_index`, `unique`.

use tensor::DType;

use super::append::{OneOp, one_op};
use super::sizes::Amount;
use crate::builder::{Builder, Var};
use crate::error::{Error, Result};
use crate::layers::Vars;

layers! { gathers;
    /// The rows of the input that `index` names; nothing reads `overwrite`.
    fn gather(input: Input, index: Input; overwrite: bool = true) -> Var { |b|
        let op = one_op(b, "gather", None).input("X", input).input("Index", index);
        op.attr("overwrite", overwrite).out("Out")
    }

    /// What lies at the places that the last dimension of `index` names.
    fn gather_nd(input: Input, index: Input; name: Name = None) -> Var { |b|
        one_op(b, "gather_nd", name).input("X", input).input("Index", index).out("Out")
    }

    /// The input with the rows at `index` replaced, or with all of `updates` added there.
    fn scatter(input: Input, index: Input, updates: Input; Scatter<'a> {
        name: Name = None, overwrite: bool = true,
    }) -> Var { |b|
        let op = one_op(b, "scatter", name).input("X", input).input("Ids", index);
        op.input("Updates", updates).attr("overwrite", overwrite).out("Out")
    }

    /// `ref` with `updates` added at the places that the last dimension of `index` names.
    fn scatter_nd_add(r#ref: Input, index: Input, updates: Input; name: Name = None) -> Var { |b, kind|
        let op = one_op(b, kind, name).input("X", r#ref).input("Index", index);
        op.input("Updates", updates).out("Out")
    }

    /// `updates` added up at the places that the last dimension of `index` names, zeros elsewhere.
    fn scatter_nd(index: Input, updates: Input, shape: Known; name: Name = None) -> Var { |b|
        let dtype = b.meta(updates)?.dtype;
        let zeros = super::zeros(b, shape, dtype, false)?;
        scatter_nd_add(b, &zeros, index, updates, name)
    }

    /// Row i of the input with the updates of sequence i added at the columns of sequence i of `index`.
    fn sequence_scatter(input: Input, index: Input, updates: Input; name: Name = None) -> Var { |b, kind|
        let op = one_op(b, kind, name).input("X", input).input("Ids", index);
        op.input("Updates", updates).out("Out")
    }

    /// Ids of shard `shard_id` of `nshards` counted from its first one, `ignore_value` for the others.
    fn shard_index(input: Input, index_num: i32, nshards: i32, shard_id: i32;
    ignore_value: i32 = (-1)) -> Var { |b, kind|
        let op = one_op(b, kind, None).input("X", input).attr("index_num", index_num);
        let op = op.attr("nshards", nshards).attr("shard_id", shard_id);
        op.attr("ignore_value", ignore_value).out("Out")
    }

    /// The different numbers in the order in which they first come, and where each number is among them.
    fn unique(x: Input; dtype: MaybeDtype = [None, "'int32'"]) -> (Var, Var) { |b|
        let dtype = dtype.unwrap_or(DType::I32);
        let op = one_op(b, "unique", None).input("X", x).attr("dtype", dtype.code());
        op.also("Out")?.also_of("Index", dtype).pair()
    }

    /// The different numbers, where each number is among them, and how often each comes.
    fn unique_with_counts(x: Input; dtype: MaybeDtype = [None, "'int32'"]) -> Vars { |b, kind|
        let dtype = dtype.unwrap_or(DType::I32);
        if ![DType::I32, DType::I64].contains(&dtype) {
            let (op, var) = (kind.to_string(), "dtype".to_string());
            let allowed = &[DType::I32, DType::I64];
            return Err(Error::LayerDType { op, var, allowed, actual: dtype });
        }
        let dims = b.meta(x)?.dims;
        if dims.len() != 1 {
            let (layer, argument) = ("unique_with_counts", "x");
            let rule = "must have one dimension";
            return Err(Error::BadArgument { layer, argument, rule, actual: format!("{dims:?}") });
        }
        let op = one_op(b, kind, None).input("X", x).attr("dtype", dtype.code());
        op.also("Out")?.also_of("Index", dtype).also_of("Count", dtype).all()
    }

    /// The parts of the input along `dim` that `index` names.
    fn index_select(input: Input, index: Input; dim: i32 = 0) -> Var { |b, kind|
        let op = one_op(b, kind, None).input("X", input).input("Index", index);
        op.attr("dim", dim).out("Out")
    }

    /// Of each row the numbers at the columns that the same row of `index` names.
    fn index_sample(x: Input, index: Input) -> Var { |b, kind|
        one_op(b, kind, None).input("X", x).input("Index", index).out("Out")
    }

    /// Where the input is true or not 0: a row of places each, or with `as_tuple` a column for each dimension.
    fn nonzero(input: Input; as_tuple: Flag = false) -> Nonzero { |b|
        let rank = b.meta(input)?.dims.len() as i32;
        let places = super::where_index(b, input)?;
        if !as_tuple {
            return Ok(Nonzero::Whole(places));
        }
        if rank == 1 {
            return Ok(Nonzero::Columns(vec![places]));
        }
        let column = |i| super::slice(b, &places, &[rank - 1], &[i], &[i + 1]);
        Ok(Nonzero::Columns((0..rank).map(column).collect::<Result<_>>()?))
    }

    /// Rows with a 1 at the place the input names; the input ends in a dimension of 1.
    fn one_hot(input: Input, depth: Count; allow_out_of_range: Flag = false) -> Var { |b, kind|
        let op = one_op(b, kind, None).input("X", input);
        deep(op.attr("allow_out_of_range", allow_out_of_range), depth).out_stopped("Out", DType::F32)
    }

    /// Rows with a 1 at the place the input names, for an input of any shape.
    fn one_hot_v2(input: Input, depth: Count; allow_out_of_range: Flag = false) -> Var { |b, kind|
        let op = one_op(b, kind, None).input("X", input);
        deep(op.attr("allow_out_of_range", allow_out_of_range), depth).out_of("Out", DType::F32)
    }
}

/// The result of [`nonzero`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nonzero {
    /// A row for each place.
    Whole(Var),
    /// A column for each dimension.
    Columns(Vec<Var>),
}

/// How many places a one-hot row has.
fn deep<'b, 'p>(op: OneOp<'b, 'p>, depth: Amount<i32>) -> OneOp<'b, 'p> {
    match depth {
        Amount::Is(depth) => op.attr("depth", depth),
        Amount::In(var) => op.input("depth_tensor", &var),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;
    use crate::layers::{self, Data};

    #[test]
    fn names_and_shapes_follow_fluid() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[6], Data::default()).unwrap();
        let ints = || Data { dtype: DType::I64, ..Data::default() };
        let column = layers::data(&mut b, "c", &[1], ints()).unwrap();
        let list = layers::data(&mut b, "l", &[-1], ints()).unwrap();
        let is = |b: &Builder<'_>, var: Var, name: &str, dims: &[i64]| {
            assert_eq!((var.name(), &*b.meta(&var).unwrap().dims), (name, dims));
        };
        let y = gather(&mut b, &x, &list, true).unwrap();
        is(&b, y.clone(), "gather_0.tmp_0", &[-1, 6]);
        let y = scatter(&mut b, &x, &list, &y, Scatter::default()).unwrap();
        is(&b, y, "scatter_0.tmp_0", &[-1, 6]);
        let y = gather_nd(&mut b, &x, &column, None).unwrap();
        is(&b, y, "gather_nd_0.tmp_0", &[-1, 6]);
        let y = one_hot(&mut b, &column, Amount::Is(5), false).unwrap();
        assert!(b.desc(&y).unwrap().stop_gradient);
        is(&b, y, "one_hot_0.tmp_0", &[-1, 5]);
        let y = one_hot_v2(&mut b, &list, Amount::Is(5), false).unwrap();
        is(&b, y, "one_hot_v2_0.tmp_0", &[-1, 5]);
    }

    #[test]
    fn adding_and_sharding_follow_fluid() {
        let mut net = Net::default();
        let mut b = net.builder();
        let whole = Data { append_batch_size: false, ..Data::default() };
        let numbers = Data { dtype: DType::I64, ..whole.clone() };
        let x = layers::data(&mut b, "x", &[3, 5], whole.clone()).unwrap();
        let u = layers::data(&mut b, "u", &[2, 5], whole).unwrap();
        let i = layers::data(&mut b, "i", &[2, 1], numbers.clone()).unwrap();
        let list = layers::data(&mut b, "list", &[6], numbers).unwrap();
        let y = scatter_nd_add(&mut b, &x, &i, &u, None).unwrap();
        assert_eq!((y.name(), b.meta(&y).unwrap().dims), ("scatter_nd_add_0.tmp_0", vec![3, 5]));
        let y = scatter_nd(&mut b, &i, &u, &[3, 5], None).unwrap();
        assert_eq!((y.name(), b.meta(&y).unwrap().dims), ("scatter_nd_add_1.tmp_0", vec![3, 5]));
        let y = shard_index(&mut b, &i, 20, 2, 0, -1).unwrap();
        assert_eq!((y.name(), b.meta(&y).unwrap().dtype), ("shard_index_0.tmp_0", DType::I64));
        let (out, index) = unique(&mut b, &list, None).unwrap();
        assert_eq!((out.name(), b.meta(&out).unwrap().dims), ("unique_0.tmp_0", vec![-1]));
        assert_eq!((index.name(), b.meta(&index).unwrap().dtype), ("unique_0.tmp_1", DType::I32));
    }
}
