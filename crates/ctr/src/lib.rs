//! A short way from a table to a click-through model.
//!
//! [`Ctr::fit`] guesses the kinds of the columns of a [`data::DataFrame`], encodes them, builds an ordinary
//! program, trains it (alone, or with parameter servers) and returns a [`CtrModel`], which predicts, is
//! judged, and is saved together with its encoding.
//!
//! **Invariant:** the same table, settings and seed give the same model. Everything a prediction needs
//! is in the saved folder.

mod batches;
mod cells;
mod command;
mod encode;
mod epochs;
mod error;
mod feature;
mod fit;
mod guess;
mod job;
mod json;
mod judge;
mod layers;
mod model;
mod rows;
mod saved;
mod settings;
mod show;
mod target;
mod words;

pub use cells::{Cell, values_of};
pub use command::FitCommand;
pub use encode::Encoding;
pub use error::{Error, Result};
pub use feature::Feature;
pub use fit::{Trained, Training};
pub use model::CtrModel;
pub use rows::{NamedCell, frame_of_rows};
pub use saved::EncodedModel;
pub use settings::Ctr;
pub use target::CtrTarget;
pub use words::{Architecture, FeatureKind, Loss, mode_from_name};
