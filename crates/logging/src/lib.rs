//! Output of a process for people: the lines of its log, by level, as text or JSON ([`start`]), and the
//! progress of its work, as one line that moves on a terminal and one line a minute elsewhere
//! ([`show_progress`]).
//!
//! **Invariant:** only a front starts any of this. Libraries emit events of `tracing` and count
//! [`phases`](metrics::Phase); without a front, nothing is written for them.
//! **Invariant:** that nothing can be written (a full disk, a closed terminal) ends nothing.

mod filter;
mod format;
mod log;
mod moving;
mod screen;

pub use filter::{FilterError, Glog, LogFilter, TARGETS};
pub use format::{LogFormat, LogIdentity};
pub use log::{LogSettings, format, set_format, set_identity, start};
pub use moving::is_terminal;
pub use screen::{NOTE_EVERY, ProgressMode, apart, is_drawing, make_room, show_progress};

/// The beginning of all our targets.
pub const PREFIX: &str = "paddlewheel::";
