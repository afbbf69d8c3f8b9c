//! Serves a program that ends in `listen_and_serv`: what a parameter server does.
//!
//! The program's optimize blocks are run by the ordinary executor, so that every optimizer,
//! regularizer, clip and learning-rate schedule works on servers as it does on one machine.

mod blocks;
mod changes;
mod copies;
mod cuts;
mod finished;
mod identity;
mod keeping;
mod locks;
mod port_file;
mod resume;
mod roots;
mod saves;
mod schedule;
mod shutdown;
mod snapshot;
mod standby;
mod store;
mod table;
mod taking;
mod units;
mod values;
mod vars;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use base::Endpoint;
use net::Access;
use net::lines::{self, Line};
use net::tcp::{Listener, Stop, half_of_memory};
use program::distributed::Applies;
use program::{OpDesc, Program};
use protocol::server::{Apply, End, Server, ServerConfig, Store};
use transpile::server_op;

pub use keeping::SnapshotSettings;
use port_file::PortFile;
use shutdown::Shutdown;
pub use snapshot::check as snapshots;
use standby::Standby;
pub use store::BlockStore;

use crate::error::{Error, Result};
use train::Scope;
use train::remote::{JobStart, Log, usual_log};

/// How long trainers that are ready for a cut wait for the others, in modes in which trainers do not
/// wait for each other.
const READY_AT_ONCE_MS: u64 = 500;

/// How a server behaves beyond what its program says.
#[derive(Clone)]
pub struct Serving {
    /// A trainer that is silent for this long is dead.
    pub lease_ms: u64,
    /// How long a trainer whose connection broke has to come back.
    pub grace_ms: u64,
    /// Sync rounds continue without trainers that died.
    pub go_on: bool,
    /// Gradients that are not finite are refused.
    pub check_finite: bool,
    /// Attempts to bind the port, 3 s apart (`FLAGS_rpc_retry_bind_port`).
    pub bind_attempts: u32,
    /// Where and how often cuts are kept. Without it, a process that dies ends the job.
    pub keeping: Option<SnapshotSettings>,
    /// Gets the log lines of the server.
    pub log: Log,
    /// The proof that trainers must give.
    pub access: Access,
    /// The folders below which it writes what trainers save; none: anywhere.
    pub save_roots: Vec<PathBuf>,
    /// Bytes that it holds at most of what trainers send and ask for; none: half of the memory there is.
    pub request_bytes_max: Option<u64>,
    /// The checkpoint that it begins from, if it has looked for one: its trainers must begin from the same.
    pub start: Option<JobStart>,
}

impl Default for Serving {
    fn default() -> Self {
        let usual = ServerConfig::default();
        Self {
            lease_ms: usual.lease_ms,
            grace_ms: usual.grace_ms,
            go_on: false,
            check_finite: false,
            bind_attempts: 3,
            keeping: None,
            log: usual_log(),
            access: Access::default(),
            save_roots: Vec::new(),
            request_bytes_max: None,
            start: None,
        }
    }
}

impl std::fmt::Debug for Serving {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Serving with a lease of {} ms", self.lease_ms)
    }
}

/// Serves until all trainers have completed, the job failed, or `stops` returns true. If cuts are
/// kept, the first request to stop waits for one more cut; a second one does not.
pub fn serve(
    program: &Program,
    scope: &Scope,
    serving: &Serving,
    mut stops: impl FnMut() -> bool,
) -> Result<()> {
    let op = server_op(program).ok_or(train::Error::NoJob)?;
    let endpoint: Endpoint = op.attrs.str("endpoint", "")?.parse()?;
    net::tcp::check_access(&serving.access, &endpoint)?;
    let mut store = BlockStore::new(program, op, scope)?;
    store.save_below(&serving.save_roots);
    if let Some(keeping) = &serving.keeping {
        if keeping.stands_by {
            let servers = program.distributed.as_ref().map(|job| job.endpoints.clone());
            let (own, servers) = (op.attrs.str("endpoint", "")?, servers.unwrap_or_default());
            let standby = Standby { serving, keeping, own, servers: &servers };
            standby.wait(&mut store, &mut stops).inspect_err(|_| store.give_up(keeping))?;
        }
        begin_anew(keeping, server_id(op)?, &serving.log)?;
        store.keep(keeping, serving.log.clone())?;
    }
    let config = config(program, op, serving)?;
    let mut vars = store.vars().to_vec();
    vars.extend(serving.start.as_ref().map(JobStart::told));
    let server = Server::start(config, vars, &store);
    let server = server.map_err(|refusal| match store.take_error() {
        Some(error) => Error::Snapshot(error),
        None => Error::JobFailed(refusal),
    })?;
    let listener = bind(endpoint, serving, &mut stops)?;
    let _port = PortFile::write(listener.endpoint().port);
    (serving.log)(&lines::listening(listener.endpoint(), listener.endpoint().port));
    metrics::set_serving();
    let store = Arc::new(store);
    let served = store.clone();
    let (stop, log) = (Stop::default(), serving.log.clone());
    let (done, result) = sync_channel(1);
    let inner = stop.clone();
    let thread = thread::spawn(move || {
        let end = listener.serve(server, served, &inner, move |severity, text| {
            log(&Line { severity, site: "server", text: text.to_string() });
        });
        // The receiver waits until this comes.
        let _ = done.send(end);
    });
    let mut shutdown = Shutdown::new(serving, &store, &stop);
    let end = loop {
        match result.recv_timeout(shutdown.look_every()) {
            Ok(end) => break end,
            Err(RecvTimeoutError::Disconnected) => break None,
            Err(RecvTimeoutError::Timeout) => shutdown.look(stops()),
        }
    };
    // It has sent its result and ends.
    let _ = thread.join();
    store.give_back();
    (serving.log)(&lines::server_ends());
    match end {
        Some(End::Failed(refusal)) => Err(Error::JobFailed(refusal)),
        Some(End::Completed) => {
            let id = server_id(op)?;
            serving.keeping.iter().try_for_each(|keeping| finished::mark(keeping, id))
        }
        None if stop.is_set() => {
            Err(train::Error::Interrupted { block: 0, index: 0, op: "listen_and_serv".to_string() }
                .into())
        }
        None => Ok(()),
    }
}

/// Forgets a job that finished in another run, and says so.
fn begin_anew(keeping: &SnapshotSettings, server: u32, log: &Log) -> Result<()> {
    if finished::clear(keeping, server)? {
        let folder = keeping.folder.display();
        log(&Line::info("server", format!("the job in {folder} has finished, this is a new one")));
    }
    Ok(())
}

/// The number of a server.
fn server_id(op: &OpDesc) -> Result<u32> {
    Ok(u32::try_from(op.attrs.int("pserver_id", 0)?).unwrap_or(0))
}

fn config(program: &Program, op: &OpDesc, serving: &Serving) -> Result<ServerConfig> {
    let job = program.distributed.as_ref().map(|job| job.job.clone());
    let usual = ServerConfig::default();
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let keeping = serving.keeping.as_ref();
    let apply = match Applies::told(op)? {
        Applies::Round { ahead } => Apply::ByRound { ahead },
        Applies::Arrival | Applies::Difference => Apply::AtOnce,
    };
    Ok(ServerConfig {
        job: op.attrs.str("job", job.as_deref().unwrap_or(""))?.to_string(),
        n_trainers: op.attrs.int("Fanin", 1)?.max(1) as u32,
        apply,
        lease_ms: serving.lease_ms,
        grace_ms: serving.grace_ms,
        go_on: serving.go_on,
        check_finite: serving.check_finite,
        recovers: keeping.is_some(),
        is_lead: server_id(op)? == 0,
        cut_every_ms: keeping.map_or(usual.cut_every_ms, |keeping| millis(keeping.every)),
        ready_ms: if apply == Apply::AtOnce { READY_AT_ONCE_MS } else { usual.ready_ms },
        recover_ms: keeping.map_or(usual.recover_ms, |keeping| millis(keeping.patience)),
        piece_bytes: usual.piece_bytes,
        request_bytes_max: serving.request_bytes_max.unwrap_or_else(half_of_memory),
    })
}

/// Binds, again and again if the port is taken: an earlier job may be on its way out.
fn bind(
    endpoint: Endpoint,
    serving: &Serving,
    stops: &mut impl FnMut() -> bool,
) -> Result<Listener> {
    let mut attempt = 1;
    loop {
        match Listener::bind_with(&endpoint, serving.access.clone()) {
            Ok(listener) => return Ok(listener),
            Err(error) if attempt >= serving.bind_attempts || stops() => return Err(error.into()),
            Err(_) => {
                (serving.log)(&lines::bind_failed(&endpoint));
                let until = std::time::Instant::now() + Duration::from_secs(3);
                while std::time::Instant::now() < until && !stops() {
                    thread::sleep(Duration::from_millis(50));
                }
                attempt += 1;
            }
        }
    }
}
