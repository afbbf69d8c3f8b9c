//! Which ops have a counterpart in ONNX, and how each is converted.

use super::convert::Convert;
use super::{
    activation, compare, fill, lookup, math, norm, reduce, select, sequence, shape, window,
};
use crate::error::Result;

/// Adds the nodes of one op.
pub(super) type Converter = fn(&mut Convert<'_>) -> Result<()>;

/// All converters, by the names of the ops.
pub(super) const CONVERTERS: &[(&str, Converter)] = &[
    ("abs", |c| c.out_of_x("Abs")),
    ("acos", |c| c.out_of_x("Acos")),
    ("arg_max", |c| select::arg(c, "ArgMax")),
    ("arg_min", |c| select::arg(c, "ArgMin")),
    ("asin", |c| c.out_of_x("Asin")),
    ("assign", |c| c.out_of_x("Identity")),
    ("assign_value", fill::assign_value),
    ("atan", |c| c.out_of_x("Atan")),
    ("batch_norm", norm::batch_norm),
    ("brelu", activation::brelu),
    ("cast", fill::cast),
    ("ceil", |c| c.out_of_x("Ceil")),
    ("clip", activation::clip),
    ("concat", shape::concat),
    ("conv2d", window::conv2d),
    ("cos", |c| c.out_of_x("Cos")),
    ("cos_sim", norm::cos_sim),
    ("cumsum", select::cumsum),
    ("data_norm", norm::data_norm),
    ("depthwise_conv2d", window::conv2d),
    ("distributed_lookup_table", lookup::distributed_lookup_table),
    ("dropout", norm::dropout),
    ("elementwise_add", |c| math::elementwise(c, "Add")),
    ("elementwise_div", |c| math::elementwise(c, "Div")),
    ("elementwise_max", |c| math::elementwise(c, "Max")),
    ("elementwise_min", |c| math::elementwise(c, "Min")),
    ("elementwise_mul", |c| math::elementwise(c, "Mul")),
    ("elementwise_pow", |c| math::elementwise(c, "Pow")),
    ("elementwise_sub", |c| math::elementwise(c, "Sub")),
    ("elu", activation::elu),
    ("equal", |c| compare::two(c, "Equal")),
    ("erf", |c| c.out_of_x("Erf")),
    ("exp", |c| c.out_of_x("Exp")),
    ("expand", shape::expand),
    ("fill_any_like", fill::fill_like),
    ("fill_constant", fill::fill_constant),
    ("fill_constant_batch_size_like", fill::fill_constant_batch_size_like),
    ("fill_zeros_like", fill::fill_like),
    ("flatten", shape::flatten),
    ("flatten2", shape::flatten),
    ("floor", |c| c.out_of_x("Floor")),
    ("gather", select::gather),
    ("gelu", activation::gelu),
    ("greater_equal", |c| compare::two(c, "GreaterOrEqual")),
    ("greater_than", |c| compare::two(c, "Greater")),
    ("hard_sigmoid", activation::hard_sigmoid),
    ("hard_swish", activation::hard_swish),
    ("increment", math::increment),
    ("layer_norm", norm::layer_norm),
    ("leaky_relu", activation::leaky_relu),
    ("less_equal", |c| compare::two(c, "LessOrEqual")),
    ("less_than", |c| compare::two(c, "Less")),
    ("log", |c| c.out_of_x("Log")),
    ("logical_and", |c| compare::two(c, "And")),
    ("logical_not", |c| c.out_of_x("Not")),
    ("logical_or", |c| compare::two(c, "Or")),
    ("logical_xor", |c| compare::two(c, "Xor")),
    ("logsigmoid", activation::logsigmoid),
    ("lookup_table", lookup::lookup_table),
    ("lookup_table_v2", lookup::lookup_table_v2),
    ("matmul", math::matmul),
    ("mean", reduce::mean),
    ("minus", |c| math::elementwise(c, "Sub")),
    ("mul", math::mul),
    ("norm", norm::norm),
    ("not_equal", compare::not_equal),
    ("one_hot", select::one_hot),
    ("one_hot_v2", select::one_hot_v2),
    ("pool2d", window::pool2d),
    ("pow", math::pow),
    ("prelu", activation::prelu),
    ("reciprocal", |c| c.out_of_x("Reciprocal")),
    ("reduce_max", |c| reduce::reduce(c, "ReduceMax")),
    ("reduce_mean", |c| reduce::reduce(c, "ReduceMean")),
    ("reduce_min", |c| reduce::reduce(c, "ReduceMin")),
    ("reduce_prod", |c| reduce::reduce(c, "ReduceProd")),
    ("reduce_sum", |c| reduce::reduce(c, "ReduceSum")),
    ("relu", |c| c.out_of_x("Relu")),
    ("relu6", activation::relu6),
    ("reshape", shape::reshape),
    ("reshape2", shape::reshape),
    ("rsqrt", activation::rsqrt),
    ("scale", math::scale),
    ("sequence_conv", sequence::conv),
    ("sequence_expand", sequence::keeps),
    ("sequence_expand_as", sequence::keeps),
    ("sequence_pool", sequence::keeps),
    ("sequence_reverse", sequence::reverse),
    ("sequence_softmax", sequence::softmax),
    ("shape", fill::shape),
    ("sigmoid", |c| c.out_of_x("Sigmoid")),
    ("sign", |c| c.out_of_x("Sign")),
    ("sin", |c| c.out_of_x("Sin")),
    ("slice", shape::slice),
    ("softmax", activation::softmax),
    ("softplus", |c| c.out_of_x("Softplus")),
    ("softsign", |c| c.out_of_x("Softsign")),
    ("split", shape::split),
    ("sqrt", |c| c.out_of_x("Sqrt")),
    ("square", activation::square),
    ("squeeze", shape::squeeze),
    ("squeeze2", shape::squeeze),
    ("stack", shape::stack),
    ("stanh", activation::stanh),
    ("sum", math::sum),
    ("swish", activation::swish),
    ("tanh", |c| c.out_of_x("Tanh")),
    ("top_k", select::top_k),
    ("transpose", shape::transpose),
    ("transpose2", shape::transpose),
    ("unsqueeze", shape::unsqueeze),
    ("unsqueeze2", shape::unsqueeze),
    ("unstack", shape::unstack),
];

/// The converter of an op, if it has one.
pub(super) fn find(op: &str) -> Option<Converter> {
    let at = CONVERTERS.binary_search_by_key(&op, |(name, _)| name).ok()?;
    Some(CONVERTERS[at].1)
}

impl Convert<'_> {
    /// Out is a function of X that ONNX has.
    fn out_of_x(&mut self, op: &'static str) -> Result<()> {
        let x = self.input("X")?;
        self.out("Out", op, &[&x], Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_names_ops_that_exist() {
        assert!(CONVERTERS.is_sorted_by_key(|(name, _)| *name));
        for (name, _) in CONVERTERS {
            assert!(program::op::find(name).is_ok(), "{name}");
        }
        assert!(find("lstm").is_none());
    }
}
