//! The connections that are open, and the stage of each.

use std::collections::BTreeMap;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base::EvenIfPoisoned;

/// The stage of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnStage {
    /// It waits for a request.
    Idle,
    /// A request has begun.
    Reads,
    /// A request is answered.
    Answers,
    /// It was closed for another one.
    Closed,
}

/// One client.
#[derive(Debug)]
pub(super) struct ClientConn {
    pub(super) stream: TcpStream,
    stage: Mutex<(ConnStage, Instant)>,
}

impl ClientConn {
    /// Enters the next stage; false if it was closed.
    pub(super) fn enter(&self, next: ConnStage) -> bool {
        let mut stage = self.stage.lock().even_if_poisoned();
        let is_open = stage.0 != ConnStage::Closed;
        if is_open {
            *stage = (next, Instant::now());
        }
        is_open
    }

    /// Since when no request came, or not all of it.
    fn waits_since(&self) -> Option<Instant> {
        let (stage, since) = *self.stage.lock().even_if_poisoned();
        matches!(stage, ConnStage::Idle | ConnStage::Reads).then_some(since)
    }

    fn is_in_flight(&self) -> bool {
        let (stage, _) = *self.stage.lock().even_if_poisoned();
        matches!(stage, ConnStage::Reads | ConnStage::Answers)
    }

    /// Closes it unless its request has come as a whole.
    fn close(&self) -> bool {
        let mut stage = self.stage.lock().even_if_poisoned();
        if !matches!(stage.0, ConnStage::Idle | ConnStage::Reads) {
            return false;
        }
        stage.0 = ConnStage::Closed;
        let _ = self.stream.shutdown(Shutdown::Both);
        true
    }
}

/// All that are open.
#[derive(Debug, Default)]
pub(super) struct Connections(Mutex<OpenConns>);

#[derive(Debug, Default)]
struct OpenConns {
    all: BTreeMap<u64, Arc<ClientConn>>,
    n_added: u64,
}

impl Connections {
    pub(super) fn len(&self) -> usize {
        self.0.lock().even_if_poisoned().all.len()
    }

    /// Requests that have begun and are not answered.
    pub(super) fn n_in_flight(&self) -> usize {
        let open = self.0.lock().even_if_poisoned();
        open.all.values().filter(|conn| conn.is_in_flight()).count()
    }

    /// Adds one, if there are fewer than `n_max`, or if another one has waited for a request, or for the rest
    /// of one, for `patience`: that one is closed.
    pub(super) fn add(
        self: &Arc<Self>,
        stream: TcpStream,
        n_max: usize,
        patience: Duration,
    ) -> Result<OpenConn, TcpStream> {
        let mut open = self.0.lock().even_if_poisoned();
        if open.all.len() >= n_max {
            let waits = |(id, conn): (&u64, &Arc<ClientConn>)| Some((conn.waits_since()?, *id));
            let longest = open.all.iter().filter_map(waits).min();
            let longest = longest.filter(|(since, _)| since.elapsed() >= patience);
            let Some(id) = longest.map(|(_, id)| id).filter(|id| open.all[id].close()) else {
                return Err(stream);
            };
            open.all.remove(&id);
        }
        open.n_added += 1;
        let id = open.n_added;
        let stage = Mutex::new((ConnStage::Idle, Instant::now()));
        let conn = Arc::new(ClientConn { stream, stage });
        open.all.insert(id, conn.clone());
        Ok(OpenConn { id, conn, all: self.clone() })
    }
}

/// A connection that is counted until this is dropped.
#[derive(Debug)]
pub(super) struct OpenConn {
    id: u64,
    pub(super) conn: Arc<ClientConn>,
    all: Arc<Connections>,
}

impl Drop for OpenConn {
    fn drop(&mut self) {
        self.all.0.lock().even_if_poisoned().all.remove(&self.id);
    }
}
