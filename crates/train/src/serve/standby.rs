//! A server that was started before its time: it is ready, and waits until it is its turn.

use std::fs::File;
use std::thread;
use std::time::{Duration, Instant};

use ps::lines::Line;

use super::{Serving, SnapshotSettings};
use crate::error::{Error, Result};
use crate::server_list;

/// How often it looks.
const GLANCE: Duration = Duration::from_millis(5);

/// Whether the servers of the job are these.
pub(super) fn is_turn(keeping: &SnapshotSettings, servers: &[String]) -> bool {
    server_list::read(&keeping.folder).is_some_and(|list| list == servers)
}

/// Waits until the servers of the job are these, of which `own` is one. A signal ends it.
pub(super) fn wait(
    serving: &Serving,
    keeping: &SnapshotSettings,
    own: &str,
    servers: &[String],
    stops: &mut impl FnMut() -> bool,
) -> Result<()> {
    let folder = keeping.folder.as_path();
    let is_turn = || is_turn(keeping, servers);
    if is_turn() {
        return Ok(());
    }
    let mark = server_list::standing_by(folder, own);
    File::create(&mark).map_err(|source| Error::WriteFile { path: mark, source })?;
    (serving.log)(&Line::info("server", "stands by: it serves when it is told to".to_string()));
    let start = Instant::now();
    while !is_turn() {
        if stops() {
            return Err(Error::Interrupted {
                block: 0,
                index: 0,
                op: "listen_and_serv".to_string(),
            });
        }
        if start.elapsed() >= keeping.patience {
            return Err(Error::StoodBy { seconds: keeping.patience.as_secs() });
        }
        thread::sleep(GLANCE);
    }
    Ok(())
}
