//! Files of a web server.

use std::sync::Arc;

use super::tries::StoreFailure;
use super::web::{Reply, RequestHeader, Web};
use super::{Opening, StoreFile, Version};

/// A file behind an address.
#[derive(Debug)]
pub(super) struct HttpFile {
    url: String,
    web: Arc<Web>,
}

impl HttpFile {
    pub(super) fn new(url: &str, web: Arc<Web>) -> Self {
        Self { url: url.replace(' ', "%20"), web }
    }
}

impl StoreFile for HttpFile {
    fn open(&self, from: u64, to: Option<u64>) -> Result<Opening, StoreFailure> {
        let headers: Vec<RequestHeader> = range(from, to).into_iter().collect();
        opening(self.web.get(&self.url, &headers)?)
    }
}

/// Asks for a part; the whole is asked for without.
pub(super) fn range(from: u64, to: Option<u64>) -> Option<RequestHeader> {
    let value = match to {
        Some(to) => format!("bytes={from}-{}", to.saturating_sub(1)),
        None if from == 0 => return None,
        None => format!("bytes={from}-"),
    };
    Some(RequestHeader { name: "range", value })
}

/// The answer to a request for a file or a part of it.
pub(super) fn opening(reply: Reply) -> Result<Opening, StoreFailure> {
    let tag = reply.header("etag").or(reply.header("last-modified")).unwrap_or_default();
    let tag = tag.to_string();
    let range = reply.header("content-range").and_then(ContentRange::of);
    let length = reply.header("content-length").and_then(|length| length.parse().ok());
    match (reply.status, range) {
        (200, _) => {
            Ok(Opening { version: Version { len: length, tag }, at: 0, body: reply.body() })
        }
        (206, Some(ContentRange { from: Some(at), len })) => {
            Ok(Opening { version: Version { len, tag }, at, body: reply.body() })
        }
        (206, _) => {
            Err(StoreFailure::Lasting("the server does not say which part it sends".into()))
        }
        // There is nothing from there on.
        (416, Some(ContentRange { len: Some(len), .. })) => {
            let version = Version { len: Some(len), tag };
            Ok(Opening { version, at: len, body: Box::new(std::io::empty()) })
        }
        _ => Err(reply.refusal()),
    }
}

/// `bytes 0-9/100`, `bytes 0-9/*` or `bytes */100`.
#[derive(Debug, PartialEq, Eq)]
struct ContentRange {
    from: Option<u64>,
    len: Option<u64>,
}

impl ContentRange {
    fn of(text: &str) -> Option<Self> {
        let (part, len) = text.strip_prefix("bytes ")?.split_once('/')?;
        let from = part.split_once('-').and_then(|(from, _)| from.trim().parse().ok());
        Some(Self { from, len: len.trim().parse().ok() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_asked_for_and_understood() {
        let value = |from, to| range(from, to).map(|header| header.value);
        assert_eq!(value(0, None), None);
        assert_eq!(value(5, None).unwrap(), "bytes=5-");
        assert_eq!(value(0, Some(10)).unwrap(), "bytes=0-9");
        let found = |from, len| Some(ContentRange { from, len });
        assert_eq!(ContentRange::of("bytes 5-9/100"), found(Some(5), Some(100)));
        assert_eq!(ContentRange::of("bytes 5-9/*"), found(Some(5), None));
        assert_eq!(ContentRange::of("bytes */100"), found(None, Some(100)));
        assert_eq!(ContentRange::of("lines 1-2/3"), None);
    }
}
