//! Signatures of S3 requests (AWS Signature Version 4).

use std::time::{SystemTime, UNIX_EPOCH};

use ring::{digest, hmac};

use super::s3_keys::S3Key;
use super::web::RequestHeader;

/// The SHA-256 of nothing: requests here have no body.
const NO_BODY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// A request to be signed.
#[derive(Debug)]
pub(super) struct Unsigned<'a> {
    pub(super) host: &'a str,
    /// Encoded as it is sent.
    pub(super) path: &'a str,
    /// Encoded, its parts sorted.
    pub(super) query: &'a str,
    pub(super) range: Option<RequestHeader>,
}

/// A moment as signatures write it: `20130524T000000Z`.
#[derive(Clone, Debug)]
pub(super) struct SignedTime(String);

impl SignedTime {
    /// The present, by the clock of the machine: servers refuse a signature of another hour.
    pub(super) fn now() -> Self {
        Self::from_seconds(seconds_since_1970())
    }

    fn from_seconds(seconds: u64) -> Self {
        let (days, rest) = (seconds / 86_400, seconds % 86_400);
        let hour = rest / 3600;
        let minute = rest / 60 % 60;
        let second = rest % 60;
        // Days are counted from the first of March of year 0, so that leap days come last.
        let day = days + 719_468;
        let era = day / 146_097;
        let of_era = day % 146_097;
        let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        let year = year + era * 400 + u64::from(month <= 2);
        Self(format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z"))
    }

    fn day(&self) -> &str {
        &self.0[..8]
    }
}

/// The present, by the clock of the machine.
pub(super) fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The headers of a signed request.
pub(super) fn sign(
    request: Unsigned<'_>,
    key: &S3Key,
    region: &str,
    time: &SignedTime,
) -> Vec<RequestHeader> {
    let header = |name, value: &str| RequestHeader { name, value: value.to_string() };
    let mut headers = vec![header("host", request.host)];
    headers.extend(request.range);
    headers.push(header("x-amz-content-sha256", NO_BODY));
    headers.push(header("x-amz-date", &time.0));
    headers.extend(key.token.as_deref().map(|token| header("x-amz-security-token", token)));
    let names: Vec<&str> = headers.iter().map(|header| header.name).collect();
    let names = names.join(";");
    let lines: String =
        headers.iter().map(|RequestHeader { name, value }| format!("{name}:{value}\n")).collect();
    let (path, query) = (request.path, request.query);
    let canonical = format!("GET\n{path}\n{query}\n{lines}\n{names}\n{NO_BODY}");
    let scope = format!("{}/{region}/s3/aws4_request", time.day());
    let hashed = hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
    let text = format!("AWS4-HMAC-SHA256\n{}\n{scope}\n{hashed}", time.0);
    let mut secret = format!("AWS4{}", key.secret).into_bytes();
    for part in [time.day(), region, "s3", "aws4_request"] {
        secret = mac(&secret, part.as_bytes());
    }
    let signature = hex(&mac(&secret, text.as_bytes()));
    let id = &key.id;
    let value = format!(
        "AWS4-HMAC-SHA256 Credential={id}/{scope}, SignedHeaders={names}, Signature={signature}"
    );
    headers.push(header("authorization", &value));
    headers
}

fn mac(key: &[u8], text: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(token: Option<&str>) -> S3Key {
        S3Key {
            id: "AKIAIOSFODNN7EXAMPLE".to_string(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_string(),
            token: token.map(str::to_string),
        }
    }

    fn signature(path: &str, query: &str, range: Option<&str>) -> String {
        let host = "examplebucket.s3.amazonaws.com";
        let range = range.map(|value| RequestHeader { name: "range", value: value.to_string() });
        let request = Unsigned { host, path, query, range };
        let time = SignedTime("20130524T000000Z".to_string());
        let headers = sign(request, &key(None), "us-east-1", &time);
        let last = headers.last().unwrap().value.clone();
        last.rsplit_once("Signature=").unwrap().1.to_string()
    }

    /// The examples of the S3 documentation ("Signature Calculations for the Authorization Header").
    #[test]
    fn signatures_are_those_of_the_documentation() {
        let expected = [
            (
                "/test.txt",
                "",
                Some("bytes=0-9"),
                "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
            ),
            (
                "/",
                "lifecycle=",
                None,
                "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
            ),
            (
                "/",
                "max-keys=2&prefix=J",
                None,
                "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
            ),
        ];
        for (path, query, range, wanted) in expected {
            assert_eq!(signature(path, query, range), wanted, "{path}?{query}");
        }
    }

    #[test]
    fn a_token_is_signed_too() {
        let request = Unsigned { host: "h", path: "/", query: "", range: None };
        let headers = sign(request, &key(Some("t")), "r", &SignedTime::from_seconds(0));
        let last = &headers.last().unwrap().value;
        assert!(last.contains("x-amz-date;x-amz-security-token,"), "{last}");
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        let days = [
            (0, "19700101T000000Z"),
            (1_369_353_600, "20130524T000000Z"),
            (951_782_399, "20000228T235959Z"),
            (951_868_799, "20000229T235959Z"),
            (1_709_164_800, "20240229T000000Z"),
            (4_107_542_399, "21000228T235959Z"),
            (4_107_542_400, "21000301T000000Z"),
        ];
        days.iter()
            .for_each(|(seconds, text)| assert_eq!(SignedTime::from_seconds(*seconds).0, *text));
    }
}
