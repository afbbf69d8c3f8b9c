//! Reads bytes as a server does, for loops that hand in broken ones.

use super::answer::COLUMNS;
use super::request::parse;
use super::{json, raw};
use crate::batch::Samples;

/// Reads a whole request, head and body, into a batch; whether it can be predicted.
pub fn read_request(bytes: &[u8], batch: &mut Samples) -> bool {
    let Ok(Some((head, n_head))) = parse(bytes) else { return false };
    let body = &bytes[n_head..];
    let body = &body[..head.n_body.min(body.len())];
    let filled = match head.request.kind.starts_with(COLUMNS) {
        true => raw::fill(body, batch),
        false => json::fill(body, batch),
    };
    filled.is_ok() && batch.n_samples().is_ok()
}
