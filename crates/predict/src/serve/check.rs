//! Reads bytes as a server does, for loops that hand in broken ones.

use watch::http::HttpRequest;

use super::connection::COLUMNS;
use super::{json, raw};
use crate::batch::Samples;

/// Reads a whole request, head and body, into a batch; whether it can be predicted.
pub fn read_request(bytes: &[u8], batch: &mut Samples) -> bool {
    let Some(request) = HttpRequest::from_bytes(bytes) else { return false };
    let filled = match request.kind.starts_with(COLUMNS) {
        true => raw::fill(&request.body, batch),
        false => json::fill(&request.body, batch),
    };
    filled.is_ok() && batch.n_samples().is_ok()
}
