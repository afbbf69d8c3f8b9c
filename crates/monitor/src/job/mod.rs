//! All processes of a job, asked once a second: their work, the one that slows the job and why, and the
//! history so far. The collector keeps it in a fixed amount of memory, however long the job runs.

mod alarm;
mod clock;
mod collector;
mod crc32c;
mod events;
mod files;
mod history;
mod judge;
#[cfg(test)]
mod judge_tests;
mod member;
mod members;
mod metrics;
mod page;
mod presence;
mod processors;
mod shares;
mod speed;
mod state;
mod targets;

pub use collector::{Collector, CollectorSettings, Summary};
pub use judge::{Cause, Concern, Judgement, Presence, judge};
pub use members::{Board, Condition, Told};
pub use processors::ProcessorUse;
pub use shares::{ProcessShares, TimePart};
pub use state::SeenObstacle;
pub use targets::{ScrapeTarget, TargetFile};
