//! A body that comes in chunks, each with its length, and not with one length for all.

use super::answer::HttpAnswer;
use super::request::{HEAD_BYTES_MAX, NoRequest};

/// Bytes of the line before a chunk: its size, and extensions, which are ignored.
const LINE_BYTES_MAX: usize = 256;

fn bad(status: u16, problem: &str) -> NoRequest {
    NoRequest::Bad(HttpAnswer::error(status, problem).closing())
}

#[derive(Debug)]
enum ChunkStage {
    Size,
    /// So many bytes of a chunk are to come, and the end of a line.
    Data(usize),
    /// Headers behind the last chunk.
    Trailers,
    Done,
}

/// Reads chunks piece by piece.
#[derive(Debug)]
pub(super) struct ChunkedBody {
    stage: ChunkStage,
    n_trailer_bytes: usize,
    body_bytes_max: usize,
}

impl ChunkedBody {
    /// A body that is no longer than this.
    pub(super) fn new(body_bytes_max: usize) -> Self {
        Self { stage: ChunkStage::Size, n_trailer_bytes: 0, body_bytes_max }
    }

    /// Whether the whole body was read.
    pub(super) fn is_done(&self) -> bool {
        matches!(self.stage, ChunkStage::Done)
    }

    /// Adds what is there to the body; how many bytes of the input were used.
    pub(super) fn take(&mut self, input: &[u8], body: &mut Vec<u8>) -> Result<usize, NoRequest> {
        let mut used = 0;
        loop {
            let rest = &input[used..];
            let n_taken = match self.stage {
                ChunkStage::Done => return Ok(used),
                _ if rest.is_empty() => return Ok(used),
                ChunkStage::Size => self.size(rest, body.len())?,
                ChunkStage::Data(0) => match rest {
                    [b'\r', b'\n', ..] => {
                        self.stage = ChunkStage::Size;
                        Some(2)
                    }
                    [b'\r'] => None,
                    _ => return Err(bad(400, "a chunk is longer than its size says")),
                },
                ChunkStage::Data(n) => {
                    let n_taken = n.min(rest.len());
                    body.extend_from_slice(&rest[..n_taken]);
                    self.stage = ChunkStage::Data(n - n_taken);
                    Some(n_taken)
                }
                ChunkStage::Trailers => self.trailer(rest)?,
            };
            match n_taken {
                Some(n) => used += n,
                None => return Ok(used),
            }
        }
    }

    /// Reads the line before a chunk; `None` if it has not come as a whole.
    fn size(&mut self, rest: &[u8], n_body: usize) -> Result<Option<usize>, NoRequest> {
        let wrong = || bad(400, "a chunk begins with its size, in hexadecimal digits");
        if !rest[0].is_ascii_hexdigit() {
            return Err(wrong());
        }
        match httparse::parse_chunk_size(rest) {
            Ok(httparse::Status::Complete((n, size))) if n <= LINE_BYTES_MAX => {
                let most = self.body_bytes_max;
                self.stage = match usize::try_from(size) {
                    Ok(0) => ChunkStage::Trailers,
                    Ok(size) if size <= most.saturating_sub(n_body) => ChunkStage::Data(size),
                    _ => return Err(bad(413, &format!("a request has at most {most} bytes"))),
                };
                Ok(Some(n))
            }
            Ok(httparse::Status::Partial) if rest.len() <= LINE_BYTES_MAX => Ok(None),
            _ => Err(wrong()),
        }
    }

    /// Skips one line behind the last chunk; an empty one is the end.
    fn trailer(&mut self, rest: &[u8]) -> Result<Option<usize>, NoRequest> {
        let end = rest.iter().position(|&byte| byte == b'\n');
        let n = end.map_or(rest.len(), |end| end + 1);
        if self.n_trailer_bytes + n > HEAD_BYTES_MAX {
            return Err(bad(431, "the headers behind the last chunk are too long"));
        }
        let Some(end) = end else { return Ok(None) };
        self.n_trailer_bytes += n;
        if matches!(&rest[..end], b"" | b"\r") {
            self.stage = ChunkStage::Done;
        }
        Ok(Some(n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The body in these bytes if they come `step` at a time, or the status of the refusal.
    fn read(bytes: &[u8], step: usize) -> Result<(Vec<u8>, bool), u16> {
        let mut chunks = ChunkedBody::new(20);
        let mut body = Vec::new();
        let mut ahead = Vec::new();
        for piece in bytes.chunks(step) {
            ahead.extend_from_slice(piece);
            match chunks.take(&ahead, &mut body) {
                Ok(n) => drop(ahead.drain(..n)),
                Err(NoRequest::Bad(answer)) => return Err(answer.status()),
                Err(NoRequest::Gone) => return Err(0),
            }
        }
        Ok((body, chunks.is_done()))
    }

    #[test]
    fn chunks_become_a_body_however_they_are_cut() {
        let whole = b"4;name=x\r\nwhee\r\n0A \r\nls on rail\r\n0\r\nDigest: 1\r\n\r\n";
        for step in 1..whole.len() {
            assert_eq!(read(whole, step), Ok((b"wheels on rail".to_vec(), true)), "{step}");
        }
        assert_eq!(read(&whole[..20], 3), Ok((b"whee".to_vec(), false)));
        assert_eq!(read(b"0\r\n\r\n", 1), Ok((Vec::new(), true)));
    }

    #[test]
    fn wrong_sizes_and_too_much_are_refused() {
        let long_line = [b"1;", &[b'x'; 400][..]].concat();
        let long_trailer = [b"0\r\n", &b"a: b\r\n".repeat(4000)[..]].concat();
        for (bytes, status) in [
            (&b"x\r\n"[..], 400),
            (b"\r\n\r\n", 400),
            (b";a\r\n\r\n", 400),
            (b"-1\r\n", 400),
            (b"0x4\r\nwhee\r\n", 400),
            (b"4\nwhee\n", 400),
            (b"4\r\nwheels\r\n", 400),
            (b"11111111111111111\r\n", 400),
            (b"ffffffffffffffff\r\n", 413),
            (b"15\r\n", 413),
            (b"14\r\n12345678901234567890\r\n1\r\n", 413),
            (&long_line, 400),
            (&long_trailer, 431),
        ] {
            for step in [1, 7, 10_000] {
                assert_eq!(read(bytes, step), Err(status), "{}", bytes.escape_ascii());
            }
        }
    }
}
