//! One request, read from a connection within limits.

use std::io::{self, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::answer::HttpAnswer;
use super::chunks::ChunkedBody;

/// Bytes of the head of a request.
pub(super) const HEAD_BYTES_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;
/// Bytes that are read at once, of a head and of a body.
const HEAD_READ_BYTES: usize = 4096;
const BODY_READ_BYTES: usize = 1 << 16;

/// A request of a client.
#[derive(Debug)]
pub struct HttpRequest {
    /// `GET`, say.
    pub method: String,
    /// The path, with the query behind a question mark.
    pub target: String,
    /// The type of the body.
    pub kind: String,
    /// The formats that the client accepts.
    pub accepts: String,
    /// The body.
    pub body: Vec<u8>,
    /// The client wants no further answer on this connection.
    pub closes: bool,
    /// It speaks HTTP/1.0, which has no chunks.
    pub is_old: bool,
}

impl HttpRequest {
    /// The path, without the query behind a question mark.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or("")
    }

    /// Reads a request that is there as a whole; of an incomplete body, the part that is there.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (head, n_head) = parse(bytes).ok()??;
        let RequestHead { mut request, n_body, is_chunked, .. } = head;
        let body = bytes.get(n_head..)?;
        if is_chunked {
            ChunkedBody::new(body.len()).take(body, &mut request.body).ok()?;
        } else {
            request.body = body[..n_body.min(body.len())].to_vec()
        }
        Some(request)
    }
}

/// The head of a request.
#[derive(Debug)]
pub(super) struct RequestHead {
    pub(super) request: HttpRequest,
    /// Bytes of the body; the most that there can be if it comes in chunks.
    pub(super) n_body: usize,
    is_chunked: bool,
    expects: bool,
}

/// Why there is no request.
#[derive(Debug)]
pub enum NoRequest {
    /// The client has gone, or sent nothing for long.
    Gone,
    /// The answer to send before the connection is closed.
    Bad(HttpAnswer),
}

/// Reads a connection request by request.
#[derive(Debug)]
pub struct Requests<'a> {
    stream: &'a TcpStream,
    /// Bytes that were read and not used.
    ahead: Vec<u8>,
    /// A part of a request was read.
    has_begun: bool,
    patience: Duration,
    body_bytes_max: usize,
}

fn bad(status: u16, problem: &str) -> NoRequest {
    NoRequest::Bad(HttpAnswer::error(status, problem).closing())
}

fn no_memory() -> NoRequest {
    bad(503, "other requests and answers fill the memory; try again")
}

impl<'a> Requests<'a> {
    /// The requests of a connection; a client has this long for each, and bodies are no longer than this.
    pub fn new(stream: &'a TcpStream, patience: Duration, body_bytes_max: usize) -> Self {
        Self { stream, ahead: Vec::new(), has_begun: false, patience, body_bytes_max }
    }

    /// Waits until a request begins.
    pub fn begin(&mut self) -> Result<(), NoRequest> {
        let deadline = Instant::now() + self.patience;
        while self.ahead.is_empty() {
            self.read_more(deadline, HEAD_READ_BYTES)?;
        }
        Ok(())
    }

    /// The next request. `holds` is told of more bytes that are in memory, and says whether there is room.
    pub fn next(&mut self, holds: impl FnMut(usize) -> bool) -> Result<HttpRequest, NoRequest> {
        let deadline = Instant::now() + self.patience;
        let (head, n_head) = self.head(deadline)?;
        let RequestHead { mut request, n_body, is_chunked, expects } = head;
        if n_body > self.body_bytes_max && !is_chunked {
            let most = self.body_bytes_max;
            return Err(bad(413, &format!("a request has at most {most} bytes, not {n_body}")));
        }
        self.ahead.drain(..n_head);
        // One that has begun to send does not wait to be told so.
        if expects && self.ahead.is_empty() {
            use std::io::Write;
            let go_on = self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n");
            go_on.map_err(|_| NoRequest::Gone)?;
        }
        request.body = if is_chunked {
            self.chunks(deadline, holds)?
        } else {
            self.body(n_body, deadline, holds)?
        };
        self.ahead.shrink_to(BODY_READ_BYTES);
        self.has_begun = !self.ahead.is_empty();
        Ok(request)
    }

    /// A body of known length. Its memory is counted as it comes: a client holds what it has sent.
    fn body(
        &mut self,
        n_body: usize,
        deadline: Instant,
        mut holds: impl FnMut(usize) -> bool,
    ) -> Result<Vec<u8>, NoRequest> {
        let mut body = Vec::with_capacity(n_body);
        loop {
            let n = self.ahead.len().min(n_body - body.len());
            if !holds(n) {
                return Err(no_memory());
            }
            body.extend(self.ahead.drain(..n));
            if body.len() == n_body {
                return Ok(body);
            }
            self.read_more(deadline, (n_body - body.len()).min(BODY_READ_BYTES))?;
        }
    }

    fn chunks(
        &mut self,
        deadline: Instant,
        mut holds: impl FnMut(usize) -> bool,
    ) -> Result<Vec<u8>, NoRequest> {
        let (mut chunks, mut body) = (ChunkedBody::new(self.body_bytes_max), Vec::new());
        loop {
            let n_before = body.capacity();
            let n_used = chunks.take(&self.ahead, &mut body)?;
            self.ahead.drain(..n_used);
            if !holds(body.capacity() - n_before) {
                return Err(no_memory());
            }
            if chunks.is_done() {
                return Ok(body);
            }
            self.read_more(deadline, BODY_READ_BYTES)?;
        }
    }

    fn head(&mut self, deadline: Instant) -> Result<(RequestHead, usize), NoRequest> {
        loop {
            if !self.ahead.is_empty()
                && let Some(found) = parse(&self.ahead)?
            {
                return Ok(found);
            }
            if self.ahead.len() >= HEAD_BYTES_MAX {
                return Err(bad(431, "the head of the request is too long"));
            }
            self.read_more(deadline, HEAD_READ_BYTES)?;
        }
    }

    fn read_more(&mut self, deadline: Instant, n_max: usize) -> Result<(), NoRequest> {
        let left = deadline.saturating_duration_since(Instant::now());
        let has_begun = self.has_begun;
        let late =
            || if has_begun { bad(408, "the request took too long") } else { NoRequest::Gone };
        if left.is_zero() {
            return Err(late());
        }
        self.stream.set_read_timeout(Some(left)).map_err(|_| NoRequest::Gone)?;
        let from = self.ahead.len();
        self.ahead.resize(from + n_max, 0);
        let mut stream = self.stream;
        let read = stream.read(&mut self.ahead[from..]);
        self.ahead.truncate(from + read.as_ref().copied().unwrap_or(0));
        match read {
            Ok(0) => Err(NoRequest::Gone),
            Ok(_) => {
                self.has_begun = true;
                Ok(())
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Err(late()),
                io::ErrorKind::Interrupted => Ok(()),
                _ => Err(NoRequest::Gone),
            },
        }
    }
}

/// The head at the beginning of these bytes, with its length; `None` if it is not complete.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<(RequestHead, usize)>, NoRequest> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut headers);
    let n = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(n)) => n,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(bad(400, &format!("this is not an HTTP request: {error}"))),
    };
    let header = |name: &str| {
        let mut all = parsed.headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
        let value = all.next().map(|header| String::from_utf8_lossy(header.value).into_owned());
        (value, all.next().is_some())
    };
    let is_old = parsed.version == Some(0);
    let is_chunked = match header("transfer-encoding") {
        (None, _) => false,
        (Some(text), false) if text.trim().eq_ignore_ascii_case("chunked") && !is_old => true,
        _ => return Err(bad(501, "the only Transfer-Encoding is chunked, in HTTP/1.1")),
    };
    let n_body = match header("content-length") {
        // Proxies may believe one of the two and we the other.
        (Some(_), _) if is_chunked => {
            return Err(bad(400, "a request has Content-Length or Transfer-Encoding, not both"));
        }
        (None, _) if is_chunked => usize::MAX,
        (None, _) => 0,
        (Some(text), false) => match text.trim() {
            digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().map_err(|_| bad(400, "Content-Length is not a number"))?
            }
            _ => return Err(bad(400, "Content-Length is not a number")),
        },
        (Some(_), true) => return Err(bad(400, "Content-Length is there twice")),
    };
    let connection = header("connection").0.unwrap_or_default().to_ascii_lowercase();
    let request = HttpRequest {
        method: parsed.method.unwrap_or("").to_string(),
        target: parsed.path.unwrap_or("").to_string(),
        kind: header("content-type").0.unwrap_or_default().to_ascii_lowercase(),
        accepts: header("accept").0.unwrap_or_default().to_ascii_lowercase(),
        body: Vec::new(),
        closes: connection.contains("close") || is_old && !connection.contains("keep-alive"),
        is_old,
    };
    let expects = match header("expect").0 {
        Some(text) if text.trim().eq_ignore_ascii_case("100-continue") => !is_old,
        Some(_) => return Err(bad(417, "the only thing to Expect is 100-continue")),
        None => false,
    };
    Ok(Some((RequestHead { request, n_body, is_chunked, expects }, n)))
}
