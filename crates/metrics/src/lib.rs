//! The counts of the processes of a job: numbers that threads add to without locks ([`counters!`]),
//! the use of a process's time ([`Stepping`], [`Busy`]), the progress of its work ([`Phase`]), and
//! its obstacles ([`Obstacle`]).
//!
//! **Invariant:** nothing is measured before a reader asks for it ([`is_on`]), and no result depends
//! on the counts.

mod calendar;
mod flags;
mod number;
mod obstacle;
mod phase;
mod step;
pub mod words;

pub use calendar::CalendarTime;
pub use flags::{has_stepped, is_on, is_serving, set_on, set_serving};
pub use number::{Counter, Gauge, Level, NumberKind, NumberSource, Sample, Seconds, Whole};
pub use obstacle::{
    Obstacle, ObstacleGuard, clear_obstacle, obstacle_times, obstacles, report_obstacle,
};
pub use phase::{Phase, PhaseNumber, PhaseState, PhaseView, show_phases};
pub use step::{Busy, BusyThread, Labelled, Stepping, WaitingStep};
