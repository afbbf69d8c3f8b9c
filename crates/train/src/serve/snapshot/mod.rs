//! Snapshots of a server: its files, and what they hold. See `docs/formats.md`.

mod fields;
mod file;
mod header;
mod names;
mod rows;
mod value;

pub(in crate::serve) use fields::{Fields, Parts};
pub(in crate::serve) use file::{FileReader, FileWriter, Kind, Section};
pub(in crate::serve) use header::{CutId, FileKind, Header, Owner};
pub(in crate::serve) use names::{names_section, read_names, read_waiting, waiting_to_bytes};
pub(in crate::serve) use rows::{Places, RowsChunk, RowsHead, read_places, read_rows};
pub(in crate::serve) use value::{read_value, write_value};
