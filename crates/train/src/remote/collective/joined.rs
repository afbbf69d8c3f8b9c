//! The trainers that this one has met.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use base::{Endpoint, EvenIfPoisoned};
use net::tcp::{Membership, Mesh, MeshSettings};
use program::trainers::{Expected, TrainerGroup};
use protocol::collective::{Collective, Exchanged, Terms};
use tensor::{Tensor, Value};
use wire::Failure;

use crate::error::{Error, Result};
use crate::remote::JobStart;

/// Instead of the number of a checkpoint: there is none; nobody has looked for one.
const NONE: i64 = -1;
const UNKNOWN: i64 = i64::MIN;
/// Advice for machines with different checkpoints.
const MERGE: &str = "so merge the folders of checkpoints of all machines, copy the result to all of them, and start the job again";

/// The trainers that this one has met, and what it has agreed on with them.
#[derive(Clone, Debug)]
pub(super) struct Joined {
    pub(super) mesh: Arc<Mesh>,
    members: Arc<TrainerGroup>,
    /// Programs that all have.
    agreed: Arc<Mutex<BTreeSet<u64>>>,
}

impl Joined {
    /// Meets all trainers; `sum` is that of the startup program.
    pub(super) fn new(
        members: &TrainerGroup,
        sum: Option<u64>,
        settings: MeshSettings,
    ) -> Result<Self> {
        let mut endpoints = Vec::with_capacity(members.endpoints.len());
        for (at, text) in members.endpoints.iter().enumerate() {
            let endpoint = text.parse::<Endpoint>();
            let source = |source| transpile::Error::Endpoint { text: text.clone(), source };
            endpoints.push(endpoint.map_err(source)?);
            if members.endpoints[..at].contains(text) {
                let endpoint = text.clone();
                return Err(transpile::Error::TrainerTwice { endpoint }.into());
            }
        }
        let mode = match sum {
            Some(sum) => format!("{}, startup program {sum:016x}", members.mode),
            None => members.mode.to_string(),
        };
        let membership = Membership { me: members.rank as u32, endpoints, mode };
        let mesh = Arc::new(Mesh::join(membership, settings)?);
        Ok(Self { mesh, members: Arc::new(members.clone()), agreed: Arc::default() })
    }

    /// Whether these are the trainers that were met.
    pub(super) fn is(&self, members: &TrainerGroup) -> bool {
        *self.members == *members
    }

    /// How many trainers there are.
    pub(super) fn n_trainers(&self) -> usize {
        self.members.endpoints.len()
    }

    /// An error unless there are so many, and this is the right one.
    pub(super) fn check(&self, expected: Expected) -> Result<()> {
        let (rank, n) = (self.members.rank as i64, self.n_trainers() as i64);
        if expected.n_trainers == n && expected.rank.is_none_or(|expected| expected == rank) {
            return Ok(());
        }
        let expected_rank = expected.rank.unwrap_or(rank);
        Err(Error::OtherTrainers { rank, n, expected_rank, expected_n: expected.n_trainers })
    }

    /// Says good-bye to the others.
    pub(super) fn leave(&self) {
        self.mesh.leave();
    }

    fn exchange(&self, collective: Collective, what: &str, tensor: Tensor) -> Result<Exchanged> {
        let terms = Terms { collective, var: what.to_string(), ring: -1 };
        let number = self.mesh.begin(&terms, Value::Tensor(tensor));
        Ok(self.mesh.wait(number)?)
    }

    /// The bytes of all trainers, in the order of ranks.
    pub(super) fn gather(&self, what: &str, own: &[u8]) -> Result<Vec<Vec<u8>>> {
        let sizes = self.sizes(what, own.len())?;
        let longest = sizes.iter().copied().max().unwrap_or(0);
        if longest == 0 {
            return Ok(vec![Vec::new(); sizes.len()]);
        }
        let mut padded = Tensor::full([longest], 0u8);
        padded.bytes_mut()[..own.len()].copy_from_slice(own);
        let Exchanged::All(all) = self.exchange(Collective::AllGather, what, padded)? else {
            return Err(Error::NoTrainers);
        };
        let bytes = all.iter().zip(sizes).filter_map(|(value, n)| value.tensor()?.bytes().get(..n));
        Ok(bytes.map(<[u8]>::to_vec).collect())
    }

    /// The bytes of one trainer.
    pub(super) fn broadcast(&self, what: &str, root: usize, own: Vec<u8>) -> Result<Vec<u8>> {
        let n = self.sizes(what, own.len())?.get(root).copied().unwrap_or(0);
        let mut tensor = Tensor::full([n], 0u8);
        if root == self.members.rank {
            tensor.bytes_mut().copy_from_slice(&own);
        }
        match self.exchange(Collective::Broadcast { root: root as u32 }, what, tensor)? {
            Exchanged::One(Value::Tensor(tensor)) => Ok(tensor.bytes().to_vec()),
            _ => Err(Error::NoTrainers),
        }
    }

    /// How many bytes each trainer has.
    fn sizes(&self, what: &str, own: usize) -> Result<Vec<usize>> {
        let own = Tensor::full([1], own as i64);
        let Exchanged::All(all) = self.exchange(Collective::AllGather, what, own)? else {
            return Err(Error::NoTrainers);
        };
        let size = |tensor: &Tensor| usize::try_from(*tensor.data::<i64>().ok()?.first()?).ok();
        Ok(all.iter().map(|value| value.tensor().and_then(size).unwrap_or(0)).collect())
    }

    /// Makes sure, once, that all trainers run the same program and begin from the same checkpoint.
    pub(super) fn agree(&self, sum: u64, start: Option<&JobStart>) -> Result<()> {
        if self.agreed.lock().even_if_poisoned().contains(&sum) {
            return Ok(());
        }
        let serial =
            start.map_or(UNKNOWN, |start| start.serial.map_or(NONE, |serial| serial as i64));
        let own = [sum as i64, serial];
        let all = self.exchange(Collective::AllGather, "program", Tensor::new([2], &own)?)?;
        let Exchanged::All(all) = all else { return Ok(()) };
        for (other, value) in (0u32..).zip(&all) {
            let found = value.tensor().and_then(|tensor| tensor.data::<i64>().ok());
            let Some(&[theirs, their_serial]) = found else { continue };
            if theirs != own[0] {
                let says = |sum: i64| format!("the program {:016x}", sum as u64);
                return Err(self.differ(other, says(own[0]), says(theirs)));
            }
            if serial != UNKNOWN && their_serial != UNKNOWN && their_serial != serial {
                let place = start.map_or("", |start| start.place.as_str());
                let says = |serial: i64| match serial {
                    NONE => "no checkpoint to begin from".to_string(),
                    serial => format!("checkpoint {serial} to begin from"),
                };
                let ours = format!("{} in {place}, {MERGE}", says(serial));
                return Err(self.differ(other, ours, says(their_serial)));
            }
        }
        self.agreed.lock().even_if_poisoned().insert(sum);
        Ok(())
    }

    /// Ends the job: this trainer and another one are not at one.
    fn differ(&self, other: u32, ours: String, theirs: String) -> Error {
        let me = self.members.rank as u32;
        let failure = if me < other {
            Failure::Differ { left: me, left_says: ours, right: other, right_says: theirs }
        } else {
            Failure::Differ { left: other, left_says: theirs, right: me, right_says: ours }
        };
        self.mesh.fail(failure.clone());
        wire::Error::Trainers(failure).into()
    }
}
