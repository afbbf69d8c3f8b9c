//! What all trainers do together, through the first server.

use ps::message::{Meet, Reply};

use super::events::ScriptEvent;
use super::{Cluster, unexpected};
use crate::error::{Error, Result};
use crate::recover::{Kind, Print, Reader, Repeat, Uses, Writer};

impl Cluster {
    /// Waits for all trainers at a place; returns what each brought, in the order of their ranks.
    pub fn meet(&self, place: &str, bytes: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        self.meet_with(place, &mut || Ok(bytes.clone()))
    }

    /// Like [`Cluster::meet`], with what `bring` returns. If an earlier process of this trainer was
    /// at this meeting, `bring` is not called and the outcome of that time is returned.
    pub fn meet_with(
        &self,
        place: &str,
        bring: &mut dyn FnMut() -> Result<Vec<u8>>,
    ) -> Result<Vec<Vec<u8>>> {
        let mut meeting = Meeting { cluster: self, place, bring, met: Vec::new(), brought: None };
        self.do_event(&mut meeting)?;
        Ok(meeting.met)
    }

    fn meet_once(&self, place: &str, bytes: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        let first = self.all()?.into_iter().next().ok_or(Error::NoJob)?;
        let turn = {
            let mut state = self.state();
            state.n_meetings += 1;
            state.n_meetings
        };
        let ticket = first.ask(Meet { place: place.to_string(), turn, bytes })?;
        match first.wait(ticket, "the other trainers")? {
            Reply::Met(met) => Ok(met.0),
            other => Err(unexpected(&first, &other)),
        }
    }
}

struct Meeting<'a> {
    cluster: &'a Cluster,
    place: &'a str,
    bring: &'a mut dyn FnMut() -> Result<Vec<u8>>,
    met: Vec<Vec<u8>>,
    brought: Option<Vec<u8>>,
}

impl ScriptEvent for Meeting<'_> {
    fn print(&self) -> Print {
        Print::named(Kind::Meet, self.place)
    }

    fn label(&self) -> String {
        self.place.to_string()
    }

    fn uses(&self) -> Option<Uses<'_>> {
        None
    }

    fn perform(&mut self, _: Option<&[u8]>) -> Result<Vec<u8>> {
        let bytes = (self.bring)()?;
        self.brought = self.cluster.recovers().then(|| bytes.clone());
        self.met = self.cluster.meet_once(self.place, bytes)?;
        let mut answer = Writer::default();
        if self.brought.is_some() {
            answer.count(self.met.len());
            self.met.iter().for_each(|part| answer.bytes(part));
        }
        Ok(answer.0)
    }

    fn answer(&mut self, answer: &[u8]) -> Result<()> {
        let mut reader = Reader::new(answer);
        let met: Result<Vec<_>> =
            (0..reader.count()?).map(|_| reader.bytes().map(<[u8]>::to_vec)).collect();
        self.met = met?;
        Ok(())
    }

    fn repeat(&mut self) -> Option<Box<dyn Repeat<Cluster>>> {
        let (place, bytes) = (self.place.to_string(), self.brought.take()?);
        Some(Box::new(MeetAgain { place, bytes }))
    }
}

struct MeetAgain {
    place: String,
    bytes: Vec<u8>,
}

impl Repeat<Cluster> for MeetAgain {
    fn repeat(&mut self, cluster: &Cluster, _: Option<&[u8]>) -> Result<()> {
        cluster.meet_once(&self.place, self.bytes.clone()).map(drop)
    }

    fn n_bytes(&self) -> usize {
        self.bytes.len()
    }
}
