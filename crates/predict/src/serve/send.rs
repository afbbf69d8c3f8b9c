//! Answers on their way to a client: in pieces, and all of them before one deadline.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// Bytes of an answer that are in memory as text.
const PIECE_BYTES: usize = 32 << 10;
/// How long bytes of a client are still read, after an answer that ends the connection.
const LINGER: Duration = Duration::from_millis(500);

/// Writes to a client until a deadline.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimedStream<'a> {
    stream: &'a TcpStream,
    deadline: Instant,
}

impl<'a> TimedStream<'a> {
    pub(super) fn new(stream: &'a TcpStream, deadline: Instant) -> Self {
        Self { stream, deadline }
    }
}

impl Write for TimedStream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_write_timeout(Some(left))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether a client took too long, and did not just go.
pub(super) fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Gives up a client. The system drops the bytes that it has not read, and does not keep megabytes of them.
pub(super) fn cut_off(stream: &TcpStream) {
    let _ = rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO));
}

/// The head of an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnswerHead {
    pub(super) kind: &'static str,
    /// Bytes of the body, if that is known before it is written.
    pub(super) n_bytes: Option<usize>,
    pub(super) closes: bool,
    /// The client knows no chunks.
    pub(super) is_old: bool,
}

/// The body of an answer. A short one is sent at once, with its length; a longer one in chunks.
pub(super) struct Pieces<'a> {
    out: TimedStream<'a>,
    head: AnswerHead,
    piece: Vec<u8>,
    has_begun: bool,
}

impl<'a> Pieces<'a> {
    pub(super) fn new(out: TimedStream<'a>, head: AnswerHead) -> Self {
        Self { out, head, piece: Vec::new(), has_begun: false }
    }

    fn is_chunked(&self) -> bool {
        self.head.n_bytes.is_none() && !self.head.is_old
    }

    /// Sends the rest; whether the connection must be closed.
    pub(super) fn finish(mut self) -> io::Result<bool> {
        if !self.has_begun {
            self.head.n_bytes = Some(self.piece.len());
        }
        let ends_by_closing = self.head.n_bytes.is_none() && self.head.is_old;
        self.send_piece()?;
        if self.is_chunked() {
            self.out.write_all(b"0\r\n\r\n")?;
        }
        Ok(self.head.closes || ends_by_closing)
    }

    fn send_piece(&mut self) -> io::Result<()> {
        let mut bytes = Vec::new();
        if !self.has_begun {
            self.has_begun = true;
            write!(bytes, "HTTP/1.1 200 OK\r\nContent-Type: {}\r\n", self.head.kind)?;
            match self.head.n_bytes {
                Some(n) => write!(bytes, "Content-Length: {n}\r\n")?,
                None if self.head.is_old => {}
                None => bytes.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
            }
            if self.head.closes || self.head.is_old && self.head.n_bytes.is_none() {
                bytes.extend_from_slice(b"Connection: close\r\n");
            }
            bytes.extend_from_slice(b"\r\n");
        }
        if self.is_chunked() && !self.piece.is_empty() {
            write!(bytes, "{:x}\r\n", self.piece.len())?;
            self.piece.extend_from_slice(b"\r\n");
        }
        // One write for a short answer: a client reads it at once.
        bytes.append(&mut self.piece);
        self.out.write_all(&bytes)?;
        bytes.clear();
        self.piece = bytes;
        Ok(())
    }
}

impl Write for Pieces<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = bytes.len().min(PIECE_BYTES);
        self.piece.extend_from_slice(&bytes[..n]);
        if self.piece.len() >= PIECE_BYTES {
            self.send_piece()?;
        }
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Ends a connection whose client may still send: unread bytes would make the system discard the answer.
pub(super) fn close(mut stream: &TcpStream) {
    let (mut buffer, until) = ([0; 16 << 10], Instant::now() + LINGER);
    let _ = stream.shutdown(Shutdown::Write);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            return;
        }
        if !matches!(stream.read(&mut buffer), Ok(1..)) {
            return;
        }
    }
}
