//! Snapshots of a server: its files, and what they hold. See `docs/reference/formats.md`.

mod again;
mod chain;
pub mod check;
mod file;
mod folder;
mod header;
mod journal;
mod layout;
mod names;
mod rows;
mod rows_state;
mod source;
mod value;

pub(in crate::serve) use again::{copy, remove_copy};
pub(in crate::serve) use chain::Known;
pub(in crate::serve) use file::{FileReader, FileWriter, Kind};
pub(in crate::serve) use folder::Folder;
pub(in crate::serve) use header::{CutId, FileKind, Header, Owner};
pub(in crate::serve) use layout::{Layout, VarLayout, digest};
pub(in crate::serve) use names::{RowNumbers, names_section, read_waiting, waiting_to_bytes};
pub(in crate::serve) use rows::{Places, RowsChunk, RowsHead, read_places, read_rows};
pub(in crate::serve) use rows_state::{Picks, RowsState};
pub(in crate::serve) use source::{ServerRead, ServerState, Source, finished_files};
pub(in crate::serve) use value::{read_value, write_value};
