//! Requests over HTTP, each with deadlines.

use std::fmt;
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use ureq::http::{HeaderMap, Response};
use ureq::tls::{TlsConfig, TlsProvider};
use ureq::{Agent, Body};

use super::tries::StoreFailure;
use super::{Stores, certificates};
use crate::error::Result;

/// How long a server may take to accept a connection, and between two bytes of an answer.
const CONNECT_MAX: Duration = Duration::from_secs(10);
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Bytes of an answer that are read into memory: a list of files, a reason.
const TEXT_BYTES_MAX: u64 = 64 << 20;
/// Characters of a server's reason that an error tells.
const REASON_MAX: usize = 300;
/// The answers of a server that is overloaded, or that does not reach something behind it.
const PASSING: [u16; 7] = [408, 425, 429, 500, 502, 503, 504];

/// A client that keeps its connections.
pub(super) struct Web {
    agent: Agent,
    /// Does not go where an answer sends it.
    straight: Agent,
}

impl fmt::Debug for Web {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Web")
    }
}

/// A header of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequestHeader {
    pub(super) name: &'static str,
    pub(super) value: String,
}

/// A request that changes something.
#[derive(Clone, Copy, Debug)]
pub(super) enum HttpChange<'a> {
    Put,
    /// With a header, to a server that is near or does not exist.
    PutSoon {
        header: &'a RequestHeader,
        within: Duration,
    },
    /// With the fields of a form, encoded.
    PostForm(&'a str),
    /// With the contents of a file.
    PutFile(&'a File),
    Delete,
}

/// An answer.
pub(super) struct Reply {
    pub(super) status: u16,
    response: Response<Body>,
}

impl Reply {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        header(self.response.headers(), name)
    }

    pub(super) fn body(self) -> Box<dyn std::io::Read + Send> {
        Box::new(self.response.into_body().into_with_config().limit(u64::MAX).reader())
    }

    /// The whole of it as text.
    pub(super) fn text(self) -> std::result::Result<String, StoreFailure> {
        let body = self.response.into_body().into_with_config().limit(TEXT_BYTES_MAX);
        body.lossy_utf8(true).read_to_string().map_err(|error| failure(&error))
    }

    /// Why the request was refused.
    pub(super) fn refusal(self) -> StoreFailure {
        let (status, region) =
            (self.status, self.header("x-amz-bucket-region").map(str::to_string));
        let text = self.text().unwrap_or_default();
        let mut what = format!("the server answers {status}");
        let reason = reason(&text);
        if !reason.is_empty() {
            what += &format!(": {reason}");
        }
        if let Some(region) = region.filter(|_| (300..400).contains(&status)) {
            what += &format!(" (the bucket is in region `{region}`: set AWS_REGION)");
        }
        match status {
            404 => StoreFailure::Missing(what),
            _ if PASSING.contains(&status) => StoreFailure::Passing(what),
            _ => StoreFailure::Lasting(what),
        }
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

impl Web {
    pub(super) fn new(stores: &Stores) -> Result<Self> {
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .root_certs(certificates::trusted(stores.certificates.as_deref())?)
            .build();
        let agent = |redirects| {
            Agent::config_builder()
                .http_status_as_error(false)
                .max_redirects(redirects)
                .max_redirects_will_error(redirects > 0)
                .user_agent(concat!("paddlewheel/", env!("CARGO_PKG_VERSION")))
                .tls_config(tls.clone())
                .timeout_resolve(Some(CONNECT_MAX.min(stores.patience)))
                .timeout_connect(Some(CONNECT_MAX.min(stores.patience)))
                .timeout_recv_response(Some(SILENCE_MAX.min(stores.patience)))
                .timeout_per_read(Some(SILENCE_MAX.min(stores.patience)))
                .timeout_per_write(Some(SILENCE_MAX.min(stores.patience)))
                .build()
                .new_agent()
        };
        Ok(Self { agent: agent(5), straight: agent(0) })
    }

    /// One request. A status that is not a success is an answer nevertheless.
    pub(super) fn get(
        &self,
        url: &str,
        headers: &[RequestHeader],
    ) -> std::result::Result<Reply, StoreFailure> {
        // A signature is for one server: it goes nowhere else.
        let signed = headers.iter().any(|header| header.name == "authorization");
        let agent = if signed { &self.straight } else { &self.agent };
        let mut request = agent.get(url).header("accept-encoding", "identity");
        for RequestHeader { name, value } in headers {
            request = request.header(*name, value);
        }
        reply(request.call())
    }

    /// One request to a server that is near or does not exist. The answer comes within this time.
    pub(super) fn get_soon(
        &self,
        url: &str,
        headers: &[RequestHeader],
        within: Duration,
    ) -> std::result::Result<Reply, StoreFailure> {
        let mut request = self.straight.get(url).config().timeout_global(Some(within)).build();
        for RequestHeader { name, value } in headers {
            request = request.header(*name, value);
        }
        reply(request.call())
    }

    /// One request that changes something. It is not sent on to where the answer points.
    pub(super) fn change(
        &self,
        url: &str,
        change: HttpChange<'_>,
    ) -> std::result::Result<Reply, StoreFailure> {
        reply(match change {
            HttpChange::Put => self.straight.put(url).send_empty(),
            HttpChange::PutSoon { header, within } => {
                let put = self.straight.put(url).config().timeout_global(Some(within)).build();
                put.header(header.name, &header.value).send_empty()
            }
            HttpChange::PostForm(form) => {
                let post = self.straight.post(url);
                post.header("content-type", "application/x-www-form-urlencoded").send(form)
            }
            HttpChange::PutFile(file) => {
                let put = self.straight.put(url).header("content-type", "application/octet-stream");
                put.send(file)
            }
            HttpChange::Delete => self.straight.delete(url).call(),
        })
    }
}

fn reply(
    response: std::result::Result<Response<Body>, ureq::Error>,
) -> std::result::Result<Reply, StoreFailure> {
    let response = response.map_err(|error| failure(&error))?;
    Ok(Reply { status: response.status().as_u16(), response })
}

/// Whether a request that failed without an answer may work later.
fn failure(error: &ureq::Error) -> StoreFailure {
    use ureq::Error as E;
    match error {
        E::BadUri(_) | E::Http(_) | E::Rustls(_) | E::Tls(_) | E::Pem(_) | E::InvalidProxyUrl => {
            StoreFailure::Lasting(error.to_string())
        }
        E::TooManyRedirects | E::RedirectFailed => StoreFailure::Lasting(error.to_string()),
        // A certificate that is refused arrives as an error of reading.
        E::Io(source) if source.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) => {
            StoreFailure::Lasting(error.to_string())
        }
        _ => StoreFailure::Passing(error.to_string()),
    }
}

/// The reason in a server's answer: XML (S3), JSON (WebHDFS) or words.
fn reason(text: &str) -> String {
    if let Ok(json) = serde_json::from_str::<serde_json::Value>(text) {
        let said = &json["RemoteException"];
        let part = |name: &str| said[name].as_str().unwrap_or_default().trim().to_string();
        let both = [part("exception"), part("message")];
        return shortened(&both.join(": "));
    }
    let said = [element(text, "Code"), element(text, "Message")];
    if said[0].is_empty() {
        // An HTML page does not help in an error.
        return if text.contains('<') { String::new() } else { shortened(text.trim()) };
    }
    shortened(&said.join(": "))
}

/// The text of the first XML element of this name.
pub(super) fn element<'a>(text: &'a str, name: &str) -> &'a str {
    let inner = |text: &'a str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        Some(rest.split_once(&format!("</{name}>"))?.0)
    };
    inner(text).unwrap_or_default()
}

fn shortened(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(REASON_MAX).collect::<String>().trim_matches([' ', ':']).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_say_why_in_three_ways() {
        let xml =
            "<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code><Message>No</Message></Error>";
        assert_eq!(reason(xml), "AccessDenied: No");
        let json =
            r#"{"RemoteException":{"exception":"StandbyException","message":"in standby\nat x"}}"#;
        assert_eq!(reason(json), "StandbyException: in standby");
        assert_eq!(reason("go away\n"), "go away");
        assert_eq!(reason("<html>long page</html>"), "");
    }
}
