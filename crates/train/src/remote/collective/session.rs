//! The other trainers, as the ops of one run see them.

use program::trainers::{Asked, Collective, Expected, ReduceOp, TrainerGroup, Trainers};
use program::{Program, Result};
use protocol::collective::{Exchanged, Terms};
use tensor::{Tensor, Value};

use super::joined::Joined;
use super::sum::ProgramSums;
use super::trainers::Group;
use crate::error::Error;
use crate::gradients;
use crate::remote::TrainerJob;
use crate::remote::links::Links;

/// One run's exchanges with other trainers.
pub(crate) struct Exchanging<'a> {
    group: &'a Group,
    links: &'a Links,
    program: &'a Program,
    sums: &'a mut ProgramSums,
    has_agreed: bool,
    /// Exchanges that were begun and not awaited.
    pending: Vec<Pending>,
}

struct Pending {
    var: String,
    number: u64,
}

fn host(error: impl Into<Error>) -> program::Error {
    program::op::host_error(error.into())
}

impl<'a> Exchanging<'a> {
    pub(crate) fn new(
        job: &'a TrainerJob,
        program: &'a Program,
        sums: &'a mut ProgramSums,
    ) -> Self {
        let group = job.group();
        let links = job.links();
        let pending = Vec::new();
        Self { group, links, program, sums, has_agreed: false, pending }
    }

    fn joined(&mut self) -> Result<Joined> {
        let joined = self.group.joined().ok_or_else(|| host(Error::NoTrainers))?;
        if !self.has_agreed {
            if let Some(sum) = self.sums.of(self.program) {
                joined
                    .agree(sum, self.group.start_to_compare(self.links).as_ref())
                    .map_err(host)?;
            }
            self.has_agreed = true;
        }
        Ok(joined)
    }

    /// Begins an exchange; the value is gone only if it has begun.
    fn start(&mut self, asked: &Asked, value: &mut Value) -> Result<Pending> {
        let joined = self.joined()?;
        value.unshare();
        let by_rows = matches!(value, Value::Rows(_))
            && matches!(asked.collective, Collective::AllReduce(ReduceOp::Sum));
        let collective = if by_rows { Collective::AllGather } else { asked.collective };
        let terms = Terms { collective, var: asked.var.clone(), ring: asked.ring };
        if let Err(why) = joined.mesh.check(collective, value) {
            return Err(host(Error::NotExchanged { var: asked.var.clone(), why }));
        }
        if by_rows {
            gradients::merge(value);
        }
        let number = joined.mesh.begin(&terms, std::mem::take(value));
        Ok(Pending { var: asked.var.clone(), number })
    }

    /// Ends an exchange; the value stays as it was if that fails.
    fn end(&mut self, pending: &Pending, value: &mut Value) -> Result<()> {
        let joined = self.group.joined().ok_or_else(|| host(Error::NoTrainers))?;
        match joined.mesh.wait(pending.number) {
            Ok(Exchanged::One(one)) => *value = one,
            Ok(Exchanged::All(all)) => {
                let all: Vec<Value> = all.iter().map(|value| Value::clone(value)).collect();
                *value = together(pending, all)?;
            }
            Err(error) => {
                if let Some(own) = joined.mesh.abandon(pending.number) {
                    *value = own;
                }
                return Err(host(error));
            }
        }
        Ok(())
    }
}

/// The values of all trainers as one: rows with every key once, tensors one below the other.
fn together(pending: &Pending, all: Vec<Value>) -> Result<Value> {
    let mut all = all.into_iter();
    let mut first = all.next().unwrap_or_default();
    let others: Vec<Value> = all.collect();
    if matches!(first, Value::Rows(_)) {
        gradients::add_up(&pending.var, &mut first, &others).map_err(host)?;
        gradients::merge(&mut first);
        return Ok(first);
    }
    let parts: Vec<&Tensor> =
        std::iter::once(&first).chain(&others).filter_map(Value::tensor).collect();
    let n_rows = parts.iter().map(|part| part.dims().first().copied().unwrap_or(0)).sum();
    let mut out = Tensor::default();
    if let Some(part) = parts.first() {
        out.resize_as(part.dtype(), part.shape().with_dim(0, n_rows));
    }
    let mut at = 0;
    for part in &parts {
        let bytes = part.bytes();
        if let Some(place) = out.bytes_mut().get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        at += bytes.len();
    }
    Ok(Value::Tensor(out))
}

impl Trainers for Exchanging<'_> {
    fn join(&mut self, members: &TrainerGroup) -> Result<()> {
        let sum = self.sums.of(self.program);
        self.group.join(self.links, members, sum).map_err(host)?;
        // The others had to have the same program to be met.
        self.has_agreed = true;
        Ok(())
    }

    fn check(&mut self, expected: Expected) -> Result<()> {
        self.joined()?.check(expected).map_err(host)
    }

    fn exchange(&mut self, asked: &Asked, value: &mut Value) -> Result<()> {
        let pending = self.start(asked, value)?;
        self.end(&pending, value)
    }

    fn begin(&mut self, asked: &Asked, mut value: Value) -> Result<()> {
        let pending = self.start(asked, &mut value)?;
        self.pending.push(pending);
        Ok(())
    }

    fn finish(&mut self, var: &str, value: &mut Value) -> Result<()> {
        let at = self.pending.iter().position(|pending| pending.var == var);
        let Some(at) = at else {
            return Err(host(Error::NotExchanged {
                var: var.to_string(),
                why: "nothing was begun",
            }));
        };
        let pending = self.pending.remove(at);
        self.end(&pending, value)
    }
}
