//! The servers of this process's job, as its variables and flags describe them.

use std::sync::Arc;

use train::Cluster;
use train::remote::usual_log;

use crate::access;
use crate::error::Result;
use crate::flags;
use crate::signals::wants_end;

/// The parameter servers that all executors of this process talk to. No connection is made yet.
pub fn cluster_of_process() -> Result<Cluster> {
    let flags = flags::current()?;
    let cluster = Cluster::new(flags.patience(), usual_log());
    cluster.set_access(access::current()?);
    cluster.set_redo_bytes(flags.recovery_memory());
    cluster.set_journal_bytes(flags.journal_bytes());
    cluster.set_request_bytes(flags.request_memory());
    if flags.lets_trainers_back() {
        cluster.keep_each_other(flags.snapshot_every()?);
    }
    cluster.set_ends(Arc::new(wants_end));
    flags.locate().into_iter().for_each(|locate| cluster.set_locate(locate));
    Ok(cluster)
}
