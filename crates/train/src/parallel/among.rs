//! Devices of one trainer among trainers that add up their gradients, without servers.

use program::trainers::Expected;
use program::{OpDesc, Program};
use tensor::Tensor;
use transpile::add_up_gradients;

use super::Parallel;
use crate::error::Result;
use crate::executor::Feed;
use crate::scope::Scope;

/// The trainers of a job without servers.
#[derive(Debug)]
pub(super) struct Among {
    rank: i64,
    n_trainers: i64,
    /// The program of one device with exchanges, and what it was made from.
    program: Option<WithExchanges>,
}

/// A variable of scopes whose variables were taken from trainer 0. As such it comes back when a job goes back.
const BEGUN: &str = "@BEGUN_AMONG_TRAINERS@";

impl Among {
    /// Another one that does as this one does.
    pub(super) fn twin(&self) -> Self {
        Self { rank: self.rank, n_trainers: self.n_trainers, program: None }
    }
}

/// A program with exchanges, and what it was made from.
#[derive(Debug)]
struct WithExchanges {
    id: u64,
    version: u64,
    program: Program,
}

impl Parallel {
    /// Adds up gradients with other trainers: the startup program has met them. Every trainer starts with
    /// the variables of trainer 0.
    pub fn among_trainers(&mut self, rank: i64, n_trainers: i64) -> Result<()> {
        if n_trainers < 1 || rank < 0 || rank >= n_trainers {
            let (trainer_id, n_trainers) = (rank.max(0) as usize, n_trainers.max(0) as usize);
            return Err(transpile::Error::TrainerId { trainer_id, n_trainers }.into());
        }
        if n_trainers > 1 {
            self.loss.n_trainers = n_trainers as usize;
            self.among = Some(Among { rank, n_trainers, program: None });
        }
        Ok(())
    }

    /// Takes the variables of trainer 0, once.
    pub(super) fn begin_among(&mut self, program: &Program, scope: &Scope) -> Result<()> {
        let Some(among) = &mut self.among else { return Ok(()) };
        let Among { rank, n_trainers, .. } = among;
        let expected = Expected { rank: Some(*rank), n_trainers: *n_trainers };
        self.once.job().group().check(expected)?;
        if scope.find(BEGUN).is_some() || !self.loss.trains() {
            return Ok(());
        }
        let is_filled = |name: &str| {
            scope.read(name, |value| value.tensor().is_some_and(Tensor::is_initialized))
        };
        let kept = program.block(0).vars().iter().filter(|var| var.persistable);
        let kept = kept.filter(|var| is_filled(&var.name) == Some(true));
        let mut broadcast = Program::default();
        let block = broadcast.block_mut(0);
        for var in kept {
            block.put_var(var.clone());
            let op = OpDesc::new("c_broadcast").input("X", var.name.as_str());
            block.ops.push(op.output("Out", var.name.as_str()).attr("root", 0));
        }
        self.once.run_into(&broadcast, scope, &mut Feed::new(), &[], &mut Vec::new())?;
        scope.set(BEGUN, Tensor::full([1], 1i64));
        Ok(())
    }

    /// Runs on the only device: exchanges go on while the backward pass does.
    pub(super) fn run_alone(
        &mut self,
        program: &Program,
        scope: &Scope,
        feeds: &mut [Feed],
        fetch: &[&str],
    ) -> Result<Vec<Vec<Tensor>>> {
        let loss = self.loss(program);
        let Some(among) = &mut self.among else { return Ok(Vec::new()) };
        let (id, version) = (program.id(), program.version());
        let is_made = |made: &WithExchanges| (made.id, made.version) == (id, version);
        let made = match among.program.take().filter(is_made) {
            Some(made) => made,
            None => {
                let mut own = program.clone();
                if loss.trains() {
                    let ops = std::mem::take(&mut own.block_mut(0).ops);
                    own.block_mut(0).ops =
                        ops.into_iter().filter_map(|op| loss.start(op)).collect();
                    add_up_gradients(&mut own, loss.n_trainers, 1, false)?;
                }
                WithExchanges { id, version, program: own }
            }
        };
        let mut empty = Feed::new();
        let feed = feeds.first_mut().unwrap_or(&mut empty);
        let mut fetched = Vec::new();
        let ran = self.once.run_into(&made.program, scope, feed, fetch, &mut fetched);
        among.program = Some(made);
        ran?;
        Ok(fetched.into_iter().map(|value| vec![value]).collect())
    }
}
