//! Paddlewheel: training of sparse models, Fluid programs on a Rust core.
//!
//! A [`Session`] is a model with everything it needs to run, alone or with parameter servers
//! ([`Session::join`]). [`ctr::Ctr`] is the short way from a table to a click-through model. The crates
//! below are there under their names: [`program`] to say what to compute, [`train`] to run it, [`data`] to
//! read samples, [`tensor`] for the numbers that go in and out, [`protocol`] for servers and links, [`fleet`] for
//! jobs of several processes, [`predict`] to use the result.
//!
//! ```
//! use paddlewheel::ctr::Ctr;
//! use paddlewheel::data::{DataFrame, Series, Values};
//!
//! # fn main() -> paddlewheel::Result<()> {
//! let column = |name: &str, values| Series { name: name.to_string(), values };
//! let ads: Vec<i64> = (0..300).map(|row| row % 5).collect();
//! let clicked = ads.iter().map(|&ad| i64::from(ad > 2)).collect();
//! let train = DataFrame::new(vec![
//!     column("ad_id", Values::Whole(ads)),
//!     column("clicked", Values::Whole(clicked)),
//! ])?;
//! let mut model = Ctr::new("clicked").fit(&train)?;
//! assert!(model.auc(&train)? > 0.99);
//! # Ok(())
//! # }
//! ```
//!
//! The examples beside it are the place to go on: `examples/fit_a_line.rs`, `examples/ctr_dnn.rs`,
//! `examples/distributed_ctr.rs`.

mod error;
mod job;
mod session;

pub use base;
pub use ctr;
pub use data;
pub use export;
pub use fleet;
pub use logging;
pub use metrics;
pub use monitor;
pub use net;
pub use predict;
pub use program;
pub use protocol;
pub use server;
pub use tensor;
pub use train;
pub use transpile;
pub use wire;

pub use error::{Error, Result};
pub use job::{Member, Serving, Trainer};
pub use session::{Building, Ready, Session};

/// What most programs need: `use paddlewheel::prelude::*;`.
pub mod prelude {
    pub use crate::{Member, Ready, Session};
    pub use program::distributed::Mode;
    pub use program::layers::{self, CrossEntropy, Data, Embedding, Fc};
    pub use program::optimizer::{Adagrad, Adam, Optimizer, Sgd};
    pub use program::{Builder, Initializer, ParamAttr, Var};
    pub use tensor::{DType, Tensor};
    pub use train::Feed;
}
