//! The bodies of requests, as samples of a model.

use super::budget::{Held, NoMemory};
use super::json::RequestTable;
use super::{json, raw};
use crate::batch::Samples;
use crate::error::Error;
use crate::model::Model;

/// The reason why a body is not a batch.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadBody {
    /// It is not JSON.
    #[error("the body is not JSON: {0}")]
    Json(serde_json::Error),
    /// It has another form.
    #[error("{0}")]
    Form(String),
    /// It does not fit the model.
    #[error(transparent)]
    Samples(#[from] Error),
    /// It has more samples than are taken at once.
    #[error("a request has at most {0} samples")]
    TooMany(usize),
    /// There is no memory for it.
    #[error("other requests and answers fill the memory; try again")]
    NoMemory(NoMemory),
}

impl From<NoMemory> for BadBody {
    fn from(no_memory: NoMemory) -> Self {
        Self::NoMemory(no_memory)
    }
}

/// The limits of a body.
pub(super) struct Allowed<'a> {
    pub(super) held: &'a mut Held,
    pub(super) n_samples_max: usize,
}

/// The samples of a body: slots of the model, or rows of a table if CTR saved it. The part of the held memory
/// that is for the samples stays held.
pub(super) fn samples_of(
    body: Vec<u8>,
    is_raw: bool,
    model: &Model,
    allowed: &mut Allowed<'_>,
) -> Result<Samples, BadBody> {
    let mut batch = model.batch();
    match (model.encoding(), is_raw) {
        (Some(encoding), true) => {
            // A number of 4 bytes has 8 in a table; then tensors, and samples.
            allowed.held.take(body.len().saturating_mul(6))?;
            batch = model.encode(encoding, &raw::table(&body)?)?;
        }
        (Some(encoding), false) => {
            let RequestTable { frame, unread } = json::table(&body, encoding, allowed)?;
            model.warn_of(&unread);
            batch = model.encode(encoding, &frame)?;
        }
        (None, true) => {
            // A number of 4 bytes may have 8 in a column, and in the samples.
            allowed.held.take(body.len().saturating_mul(4))?;
            raw::fill(&body, &mut batch)?;
        }
        (None, false) => json::fill(&body, &mut batch, allowed)?,
    }
    let n_samples = batch.n_samples()?;
    if n_samples > allowed.n_samples_max {
        return Err(BadBody::TooMany(allowed.n_samples_max));
    }
    drop(body);
    // Requests that are predicted together are copied once more.
    let n_bytes = batch.n_bytes().saturating_mul(2);
    allowed.held.shrink_to(n_bytes);
    allowed.held.take(n_bytes - allowed.held.n_bytes())?;
    Ok(batch)
}
