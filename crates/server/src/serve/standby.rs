//! A server that was started before its time: it gets ready, and waits until it is its turn.

use std::thread;
use std::time::{Duration, Instant};

use durable::Access;
use net::lines::Line;

use super::{BlockStore, Serving, SnapshotSettings};
use crate::error::{Error, Result};
use crate::server_list;

/// How often it looks whether it is its turn.
const GLANCE: Duration = Duration::from_millis(5);
/// How often it looks for new cuts of the others.
const CATCH_UP_EVERY: Duration = Duration::from_millis(50);
/// How many cuts it follows at most before it says that it is ready: each takes less time than the one before.
const CATCH_UPS: usize = 6;

/// See the module.
pub(super) struct Standby<'a> {
    pub(super) serving: &'a Serving,
    pub(super) keeping: &'a SnapshotSettings,
    /// Where it will listen.
    pub(super) own: &'a str,
    /// Those of which it is one.
    pub(super) servers: &'a [String],
}

impl Standby<'_> {
    /// Whether the servers of the job are these.
    fn is_turn(&self) -> bool {
        server_list::read(&self.keeping.folder).is_some_and(|list| list == self.servers)
    }

    /// Waits until the servers of the job are these, and takes over meanwhile what the others have kept: when they have
    /// ended, only their last changes are left. A signal ends it.
    pub(super) fn wait(
        &self,
        store: &mut BlockStore,
        stops: &mut impl FnMut() -> bool,
    ) -> Result<()> {
        let Self { serving, keeping, own, .. } = *self;
        if self.is_turn() {
            return Ok(());
        }
        let mut n_taken = 0;
        while n_taken < CATCH_UPS && store.catch_up(keeping, serving.log.clone())? {
            n_taken += 1;
        }
        let mark = server_list::standing_by(&keeping.folder, own);
        let written = durable::replace_with(&mark, Access::Owner, b"");
        written.map_err(|source| train::Error::WriteFile { path: mark, source })?;
        let line = format!("stands by, with {n_taken} cuts: it serves when it is asked to");
        (serving.log)(&Line::info("server", line));
        let (start, mut looked) = (Instant::now(), Instant::now());
        while !self.is_turn() {
            if stops() {
                return Err(train::Error::Interrupted {
                    block: 0,
                    index: 0,
                    op: "listen_and_serv".to_string(),
                }
                .into());
            }
            if start.elapsed() >= keeping.patience {
                return Err(Error::StoodBy { seconds: keeping.patience.as_secs() });
            }
            if looked.elapsed() >= CATCH_UP_EVERY {
                store.catch_up(keeping, serving.log.clone())?;
                looked = Instant::now();
            }
            thread::sleep(GLANCE);
        }
        Ok(())
    }
}
