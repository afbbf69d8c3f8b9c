//! Saved models for people and for other programs: the contents of a folder as text and as a picture,
//! and models and tables in the formats that others read (ONNX, safetensors, Parquet).
//!
//! **Invariant:** a folder is read as the save left it, and is changed only by an import. A file that is
//! written here is there whole or not at all.

mod contents;
mod error;
mod export;
mod import;
mod new_rows;
pub mod onnx;
mod output;
mod parquet;
mod safetensors;
mod show;

pub use contents::{Contents, HeldForm, HeldVar, NamedProgram};
pub use error::{Error, Result};
pub use export::{ExportFormat, ExportOptions, Exported, draw, export};
pub use import::{import_rows, import_rows_into_scope, read_rows};
pub use new_rows::{Imported, NewRows};
pub use parquet::{parquet_rows, write_parquet};
pub use safetensors::{safetensors_rows, write_safetensors};
pub use show::{picture, text};
