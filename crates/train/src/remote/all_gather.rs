//! What all trainers do together, through the first server.

use ps::message::{AllGather, Reply};

use super::events::ScriptEvent;
use super::{Cluster, unexpected};
use crate::error::{Error, Result};
use crate::recover::{ByteReader, ByteWriter, EventKind, EventPrint, Repeat, Uses};

impl Cluster {
    /// Waits for all trainers, for a purpose; returns what each brought, in the order of their ranks.
    pub fn all_gather(&self, purpose: &str, bytes: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        self.all_gather_with(purpose, &mut || Ok(bytes.clone()))
    }

    /// Like [`Cluster::all_gather`], with what `bring` returns. If an earlier process of this trainer was
    /// at this point, `bring` is not called and the outcome of that time is returned.
    pub fn all_gather_with(
        &self,
        purpose: &str,
        bring: &mut dyn FnMut() -> Result<Vec<u8>>,
    ) -> Result<Vec<Vec<u8>>> {
        let mut event =
            AllGatherEvent { cluster: self, purpose, bring, gathered: Vec::new(), brought: None };
        self.do_event(&mut event)?;
        Ok(event.gathered)
    }

    fn all_gather_once(&self, purpose: &str, bytes: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        let first = self.all()?.into_iter().next().ok_or(Error::NoJob)?;
        let turn = {
            let mut state = self.state();
            state.n_all_gathers += 1;
            state.n_all_gathers
        };
        let ticket = first.ask(AllGather { purpose: purpose.to_string(), turn, bytes })?;
        match first.wait(ticket, "the other trainers")? {
            Reply::AllGatherResult(gathered) => Ok(gathered.0),
            other => Err(unexpected(&first, &other)),
        }
    }
}

struct AllGatherEvent<'a> {
    cluster: &'a Cluster,
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
        self.brought = self.cluster.recovers().then(|| bytes.clone());
        self.gathered = self.cluster.all_gather_once(self.purpose, bytes)?;
        let mut answer = ByteWriter::default();
        if self.brought.is_some() {
            answer.count(self.gathered.len());
            self.gathered.iter().for_each(|part| answer.bytes(part));
        }
        Ok(answer.0)
    }

    fn answer(&mut self, answer: &[u8]) -> Result<()> {
        let mut reader = ByteReader::new(answer);
        let gathered: Result<Vec<_>> =
            (0..reader.count()?).map(|_| reader.bytes().map(<[u8]>::to_vec)).collect();
        self.gathered = gathered?;
        Ok(())
    }

    fn repeat(&mut self) -> Option<Box<dyn Repeat<Cluster>>> {
        let (purpose, bytes) = (self.purpose.to_string(), self.brought.take()?);
        Some(Box::new(AllGatherAgain { purpose, bytes }))
    }
}

struct AllGatherAgain {
    purpose: String,
    bytes: Vec<u8>,
}

impl Repeat<Cluster> for AllGatherAgain {
    fn repeat(&mut self, cluster: &Cluster, _: Option<&[u8]>) -> Result<()> {
        cluster.all_gather_once(&self.purpose, self.bytes.clone()).map(drop)
    }

    fn n_bytes(&self) -> usize {
        self.bytes.len()
    }
}
