//! A net whose gradients do not depend on its parameters: the result of training it is known
//! without training, to the last bit.

use program::backward::Limits;
use program::layers::{self, Data, Decay, Elementwise, Embedding, Fc};
use program::optimizer::{LearningRate, Optimizer, Sgd};
use program::{Initializer, Net, ParamAttr, Result, Var};
use tensor::{DType, Tensor};
use train::Feed;

/// The rate that it is trained with.
pub const LR: f32 = 0.25;
/// Rows of its table: enough to be cut in two.
pub const N_ROWS: i64 = 10_001;
/// A row that every step of every trainer uses.
pub const COMMON: i64 = 7;
/// Rows of `w`.
pub const N_FEATURES: usize = 4;

/// Its parts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Linear {
    /// Beside `w` there is a sparse table.
    pub table: bool,
    /// The table is spread over servers by id.
    pub is_distributed: bool,
    /// The rate halves with every step.
    pub halving: bool,
}

impl Linear {
    /// `mean(x . w) + mean(table[ids])`, trained by SGD; `w` starts as 1, the table as 0.5.
    pub fn build(self) -> (Net, Var) {
        self.try_build().unwrap_or_else(|error| panic!("linear: {error}"))
    }

    fn try_build(self) -> Result<(Net, Var)> {
        let constant = |name: &str, value| ParamAttr {
            initializer: Some(Initializer::Constant { value }),
            ..ParamAttr::named(name)
        };
        let mut net = Net::with_seed(90);
        let mut b = net.builder();
        let b = &mut b;
        let x = layers::data(b, "x", &[N_FEATURES as i64], Data::default())?;
        let weight = vec![constant("w", 1.0)];
        let fc = Fc { param_attr: weight, bias_attr: None, ..Fc::default() };
        let product = layers::fc(b, &[x], 1, fc)?;
        let mut loss = layers::mean(b, &product, None)?;
        if self.table {
            let ids = Data { dtype: DType::I64, ..Data::default() };
            let ids = layers::data(b, "ids", &[1], ids)?;
            let options = Embedding {
                is_sparse: true,
                is_distributed: self.is_distributed,
                param_attr: constant("table", 0.5),
                ..Embedding::default()
            };
            let rows = layers::embedding(b, &ids, [N_ROWS, 4], options)?;
            let mean = layers::mean(b, &rows, None)?;
            loss = layers::elementwise_add(b, &loss, &mean, Elementwise::default())?;
        }
        let mut rate: LearningRate = LR.into();
        if self.halving {
            let learning_rate = f64::from(LR);
            let decay_steps = 1.0;
            let decay_rate = 0.5;
            let decay = Decay { learning_rate, decay_steps, decay_rate, staircase: false };
            rate = layers::exponential_decay(b, decay)?.into();
        }
        Optimizer::new(Sgd, rate).minimize(b, &loss, &Limits::default())?;
        Ok((net, loss))
    }

    /// Two samples; the gradient of `w` is [`grad`].
    pub fn feed(self, trainer: usize, step: usize) -> Feed {
        let grad = grad(trainer, step);
        // Different rows with this mean.
        let rows: Vec<f32> =
            grad.iter().map(|g| g + 2.0).chain(grad.iter().map(|g| g - 2.0)).collect();
        let feed = Feed::new().with("x", Tensor::new([2, N_FEATURES], &rows).expect("rows"));
        if !self.table {
            return feed;
        }
        let ids = [COMMON, own_row(trainer)];
        feed.with("ids", Tensor::new([2, 1], &ids).expect("ids"))
    }
}

/// The gradient of `w` that a step computes.
pub fn grad(trainer: usize, step: usize) -> [f32; N_FEATURES] {
    [(trainer + 1) as f32, (step + 1) as f32, 0.5, -1.0]
}

/// The sum of these steps' gradients.
pub fn sum(steps: impl Iterator<Item = (usize, usize)>) -> [f32; N_FEATURES] {
    steps.fold([0.0; N_FEATURES], |mut sum, (trainer, step)| {
        sum.iter_mut().zip(grad(trainer, step)).for_each(|(sum, g)| *sum += g);
        sum
    })
}

/// A row that only this trainer uses; it lies in the table's second half.
pub fn own_row(trainer: usize) -> i64 {
    6000 + trainer as i64
}

/// The number that a step adds to each number of the gradient of a row that it uses.
pub const ROW_GRAD: f32 = 0.125;
