//! The access of an op to the world outside of the program.

use std::error::Error as StdError;
use std::sync::Arc;

use tensor::{PackedMatrix, Tensor, Value};

use crate::error::{Error, Result};
use crate::remote::Remote;
use crate::trainers::Trainers;

/// The access of ops to the world outside; the code that runs programs implements it.
///
/// Each method has a refusal as its default, so that a host offers only what it has.
pub trait Host {
    /// A seed that differs from call to call, for random ops whose seed is 0.
    fn fresh_seed(&mut self) -> u32 {
        1
    }

    /// Runs another block of the program on the same variables.
    fn run_block(&mut self, _block: usize, _vars: &mut [Value]) -> Result<()> {
        Err(refuse("a runner of sub-blocks"))
    }

    /// The next batch of a reader variable, `None` at the end of a pass.
    fn read(&mut self, _reader: &str) -> Result<Option<Vec<Tensor>>> {
        Err(refuse("a reader"))
    }

    /// Shows a line to the user.
    fn print(&mut self, _line: &str) -> Result<()> {
        Err(refuse("a place to print"))
    }

    /// Writes bytes to a file, whole or not at all.
    fn write_file(&mut self, _path: &str, _bytes: &[u8]) -> Result<()> {
        Err(refuse("a file system"))
    }

    /// Reads a whole file.
    fn read_file(&mut self, _path: &str) -> Result<Vec<u8>> {
        Err(refuse("a file system"))
    }

    /// The contents of a variable, arranged for products, if that was done beforehand.
    fn packed(&self, _var: &str) -> Option<Arc<PackedMatrix>> {
        None
    }

    /// The parameter servers of this run.
    fn remote(&mut self) -> Result<&mut dyn Remote> {
        Err(refuse("parameter servers"))
    }

    /// The other trainers of this run, where there are no servers.
    fn trainers(&mut self) -> Result<&mut dyn Trainers> {
        Err(refuse("other trainers"))
    }
}

fn refuse(what: &'static str) -> Error {
    Error::NoHost { op: String::new(), what }
}

/// Wraps what the world answered.
pub fn host_error(error: impl StdError + Send + Sync + 'static) -> Error {
    Error::Host(Box::new(error))
}

/// A world in which there is nothing.
pub struct NoHost;

impl Host for NoHost {}
