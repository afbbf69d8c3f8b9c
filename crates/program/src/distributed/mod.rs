//! The memory of a program that is one part of a distributed job: the processes of the job, and the
//! server of each piece of each variable.
//!
//! Data only. The transpiler writes it, the executor, files and the servers read it; it is not part
//! of a program's bytes, because a saved model belongs to no job.

mod entry;
mod mode;
pub mod ops;
mod origin;
mod piece;
pub mod route;
mod table_bytes;

use std::sync::Arc;

use tensor::mix;

pub use entry::EntryRule;
pub use mode::{Applies, BadSwitch, ExchangeKind, Mode, Split, Switch, Switches};
pub use ops::ENTRY;
pub use origin::Origin;
pub use piece::{Piece, ServerId, VarId};
pub use table_bytes::{TableTooLarge, WHOLE_BYTES_MAX, table_bytes};

use crate::attr::Attrs;
use crate::error::Result;

/// Which server has a row of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Spread {
    /// Each server has rows that follow one another: Fluid's way. Servers count their rows from 0.
    #[default]
    Range,
    /// A hash of the row's number says it, so that small numbers of a table without a fixed
    /// vocabulary do not all meet on the first server. Rows keep their numbers.
    Hash,
}

impl Spread {
    /// Attribute of ops that look rows up or deal them out.
    pub const ATTR: &'static str = "spread";

    /// As the attribute says it.
    pub fn name(self) -> &'static str {
        match self {
            Spread::Range => "range",
            Spread::Hash => "hash",
        }
    }

    /// Back from the attribute of an op; without one, rows follow one another.
    pub fn of(attrs: &Attrs) -> Result<Self> {
        match attrs.str(Self::ATTR, "range")? {
            "hash" => Ok(Spread::Hash),
            _ => Ok(Spread::Range),
        }
    }
}

/// The server, of `n_servers`, that has a row of a table spread by hash: SplitMix64 of the row's number,
/// modulo the number of servers. Saved tables and running jobs depend on it.
pub fn server_of(row: i64, n_servers: usize) -> usize {
    (mix(row as u64) % n_servers.max(1) as u64) as usize
}

/// The variable in which a difference for another one travels (GEO).
pub fn difference_of(var: &str) -> String {
    format!("{var}.delta")
}

/// Why a variable is on a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlacedKind {
    /// A parameter that trainers receive whole.
    Param,
    /// State of an optimizer, which trainers never see.
    Optimizer,
    /// A table of which trainers ask for rows.
    RemotePrefetch,
}

/// One piece of a variable, on one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The variable in a program that is not distributed.
    pub origin: String,
    /// Its whole shape.
    pub origin_dims: Vec<i64>,
    /// Its rows on the server.
    pub piece: Piece,
    /// Its purpose.
    pub kind: PlacedKind,
    /// The assignment of rows to servers. By hash, a piece is as high as the whole and has some of
    /// its rows.
    pub spread: Spread,
}

impl Placement {
    /// Whether this is the whole variable.
    pub fn is_whole(&self) -> bool {
        self.origin_dims == self.dims()
    }

    /// The shape of the piece.
    pub fn dims(&self) -> Vec<i64> {
        self.piece.dims_of(&self.origin_dims)
    }

    /// Elements of the whole before the piece.
    pub fn offset(&self) -> i64 {
        self.piece.offset_in(&self.origin_dims)
    }
}

/// The common facts of all processes of a job, and the process that runs this program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distributed {
    /// How trainers wait for each other.
    pub mode: Mode,
    /// Gradients pass through queues in the background (`runtime_split_send_recv`).
    pub via_communicator: bool,
    /// This trainer, from 0.
    pub trainer_id: usize,
    /// All trainers.
    pub n_trainers: usize,
    /// All servers, in the order of their numbers.
    pub endpoints: Vec<String>,
    /// The server this program is for, or the one the user named as current.
    pub ps_endpoint: Option<String>,
    /// Every piece of every variable on a server, in order of the parameters.
    pub placement: Vec<Placement>,
    /// For each server, the names of all its variables that this trainer may speak of, sorted: the
    /// number of a variable is its place here.
    pub vars: Vec<Vec<String>>,
    /// The table made with `is_distributed`.
    pub lookup_table: Option<String>,
    /// Tables, and states of their optimizers, that servers save and load themselves, row by row.
    pub by_rows: Vec<String>,
    /// The facts that all processes of a job must agree on, in words: see [`Distributed::terms`].
    pub job: String,
    /// Tells this job from others, in this process: see [`Distributed::hash_job`].
    pub digest: String,
    /// The program that its programs were split from.
    pub origin: Origin,
}

impl Distributed {
    /// Trainer 0 does what is to be done once.
    pub fn is_chief(&self) -> bool {
        self.trainer_id == 0
    }

    /// The pieces on one server.
    pub fn on<'a>(&'a self, endpoint: &'a str) -> impl Iterator<Item = &'a Placement> {
        let server = self.server(endpoint);
        self.placement.iter().filter(move |placed| Some(placed.piece.server) == server)
    }

    /// The pieces of one variable, in order; empty if it is on no server.
    pub fn pieces<'a>(&'a self, origin: &'a str) -> impl Iterator<Item = &'a Placement> {
        self.placement.iter().filter(move |placed| placed.origin == origin)
    }

    /// The number of the server at an end point.
    pub fn server(&self, endpoint: &str) -> Option<ServerId> {
        self.endpoints.iter().position(|known| known == endpoint).map(ServerId)
    }

    /// The end point of a server, `ip:port`.
    pub fn endpoint(&self, server: ServerId) -> &str {
        self.endpoints.get(server.0).map_or("", String::as_str)
    }

    /// The number of a variable of a server.
    pub fn var(&self, server: ServerId, name: &str) -> Option<VarId> {
        VarId::find(self.vars.get(server.0)?, name)
    }

    /// The facts that all processes of a job must agree on, besides the parameters: their number,
    /// and the work of servers.
    pub fn terms(&self) -> String {
        let mode = self.mode.terms();
        let n_trainers = self.n_trainers;
        let n_servers = self.endpoints.len();
        format!("{mode} training, {n_trainers} trainers, {n_servers} servers")
    }

    /// A name for everything that is decided when a program is split. 64 bits of FNV-1a.
    pub fn hash_job(&self) -> String {
        let text = format!(
            "{:?} {} {} {:?} {:?} {:?}",
            self.mode,
            self.via_communicator,
            self.n_trainers,
            self.endpoints,
            self.placement,
            self.lookup_table,
        );
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        format!("{hash:016x}")
    }

    /// The number of the server that this program is for.
    pub fn server_number(&self) -> Option<usize> {
        self.endpoints.iter().position(|known| self.ps_endpoint.as_ref() == Some(known))
    }

    /// The job as a server sees it.
    pub fn for_server(&self, endpoint: &str) -> Arc<Self> {
        Arc::new(Self { ps_endpoint: Some(endpoint.to_string()), ..self.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(n_trainers: usize, trainer_id: usize) -> Distributed {
        Distributed {
            mode: Mode::Sync,
            via_communicator: false,
            trainer_id,
            n_trainers,
            endpoints: vec!["127.0.0.1:6174".to_string()],
            ps_endpoint: None,
            placement: Vec::new(),
            vars: Vec::new(),
            lookup_table: None,
            by_rows: Vec::new(),
            job: String::new(),
            digest: String::new(),
            origin: Origin::default(),
        }
    }

    /// Ids of a small vocabulary in a high table: no server has more than its share.
    #[test]
    fn a_hash_deals_rows_out_evenly() {
        for n in 1..=5 {
            let mut counts = vec![0usize; n];
            (0..30_000).for_each(|row| counts[server_of(row, n)] += 1);
            let share = 30_000 / n;
            assert!(counts.iter().all(|count| count.abs_diff(share) < share / 20), "{counts:?}");
        }
        let first: Vec<usize> = (0..8).map(|row| server_of(row, 3)).collect();
        assert_eq!(first, [1, 2, 1, 0, 1, 2, 2, 0], "saved tables depend on it");
    }

    #[test]
    fn trainers_of_one_job_agree_and_others_do_not() {
        assert_eq!(job(2, 0).hash_job(), job(2, 1).hash_job());
        assert_ne!(job(2, 0).hash_job(), job(3, 0).hash_job());
        let server = job(2, 0).for_server("127.0.0.1:6174");
        assert_eq!(server.hash_job(), job(2, 0).hash_job());
        assert_eq!(job(2, 0).terms(), "sync training, 2 trainers, 1 servers");
        assert_eq!(job(2, 0).terms(), job(2, 1).terms());
        let asynchronous = |mode| Distributed { mode, ..job(2, 0) }.terms();
        assert_eq!(asynchronous(Mode::Async), asynchronous(Mode::HalfAsync));
        assert_ne!(asynchronous(Mode::Async), asynchronous(Mode::Geo { push_every: 1 }));
    }
}
