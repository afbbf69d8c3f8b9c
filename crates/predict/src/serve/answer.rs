//! An answer over HTTP.

use std::io::{self, Write};
use std::net::TcpStream;

use serde_json::json;

/// What is sent back.
pub(super) struct HttpAnswer {
    status: u16,
    kind: &'static str,
    body: Vec<u8>,
    closes: bool,
    /// The body is counted and not sent, as the answer to HEAD.
    is_head: bool,
}

pub(super) const JSON: &str = "application/json";
/// Raw columns, both ways.
pub(super) const COLUMNS: &str = "application/x-paddlewheel-columns";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

impl HttpAnswer {
    pub(super) fn json(body: Vec<u8>) -> Self {
        Self { status: 200, kind: JSON, body, closes: false, is_head: false }
    }

    pub(super) fn columns(body: Vec<u8>) -> Self {
        Self { status: 200, kind: COLUMNS, body, closes: false, is_head: false }
    }

    pub(super) fn metrics(text: String) -> Self {
        Self {
            status: 200,
            kind: OPEN_METRICS,
            body: text.into_bytes(),
            closes: false,
            is_head: false,
        }
    }

    /// An error, with what is wrong.
    pub(super) fn error(status: u16, problem: &str) -> Self {
        let body = json!({ "error": problem }).to_string().into_bytes();
        Self { status, kind: JSON, body, closes: false, is_head: false }
    }

    /// Only its head is sent.
    pub(super) fn head_only(mut self) -> Self {
        self.is_head = true;
        self
    }

    /// The connection ends with it.
    pub(super) fn closing(mut self) -> Self {
        self.closes = true;
        self
    }

    pub(super) fn status(&self) -> u16 {
        self.status
    }

    pub(super) fn closes(&self) -> bool {
        self.closes
    }

    pub(super) fn send(&self, mut stream: &TcpStream) -> io::Result<()> {
        let mut bytes = format!(
            "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}{}\r\n",
            self.status,
            reason(self.status),
            self.kind,
            self.body.len(),
            if self.closes { "Connection: close\r\n" } else { "" },
            if self.status == 503 { "Retry-After: 1\r\n" } else { "" },
        )
        .into_bytes();
        if !self.is_head {
            bytes.extend_from_slice(&self.body);
        }
        stream.write_all(&bytes)
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        411 => "Length Required",
        413 => "Content Too Large",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Error",
    }
}
