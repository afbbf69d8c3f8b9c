//! Bytes that go to and from other processes. docs/guides/watching.md lists all names.

metrics::counters! {
    /// Traffic to and from the other processes of the job.
    pub struct NetworkCounters = "network" {
        /// Bytes that were written to connections.
        sent_bytes: Counter,
        /// Bytes that were read from connections.
        received_bytes: Counter,
        /// Bytes of tensors that others of this machine read where they are.
        lent_bytes: Counter,
    }
}

/// The bytes of this process.
pub static NETWORK: NetworkCounters = NetworkCounters::new();
