//! The parts of a parameter: how it starts, learns, decays, is clipped.

use tensor::Tensor;

/// Along which dimension a weight has lengths of its own; one for all of it if `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightNorm {
    /// The dimension.
    pub dim: Option<usize>,
}

/// How a parameter is filled by the startup program. A seed of 0 takes the startup program's.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // The fields are the formula's, which stands above each.
pub enum Initializer {
    /// `value` everywhere.
    Constant { value: f32 },
    /// Uniform in [low, high).
    Uniform { low: f32, high: f32, seed: i32 },
    /// Normal with mean `loc` and standard deviation `scale`.
    Normal { loc: f32, scale: f32, seed: i32 },
    /// Normal, drawn again beyond two standard deviations.
    TruncatedNormal { loc: f32, scale: f32, seed: i32 },
    /// Variance 2 / (fan_in + fan_out), uniform or normal. Fans default to those of the shape.
    Xavier { uniform: bool, fan_in: Option<f32>, fan_out: Option<f32>, seed: i32 },
    /// Variance 2 / fan_in, uniform or normal. The fan defaults to that of the shape.
    Msra { uniform: bool, fan_in: Option<f32>, seed: i32 },
    /// The weights of a bilinear interpolation.
    Bilinear,
    /// These numbers.
    Array(Tensor),
}

impl Initializer {
    /// Fluid's default for weights.
    pub const XAVIER: Initializer =
        Initializer::Xavier { uniform: true, fan_in: None, fan_out: None, seed: 0 };
    /// Fluid's default for biases.
    pub const ZERO: Initializer = Initializer::Constant { value: 0.0 };
}

/// A term added to a gradient.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Regularizer {
    /// `c * sign(param)`.
    L1(f32),
    /// `c * param`.
    L2(f32),
}

/// How a gradient is bounded.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // The fields are the formula's, which stands above each.
pub enum GradClip {
    /// Each number is kept between `min` and `max`.
    Value { min: f32, max: f32 },
    /// A gradient longer than `max_norm` is scaled to that length.
    Norm { max_norm: f32 },
    /// All gradients of the group together are scaled to `max_norm`, if they are longer.
    GlobalNorm { max_norm: f32, group: String },
}

/// The user's attributes of a parameter (`fluid.ParamAttr`).
#[derive(Clone, Debug, PartialEq)]
pub struct ParamAttr {
    /// Its name; a new one is made if `None`.
    pub name: Option<String>,
    /// Its initializer; the choice of the layer if `None`.
    pub initializer: Option<Initializer>,
    /// Factor of the learning rate.
    pub learning_rate: f32,
    /// Weight decay, instead of that of the optimizer.
    pub regularizer: Option<Regularizer>,
    /// The optimizer changes it.
    pub trainable: bool,
    /// How its gradient is clipped, instead of the rule for all.
    pub gradient_clip: Option<GradClip>,
    /// It takes part in model averages.
    pub do_model_average: bool,
    /// It is a direction and its length.
    pub weight_norm: Option<WeightNorm>,
}

impl Default for ParamAttr {
    fn default() -> Self {
        Self {
            name: None,
            initializer: None,
            learning_rate: 1.0,
            regularizer: None,
            trainable: true,
            gradient_clip: None,
            do_model_average: true,
            weight_norm: None,
        }
    }
}

impl ParamAttr {
    /// A parameter of this name, everything else as usual.
    pub fn named(name: &str) -> Self {
        Self { name: Some(name.to_string()), ..Self::default() }
    }

    /// A parameter that starts this way.
    pub fn init(initializer: Initializer) -> Self {
        Self { initializer: Some(initializer), ..Self::default() }
    }
}

/// The facts that a program keeps about a parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct ParamInfo {
    /// The optimizer changes it.
    pub trainable: bool,
    /// Factor of the learning rate.
    pub learning_rate: f32,
    /// Weight decay, instead of that of the optimizer.
    pub regularizer: Option<Regularizer>,
    /// How its gradient is clipped, instead of the rule for all.
    pub gradient_clip: Option<GradClip>,
    /// The clip was set as the code of Fluid 1.8.5 does: it stands for all parameters or for none.
    pub clips_together: bool,
    /// It takes part in model averages.
    pub do_model_average: bool,
    /// A table that lives on servers only.
    pub is_distributed: bool,
}

impl Default for ParamInfo {
    fn default() -> Self {
        ParamInfo::from(&ParamAttr::default())
    }
}

impl From<&ParamAttr> for ParamInfo {
    fn from(attr: &ParamAttr) -> Self {
        Self {
            trainable: attr.trainable,
            learning_rate: attr.learning_rate,
            regularizer: attr.regularizer,
            gradient_clip: attr.gradient_clip.clone(),
            clips_together: false,
            do_model_average: attr.do_model_average,
            is_distributed: false,
        }
    }
}
