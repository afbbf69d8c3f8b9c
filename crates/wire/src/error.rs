//! Errors between trainers and servers.

use base::{BadEndpoint, Endpoint};

use base::bytes::Malformed;

use crate::budget::Overfull;
use crate::failure::Failure;
use crate::recovery::{NoCommonCut, TermState};
use crate::refusal::Refusal;
use crate::tls_failure::TlsFailure;
use crate::unproved::{SECRET_BYTES_MIN, Unproved};

/// An error between trainers and servers.
#[derive(thiserror::Error)]
pub enum Error {
    /// Text that should be `host:port`.
    #[error(transparent)]
    BadEndpoint(#[from] BadEndpoint),

    /// Bytes that are not one of our messages.
    #[error("not a message of this protocol: {0}")]
    Malformed(&'static str),

    /// A frame longer than the limit.
    #[error("a frame of {n_bytes} bytes, at most {n_bytes_max} are allowed here")]
    FrameTooLong {
        /// The size that it claims.
        n_bytes: u64,
        /// The largest size allowed.
        n_bytes_max: u64,
    },

    /// A peer sends more than a server holds for it.
    #[error("{n_bytes} bytes are held for this peer, and at most {n_bytes_max} for all")]
    Overfull {
        /// Bytes held for it.
        n_bytes: u64,
        /// Limit of the bytes held for all.
        n_bytes_max: u64,
    },

    /// A peer asks, and asks again.
    #[error("{n} questions without an answer")]
    Questions {
        /// How many it asked.
        n: usize,
    },

    /// The operating system refused or the connection broke.
    #[error("socket: {0}")]
    Socket(std::io::Error),

    /// A server cannot listen where it should.
    #[error(
        "cannot listen on {endpoint}: {source}; is the port free and the address one of this machine?"
    )]
    Bind {
        /// Where.
        endpoint: Endpoint,
        /// Why not.
        source: std::io::Error,
    },

    /// A secret that could be guessed.
    #[error(
        "the secret of the job has {n_bytes} bytes, at least {} are needed: `openssl rand -hex 32` makes one",
        SECRET_BYTES_MIN
    )]
    ShortSecret {
        /// Its length.
        n_bytes: usize,
    },

    /// Others than processes of this machine could connect, or would be connected to, and the job
    /// has no secret.
    #[error(
        "{endpoint} is not of this machine alone, and the job has no secret: give all its processes the same \
         file with PADDLEWHEEL_SECRET_FILE (or --secret_file), which `openssl rand -hex 32` makes; in a network \
         that nobody else reaches, PADDLEWHEEL_INSECURE=1 (or --insecure) goes without. Processes that are started \
         without a launcher need none if all addresses are private, unless PADDLEWHEEL_REQUIRE_SECRET=1"
    )]
    NoSecret {
        /// The end point that other machines can reach.
        endpoint: Endpoint,
    },

    /// Connections cannot be encrypted.
    #[error("TLS: {0}")]
    Tls(TlsFailure),

    /// A process does not come to an encrypted connection with us.
    #[error("no encrypted connection with {endpoint}: {why}")]
    NotEncrypted {
        /// Where it is.
        endpoint: Endpoint,
        /// The fault.
        why: TlsFailure,
    },

    /// A process does not prove that it belongs to the job.
    #[error("{endpoint} does not belong to this job: {}", unproved_words(.why))]
    Unproved {
        /// Where it is.
        endpoint: Endpoint,
        /// The fault in its proof.
        why: Unproved,
    },

    /// A server that answered before, or never did, is gone.
    #[error(
        "server {endpoint} is gone: no answer for {silent_ms} ms ({last}); is its process alive, and this address right?"
    )]
    ServerLost {
        /// Which.
        endpoint: Endpoint,
        /// Since when.
        silent_ms: u64,
        /// The last thing known of it.
        last: String,
    },

    /// No answer came in time.
    #[error("waited {waited_ms} ms for {what} from server {endpoint}{missing}")]
    Deadline {
        /// The server that should have answered.
        endpoint: Endpoint,
        /// The awaited answer.
        what: &'static str,
        /// How long.
        waited_ms: u64,
        /// The trainers that kept the server from answering, if it named them.
        missing: Missing,
    },

    /// The waiting thread was asked to stop.
    #[error("interrupted while waiting for server {endpoint}")]
    Interrupted {
        /// The server that the thread waited for.
        endpoint: Endpoint,
    },

    /// The server is of another term: the trainer must go back to a cut.
    #[error("server {endpoint} is of another term: {term_state}")]
    OtherTerm {
        /// Which.
        endpoint: Endpoint,
        /// Where it stands.
        term_state: TermState,
    },

    /// The job cannot go on: the servers have no cut in common.
    #[error(
        "the job cannot go on: no cut is kept by all servers ({}){}", KeptCuts { endpoints, cuts: &cuts.0 }, LostCuts { endpoints, cuts: &cuts.0 }
    )]
    NoCommonCut {
        /// The servers.
        endpoints: Vec<Endpoint>,
        /// The cuts of each.
        cuts: NoCommonCut,
    },

    /// Nobody answers where all processes of a job should meet.
    #[error(
        "no process answered at the rendezvous {master} for {} s ({last}); is the process there started, and \
         its address right?", .waited_ms / 1000
    )]
    NoMaster {
        /// Where.
        master: Endpoint,
        /// How long it was tried.
        waited_ms: u64,
        /// The last thing the system said.
        last: String,
    },

    /// Not all processes of a job came to their rendezvous.
    #[error("not all processes came to the rendezvous {master} within {} s: {missing}", .waited_ms / 1000)]
    Unmet {
        /// Where.
        master: Endpoint,
        /// How long it was waited for them.
        waited_ms: u64,
        /// Names the processes that came and those that did not.
        missing: String,
    },

    /// The processes that came to a rendezvous are not of one job.
    #[error("the rendezvous {master} refuses: {why}")]
    Apart {
        /// Where.
        master: Endpoint,
        /// The conflict between the reports.
        why: String,
    },

    /// Trainers that exchange with each other cannot go on.
    #[error(transparent)]
    Trainers(#[from] Failure),

    /// The waiting thread was asked to stop.
    #[error("interrupted while waiting for other trainers")]
    Stopped,

    /// The server said no.
    #[error("server {endpoint}: {refusal}")]
    Refused {
        /// Which.
        endpoint: Endpoint,
        /// Why.
        refusal: Refusal,
    },
}

impl From<Malformed> for Error {
    fn from(error: Malformed) -> Self {
        Error::Malformed(error.0)
    }
}

impl From<Overfull> for Error {
    fn from(Overfull { n_bytes, n_bytes_max }: Overfull) -> Self {
        Error::Overfull { n_bytes, n_bytes_max }
    }
}

/// The interruption of a job that an error reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruption {
    /// A process is lost, or the job has gone back to a cut without this process.
    PeerLost,
    /// This process stopped waiting for a server.
    WaitEnded,
}

impl Error {
    /// The interruption that this error reports: a job that recovers continues after it. None if the error is final.
    pub fn interruption(&self) -> Option<Interruption> {
        match self {
            Error::OtherTerm { .. } | Error::ServerLost { .. } => Some(Interruption::PeerLost),
            Error::Trainers(Failure::Lost { .. } | Failure::NotBegun { .. }) => {
                Some(Interruption::PeerLost)
            }
            Error::Refused { refusal: Refusal::OtherTerm(_), .. } => Some(Interruption::PeerLost),
            Error::Interrupted { .. } => Some(Interruption::WaitEnded),
            _ => None,
        }
    }

    /// Names the fault of a connection before the first message.
    pub fn of_connection(endpoint: &Endpoint, error: std::io::Error) -> Self {
        match TlsFailure::of(&error) {
            Some(why) => Error::NotEncrypted { endpoint: endpoint.clone(), why },
            None => Error::Socket(error),
        }
    }

    /// Whether another try to connect ends in the same way.
    pub fn is_final(&self) -> bool {
        use Unproved::{Encrypted, Impostor, Key, OtherKey, Secret, Version};
        match self {
            Error::NoSecret { .. } | Error::Tls(_) | Error::NotEncrypted { .. } => true,
            Error::Unproved { why, .. } => {
                matches!(why, Secret | Impostor | Key | OtherKey | Encrypted | Version { .. })
            }
            _ => false,
        }
    }
}

fn unproved_words(why: &Unproved) -> String {
    match why {
        Unproved::Secret => {
            "its secret is another one, or only one of the two has one; give all processes of \
                             a job the same PADDLEWHEEL_SECRET_FILE"
                .to_string()
        }
        why => why.to_string(),
    }
}

/// Reads like `Display`: a `main` that returns it prints a sentence.
impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Which server has kept which cuts, for messages.
struct KeptCuts<'a> {
    endpoints: &'a [Endpoint],
    cuts: &'a [Vec<u64>],
}

impl std::fmt::Display for KeptCuts<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, (endpoint, cuts)) in self.endpoints.iter().zip(self.cuts).enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            write!(f, "{comma}{endpoint} has {cuts:?}")?;
        }
        Ok(())
    }
}

/// Which servers have lost their snapshots, and what to do, for messages.
struct LostCuts<'a> {
    endpoints: &'a [Endpoint],
    cuts: &'a [Vec<u64>],
}

impl std::fmt::Display for LostCuts<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let newest = |cuts: &Vec<u64>| cuts.last().copied().unwrap_or(0);
        // Without snapshots a server begins with cut 0.
        let all = self.endpoints.iter().zip(self.cuts).enumerate();
        let lost = all.filter(|(_, (_, cuts))| newest(cuts) == 0);
        for (number, (endpoint, _)) in lost {
            write!(
                f,
                "; server {number} ({endpoint}) has lost its snapshots: its folder server.{number} was removed or is another one"
            )?;
        }
        write!(
            f,
            ". Put back the folder that each server had, and start the job again. If a folder is lost, the job cannot go on \
             from its snapshots: remove the folder of snapshots, or give it another name, and start the job from the last model that the script saved"
        )
    }
}

/// Trainers a server waits for, for messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// All of them.
    pub trainers: Vec<u32>,
    /// Those of them that have not joined the job.
    pub absent: Vec<u32>,
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.trainers.as_slice() {
            [] => return Ok(()),
            trainers => write!(f, "; it waits for {}", trainer_names(trainers))?,
        }
        match self.absent.as_slice() {
            [] => Ok(()),
            absent => {
                let have = trainers_have(absent);
                write!(f, "; {have} not joined the job, and the server is alive")
            }
        }
    }
}

/// `trainer 1`, `trainers 1, 2`.
pub(crate) fn trainer_names(trainers: &[u32]) -> String {
    let numbers: Vec<String> = trainers.iter().map(ToString::to_string).collect();
    let word = if trainers.len() == 1 { "trainer" } else { "trainers" };
    format!("{word} {}", numbers.join(", "))
}

/// `trainer 1 has`, `trainers 1, 2 have`.
pub fn trainers_have(trainers: &[u32]) -> String {
    let verb = if trainers.len() == 1 { "has" } else { "have" };
    format!("{} {verb}", trainer_names(trainers))
}

/// The result of operations between trainers and servers.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_lost_its_folder_is_named() {
        let endpoints = ["127.0.0.1:6170", "127.0.0.1:6171"].map(|text| text.parse().unwrap());
        let cuts = NoCommonCut(vec![vec![7, 8], vec![0]]);
        let text = Error::NoCommonCut { endpoints: endpoints.to_vec(), cuts }.to_string();
        for word in ["server 1 (127.0.0.1:6171) has lost its snapshots", "server.1", "Put back"] {
            assert!(text.contains(word), "{word}: {text}");
        }
        assert!(!text.contains("server 0 ("), "{text}");
    }
}
