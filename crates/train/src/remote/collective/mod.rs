//! A trainer's side of a job without servers: what `c_allreduce_sum` and its like do.

mod joined;
mod session;
mod sum;
mod trainers;

pub(super) use joined::Joined;
pub(crate) use session::Exchanging;
pub(crate) use sum::program_sum;
