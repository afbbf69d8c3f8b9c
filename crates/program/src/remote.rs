//! The requests of ops that talk to parameter servers.
//!
//! A program is data and knows no sockets: its `send`, `recv` and look-up ops hand their routes and
//! their values to what runs the program. `train` answers with connections to real servers,
//! op tests with a list.

use std::sync::Arc;

use tensor::{KeyedTable, Tensor, Value};

use crate::distributed::ServerId;
use crate::distributed::route::{LookUpRoute, Recv, SaveRoute, Send};
use crate::error::{Error, Result};

/// A look-up in a table of which this trainer holds some rows.
pub struct HeldLookUp<'a> {
    /// Where the rows are.
    pub route: &'a LookUpRoute,
    /// Lists of ids.
    pub ids: &'a [&'a Tensor],
    /// The rows that this trainer holds.
    pub table: &'a mut KeyedTable,
}

/// The servers, as a trainer's ops see them. Each call gets what the op is to do, which was read from
/// its attributes when the program was prepared.
pub trait Remote {
    /// `send`: hands the values of input `X` over, in the order of the input's names.
    fn send(&mut self, send: &Send, values: &[&Value]) -> Result<()>;

    /// Memory for the next value of a variable that `send` has just handed over for good.
    fn memory(&mut self, _n_bytes: usize) -> Tensor {
        Tensor::default()
    }

    /// `send_barrier`: everything of this step has been sent.
    fn send_barrier(&mut self, servers: &[ServerId]) -> Result<()>;

    /// `recv`: fills the tensors of output `Out`, in the order of the output's names.
    fn recv(&mut self, recv: &Recv, out: &mut [Tensor]) -> Result<()>;

    /// `fetch_barrier`: everything of this step has been received.
    fn fetch_barrier(&mut self, servers: &[ServerId]) -> Result<()>;

    /// `distributed_lookup_table`, `prefetch` and look-ups with `remote_prefetch`: the rows of a
    /// table on servers, for each list of ids; `out[i]` is `[ids[i].len(), width]`, and padding reads
    /// as zeros.
    fn prefetch(
        &mut self,
        look_up: &Arc<LookUpRoute>,
        ids: &[&Tensor],
        out: &mut [Tensor],
    ) -> Result<()>;

    /// The same of a table of which this trainer holds some rows: those that are missing come into it.
    fn look_up_held(&mut self, _look_up: HeldLookUp<'_>, _out: &mut [Tensor]) -> Result<()> {
        Err(Error::NoHost { op: String::new(), what: "parameter servers" })
    }

    /// `checkpoint_notify`: asks the servers to write their shards of a table.
    fn checkpoint_notify(&mut self, save: &SaveRoute) -> Result<()>;
}
