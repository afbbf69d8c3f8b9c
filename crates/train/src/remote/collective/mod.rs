//! A trainer's side of a job without servers: what `c_allreduce_sum` and its like do.

mod joined;
mod kept;
mod recovery;
mod session;
mod sum;
mod trainers;

use joined::Joined;
pub(crate) use recovery::EventTrainers;
pub(super) use recovery::{GroupCuts, Through};
pub(crate) use session::Exchanging;
pub(crate) use sum::{ProgramSums, program_sum};
pub use trainers::Group;
