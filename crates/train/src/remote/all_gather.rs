//! Agreements of all trainers, through the first server.

use wire::message::{AllGather, Reply};

use super::events::ScriptEvent;
use super::links::Links;
use super::{TrainerJob, unexpected};
use crate::error::{Error, Result};
use crate::recover::{ByteReader, ByteWriter, EventKind, EventPrint, Repeat, Uses};

impl TrainerJob {
    /// Waits for all trainers, for a purpose; returns what each brought, in the order of their ranks.
    pub fn all_gather(&self, purpose: &str, bytes: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        self.all_gather_with(purpose, &mut || Ok(bytes.clone()))
    }

    /// Like [`TrainerJob::all_gather`], with what `bring` returns. If an earlier process of this trainer was
    /// at this point, `bring` is not called and the outcome of that time is returned.
    pub fn all_gather_with(
        &self,
        purpose: &str,
        bring: &mut dyn FnMut() -> Result<Vec<u8>>,
    ) -> Result<Vec<Vec<u8>>> {
        let mut event =
            AllGatherEvent { job: self, purpose, bring, gathered: Vec::new(), brought: None };
        self.do_event(&mut event)?;
        Ok(event.gathered)
    }
}

fn gather(links: &Links, purpose: &str, bytes: Vec<u8>) -> Result<Vec<Vec<u8>>> {
    let first = links.all()?.into_iter().next().ok_or(Error::NoJob)?;
    let turn = {
        let mut state = links.state();
        state.turns.n_all_gathers += 1;
        state.turns.n_all_gathers
    };
    let ticket = first.ask(AllGather { purpose: purpose.to_string(), turn, bytes })?;
    match first.wait(ticket, "the other trainers")? {
        Reply::AllGatherResult(gathered) => Ok(gathered.0),
        other => Err(unexpected(&first, &other)),
    }
}

struct AllGatherEvent<'a> {
    job: &'a TrainerJob,
    purpose: &'a str,
    bring: &'a mut dyn FnMut() -> Result<Vec<u8>>,
    gathered: Vec<Vec<u8>>,
    brought: Option<Vec<u8>>,
}

impl ScriptEvent for AllGatherEvent<'_> {
    fn print(&self) -> EventPrint {
        EventPrint::named(EventKind::AllGather, self.purpose)
    }

    fn label(&self) -> String {
        self.purpose.to_string()
    }

    fn uses(&self) -> Option<Uses<'_>> {
        None
    }

    fn perform(&mut self, _: Option<&[u8]>) -> Result<Vec<u8>> {
        let bytes = (self.bring)()?;
        self.brought = self.job.recovers().then(|| bytes.clone());
        self.gathered = gather(self.job.links(), self.purpose, bytes)?;
        let mut answer = ByteWriter::default();
        if self.brought.is_some() {
            answer.count(self.gathered.len());
            self.gathered.iter().fold(&mut answer, |answer, part| answer.bytes(part));
        }
        Ok(answer.0)
    }

    fn answer(&mut self, answer: &[u8]) -> Result<()> {
        let mut reader = ByteReader::new(answer);
        let gathered: Result<Vec<_>> =
            (0..reader.count()?).map(|_| Ok(reader.bytes()?.to_vec())).collect();
        self.gathered = gathered?;
        Ok(())
    }

    fn repeat(&mut self) -> Option<Box<dyn Repeat<TrainerJob>>> {
        let (purpose, bytes) = (self.purpose.to_string(), self.brought.take()?);
        Some(Box::new(AllGatherAgain { purpose, bytes }))
    }
}

struct AllGatherAgain {
    purpose: String,
    bytes: Vec<u8>,
}

impl Repeat<TrainerJob> for AllGatherAgain {
    fn repeat(&mut self, job: &TrainerJob, _: Option<&[u8]>) -> Result<()> {
        gather(job.links(), &self.purpose, self.bytes.clone()).map(drop)
    }

    fn n_bytes(&self) -> usize {
        self.bytes.len()
    }
}
