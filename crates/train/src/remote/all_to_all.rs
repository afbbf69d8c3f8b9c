//! Exchanging parts with the other trainers, through the servers.
//!
//! Parts for a trainer go through the server of its rank, so that servers share the work;
//! every exchange passes all of them, so that a trainer that is out of step is found at once.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use net::tcp::{Client, Ticket};
use program::Distributed;
use wire::message::{AllToAll, Reply};

use super::events::ScriptEvent;
use super::links::Links;
use super::{TrainerJob, unexpected};
use crate::error::{Error, Result};
use crate::recover::{ByteReader, ByteWriter, EventKind, EventPrint, Repeat, Uses};

/// Says that something is left for the next exchange; so all know when all are done.
const MORE: u8 = 1;

impl TrainerJob {
    /// Gives `parts[i]` to trainer `i` and returns what each trainer gave to this one, in the order
    /// of ranks. All trainers call it equally often and for the same purpose.
    ///
    /// Large parts go in pieces, so that servers never hold more than they can.
    pub fn all_to_all(&self, purpose: &str, parts: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
        let mut event = AllToAllEvent { job: self, purpose, parts, got: Vec::new() };
        self.do_event(&mut event)?;
        Ok(event.got)
    }

    /// The other trainers of a job, with which datasets exchange samples.
    pub fn peers(&self, job: &Distributed) -> Peers {
        self.join(job);
        let rank = job.trainer_id;
        let n_trainers = job.n_trainers;
        let folder = None;
        Peers { job: self.clone(), rank, n_trainers, folder }
    }
}

fn exchange(links: &Links, purpose: &str, parts: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
    let mut given: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    let mut got = vec![Vec::new(); parts.len()];
    // One byte is the flag.
    let n_bytes_max = AllToAll::part_bytes_max(parts.len()) - 1;
    loop {
        let more = given.iter().any(|part| part.len() > n_bytes_max);
        let piece = |part: &mut &[u8]| {
            let (now, later) = part.split_at(part.len().min(n_bytes_max));
            *part = later;
            [&[u8::from(more)], now].concat()
        };
        let pieces = given.iter_mut().map(piece).collect();
        let mut anybody = false;
        let came = exchange_once(links, purpose, pieces)?;
        if came.len() != got.len() {
            let (expected, actual) = (got.len(), came.len());
            return Err(Error::UnevenExchange { expected, actual });
        }
        for (whole, piece) in got.iter_mut().zip(came) {
            anybody |= piece.first() == Some(&MORE);
            whole.extend_from_slice(piece.get(1..).unwrap_or_default());
        }
        if !anybody {
            return Ok(got);
        }
    }
}

fn exchange_once(links: &Links, purpose: &str, mut pieces: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
    let clients = links.all()?;
    let (turn, rank) = {
        let mut state = links.state();
        state.turns.n_exchanges += 1;
        (state.turns.n_exchanges, state.me.as_ref().ok_or(Error::NoJob)?.trainer.0 as usize)
    };
    let n_servers = clients.len();
    let mut tickets = Vec::new();
    for (server, client) in clients.iter().enumerate() {
        let mut parts = vec![Vec::new(); pieces.len()];
        for at in (server..pieces.len()).step_by(n_servers) {
            parts[at] = std::mem::take(&mut pieces[at]);
        }
        let purpose = purpose.to_string();
        tickets.push(client.ask(AllToAll { purpose, turn, parts })?);
    }
    // All are waited for, also when one says no: a question that nobody waits for is asked on.
    let take = |(client, ticket): (&Arc<Client>, Ticket)| match client
        .wait(ticket, "the other trainers")?
    {
        Reply::AllToAllResult(exchanged) => Ok(exchanged.0),
        other => Err(unexpected(client, &other)),
    };
    let answers: Vec<Result<_>> = clients.iter().zip(tickets).map(take).collect();
    let mut answers: Vec<_> = answers.into_iter().collect::<Result<_>>()?;
    Ok(Arc::unwrap_or_clone(answers.swap_remove(rank % n_servers)))
}

/// An exchange as an event of a job that recovers.
struct AllToAllEvent<'a> {
    job: &'a TrainerJob,
    purpose: &'a str,
    parts: &'a [Vec<u8>],
    got: Vec<Vec<u8>>,
}

impl ScriptEvent for AllToAllEvent<'_> {
    fn print(&self) -> EventPrint {
        EventPrint::named(EventKind::AllToAll, self.purpose)
    }

    fn label(&self) -> String {
        self.purpose.to_string()
    }

    fn uses(&self) -> Option<Uses<'_>> {
        None
    }

    fn perform(&mut self, _: Option<&[u8]>) -> Result<Vec<u8>> {
        self.got = exchange(self.job.links(), self.purpose, self.parts)?;
        let mut answer = ByteWriter::default();
        if self.job.recovers() {
            answer.count(self.got.len());
            self.got.iter().fold(&mut answer, |answer, part| answer.bytes(part));
        }
        Ok(answer.0)
    }

    fn answer(&mut self, answer: &[u8]) -> Result<()> {
        let mut reader = ByteReader::new(answer);
        let got: Result<Vec<_>> =
            (0..reader.count()?).map(|_| Ok(reader.bytes()?.to_vec())).collect();
        self.got = got?;
        Ok(())
    }

    fn repeat(&mut self) -> Option<Box<dyn Repeat<TrainerJob>>> {
        let (purpose, parts) = (self.purpose.to_string(), self.parts.to_vec());
        Some(Box::new(AllToAllAgain { purpose, parts }))
    }
}

struct AllToAllAgain {
    purpose: String,
    parts: Vec<Vec<u8>>,
}

impl Repeat<TrainerJob> for AllToAllAgain {
    fn repeat(&mut self, job: &TrainerJob, _: Option<&[u8]>) -> Result<()> {
        exchange(job.links(), &self.purpose, &self.parts).map(drop)
    }

    fn n_bytes(&self) -> usize {
        self.parts.iter().map(Vec::len).sum()
    }
}

/// The trainers of a job, as one of them sees them.
#[derive(Clone, Debug)]
pub struct Peers {
    job: TrainerJob,
    rank: usize,
    n_trainers: usize,
    /// Where this trainer keeps what it gets of the others.
    folder: Option<PathBuf>,
}

impl Peers {
    /// The same peers, with a folder in which this trainer keeps what it gets from the others.
    pub fn keeping_in(self, folder: Option<PathBuf>) -> Self {
        Self { folder, ..self }
    }

    pub(crate) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    pub(crate) fn job(&self) -> &TrainerJob {
        &self.job
    }

    /// The same peers with the connections of a job, for an event that is done again.
    pub(crate) fn of(job: &TrainerJob, rank: usize, n_trainers: usize) -> Self {
        Self { job: job.clone(), rank, n_trainers, folder: None }
    }
}

impl data::Exchange for Peers {
    fn rank(&self) -> usize {
        self.rank
    }

    fn n_trainers(&self) -> usize {
        self.n_trainers
    }

    fn all_to_all(
        &self,
        purpose: &str,
        parts: Vec<Vec<u8>>,
    ) -> std::result::Result<Vec<Vec<u8>>, data::ExchangeError> {
        Ok(self.job.all_to_all(purpose, &parts)?)
    }
}
