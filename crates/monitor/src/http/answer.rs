//! An answer over HTTP.

use std::io::{self, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

/// An answer to a request.
#[derive(Debug)]
pub struct HttpAnswer {
    status: u16,
    kind: &'static str,
    body: Vec<u8>,
    closes: bool,
    /// The body is counted and not sent, as the answer to HEAD.
    is_head: bool,
}

/// The type of JSON.
pub const JSON: &str = "application/json";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

impl HttpAnswer {
    /// An answer of this type.
    pub fn new(kind: &'static str, body: Vec<u8>) -> Self {
        Self { status: 200, kind, body, closes: false, is_head: false }
    }

    /// A value as JSON.
    pub fn json(value: Value) -> Self {
        Self::new(JSON, value.to_string().into_bytes())
    }

    /// OpenMetrics text.
    pub fn metrics(text: String) -> Self {
        Self::new(OPEN_METRICS, text.into_bytes())
    }

    /// An error, with its reason.
    pub fn error(status: u16, problem: &str) -> Self {
        Self { status, ..Self::json(json!({ "error": problem })) }
    }

    /// Only its head is sent.
    pub fn head_only(mut self) -> Self {
        self.is_head = true;
        self
    }

    /// The connection ends with it.
    pub fn closing(mut self) -> Self {
        self.closes = true;
        self
    }

    /// Its status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Whether the connection ends with it.
    pub fn closes(&self) -> bool {
        self.closes
    }

    /// As it is sent.
    pub fn to_bytes(&self) -> Vec<u8> {
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
        bytes
    }

    /// Sends it.
    pub fn send(&self, mut stream: &TcpStream) -> io::Result<()> {
        stream.write_all(&self.to_bytes())
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
        417 => "Expectation Failed",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Error",
    }
}
