//! Files of Azure's blob storage.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

use super::address::BlobName;
use super::expiring::{Expiring, Fetched, Found};
use super::glob::ObjectList;
use super::http::{opening, range};
use super::s3::{KeyList, encoded, unescaped};
use super::sign::seconds_since_1970;
use super::tokens::{AGENT_MAX, answer, bearer, read_token};
use super::tries::StoreFailure;
use super::web::{HttpChange, Reply, RequestHeader, Web, element};
use super::{Opening, StoreFile};
use crate::error::{Error, Result};

/// The version of the protocol.
const VERSION: &str = "2021-08-06";
/// The permission of a token: the files of all accounts that its holder may read.
const RESOURCE: &str = "https://storage.azure.com/";
/// The service that knows identities, unless another is set.
const AUTHORITY: &str = "https://login.microsoftonline.com";

/// The account of Azure's files, and the source of the key that reads them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AzureAccess {
    /// The account of names that have none.
    pub account: Option<String>,
    /// `http://host:port/account` of an emulator; none: the account's own host.
    pub endpoint: Option<String>,
    /// The source of the key.
    pub key: AzureKeySource,
}

/// The source of the key of requests.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum AzureKeySource {
    /// Requests are not signed: only public files can be read.
    #[default]
    Unsigned,
    /// The key of the account, in base 64.
    Account(String),
    /// A signature that is part of an address (SAS).
    Signature(String),
    /// An application with a secret or a token file.
    Client(AzureClient),
    /// The agent of a machine at this host. A machine without one sends unsigned requests.
    Instance(String),
}

/// Secrets are not shown.
impl fmt::Debug for AzureKeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AzureKeySource::Unsigned => "Unsigned",
            AzureKeySource::Account(_) => "Account",
            AzureKeySource::Signature(_) => "Signature",
            AzureKeySource::Client(_) => "Client",
            AzureKeySource::Instance(_) => "Instance",
        })
    }
}

/// An application of a tenant.
#[derive(Clone, PartialEq, Eq)]
pub struct AzureClient {
    /// The service that knows it; none: Azure's.
    pub authority: Option<String>,
    /// The tenant.
    pub tenant: String,
    /// The application.
    pub client: String,
    /// Its proof.
    pub proof: ClientProof,
}

/// The proof of an application.
#[derive(Clone, PartialEq, Eq)]
pub enum ClientProof {
    /// A secret.
    Secret(String),
    /// A file with a token of a cluster, read again for each key.
    TokenFile(PathBuf),
}

/// The keys of a pass.
pub(super) struct AzureKeys {
    source: AzureKeySource,
    web: Arc<Web>,
    held: Expiring<Option<RequestHeader>>,
}

impl fmt::Debug for AzureKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AzureKeys({:?})", self.source)
    }
}

impl AzureKeys {
    pub(super) fn new(source: AzureKeySource, web: Arc<Web>) -> Self {
        Self { source, web, held: Expiring::default() }
    }

    /// The header of a token, where requests have one.
    fn token(&self) -> Found<Option<RequestHeader>> {
        self.held.get(Instant::now(), || match &self.source {
            AzureKeySource::Client(client) => self.of_client(client),
            AzureKeySource::Instance(host) => self.of_instance(host),
            _ => Ok(Fetched::lasting(None)),
        })
    }

    fn of_client(&self, client: &AzureClient) -> Found<Fetched<Option<RequestHeader>>> {
        let proof = match &client.proof {
            ClientProof::Secret(secret) => format!("client_secret={}", encoded(secret, "")),
            ClientProof::TokenFile(path) => format!(
                "client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer&client_assertion={}",
                encoded(&read_token(path)?, "")
            ),
        };
        let form = format!(
            "grant_type=client_credentials&client_id={}&scope={}&{proof}",
            encoded(&client.client, ""),
            encoded(&format!("{RESOURCE}.default"), "")
        );
        let authority = client.authority.as_deref().unwrap_or(AUTHORITY).trim_end_matches('/');
        let what = format!("the token service {authority}");
        let url = format!("{authority}/{}/oauth2/v2.0/token", encoded(&client.tenant, ""));
        bearer(&answer(self.web.change(&url, HttpChange::PostForm(&form)), &what)?, &what)
    }

    /// A machine without an agent has no token: that is not an error, a public file needs none.
    fn of_instance(&self, host: &str) -> Found<Fetched<Option<RequestHeader>>> {
        let resource = encoded(RESOURCE, "");
        let url = format!(
            "{host}/metadata/identity/oauth2/token?api-version=2018-02-01&resource={resource}"
        );
        let metadata = RequestHeader { name: "metadata", value: "true".to_string() };
        match self.web.get_soon(&url, &[metadata], AGENT_MAX) {
            // A machine without an identity answers 400.
            Ok(reply) if reply.status != 404 && reply.status != 400 => {
                let what = format!("the agent of this machine at {host}");
                bearer(&answer(Ok(reply), &what)?, &what)
            }
            _ => Ok(Fetched::lasting(None)),
        }
    }
}

/// A container of an account.
#[derive(Debug)]
pub(super) struct AzureContainer {
    account: String,
    /// `http://host`.
    host: String,
    /// Its path there, encoded.
    path: String,
    keys: Arc<AzureKeys>,
}

impl AzureContainer {
    pub(super) fn new(
        name: BlobName<'_>,
        access: &AzureAccess,
        keys: Arc<AzureKeys>,
    ) -> Result<Self> {
        let account = name.account.or(access.account.as_deref()).ok_or_else(|| Error::BadAddress {
            file: format!("az://{}/{}", name.container, name.blob),
            reason: "it names no account: write abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH, or set AZURE_STORAGE_ACCOUNT"
                .to_string(),
        })?;
        let own = format!("https://{account}.blob.core.windows.net");
        let endpoint = access.endpoint.as_deref().unwrap_or(&own).trim_end_matches('/');
        let scheme = endpoint.find("://").map_or(0, |at| at + 3);
        let at = endpoint[scheme..].find('/').map_or(endpoint.len(), |at| scheme + at);
        let (host, base) = endpoint.split_at(at);
        let path = format!("{base}/{}", encoded(name.container, "$"));
        Ok(Self { account: account.to_string(), host: host.to_string(), path, keys })
    }

    /// `query` has names and values, sorted by name.
    fn get(
        &self,
        blob: &str,
        query: &[(&str, &str)],
        range: Option<RequestHeader>,
    ) -> Found<Reply> {
        let slash = if blob.is_empty() { "" } else { "/" };
        let path = format!("{}{slash}{}", self.path, encoded(blob, "/"));
        let mut parts: Vec<String> =
            query.iter().map(|(name, value)| format!("{name}={}", encoded(value, ""))).collect();
        let header = |name, value: String| RequestHeader { name, value };
        let mut headers: Vec<RequestHeader> = range.into_iter().collect();
        headers.push(header("x-ms-date", http_date(seconds_since_1970())));
        headers.push(header("x-ms-version", VERSION.to_string()));
        match &self.keys.source {
            AzureKeySource::Account(key) => {
                let value = self.signature(key, &path, query, &headers)?;
                headers.push(header("authorization", value));
            }
            AzureKeySource::Signature(text) => parts.push(text.trim_start_matches('?').to_string()),
            _ => headers.extend(self.keys.token()?),
        }
        let mut url = format!("{}{path}", self.host);
        if !parts.is_empty() {
            url += &format!("?{}", parts.join("&"));
        }
        self.keys.web.get(&url, &headers)
    }

    /// The signature by the key of the account.
    fn signature(
        &self,
        key: &str,
        path: &str,
        query: &[(&str, &str)],
        headers: &[RequestHeader],
    ) -> Found<String> {
        let range = headers.iter().find(|header| header.name == "range");
        let range = range.map_or("", |header| header.value.as_str());
        let named = headers.iter().filter(|header| header.name.starts_with("x-ms-"));
        let named: String =
            named.map(|header| format!("{}:{}\n", header.name, header.value)).collect();
        let query: String = query.iter().map(|(name, value)| format!("\n{name}:{value}")).collect();
        // Ten headers that are not sent stand between the method and the range.
        let text = format!("GET{}{range}\n{named}/{}{path}{query}", "\n".repeat(11), self.account);
        let key = STANDARD.decode(key.trim()).map_err(|_| {
            StoreFailure::Lasting("the key of the account is not a text in base 64".to_string())
        })?;
        let signed = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), text.as_bytes());
        Ok(format!("SharedKey {}:{}", self.account, STANDARD.encode(signed.as_ref())))
    }

    /// Adds to a refusal that the request was not signed, if so.
    fn hint(&self, failure: StoreFailure) -> StoreFailure {
        let is_signed = match &self.keys.source {
            AzureKeySource::Account(_) | AzureKeySource::Signature(_) => true,
            _ => !matches!(self.keys.token(), Ok(None)),
        };
        match failure {
            StoreFailure::Lasting(what) | StoreFailure::Missing(what) if !is_signed => {
                StoreFailure::Lasting(format!(
                    "{what} (the request was not signed: neither AZURE_STORAGE_KEY nor AZURE_STORAGE_SAS_TOKEN nor \
                     AZURE_STORAGE_CONNECTION_STRING nor an identity of this machine was found)"
                ))
            }
            other => other,
        }
    }
}

impl ObjectList for AzureContainer {
    fn list(&self, prefix: &str, next: Option<&str>) -> Found<KeyList> {
        let mut query = vec![("comp", "list")];
        query.extend(next.map(|next| ("marker", next)));
        query.extend([("prefix", prefix), ("restype", "container")]);
        let reply = self.get("", &query, None)?;
        if reply.status != 200 {
            return Err(self.hint(reply.refusal()));
        }
        read_list(&reply.text()?)
    }
}

/// A page of a list.
pub(super) fn read_list(text: &str) -> Found<KeyList> {
    if !text.contains("<EnumerationResults") {
        let what = "the server sends something else than a list".to_string();
        return Err(StoreFailure::Lasting(what));
    }
    // Folders of an account with folders are blobs of this kind.
    let is_folder = |part: &str| element(part, "ResourceType") == "directory";
    let blobs = text.split("<Blob>").skip(1).filter(|part| !is_folder(part));
    let names = blobs.map(|part| unescaped(element(part, "Name")));
    let keys = names.filter(|name| !name.is_empty() && !name.ends_with('/')).collect();
    let next = unescaped(element(text, "NextMarker"));
    Ok(KeyList { keys, next: Some(next).filter(|next| !next.is_empty()) })
}

/// `Wed, 18 Nov 2026 14:00:00 GMT`.
fn http_date(seconds: u64) -> String {
    let at = metrics::CalendarTime::since_1970(Duration::from_secs(seconds));
    let days = seconds / 86_400;
    // The first day of 1970 was a Thursday.
    let day = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][(days % 7) as usize];
    let months =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = months[(at.month as usize).clamp(1, 12) - 1];
    let seconds = seconds % 86_400;
    let clock = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{day}, {:02} {month} {} {clock} GMT", at.day, at.year)
}

/// A file of a container.
#[derive(Debug)]
pub(super) struct AzureBlob {
    container: AzureContainer,
    blob: String,
}

impl AzureBlob {
    pub(super) fn new(name: BlobName<'_>, container: AzureContainer) -> Self {
        Self { container, blob: name.blob.to_string() }
    }
}

impl StoreFile for AzureBlob {
    fn open(&self, from: u64, to: Option<u64>) -> Found<Opening> {
        let reply = self.container.get(&self.blob, &[], range(from, to))?;
        opening(reply).map_err(|failure| self.container.hint(failure))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_protocol() {
        let text = http_date(784_111_777);
        assert_eq!(text, "Sun, 06 Nov 1994 08:49:37 GMT");
    }

    #[test]
    fn lists_come_in_pages() {
        let page = "<?xml version=\"1.0\"?><EnumerationResults ContainerName=\"c\"><Blobs>\
            <Blob><Name>d/a &amp; b</Name><Properties><ResourceType>file</ResourceType></Properties></Blob>\
            <Blob><Name>d</Name><Properties><ResourceType>directory</ResourceType></Properties></Blob>\
            </Blobs><NextMarker>m</NextMarker></EnumerationResults>";
        let list = read_list(page).unwrap();
        assert_eq!((list.keys, list.next.as_deref()), (vec!["d/a & b".to_string()], Some("m")));
        assert!(read_list("<html></html>").is_err());
    }
}
