//! Files of object stores that speak S3.

use std::sync::Arc;

use super::address::ObjectName;
use super::expiring::Found;
use super::glob::ObjectList;
use super::http::{opening, range};
use super::s3_keys::{S3KeySource, S3Keys};
use super::sign::{SignedTime, Unsigned, sign};
use super::tries::StoreFailure;
use super::web::{Reply, RequestHeader, Web, element};
use super::{Opening, StoreFile};
use crate::error::{Error, Result};

/// The region of requests unless another is set.
const REGION: &str = "us-east-1";

/// The store of objects, and the source of its keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct S3Access {
    /// `http://host:port` of another store than Amazon's.
    pub endpoint: Option<String>,
    /// The region; `us-east-1` if none is set.
    pub region: Option<String>,
    /// The source of the key that signs requests.
    pub key: S3KeySource,
}

impl S3Access {
    /// The region of requests.
    pub(super) fn region(&self) -> &str {
        self.region.as_deref().unwrap_or(REGION)
    }
}

/// A bucket, and how requests for it look.
#[derive(Debug)]
pub(super) struct Bucket {
    /// `http` or `https`.
    scheme: String,
    host: String,
    /// The part of the path before the key, encoded.
    base: String,
    region: String,
    keys: Arc<S3Keys>,
    web: Arc<Web>,
}

impl Bucket {
    pub(super) fn new(
        name: &str,
        access: &S3Access,
        keys: Arc<S3Keys>,
        web: Arc<Web>,
    ) -> Result<Self> {
        let region = access.region();
        let (scheme, host, base) = match &access.endpoint {
            Some(endpoint) => {
                let bad = || Error::BadAddress {
                    file: endpoint.clone(),
                    reason: "the endpoint of an object store is http://HOST:PORT".to_string(),
                };
                let (scheme, rest) = endpoint.split_once("://").ok_or_else(bad)?;
                let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
                if host.is_empty() || !["http", "https"].contains(&scheme) {
                    return Err(bad());
                }
                let path = path.trim_end_matches('/');
                let slash = if path.is_empty() { "" } else { "/" };
                (
                    scheme.to_string(),
                    host.to_string(),
                    format!("{slash}{path}/{}", encoded(name, "")),
                )
            }
            None => {
                let end = if region.starts_with("cn-") { ".cn" } else { "" };
                let host = format!("s3.{region}.amazonaws.com{end}");
                // A certificate for all buckets does not cover names with dots.
                if name.contains('.') {
                    ("https".to_string(), host, format!("/{}", encoded(name, "")))
                } else {
                    ("https".to_string(), format!("{name}.{host}"), String::new())
                }
            }
        };
        Ok(Self { scheme, host, base, region: region.to_string(), keys, web })
    }

    fn get(
        &self,
        key: &str,
        query: &str,
        range: Option<RequestHeader>,
    ) -> std::result::Result<Reply, StoreFailure> {
        let path = format!("{}/{}", self.base, encoded(key, "/"));
        let mut url = format!("{}://{}{path}", self.scheme, self.host);
        if !query.is_empty() {
            url += &format!("?{query}");
        }
        let headers = match self.keys.key()? {
            Some(key) => {
                let request = Unsigned { host: &self.host, path: &path, query, range };
                sign(request, &key, &self.region, &SignedTime::now())
            }
            None => range.into_iter().collect(),
        };
        self.web.get(&url, &headers)
    }

    /// Adds to a refusal that the request was not signed, if so.
    fn hint(&self, failure: StoreFailure) -> StoreFailure {
        match failure {
            StoreFailure::Lasting(what) if matches!(self.keys.key(), Ok(None)) => {
                StoreFailure::Lasting(format!("{what} ({})", self.keys.advice()))
            }
            other => other,
        }
    }
}

impl ObjectList for Bucket {
    fn list(&self, prefix: &str, next: Option<&str>) -> Found<KeyList> {
        // Sorted by name, as signatures want them.
        let mut query = String::new();
        if let Some(next) = next {
            query += &format!("continuation-token={}&", encoded(next, ""));
        }
        query += &format!("encoding-type=url&list-type=2&prefix={}", encoded(prefix, ""));
        let reply = self.get("", &query, None)?;
        if reply.status != 200 {
            return Err(self.hint(reply.refusal()));
        }
        KeyList::read(&reply.text()?)
    }
}

/// A page of a list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct KeyList {
    pub(super) keys: Vec<String>,
    /// The token that asks for the next page.
    pub(super) next: Option<String>,
}

impl KeyList {
    pub(super) fn read(text: &str) -> std::result::Result<Self, StoreFailure> {
        if !text.contains("<ListBucketResult") {
            return Err(StoreFailure::Lasting(
                "the server sends something else than a list".to_string(),
            ));
        }
        let contents = text.split("<Contents>").skip(1);
        let is_encoded = element(text, "EncodingType") == "url";
        let key = |part: &str| {
            let key = unescaped(element(part, "Key"));
            if is_encoded { decoded(&key) } else { key }
        };
        // Names of folders that consoles make end with a slash.
        let keys = contents.map(key).filter(|key| !key.is_empty() && !key.ends_with('/')).collect();
        let next = unescaped(element(text, "NextContinuationToken"));
        let is_part = element(text, "IsTruncated") == "true";
        Ok(Self { keys, next: Some(next).filter(|next| is_part && !next.is_empty()) })
    }
}

/// A file of an object store.
#[derive(Debug)]
pub(super) struct S3Object {
    bucket: Bucket,
    key: String,
}

impl S3Object {
    pub(super) fn new(name: ObjectName<'_>, bucket: Bucket) -> Self {
        Self { bucket, key: name.key.to_string() }
    }
}

impl StoreFile for S3Object {
    fn open(&self, from: u64, to: Option<u64>) -> std::result::Result<Opening, StoreFailure> {
        let reply = self.bucket.get(&self.key, "", range(from, to))?;
        opening(reply).map_err(|failure| self.bucket.hint(failure))
    }
}

/// Percent-encoded, but for letters, digits, `-._~` and those that are `free`.
pub(super) fn encoded(text: &str, free: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        let c = char::from(byte);
        if c.is_ascii_alphanumeric() || "-._~".contains(c) || free.contains(c) {
            out.push(c);
        } else {
            out += &format!("%{byte:02X}");
        }
    }
    out
}

/// Decodes percent-encoded text; a plus is a space.
fn decoded(text: &str) -> String {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let code = after.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        let code = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        rest = after;
        match (byte, code) {
            (b'%', Some(code)) => {
                out.push(code);
                rest = &after[2..];
            }
            (b'+', _) => out.push(b' '),
            _ => out.push(byte),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Text of an XML file.
pub(super) fn unescaped(text: &str) -> String {
    let plain = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    plain.replace("&#39;", "'").replace("&apos;", "'").replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Remotes, Stores};

    fn bucket(name: &str, endpoint: Option<&str>) -> Result<Bucket> {
        let endpoint = endpoint.map(str::to_string);
        let access = S3Access { endpoint, region: Some("eu-west-1".into()), ..S3Access::default() };
        let s3 = access.clone();
        Remotes::new(&Stores { s3, ..Stores::default() }, Arc::default()).bucket(name)
    }

    #[test]
    fn buckets_are_hosts_at_amazon_and_folders_elsewhere() {
        let place = |name, endpoint| {
            let Bucket { scheme, host, base, .. } = bucket(name, endpoint).unwrap();
            format!("{scheme}://{host}{base}")
        };
        assert_eq!(place("b", None), "https://b.s3.eu-west-1.amazonaws.com");
        assert_eq!(place("b.c", None), "https://s3.eu-west-1.amazonaws.com/b.c");
        assert_eq!(place("b", Some("http://h:9000/")), "http://h:9000/b");
        assert_eq!(place("b", Some("http://h:9000/base")), "http://h:9000/base/b");
        let refused = bucket("b", Some("h:9000"));
        assert!(matches!(refused, Err(Error::BadAddress { .. })));
    }

    /// A page as the real servers write it.
    #[test]
    fn lists_come_in_pages() {
        let page = "<?xml version='1.0'?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/\"><Name>b</Name>\
            <IsTruncated>true</IsTruncated><EncodingType>url</EncodingType>\
            <NextContinuationToken>a&amp;b==</NextContinuationToken>\
            <Contents><Key>d/a%20b%2B%C3%A9</Key><Size>3</Size></Contents>\
            <Contents><Key>d/</Key><Size>0</Size></Contents></ListBucketResult>";
        let list = KeyList::read(page).unwrap();
        assert_eq!(
            (list.keys, list.next),
            (vec!["d/a b+é".to_string()], Some("a&b==".to_string()))
        );
        assert!(KeyList::read("<html></html>").is_err());
    }

    #[test]
    fn what_is_encoded_can_be_decoded() {
        let text = "a b/c+d%é";
        assert_eq!(encoded(text, "/"), "a%20b/c%2Bd%25%C3%A9");
        assert_eq!(decoded(&encoded(text, "")), text);
        assert_eq!(decoded("a+b%2"), "a b%2");
    }
}
