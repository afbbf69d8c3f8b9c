//! One request, read from a connection within limits.

use std::io::{self, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::answer::{COLUMNS, HttpAnswer};

/// Bytes of the head of a request.
const HEAD_BYTES_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;

/// What a client asks.
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    /// The type of the body.
    pub(super) kind: String,
    /// What the answer should be.
    pub(super) accepts: String,
    pub(super) body: Vec<u8>,
    /// The client wants no further answer on this connection.
    pub(super) closes: bool,
}

/// The head of a request.
pub(super) struct RequestHead {
    pub(super) request: Request,
    pub(super) n_body: usize,
    expects: bool,
}

/// Why there is no request.
pub(super) enum NoRequest {
    /// The client has gone, or sent nothing for long.
    Gone,
    /// What to answer before the connection is closed.
    Bad(HttpAnswer),
}

/// Reads a connection request by request.
pub(super) struct Requests<'a> {
    stream: &'a TcpStream,
    /// What was read and not used.
    ahead: Vec<u8>,
    patience: Duration,
    body_bytes_max: usize,
}

fn bad(status: u16, problem: &str) -> NoRequest {
    NoRequest::Bad(HttpAnswer::error(status, problem).closing())
}

impl<'a> Requests<'a> {
    pub(super) fn new(stream: &'a TcpStream, patience: Duration, body_bytes_max: usize) -> Self {
        Self { stream, ahead: Vec::new(), patience, body_bytes_max }
    }

    /// The next request. `may_hold` is asked whether there is memory for it.
    pub(super) fn next(
        &mut self,
        may_hold: impl FnOnce(usize) -> bool,
    ) -> Result<Request, NoRequest> {
        let deadline = Instant::now() + self.patience;
        let (head, n_head) = self.head(deadline)?;
        let RequestHead { mut request, n_body, expects } = head;
        if n_body > self.body_bytes_max {
            let most = self.body_bytes_max;
            return Err(bad(413, &format!("a request has at most {most} bytes, not {n_body}")));
        }
        if !may_hold(n_body.saturating_mul(weight(&request.kind))) {
            return Err(bad(503, "too many bytes of other requests are in memory"));
        }
        if expects {
            use std::io::Write;
            let go_on = self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n");
            go_on.map_err(|_| NoRequest::Gone)?;
        }
        self.ahead.drain(..n_head);
        while self.ahead.len() < n_body {
            self.read_more(deadline, (n_body - self.ahead.len()).min(1 << 16))?;
        }
        request.body = self.ahead.drain(..n_body).collect();
        self.ahead.shrink_to(1 << 16);
        Ok(request)
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
            self.read_more(deadline, 4096)?;
        }
    }

    fn read_more(&mut self, deadline: Instant, n_max: usize) -> Result<(), NoRequest> {
        let left = deadline.saturating_duration_since(Instant::now());
        let late = |is_idle: bool| match is_idle {
            true => NoRequest::Gone,
            false => bad(408, "the request took too long"),
        };
        if left.is_zero() {
            return Err(late(self.ahead.is_empty()));
        }
        self.stream.set_read_timeout(Some(left)).map_err(|_| NoRequest::Gone)?;
        let from = self.ahead.len();
        self.ahead.resize(from + n_max, 0);
        let mut stream = self.stream;
        let read = stream.read(&mut self.ahead[from..]);
        self.ahead.truncate(from + read.as_ref().copied().unwrap_or(0));
        match read {
            Ok(0) => Err(NoRequest::Gone),
            Ok(_) => Ok(()),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Err(late(from == 0)),
                io::ErrorKind::Interrupted => Ok(()),
                _ => Err(NoRequest::Gone),
            },
        }
    }
}

/// How many bytes of memory a byte of a body may take until it is predicted: a number of JSON is two
/// bytes of text, and a value of 32 bytes.
fn weight(kind: &str) -> usize {
    if kind.starts_with(COLUMNS) { 3 } else { 20 }
}

/// The head at the beginning of these bytes, with its length; `None` if it is not complete.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<(RequestHead, usize)>, NoRequest> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut headers);
    let n = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(n)) => n,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(bad(400, &format!("this is no HTTP request: {error}"))),
    };
    let header = |name: &str| {
        let mut all = parsed.headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
        let value = all.next().map(|header| String::from_utf8_lossy(header.value).into_owned());
        (value, all.next().is_some())
    };
    if header("transfer-encoding").0.is_some() {
        return Err(bad(411, "a request says how long it is, in Content-Length"));
    }
    let n_body = match header("content-length") {
        (None, _) => 0,
        (Some(text), false) => match text.trim().parse() {
            Ok(n) => n,
            Err(_) => return Err(bad(400, "Content-Length is no number")),
        },
        (Some(_), true) => return Err(bad(400, "Content-Length is there twice")),
    };
    let connection = header("connection").0.unwrap_or_default().to_ascii_lowercase();
    let is_old = parsed.version == Some(0);
    let request = Request {
        method: parsed.method.unwrap_or("").to_string(),
        path: parsed.path.unwrap_or("").to_string(),
        kind: header("content-type").0.unwrap_or_default().to_ascii_lowercase(),
        accepts: header("accept").0.unwrap_or_default().to_ascii_lowercase(),
        body: Vec::new(),
        closes: connection.contains("close") || is_old && !connection.contains("keep-alive"),
    };
    let expects = header("expect").0.is_some_and(|text| text.eq_ignore_ascii_case("100-continue"));
    Ok(Some((RequestHead { request, n_body, expects }, n)))
}
