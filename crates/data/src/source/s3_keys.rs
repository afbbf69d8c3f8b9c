//! Keys that sign S3 requests: keys of the user, and temporary keys that a container, a machine or a token file stands for.
//!
//! All files of a pass share one key.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use super::expiring::{Expiring, Fetched, Found};
use super::s3::encoded;
use super::sign::seconds_since_1970;
use super::tokens::{AGENT_MAX, answer, no_key, read_token};
use super::web::{HttpChange, RequestHeader, Web, element};
use crate::times::time_of_text;

/// How long a token of the instance's agent is valid; a new one is fetched with every key.
const AGENT_TOKEN_SECONDS: &str = "300";

/// An access key.
#[derive(Clone, PartialEq, Eq)]
pub struct S3Key {
    /// Its public part.
    pub id: String,
    /// Its secret part.
    pub secret: String,
    /// The session of a temporary key.
    pub token: Option<String>,
}

/// The secret is not shown.
impl fmt::Debug for S3Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "S3Key({})", self.id)
    }
}

/// The source of the key that signs requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum S3KeySource {
    /// Requests are not signed: only public files can be read.
    #[default]
    Unsigned,
    /// A key of the environment or of a profile.
    Fixed(S3Key),
    /// The agent of a container (ECS, EKS Pod Identity).
    Container(ContainerAgent),
    /// The agent of a machine (EC2, version 2 of its protocol) at `http://host`. A machine without one sends unsigned requests.
    Instance(String),
    /// A token file, for which the token service gives a key.
    WebIdentity(WebIdentity),
}

/// The agent of a container.
#[derive(Clone, PartialEq, Eq)]
pub struct ContainerAgent {
    /// Its address.
    pub url: String,
    /// The value of the header `Authorization`.
    pub token: Option<String>,
    /// A file with that value, read again for each request.
    pub token_file: Option<PathBuf>,
}

/// The token is not shown.
impl fmt::Debug for ContainerAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContainerAgent({})", self.url)
    }
}

/// An identity that another service vouches for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebIdentity {
    /// `https://host` of the token service; none: the one of the region.
    pub endpoint: Option<String>,
    /// The role to take.
    pub role: String,
    /// The name of the session in the store's log.
    pub session: String,
    /// The file with the token, read again for each key.
    pub token_file: PathBuf,
}

/// The keys of a pass.
#[derive(Debug)]
pub(super) struct S3Keys {
    source: S3KeySource,
    region: String,
    web: Arc<Web>,
    held: Expiring<Option<S3Key>>,
}

type TemporaryKey = Fetched<Option<S3Key>>;

impl S3Keys {
    pub(super) fn new(source: S3KeySource, region: &str, web: Arc<Web>) -> Self {
        Self { source, region: region.to_string(), web, held: Expiring::default() }
    }

    /// The key for a request; none if requests are not signed.
    pub(super) fn key(&self) -> Found<Option<S3Key>> {
        match &self.source {
            S3KeySource::Unsigned => Ok(None),
            S3KeySource::Fixed(key) => Ok(Some(key.clone())),
            _ => self.held.get(Instant::now(), || self.fetch()),
        }
    }

    /// Advice for a request that was refused without a signature.
    pub(super) fn advice(&self) -> &'static str {
        match &self.source {
            S3KeySource::Instance(_) => {
                "the request was not signed: neither AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY nor a profile nor a web identity \
                 nor a container's agent was found, and the agent of this machine gave no key"
            }
            _ => {
                "the request was not signed: neither AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY nor a profile was found"
            }
        }
    }

    fn fetch(&self) -> Found<TemporaryKey> {
        match &self.source {
            S3KeySource::Container(agent) => self.of_container(agent),
            S3KeySource::Instance(host) => self.of_instance(host),
            S3KeySource::WebIdentity(identity) => self.of_identity(identity),
            S3KeySource::Unsigned | S3KeySource::Fixed(_) => Ok(TemporaryKey::lasting(None)),
        }
    }

    fn of_container(&self, agent: &ContainerAgent) -> Found<TemporaryKey> {
        let token = match &agent.token_file {
            Some(path) => Some(read_token(path)?),
            None => agent.token.clone(),
        };
        let headers: Vec<RequestHeader> =
            token.map(|value| RequestHeader { name: "authorization", value }).into_iter().collect();
        let what = format!("the container's agent at {}", agent.url);
        let text = answer(self.web.get_soon(&agent.url, &headers, AGENT_MAX), &what)?;
        key_of_json(&text, &what)
    }

    /// A machine without an agent has no key: that is not an error, a public file needs none.
    fn of_instance(&self, host: &str) -> Found<TemporaryKey> {
        let nothing = TemporaryKey::lasting(None);
        let what = format!("the agent of this machine at {host}");
        let seconds = RequestHeader {
            name: "x-aws-ec2-metadata-token-ttl-seconds",
            value: AGENT_TOKEN_SECONDS.to_string(),
        };
        let put = HttpChange::PutSoon { header: &seconds, within: AGENT_MAX };
        let Ok(reply) = self.web.change(&format!("{host}/latest/api/token"), put) else {
            return Ok(nothing);
        };
        if reply.status != 200 {
            return Ok(nothing);
        }
        let token = RequestHeader { name: "x-aws-ec2-metadata-token", value: reply.text()? };
        let folder = format!("{host}/latest/meta-data/iam/security-credentials/");
        let roles = self.web.get_soon(&folder, std::slice::from_ref(&token), AGENT_MAX)?;
        if roles.status == 404 {
            return Ok(nothing);
        }
        let roles = answer(Ok(roles), &what)?;
        let Some(role) = roles.lines().map(str::trim).find(|role| !role.is_empty()) else {
            return Ok(nothing);
        };
        let url = format!("{folder}{}", encoded(role, ""));
        let text = answer(self.web.get_soon(&url, &[token], AGENT_MAX), &what)?;
        key_of_json(&text, &what)
    }

    fn of_identity(&self, identity: &WebIdentity) -> Found<TemporaryKey> {
        let token = read_token(&identity.token_file)?;
        let end = if self.region.starts_with("cn-") { ".cn" } else { "" };
        let host = identity.endpoint.as_deref().map_or_else(
            || format!("https://sts.{}.amazonaws.com{end}", self.region),
            |endpoint| endpoint.trim_end_matches('/').to_string(),
        );
        let form = [
            ("Action", "AssumeRoleWithWebIdentity"),
            ("Version", "2011-06-15"),
            ("RoleArn", identity.role.as_str()),
            ("RoleSessionName", identity.session.as_str()),
            ("WebIdentityToken", token.as_str()),
        ]
        .map(|(name, value)| format!("{name}={}", encoded(value, "")))
        .join("&");
        let what = format!("the token service at {host}");
        let text =
            answer(self.web.change(&format!("{host}/"), HttpChange::PostForm(&form)), &what)?;
        let part = |name| element(&text, name).trim().to_string();
        let parts = KeyParts {
            id: part("AccessKeyId"),
            secret: part("SecretAccessKey"),
            token: part("SessionToken"),
            until: part("Expiration"),
        };
        parts.key(&what)
    }
}

/// A key as services write it.
struct KeyParts {
    id: String,
    secret: String,
    token: String,
    until: String,
}

impl KeyParts {
    fn key(self, what: &str) -> Found<TemporaryKey> {
        if self.id.is_empty() || self.secret.is_empty() {
            return Err(no_key(what, "its answer has no AccessKeyId and SecretAccessKey"));
        }
        let until = time_of_text(&self.until).map(|micros| micros / 1_000_000);
        let left = until.map(|until| until.saturating_sub_unsigned(seconds_since_1970()));
        let lasts = left.map(|left| Duration::from_secs(u64::try_from(left).unwrap_or(0)));
        let token = Some(self.token).filter(|token| !token.is_empty());
        let key = S3Key { id: self.id, secret: self.secret, token };
        Ok(TemporaryKey { value: Some(key), lasts })
    }
}

fn key_of_json(text: &str, what: &str) -> Found<TemporaryKey> {
    let json: Json = serde_json::from_str(text).unwrap_or_default();
    let part = |name: &str| json[name].as_str().unwrap_or_default().to_string();
    let parts = KeyParts {
        id: part("AccessKeyId"),
        secret: part("SecretAccessKey"),
        token: part("Token"),
        until: part("Expiration"),
    };
    parts.key(what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::tries::StoreFailure;

    #[test]
    fn secrets_are_not_shown() {
        let key = S3Key { id: "id".into(), secret: "hush".into(), token: Some("hush".into()) };
        let agent = ContainerAgent {
            url: "http://127.0.0.1/".into(),
            token: Some("hush".into()),
            token_file: None,
        };
        assert_eq!(format!("{key:?} {agent:?}"), "S3Key(id) ContainerAgent(http://127.0.0.1/)");
    }

    #[test]
    fn an_answer_without_a_key_names_its_service() {
        let good = r#"{"AccessKeyId":"a","SecretAccessKey":"b","Token":"c","Expiration":"1970-01-01T00:00:10Z"}"#;
        let found = key_of_json(good, "the agent").unwrap();
        assert_eq!(found.lasts, Some(Duration::ZERO), "it has expired");
        assert_eq!(found.value.unwrap().token.as_deref(), Some("c"));
        for bad in ["", "{}", "[1]", r#"{"AccessKeyId":"a"}"#] {
            let failure = key_of_json(bad, "the agent").unwrap_err();
            assert!(
                matches!(&failure, StoreFailure::Lasting(why) if why.starts_with("the agent")),
                "{bad}"
            );
        }
    }
}
