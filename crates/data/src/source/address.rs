//! The place of a file, from its name.

use crate::error::{Error, Result};

/// Where a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Address<'a> {
    Local(&'a str),
    Http(&'a str),
    S3(ObjectName<'a>),
    Google(ObjectName<'a>),
    Azure(BlobName<'a>),
    Hdfs(HdfsPath<'a>),
}

/// A file of an object store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ObjectName<'a> {
    pub(super) bucket: &'a str,
    pub(super) key: &'a str,
}

/// A file of Azure's blob storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlobName<'a> {
    /// `None`: the account of the environment.
    pub(super) account: Option<&'a str>,
    pub(super) container: &'a str,
    pub(super) blob: &'a str,
}

/// A file of a Hadoop file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HdfsPath<'a> {
    /// `host`, `host:port`, or nothing.
    pub(super) host: &'a str,
    pub(super) path: &'a str,
    pub(super) port: PortOf,
    /// Whether the name node is asked with TLS.
    pub(super) tls: bool,
}

/// The protocol at the port of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PortOf {
    /// HTTP, as the name says.
    Http,
    /// Perhaps HTTP, perhaps Hadoop's own protocol: `hdfs://` is written with both.
    Either,
}

const KNOWN: &str = "file://, http://, https://, s3://, s3a://, gs://, az://, abfs://, abfss://, hdfs://, webhdfs://, swebhdfs://";

impl<'a> Address<'a> {
    pub(super) fn of(name: &'a str) -> Result<Self> {
        let bad = |reason: String| Err(Error::BadAddress { file: name.to_string(), reason });
        let Some((scheme, rest)) = name.split_once(':') else { return Ok(Address::Local(name)) };
        let rest = rest.strip_prefix("//").unwrap_or(rest);
        match scheme {
            "http" | "https" if !rest.is_empty() => Ok(Address::Http(name)),
            "file" => Ok(Address::Local(rest)),
            "s3" | "s3a" | "s3n" => match object(rest) {
                Some(object) => Ok(Address::S3(object)),
                None => bad("expected s3://BUCKET/KEY".to_string()),
            },
            "gs" | "gcs" => match object(rest) {
                Some(object) => Ok(Address::Google(object)),
                None => bad("expected gs://BUCKET/NAME".to_string()),
            },
            "az" | "adl" | "abfs" | "abfss" | "wasb" | "wasbs" => match blob(rest) {
                Some(blob) => Ok(Address::Azure(blob)),
                None => bad(
                    "expected az://CONTAINER/NAME or abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/NAME"
                        .to_string(),
                ),
            },
            "hdfs" => Ok(Address::Hdfs(hdfs(rest, PortOf::Either, false))),
            "webhdfs" => Ok(Address::Hdfs(hdfs(rest, PortOf::Http, false))),
            "swebhdfs" => Ok(Address::Hdfs(hdfs(rest, PortOf::Http, true))),
            // A colon is allowed in the name of a file.
            _ if !name.contains("://") => Ok(Address::Local(name)),
            other => bad(format!("`{other}://` is not known here; known are {KNOWN}")),
        }
    }
}

/// `bucket/key`.
fn object(rest: &str) -> Option<ObjectName<'_>> {
    let (bucket, key) = rest.split_once('/')?;
    (!bucket.is_empty() && !key.is_empty()).then_some(ObjectName { bucket, key })
}

/// `container/name` or `container@account.host/name`.
fn blob(rest: &str) -> Option<BlobName<'_>> {
    let ObjectName { bucket, key: blob } = object(rest)?;
    let (container, host) = bucket.split_once('@').unwrap_or((bucket, ""));
    let account = host.split('.').next().filter(|account| !account.is_empty());
    let is_whole = !container.is_empty() && (account.is_some() || !bucket.contains('@'));
    is_whole.then_some(BlobName { account, container, blob })
}

/// `host:port/path`; a path that begins at once has no host.
fn hdfs(rest: &str, port: PortOf, tls: bool) -> HdfsPath<'_> {
    let at = rest.find('/').unwrap_or(rest.len());
    let path = if at == rest.len() { "/" } else { &rest[at..] };
    HdfsPath { host: &rest[..at], path, port, tls }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_where_files_are() {
        let local = ["part-0", "/a/b", "./a:b", "C:x", "a b"];
        local.iter().for_each(|name| assert_eq!(Address::of(name).unwrap(), Address::Local(name)));
        assert_eq!(Address::of("file:///a/b").unwrap(), Address::Local("/a/b"));
        let object = Address::S3(ObjectName { bucket: "b", key: "k/l m" });
        assert_eq!(Address::of("s3://b/k/l m").unwrap(), object);
        assert_eq!(Address::of("s3a://b/k/l m").unwrap(), object);
        let object = ObjectName { bucket: "b", key: "k/l m" };
        assert_eq!(Address::of("gs://b/k/l m").unwrap(), Address::Google(object));
        let blob = |account| Address::Azure(BlobName { account, container: "c", blob: "n/m" });
        assert_eq!(Address::of("az://c/n/m").unwrap(), blob(None));
        assert_eq!(Address::of("abfss://c@a.dfs.core.windows.net/n/m").unwrap(), blob(Some("a")));
        let hdfs = |host, path, port, tls| Address::Hdfs(HdfsPath { host, path, port, tls });
        let names = [
            ("hdfs://n:9000/a/b", hdfs("n:9000", "/a/b", PortOf::Either, false)),
            ("hdfs:/a", hdfs("", "/a", PortOf::Either, false)),
            ("hdfs:///a", hdfs("", "/a", PortOf::Either, false)),
            ("webhdfs://n", hdfs("n", "/", PortOf::Http, false)),
            ("swebhdfs://n:1/a", hdfs("n:1", "/a", PortOf::Http, true)),
        ];
        names.iter().for_each(|(name, address)| assert_eq!(Address::of(name).unwrap(), *address));
        assert_eq!(Address::of("http://h/a?b").unwrap(), Address::Http("http://h/a?b"));
    }

    #[test]
    fn other_places_are_refused_by_name() {
        for name in [
            "gs://b",
            "az://c",
            "abfss://c@/n",
            "abfss://@a.dfs/n",
            "s3://b",
            "s3:///k",
            "s3://b/",
            "ftp://h/x",
        ] {
            assert!(matches!(Address::of(name), Err(Error::BadAddress { .. })), "{name}");
        }
    }
}
