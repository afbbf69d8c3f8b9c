//! Answers of services that give tokens.

use std::path::Path;
use std::time::Duration;

use serde_json::Value as Json;

use super::expiring::{Fetched, Found};
use super::tries::StoreFailure;
use super::web::{Reply, RequestHeader};

/// How long an agent of a container or machine may take to answer: it is near, or it does not exist.
pub(super) const AGENT_MAX: Duration = Duration::from_secs(2);

/// The text of a good answer; errors name the service.
pub(super) fn answer(reply: Found<Reply>, service: &str) -> Found<String> {
    let named = |failure| match failure {
        StoreFailure::Passing(why) => {
            StoreFailure::Passing(format!("{service} gave no key: {why}"))
        }
        StoreFailure::Lasting(why) | StoreFailure::Missing(why) => no_key(service, &why),
    };
    let reply = reply.map_err(named)?;
    if reply.status == 200 { reply.text().map_err(named) } else { Err(named(reply.refusal())) }
}

/// A failure that another try does not change.
pub(super) fn no_key(service: &str, why: &str) -> StoreFailure {
    StoreFailure::Lasting(format!("{service} gave no key: {why}"))
}

/// The text of a file with a token.
pub(super) fn read_token(path: &Path) -> Found<String> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        StoreFailure::Lasting(format!("cannot read the token file {}: {error}", path.display()))
    })?;
    Ok(text.trim().to_string())
}

/// The header of a token: `{"access_token": …, "expires_in": seconds}`. Some services write the seconds as text.
pub(super) fn bearer(text: &str, service: &str) -> Found<Fetched<Option<RequestHeader>>> {
    let json: Json = serde_json::from_str(text).unwrap_or_default();
    let Some(token) = json["access_token"].as_str().filter(|token| !token.is_empty()) else {
        return Err(no_key(service, "its answer has no access_token"));
    };
    let seconds = &json["expires_in"];
    let seconds = seconds.as_u64().or_else(|| seconds.as_str().and_then(|text| text.parse().ok()));
    let lasts = seconds.map(Duration::from_secs);
    let header = RequestHeader { name: "authorization", value: format!("Bearer {token}") };
    Ok(Fetched { value: Some(header), lasts })
}
