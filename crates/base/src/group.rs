//! The processes of a job and all that they start, as one group that ends as one.
//!
//! The group is led by a keeper: a shell that does nothing but hold one end of a pipe. When the
//! launcher goes, however it goes (`kill -9`, out of memory), the pipe breaks and the keeper ends
//! the whole group. So no process outlives the launcher, and this needs no `unsafe`.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// Waits for the pipe to break; signals meant for the others do not reach it.
const KEEPER: &str = "trap '' INT TERM HUP QUIT; read -r _; kill -9 0";

/// A group of processes that does not outlive this value, nor this process.
pub struct ProcessGroup {
    /// The first keeper. It is reaped last: until then its process id is that of the group, even if
    /// it was killed.
    leader: Child,
    /// Those that took its place.
    keepers: Vec<Child>,
}

impl ProcessGroup {
    /// Starts the keeper.
    pub fn new() -> io::Result<Self> {
        Ok(Self { leader: keeper().process_group(0).spawn()?, keepers: Vec::new() })
    }

    /// Starts a process in the group.
    pub fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        command.process_group(self.leader.id().cast_signed()).spawn()
    }

    /// Starts another keeper if the last one was killed.
    pub fn renew_keeper(&mut self) -> io::Result<()> {
        let is_there = match self.keepers.last_mut() {
            Some(keeper) => keeper.try_wait()?.is_none(),
            None => self.leader_lives()?,
        };
        if !is_there {
            let keeper = self.spawn(&mut keeper())?;
            self.keepers.push(keeper);
        }
        Ok(())
    }

    /// Whether the first keeper runs; it is not waited for.
    fn leader_lives(&self) -> io::Result<bool> {
        let Some(leader) = Pid::from_raw(self.leader.id().cast_signed()) else { return Ok(true) };
        let peek = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(leader), peek)?.is_none())
    }

    /// Asks all to end.
    pub fn terminate(&self) {
        self.send(Signal::TERM);
    }

    /// Ends all, and all that they started.
    pub fn kill(&self) {
        self.send(Signal::KILL);
    }

    fn send(&self, signal: Signal) {
        // The leader has not been reaped, so its process ID cannot belong to another process.
        if let Some(group) = Pid::from_raw(self.leader.id().cast_signed()) {
            let _ = kill_process_group(group, signal);
        }
    }
}

fn keeper() -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", KEEPER]).stdin(Stdio::piped());
    shell.stdout(Stdio::null()).stderr(Stdio::null());
    shell
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
        for keeper in self.keepers.iter_mut().chain([&mut self.leader]) {
            let _ = keeper.wait();
        }
    }
}
