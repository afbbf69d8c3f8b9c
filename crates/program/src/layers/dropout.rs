//! What keeps a model from being too sure: `dropout` and `label_smooth`.

use tensor::DType;

use super::append::append;
use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::{Error, Result};

/// Options of [`dropout`]; defaults as in `fluid.layers.dropout`.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // The names are Fluid's.
pub struct Dropout<'a> {
    pub is_test: bool,
    /// The program's seed if `None` and it has one.
    pub seed: Option<i32>,
    pub name: Option<&'a str>,
    pub dropout_implementation: &'a str,
}

impl Default for Dropout<'_> {
    fn default() -> Self {
        let dropout_implementation = "downgrade_in_infer";
        Self { is_test: false, seed: None, name: None, dropout_implementation }
    }
}

/// Sets elements to 0 with a probability, in training.
pub fn dropout(b: &mut Builder<'_>, x: &Var, prob: f32, options: Dropout<'_>) -> Result<Var> {
    let implementation = options.dropout_implementation;
    if !["downgrade_in_infer", "upscale_in_train"].contains(&implementation) {
        let rule = "must be downgrade_in_infer or upscale_in_train";
        let (layer, argument) = ("dropout", "dropout_implementation");
        let actual = implementation.to_string();
        return Err(Error::BadArgument { layer, argument, rule, actual });
    }
    let layer = b.layer_name("dropout", options.name);
    let out = b.temp(&layer, b.meta(x)?.dtype);
    let mask = b.temp_stopped(&layer, DType::U8);
    let program_seed = Some(b.main.random_seed).filter(|&seed| seed != 0);
    let seed = options.seed.or(program_seed);
    b.op(OpDesc::new("dropout")
        .input("X", x)
        .output("Out", &out)
        .output("Mask", &mask)
        .attr("dropout_prob", prob)
        .attr("is_test", options.is_test)
        .attr("fix_seed", seed.is_some())
        .attr("seed", seed.unwrap_or(0))
        .attr("dropout_implementation", implementation))?;
    Ok(out)
}

/// Options of [`label_smooth`]; defaults as in `fluid.layers.label_smooth`.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // The names are Fluid's.
pub struct LabelSmooth<'a> {
    pub prior_dist: Option<&'a Var>,
    pub epsilon: f32,
    pub name: Option<&'a str>,
}

impl Default for LabelSmooth<'_> {
    fn default() -> Self {
        Self { prior_dist: None, epsilon: 0.1, name: None }
    }
}

/// One-hot labels moved towards a prior. Gradients do not pass the label from now on.
pub fn label_smooth(b: &mut Builder<'_>, label: &Var, options: LabelSmooth<'_>) -> Result<Var> {
    if !(0.0..=1.0).contains(&options.epsilon) {
        let (rule, actual) = ("must be between 0 and 1", options.epsilon.to_string());
        let (layer, argument) = ("label_smooth", "epsilon");
        return Err(Error::BadArgument { layer, argument, rule, actual });
    }
    let dtype = b.meta(label)?.dtype;
    let block = b.main.current_block();
    let owner = b.main.owner_of(block, label.name()).unwrap_or(block);
    if let Some(desc) = b.main.block_mut(owner).var_mut(label.name()) {
        desc.stop_gradient = true;
    }
    let mut op = OpDesc::new("label_smooth").input("X", label);
    if let Some(prior) = options.prior_dist {
        op = op.input("PriorDist", prior);
    }
    append(b, ("label_smooth", options.name), dtype, op.attr("epsilon", options.epsilon))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;
    use crate::layers::{self, Data};

    #[test]
    fn the_seed_of_the_program_is_fixed() {
        let mut net = Net::with_seed(5);
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[3], Data::default()).unwrap();
        let y = dropout(&mut b, &x, 0.5, Dropout::default()).unwrap();
        assert_eq!(y.name(), "dropout_0.tmp_0");
        assert_eq!(b.meta(&Var::from("dropout_0.tmp_1")).unwrap().dtype, DType::U8);
        let attrs = &net.main.block(0).ops[0].attrs;
        assert_eq!(attrs.int("seed", 0).unwrap(), 5);
        assert!(attrs.bool("fix_seed", false).unwrap());
    }

    #[test]
    fn smoothing_stops_the_gradient_of_the_label() {
        let mut net = Net::default();
        let mut b = net.builder();
        let options = Data { stop_gradient: false, ..Data::default() };
        let x = layers::data(&mut b, "x", &[3], options).unwrap();
        let y = label_smooth(&mut b, &x, LabelSmooth::default()).unwrap();
        assert_eq!(y.name(), "label_smooth_0.tmp_0");
        assert!(b.desc(&x).unwrap().stop_gradient);
    }

    #[test]
    fn refuses_bad_arguments() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[3], Data::default()).unwrap();
        let options = Dropout { dropout_implementation: "sometimes", ..Dropout::default() };
        let error = dropout(&mut b, &x, 0.5, options).unwrap_err();
        assert!(matches!(error, Error::BadArgument { .. }), "{error}");
        let options = LabelSmooth { epsilon: 2.0, ..LabelSmooth::default() };
        let error = label_smooth(&mut b, &x, options).unwrap_err();
        assert!(matches!(error, Error::BadArgument { .. }), "{error}");
    }
}
