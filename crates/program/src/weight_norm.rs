//! Weight normalization: a weight as a direction `v` and its length `g`, w = g v / |v|.

use crate::block::OpDesc;
use crate::builder::{Builder, NewParam, Var};
use crate::error::{Error, Result};
use crate::param::{Initializer, ParamAttr, WeightNorm};
use crate::program::Program;
use crate::var::{Meta, VarDesc};

/// A place for the ops of a norm: one of the two programs.
struct NormOps<'a> {
    program: &'a mut Program,
    block: usize,
    /// What names of results begin with.
    layer: String,
}

impl NormOps<'_> {
    /// |x| over all dimensions but one, in the shape of `x` with sizes of 1.
    fn norm(
        &mut self,
        x: &str,
        dim: Option<usize>,
        n: &mut impl FnMut(&str) -> String,
    ) -> Result<String> {
        let meta = self.program.need_var(self.block, x)?.meta.clone();
        let others = (0..meta.dims.len()).filter(|&axis| Some(axis) != dim);
        let others: Vec<i32> = others.map(|axis| axis as i32).collect();
        let square = self.result(n, "weight_norm_pow", &meta);
        let sum = self.result(n, "weight_norm_sum", &meta);
        let norm = self.result(n, "weight_norm_norm", &meta);
        let reduce = OpDesc::new("reduce_sum").attr("dim", others).attr("keep_dim", true);
        let reduce = reduce.attr("reduce_all", false);
        self.append(OpDesc::new("square").input("X", x).output("Out", &square))?;
        self.append(reduce.input("X", &square).output("Out", &sum))?;
        self.append(OpDesc::new("sqrt").input("X", &sum).output("Out", &norm))?;
        Ok(norm)
    }

    fn result(&mut self, name: &mut impl FnMut(&str) -> String, key: &str, meta: &Meta) -> String {
        let name = name(&format!("{}.{key}", self.layer));
        self.program.block_mut(self.block).put_var(VarDesc::new(&name, meta.clone()));
        name
    }

    fn append(&mut self, op: OpDesc) -> Result<()> {
        self.program.append_op(self.block, op)
    }
}

impl Builder<'_> {
    /// The weight that two parameters, `<name>_g` and `<name>_v`, make up.
    pub(crate) fn normalized(&mut self, new: &NewParam<'_>, norm: WeightNorm) -> Result<Var> {
        let rank = new.dims.len();
        if norm.dim.is_some_and(|dim| dim >= rank) {
            return Err(Error::BadArgument {
                layer: "WeightNormParamAttr",
                argument: "dim",
                rule: "it must be a dimension of the weight",
                actual: format!("{:?} of {:?}", norm.dim, new.dims),
            });
        }
        let key = format!("{}.{}", new.layer, new.suffix);
        let name = new.attr.name.clone().unwrap_or_else(|| self.names.generate(&key));
        let part = |ending: &str| ParamAttr {
            name: Some(format!("{name}{ending}")),
            weight_norm: None,
            ..new.attr.clone()
        };
        let mut lengths = vec![1; rank];
        if let Some(dim) = norm.dim {
            lengths[dim] = new.dims[dim];
        }
        let g_attr = ParamAttr { initializer: Some(Initializer::ZERO), ..part("_g") };
        let g = self.parameter(&NewParam { attr: &g_attr, dims: &lengths, ..new.clone() })?;
        let v = self.parameter(&NewParam { attr: &part("_v"), ..new.clone() })?;
        let layer = new.layer.to_string();
        let names = &mut *self.names;
        let mut generate = |key: &str| names.generate(key);
        let mut startup = NormOps { program: &mut *self.startup, block: 0, layer: layer.clone() };
        let length = startup.norm(v.name(), norm.dim, &mut generate)?;
        startup.append(OpDesc::new("assign").input("X", length).output("Out", g.name()))?;
        let block = self.main.current_block();
        let mut main = NormOps { program: &mut *self.main, block, layer };
        let length = main.norm(v.name(), norm.dim, &mut generate)?;
        self.scaled(&g, &v, &Var::from(length), norm)
    }

    /// w = v (g / |v|).
    fn scaled(&mut self, g: &Var, v: &Var, length: &Var, norm: WeightNorm) -> Result<Var> {
        let dtype = self.meta(v)?.dtype;
        let layer = self.layer_name("elementwise_div", None);
        let ratio = self.temp(&layer, dtype);
        let divide = OpDesc::new("elementwise_div").input("X", g).input("Y", length);
        self.op(divide.output("Out", &ratio).attr("axis", -1))?;
        let layer = self.layer_name("reshape", None);
        let (flat, shape) = (self.temp(&layer, dtype), self.temp(&layer, dtype));
        let op = OpDesc::new("reshape2").input("X", &ratio).attr("shape", vec![-1i32]);
        self.op(op.output("Out", &flat).output("XShape", &shape))?;
        let layer = self.layer_name("elementwise_mul", None);
        let weight = self.temp(&layer, dtype);
        let axis = norm.dim.map_or(-1, |dim| dim as i32);
        let multiply = OpDesc::new("elementwise_mul").input("X", v).input("Y", &flat);
        self.op(multiply.output("Out", &weight).attr("axis", axis))?;
        Ok(weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;
    use tensor::DType;

    #[test]
    fn a_weight_is_a_direction_and_its_length() {
        let mut net = Net::default();
        let mut b = net.builder();
        let attr =
            ParamAttr { weight_norm: Some(WeightNorm { dim: Some(1) }), ..ParamAttr::named("w") };
        let new = NewParam {
            layer: "fc_0",
            suffix: "w",
            attr: &attr,
            dims: &[3, 4],
            dtype: DType::F32,
            default_init: Initializer::XAVIER,
        };
        let weight = b.parameter(&new).unwrap();
        assert_eq!(b.meta(&weight).unwrap().dims, [3, 4]);
        let names: Vec<_> = net.main.parameters().map(|param| param.name.clone()).collect();
        assert_eq!(names, ["w_g", "w_v"]);
        assert_eq!(net.main.need_var(0, "w_g").unwrap().meta.dims, [1, 4]);
        let attr = ParamAttr { weight_norm: Some(WeightNorm { dim: Some(2) }), ..attr.clone() };
        let error = net.builder().parameter(&NewParam { attr: &attr, ..new.clone() }).unwrap_err();
        assert!(matches!(error.root(), Error::BadArgument { .. }), "{error}");
    }
}
