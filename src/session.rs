//! A program, its variables and what runs it, in one value.

use std::path::Path;

use program::backward::Limits;
use program::{Builder, Net, Optimizer, Program, Var};
use tensor::Tensor;
use train::io::{self, InferenceModel, SaveInference};
use train::{Feed, Scope};

use crate::error::Result;

/// The state of a session whose model is being built. It cannot run.
#[derive(Debug)]
pub struct Building;

/// The state of a session whose parameters are filled.
#[derive(Debug)]
pub struct Ready;

/// A model and everything it needs: its two programs, the scope of its variables, a trainer, a seed.
///
/// The steps are types: a session that is [`Building`] has layers and no `run`; [`Session::minimize`] makes
/// it [`Ready`].
///
/// ```
/// use paddlewheel::prelude::*;
///
/// # fn main() -> paddlewheel::Result<()> {
/// let mut session = Session::new(1);
/// let b = &mut session.builder();
/// let x = layers::data(b, "x", &[1], Data::default())?;
/// let y = layers::data(b, "y", &[1], Data::default())?;
/// let predicted = layers::fc(b, &[x], 1, Fc::default())?;
/// let loss = layers::mse_loss(b, &predicted, &y)?;
/// let mut session = session.minimize(Optimizer::new(Sgd::default(), 0.1), &loss)?;
/// let mut feed = Feed::new()
///     .with("x", Tensor::new([2, 1], &[1.0f32, 2.0])?)
///     .with("y", Tensor::new([2, 1], &[3.0f32, 5.0])?);
/// for _ in 0..300 {
///     session.run(&mut feed, &[&loss])?;
/// }
/// assert!(session.run(&mut feed, &[&loss])?[0].get_f64(0) < 1e-3);
/// # Ok(())
/// # }
/// ```
///
/// Who forgets to say what is trained cannot run:
///
/// ```compile_fail
/// use paddlewheel::prelude::*;
///
/// let mut session = Session::new(1);
/// session.run(&mut Feed::new(), &[]);
/// ```
#[derive(Debug)]
#[must_use = "a session does nothing by itself"]
pub struct Session<State = Building> {
    pub(crate) net: Net,
    pub(crate) scope: Scope,
    pub(crate) trainer: train::Trainer,
    pub(crate) state: State,
}

impl Session<Building> {
    /// An empty model whose random numbers start from `seed`.
    pub fn new(seed: i32) -> Self {
        let (scope, trainer) = (Scope::new(), train::Trainer::new());
        Self { net: Net::with_seed(seed), scope, trainer, state: Building }
    }

    /// Layers given this are added to the model.
    pub fn builder(&mut self) -> Builder<'_> {
        self.net.builder()
    }

    /// Adds what training needs and fills the parameters.
    pub fn minimize(mut self, mut optimizer: Optimizer, loss: &Var) -> Result<Session<Ready>> {
        optimizer.minimize(&mut self.net.builder(), loss, &Limits::default())?;
        self.ready()
    }

    /// Fills the parameters of a model that is not trained.
    pub fn ready(mut self) -> Result<Session<Ready>> {
        self.trainer.run(&self.net.startup, &self.scope, &mut Feed::new(), &[])?;
        Ok(self.into_state(Ready))
    }

    pub(crate) fn into_state<S>(self, state: S) -> Session<S> {
        let Self { net, scope, trainer, .. } = self;
        Session { net, scope, trainer, state }
    }
}

impl<S> Session<S> {
    /// The main program, to print or to look at.
    pub fn program(&self) -> &Program {
        &self.net.main
    }

    /// Where the variables are.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    pub(crate) fn step(&mut self, feed: &mut Feed, fetch: &[&Var]) -> Result<Vec<Tensor>> {
        let names: Vec<&str> = fetch.iter().map(|var| var.name()).collect();
        Ok(self.trainer.run(&self.net.main, &self.scope, feed, &names)?)
    }
}

impl Session<Ready> {
    /// Runs the main program on a batch and returns the variables asked for.
    pub fn run(&mut self, feed: &mut Feed, fetch: &[&Var]) -> Result<Vec<Tensor>> {
        self.step(feed, fetch)
    }

    /// Saves all that persists, to go on from.
    ///
    /// ```
    /// # use paddlewheel::prelude::*;
    /// # fn main() -> paddlewheel::Result<()> {
    /// # let folder = tempfile::tempdir().expect("a folder");
    /// # let dir = folder.path().join("model");
    /// let build = || -> paddlewheel::Result<Session<Ready>> {
    ///     let mut session = Session::new(7);
    ///     let b = &mut session.builder();
    ///     let x = layers::data(b, "x", &[2], Data::default())?;
    ///     layers::fc(b, &[x], 1, Fc::default())?;
    ///     session.ready()
    /// };
    /// let first = build()?;
    /// first.save(&dir)?;
    /// build()?.load(&dir)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn save(&self, dir: &Path) -> Result<()> {
        Ok(io::save_persistables(&self.scope, dir, &self.net.main, None)?)
    }

    /// Loads what [`Session::save`] wrote.
    pub fn load(&mut self, dir: &Path) -> Result<()> {
        Ok(io::load_persistables(&self.scope, dir, &self.net.main, None)?)
    }

    /// Saves what computes `targets` from `feeds`, for prediction.
    pub fn save_inference_model(&self, dir: &Path, feeds: &[&str], targets: &[&Var]) -> Result<()> {
        let targets: Vec<&str> = targets.iter().map(|var| var.name()).collect();
        let options = SaveInference { feeds, targets: &targets, ..SaveInference::default() };
        io::save_inference_model(&self.scope, dir, &self.net.main, &options)?;
        Ok(())
    }

    /// A model that was saved for prediction, and the names to feed and to fetch.
    pub fn open(dir: &Path) -> Result<(Self, InferenceModel)> {
        let (scope, trainer) = (Scope::new(), train::Trainer::new());
        let model = io::load_inference_model(&scope, dir, None, None)?;
        let net = Net { main: model.program.clone(), ..Net::default() };
        Ok((Self { net, scope, trainer, state: Ready }, model))
    }
}
