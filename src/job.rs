//! A session that takes part in a job with parameter servers.

use std::path::Path;

use fleet::lifecycle::{Minimize, Served};
use fleet::ready::Watch;
use fleet::{Flags, Fleet, Strategy, env, role};
use net::lines::Line;
use program::backward::Limits;
use program::distributed::Mode;
use program::{Optimizer, Var};
use tensor::Tensor;
use train::{Feed, TrainerJob};

use crate::error::Result;
use crate::session::{Building, Session};

/// The state of a session that holds a part of the parameters for others.
#[derive(Debug)]
pub struct Serving(Fleet);

/// The state of a session that trains with servers.
#[derive(Debug)]
pub struct Trainer(Fleet);

/// What a process of a job is. Both must be gone through: the compiler says so.
#[derive(Debug)]
#[must_use = "a server must serve, and a trainer must train"]
pub enum Member {
    /// It holds a part of the parameters: call [`Session::serve`].
    Server(Box<Session<Serving>>),
    /// It trains, and calls [`Session::finish`] in the end.
    Trainer(Box<Session<Trainer>>),
}

impl Session<Building> {
    /// Takes part in the job that the launcher described in the environment: adds what training needs,
    /// splits the model over the servers, and waits for them. Every process of the job calls it with the
    /// same model.
    ///
    /// ```no_run
    /// use paddlewheel::prelude::*;
    ///
    /// # fn main() -> paddlewheel::Result<()> {
    /// let mut session = Session::new(1);
    /// let b = &mut session.builder();
    /// let x = layers::data(b, "x", &[1], Data::default())?;
    /// let y = layers::data(b, "y", &[1], Data::default())?;
    /// let predicted = layers::fc(b, &[x], 1, Fc::default())?;
    /// let loss = layers::mse_loss(b, &predicted, &y)?;
    /// match session.join(Mode::Sync, Optimizer::new(Sgd::default(), 0.1), &loss)? {
    ///     Member::Server(server) => drop(server.serve()?),
    ///     Member::Trainer(mut trainer) => {
    ///         let x = Tensor::new([2, 1], &[1.0f32, 2.0])?;
    ///         let mut feed = Feed::new().with("x", x.clone()).with("y", x);
    ///         trainer.run(&mut feed, &[&loss])?;
    ///         trainer.finish(None)?;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn join(mut self, mode: Mode, mut optimizer: Optimizer, loss: &Var) -> Result<Member> {
        let flags = Flags::from_environment(&env::process)?;
        let role = role::from_environment(&env::process)?;
        let strategy = Strategy::new(mode, &flags, 1);
        let mut fleet = Fleet::init(role, flags, TrainerJob::default());
        let (optimizer, limits) = (&mut optimizer, &Limits::default());
        let minimized = Minimize { optimizer, loss, limits, strategy };
        let mut watch = Watch { on_line: &mut say, stops: &mut || false };
        fleet.minimize(&mut self.net.builder(), minimized, &mut watch)?;
        if fleet.role().is_server() {
            return Ok(Member::Server(Box::new(self.into_state(Serving(fleet)))));
        }
        fleet.init_worker(&mut say)?;
        self.trainer.set_job(fleet.trainer_job().clone());
        self.trainer.run(&self.net.startup, &self.scope, &mut Feed::new(), &[])?;
        Ok(Member::Trainer(Box::new(self.into_state(Trainer(fleet)))))
    }
}

/// A line for the waiting user, in the log of this process.
fn say(line: &str) {
    Line::info("trainer", line).say();
}

impl Session<Serving> {
    /// Serves until all trainers have finished, the job failed, or a signal came.
    pub fn serve(mut self) -> Result<Served> {
        self.state.0.init_server(&self.scope, None)?;
        Ok(self.state.0.run_server(&self.scope)?)
    }
}

impl Session<Trainer> {
    /// The process and its job.
    pub fn fleet(&self) -> &Fleet {
        &self.state.0
    }

    /// Which of the trainers it is.
    pub fn id(&self) -> u32 {
        self.state.0.role().id
    }

    /// Runs a step and returns the variables asked for.
    pub fn run(&mut self, feed: &mut Feed, fetch: &[&Var]) -> Result<Vec<Tensor>> {
        self.step(feed, fetch)
    }

    /// The sums of numbers of all trainers.
    pub fn sum(&self, numbers: &[f64]) -> Result<Vec<f64>> {
        Ok(self.state.0.all_reduce_worker(numbers, "sum")?)
    }

    /// Waits for all trainers; the first one saves the model, if a folder is named; then servers are told
    /// that this trainer is done.
    pub fn finish(mut self, dir: Option<&Path>) -> Result<()> {
        let fleet = &mut self.state.0;
        fleet.barrier_worker()?;
        if let Some(dir) = dir.filter(|_| fleet.role().is_first_trainer()) {
            fleet.save_persistables(&self.scope, dir, &self.net.main)?;
        }
        Ok(fleet.stop_worker(&self.scope)?)
    }
}
