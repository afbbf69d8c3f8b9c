//! Predictions with trained models.
//!
//! A [`Predictor`] has one copy of a model, with which any number of threads predict. A [`PredictionServer`] answers
//! predictions over HTTP.
//!
//! **Invariant:** parameters are only read. A request that fails harms no other request.

mod batch;
mod compute;
mod cores;
mod error;
mod files;
mod fold;
mod model;
mod predictor;
mod serve;
mod slot;
mod stamp;

pub use batch::{Column, Samples};
pub use error::{Error, Result};
pub use files::ModelFiles;
pub use predictor::Predictor;
pub use serve::{Limits, PredictionServer, Settings, read_request};
pub use slot::Slot;
