//! The surroundings that a run finds outside of the executor.

use program::op::{Host, NoHost};

use crate::error::Result;
use crate::scope::Scope;

/// The servers that a program without a job of its own talks to.
#[derive(Clone, Debug, Default)]
pub struct KnownServers {
    /// Their end points, by number.
    pub endpoints: Vec<String>,
    /// The names of each server's variables, by number.
    pub vars: Vec<Vec<String>>,
}

/// The host of a run. The executor asks it for servers and other trainers on behalf of ops, and does
/// everything else itself.
///
/// [`NoHost`] refuses both: with it, a program computes and does nothing else.
pub trait RunHost: Host {
    /// The job whose servers [`RunHost::servers`] returns. Programs without a job of their own are prepared
    /// again when it changes.
    fn job_number(&self) -> u64 {
        0
    }

    /// The servers that programs without a job of their own talk to.
    fn servers(&self) -> KnownServers {
        KnownServers::default()
    }

    /// Called when the program is prepared, before its variables leave the scope.
    fn begin(&mut self, _scope: &Scope) {}

    /// Called when all ops have run and the variables are back in the scope.
    fn end(&mut self, _scope: &Scope) -> Result<()> {
        Ok(())
    }
}

impl RunHost for NoHost {}
