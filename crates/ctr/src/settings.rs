//! Settings of the user for a training.

use std::collections::BTreeMap;

use program::distributed::Mode;
use program::optimizer::{Adagrad, Optimizer};

use crate::error::{Error, Result};
use crate::words::{Architecture, FeatureKind, Loss};

/// How a click-through model is trained. Every field has a usual value; [`Ctr::new`] needs the target.
///
/// ```
/// use data::{DataFrame, Series, Values};
///
/// let clicked = (0..400).map(|row| i64::from(row % 3 == 0)).collect();
/// let shown = (0..400).map(|row| row % 3).collect();
/// let frame = DataFrame::new(vec![
///     Series { name: "clicked".into(), values: Values::Whole(clicked) },
///     Series { name: "ad_id".into(), values: Values::Whole(shown) },
/// ])?;
/// let mut model = ctr::Ctr::new("clicked").fit(&frame)?;
/// assert!(model.auc(&frame)? > 0.99);
/// # Ok::<(), ctr::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Ctr {
    /// The column to predict.
    pub target: String,
    /// The value of the target that is a click; the greater one if `None`.
    pub positive: Option<String>,
    /// The model.
    pub architecture: Architecture,
    /// The loss that training minimizes.
    pub loss: Loss,
    /// Passes over the rows, at most.
    pub epochs: u32,
    /// Rows of a step.
    pub batch_size: usize,
    /// The step size of Adagrad.
    pub learning_rate: f32,
    /// Numbers that stand for a category.
    pub dim: i64,
    /// Widths of the hidden layers.
    pub hidden: Vec<i64>,
    /// Weight decay of the tables and layers.
    pub l2: f32,
    /// Ids of all categories together; chosen by the number of different ones if `None`.
    pub n_ids: Option<u64>,
    /// The part of the rows that is kept for validation; a tenth if `None`, or nothing for one epoch.
    pub validation: Option<f64>,
    /// Epochs without a better validation before training stops.
    pub patience: u32,
    /// Where random numbers start.
    pub seed: i32,
    /// The kinds of columns, where the guess is wrong.
    pub kinds: BTreeMap<String, FeatureKind>,
    /// How workers keep step, if servers hold the model.
    pub mode: Mode,
}

/// No memory holds the weights of wider layers.
const WIDTH_MAX: i64 = 1 << 20;

impl Ctr {
    /// The usual settings.
    pub fn new(target: &str) -> Self {
        Self {
            target: target.to_string(),
            positive: None,
            architecture: Architecture::default(),
            loss: Loss::default(),
            epochs: 10,
            batch_size: 256,
            learning_rate: 0.02,
            dim: 9,
            hidden: vec![128, 64, 32],
            l2: 0.0,
            n_ids: None,
            validation: None,
            patience: 2,
            seed: 1,
            kinds: BTreeMap::new(),
            mode: Mode::default(),
        }
    }

    /// The usual settings for a loss. Numbers such as ratings need more numbers for a category than clicks, larger
    /// steps, and weight decay. They were chosen by a part of the training rows of MovieLens that was kept back.
    pub fn for_loss(target: &str, loss: Loss) -> Self {
        let usual = Self::new(target);
        match loss {
            Loss::Log => usual,
            Loss::Squared => {
                Self { loss, epochs: 30, learning_rate: 0.05, dim: 16, l2: 5e-4, ..usual }
            }
        }
    }

    pub(crate) fn optimizer(&self) -> Optimizer {
        Optimizer::new(Adagrad::default(), self.learning_rate)
    }

    /// The part that is kept for validation.
    pub(crate) fn validation_part(&self) -> f64 {
        self.validation.unwrap_or(if self.epochs > 1 { 0.1 } else { 0.0 })
    }

    /// Refuses settings that mean nothing. `fit` does so, too.
    pub fn check(&self) -> Result<()> {
        let least = |setting, found: i64, least: i64| {
            if found >= least {
                Ok(())
            } else {
                let expected = if least == 0 { "0 or more" } else { "1 or more" };
                Err(Error::BadSetting { setting, expected, found: found.to_string() })
            }
        };
        if self.target.is_empty() {
            let (setting, expected) = ("target", "the name of a column");
            return Err(Error::BadSetting { setting, expected, found: "\"\"".to_string() });
        }
        if self.kinds.contains_key(&self.target) {
            let (setting, expected) = ("columns", "about columns that the model reads");
            let found = format!("about the target `{}`", self.target);
            return Err(Error::BadSetting { setting, expected, found });
        }
        least("epochs", self.epochs.into(), 1)?;
        least("patience", self.patience.into(), 1)?;
        least("batch_size", self.batch_size as i64, 1)?;
        let width = |setting, found: i64| {
            if (1..=WIDTH_MAX).contains(&found) {
                Ok(())
            } else {
                let expected = "between 1 and 1048576";
                Err(Error::BadSetting { setting, expected, found: found.to_string() })
            }
        };
        width("dim", self.dim)?;
        self.hidden.iter().try_for_each(|&found| width("hidden", found))?;
        let number = |setting, found: f64, fits: bool, expected| {
            if fits {
                Ok(())
            } else {
                Err(Error::BadSetting { setting, expected, found: found.to_string() })
            }
        };
        let rate = f64::from(self.learning_rate);
        number(
            "learning_rate",
            rate,
            rate > 0.0 && rate.is_finite(),
            "a finite number greater than 0",
        )?;
        let l2 = f64::from(self.l2);
        number("l2", l2, l2 >= 0.0 && l2.is_finite(), "a finite number, 0 or more")?;
        let part = self.validation_part();
        number("validation", part, (0.0..1.0).contains(&part), "at least 0 and below 1")?;
        match self.n_ids {
            Some(n) if !(1..1 << 40).contains(&n) => {
                let (setting, expected) = ("ids", "between 1 and 2^40");
                Err(Error::BadSetting { setting, expected, found: n.to_string() })
            }
            _ => Ok(()),
        }
    }
}
