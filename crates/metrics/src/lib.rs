//! What the processes of a job count while they run: numbers that threads add to without locks
//! ([`counters!`]), where the time of a process goes ([`Stepping`], [`Busy`]), how far its work is ([`Phase`]), and what keeps it
//! from it ([`Obstacle`]).
//!
//! **Invariant:** nothing is measured before somebody wants to know ([`is_on`]), and no result depends
//! on what is counted.

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
