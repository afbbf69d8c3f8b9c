//! Where a server listens: `host:port`.

use std::fmt;
use std::str::FromStr;

/// `host:port` of a server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// Name or address of the machine.
    pub host: String,
    /// Its port.
    pub port: u16,
}

impl Endpoint {
    /// Reads `host:port`; nothing if the text is something else.
    fn read(text: &str) -> Option<Self> {
        let (host, port) = text.trim().rsplit_once(':')?;
        let is_host = !host.is_empty() && !host.chars().any(char::is_whitespace);
        let port = port.parse().ok().filter(|_| is_host)?;
        Some(Self { host: host.to_string(), port })
    }
}

/// Text that should be `host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadEndpoint(pub String);

impl fmt::Display for BadEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(text) = self;
        write!(f, "`{text}` is not an end point: `host:port` is needed, such as 127.0.0.1:6174")
    }
}

impl std::error::Error for BadEndpoint {}

impl FromStr for Endpoint {
    type Err = BadEndpoint;

    fn from_str(text: &str) -> Result<Self, BadEndpoint> {
        Endpoint::read(text).ok_or_else(|| BadEndpoint(text.to_string()))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        let endpoint: Endpoint = "10.89.176.11:36000".parse().unwrap();
        assert_eq!((endpoint.host.as_str(), endpoint.port), ("10.89.176.11", 36000));
        assert_eq!(endpoint.to_string(), "10.89.176.11:36000");
        assert_eq!(" [::1]:80 ".parse::<Endpoint>().unwrap().host, "[::1]");
    }

    #[test]
    fn refuses_what_is_no_endpoint() {
        for text in ["", "host", "host:", ":1", "host:65536", "a b:1", "host:-1"] {
            let refused = text.parse::<Endpoint>();
            assert_eq!(refused, Err(BadEndpoint(text.to_string())));
        }
    }
}
