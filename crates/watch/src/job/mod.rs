//! All processes of a job, asked once a second: what they do, who slows the job and why, and how it went
//! so far. The collector keeps it in a fixed amount of memory, however long the job runs.

mod clock;
mod collector;
mod crc32c;
mod events;
mod files;
mod history;
mod judge;
mod members;
mod page;
mod shares;
mod state;
mod targets;

pub use collector::{Collector, CollectorSettings, Summary};
pub use judge::{Concern, Judgement, judge};
pub use members::{Board, Condition, Told};
pub use shares::{ProcessShares, TimePart};
pub use targets::{ScrapeTarget, TargetFile};
