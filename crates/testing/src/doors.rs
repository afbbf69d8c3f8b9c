//! Helpers for tests of the doors of a job: trainers that meet, and processes that meet at a
//! rendezvous.

use std::sync::Arc;
use std::time::Duration;

use base::Endpoint;
use net::Access;
use net::tcp::{Membership, Mesh, MeshSettings, Patience, Rendezvous};
use protocol::rendezvous::{Report, Side};

/// The limit of a wait.
const LIMIT: Duration = Duration::from_secs(60);

/// A trainer meets the others, or finds out why not.
pub fn join(me: u32, endpoints: &[Endpoint], access: Access) -> wire::Result<Mesh> {
    let patience = Patience { connect_ms: 30_000, ..Patience::default() };
    let (stops, log) = (Arc::new(|| false), Arc::new(|_: &_| {}));
    let settings = MeshSettings { patience, stops, log, access, early_bytes_max: u64::MAX };
    let membership = Membership { me, endpoints: endpoints.to_vec(), mode: "test".to_string() };
    Mesh::join(membership, settings)
}

/// One of the two processes of a job that meet there: a server, or a trainer.
pub fn meeting(master: &Endpoint, side: Side, access: Access) -> Rendezvous {
    let port = if side == Side::Server { 17_300 } else { 0 };
    let report = Report {
        job: "job".to_string(),
        n: 2,
        n_servers: Some(1),
        side,
        rank: Some(0),
        name: String::new(),
        endpoint: Endpoint { host: String::new(), port },
        is_fixed: false,
    };
    Rendezvous { master: master.clone(), report, limit: LIMIT, access }
}
