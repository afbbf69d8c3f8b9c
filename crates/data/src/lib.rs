//! Text in, batches out: lists of files, pipe commands, slots, shuffles, batches.
//!
//! A [`Dataset`] is told its slots and files and [started](Dataset::start): each thread of a trainer
//! gets a [`Reader`] and takes batches from it, which threads of this crate read ahead.
//!
//! **Invariant:** knows neither programs nor servers. The only processes it starts are the user's
//! pipe commands, none of which outlives the readers, and `hadoop`, which is waited for. A pass
//! either gives every sample of its files or ends with an error that names the file; it skips only
//! lines and files that the settings allow, and counts them.

pub mod answers;
mod batch;
mod checksum;
mod click_log;
mod criteo;
mod csv;
mod dataset;
mod desc;
mod error;
mod feed;
mod files;
mod frame;
mod memory;
mod multi_slot;
pub mod names;
mod native;
mod number;
mod numbers;
mod parquet;
mod parse;
mod pass;
mod pipe;
mod position;
mod prototext;
mod queue;
mod random;
mod reader;
mod reads;
mod records;
mod series;
mod settings;
mod share;
mod shuffle;
mod slot;
mod source;
mod times;
mod zstd;

pub use checksum::hash_id;
pub use click_log::ClickLog;
pub use criteo::{Criteo, Dense, Hash};
pub use csv::{CellType, Column, Csv};
pub use dataset::{Dataset, SampleCounts, n_lacking};
pub use desc::{FeedDesc, SlotDesc};
pub use error::{Error, ExchangeError, Refusal, Result};
pub use feed::{Feed, FeedNames};
pub use files::read_bytes;
pub use frame::DataFrame;
pub use multi_slot::MultiSlot;
pub use native::{COMMANDS, Native};
pub use numbers::{ColumnNumber, widen};
pub use parquet::Parquet;
pub use pass::Skipped;
pub use pipe::Shell;
pub use position::{Position, Positions};
pub use reader::{Reader, Stopper};
pub use reads::{FileRead, PassFiles};
pub use records::Records;
pub use series::{Series, Texts, Values, room};
pub use settings::{DatasetKind, Settings};
pub use share::remove_share;
pub use shuffle::Exchange;
pub use slot::{Slot, SlotKind};
pub use source::{
    AzureAccess, AzureClient, AzureKeySource, ClientProof, ContainerAgent, CopyOptions,
    GoogleAccess, GoogleKeySource, HdfsAccess, HdfsClient, HdfsEntry, S3Access, S3Key, S3KeySource,
    Stores, WebIdentity, expand, is_pattern,
};
pub use times::{NO_TIME, time_of_text, time_seconds, time_text};
