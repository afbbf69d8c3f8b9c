//! The models: from inputs to a score, as layers.
//!
//! Each model is a sum of parts. All categories share one table, because their ids are hashed together.

use program::layers::{
    self, Amount, CreateParameter, Data, Elementwise, Embedding, Fc, Matmul, Reduce, Reshape,
    Scale, SigmoidCrossEntropy,
};
use program::{Builder, Initializer, ParamAttr, Regularizer, Result, Var};
use tensor::DType;

use crate::encode::Encoding;
use crate::settings::Ctr;
use crate::words::{Architecture, Loss};

/// Cross layers of a deep and cross network.
const N_CROSS: usize = 2;
/// Rows of tables start within this.
const START: f32 = 0.03;

/// The variables of a model that are used from outside.
#[derive(Clone, Debug)]
pub(crate) struct Outputs {
    /// A prediction for each row.
    pub(crate) predicted: Var,
    /// The mean loss of a batch.
    pub(crate) loss: Var,
}

/// A model under construction.
pub(crate) struct ModelBuilder<'a, 'b> {
    pub(crate) b: &'a mut Builder<'b>,
    pub(crate) settings: &'a Ctr,
    pub(crate) encoding: &'a Encoding,
    /// The score of a row of which nothing is known.
    pub(crate) base: f32,
}

impl ModelBuilder<'_, '_> {
    /// Builds all of it.
    pub(crate) fn build(mut self) -> Result<Outputs> {
        let inputs = self.inputs()?;
        let architecture = self.settings.architecture;
        let mut parts = Vec::new();
        if architecture.is_wide() {
            parts.push(self.wide(&inputs)?);
        }
        if architecture != Architecture::Lr {
            let rows = self.look_up(&inputs.ids, "ctr_factors", self.settings.dim)?;
            if architecture.has_pairs() {
                parts.push(self.pairs(&rows, inputs.numbers.as_ref())?);
            }
            if architecture.is_deep() {
                parts.push(self.deep(&rows, inputs.numbers.as_ref())?);
            }
        }
        let mut score = self.bias()?;
        for part in parts.iter().rev() {
            score = layers::elementwise_add(self.b, part, &score, Elementwise::default())?;
        }
        self.outputs(&score)
    }

    fn inputs(&mut self) -> Result<NetInputs> {
        let id = Data { dtype: DType::I64, ..Data::default() };
        let mut ids = Vec::new();
        for feature in self.encoding.categories() {
            ids.push(layers::data(self.b, &feature.name, &[1], id.clone())?);
        }
        let width = self.encoding.n_numbers() as i64;
        let numbers = match width {
            0 => None,
            _ => {
                let name = self.encoding.numbers_name();
                Some(layers::data(self.b, &name, &[width], Data::default())?)
            }
        };
        Ok(NetInputs { ids, numbers })
    }

    fn attr(&self, name: &str, initializer: Option<Initializer>) -> ParamAttr {
        let l2 = Some(self.settings.l2).filter(|&l2| l2 > 0.0).map(Regularizer::L2);
        ParamAttr { initializer, regularizer: l2, ..ParamAttr::named(name) }
    }

    /// The rows of all slots in a table, side by side.
    fn look_up(&mut self, ids: &[Var], name: &str, dim: i64) -> Result<Vec<Var>> {
        let start = match dim {
            1 => Initializer::ZERO,
            _ => Initializer::Uniform { low: -START, high: START, seed: 0 },
        };
        let size = [self.encoding.n_ids as i64, dim];
        let mut rows = Vec::new();
        for ids in ids {
            let param_attr = self.attr(name, Some(start.clone()));
            let table = Embedding { is_sparse: true, param_attr, ..Embedding::default() };
            rows.push(layers::embedding(self.b, ids, size, table)?);
        }
        Ok(rows)
    }

    /// A weight for each category and number: one score a row.
    fn wide(&mut self, inputs: &NetInputs) -> Result<Var> {
        let mut parts = Vec::new();
        if !inputs.ids.is_empty() {
            let weights = self.look_up(&inputs.ids, "ctr_weights", 1)?;
            let weights = layers::concat(self.b, &weights, 1, None)?;
            let sum = Reduce { dim: Some(&[1]), keep_dim: true, name: None };
            parts.push(layers::reduce_sum(self.b, &weights, sum)?);
        }
        if let Some(numbers) = &inputs.numbers {
            parts.push(self.product(numbers, 1, "ctr_number_weights", Some(Initializer::ZERO))?);
        }
        self.sum(&parts)
    }

    /// `x` times a parameter, without a bias.
    fn product(
        &mut self,
        x: &Var,
        width: i64,
        name: &str,
        start: Option<Initializer>,
    ) -> Result<Var> {
        let param_attr = vec![self.attr(name, start)];
        let fc = Fc { param_attr, bias_attr: None, ..Fc::default() };
        layers::fc(self.b, std::slice::from_ref(x), width, fc)
    }

    fn sum(&mut self, parts: &[Var]) -> Result<Var> {
        match parts {
            [one] => Ok(one.clone()),
            many => layers::sums(self.b, many, None),
        }
    }

    /// Half of (the square of the sum less the sum of the squares): all products of pairs.
    fn pairs(&mut self, rows: &[Var], numbers: Option<&Var>) -> Result<Var> {
        let dim = self.settings.dim;
        let (mut sums, mut squares) = (Vec::new(), Vec::new());
        if !rows.is_empty() {
            let joined = layers::concat(self.b, rows, 1, None)?;
            let shape = [-1, rows.len() as i64, dim];
            let cube = layers::reshape(self.b, &joined, &shape[..], Reshape::default())?;
            let slots = || Reduce { dim: Some(&[1]), keep_dim: false, name: None };
            sums.push(layers::reduce_sum(self.b, &cube, slots())?);
            let squared = layers::square(self.b, &cube, None)?;
            squares.push(layers::reduce_sum(self.b, &squared, slots())?);
        }
        if let Some(numbers) = numbers {
            let start = Initializer::Uniform { low: -START, high: START, seed: 0 };
            let name = "ctr_number_factors";
            sums.push(self.product(numbers, dim, name, Some(start))?);
            let x2 = layers::square(self.b, numbers, None)?;
            let v2 = layers::square(self.b, &Var::from(name), None)?;
            squares.push(layers::matmul(self.b, &x2, &v2, Matmul::default())?);
        }
        let (sum, squares) = (self.sum(&sums)?, self.sum(&squares)?);
        let square = layers::square(self.b, &sum, None)?;
        let pairs = layers::elementwise_sub(self.b, &square, &squares, Elementwise::default())?;
        let all = Reduce { dim: Some(&[1]), keep_dim: true, name: None };
        let pairs = layers::reduce_sum(self.b, &pairs, all)?;
        layers::scale(self.b, &pairs, Scale { scale: Amount::Is(0.5), ..Scale::default() })
    }

    /// Hidden layers over everything side by side; with cross layers beside them in a `dcn`.
    fn deep(&mut self, rows: &[Var], numbers: Option<&Var>) -> Result<Var> {
        let parts: Vec<Var> = rows.iter().chain(numbers).cloned().collect();
        let input = layers::concat(self.b, &parts, 1, None)?;
        let mut ends = Vec::new();
        if self.settings.architecture == Architecture::Dcn {
            ends.push(self.cross(&input)?);
        }
        let mut hidden = input;
        for (nth, &width) in self.settings.hidden.iter().enumerate() {
            let param_attr = vec![self.attr(&format!("ctr_hidden_{nth}"), None)];
            let fc = Fc { param_attr, act: Some("relu"), ..Fc::default() };
            hidden = layers::fc(self.b, &[hidden], width, fc)?;
        }
        ends.push(hidden);
        let joined = match ends.as_slice() {
            [one] => one.clone(),
            many => layers::concat(self.b, many, 1, None)?,
        };
        self.product(&joined, 1, "ctr_out", None)
    }

    /// x' = x0 (x · w) + b + x, a few times.
    fn cross(&mut self, first: &Var) -> Result<Var> {
        let width = self.b.meta(first)?.dims.last().copied().unwrap_or(1);
        let mut x = first.clone();
        for nth in 0..N_CROSS {
            let weight = self.product(&x, 1, &format!("ctr_cross_{nth}"), None)?;
            let by_row = Elementwise { axis: 0, ..Elementwise::default() };
            let scaled = layers::elementwise_mul(self.b, first, &weight, by_row)?;
            let attr = ParamAttr::named(&format!("ctr_cross_bias_{nth}"));
            let bias =
                CreateParameter { attr: Some(attr), is_bias: true, ..CreateParameter::default() };
            let bias = layers::create_parameter(self.b, &[width], DType::F32, bias)?;
            let kept = layers::elementwise_add(self.b, &x, &bias, Elementwise::default())?;
            x = layers::elementwise_add(self.b, &scaled, &kept, Elementwise::default())?;
        }
        Ok(x)
    }

    fn bias(&mut self) -> Result<Var> {
        let start = Initializer::Constant { value: self.base };
        let attr = ParamAttr { initializer: Some(start), ..ParamAttr::named("ctr_bias") };
        let bias =
            CreateParameter { attr: Some(attr), is_bias: true, ..CreateParameter::default() };
        layers::create_parameter(self.b, &[1], DType::F32, bias)
    }

    fn outputs(&mut self, score: &Var) -> Result<Outputs> {
        let label = layers::data(self.b, &self.encoding.target.name, &[1], Data::default())?;
        let (predicted, cost) = match self.settings.loss {
            Loss::Log => {
                let options = SigmoidCrossEntropy::default();
                let cost =
                    layers::sigmoid_cross_entropy_with_logits(self.b, score, &label, options)?;
                (layers::sigmoid(self.b, score, None)?, cost)
            }
            Loss::Squared => {
                let cost = layers::square_error_cost(self.b, score, &label)?;
                (score.clone(), cost)
            }
        };
        Ok(Outputs { predicted, loss: layers::mean(self.b, &cost, None)? })
    }
}

struct NetInputs {
    /// An id input for each category.
    ids: Vec<Var>,
    /// All numbers.
    numbers: Option<Var>,
}
