//! Files of Google Cloud Storage.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::{rand, rsa, signature};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value as Json, json};

use super::address::ObjectName;
use super::expiring::{Expiring, Fetched, Found};
use super::glob::ObjectList;
use super::http::{opening, range};
use super::s3::{KeyList, encoded};
use super::sign::seconds_since_1970;
use super::tokens::{AGENT_MAX, answer, bearer, no_key, read_token};
use super::tries::StoreFailure;
use super::web::{HttpChange, Reply, RequestHeader, Web};
use super::{Opening, StoreFile};

const ENDPOINT: &str = "https://storage.googleapis.com";
/// The permission of a token: reading files.
const SCOPE: &str = "https://www.googleapis.com/auth/devstorage.read_only";
/// The service that gives tokens unless the file of a key names another.
const TOKEN_SERVICE: &str = "https://oauth2.googleapis.com/token";
const TOKEN_SECONDS: u64 = 3600;

/// The place of Google's files, and the source of the token that reads them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GoogleAccess {
    /// `http://host:port` of an emulator.
    pub endpoint: Option<String>,
    /// The source of the token.
    pub key: GoogleKeySource,
}

/// The source of the token of requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum GoogleKeySource {
    /// Requests have no token: only public files can be read.
    #[default]
    Unsigned,
    /// A JSON file: the key of a service account, or the login of a user.
    File(PathBuf),
    /// The agent of a machine at this host. A machine without one sends requests without a token.
    Instance(String),
}

/// The tokens of a pass.
pub(super) struct GoogleTokens {
    source: GoogleKeySource,
    web: Arc<Web>,
    held: Expiring<Option<RequestHeader>>,
}

impl fmt::Debug for GoogleTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GoogleTokens({:?})", self.source)
    }
}

impl GoogleTokens {
    pub(super) fn new(source: GoogleKeySource, web: Arc<Web>) -> Self {
        Self { source, web, held: Expiring::default() }
    }

    fn header(&self) -> Found<Option<RequestHeader>> {
        self.held.get(Instant::now(), || match &self.source {
            GoogleKeySource::Unsigned => Ok(Fetched::lasting(None)),
            GoogleKeySource::File(path) => self.of_file(path),
            GoogleKeySource::Instance(host) => self.of_instance(host),
        })
    }

    fn of_file(&self, path: &Path) -> Found<Fetched<Option<RequestHeader>>> {
        let file = format!("the key file {}", path.display());
        let json: Json = serde_json::from_str(&read_token(path)?).unwrap_or_default();
        let part = |name: &str| {
            let text = json[name].as_str().filter(|text| !text.is_empty());
            text.ok_or_else(|| no_key(&file, &format!("it has no `{name}`")))
        };
        let service = json["token_uri"].as_str().unwrap_or(TOKEN_SERVICE);
        let fields = match part("type")? {
            "service_account" => {
                let assertion = assertion(
                    part("client_email")?,
                    part("private_key")?,
                    service,
                    seconds_since_1970(),
                )
                .ok_or_else(|| no_key(&file, "its private_key is not a PEM text of an RSA key"))?;
                vec![
                    ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer".to_string()),
                    ("assertion", assertion),
                ]
            }
            "authorized_user" => vec![
                ("grant_type", "refresh_token".to_string()),
                ("client_id", part("client_id")?.to_string()),
                ("client_secret", part("client_secret")?.to_string()),
                ("refresh_token", part("refresh_token")?.to_string()),
            ],
            other => {
                let why = format!(
                    "keys of type `{other}` are not supported: use the key of a service account, or `gcloud auth application-default login`"
                );
                return Err(no_key(&file, &why));
            }
        };
        let form: Vec<String> =
            fields.iter().map(|(name, value)| format!("{name}={}", encoded(value, ""))).collect();
        let what = format!("the token service {service}");
        let reply = self.web.change(service, HttpChange::PostForm(&form.join("&")));
        bearer(&answer(reply, &what)?, &what)
    }

    /// A machine without an agent has no token: that is not an error, a public file needs none.
    fn of_instance(&self, host: &str) -> Found<Fetched<Option<RequestHeader>>> {
        let url = format!("{host}/computeMetadata/v1/instance/service-accounts/default/token");
        let flavor = RequestHeader { name: "metadata-flavor", value: "Google".to_string() };
        match self.web.get_soon(&url, &[flavor], AGENT_MAX) {
            Ok(reply) if reply.status != 404 => {
                let what = format!("the agent of this machine at {host}");
                bearer(&answer(Ok(reply), &what)?, &what)
            }
            _ => Ok(Fetched::lasting(None)),
        }
    }
}

/// A signed statement of a service account that its holder asks for a token; `None` if the key is not one.
fn assertion(email: &str, key: &str, service: &str, seconds: u64) -> Option<String> {
    let head = json!({"alg": "RS256", "typ": "JWT"});
    let claims = json!({"iss": email, "scope": SCOPE, "aud": service, "iat": seconds, "exp": seconds + TOKEN_SECONDS});
    let text = [head, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
    let key = PrivatePkcs8KeyDer::from_pem_slice(key.as_bytes()).ok()?;
    let key = rsa::KeyPair::from_pkcs8(key.secret_pkcs8_der()).ok()?;
    let mut signed = vec![0; key.public().modulus_len()];
    let random = rand::SystemRandom::new();
    key.sign(&signature::RSA_PKCS1_SHA256, &random, text.as_bytes(), &mut signed).ok()?;
    Some(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signed)))
}

/// A bucket.
#[derive(Debug)]
pub(super) struct GoogleBucket {
    /// The address of its objects.
    objects: String,
    tokens: Arc<GoogleTokens>,
    web: Arc<Web>,
}

impl GoogleBucket {
    pub(super) fn new(name: &str, access: &GoogleAccess, tokens: Arc<GoogleTokens>) -> Self {
        let endpoint = access.endpoint.as_deref().unwrap_or(ENDPOINT).trim_end_matches('/');
        let endpoint = if endpoint.contains("://") {
            endpoint.to_string()
        } else {
            format!("http://{endpoint}")
        };
        let objects = format!("{endpoint}/storage/v1/b/{}/o", encoded(name, ""));
        let web = tokens.web.clone();
        Self { objects, tokens, web }
    }

    fn get(&self, url: &str, range: Option<RequestHeader>) -> Found<Reply> {
        let headers: Vec<RequestHeader> = range.into_iter().chain(self.tokens.header()?).collect();
        self.web.get(url, &headers)
    }

    /// Adds to a refusal that the request had no token, if so.
    fn hint(&self, failure: StoreFailure) -> StoreFailure {
        match failure {
            StoreFailure::Lasting(what) if matches!(self.tokens.header(), Ok(None)) => {
                StoreFailure::Lasting(format!(
                    "{what} (the request had no token: neither GOOGLE_APPLICATION_CREDENTIALS nor a login of gcloud nor the agent of \
                     this machine gave one)"
                ))
            }
            other => other,
        }
    }
}

impl ObjectList for GoogleBucket {
    fn list(&self, prefix: &str, next: Option<&str>) -> Found<KeyList> {
        let mut url = format!("{}?prefix={}", self.objects, encoded(prefix, ""));
        if let Some(next) = next {
            url += &format!("&pageToken={}", encoded(next, ""));
        }
        let reply = self.get(&url, None)?;
        if reply.status != 200 {
            return Err(self.hint(reply.refusal()));
        }
        read_list(&reply.text()?)
    }
}

/// A page of a list: `{"items": [{"name": …}], "nextPageToken": …}`.
pub(super) fn read_list(text: &str) -> Found<KeyList> {
    let json: Json = serde_json::from_str(text).unwrap_or_default();
    if !json.is_object() {
        let what = "the server sends something else than a list".to_string();
        return Err(StoreFailure::Lasting(what));
    }
    let items = json["items"].as_array().map_or(&[][..], Vec::as_slice);
    let names = items.iter().filter_map(|item| item["name"].as_str());
    let keys = names.filter(|name| !name.ends_with('/')).map(str::to_string).collect();
    let next = json["nextPageToken"].as_str().filter(|next| !next.is_empty());
    Ok(KeyList { keys, next: next.map(str::to_string) })
}

/// A file of a bucket.
#[derive(Debug)]
pub(super) struct GoogleObject {
    bucket: GoogleBucket,
    url: String,
}

impl GoogleObject {
    pub(super) fn new(name: ObjectName<'_>, bucket: GoogleBucket) -> Self {
        let url = format!("{}/{}?alt=media", bucket.objects, encoded(name.key, ""));
        Self { bucket, url }
    }
}

impl StoreFile for GoogleObject {
    fn open(&self, from: u64, to: Option<u64>) -> Found<Opening> {
        let reply = self.bucket.get(&self.url, range(from, to))?;
        opening(reply).map_err(|failure| self.bucket.hint(failure))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_come_in_pages() {
        let page = r#"{"items": [{"name": "d/a b"}, {"name": "d/"}], "nextPageToken": "t"}"#;
        let list = read_list(page).unwrap();
        assert_eq!((list.keys, list.next.as_deref()), (vec!["d/a b".to_string()], Some("t")));
        assert_eq!(read_list("{}").unwrap().keys.len(), 0);
        assert!(read_list("[]").is_err() && read_list("<html>").is_err());
    }

    #[test]
    fn a_text_that_is_not_a_key_signs_nothing() {
        for key in ["", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"] {
            assert_eq!(assertion("a@b", key, TOKEN_SERVICE, 0), None);
        }
    }
}
