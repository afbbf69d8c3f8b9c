//! Parsers of lines.

use crate::error::Refusal;
use crate::records::Records;

/// Turns lines into samples.
pub(crate) trait Parse: Send {
    /// A file begins.
    fn begin(&mut self) {}

    /// Whether a line at the beginning of the file that tells about the others is still missing.
    fn needs_header(&self) -> bool {
        false
    }

    /// A line that was read before: nothing is made of it, but what it tells about others is kept.
    fn pass_over(&mut self, line: &[u8]) {
        let _ = line;
    }

    /// Reads a line as one more record, which the caller commits; whether there is one in it.
    fn parse(&mut self, line: &[u8], out: &mut Records) -> std::result::Result<bool, Refusal>;
}
