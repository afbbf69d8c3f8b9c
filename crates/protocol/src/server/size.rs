//! The sizes of tables, for statistics.

/// The size of tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Rows.
    pub rows: u64,
    /// Bytes.
    pub bytes: u64,
    /// Rows of sparse tables that exist because they were used.
    pub table_rows: u64,
    /// Bytes of sparse tables, with their index.
    pub table_bytes: u64,
    /// Rows that were named and that entry rules have not admitted.
    pub waiting: u64,
    /// Rows of gradients that were dropped because the table had not admitted them.
    pub dropped: u64,
}
