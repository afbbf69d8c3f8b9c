//! A global shuffle as one event of a script (see [`crate::recover`]).
//!
//! Samples travel once. In a job that recovers, each trainer keeps its own samples in a file, and
//! no trainer continues before all have theirs. So when the job goes back behind a shuffle, either
//! all trainers have their files, or no trainer is beyond it and they exchange again.

use std::path::PathBuf;

use data::{Dataset, Exchange, SampleCounts};

use crate::error::{Error, Result};
use crate::recover::{ByteReader, ByteWriter, EventKind, EventPrint, Repeat, Uses};
use crate::remote::{Peers, ScriptEvent, TrainerJob};

/// Shuffles the samples of all trainers among all trainers.
pub fn global_shuffle(dataset: &mut Dataset, peers: &Peers) -> Result<()> {
    // Which samples there are is a part of what the event is.
    dataset.wait_loaded()?;
    let number = peers.job().recovery().next_shuffle();
    let shuffled = peers.job().do_event(&mut Shuffle { dataset, peers, number });
    shuffled.map_err(|error| match error {
        Error::Data(_) | Error::Ended => error,
        // In the words of the script, which asked for a shuffle.
        other => Error::Data(data::Error::Exchange { source: Box::new(other) }),
    })
}

struct Shuffle<'a> {
    dataset: &'a mut Dataset,
    peers: &'a Peers,
    number: u64,
}

impl Shuffle<'_> {
    /// Where this trainer keeps what it gets.
    fn path(&self) -> Result<PathBuf> {
        let folder = self.peers.folder().ok_or(Error::NoShareFolder)?;
        Ok(folder.join(format!("shuffle-{}", self.number)))
    }
}

impl ScriptEvent for Shuffle<'_> {
    fn print(&self) -> EventPrint {
        EventPrint {
            values: self.dataset.digest(),
            ..EventPrint::named(EventKind::AllToAll, "global_shuffle")
        }
    }

    fn label(&self) -> String {
        "global_shuffle".to_string()
    }

    fn uses(&self) -> Option<Uses<'_>> {
        None
    }

    fn perform(&mut self, _: Option<&[u8]>) -> Result<Vec<u8>> {
        if !self.peers.job().recovers() {
            self.dataset.global_shuffle(Some(self.peers)).map_err(unwrapped)?;
            return Ok(Vec::new());
        }
        let path = self.path()?;
        self.dataset.global_shuffle_kept(Some(self.peers), &path).map_err(unwrapped)?;
        let recovery = self.peers.job().recovery();
        self.dataset.share().into_iter().for_each(|file| recovery.shares(file));
        let SampleCounts { n_samples, n_unmerged } = self.dataset.held();
        let mut answer = ByteWriter::default();
        answer.u64(n_samples);
        answer.u64(n_unmerged);
        Ok(answer.0)
    }

    fn answer(&mut self, answer: &[u8]) -> Result<()> {
        let mut answer = ByteReader::new(answer);
        let held = SampleCounts { n_samples: answer.u64()?, n_unmerged: answer.u64()? };
        self.dataset.take_kept(&self.path()?, held)?;
        let recovery = self.peers.job().recovery();
        self.dataset.share().into_iter().for_each(|file| recovery.shares(file));
        Ok(())
    }

    fn repeat(&mut self) -> Option<Box<dyn Repeat<TrainerJob>>> {
        let (rank, n_trainers) = (self.peers.rank(), self.peers.n_trainers());
        Some(Box::new(ShuffleAgain { rank, n_trainers }))
    }
}

/// The error of the connections, if they failed.
fn unwrapped(error: data::Error) -> Error {
    match error {
        data::Error::Exchange { source } => match source.downcast() {
            Ok(own) => *own,
            Err(source) => Error::Data(data::Error::Exchange { source }),
        },
        other => Error::Data(other),
    }
}

/// A shuffle that this trainer is beyond: it has its samples.
struct ShuffleAgain {
    rank: usize,
    n_trainers: usize,
}

impl Repeat<TrainerJob> for ShuffleAgain {
    fn repeat(&mut self, world: &TrainerJob, _: Option<&[u8]>) -> Result<()> {
        let peers = Peers::of(world, self.rank, self.n_trainers);
        match data::n_lacking(&peers).map_err(unwrapped)? {
            0 => Ok(()),
            n => Err(Error::ShareLost { n }),
        }
    }

    fn n_bytes(&self) -> usize {
        0
    }
}
