//! Reads bytes as a server does, for loops that hand in broken ones.

use monitor::http::HttpRequest;

use super::body::Allowed;
use super::budget::Budget;
use super::connection::COLUMNS;
use super::{json, raw};
use crate::batch::Samples;

/// Bytes that one request may take here.
const BYTES_MAX: usize = 64 << 20;

/// Reads a whole request, head and body, into a batch; whether it can be predicted.
pub fn read_request(bytes: &[u8], batch: &mut Samples) -> bool {
    let Some(request) = HttpRequest::from_bytes(bytes) else { return false };
    let held = &mut Budget::new(BYTES_MAX).hold();
    let filled = if request.kind.starts_with(COLUMNS) {
        raw::fill(&request.body, batch)
    } else {
        json::fill(&request.body, batch, &mut Allowed { held, n_samples_max: usize::MAX })
    };
    filled.is_ok() && batch.n_samples().is_ok()
}
