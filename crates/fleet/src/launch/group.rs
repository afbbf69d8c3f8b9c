//! The processes of a job and all that they start, as one group that ends as one.
//!
//! The group is led by a keeper: a shell that does nothing but hold one end of a pipe. When the
//! launcher goes, however it goes (`kill -9`, out of memory), the pipe breaks and the keeper ends
//! the whole group. So nobody is left behind, and this needs no `unsafe`.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};

/// Waits for the pipe to break; signals meant for the others do not reach it.
const KEEPER: &str = "trap '' INT TERM HUP QUIT; read -r _; kill -9 0";

/// A group of processes that does not outlive this value, nor this process.
pub(super) struct Group {
    keeper: Child,
}

impl Group {
    pub(super) fn new() -> io::Result<Self> {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", KEEPER]).stdin(Stdio::piped());
        shell.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        Ok(Self { keeper: shell.spawn()? })
    }

    /// Starts a process in the group.
    pub(super) fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        command.process_group(self.keeper.id().cast_signed()).spawn()
    }

    /// Asks all to end.
    pub(super) fn terminate(&self) {
        self.send(Signal::TERM);
    }

    /// Ends all, and all that they started.
    pub(super) fn kill(&self) {
        self.send(Signal::KILL);
    }

    fn send(&self, signal: Signal) {
        // The keeper has not been waited for, so its number is nobody else's.
        if let Some(group) = Pid::from_raw(self.keeper.id().cast_signed()) {
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
        let _ = self.keeper.wait();
    }
}
