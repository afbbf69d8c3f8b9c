//! What keeps a model from being too sure: `dropout` and `label_smooth`.

use tensor::DType;

use super::append::one_op;
use crate::builder::{Builder, Var};
use crate::error::{Error, Result};

layers! { regularizing;
    /// Sets elements to 0 with a probability, in training. The seed is the program's if it has one
    /// and none is given.
    fn dropout(x: Floats, dropout_prob: f32; Dropout<'a> {
        is_test: Flag = false, seed: MaybeI32 = None, name: Name = None,
        dropout_implementation: Text = "downgrade_in_infer",
    }) -> Var { |b|
        let implementation = dropout_implementation;
        if !["downgrade_in_infer", "upscale_in_train"].contains(&implementation) {
            let rule = "must be downgrade_in_infer or upscale_in_train";
            let (layer, argument) = ("dropout", "dropout_implementation");
            let actual = implementation.to_string();
            return Err(Error::BadArgument { layer, argument, rule, actual });
        }
        let seed = seed.or(Some(b.main.random_seed).filter(|&seed| seed != 0));
        let op = one_op(b, "dropout", name).input("X", x).attr("dropout_prob", dropout_prob);
        let op = op.attr("is_test", is_test).attr("dropout_implementation", implementation);
        let op = op.attr("fix_seed", seed.is_some()).attr("seed", seed.unwrap_or(0));
        op.also("Out")?.also_stopped("Mask", DType::U8).first()
    }

    /// One-hot labels moved towards a prior. Gradients do not pass the label from now on. The result
    /// is of the label's type, whatever `dtype` says.
    fn label_smooth(label: Floats; LabelSmooth<'a> {
        prior_dist: MaybeInput = None, epsilon: f32 = 0.1, dtype: MaybeDtype = [None, "'float32'"],
        name: Name = None,
    }) -> Var { |b|
        let _ = dtype;
        if !(0.0..=1.0).contains(&epsilon) {
            let (rule, actual) = ("must be between 0 and 1", epsilon.to_string());
            let (layer, argument) = ("label_smooth", "epsilon");
            return Err(Error::BadArgument { layer, argument, rule, actual });
        }
        b.meta(label)?;
        super::fill::stop_gradient(b, label);
        let op = one_op(b, "label_smooth", name).input("X", label).maybe("PriorDist", prior_dist);
        op.attr("epsilon", epsilon).out("Out")
    }
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
