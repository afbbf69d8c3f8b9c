//! `hello` names the sender. The first message of every connection.

use super::Body;
use crate::codec::{Reader, Writer};
use crate::error::Result;
use crate::recovery::Term;

/// The protocol this build speaks.
pub const VERSION: u32 = 8;

/// Before the place of a checkpoint in the list of variables.
const START: &str = "@CHECKPOINT@";

/// Before the reason why a job cannot begin in the list of variables.
const NO_START: &str = "@NO START@";

/// A variable, as a process of a job sees it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VarInfo {
    /// Its name on the server.
    pub name: String,
    /// Its shape there; empty where that does not matter.
    pub dims: Vec<i64>,
    /// It is a parameter: a process that has it must find it on the other side, with the same
    /// shape.
    pub is_param: bool,
}

impl VarInfo {
    /// A parameter.
    pub fn param(name: &str, dims: &[i64]) -> Self {
        Self { name: name.to_string(), dims: dims.to_vec(), is_param: true }
    }

    /// A gradient, or state of an optimizer: the other side may not know it.
    pub fn other(name: &str) -> Self {
        Self { name: name.to_string(), dims: Vec::new(), is_param: false }
    }

    /// No variable: the checkpoint that a process begins from, and the machine and folder it is looked for in.
    /// All processes of a job must begin from the same.
    pub fn start(serial: Option<u64>, place: &str) -> Self {
        let serial = serial.map_or(-1, |serial| serial as i64);
        Self { name: format!("{START}{place}"), dims: vec![serial], is_param: false }
    }

    /// No variable: why the job of this trainer cannot begin, as another server has said. Servers that it has not
    /// met would wait for it.
    pub fn no_start(why: &str) -> Self {
        Self::other(&format!("{NO_START}{why}"))
    }

    /// Why the job cannot begin, if this says so.
    pub fn no_start_words(&self) -> Option<&str> {
        self.name.strip_prefix(NO_START)
    }

    /// Which checkpoint this says that a process begins from, in words, if it says that.
    pub fn start_words(&self) -> Option<String> {
        let place = self.name.strip_prefix(START)?;
        Some(match self.dims.first().copied() {
            Some(serial @ 0..) => format!("checkpoint {serial} of {place}"),
            _ => format!("no checkpoint (it looks in {place})"),
        })
    }
}

/// Answered by [`Welcome`], or refused and cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// See [`VERSION`].
    pub version: u32,
    /// The job, as a text that is the same in all its processes.
    pub job: String,
    /// The rank of the trainer.
    pub trainer: u32,
    /// Differs from process to process: a trainer that was started again is another one.
    pub incarnation: u64,
    /// The term that it wants to take part in; number 0 asks for the server's state.
    pub term: Term,
    /// Every variable of this server that the trainer will name. From now on its number is its
    /// position in this list.
    pub vars: Vec<VarInfo>,
}

impl Hello {
    /// The greeting of a trainer of this version that has not taken part in a term.
    pub fn new(job: impl Into<String>, trainer: u32, incarnation: u64, vars: Vec<VarInfo>) -> Self {
        let term = Term::default();
        Self { version: VERSION, job: job.into(), trainer, incarnation, term, vars }
    }
}

impl Body for Hello {
    fn encode<'a>(&'a self, out: &mut Writer<'a>) {
        out.u32(self.version);
        out.str(&self.job);
        out.u32(self.trainer);
        out.u64(self.incarnation);
        if self.version < VERSION {
            return;
        }
        self.term.encode(out);
        out.count(self.vars.len());
        for var in &self.vars {
            out.str(&var.name);
            out.u8(var.is_param.into());
            out.u8(var.dims.len() as u8);
            var.dims.iter().for_each(|&dim| out.u64(dim as u64));
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        let (version, job) = (input.u32()?, input.str()?);
        let (trainer, incarnation) = (input.u32()?, input.u64()?);
        // An older release gets an error about its version, not about malformed bytes.
        let is_ours = version >= VERSION;
        let term = if is_ours { Term::decode(input)? } else { Term::default() };
        let n_vars = if is_ours { input.count()? } else { 0 };
        let vars = (0..n_vars).map(|_| held(input)).collect::<Result<_>>()?;
        Ok(Self { version, job, trainer, incarnation, term, vars })
    }
}

impl Body for Term {
    fn encode<'a>(&'a self, out: &mut Writer<'a>) {
        out.u64(self.number);
        out.u8(self.base.is_some().into());
        self.base.into_iter().for_each(|base| out.u64(base));
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        let number = input.u64()?;
        let base = if input.flag()? { Some(input.u64()?) } else { None };
        Ok(Self { number, base })
    }
}

fn held(input: &mut Reader<'_>) -> Result<VarInfo> {
    let name = input.str()?;
    let is_param = input.u8()? != 0;
    let rank = input.u8()?;
    let dims = (0..rank).map(|_| Ok(input.u64()? as i64)).collect::<Result<_>>()?;
    Ok(VarInfo { name, dims, is_param })
}

/// The server's record of this trainer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The last change of this incarnation that was applied.
    pub accepted: u64,
    /// Rounds that have been applied.
    pub round: u64,
}

impl Body for Welcome {
    fn encode<'a>(&'a self, out: &mut Writer<'a>) {
        out.u64(self.accepted);
        out.u64(self.round);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        Ok(Self { accepted: input.u64()?, round: input.u64()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::check::{answer_survives, survives};

    #[test]
    fn survives_the_wire() {
        let job = "a1b2".to_string();
        let (w, table) = (VarInfo::param("w.block0", &[1 << 40, 4]), VarInfo::param("table", &[]));
        let vars = vec![w, table, VarInfo::other("w@GRAD.block0")];
        for base in [None, Some(u64::MAX)] {
            let job = job.clone();
            let vars = vars.clone();
            let term = Term { number: 7, base };
            survives(Hello { term, ..Hello::new(job, 3, u64::MAX, vars) });
        }
        answer_survives(Welcome { accepted: 9, round: 4 });
    }

    #[test]
    fn the_greeting_of_a_large_model_is_taken() {
        let name = |at| VarInfo::param(&format!("{}{at}", "n".repeat(60)), &[1, 1, 1, 1]);
        let hello = Hello::new("", 0, 1, (0..50_000).map(name).collect());
        let frame = crate::frame::Frame { id: 0, body: &crate::message::Request::Hello(hello) };
        let n_bytes = crate::frame::to_bytes(&frame).len() as u64;
        assert!(n_bytes < crate::frame::HELLO_BYTES_MAX, "{n_bytes}");
    }
}
